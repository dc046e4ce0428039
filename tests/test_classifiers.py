from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import MODELS

from semclass import InputError, InputTypeError, PassageClassifier, QuestionClassifier, TruncationWarning, bulk
from semclass.taxonomy import COARSE, coarse_of

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


@pytest.fixture(scope="module", params=["coarse", "fine"])
def classifier(request, encoder):
    return QuestionClassifier.load(MODELS, level=request.param, encoder=encoder)


def test_plain_questions_get_their_class(classifier):
    for found, (question, label) in zip(classifier.predict(QUESTIONS), QUESTIONS.items(), strict=True):
        assert found.text == question
        assert found.label == (label if len(classifier.classes) > 6 else coarse_of(label))


def test_probabilities_sum_to_one_and_the_largest_names_the_label(classifier):
    for found in classifier.predict(QUESTIONS):
        assert sum(found.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert found.probability == max(found.probabilities.values()) == found.probabilities[found.label]
        assert tuple(found.probabilities) == classifier.classes


def test_the_classes_are_those_of_the_taxonomy(encoder):
    assert QuestionClassifier.load(MODELS, encoder=encoder).classes == COARSE
    fine = QuestionClassifier.load(MODELS, level="fine", encoder=encoder).classes
    assert len(fine) == 50
    assert {coarse_of(label) for label in fine} == set(COARSE)


def test_one_and_many_give_the_same(classifier):
    texts = list(QUESTIONS)
    together = classifier.predict_proba(texts)
    for row, text in zip(together, texts, strict=True):
        np.testing.assert_allclose(classifier.predict_proba([text])[0], row, atol=1e-5)
    assert classifier.predict([]) == []
    assert classifier.predict_proba([]).shape == (0, len(classifier.classes))


def test_scores_of_the_shipped_heads_are_what_they_were(encoder):
    # golden values: a change of encoder, head or runtime that moves a probability by more than 0.01 must be meant
    golden = json.loads((MODELS.parent / "tests" / "golden.json").read_text())
    for level in ("coarse", "fine"):
        found = QuestionClassifier.load(MODELS, level=level, encoder=encoder).predict(golden["questions"])
        assert [item.label for item in found] == golden[level]["labels"]
        np.testing.assert_allclose([item.probability for item in found], golden[level]["probabilities"], atol=0.01)
    passages = PassageClassifier.load(MODELS, encoder=encoder).predict_proba(golden["passages"])
    np.testing.assert_allclose(passages, golden["passage_probabilities"], atol=0.01)


@pytest.mark.parametrize(
    ("texts", "error"),
    [("Who?", InputTypeError), ([""], InputError), ([3], InputTypeError), (None, InputTypeError)],
    ids=["bare string", "empty", "number", "none"],
)
def test_what_is_no_question_is_refused(classifier, texts, error):
    with pytest.raises(error, match="questions"):
        classifier.predict(texts)


def test_coarse_and_fine_always_agree(encoder):
    coarse, fine = (QuestionClassifier.load(MODELS, level=level, encoder=encoder) for level in ("coarse", "fine"))
    for above, below in zip(coarse.predict(QUESTIONS), fine.predict(QUESTIONS), strict=True):
        for name, probability in above.probabilities.items():
            parts = [value for label, value in below.probabilities.items() if coarse_of(label) == name]
            assert probability == pytest.approx(sum(parts), abs=1e-6)


def test_many_questions_of_many_lengths_stay_in_order(classifier):
    texts = [f"Who wrote {'the very ' * (number % 7)}long book {number}?" for number in range(90)]
    together = classifier.predict_proba(texts)
    for row in (0, 6, 31, 32, 89):
        np.testing.assert_allclose(classifier.predict_proba([texts[row]])[0], together[row], atol=1e-4)


def test_more_texts_than_fit_in_memory_are_classified_in_parts_with_one_warning(classifier, monkeypatch):
    texts = [f"Who wrote book {number}?" for number in range(9)] + ["word " * 300, "What? " * 200]
    with pytest.warns(TruncationWarning):
        at_once = classifier.predict_proba(texts)
    monkeypatch.setattr(bulk, "CHUNK", 4)
    with pytest.warns(TruncationWarning, match="2 of 11 texts are longer .*number 10") as caught:
        in_parts = classifier.predict_proba(texts)
    assert len(caught) == 1
    np.testing.assert_allclose(in_parts, at_once, atol=1e-4)


def test_an_unknown_level_is_refused(encoder):
    with pytest.raises(InputError, match="level is 'medium'; it must be one of 'coarse', 'fine'"):
        QuestionClassifier.load(MODELS, level="medium", encoder=encoder)


def test_a_passage_may_provide_several_types(ranker):
    (found,) = ranker.passages.predict(
        ["The Sandrey Bay Maritime Trust (SBMT) was founded in 1921 by Helena Voss in the town of Marrick."]
    )
    assert {"ABBR", "HUM", "LOC", "NUM"} <= set(found.labels)
    assert tuple(found.probabilities) == COARSE


def test_labels_are_the_classes_that_reach_their_threshold(ranker, corpus):
    thresholds = dict(zip(ranker.passages.classes, ranker.passages.thresholds, strict=True))
    for found in ranker.passages.predict([passage.text for passage in corpus]):
        assert set(found.labels) == {name for name, p in found.probabilities.items() if p >= thresholds[name]}


def test_trec_test_questions_reach_what_the_manifest_says(classifier, data_folder):
    rows = [line.split("\t") for line in (data_folder / "trec" / "test.tsv").read_text().splitlines()[1:]]
    fine = len(classifier.classes) > 6
    wanted = [f"{row[0]}:{row[1]}" if fine else row[0] for row in rows]
    found = [item.label for item in classifier.predict([row[2] for row in rows])]
    accuracy = np.mean([a == b for a, b in zip(found, wanted, strict=True)])
    assert accuracy >= (0.89 if fine else 0.966)
    stated = classifier.head.artifact.manifest["metrics"]["test"]["fine" if fine else "coarse"]
    assert accuracy == pytest.approx(stated["accuracy"], abs=0.005)
