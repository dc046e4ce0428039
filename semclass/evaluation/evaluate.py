"""Measures the rankings of every method on a BEIR folder, on the same candidates, by two protocols.

The reference protocol ("conditional") uses only questions whose answer is among the first ten hits of ``hybrid``. It
measures how much of the error 1 - MRR a method removes on these questions. All other figures are over all questions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import IntArray
from semclass.documents.readers import read_passages
from semclass.evaluation.candidate_scores import collect
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import BASELINE, DEPTH, MEASURES, MethodResult, check_measures, measure
from semclass.index.manifest import PROTOCOL
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.records import Query
from semclass.index.writer import build_index
from semclass.ranking.methods import METHODS, Method
from semclass.ranking.order import has_heads_for, reorder
from semclass.ranking.retriever import HybridRetriever

RUN_DEPTH = 100
"""Number of passages of a run. First come the re-ranked passages, then the other passages in their order before
re-ranking.
"""


def cached_index(
    folder: str | Path,
    cache: str | Path,
    passage_encoder: PassageEncoder,
    progress: Callable[[int], object] | None = None,
    *,
    size: int = 0,
) -> PassageIndex:
    """Index the passages of a BEIR folder, or open the index of an earlier run on the same passages and models.

    With a `size`, the passages are cut into windows of at most so many words.

    The name of each index in `cache` is a hash of everything on which the index depends.
    """
    corpus = Path(folder) / "corpus.jsonl"
    encoder, head = passage_encoder.encoder.fingerprint, passage_encoder.classifier.head
    identity = [artifacts.sha256_of(corpus), encoder, str(PROTOCOL)]
    if size:
        identity.append(f"windows of {size}")
    if passage_encoder.codebooks:
        identity.append(passage_encoder.codebooks.fingerprint)
    if head:
        identity.append(head.artifact.manifest["files"]["model.onnx"]["sha256"])
    place = Path(cache) / hashlib.sha256(" ".join(identity).encode()).hexdigest()[:24]
    try:
        return PassageIndex.load(place, encoder_fingerprint=encoder)
    except ArtifactError:
        options: dict[str, Any] = {"progress": progress, "replace": True}
        passages = read_passages(corpus, "window", size=size) if size else read_passages(corpus)
        return build_index(place, passages, passage_encoder=passage_encoder, **options)


def evaluate(
    dataset: Dataset,
    retriever: HybridRetriever,
    *,
    seed: int = 0,
    candidates: int = DEPTH,
    measures: Sequence[str] = MEASURES,
    slices: Mapping[str, Sequence[str]] | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, MethodResult]:
    """Run every method on the same candidates with :func:`rank`, and measure the rankings with ``measure``.

    Raises
    ------
    InputError
        If ir-measures cannot compute a measure.
    MissingExtraError
        If ir-measures or scipy is not installed: ``pip install "semclass[eval]"``.
    """
    check_measures(measures)
    rankings = rank(dataset, retriever, candidates=candidates, progress=progress)
    return measure(dataset, rankings, seed=seed, measures=measures, slices=slices)


def rank(
    dataset: Dataset,
    retriever: HybridRetriever,
    *,
    candidates: int = DEPTH,
    depth: int = RUN_DEPTH,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, list[list[str]]]:
    """Rank the passages for each question by every method, with the weights of the retriever.

    Parameters
    ----------
    dataset, retriever
        n questions, and a retriever over an index of the data set's passages.
    candidates
        Number of passages to re-rank. If the number is not 10, each re-ranking method of the reference system appears
        twice, with 10 candidates and as ``NAME@candidates``.
    depth
        Length of each ranking. Passages that are not re-ranked follow in their order before re-ranking.
    progress
        Function that is called with the number of questions done.

    Returns
    -------
    dict
        The rankings of each method, in the order of `METHODS`. A ranking holds the passage ids for a question, best
        first. Methods whose heads the models lack are left out.
    """
    methods = {name: how for name, how in METHODS.items() if has_heads_for(retriever.models, how)}
    plain = {name: how for name, how in methods.items() if how.kind is None}
    queries, weights = retriever.encode(list(dataset.questions.values())), retriever.weights
    found = []
    for query in queries:
        # the two lists of the other fusions are no longer than the run: longer ones would change their scores
        lengths = {
            name: max(depth, candidates, DEPTH) if how.fusion == "linear" else depth for name, how in plain.items()
        }
        found.append([retriever.retrieve(query, lengths[name], how, weights=weights) for name, how in plain.items()])
        progress(1)
    retrieved = {name: np.stack(rows) for name, rows in zip(plain, zip(*found, strict=True), strict=True)}
    behind = {"linear": retrieved[BASELINE], "convex": retrieved["convex"]}
    reranked = [
        (name if n == how.candidates else f"{name}@{n}", how, n)
        for name, how in methods.items()
        if name not in plain
        for n in dict.fromkeys((how.candidates, *((candidates,) if how.fusion == "linear" else ())))
    ]
    for fusion, n in sorted({(how.fusion, n) for _, how, n in reranked}):
        parts = collect(retriever, queries, n, Method(fusion))
        for name, how, own in reranked:
            if (how.fusion, own) == (fusion, n):
                if how.joint_top_k:
                    moved = np.stack([reranked_rows(retriever, query, n, how, weights) for query in queries])
                else:
                    moved = np.take_along_axis(parts.rows, parts.order(how, weights.get(how.weight, 0.0)), axis=1)
                retrieved[name] = np.concatenate([moved, behind[fusion][:, moved.shape[1] :]], axis=1)
    names = [name for name in METHODS if name in retrieved] + [name for name in retrieved if name not in METHODS]
    seen, places = np.unique(np.stack([retrieved[name][:, :depth] for name in names]), return_inverse=True)
    ids = np.array([passage.id for passage in retriever.index.passages(seen)], object)
    rankings = ids[places.reshape(len(names), len(queries), -1)].tolist()
    return dict(zip(names, rankings, strict=True))


def reranked_rows(
    retriever: HybridRetriever, query: Query, n: int, method: Method, weights: Mapping[str, float]
) -> IntArray:
    """Return the rows of the n candidates of a question in the order of a method that re-ranks them."""
    found = retriever.candidates(query, n, method, weights=weights)
    passages = retriever.index.passages(found.rows)
    return found.rows[reorder(retriever.models, query, found, method, weights=weights, passages=passages).places]
