"""The default method: fused scores plus a sum of evidence, which tells an answer from an echo of the question."""

from __future__ import annotations

import pytest

from semclass import HybridRetriever, Reranker
from semclass.ranking.features import SHORT, STORED_SHARE

QUESTION = "How tall is the red tower?"
PASSAGES = ECHO, ANSWER, _ = (
    "They asked how tall the red tower is.",
    "The red tower has 74 metres.",
    "It is a green hill.",
)


def parts_of(models, **options):
    hits = Reranker(models).rerank(QUESTION, PASSAGES, explain=True, **options)
    assert [hit.score for hit in hits] == pytest.approx([sum(hit.explanation.parts.values()) for hit in hits])
    return {hit.text: hit.explanation.parts for hit in hits}


def test_an_answer_is_told_from_an_echo_by_what_it_provides(models):
    parts = parts_of(models)
    assert next(iter(parts)) == ANSWER
    assert parts[ECHO]["answers"] < parts[ANSWER]["answers"]
    groups = {"meaning", "words", "answers"}
    assert all(set(row) == {"dense", "bm25", "sparse", *groups} for row in parts.values())


def test_one_weight_scales_all_evidence(models):
    twice = parts_of(models, weights={"evidence": 2})
    for text, parts in parts_of(models).items():
        scaled = {name: value if name in ("dense", "bm25", "sparse") else 2 * value for name, value in parts.items()}
        assert twice[text] == pytest.approx(scaled)


def test_weights_of_short_ones_count_less_in_an_index(models):
    index = HybridRetriever.from_passages(PASSAGES, models=models)
    given, stored = parts_of(models), index.search(QUESTION, len(PASSAGES), explain=True)
    for hit in stored:
        assert hit.explanation.parts["answers"] == pytest.approx(STORED_SHARE * given[hit.text]["answers"])


def test_what_answers_counts_less_for_longer_passages(models):
    texts = (QUESTION, *(f"{text} {'It is a green hill. ' * int(SHORT)}" for text in PASSAGES))
    short, long = (Reranker(models).rerank(QUESTION, some, explain=True) for some in (PASSAGES, texts))
    of_short, of_long = ({hit.text: hit.explanation.parts["answers"] for hit in hits} for hits in (short, long))
    assert max(map(abs, of_long.values())) < max(map(abs, of_short.values())) / 2


def test_a_code_that_a_passage_holds_whole_decides(models):
    passages = [f"Fixed in {version}." for version in ("1.3.2", "1.2.3", "3.2.1")]
    assert HybridRetriever.from_passages(passages, models=models).search("version 1.2.3")[0].text == passages[1]
    assert Reranker(models).rerank("version 1.2.3", passages)[0].text == passages[1]


def test_words_of_the_passages_around_count(models):
    asked, beside = "The red tower was built of granite.", "It has 74 metres, and a lift."
    others = [f"Green hill number {number} is far away." for number in range(8)]

    def words_of(passages):
        hits = HybridRetriever.from_passages(passages, models=models).search(QUESTION, explain=True, method="convex")
        return next(hit.explanation.parts["bm25"] for hit in hits if hit.text == beside)

    assert words_of([asked, beside, *others]) > words_of([asked, *others, beside]) == 0
