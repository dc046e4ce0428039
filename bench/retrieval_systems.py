"""The systems that search and re-rank, as jobs from a question to ten ids, and the steps that measure them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench import timing
from bench.peers import retrievers
from bench.peers.cross_encoder import FEW, CrossEncoder, order_of_few
from semclass import HybridRetriever, Models
from semclass.core.errors import MissingExtraError
from semclass.documents.readers import read_passages
from semclass.evaluation import evaluate
from semclass.evaluation.candidate_scores import collect
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import BASELINE, measure, per_question
from semclass.evaluation.measure import DEPTH as EVALUATE_DEPTH
from semclass.index.passage_encoder import searchable
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.scoring.topk import top_k

DEPTH = EVALUATE_DEPTH  # passages that a system gives
MORE = 50  # candidates that are re-ranked in a second run

RERANKERS = {
    name: (METHODS[name], METHODS[name].candidates) for name in ("default", "entail-integrated", "learned")
} | {f"{name}@{MORE}": (METHODS[name], MORE) for name in ("entail-integrated", "learned")}
"""Systems that are methods of the library: method, and how many candidates are re-ranked."""

SEED = 0

SYSTEMS = {
    "BM25": ("semclass", "BM25 over the encoder's word pieces, as the library computes it"),
    "BM25, bm25s": (
        "peer",
        "bm25s with its own tokeniser, English stop words and a stemmer, as its documentation shows",
    ),
    "BM25, rank-bm25": ("peer", "rank-bm25 (Okapi) over lower-cased words"),
    "dense": ("semclass", "cosine of the shipped encoder's vectors"),
    "hybrid": ("semclass", "dense + 0.1 * BM25, the reference's sum, which is the baseline here"),
    "convex": (
        "peer",
        "alpha * dense + (1 - alpha) * BM25, each brought to 0 ... 1 over the first 100 of both; on semclass's encoder and "
        "index",
    ),
    "RRF": (
        "peer",
        "reciprocal rank fusion, k = 60, of the first 100 of dense and of BM25; on semclass's encoder and index",
    ),
    "default": ("semclass", "a search without options: convex + a weighted sum of evidence, first 50"),
    "entail-integrated": ("semclass", "hybrid + lambda * probability that the passage answers"),
    f"entail-integrated@{MORE}": ("semclass", f"the same with {MORE} candidates"),
    "learned": (
        "semclass",
        "hybrid, then a head over all evidence, read when the index was built, orders the first 10",
    ),
    f"learned@{MORE}": ("semclass", f"the same with {MORE} candidates"),
    "learned, then cross-encoder": ("peer", f"learned, then the int8 cross-encoder reads the first {FEW} of it"),
    "cross-encoder": (
        "peer",
        "hybrid, then an int8 MiniLM that reads question and passage together orders the first 10; trained for this "
        "benchmark on questions that learned learnt from",
    ),
    "cross-encoder, integrated": (
        "peer",
        "hybrid + lambda * cross-encoder, first 10; takes what the cross-encoder takes",
    ),
}
"""By name: whose it is, and one sentence about it."""


class Found(NamedTuple):
    """What a system gives for a question."""

    ids: list[str]
    reranking: float | None = None
    more: Mapping[str, list[str]] = {}


Job = Callable[[str], Found]


@dataclass(frozen=True)
class Systems:
    """What the systems are made of."""

    retriever: HybridRetriever
    alpha: float
    network: CrossEncoder | None = None

    def ids(self, rows: npt.NDArray[Any] | Sequence[int]) -> list[str]:
        """Ids of the first ten of passages."""
        return [passage.id for passage in self.retriever.index.passages(np.asarray(rows[:DEPTH]))]

    def retrievers(self) -> dict[str, Job]:
        """Those that search the index by one score or two, without re-ranking."""
        encoder, index = self.retriever.models.encoder, self.retriever.index

        def scores(text: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
            encoding = encoder.encode([text])
            lexical = index.lexical_scores(encoding.terms.row(0)).astype(np.float64)
            return index.dense_scores(encoding.rows("pooled")[0]), lexical

        def bm25(text: str) -> Found:
            return Found(self.ids(top_k(index.lexical_scores(encoder.tokenize([text]).row(0)), DEPTH)))

        def dense(text: str) -> Found:
            return Found(self.ids(top_k(index.dense_scores(encoder.encode([text]).rows("pooled")[0]), DEPTH)))

        def hybrid(text: str) -> Found:
            similarity, words = scores(text)
            return Found(self.ids(top_k(similarity + self.retriever.weights["bm25"] * words, DEPTH)))

        def convex(text: str) -> Found:
            return Found(self.ids(retrievers.convex(*scores(text), self.alpha, DEPTH)))

        def rrf(text: str) -> Found:
            return Found(self.ids(retrievers.reciprocal_ranks(*scores(text), DEPTH)))

        return {"BM25": bm25, "dense": dense, "hybrid": hybrid, "convex": convex, "RRF": rrf}

    def reranked(self, name: str) -> Job:
        """One of `RERANKERS`."""
        how, n = RERANKERS[name]

        def job(text: str) -> Found:
            query = timing.encode(self.retriever, text, how)
            found = self.retriever.candidates(query, n, how, evidence=False)
            started = time.perf_counter()
            order = timing.rerank(self.retriever, query, found, how)
            seconds = time.perf_counter() - started
            return Found(self.ids(found.rows[order.places]), seconds)

        return job

    def cross_encoders(self) -> dict[str, Job]:
        """The cross-encoder, and ``learned`` with the cross-encoder behind it; none without the network."""
        if self.network is None:
            return {}
        network, retriever = self.network, self.retriever
        weight, slope = (float(network.manifest[name]) for name in ("weight", "slope"))

        def alone(text: str) -> Found:
            (query,) = retriever.models.encode([text], classes=False, tokens=False)
            found = retriever.candidates(query, DEPTH, METHODS["hybrid"], evidence=False)
            started = time.perf_counter()
            logits = network.scores(text, self.texts(found.rows))
            order = np.argsort(-logits, kind="stable")
            seconds = time.perf_counter() - started
            summed = np.argsort(-(found.score + weight * logits), kind="stable")
            return Found(
                self.ids(found.rows[order]), seconds, {"cross-encoder, integrated": self.ids(found.rows[summed])}
            )

        def few(text: str) -> Found:
            query = timing.encode(retriever, text, METHODS["learned"])
            found = retriever.candidates(query, DEPTH, METHODS["hybrid"], evidence=False)
            started = time.perf_counter()
            learned = timing.rerank(retriever, query, found, METHODS["learned"])
            logits = np.zeros(len(found), np.float32)
            first = learned.places[:FEW]
            logits[first] = network.scores(text, self.texts(found.rows[first]))
            order = order_of_few(learned.score, logits, slope)
            seconds = time.perf_counter() - started
            return Found(self.ids(found.rows[order]), seconds)

        return {"learned, then cross-encoder": few, "cross-encoder": alone}

    def texts(self, rows: npt.NDArray[Any]) -> list[str]:
        """Passages as the cross-encoder reads them."""
        return [searchable(passage) for passage in self.retriever.index.passages(np.asarray(rows))]


def libraries(folder: Path) -> tuple[dict[str, Job], dict[str, str]]:
    """BM25 of other libraries over a folder's passages; and why some are missing."""
    passages = list(read_passages(folder / "corpus.jsonl"))
    ids, texts = [passage.id for passage in passages], [searchable(passage) for passage in passages]
    found: dict[str, Job] = {}
    missing = {}
    for name, make in retrievers.LIBRARIES.items():
        try:
            search = make(texts)
        except MissingExtraError as error:
            missing[name] = str(error)
            continue
        found[name] = lambda text, search=search: Found([ids[row] for row in search(text, DEPTH)])
    return found, missing


