"""Points of Qdrant, made of the passages of an index, in requests that a server takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from semclass.core.types import FloatArray, IntArray, Ragged
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Segment
from semclass.integrations.qdrant_collection import CODES, Server, client_models, point_id
from semclass.scoring import bm25
from semclass.scoring.quantisation import from_int8

REQUEST = 8_000_000
"""Bytes of a request of more points than one, at most: a server takes 32 MB by default."""

_NUMBER = 24
"""Bytes of a number in JSON, at most."""

_BLOCK = 8192
"""Passages whose terms are gathered at a time: each time, all postings are looked through once."""


def create(server: Server, collection: str, dim: int, classes: int, settings: Mapping[str, Any]) -> None:
    """Make a collection, with the sizes of dense vectors and of class vectors; no class vectors if 0."""
    models, dims = client_models(), {"dense": dim, "classes": classes} if classes else {"dense": dim}
    server.create_collection(
        collection,
        vectors_config={
            name: models.VectorParams(size=size, distance=models.Distance.DOT) for name, size in dims.items()
        },
        sparse_vectors_config={"bm25": models.SparseVectorParams()},
        **settings,
    )


def batches(
    index: PassageIndex, batch: int, average: float, *, codes: bool
) -> Iterator[tuple[list[int], dict[str, Any], list[dict[str, Any]]]]:
    """Points of the passages of an index, a request at a time: numbers, vectors by name, and payloads."""
    models = client_models()
    for segment, first, rows in _live(index):
        terms, values = bm25.impacts(segment.postings, first, first + _BLOCK, average)
        for begin in range(0, len(rows), batch):
            here = rows[begin : begin + batch]
            vectors: dict[str, Any] = {"dense": _dense(segment, here, index.similarity).tolist(), "bm25": []}
            for row in here - first:
                span = slice(terms.offsets[row], terms.offsets[row + 1])
                sparse = models.SparseVector(indices=terms.values[span].tolist(), values=values[span].tolist())
                vectors["bm25"].append(sparse)
            if index.classes:
                probabilities = segment.probabilities[here]
                labels = probabilities >= index.thresholds
                vectors["classes"] = np.concatenate([probabilities, labels], axis=1).tolist()
            passages = segment.passages(here)
            payloads = [
                {"_id": passage.id, "text": passage.text, "metadata": dict(passage.metadata)} for passage in passages
            ]
            if codes:
                _put_codes(payloads, segment, here)
            ids = [point_id(passage.id) for passage in passages]
            for some in _requests(vectors, payloads):
                yield ids[some], {name: rows[some] for name, rows in vectors.items()}, payloads[some]


def _requests(vectors: Mapping[str, Any], payloads: Sequence[Mapping[str, Any]]) -> Iterator[slice]:
    """Cut points so that each request is as large as a server takes."""
    numbers = sum(len(rows[0]) for name, rows in vectors.items() if name != "bm25")
    begin = total = 0
    for place, (sparse, payload) in enumerate(zip(vectors["bm25"], payloads, strict=True)):
        size = _NUMBER * (numbers + 2 * len(sparse.values)) + len(json.dumps(payload))
        if place > begin and total + size > REQUEST:
            yield slice(begin, place)
            begin, total = place, 0
        total += size
    yield slice(begin, len(payloads))


def _live(index: PassageIndex) -> Iterator[tuple[Segment, int, IntArray]]:
    """Blocks of the segments: the segment, the block's first row in it, and its rows that were not removed."""
    for segment, keep in index.parts():
        there = np.ones(len(segment), np.bool_) if keep is None else keep
        for first in range(0, len(segment), _BLOCK):
            yield segment, first, first + np.flatnonzero(there[first : first + _BLOCK])


def _dense(segment: Segment, rows: IntArray, similarity: str) -> FloatArray:
    """Vectors as the index compares them, rounded and not normalised again, (m, dim), or (m, dim + 1) for ``"l2"``."""
    codes = segment.pooled_codes[rows]
    vectors = codes if codes.dtype == np.float32 else from_int8(codes, segment.pooled_levels[rows])
    if similarity != "l2":
        return np.asarray(vectors)
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return np.concatenate([vectors, squares[:, None] / 2], axis=1)


def _put_codes(payloads: Sequence[dict[str, Any]], segment: Segment, rows: IntArray) -> None:
    """Add what re-ranking needs: bytes of codes, and term ids of four bytes each."""
    for name in CODES:
        found: Ragged = getattr(segment, name).take(rows)
        values = found.values.astype("<u4") if name == "terms" else found.values
        for place, payload in enumerate(payloads):
            piece = values[found.offsets[place] : found.offsets[place + 1]]
            payload[name] = base64.b64encode(piece.tobytes()).decode()
