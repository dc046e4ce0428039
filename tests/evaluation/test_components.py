from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semclass import HybridRetriever, PassageIndex
from semclass.evaluation.candidate_scores import collect, ranks_along, reciprocal_ranks
from semclass.ranking.methods import METHODS, RERANKING

QUESTIONS = ["Who designed the lighthouse?", "Where is the museum?", "How much is a ticket?"]


@pytest.fixture(scope="module")
def retriever(models, corpus):
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def components(retriever):
    return collect(retriever, retriever.encode(QUESTIONS), 8, METHODS["hybrid"])


@pytest.mark.parametrize("name", RERANKING)
def test_methods_over_stored_components_order_as_the_search_does(retriever, name):
    method = METHODS[name]
    components = collect(retriever, retriever.encode(QUESTIONS), 8, method)
    order = components.order(method, retriever.weights[method.signal_weight])
    for row, question in enumerate(QUESTIONS):
        hits = retriever.search(question, k=8, method=name, candidates=8)
        expected = [retriever.index.passage(place).id for place in components.rows[row, order[row]]]
        assert [hit.id for hit in hits] == expected


def test_components_are_those_of_the_hits(retriever, components):
    for row, question in enumerate(QUESTIONS):
        hits = retriever.search(question, k=8, candidates=8, method="learned")
        for hit in hits:
            place = hit.rank_before - 1
            assert components.dense[row, place] == pytest.approx(hit.components["dense"], abs=1e-6)
            assert components.learned[row, place] == pytest.approx(hit.components["answers"], abs=1e-6)
    assert set(np.unique(components.match_hard)) <= {0.0, 1.0}
    assert (np.diff(components.score, axis=1) <= 0).all()


def test_there_are_no_more_candidates_than_passages(retriever, corpus):
    assert collect(retriever, retriever.encode(QUESTIONS), 1000, METHODS["default"]).rows.shape == (3, len(corpus))
    assert len(collect(retriever, [], 50, METHODS["default"])) == 0


def test_reciprocal_ranks_by_hand():
    keys = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [3.0, 2.0, 1.0]])
    relevant = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], bool)
    np.testing.assert_allclose(reciprocal_ranks(keys, relevant), [1 / 2, 1 / 3, 1 / 3, 0])
    np.testing.assert_allclose(reciprocal_ranks(keys, relevant, cutoff=2), [1 / 2, 0, 0, 0])


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans())
def test_ranks_along_a_weight_are_those_of_sorting_at_every_weight(seed, d, with_ties):
    rng = np.random.default_rng(seed)
    q, weights = 6, np.arange(17) / 4
    # small whole numbers and quarters are exact, so that equal scores are equal in both ways of counting
    draw = (lambda: rng.integers(0, 4, (q, d)).astype(float)) if with_ties else (lambda: rng.normal(size=(q, d)))
    base, signal, relevant = draw(), draw(), rng.random((q, d)) < 0.3
    found = ranks_along(base, signal, relevant, weights)
    for column, weight in enumerate(weights):
        order = np.argsort(-(base + weight * signal), axis=1, kind="stable")
        hits = np.take_along_axis(relevant, order, axis=1)
        expected = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, d + 1)
        np.testing.assert_array_equal(found[:, column], expected)
