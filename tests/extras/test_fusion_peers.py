"""Fusion against the packages themselves: ranx, LangChain, Haystack and LlamaIndex, each to 1e-12 on the same lists.

One list has passages that the other has not, as the lists of search engines do.
"""

from __future__ import annotations

import numpy as np
import pytest

from semclass.scoring.fusion import convex, ensemble, linear, normalise, ranks, rrf

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

NAMES = [f"p{place}" for place in range(40)]
WEIGHTS = [0.7, 0.3]


@pytest.fixture(params=range(3), scope="module")
def lists(request):
    """Scores of forty passages by two systems, the first 25 of each; NaN for the others. No two are the same."""
    rng = np.random.default_rng(request.param)
    both = rng.uniform(-0.2, 0.9, 40), rng.exponential(5, 40)
    return [np.where(ranks(scores, 25) > 0, scores, np.nan) for scores in both]


def best_first(scores: np.ndarray) -> list[tuple[str, float]]:
    places = ranks(scores)
    order = np.argsort(np.where(places > 0, places, 1_000))[: np.count_nonzero(places)]
    return [(NAMES[row], float(scores[row])) for row in order]


def agree(found: np.ndarray, peer: dict[str, float], lists: list[np.ndarray]) -> None:
    listed = [row for row in range(40) if not all(np.isnan(scores[row]) for scores in lists)]
    assert {NAMES[row] for row in listed} == set(peer)
    np.testing.assert_allclose(found[listed], [peer[NAMES[row]] for row in listed], rtol=0, atol=1e-12)


def least_is(scores: np.ndarray, value: float) -> np.ndarray:
    """Scores in which what is not known is a number, as in peers that take 0."""
    return np.where(np.isnan(scores), value, scores)


# -- ranx -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranx():
    return pytest.importorskip("ranx")


@pytest.fixture
def runs(ranx, lists):
    return [ranx.Run({"q": dict(best_first(scores))}) for scores in lists]


def fused_by_ranx(ranx, runs, **options) -> dict[str, float]:
    return dict(ranx.fuse(runs=[ranx.Run({"q": dict(run["q"])}) for run in runs], **options)["q"])


def test_convex_combination_by_ranx(ranx, runs, lists):
    peer = fused_by_ranx(ranx, runs, norm="min-max", method="wsum", params={"weights": WEIGHTS})
    agree(convex(*lists, WEIGHTS[0]), peer, lists)


def test_z_scores_by_ranx(ranx, runs, lists):
    """ranx gives what is not in a list 0, the mean of all that are; semclass gives it the least. So 0 is put in here."""
    peer = fused_by_ranx(ranx, runs, norm="zmuv", method="wsum", params={"weights": WEIGHTS})
    scaled = [np.where(np.isnan(scores), 0, normalise(scores, "z-score")) for scores in lists]
    agree(np.array(WEIGHTS) @ np.stack(scaled), peer, lists)


def test_weighted_sums_by_ranx(ranx, runs, lists):
    peer = fused_by_ranx(ranx, runs, norm=None, method="wsum", params={"weights": [1.0, 0.1]})
    agree(linear(*(least_is(scores, 0) for scores in lists), 0.1), peer, lists)


def test_reciprocal_ranks_by_ranx(ranx, runs, lists):
    agree(rrf(*map(ranks, lists)), fused_by_ranx(ranx, runs, norm=None, method="rrf", params={"k": 60}), lists)


# -- LangChain ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [WEIGHTS, [1.0, 1.0]])
def test_reciprocal_ranks_by_langchain(lists, weights):
    """Its scores are thrown away; so the order is compared."""
    ensembles = pytest.importorskip("langchain_classic.retrievers.ensemble")
    documents = pytest.importorskip("langchain_core.documents")
    retriever = ensembles.EnsembleRetriever(retrievers=[_nothing()] * 2, weights=weights)
    found = retriever.weighted_reciprocal_rank(
        [[documents.Document(page_content=name) for name, _ in best_first(scores)] for scores in lists]
    )
    mine = dict(zip(NAMES, rrf(*map(ranks, lists), weights=weights).tolist(), strict=True))
    in_their_order = [mine[document.page_content] for document in found]
    assert len(found) == sum(score > 0 for score in mine.values())
    assert (np.diff(in_their_order) <= 1e-12).all()


