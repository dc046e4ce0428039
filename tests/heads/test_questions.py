from __future__ import annotations

import numpy as np
import pytest
from world import MODELS

from semclass import InputError, QuestionClassifier, TruncationWarning
from semclass.core.types import COARSE, coarse_of
from semclass.encoders import batching

QUESTIONS = {
    "What does NASA stand for?": "ABBR:exp",
    "What is an atom?": "DESC:def",
    "How does a refrigerator work?": "DESC:manner",
    "Why is the sky blue?": "DESC:reason",
    "What is the fastest animal on land?": "ENTY:animal",
    "Who wrote Hamlet?": "HUM:ind",
    "What is the capital of Peru?": "LOC:city",
    "How many moons does Mars have?": "NUM:count",
    "When did the war end?": "NUM:date",
}


@pytest.fixture(scope="module")
def classifier(encoder):
    return QuestionClassifier.load(MODELS, encoder=encoder)


def test_plain_questions_get_their_class(classifier):
    for found, (question, label) in zip(classifier.classify(QUESTIONS), QUESTIONS.items(), strict=True):
        assert (found.text, found.label, found.fine) == (question, coarse_of(label), label)


def test_the_classes_are_those_of_the_taxonomy(classifier):
    assert classifier.classes == COARSE
    assert len(classifier.fine_classes) == 50


def test_coarse_and_fine_always_agree(classifier):
    # the last ones lie between classes: the best fine class of all may belong to another coarse one
    for found in classifier.classify([*QUESTIONS, "amber", "what about the tower", "Name it.", "is it so"]):
        assert coarse_of(found.fine) == found.label
        assert found.probability == max(found.probabilities.values()) == found.probabilities[found.label]
        assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-5)
        for name, probability in found.probabilities.items():
            parts = {label: value for label, value in found.fine_probabilities.items() if coarse_of(label) == name}
            assert probability == pytest.approx(sum(parts.values()), abs=1e-6)
            assert name != found.label or found.fine_probability == max(parts.values())


def test_many_texts_are_classified_in_parts_with_one_warning(classifier, monkeypatch):
    texts = [f"Who wrote book {number}?" for number in range(9)] + ["word-" * 300, "What?" * 200]
    with pytest.warns(TruncationWarning, match="than the 254 word pieces .*number 10, with 600") as caught:
        at_once = classifier.predict_proba(texts)
    assert [(item.filename, item.message.rows) for item in caught] == [(__file__, (9, 10))]
    monkeypatch.setattr(batching, "CHUNK", 4)
    with pytest.warns(TruncationWarning, match="2 of 11 texts are longer .*number 10") as caught:
        in_parts = classifier.predict_proba(texts)
    assert len(caught) == 1
    np.testing.assert_allclose(in_parts, at_once, atol=1e-4)


def test_a_passage_may_provide_several_types(models):
    (found,) = models.passages.classify(
        ["The Sandrey Bay Maritime Trust (SBMT) was founded in 1921 by Helena Voss in the town of Marrick."]
    )
    assert {"ABBR", "HUM", "LOC", "NUM"} <= set(found.labels)
    assert tuple(found.probabilities) == COARSE


def test_an_unknown_level_is_refused(classifier):
    with pytest.raises(InputError, match="level is 'medium'"):
        classifier.predict_proba(["Who?"], level="medium")


def test_trec_questions_reach_what_the_manifest_says(classifier, data_folder):
    rows = [line.split("\t") for line in (data_folder / "trec" / "test.tsv").read_text().splitlines()[1:]]
    found = classifier.classify([row[2] for row in rows])
    coarse = np.mean([item.label == row[0] for item, row in zip(found, rows, strict=True)])
    fine = np.mean([item.fine == f"{row[0]}:{row[1]}" for item, row in zip(found, rows, strict=True)])
    stated = classifier.head.artifact.manifest["metrics"]["test"]
    assert coarse == pytest.approx(stated["coarse"]["accuracy"], abs=0.005)
    assert fine == pytest.approx(stated["fine"]["accuracy"], abs=0.005)
