from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from semclass import (
    EncoderMismatchError,
    HybridRetriever,
    InputError,
    InputTypeError,
    Passage,
    PassageIndex,
    QuestionClassifier,
    Reranker,
)
from semclass.ranking.methods import METHODS

QUESTION = "Who designed the lighthouse?"


@pytest.fixture(scope="module")
def retriever(models, corpus):
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def reranker(models):
    return Reranker(models)


def test_the_passage_that_answers_comes_first(retriever):
    hits = retriever.search(QUESTION, k=3)
    assert hits[0].id == "lighthouse-3"
    assert [hit.rank for hit in hits] == [1, 2, 3]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the lighthouse finished?", "lighthouse-2"),
        ("Where is the museum?", "museum-2"),
        ("What does SBMT stand for?", "museum-1"),
        ("How many inhabitants does Sandrey Bay have?", "town-1"),
        ("Why do ferries stay in port?", "ferry-4"),
    ],
)
def test_answers_of_each_type_are_found(retriever, question, answer):
    assert retriever.search(question, k=1)[0].id == answer


def test_a_hit_tells_what_its_score_is_made_of(retriever, models):
    for hit in retriever.search(QUESTION, method="match-soft", weights={"match_soft": 0.5}):
        parts = hit.components
        assert hit.score == pytest.approx(parts["dense"] + 0.1 * parts["bm25"] + 0.5 * parts["match"], abs=1e-9)
        assert hit.rank == hit.rank_before
    hit = retriever.search(QUESTION, method="learned", fusion="convex", candidates=50)[0]
    assert set(hit.components) == {"dense", "bm25", "answers"}
    assert hit.score == hit.components["answers"]
    (hit,) = retriever.search(QUESTION, 1, explain=True)
    dense, bm25, answers = (hit.explanation.parts[name] for name in ("dense", "bm25", "entailment"))
    assert hit.score == pytest.approx(dense + bm25 + answers, abs=1e-9)
    assert answers == pytest.approx(retriever.weights["entailment_convex"] * hit.components["answers"], abs=1e-9)
    assert set(hit.probabilities) == set(models.passages.classes) >= set(hit.labels)
    assert hit.text.startswith("The tower was designed")


def test_results_are_plain_python_values(retriever):
    hit = retriever.search(QUESTION, k=1)[0]
    assert type(hit.score) is float
    assert type(hit.rank) is int
    assert {type(value) for value in [*hit.components.values(), *hit.probabilities.values()]} == {float}


def test_integrated_adds_the_weighted_signal(retriever):
    for method, signal, part in (
        ("entail-integrated", "entailment", "answers"),
        ("class-integrated", "class", "match"),
    ):
        hits = retriever.search(QUESTION, method=method, weights={signal: 0.7})
        for hit in hits:
            base = hit.components["dense"] + 0.1 * hit.components["bm25"]
            assert hit.score == pytest.approx(base + 0.7 * hit.components[part], abs=1e-9)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_integrated_without_weight_changes_nothing(retriever):
    plain = [hit.id for hit in retriever.search(QUESTION, method="convex")]
    assert [hit.id for hit in retriever.search(QUESTION, weights={"entailment_convex": 0})] == plain


@pytest.mark.parametrize("method", ["entail-stable", "class-stable"])
def test_stable_keeps_the_order_within_both_groups(retriever, method, models):
    hits = retriever.search(QUESTION, method=method)
    name, threshold = {
        "entail-stable": ("answers", models.pairs.entailment.thresholds[0]),
        "class-stable": ("match", 0.5),
    }[method]
    labels = [hit.components[name] >= threshold for hit in hits]
    assert labels == sorted(labels, reverse=True)
    for label in (True, False):
        places = [hit.rank_before for hit, found in zip(hits, labels, strict=True) if found is label]
        assert places == sorted(places)


def test_hard_match_is_zero_or_one(retriever):
    hits = retriever.search(QUESTION, method="match-hard", fusion="convex")
    assert {hit.components["match"] for hit in hits} <= {0.0, 1.0}


def test_k_is_clamped_to_the_corpus_and_re_ranks_at_least_k(retriever, corpus):
    assert len(retriever.search(QUESTION, k=1000)) == len(corpus)
    assert len(retriever.search(QUESTION, k=15, candidates=3)) == 15
    assert len(retriever.search(QUESTION, k=2)) == 2


