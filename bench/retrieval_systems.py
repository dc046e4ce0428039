"""The systems that search and re-rank, as jobs from a question to ten ids, and the steps that measure them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import measures
from bench.peers.systems import CrossEncoder
from semclass import HybridRetriever, Models, Passage, PassageIndex, build_index
from semclass.core import artifacts
from semclass.core.artifacts import kind_of
from semclass.core.errors import MissingExtraError, import_extra
from semclass.documents.readers import read_passages
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import BASELINE, DEPTH, measure, per_question
from semclass.index.manifest import PROTOCOL
from semclass.index.passage_encoder import searchable

MORE = 50  # candidates that are re-ranked in a second run

METHODS_OF: dict[str, dict[str, Any]] = {
    "BM25": {"method": "bm25"},
    "dense": {"method": "dense"},
    "hybrid": {"method": "hybrid"},
    "convex": {"method": "convex"},
    "RRF": {"method": "rrf"},
    "default": {},
    "entail-integrated": {"method": "entail-integrated", "candidates": 10},
    f"entail-integrated@{MORE}": {"method": "entail-integrated", "candidates": MORE},
}
"""Systems that are methods of the library, and the options of their searches."""

SEED = 0

SYSTEMS = {
    "BM25": ("semclass", "BM25 over stems, as the library computes it"),
    "BM25, bm25s": ("peer", "bm25s with its own tokeniser, English stop words and a stemmer, as it documents"),
    "dense": ("semclass", "cosine of the shipped encoder's vectors"),
    "hybrid": ("semclass", "dense + 0.1 * BM25, the reference's sum, which is the baseline here"),
    "convex": ("semclass", "dense, BM25 and learnt words, each brought to 0 ... 1 over the first 100 of both lists"),
    "RRF": ("peer", "reciprocal rank fusion, k = 60, of the same signals; on semclass's index"),
    "default": ("semclass", "a search without options: convex + late interaction of neighbouring words, first 25"),
    "entail-integrated": ("semclass", "hybrid + lambda * probability that the passage answers"),
    f"entail-integrated@{MORE}": ("semclass", f"the same with {MORE} candidates"),
    "cross-encoder": (
        "peer",
        "hybrid, then an int8 MiniLM that reads question and passage together orders the first 10; trained for this "
        "benchmark on questions that the pair head learnt from",
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


def methods(retriever: HybridRetriever) -> dict[str, Job]:
    """The systems of `METHODS_OF`."""

    def job(text: str, options: Mapping[str, Any]) -> Found:
        return Found([hit.id for hit in retriever.search(text, DEPTH, **options)])

    return {name: partial(job, options=options) for name, options in METHODS_OF.items()}


def cross_encoders(retriever: HybridRetriever, network: CrossEncoder) -> dict[str, Job]:
    """The network over the first ten of the hybrid: alone, and added to their scores."""
    weight = float(network.manifest["weight"])

    def alone(text: str) -> Found:
        hits = retriever.search(text, DEPTH, method="hybrid")
        started = time.perf_counter()
        logits = network.scores(text, [searchable(Passage(hit.id, hit.text, hit.metadata)) for hit in hits])
        order = np.argsort(-logits, kind="stable")
        seconds = time.perf_counter() - started
        summed = np.argsort(-(np.array([hit.score for hit in hits]) + weight * logits), kind="stable")
        first, second = ([hits[place].id for place in places.tolist()] for places in (order, summed))
        return Found(first, seconds, {"cross-encoder, integrated": second})

    return {"cross-encoder": alone}


def libraries(folder: Path) -> tuple[dict[str, Job], dict[str, str]]:
    """BM25 of another library over a folder's passages; or why it is missing."""
    passages = list(read_passages(folder / "corpus.jsonl"))
    ids, texts = [passage.id for passage in passages], [searchable(passage) for passage in passages]
    try:
        search = by_bm25s(texts)
    except MissingExtraError as error:
        return {}, {"BM25, bm25s": str(error)}
    return {"BM25, bm25s": lambda text: Found([ids[row] for row in search(text, DEPTH)])}, {}


# -- steps ----------------------------------------------------------------------------------------------------------------


