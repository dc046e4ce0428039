"""Fusion against the packages themselves: ranx, LangChain, Haystack and LlamaIndex, each to 1e-12 on the same lists.

One list has passages that the other has not, as the lists of search engines do.
"""

from __future__ import annotations

import numpy as np
import pytest

from semclass.scoring.fusion import fused

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

N = 150
NAMES = [f"p{place}" for place in range(N)]
ALPHA = 0.7


@pytest.fixture(params=range(3), scope="module")
def lists(request):
    """Scores of passages by two systems, the first 100 of each; NaN for the others. No two are the same."""
    rng = np.random.default_rng(request.param)
    both = rng.uniform(-0.2, 0.9, N), rng.exponential(5, N)
    return [np.where(scores >= np.sort(scores)[-100], scores, np.nan) for scores in both]


def best_first(scores: np.ndarray) -> list[tuple[str, float]]:
    order = np.argsort(-scores)[: np.count_nonzero(~np.isnan(scores))]
    return [(NAMES[row], float(scores[row])) for row in order]


def agree(found: np.ndarray, peer: dict[str, float], lists: list[np.ndarray]) -> None:
    listed = [row for row in range(N) if not all(np.isnan(scores[row]) for scores in lists)]
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
    peer = fused_by_ranx(ranx, runs, norm="min-max", method="wsum", params={"weights": [ALPHA, 1 - ALPHA]})
    agree(fused(*lists, "convex", alpha=ALPHA).score, peer, lists)


def test_weighted_sums_by_ranx(ranx, runs, lists):
    peer = fused_by_ranx(ranx, runs, norm=None, method="wsum", params={"weights": [1.0, 0.1]})
    agree(fused(*(least_is(scores, 0) for scores in lists), "linear").score, peer, lists)


def test_reciprocal_ranks_by_ranx(ranx, runs, lists):
    agree(fused(*lists, "rrf").score, fused_by_ranx(ranx, runs, norm=None, method="rrf", params={"k": 60}), lists)


# -- LangChain ------------------------------------------------------------------------------------------------------------


def test_reciprocal_ranks_by_langchain(lists):
    """Its scores are thrown away; so the order is compared."""
    ensembles = pytest.importorskip("langchain_classic.retrievers.ensemble")
    documents = pytest.importorskip("langchain_core.documents")
    retriever = ensembles.EnsembleRetriever(retrievers=[_nothing()] * 2, weights=[1.0, 1.0])
    found = retriever.weighted_reciprocal_rank(
        [[documents.Document(page_content=name) for name, _ in best_first(scores)] for scores in lists]
    )
    mine = dict(zip(NAMES, fused(*lists, "rrf").score.tolist(), strict=True))
    in_their_order = [mine[document.page_content] for document in found]
    assert len(found) == sum(score > 0 for score in mine.values())
    assert (np.diff(in_their_order) <= 1e-12).all()


def _nothing():
    return pytest.importorskip("langchain_core.runnables").RunnableLambda(lambda _: [])


# -- Haystack -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def joiner():
    return pytest.importorskip("haystack.components.joiners").DocumentJoiner


def joined(joiner, lists) -> dict[str, float]:
    document = pytest.importorskip("haystack").Document
    given = [[document(id=name, content=name, score=score) for name, score in best_first(row)] for row in lists]
    found = joiner(join_mode="reciprocal_rank_fusion").run(documents=given)["documents"]
    return {item.id: item.score for item in found}


def test_reciprocal_ranks_by_haystack(joiner, lists):
    """Its ranks count from 0 and k is 61, which is the same; weights add up to 1, and the sum is multiplied by 61."""
    agree(61 / 2 * fused(*lists, "rrf").score, joined(joiner, lists), lists)


# -- LlamaIndex -----------------------------------------------------------------------------------------------------------


def by_llama_index(lists) -> dict[str, float]:
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
        mode="relative_score",
        num_queries=1,
        similarity_top_k=N,
        retriever_weights=[ALPHA, 1 - ALPHA],
        use_async=False,
    )
    return {item.node.node_id: item.score for item in fusion.retrieve("a question")}


def test_relative_scores_by_llama_index(lists):
    agree(fused(*lists, "convex", alpha=ALPHA).score, by_llama_index(lists), lists)


def test_single_candidates_by_llama_index():
    """Of each list the only one: what is above 0 becomes 1."""
    dense, bm25 = np.full(N, np.nan), np.full(N, np.nan)
    dense[3], bm25[5] = -0.1, 4.0
    agree(fused(dense, bm25, "convex", alpha=ALPHA).score, by_llama_index([dense, bm25]), [dense, bm25])