def test_many_questions_give_what_each_gives_alone(retriever):
    questions = [QUESTION, "Where is the museum?", "How much is a ticket?"]
    together = retriever.search_many(questions, k=4)
    for question, hits in zip(questions, together, strict=True):
        alone = retriever.search(question, k=4)
        assert [hit.id for hit in alone] == [hit.id for hit in hits]
        np.testing.assert_allclose([hit.score for hit in alone], [hit.score for hit in hits], atol=1e-5)
    assert retriever.search_many([]) == []


def test_an_index_from_disk_gives_the_same_hits(retriever, tmp_path, models):
    retriever.index.save(tmp_path / "index")
    loaded = HybridRetriever(PassageIndex.load(tmp_path / "index"), models)
    assert loaded.search(QUESTION) == retriever.search(QUESTION)


def test_a_question_without_any_known_word_still_gets_an_answer(retriever):
    hits = retriever.search("?!?", k=3)
    assert len(hits) == 3
    assert all(np.isfinite(hit.score) for hit in hits)
    assert hits[0].components["bm25"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"question": ""}, InputError, "question is empty"),
        ({"question": 5}, InputTypeError, "question must be a string, not int"),
        ({"k": 0}, InputError, "k is 0; it must be at least 1"),
        ({"k": -3}, InputError, "k is -3"),
        ({"k": 2.5}, InputTypeError, "k must be a whole number, not float"),
        ({"k": True}, InputTypeError, "not bool"),
        ({"method": "best"}, InputError, "method is 'best'; it must be one of 'default', 'bm25'"),
        ({"fusion": "sum"}, InputError, "fusion is 'sum'; it must be one of None, 'linear', 'convex', 'rrf'"),
        ({"weights": {"bm25": -1}}, InputError, "bm25 is -1"),
        ({"weights": {"lambda": 1}}, InputError, "'lambda'; it must be one of 'alpha'"),
        ({"weights": {"match_soft": float("nan")}}, InputError, "finite"),
        ({"weights": {"alpha": 1.5}}, InputError, "alpha is 1.5; it must be a probability"),
        ({"weights": {"alpha": "half"}}, InputTypeError, "alpha must be a number, not str"),
        ({"weights": 0.5}, InputError, "weights must map names to numbers"),
        ({"candidates": 0}, InputError, "candidates is 0"),
    ],
    ids=str,
)
def test_what_is_not_allowed_is_refused(retriever, arguments, error, says):
    with pytest.raises(error, match=says):
        retriever.search(**{"question": QUESTION, **arguments})


@dataclass(frozen=True)
class Counting(QuestionClassifier):
    """Remembers what it was asked to classify."""

    seen: list[str] = field(default_factory=list)

    def fine_probabilities(self, questions, encoding):
        self.seen.extend(questions)
        return super().fine_probabilities(questions, encoding)


@pytest.fixture
def counting(models):
    return replace(models, questions=Counting(models.encoder, models.questions.head))


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ({}, True),  # the shipped entailment head weighs it
        ({"method": "convex"}, False),
        ({"method": "learned"}, False),
        ({"method": "class-stable"}, True),
        ({"method": "class-integrated"}, True),
        ({"method": "match-hard"}, True),
        ({"explain": True}, True),
    ],
)
def test_a_question_is_classified_only_where_something_asks_for_its_class(retriever, counting, options, asks):
    found = replace(retriever, models=counting).search(QUESTION, **options)
    assert counting.questions.seen == [QUESTION] * asks
    assert found == retriever.search(QUESTION, **options)


@pytest.mark.parametrize(("options", "asks"), [({"method": "learned"}, False), ({"method": "class-stable"}, True)])
def test_so_it_is_with_passages_from_elsewhere(counting, corpus, options, asks):
    (hit, *_) = Reranker(counting).rerank(QUESTION, corpus[:4], **options)
    assert counting.questions.seen == [QUESTION] * asks
    assert set(hit.probabilities) == set(counting.passages.classes)


@pytest.mark.parametrize(("method", "terms"), [("learned", "learned_terms"), ("default", "entailment_terms")])
def test_heads_that_weigh_the_class_match_have_questions_classified(retriever, counting, method, terms):
    pairs = counting.pairs
    weighing = replace(getattr(pairs, terms), table=getattr(pairs, terms).table + 1)
    models = replace(counting, pair_heads=replace(pairs, **{terms: weighing}))
    replace(retriever, models=models).search(QUESTION, method=method)
    assert counting.questions.seen == [QUESTION]


