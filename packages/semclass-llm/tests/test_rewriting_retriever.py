"""Searching for what a question was rewritten as; no language model is asked."""

import pytest

from semclass import RewritingRetriever
from semclass.scoring.fusion import RRF_K
from semclass_llm.rewriting.retriever import pool_hits, search_rewritten
from semclass_llm.rewriting.transform import Rewritten

WHO, WHEN = "Who designed the lighthouse?", "When was the lighthouse finished?"
BOTH = "Who designed the lighthouse, and when was it finished?"


def becomes(*questions, **fields):
    """A transform that always gives the same."""
    return lambda question, history=(): Rewritten(question, questions or (question,), **fields)


def test_a_question_that_stays_as_it_is_gives_the_same_hits(retriever):
    assert RewritingRetriever(retriever, becomes()).search(WHO) == retriever.search(WHO)


def test_another_question_gives_its_hits_and_is_named(retriever):
    found = RewritingRetriever(retriever, becomes(WHEN)).search("When?", 3, history=["Tell me of the lighthouse."])
    assert [(hit.id, hit.score) for hit in found] == [(hit.id, hit.score) for hit in retriever.search(WHEN, 3)]
    assert found.query_used == WHEN


def test_what_was_said_before_is_handed_on(retriever):
    heard = []

    def transform(question, history=()):
        heard.append((question, list(history)))
        return Rewritten(question, (question,))

    RewritingRetriever(retriever, transform).search(WHO, history=("a", "b"))
    assert heard == [(WHO, ["a", "b"])]


@pytest.mark.parametrize("method", ["default", "convex", "learned"])
def test_the_first_of_each_part_come_first(retriever, method):
    parts = [retriever.search(text, 1, method=method)[0].id for text in (WHO, WHEN)]
    found = RewritingRetriever(retriever, becomes(WHO, WHEN)).search(BOTH, 5, method=method, explain=True)
    assert [hit.id for hit in found[:2]] == list(dict.fromkeys(parts))
    assert found.query_used == f"{WHO}\n{WHEN}"
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5]
    assert list(found) == sorted(found, key=lambda hit: -hit.score)


def test_a_passage_counts_by_its_best_rank(retriever):
    wordings = (WHO, "Which engineer planned the lighthouse?")
    found = RewritingRetriever(retriever, becomes(*wordings)).search(WHO, 3, where={"document": {"$exists": False}})
    rankings = [[hit.id for hit in ranking] for ranking in retriever.search_many(wordings, 50)]
    scores = {name: max(1 / (RRF_K + 1 + row.index(name)) for row in rankings) for name in rankings[0]}
    assert [hit.score for hit in found] == pytest.approx(sorted(scores.values(), reverse=True)[:3])


def test_an_imagined_passage_stands_in_for_the_vector_and_the_question_re_ranks(retriever):
    passage = "The Silver Needle was won by the crew of the trawler."
    found = search_rewritten(retriever, Rewritten(WHO, (WHO,), (passage,)), 3, method="convex", explain=True)
    plain = retriever.search(WHO, 3, method="convex")
    assert [hit.id for hit in found] != [hit.id for hit in plain]
    assert all(hit.explanation is not None for hit in found)
    ranked = search_rewritten(retriever, Rewritten(WHO, (WHO,), (passage,)), 3)
    assert ranked[0].id == retriever.search(WHO, 1)[0].id


def test_of_equal_ranks_the_first_question_comes_first(retriever):
    first, second = retriever.search_many([WHO, WHEN], 3)
    found = pool_hits([first, second], 10)
    assert (found[0].id, found[1].id) == (first[0].id, second[0].id)
    assert [hit.rank for hit in found] == list(range(1, len({hit.id for hit in [*first, *second]}) + 1))
    assert pool_hits([[], []], 3) == []