def _nothing():
    return pytest.importorskip("langchain_core.runnables").RunnableLambda(lambda _: [])


# -- Haystack -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def joiner():
    return pytest.importorskip("haystack.components.joiners").DocumentJoiner


def joined(joiner, lists, mode: str, weights: list[float]) -> dict[str, float]:
    document = pytest.importorskip("haystack").Document
    given = [[document(id=name, content=name, score=score) for name, score in best_first(row)] for row in lists]
    return {item.id: item.score for item in joiner(join_mode=mode, weights=weights).run(documents=given)["documents"]}


def test_merging_by_haystack(joiner, lists):
    """What is not in a list adds 0."""
    agree(ensemble([least_is(scores, 0) for scores in lists], WEIGHTS), joined(joiner, lists, "merge", WEIGHTS), lists)


def test_reciprocal_ranks_by_haystack(joiner, lists):
    """Its ranks count from 0 and k is 61, which is the same; what comes out is multiplied by 61."""
    peer = joined(joiner, lists, "reciprocal_rank_fusion", WEIGHTS)
    agree(61 * rrf(*map(ranks, lists), weights=WEIGHTS), peer, lists)


# -- LlamaIndex -----------------------------------------------------------------------------------------------------------


def by_llama_index(lists, mode: str, weights: list[float]) -> dict[str, float]:
    core = pytest.importorskip("llama_index.core")
    schema = pytest.importorskip("llama_index.core.schema")
    retrievers = pytest.importorskip("llama_index.core.retrievers")

    class Listed(core.base.base_retriever.BaseRetriever):
        def __init__(self, scores):
            self.scores = scores
            super().__init__()

        def _retrieve(self, _):
            nodes = {name: schema.TextNode(id_=name, text=name) for name, _ in best_first(self.scores)}
            return [schema.NodeWithScore(node=nodes[name], score=score) for name, score in best_first(self.scores)]

    fusion = retrievers.QueryFusionRetriever(
        [Listed(scores) for scores in lists],
        llm=pytest.importorskip("llama_index.core.llms").MockLLM(),
        mode=mode,
        num_queries=1,
        similarity_top_k=40,
        retriever_weights=weights,
        use_async=False,
    )
    return {item.node.node_id: item.score for item in fusion.retrieve("a question")}


def test_relative_scores_by_llama_index(lists):
    agree(convex(*lists, WEIGHTS[0]), by_llama_index(lists, "relative_score", WEIGHTS), lists)


def test_single_candidates_by_llama_index():
    """Of each list the only one: what is above 0 becomes 1."""
    dense, bm25 = np.full(40, np.nan), np.full(40, np.nan)
    dense[3], bm25[5] = -0.1, 4.0
    agree(convex(dense, bm25, 0.7), by_llama_index([dense, bm25], "relative_score", WEIGHTS), [dense, bm25])


def test_distribution_based_scores_by_llama_index(lists):
    """Min-max whose bounds are three deviations from the mean."""
    scaled = []
    for scores in lists:
        mean, deviation = np.nanmean(scores), np.nanstd(scores)
        scaled.append(normalise(scores, "min-max", low=mean - 3 * deviation, high=mean + 3 * deviation))
    agree(ensemble(scaled, WEIGHTS), by_llama_index(lists, "dist_based_score", WEIGHTS), lists)


def test_reciprocal_ranks_by_llama_index(lists):
    """Its ranks count from 0 and k is 60: one less than in the paper."""
    agree(rrf(*map(ranks, lists), k=59), by_llama_index(lists, "reciprocal_rerank", WEIGHTS), lists)