def test_classes_that_nothing_asks_for_change_no_score(retriever):
    orders = []
    for classes in (True, False):
        (query,) = retriever.models.encode([QUESTION], classes=classes)
        orders.append(retriever.models.order(query, retriever.candidates(query, 10), METHODS["learned"]))
    np.testing.assert_array_equal(orders[0].score, orders[1].score)
    np.testing.assert_array_equal(orders[0].order, orders[1].order)


def test_a_question_may_be_encoded_without_classes_and_tokens(models):
    (whole,), (bare,) = models.encode([QUESTION]), models.encode([QUESTION], classes=False, tokens=False)
    assert len(bare.probabilities) == len(bare.fine) == len(bare.tokens) == len(bare.weights) == 0
    np.testing.assert_allclose(bare.pooled, whole.pooled, atol=1e-6)
    np.testing.assert_array_equal(bare.terms, whole.terms)


@pytest.mark.parametrize(
    ("encoded", "method", "says"),
    [
        ({"classes": False}, "class-integrated", "without classes.* encode it with classes=True"),
        ({"classes": False}, "default", "without classes"),  # the entailment head weighs class match
        ({"tokens": False}, "learned", "without tokens.* encode it with tokens=True"),
    ],
)
def test_a_question_without_what_a_method_looks_at_is_refused(retriever, encoded, method, says):
    (whole,), (bare,) = retriever.encode([QUESTION]), retriever.models.encode([QUESTION], **encoded)
    found = retriever.candidates(whole, 3)
    with pytest.raises(InputError, match=says):
        retriever.models.order(bare, found, METHODS[method])
    with pytest.raises(InputError, match="was encoded without"):
        retriever.models.signals(bare, found)


def test_class_match_in_the_score_needs_classes(retriever):
    (bare,) = retriever.models.encode([QUESTION], classes=False)
    with pytest.raises(InputError, match="classes=True"):
        retriever.candidates(bare, 3, METHODS["match-soft"])


def test_an_index_of_another_encoder_is_refused(retriever, models):
    with pytest.raises(EncoderMismatchError, match="build it again"):
        HybridRetriever(replace(retriever.index, encoder="another"), models)


def test_passages_from_elsewhere_are_re_ranked(reranker, corpus):
    given = list(corpus[:6])
    before = list(given)
    hits = reranker.rerank("How many steps lead up to the lamp?", given)
    assert hits[0].id == "lighthouse-4"
    assert hits[0].rank_before == 4
    assert sorted(hit.rank_before for hit in hits) == [1, 2, 3, 4, 5, 6]
    assert given == before


def test_passages_from_elsewhere_may_be_few_or_none(reranker):
    assert reranker.rerank(QUESTION, []) == []
    assert [hit.id for hit in reranker.rerank(QUESTION, [Passage("only", "Ada designed it.")])] == ["only"]
    assert len(reranker.rerank(QUESTION, [Passage(str(n), "Ada designed it.") for n in range(3)], k=2)) == 2


def test_the_same_text_twice_keeps_the_order_that_it_came_in(reranker):
    hits = reranker.rerank(QUESTION, [Passage("b", "Ada designed it."), Passage("a", "Ada designed it.")])
    assert [hit.id for hit in hits] == ["b", "a"]


def test_stable_re_ranking_of_foreign_passages_starts_from_their_order(reranker, corpus):
    hits = reranker.rerank(QUESTION, list(reversed(corpus[:6])), method="class-stable")
    positive = [hit.rank_before for hit in hits if hit.components["match"] == 1]
    assert positive == sorted(positive)


@pytest.mark.parametrize(
    ("passages", "error", "says"),
    [
        ("text", InputTypeError, r"sequence of semclass\.Passage"),
        (["text", 5], InputTypeError, r"passages\[1\] must be a semclass\.Passage or a string, not 5"),
        (Passage("a", "x"), InputTypeError, "must be a sequence"),
        ([Passage("a", "x"), Passage("a", "y")], InputError, "'a' comes twice"),
        ([Passage("a", "")], InputError, "text of passage 'a' is empty"),
    ],
    ids=["one string", "a number", "one passage", "same id", "empty text"],
)
def test_what_is_no_passage_is_refused(reranker, passages, error, says):
    with pytest.raises(error, match=says):
        reranker.rerank(QUESTION, passages)
