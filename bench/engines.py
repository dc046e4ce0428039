"""Whether the embedded index, Qdrant's local mode and Qdrant's Rust core give the same scores and the same ten passages.

Neither engine is a networked server: requests do not travel, and there is one shard.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.qdrant_edge import EdgeClient
from bench.steps import Bench
from semclass import HybridRetriever, Models, PassageIndex, QdrantIndex
from semclass.core.errors import import_extra
from semclass.documents.readers import read_passages
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.index.records import Candidates, Query
from semclass.ranking.methods import METHODS

SETS = {
    "squad4-500": ("squad4", 500, ("local", "rust_core")),
    "squad4": ("squad4", None, ("rust_core",)),
    "pubmedqa": ("pubmedqa", None, ("rust_core",)),
}
"""Folder, passages (the first so many, or all) and engines. Local mode compares sparse vectors in a Python loop over all
passages, half a second a question with 1,700 of them: it is asked over fewer."""

QUESTIONS = 1000
N = 10  # passages that are compared
MATCHES = ("hybrid", "match-soft", "match-hard")


class Listening:
    """A client that remembers the scores which the engine gave last."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.scores: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        """Everything else is the client's."""
        return getattr(self.client, name)

    def query_points(self, *arguments: Any, **options: Any) -> Any:
        """Search, and remember."""
        found = self.client.query_points(*arguments, **options)
        self.scores = {point.id: point.score for point in found.points}
        return found


def differences(mine: Candidates, theirs: Candidates, ids: Sequence[str], engine: Sequence[float]) -> dict[str, float]:
    """Largest differences of what both sides say of the passages that both found; `ids` are those of `mine`."""
    place = {name: row for row, name in enumerate(ids)}
    both = [(place[item.id], row) for row, item in enumerate(theirs.passages or ()) if item.id in place]
    here, there = (np.array(rows, np.int64) for rows in zip(*both, strict=True))
    names = ["score", "dense", "bm25", *(["match"] if mine.match is not None else [])]
    found = {name: float(np.abs(getattr(mine, name)[here] - getattr(theirs, name)[there]).max()) for name in names}
    # the engine leaves out what is the same for all passages; with cosines that is nothing
    return {**found, "engine_score": float(np.abs(mine.score[here] - np.array(engine)[there]).max())}


def agreement(retriever: HybridRetriever, found: HybridRetriever, queries: Sequence[Query]) -> dict[str, Any]:
    """Compare two retrievers, question by question; forms of class match take turns."""
    index, client = retriever.embedded, found.index.client  # type: ignore[attr-defined]
    largest: dict[str, float] = {}
    same, order = 0, 0
    for place, query in enumerate(queries):
        method = METHODS[MATCHES[place % len(MATCHES)]]
        mine = retriever.candidates(query, N, method, evidence=False)
        theirs = found.candidates(query, N, method, evidence=False)
        ids = [passage.id for passage in index.passages(mine.rows)]
        others = [passage.id for passage in theirs.passages or ()]
        same += set(ids) == set(others)
        order += ids == others
        engine = [client.scores[row] for row in theirs.rows.tolist()]
        for name, value in differences(mine, theirs, ids, engine).items():
            largest[name] = max(largest.get(name, 0.0), value)
    return {
        "questions": len(queries),
        "same_passages": same,
        "same_order": order,
        "largest_difference": {name: float(f"{value:.2g}") for name, value in largest.items()},
    }


def measure(folder: str, indices: str, questions: int, passages: int | None, engines: Sequence[str]) -> dict[str, Any]:
    """Everything on one set."""
    qdrant = import_extra("qdrant_client", "bench")
    warnings.filterwarnings("ignore", "Local mode performs exact")
    models = Models.load()
    if passages is None:
        index = evaluate.cached_index(folder, indices, models.passage_encoder)
    else:
        index = PassageIndex.build(read_passages(Path(folder))[:passages], passage_encoder=models.passage_encoder)
    dataset = load_dataset(folder, limit=questions)
    retriever = HybridRetriever(index, models)
    queries = retriever.encode(list(dataset.questions.values()))
    result: dict[str, Any] = {"passages": len(index), "questions": len(queries)}
    with tempfile.TemporaryDirectory() as place:
        clients = {"local": Listening(qdrant.QdrantClient(":memory:")), "rust_core": Listening(EdgeClient(place))}
        found = {
            name: HybridRetriever(QdrantIndex.upload(index, clients[name], "passages"), models) for name in engines
        }
        # every passage of these small sets is scored, so that nothing but the arithmetic can differ
        for name, remote in found.items():
            full = replace(remote, index=replace(remote.index, depth=len(index)))  # type: ignore[type-var]
            result[name] = agreement(retriever, full, queries)
    return result


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set; a quick run takes the first one, on which all engines are asked."""
    sets = dict(list(SETS.items())[:1]) if bench.quick else SETS
    return {
        name: bench.step(
            f"engines/{name}",
            "bench.engines:measure",
            folder=bench.beir(folder),
            indices=bench.indices,
            questions=30 if bench.quick else QUESTIONS,
            passages=passages,
            engines=engines,
        )
        for name, (folder, passages, engines) in sets.items()
    }


ENGINES = {"local": "local mode", "rust_core": "Rust core"}


def table(found: Mapping[str, Any]) -> str:
    rows = []
    for name, results in found["engines"].items():
        if name not in SETS:
            continue
        if "skipped" in results:
            rows.append((name, f"not measured: {results['skipped']}", *["-"] * 6))
            continue
        for engine in (engine for engine in ENGINES if engine in results):
            one = results[engine]
            counts = (f"{one[key]:,}" for key in ("questions", "same_passages", "same_order"))
            largest = (readme.number(one["largest_difference"].get(key)) for key in ("score", "engine_score"))
            rows.append((name, ENGINES[engine], f"{results['passages']:,}", *counts, *largest))
    head = ("set", "engine", "passages", "questions", "same ten", "same order", "score differs by", "engine's score by")
    return readme.markdown(head, rows)


TABLES = {"": table}
