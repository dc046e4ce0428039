"""Fusions of vectors and BM25 other than the linear one, over a whole index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semclass import HybridRetriever, PassageIndex
from semclass.ranking.methods import METHODS
from semclass.scoring.fusion import ALPHA, fused

QUESTION = "Who designed the lighthouse?"


@pytest.fixture(scope="module")
def retriever(models, corpus):
    # more passages than either list holds
    copies = [replace(item, id=f"{item.id}.{n}", metadata={"copy": n}) for n in range(8) for item in corpus]
    return HybridRetriever(PassageIndex.build(copies, passage_encoder=models.passage_encoder, small=True), models)


@pytest.mark.parametrize(("name", "alpha"), [("convex", 0.3), ("convex", ALPHA), ("rrf", ALPHA)])
@pytest.mark.parametrize("where", [None, {"copy": {"$lt": 5}}, {"copy": 3}, {"copy": -1}])
def test_passages_are_ranked_by_the_fusion_of_those_that_match(retriever, name, alpha, where):
    [query] = retriever.encode([QUESTION])
    rows = np.flatnonzero(retriever.index.mask(where))
    dense, bm25 = (of[rows] for of in retriever.scores(query))
    weights = {**retriever.weights, "alpha": alpha}
    for n in (7, 140):
        score, parts = fused(dense, bm25, name, alpha=alpha, depth=max(n, 100))
        order = np.argsort(-score, kind="stable")[:n]
        found = retriever.candidates(query, n, METHODS[name], weights=weights, where=where, evidence=False)
        assert found.rows.tolist() == rows[order].tolist()
        np.testing.assert_allclose(found.score, score[order], rtol=1e-12)
        for part, values in (("dense", dense), ("bm25", bm25)):
            np.testing.assert_allclose(found.parts[part], parts[part][order], rtol=1e-12)
            assert getattr(found, part).tolist() == values[order].tolist()


@pytest.mark.parametrize(("alpha", "part"), [(1.0, "dense"), (0.0, "bm25")])
def test_the_ends_of_alpha_are_vectors_and_bm25_alone(retriever, alpha, part):
    hits = retriever.search(QUESTION, method="convex", weights={"alpha": alpha})
    values = [hit.components[part] for hit in hits]
    assert values == sorted(values, reverse=True)
    assert hits[0].score == pytest.approx(1.0)


def test_a_signal_of_no_weight_changes_nothing(retriever):
    plain = [hit.id for hit in retriever.search(QUESTION, method="convex")]
    assert [hit.id for hit in retriever.search(QUESTION, weights={"evidence": 0})] == plain


def test_alpha_is_read_from_the_index(retriever):
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": {"alpha": 0.2}}))
    assert tuned.search(QUESTION) == retriever.search(QUESTION, weights={"alpha": 0.2})
    linear = {"method": "entail-integrated", "candidates": 50}
    assert tuned.search(QUESTION, **linear) == retriever.search(QUESTION, **linear)


def test_with_coverage_bm25_counts_less_where_few_words_match(retriever):
    def bm25(question, **weights):
        hits = retriever.search(question, 100, method="convex", weights=weights, explain=True)
        return [hit.explanation.parts["bm25"] for hit in hits]

    assert bm25(QUESTION, coverage=0.1) == bm25(QUESTION)
    foreign = "Wer entwarf den Leuchtturm der Lighthouse Gesellschaft?"
    assert max(bm25(foreign)) == pytest.approx(1 - ALPHA)
    assert max(bm25(foreign, coverage=0.8)) < 0.5 * (1 - ALPHA)


@pytest.mark.parametrize(("method", "score"), [("convex", 1.0), ("rrf", 2 / 61)])
def test_one_passage_is_a_hit_by_every_fusion(models, corpus, method, score):
    [hit] = HybridRetriever.from_passages(corpus[:1], models=models).search(QUESTION, method=method)
    assert hit.score == pytest.approx(score)
