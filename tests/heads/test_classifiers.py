"""Contracts of every classifier, in the manner of scikit-learn's ``check_estimator``."""

from __future__ import annotations

import numpy as np
import pytest
from world import MODELS

from semclass import (
    ABSTAIN,
    EncoderMismatchError,
    EntailmentClassifier,
    InputError,
    InputTypeError,
    PassageClassifier,
    QuestionClassifier,
    TextClassifier,
    TextModel,
    TruncationWarning,
    ZeroShotClassifier,
)

QUESTION = "Who designed the bridge?"
TEXTS = [QUESTION, "The bridge was designed by Emily Warren.", "It is 503 metres long.", "bananas"]
TOPICS = {"length": "How long something is.", "person": "Who did something."}
LOADED = {
    "questions": QuestionClassifier,
    "passages": PassageClassifier,
    "entailment": EntailmentClassifier,
}
ALL = (*LOADED, "zero-shot", "fitted", "saved", "scope")


@pytest.fixture(scope="module")
def classifiers(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    fitted = TextClassifier(encoder, cv=2).fit(TEXTS[:3] * 2, ["a", "b", "b"] * 2)
    fitted.save(folder)
    return {
        **{name: kind.load(MODELS, encoder=encoder) for name, kind in LOADED.items()},
        "zero-shot": ZeroShotClassifier.from_descriptions(TOPICS, encoder=encoder),
        "fitted": fitted,
        "saved": TextModel.load(folder, encoder=encoder),
        "scope": TextModel.load("in_scope", encoder=encoder),
    }


def items_of(name, texts):
    """Texts, as the classifier takes them."""
    return [(QUESTION, text) for text in texts] if name == "entailment" else list(texts)


@pytest.mark.parametrize("name", ALL)
def test_labels_probabilities_and_records_agree(classifiers, name):
    classifier, items = classifiers[name], items_of(name, TEXTS)
    labels, found = classifier.predict(items), classifier.classify(iter(items))
    probabilities = classifier.predict_proba(iter(items))
    assert probabilities.dtype == np.float64
    assert probabilities.shape == (len(items), len(classifier.classes))
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    if name in ("passages", "scope"):
        assert list(labels) == [one.labels for one in found]
        assert {label for some in labels for label in some} <= set(classifier.classes)
        return
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert list(labels) == [one.label for one in found]
    assert set(labels) <= set(classifier.classes)
    if name != "entailment":  # it has a threshold of its own
        assert [one.probability for one in found] == pytest.approx(probabilities.max(axis=1))
        assert list(found[0].probabilities) == list(classifier.classes)


@pytest.mark.parametrize("name", ALL)
def test_nothing_gives_nothing(classifiers, name):
    classifier = classifiers[name]
    assert list(classifier.predict([])) == classifier.classify([]) == []
    assert classifier.predict_proba([]).shape == (0, len(classifier.classes))


@pytest.mark.parametrize("name", ALL)
def test_neither_order_nor_company_matters(classifiers, name):
    classifier, items = classifiers[name], items_of(name, [*TEXTS, "a much longer text about bridges " * 9])
    together = classifier.predict_proba(items)
    np.testing.assert_allclose(classifier.predict_proba(items[::-1])[::-1], together, atol=5e-3)
    alone = np.concatenate([classifier.predict_proba([item]) for item in items])
    np.testing.assert_allclose(alone, together, atol=5e-3)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("wrong", ["Who?", [" "], [3], None, ["\ud800"]], ids=repr)
def test_what_is_no_text_is_refused(classifiers, name, wrong):
    wrong = items_of(name, wrong) if isinstance(wrong, list) else wrong
    for method in ("classify", "predict", "predict_proba"):
        with pytest.raises((InputError, InputTypeError)):
            getattr(classifiers[name], method)(wrong)


@pytest.mark.parametrize("name", ALL)
def test_long_texts_are_said_once(classifiers, name):
    with pytest.warns(TruncationWarning) as caught:
        classifiers[name].predict_proba(items_of(name, ["short", "bridge-" * 5000]))
    assert [(item.filename, item.message.rows) for item in caught] == [(__file__, (1,))]


@pytest.mark.parametrize("name", ["questions", "zero-shot", "saved"])
def test_below_the_least_probability_it_abstains(classifiers, name):
    free = classifiers[name].classify(TEXTS)
    strict = classifiers[name].classify(TEXTS, min_probability=1.0)
    assert {one.label for one in strict} == {ABSTAIN}
    assert [one.probabilities for one in strict] == [one.probabilities for one in free]
    with pytest.raises(InputError, match=r"min_probability is 1\.5"):
        classifiers[name].classify(TEXTS, min_probability=1.5)


@pytest.mark.parametrize("name", LOADED)
def test_another_encoder_is_refused(fake_encoder, name):
    with pytest.raises(EncoderMismatchError, match="trained for encoder"):
        LOADED[name].load(MODELS, encoder=fake_encoder)


def test_questions_keywords_and_requests_are_in_scope(classifiers):
    asked = ["Who wrote Hamlet?", "symptoms of measles", "Show me the minutes of the last meeting."]
    told = ["Tell me a joke", "hello there", "Turn off the lights in the kitchen.", "I am so tired today."]
    found = classifiers["scope"].predict_proba([*asked, *told])[:, 0]
    assert found[: len(asked)].min() > found[len(asked) :].max()
    assert classifiers["scope"].predict(asked) == [("in scope",)] * len(asked)