# -- steps ----------------------------------------------------------------------------------------------------------------


def quality(folder: str, cache: str, alpha: float, questions: int) -> dict[str, Any]:
    """Measure every system but the cross-encoder on the questions of a folder."""
    dataset = drawn(load_dataset(folder), questions)
    systems = opened(folder, cache, alpha, None)
    rankings = evaluate.rank(dataset, systems.retriever, candidates=MORE, depth=DEPTH)
    peers, _ = libraries(Path(folder))
    kept = {name: rankings[name] for name in (BASELINE, *RERANKERS)}
    for name, job in {**systems.retrievers(), **peers}.items():
        if name not in kept:
            kept[name] = [job(text).ids for text in dataset.questions.values()]
    return {"passages": len(systems.retriever.index), **measured(dataset, kept)}


def timed(folder: str, cache: str, alpha: float, cross_encoder: str | None, questions: int) -> dict[str, Any]:
    """Let the systems take turns at questions drawn by chance; gives times, and the quality of what they found."""
    dataset = drawn(load_dataset(folder), questions)
    systems = opened(folder, cache, alpha, cross_encoder)
    peers, missing = libraries(Path(folder))
    jobs: dict[str, Job] = {
        **systems.retrievers(),
        **peers,
        **{name: systems.reranked(name) for name in RERANKERS},
        **systems.cross_encoders(),
    }
    found: dict[str, dict[str, Found]] = {name: {} for name in jobs}
    texts = list(dataset.questions.values())
    seconds = timing.by_turns(
        texts, {name: lambda text, name=name: found[name].update({text: jobs[name](text)}) for name in jobs}
    )
    times = {name: timing.milliseconds(values) for name, values in seconds.items()}
    rankings: dict[str, list[list[str]]] = {}
    for name, by_text in found.items():
        answers = [by_text[text] for text in texts]
        reranking = [answer.reranking for answer in answers if answer.reranking is not None]
        if reranking:
            times[name] |= timing.milliseconds(reranking, "rerank_")
        rankings[name] = [answer.ids for answer in answers]
        for other in answers[0].more:
            rankings[other], times[other] = [answer.more[other] for answer in answers], times[name]
    return {**measured(dataset, rankings), "milliseconds": times, "missing": missing}


