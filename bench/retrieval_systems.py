"""The systems that search and re-rank, as jobs from a question to ten ids, and the steps that measure them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import measures
from semclass import HybridRetriever, Models, PassageIndex, build_index
from semclass.core import artifacts
from semclass.core.artifacts import kind_of
from semclass.core.errors import import_extra
from semclass.documents.readers import read_passages
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import BASELINE, DEPTH, measure, per_question
from semclass.index.folder import PROTOCOL
from semclass.index.passage_encoder import searchable

METHODS_OF: dict[str, dict[str, Any]] = {
    "BM25": {"method": "bm25"},
    "dense": {"method": "dense"},
    "hybrid": {"method": "hybrid"},
    "convex": {"method": "convex"},
    "RRF": {"method": "rrf"},
    "default": {},
    "entail-integrated": {"method": "entail-integrated", "candidates": 10},
}
"""Systems that are methods of the library, and the options of their searches."""

SEED, ALONE = 0, 20  # questions that a system answers in a process of its own

SYSTEMS = {
    "BM25": ("semclass", "BM25 over stems, as the library computes it"),
    "BM25, bm25s": ("peer", "bm25s with its own tokeniser, English stop words and a stemmer, as it documents"),
    "BM25, rank-bm25": ("peer", "rank-bm25 over lower-cased words, as the reference work has it"),
    "dense": ("semclass", "cosine of the shipped encoder's vectors"),
    "hybrid": ("semclass", "dense + 0.1 * BM25, the reference's sum, which is the baseline here"),
    "convex": ("semclass", "dense, BM25 and learnt words, each brought to 0 ... 1 over the first 100 of both lists"),
    "RRF": ("peer", "reciprocal rank fusion, k = 60, of the same signals; on semclass's index"),
    "default": ("semclass", "a search without options: convex + late interaction of neighbouring words, first 25"),
    "entail-integrated": ("semclass", "hybrid + lambda * probability that the passage answers"),
}
"""By name: whose it is, and one sentence about it."""


Job = Callable[[str], list[str]]
"""From a question to the ids of ten passages, best first."""


def job(folder: Path, retriever: Any, name: str) -> Job:
    """A method of the library, or BM25 of another library over a folder's passages; a MissingExtraError without it."""
    if name in METHODS_OF:
        return lambda text: [hit.id for hit in retriever.search(text, DEPTH, **METHODS_OF[name])]
    passages = list(read_passages(folder / "corpus.jsonl"))
    ids, search = [passage.id for passage in passages], LIBRARIES[name]([searchable(passage) for passage in passages])
    return lambda text: [ids[row] for row in search(text, DEPTH)]


# -- steps ----------------------------------------------------------------------------------------------------------------


def quality(folder: str, cache: str, questions: int) -> dict[str, Any]:
    """Measure every system on the questions of a folder."""
    dataset, retriever = drawn(load_dataset(folder), questions), open_retriever(folder, cache)
    texts = list(dataset.questions.values())
    kept = {
        name: [[hit.id for hit in found] for found in retriever.search_many(texts, DEPTH, **options)]
        for name, options in METHODS_OF.items()
    }
    kept |= {name: [*map(job(Path(folder), retriever, name), texts)] for name in LIBRARIES}
    return {"passages": len(retriever.index), **measured(dataset, kept)}


def timed(folder: str, cache: str, questions: int) -> dict[str, Any]:
    """Let the systems take turns at questions drawn by chance; gives times, and the quality of what they found."""
    dataset, retriever = drawn(load_dataset(folder), questions), open_retriever(folder, cache)
    jobs = {name: job(Path(folder), retriever, name) for name in SYSTEMS}
    found: dict[str, dict[str, list[str]]] = {name: {} for name in jobs}
    texts = list(dataset.questions.values())
    seconds = measures.by_turns(
        texts, {name: lambda text, name=name: found[name].update({text: jobs[name](text)}) for name in jobs}
    )
    rankings = {name: [by_text[text] for text in texts] for name, by_text in found.items()}
    times = {name: measures.milliseconds(values) for name, values in seconds.items()}
    return {**measured(dataset, rankings), "milliseconds": times}


def alone(folder: str, cache: str, system: str) -> dict[str, Any]:
    """Answer some questions by one system alone: the step says the memory that its process takes."""
    retriever = open_retriever(folder, cache) if system in METHODS_OF else None
    asked = list(load_dataset(folder, limit=ALONE).questions.values())
    return {"questions": len([*map(job(Path(folder), retriever, system), asked)])}


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
        figures |= {"right_first": result.top1, "cond_mrr": result.cond_mrr, "error_removed": result.error_removed}
        systems[name] = {
            **{key: round(value, 6) for key, value in figures.items()},
            "mrr@10_ci": [round(end, 4) for end in result.mrr_ci],
            "error_removed_ci": [round(end, 4) for end in result.error_removed_ci],
        }
    return {"questions": len(dataset.questions), "answered": int(answered.sum()), "systems": systems}


# -- peers: BM25 of other libraries -----------------------------------------------------------------------------------


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


def by_rank_bm25(texts: Sequence[str]) -> Search:
    """rank-bm25, k1 = 1.5 and b = 0.75 as it comes, over lower-cased words, as it brings no tokeniser."""
    model = import_extra("rank_bm25", "bench").BM25Okapi([_words(text) for text in texts])
    rows = list(range(len(texts)))
    return lambda question, n: list(model.get_top_n(_words(question), rows, n=n))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


LIBRARIES: Mapping[str, Callable[[Sequence[str]], Search]] = {
    "BM25, bm25s": by_bm25s,
    "BM25, rank-bm25": by_rank_bm25,
}