def quality(folder: str, cache: str, questions: int) -> dict[str, Any]:
    """Measure every system but the cross-encoder on the questions of a folder."""
    dataset, retriever = drawn(load_dataset(folder), questions), open_retriever(folder, cache)
    texts = list(dataset.questions.values())
    kept = {
        name: [[hit.id for hit in found] for found in retriever.search_many(texts, DEPTH, **options)]
        for name, options in METHODS_OF.items()
    }
    for name, job in libraries(Path(folder))[0].items():
        kept[name] = [job(text).ids for text in texts]
    return {"passages": len(retriever.index), **measured(dataset, kept)}


def timed(folder: str, cache: str, cross_encoder: str | None, questions: int) -> dict[str, Any]:
    """Let the systems take turns at questions drawn by chance; gives times, and the quality of what they found."""
    dataset = drawn(load_dataset(folder), questions)
    retriever, (peers, missing) = open_retriever(folder, cache), libraries(Path(folder))
    jobs: dict[str, Job] = {**methods(retriever), **peers}
    if cross_encoder is not None:
        jobs |= cross_encoders(retriever, CrossEncoder.load(Path(cross_encoder)))
    found: dict[str, dict[str, Found]] = {name: {} for name in jobs}
    texts = list(dataset.questions.values())
    seconds = measures.by_turns(
        texts, {name: lambda text, name=name: found[name].update({text: jobs[name](text)}) for name in jobs}
    )
    times = {name: measures.milliseconds(values) for name, values in seconds.items()}
    rankings: dict[str, list[list[str]]] = {}
    for name, by_text in found.items():
        answers = [by_text[text] for text in texts]
        reranking = [answer.reranking for answer in answers if answer.reranking is not None]
        if reranking:
            times[name] |= measures.milliseconds(reranking, "rerank_")
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


def open_retriever(folder: str | Path, cache: str | Path, models: Models | None = None) -> HybridRetriever:
    """The index of a set, built where the cache lacks it, with the shipped models on one thread."""
    models, corpus = models or Models.load(), Path(folder) / "corpus.jsonl"
    encoder = models.passage_encoder
    identity = [artifacts.sha256_of(corpus), encoder.encoder.fingerprint, str(PROTOCOL)]
    identity += [part.fingerprint for part in (encoder.codebooks, encoder.sparse) if part]
    place = Path(cache) / hashlib.sha256(" ".join(identity).encode()).hexdigest()[:24]
    if kind_of(place) != "index":
        build_index(place, read_passages(corpus), passage_encoder=encoder)
    return HybridRetriever(PassageIndex.load(place), models)


def measured(dataset: Dataset, rankings: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    """Figures of each ranking; ``cond_`` over the questions whose answer is among the hybrid's first ten."""
    results = measure(dataset, rankings, seed=SEED)
    answered = per_question(dataset, rankings[BASELINE], ("RR@10",))["RR@10"] > 0
    systems = {}
    for name, result in results.items():
        figures = {"mrr@10": result.mrr, "ndcg@10": result.ndcg, "recall@10": result.recall}
        figures |= {"cond_mrr": result.cond_mrr, "error_removed": result.error_removed}
        systems[name] = {
            **{key: round(value, 6) for key, value in figures.items()},
            "mrr@10_ci": [round(end, 4) for end in result.mrr_ci],
            "error_removed_ci": [round(end, 4) for end in result.error_removed_ci],
        }
    return {"questions": len(dataset.questions), "answered": int(answered.sum()), "systems": systems}


# -- a peer: BM25 of another library -----------------------------------------------------------------------------


Search = Callable[[str, int], list[int]]


def by_bm25s(texts: Sequence[str]) -> Search:
    """bm25s with its own tokeniser, English stop words and the Snowball stemmer; everything else as it comes."""
    bm25s = import_extra("bm25s", "bench")
    stemmer = import_extra("Stemmer", "bench").Stemmer("english")
    model = bm25s.BM25()
    model.index(bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def search(question: str, n: int) -> list[int]:
        asked = bm25s.tokenize(question, stemmer=stemmer, show_progress=False)
        rows, _ = model.retrieve(asked, k=min(n, len(texts)), show_progress=False)
        return [int(row) for row in rows[0]]

    return search
