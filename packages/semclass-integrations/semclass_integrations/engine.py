"""Passages in any engine that stores bytes: the engine finds candidates, and this process re-ranks them.

A passage has one column of bytes more, which holds what scores are computed from, so that no text is encoded again. The
bytes depend on nothing but the passage. A record of JSON says how the passages were encoded, and holds the statistics of
the corpus. docs/howto/postgres.md shows it with PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, InputError
from semclass.core.types import IntArray, Passage, Ragged, offsets_of
from semclass.index import candidates, filters
from semclass.index.ingest import decoded, stored_types
from semclass.index.passage_encoder import Evidence, PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.records import Candidates, Query, Scoring
from semclass.index.segment import NOTHING, Segment
from semclass.scoring import bm25, fusion
from semclass.scoring.dense import Vectors
from semclass.scoring.postings import count_terms
from semclass.scoring.topk import unit
from semclass_integrations.qdrant_collection import BLOCK, ServedIndex, dense, live, point_id, read_fields, write_fields

_KIND, _PROTOCOL = "engine-index", 1  # what a record describes, and the version of the bytes
_REMEDY = "store the passages of the index, and its record, again"

_ROWS = {
    "sentences": 0, "scales": 0, "shares": 0, "provides": 0, "tokens": 1, "pieces": 1, "terms": 2, "probabilities": 3,
}  # fmt: skip
"""Arrays in the bytes, in their order. Their rows: a sentence each (0), a word piece (1), a term (2), or one (3)."""

_HEAD = 12  # bytes before them: how many sentences, word pieces and terms there are

Find = Callable[[str, list[float], int, Mapping[str, Any] | None], Iterable[tuple[Passage, bytes]]]
"""Asks an engine. It gets a question, its vector, a number n and a filter (None: all passages), and returns the n best
passages, best first, with their bytes."""


def engine_record(index: PassageIndex) -> dict[str, Any]:
    """Describe an index as JSON, for :class:`EngineIndex`. A small index is refused."""
    if index.small:
        raise InputError("the index is small; build it without small=True (--small)")
    parts = _parts(index.segments[0], np.zeros(0, np.int64), NOTHING)
    types = {name: [part.values.dtype.str, list(part.values.shape[1:])] for name, part in parts.items()}
    return {"protocol": _PROTOCOL, "kind": _KIND, "types": types, **write_fields(index)}


def engine_rows(index: PassageIndex) -> Iterator[tuple[Passage, list[float], bytes]]:
    """Give each passage of an index, the mean vector of its sentences, for inner products, and its bytes."""
    for segment, first, rows in live(index):
        terms, counts = bm25.terms_of(segment.postings, first, first + BLOCK)
        owner = np.repeat(np.arange(len(terms)), terms.lengths())
        lengths = np.bincount(owner, counts, minlength=len(terms)).astype(np.int64)
        terms = Ragged(np.repeat(terms.values, counts), offsets_of(lengths))
        for some in np.split(rows, range(256, len(rows), 256)):
            parts = _parts(segment, some, terms.take(some - first))
            counted = np.stack([parts[name].lengths() for name in ("sentences", "pieces", "terms")], 1).astype("<u4")
            means = dense(segment, some)["mean"]
            for row, passage in enumerate(segment.passages(some)):
                packed = [np.ascontiguousarray(part.row(row)).tobytes() for part in parts.values()]
                yield passage, means[row], b"".join([counted[row].tobytes(), *packed])


def _parts(segment: Segment, rows: IntArray, terms: Ragged) -> dict[str, Ragged]:
    """The arrays of `_ROWS`, for some passages."""
    parts = {name: getattr(segment, name).take(rows) for name in tuple(_ROWS)[:6]}
    parts["terms"] = Ragged(terms.values.astype("<u4"), terms.offsets)
    return {**parts, "probabilities": Ragged(segment.probabilities[rows], np.arange(len(rows) + 1))}


@dataclass(frozen=True)
class EngineIndex(ServedIndex):
    """Passages in an engine. :class:`semclass.HybridRetriever` searches them like a local index.

    Attributes
    ----------
    find
        Asks the engine, see :data:`Find`. Threads that search at the same time call it at the same time.
    types
        Type and shape of the items of each array in the bytes.
    """

    find: Find
    types: Mapping[str, tuple[str, list[int]]]
    kind = "engine"

    @classmethod
    def of(cls, record: Mapping[str, Any], find: Find) -> EngineIndex:
        """Open passages with the record that :func:`engine_record` gave; an ArtifactError if it is damaged."""
        artifacts.check_protocol(record, "the record", _KIND, _PROTOCOL)
        found = read_fields(record, "the record", _REMEDY)
        try:
            types = {name: (str(record["types"][name][0]), list(record["types"][name][1])) for name in _ROWS}
        except (KeyError, IndexError, TypeError) as error:
            raise ArtifactError(f"the record is damaged ({error!r}); {_REMEDY}") from error
        return cls(find, types, **found)

    def check_passage_encoder(self, passage_encoder: PassageEncoder) -> None:
        """Refuse models whose arrays differ from those of these passages."""
        for name, (kind, columns) in stored_types(passage_encoder, small=self.small).items():
            if (np.dtype(kind).str, [columns]) != self.types[name]:
                raise ArtifactError(f"{name} are {self.types[name]}, those of the models {kind, columns}; {_REMEDY}")

    def passages(self, rows: IntArray) -> list[Passage]:
        """Refuse: an engine gives passages with a search alone."""
        raise InputError("an engine gives passages with a search alone; use the local index that they are of")

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        passage_encoder: PassageEncoder | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Let the engine find passages, score them as a local index does, and return the n best.

        The arguments are the same as in :meth:`semclass.PassageIndex.candidates`.
        """
        if where is not None:
            filters.parse(where)
        vector = unit(query.pooled)
        rows = list(self.find(query.query_used, vector.tolist(), max(n, fusion.DEPTH), where))
        parts = self._unpacked([bytes(stored) for _, stored in rows])
        vectors = Vectors(parts["sentences"], parts["scales"].values, parts["shares"].values)
        postings = count_terms(parts["terms"], self.statistics.is_term)
        searched = candidates.SearchedSegment(vectors, postings, probabilities := parts["probabilities"].values)
        search = candidates.Search([searched], query, scoring, self.statistics, self.thresholds, None, None)
        found = candidates.find(search, n)
        evidence = found.evidence
        if passage_encoder is not None and len(found):
            read = {name: parts[name].take(found.rows) for name in ("sentences", "provides", "tokens", "pieces")}
            evidence = decoded(Evidence(**read), passage_encoder.codebooks if self.codebooks else None)
        passages = tuple(rows[row][0] for row in found.rows)
        points = np.array([point_id(passage.id) for passage in passages], np.int64)
        return replace(
            found, rows=points, passages=passages, probabilities=probabilities[found.rows], evidence=evidence
        )

    def _unpacked(self, rows: Sequence[bytes]) -> dict[str, Ragged]:
        """The arrays of `_ROWS`, from the bytes of passages."""
        heads = b"".join(row[:_HEAD].ljust(_HEAD, b"\xff") for row in rows)
        counts = np.pad(
            np.frombuffer(heads, "<u4").reshape(-1, 3).astype(np.int64), ((0, 0), (0, 1)), constant_values=1
        )
        sizes = {name: np.dtype(kind).itemsize * int(np.prod(shape)) for name, (kind, shape) in self.types.items()}
        ends = _HEAD + np.cumsum([counts[:, which] * sizes[name] for name, which in _ROWS.items()], axis=0)
        if ends[-1].tolist() != [len(row) for row in rows]:
            raise ArtifactError(f"the bytes of a passage do not have the length that the record says; {_REMEDY}")
        begins, parts = np.concatenate([np.full((1, len(rows)), _HEAD), ends[:-1]]).tolist(), {}
        for (name, which), begin, end in zip(_ROWS.items(), begins, ends.tolist(), strict=True):
            joined = b"".join([row[first:last] for row, first, last in zip(rows, begin, end, strict=True)])
            kind, shape = self.types[name]
            values = np.frombuffer(joined, kind).reshape(int(counts[:, which].sum()), *shape)
            parts[name] = Ragged(values, offsets_of(counts[:, which]))
        if max(parts["pieces"].values.max(initial=0), parts["terms"].values.max(initial=0)) >= len(self.idf):
            raise ArtifactError(f"the bytes of a passage have word pieces that the record does not know; {_REMEDY}")
        return parts