def drawn(dataset: Dataset, n: int) -> Dataset:
    """So many of the questions, drawn by chance; all, if there are no more."""
    names = list(dataset.questions)
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(names))[:n])
    kept = [names[row] for row in chosen]
    return replace(
        dataset,
        questions={name: dataset.questions[name] for name in kept},
        relevance={name: dataset.relevance[name] for name in kept},
    )


def settings(folder: str, cache: str, depths: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    """nDCG@10 of the default with every number of candidates and every weight that is tried, (depths, weights)."""
    dataset, retriever = load_dataset(folder), open_retriever(folder, cache)
    queries, method = retriever.encode(list(dataset.questions.values())), METHODS[DEFAULT]
    found = np.zeros((len(depths), len(weights)))
    for i, depth in enumerate(depths):  # each by itself: some evidence compares a candidate with the others
        parts = collect(retriever, queries, depth, method)
        places = np.unique(parts.rows)
        ids = {row: item.id for row, item in zip(places.tolist(), retriever.index.passages(places), strict=True)}
        for j, weight in enumerate(weights):
            rows = np.take_along_axis(parts.rows, parts.order(method, weight)[:, :DEPTH], axis=1)
            ranking = [[ids[row] for row in some] for some in rows.tolist()]
            found[i, j] = per_question(dataset, ranking, ["nDCG@10"])["nDCG@10"].mean()
    return {"tried": found.round(5).tolist()}


def open_retriever(folder: str | Path, cache: str | Path, models: Models | None = None) -> HybridRetriever:
    """The index of a set, built where the cache lacks it, with the shipped models on one thread."""
    models = models or Models.load()
    return HybridRetriever(evaluate.cached_index(Path(folder), Path(cache), models.passage_encoder), models)


def opened(folder: str, cache: str, alpha: float, cross_encoder: str | None) -> Systems:
    retriever = open_retriever(folder, cache)
    return Systems(retriever, alpha, None if cross_encoder is None else CrossEncoder.load(Path(cross_encoder)))


def measured(dataset: Dataset, rankings: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    """Figures of each ranking; ``cond_`` over the questions whose answer is among the hybrid's first ten."""
    results = measure(dataset, rankings, seed=SEED)
    answered = per_question(dataset, rankings[BASELINE], ("RR@10",))["RR@10"] > 0
    systems = {}
    for name, result in results.items():
        figures = {
            "mrr@10": result.mrr,
            "ndcg@10": result.ndcg,
            "recall@10": result.recall,
            "cond_mrr": result.cond_mrr,
            "error_removed": result.error_removed,
        }
        systems[name] = {
            **{key: round(value, 6) for key, value in figures.items()},
            "mrr@10_ci": [round(end, 4) for end in result.mrr_ci],
            "error_removed_ci": [round(end, 4) for end in result.error_removed_ci],
        }
    return {"questions": len(dataset.questions), "answered": int(answered.sum()), "systems": systems}
