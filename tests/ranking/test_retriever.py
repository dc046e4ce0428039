"""Searches of an index: what is found, in which order, and by which weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from semclass import (
    EncoderMismatchError,
    HybridRetriever,
    InputError,
    InputTypeError,
    Passage,
    QuestionClassifier,
    SkippedWarning,
)
from semclass.ranking.methods import METHODS
from semclass.scoring.fusion import ALPHA

QUESTION = "Who designed the lighthouse?"
PAINTED = [("door", "green"), ("fence", "blue"), ("door", "red"), ("roof", "green"), ("gate", "grey")]
ANSWERS = {
    QUESTION: "lighthouse-3",
    "When was the lighthouse finished?": "lighthouse-2",
    "Where is the museum?": "museum-2",
    "What does SBMT stand for?": "museum-1",
    "How many inhabitants does Sandrey Bay have?": "town-1",
    "Why do ferries stay in port?": "ferry-4",
}


def test_the_passage_that_answers_comes_first(retriever):
    results = retriever.search_many(list(ANSWERS), k=3)
    assert [hits[0].id for hits in results] == list(ANSWERS.values())
    assert {tuple(hit.rank for hit in hits) for hits in results} == {(1, 2, 3)}


def test_passages_without_text_are_left_out_with_a_warning(models):
    with pytest.warns(SkippedWarning, match="'1'"):
        retriever = HybridRetriever.from_passages(["Bread is sold here.", " ", "The museum is open."], models=models)
    assert [hit.id for hit in retriever.search("Is the museum open?")] == ["2", "0"]


def test_a_hit_shows_signals_and_classes(retriever, models):
    hit = retriever.search(QUESTION)[0]
    assert set(hit.components) == {"dense", "bm25", "sparse", "relevance"}
    assert set(hit.probabilities) == set(models.passages.classes) >= set(hit.labels)
    assert {type(value) for value in [hit.score, *hit.components.values(), *hit.probabilities.values()]} == {float}
    assert type(hit.rank) is int


def test_what_comes_first_does_not_depend_on_k(models):
    rows = [f"The {what} of house {number} is painted {colour}." for number in range(1, 20) for what, colour in PAINTED]
    painted = HybridRetriever.from_passages(rows, models=models)
    for method in ("default", "entail-stable", "convex", "rrf", "hybrid"):
        few, many, every = (painted.search("Which door is green?", k, method=method) for k in (3, 70, len(rows) + 9))
        assert [(hit.id, hit.score) for hit in few] == [(hit.id, hit.score) for hit in many[:3]]
        assert [(hit.id, hit.score) for hit in many] == [(hit.id, hit.score) for hit in every[:70]]
        assert [hit.rank for hit in every] == list(range(1, len(every) + 1))
        assert len({hit.id for hit in every}) == len(every)
        assert all(one.score >= other.score for one, other in pairwise(every))


def test_a_question_without_any_known_word_finds_passages(retriever):
    hits = retriever.search("?!?", k=3)
    assert len(hits) == 3
    assert all(np.isfinite(hit.score) for hit in hits)
    assert hits[0].components["bm25"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"question": ""}, "question is empty"),
        ({"k": 2.5}, "k must be a whole number, not float"),
        ({"method": "best"}, "method is 'best'.*'default', 'bm25'"),
        ({"weights": {"lambda": 1}}, "'lambda'.*'alpha'"),
        ({"weights": {"alpha": 1.5}}, "alpha is 1.5"),
        ({"candidates": 0}, "candidates is 0"),
        ({"texts": "one text"}, "texts must be a sequence"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(retriever, arguments, says):
    with pytest.raises((InputError, InputTypeError), match=says):
        retriever.search(**{"question": QUESTION, **arguments})


@pytest.mark.parametrize(("options", "classified"), [({}, 0), ({"method": "class-stable"}, 1), ({"explain": True}, 1)])
def test_a_question_is_classified_only_where_its_class_is_used(retriever, monkeypatch, options, classified):
    calls, classify = [], QuestionClassifier.fine_probabilities
    monkeypatch.setattr(QuestionClassifier, "fine_probabilities", lambda *args: calls.append(1) or classify(*args))
    retriever.search(QUESTION, **options)
    assert len(calls) == classified


def test_an_index_of_another_encoder_is_refused(retriever, models):
    with pytest.raises(EncoderMismatchError, match="build it again"):
        HybridRetriever(replace(retriever.index, encoder="another"), models)


def test_neither_order_nor_score_depends_on_other_questions(retriever):
    words = ["who", "designed", "the", "lighthouse", "and", "when", "was", "that", "old", "tower", "finished"]
    questions = [" ".join(words[:n]) + "?" for n in range(1, len(words) + 1)]
    for question, together in zip(questions, retriever.search_many(questions), strict=True):
        alone = retriever.search(question)
        assert [hit.id for hit in together] == [hit.id for hit in alone]
        assert [hit.score for hit in together] == pytest.approx([hit.score for hit in alone], rel=0, abs=1e-9)
    assert retriever.search_many([]) == []


def test_texts_take_the_place_of_the_question_in_finding(retriever):
    texts = ["The ferry leaves the harbour.", "Boats to the island."]
    found = retriever.search(QUESTION, 3, method="dense", texts=texts)
    vectors = np.stack([query.pooled / np.linalg.norm(query.pooled) for query in retriever.models.encode(texts)])
    (query,) = retriever.models.encode([QUESTION])
    near = replace(query, pooled=vectors.mean(axis=0))
    rows = retriever.candidates(near, 3, METHODS["dense"]).rows
    assert [hit.id for hit in found] == [passage.id for passage in retriever.index.passages(rows)]


def test_strings_get_ids_and_passages_keep_theirs(models):
    passages = ["The tower is open at noon.", Passage("built", "The tower was built in 1890.")]
    retriever = HybridRetriever.from_passages(passages, models=models)
    assert [hit.id for hit in retriever.search("When was the tower built?")] == ["built", "0"]


def test_a_folder_is_read_and_unreadable_files_are_named(models, tmp_path):
    (tmp_path / "tower.md").write_text("# Tower\n\nThe tower was built in 1890 by a fisherman.\n")
    (tmp_path / "broken.json").write_text("{")
    with pytest.warns(SkippedWarning, match=r"broken\.json"):
        retriever = HybridRetriever.from_folder(tmp_path, models=models)
    assert "1890" in retriever.search("When was the tower built?")[0].text


@pytest.mark.parametrize(("alpha", "part"), [(1.0, "dense"), (0.0, "bm25")])
def test_the_ends_of_alpha_are_vectors_and_bm25_alone(retriever, alpha, part):
    hits = retriever.search(QUESTION, method="convex", weights={"alpha": alpha, "sparse": 0.0})
    values = [hit.components[part] for hit in hits]
    assert values == sorted(values, reverse=True)
    assert hits[0].score == pytest.approx(1.0)


def test_alpha_is_read_from_the_index(retriever):
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": {"alpha": 0.2}}))
    assert tuned.search(QUESTION) == retriever.search(QUESTION, weights={"alpha": 0.2})
    linear = {"method": "entail-integrated", "candidates": 50}
    assert tuned.search(QUESTION, **linear) == retriever.search(QUESTION, **linear)


def test_with_coverage_bm25_counts_less_where_few_words_match(retriever):
    def bm25(question, **weights):
        hits = retriever.search(question, 100, method="convex", weights={"sparse": 0, **weights}, explain=True)
        return [hit.explanation.parts["bm25"] for hit in hits]

    assert bm25(QUESTION, coverage=0.1) == bm25(QUESTION)
    foreign = "Wer entwarf den Leuchtturm der Lighthouse Gesellschaft?"
    assert max(bm25(foreign)) == pytest.approx(1 - ALPHA)
    assert max(bm25(foreign, coverage=0.8)) < 0.5 * (1 - ALPHA)
