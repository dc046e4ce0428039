"""Other fusions than the linear one, in the ranking of a whole index."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from semclass import HybridRetriever, InputError, InputTypeError, Passage, PassageIndex
from semclass.scoring.fusion import ALPHA, fused

QUESTION = "Who designed the lighthouse?"


@pytest.fixture(scope="module")
def retriever(ranker, corpus):
    # more passages than either list holds
    copies = [replace(item, id=f"{item.id}.{n}", metadata={"copy": n}) for n in range(8) for item in corpus]
    return HybridRetriever(PassageIndex.build(copies, reader=ranker.reader, form="lean"), ranker)


@pytest.mark.parametrize("options", [{"fusion": "convex", "alpha": 0.3}, {"fusion": "convex"}, {"fusion": "rrf"}])
@pytest.mark.parametrize("where", [None, {"copy": {"$lt": 5}}, {"copy": 3}, {"copy": -1}])
def test_passages_are_ranked_by_the_fusion_of_those_that_match(retriever, options, where):
    [query] = retriever.encode([QUESTION])
    rows = np.flatnonzero(retriever.index.mask(where))
    dense, bm25 = (of[rows] for of in retriever.scores(query))
    method = {"alpha": ALPHA, **options}
    for n in (7, 140):
        score, parts = fused(dense, bm25, method["fusion"], alpha=method["alpha"], depth=max(n, 100))
        order = np.argsort(-score, kind="stable")[:n]
        found = retriever.candidates(query, n, where=where, evidence=False, **options)
        assert found.rows.tolist() == rows[order].tolist()
        np.testing.assert_allclose(found.score, score[order], rtol=1e-12)
        assert retriever.retrieve(query, n, where=where, **options).tolist() == found.rows.tolist()
        for name in ("dense", "bm25"):
            np.testing.assert_allclose(found.parts[name], parts[name][order], rtol=1e-12)
        assert found.dense.tolist() == dense[order].tolist()
        assert found.bm25.tolist() == bm25[order].tolist()


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
def test_parts_add_up_with_class_match_and_signals_on_top(retriever, fusion):
    hits = retriever.search(QUESTION, rerank=None, match="soft", match_weight=0.5, fusion=fusion, explain=True)
    for hit in hits:
        assert hit.explanation is not None
        parts = hit.explanation.parts
        assert sum(parts.values()) == pytest.approx(hit.score, abs=1e-9)
        assert parts["match"] == pytest.approx(0.5 * hit.components["match"], abs=1e-9)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    added = retriever.search(QUESTION, rerank="integrated", rerank_weight=0.7, fusion=fusion, explain=True)[0]
    assert added.explanation is not None
    assert sum(added.explanation.parts.values()) == pytest.approx(added.score, abs=1e-9)


def test_the_ends_of_alpha_are_vectors_and_bm25_alone(retriever):
    for alpha, part in ((1.0, "dense"), (0.0, "bm25")):
        hits = retriever.search(QUESTION, rerank=None, fusion="convex", alpha=alpha)
        values = [hit.components[part] for hit in hits]
        assert values == sorted(values, reverse=True)
        assert hits[0].score == pytest.approx(1.0)


def test_convex_is_the_default(retriever):
    assert retriever.search(QUESTION, fusion="convex") == retriever.search(QUESTION)
    assert retriever.search(QUESTION)[0].id == retriever.search(QUESTION, fusion="rrf")[0].id


def test_alpha_is_what_the_index_stores(retriever):
    tuned = replace(retriever, index=replace(retriever.index, tuned={"weights": {"alpha": 0.2}}))
    assert tuned.search(QUESTION, fusion="convex") == retriever.search(QUESTION, fusion="convex", alpha=0.2)
    assert tuned.search(QUESTION, fusion="linear") == retriever.search(QUESTION, fusion="linear")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"fusion": "sum"}, InputError, "fusion is 'sum'; it must be one of 'linear', 'convex', 'rrf'"),
        (
            {"alpha": 0.5, "fusion": "linear"},
            InputError,
            "alpha is given with fusion='linear', .* belongs to fusion='convex'",
        ),
        ({"alpha": 0.5, "fusion": "rrf"}, InputError, "alpha is given with fusion='rrf'"),
        ({"bm25_weight": 0.1, "fusion": "rrf"}, InputError, "bm25_weight is given with fusion='rrf'"),
        ({"bm25_weight": 0.1}, InputError, "bm25_weight .* belongs to fusion='linear'"),
        ({"alpha": 1.5, "fusion": "convex"}, InputError, "alpha is 1.5; it must be a probability"),
        ({"alpha": "half", "fusion": "convex"}, InputTypeError, "alpha must be a number, not str"),
    ],
)
def test_options_of_another_fusion_are_refused(retriever, options, error, says):
    with pytest.raises(error, match=says):
        retriever.search(QUESTION, **options)


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


def test_one_passage_is_a_hit_by_every_fusion(ranker):
    index = PassageIndex.build([Passage("only", "Ada designed the lighthouse.")], reader=ranker.reader)
    for fusion in ("convex", "rrf"):
        [hit] = HybridRetriever(index, ranker).search(QUESTION, fusion=fusion, rerank=None)
        assert hit.score == pytest.approx(1.0 if fusion == "convex" else 2 / 61)
