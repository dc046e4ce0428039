"""Other fusions than the linear one, in the ranking of a whole index."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from semclass import HybridRetriever, Passage, PassageIndex
from semclass.ranking.methods import METHODS
from semclass.scoring.fusion import ALPHA, fused

QUESTION = "Who designed the lighthouse?"


@pytest.fixture(scope="module")
def retriever(models, corpus):
    # more passages than either list holds
    copies = [replace(item, id=f"{item.id}.{n}", metadata={"copy": n}) for n in range(8) for item in corpus]
    return HybridRetriever(PassageIndex.build(copies, passage_encoder=models.passage_encoder, form="lean"), models)


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
        if where is None:
            assert retriever.retrieve(query, n, METHODS[name], weights=weights).tolist() == found.rows.tolist()
        for part in ("dense", "bm25"):
            np.testing.assert_allclose(found.parts[part], parts[part][order], rtol=1e-12)
        assert found.dense.tolist() == dense[order].tolist()
        assert found.bm25.tolist() == bm25[order].tolist()


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
def test_parts_add_up_with_class_match_and_signals_on_top(retriever, fusion):
    hits = retriever.search(QUESTION, method="match-soft", fusion=fusion, weights={"match_soft": 0.5}, explain=True)
    for hit in hits:
        assert hit.explanation is not None
        parts = hit.explanation.parts
        assert sum(parts.values()) == pytest.approx(hit.score, abs=1e-9)
        assert parts["match"] == pytest.approx(0.5 * hit.components["match"], abs=1e-9)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    added = retriever.search(QUESTION, fusion=fusion, weights={"entailment": 0.7}, explain=True)[0]
    assert added.explanation is not None
    assert sum(added.explanation.parts.values()) == pytest.approx(added.score, abs=1e-9)


def test_the_ends_of_alpha_are_vectors_and_bm25_alone(retriever):
    for alpha, part in ((1.0, "dense"), (0.0, "bm25")):
        hits = retriever.search(QUESTION, method="convex", weights={"alpha": alpha})
        values = [hit.components[part] for hit in hits]
        assert values == sorted(values, reverse=True)
        assert hits[0].score == pytest.approx(1.0)


def test_convex_is_the_default(retriever):
    assert retriever.search(QUESTION) == retriever.search(QUESTION)
    assert (
        retriever.search(QUESTION)[0].id
        == retriever.search(QUESTION, method="entail-integrated", fusion="rrf", candidates=50)[0].id
    )


def test_alpha_is_what_the_index_stores(retriever):
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": {"alpha": 0.2}}))
    assert tuned.search(QUESTION) == retriever.search(QUESTION, weights={"alpha": 0.2})
    assert tuned.search(QUESTION, method="entail-integrated", candidates=50) == retriever.search(
        QUESTION, method="entail-integrated", candidates=50
    )


def test_a_method_of_one_list_keeps_it_whatever_the_fusion(retriever):
    for method in ("bm25", "dense"):
        assert retriever.search(QUESTION, method=method, fusion="rrf") == retriever.search(QUESTION, method=method)


@pytest.mark.parametrize("fusion", ["linear", "convex", "rrf"])
def test_an_index_of_another_kind_is_asked_for_every_fusion(retriever, fusion):
    @dataclass(frozen=True)
    class Served:
        """An index of another kind, which gives everything as the embedded one does."""

        index: PassageIndex

        def __getattr__(self, name):
            return getattr(self.index, name)

        def __len__(self):
            return len(self.index)

    served = replace(retriever, index=Served(retriever.index))
    assert served.search(QUESTION, fusion=fusion) == retriever.search(QUESTION, fusion=fusion)


def test_one_passage_is_a_hit_by_every_fusion(models):
    index = PassageIndex.build(
        [Passage("only", "Ada designed the lighthouse.")], passage_encoder=models.passage_encoder
    )
    for fusion in ("convex", "rrf"):
        [hit] = HybridRetriever(index, models).search(QUESTION, method="hybrid", fusion=fusion)
        assert hit.score == pytest.approx(1.0 if fusion == "convex" else 2 / 61)
