"""All classifiers have one shape: `classify` gives records, `predict` labels, `predict_proba` a column for each class."""

from __future__ import annotations

import pytest
from world import MODELS

from semclass import (
    EntailmentClassifier,
    PassageClassifier,
    QuestionClassifier,
    ScopeClassifier,
    TextClassifier,
    ZeroShotClassifier,
)

TEXTS = ["Who designed the bridge?", "The bridge was designed by Emily Warren.", "It is 503 metres long."]
TOPICS = {"length": "How long something is.", "person": "Who did something."}


def fitted(encoder, _):
    return TextClassifier(encoder, cv=2).fit(TEXTS + TEXTS, ["a", "b", "b"] * 2)


def loaded(encoder, folder):
    fitted(encoder, folder).save(folder)
    return TextClassifier.load(folder, encoder=encoder)


MADE = {
    "questions": lambda encoder, _: QuestionClassifier.load(MODELS, encoder=encoder),
    "passages": lambda encoder, _: PassageClassifier.load(MODELS, encoder=encoder),
    "entailment": lambda encoder, _: EntailmentClassifier.load(MODELS, encoder=encoder),
    "scope": lambda encoder, _: ScopeClassifier.load(MODELS, encoder=encoder),
    "described": lambda encoder, _: ZeroShotClassifier.from_descriptions(TOPICS, encoder=encoder),
    "fitted": fitted,
    "loaded": loaded,
}


@pytest.mark.parametrize("name", MADE)
def test_labels_probabilities_and_records_agree(name, encoder, tmp_path):
    classifier = MADE[name](encoder, tmp_path)
    items = [(TEXTS[0], text) for text in TEXTS[1:]] if name == "entailment" else TEXTS
    labels, probabilities, records = (
        run(items) for run in (classifier.predict, classifier.predict_proba, classifier.classify)
    )
    assert probabilities.shape == (len(items), len(classifier.classes))
    if name == "passages":
        assert labels == [found.labels for found in records]
        assert {label for some in labels for label in some} <= set(classifier.classes)
    else:
        assert list(labels) == [found.label for found in records]
        assert set(labels) <= set(classifier.classes)
    assert list(classifier.predict([])) == []
