"""An index in another engine. The engine stores and finds rows, and this process scores and re-ranks the found rows.

A row holds the input of scoring and re-ranking, packed in bytes, so a search encodes no text again. The bytes depend only
on the passage. A record in JSON describes the models that made the rows, and holds the statistics of all passages.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import FloatArray, IntArray, Passage, Ragged, offsets_of
from semclass.encoders.words import terms_of
from semclass.heads.sparse import unpack
from semclass.index import filters
from semclass.index.candidates import Candidates, Query, Scoring
from semclass.index.filters import Filter
from semclass.index.folder import Header
from semclass.index.passage_encoder import PassageEncoder, types_of
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import NOTHING, Part, Segment, line_of, records_of, segment_of
from semclass.scoring import bm25, fusion
from semclass.scoring.bm25 import Statistics
from semclass.scoring.dense import MEAN_WEIGHT
from semclass.scoring.vectors import from_quarter_bytes, unit

_KIND, _PROTOCOL = "remote-index", 2
_REMEDY = "store the index again"

_ARRAYS = {
    "excerpts": 0, "scales": 0, "shares": 0, "provides": 0, "tokens": 1, "pieces": 1, "terms": 2, "sparse": 3,
    "probabilities": 4,
}  # fmt: skip
"""Arrays in a row's bytes, in their order. An item of an array belongs to an excerpt (0), a word piece (1), a term (2), a
learnt word (3), or the whole passage (4).
"""

_COUNTED = ("excerpts", "pieces", "terms", "sparse")
_HEAD = 4 * len(_COUNTED)  # bytes before the arrays: their numbers

_PASSAGES_A_PASS = 4096  # passages whose terms are gathered in one pass over the postings


@dataclass(frozen=True)
class StoredRow:
    """A passage as an engine stores it."""

    passage: Passage
    mean: FloatArray  #: mean vector of the excerpts, (dim,); its inner product with a unit vector is a cosine
    excerpts: FloatArray  #: unit vectors of the excerpts, (n_excerpts, dim)
    terms: IntArray  #: the distinct terms, numbers of 32 bits, ascending, (n_terms,)
    impacts: FloatArray  #: part of each term in a BM25 score, per unit of inverse document frequency, (n_terms,)
    learnt: Mapping[int, float]  #: weights of the learnt words, by id; empty without a head for them
    packed: bytes  #: input of scoring and re-ranking


@dataclass(frozen=True)
class Wanted:
    """Request to an engine for two lists of rows: the best by vector, and the best by words.

    The score by vector is `mean_weight` * (vector @ mean) + (1 - `mean_weight`) * max(excerpts @ vector). The score by
    words is the sum of weight * impact over the terms.
    """

    vector: FloatArray  #: unit vector of the question, (dim,); empty if words alone are to find passages
    terms: Mapping[int, float]  #: weight of each term of the question, above 0; empty if no passage has one
    depth: int  #: length of each of the two lists
    where: Filter | None  #: filter that every passage must match, or None
    mean_weight: float = MEAN_WEIGHT


@dataclass(frozen=True, kw_only=True)
class RemoteIndex(Header):
    """Base class of indices in other engines. :class:`semclass.HybridRetriever` searches them like an index in a folder.

    A subclass is a frozen dataclass that implements :meth:`find`. All attributes except for `types` are equal to those of
    the :class:`semclass.PassageIndex` whose passages were stored.
    """

    tuned: Mapping[str, Any]
    statistics: Statistics
    types: Mapping[str, tuple[str, list[int]]]  #: type and shape of an item of each array in a row's bytes

    def find(self, wanted: Wanted) -> Iterable[tuple[Passage, bytes]]:
        """Return each passage of both lists once, in any order, with the bytes of its row."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.statistics.passages

    @staticmethod
    def fields_of(index: PassageIndex) -> dict[str, Any]:
        """Return the attributes of a remote index that holds the passages of `index`."""
        none = np.zeros(0, np.int64)
        parts = _arrays(index.segments[0], none, Ragged(none, np.zeros(1, np.int64)))
        fields = {"tuned": index.tuned, "statistics": index.statistics, "types": types_of(parts)}
        return {**index.header(), **fields}

    def record(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        statistics = self.statistics
        terms, frequencies = statistics.table()
        return {
            **self.header(),
            "types": self.types,
            "tuned": dict(self.tuned),
            "passages": statistics.passages,
            "average_length": statistics.average,
            "terms": _text_of(np.diff(terms, prepend=np.uint32(0))),
            "frequencies": _text_of(frequencies),
            "protocol": _PROTOCOL,
            "kind": _KIND,
        }

    @staticmethod
    def read(record: Mapping[str, Any], where: Path | str) -> dict[str, Any]:
        """Read the attributes that :meth:`record` wrote. An ArtifactError about a damaged record names `where`."""
        artifacts.check_protocol(record, where, _KIND, _PROTOCOL)
        try:
            terms = np.cumsum(_numbers_of(record["terms"]), dtype=np.uint32)
            frequencies, average = _numbers_of(record["frequencies"]), float(record["average_length"])
            if len(frequencies) != len(terms):
                raise ValueError(f"{len(terms)} terms have {len(frequencies)} frequencies")
            return {
                **Header.read(record, where),
                "tuned": dict(record["tuned"]),
                "types": {name: (str(kind), list(shape)) for name, (kind, shape) in dict(record["types"]).items()},
                "statistics": Statistics.of(int(record["passages"]), average, terms, frequencies),
            }
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ArtifactError(f"{where} is damaged ({error!r}); {_REMEDY}") from error

    def recounted(self, passages: int, terms: npt.NDArray[Any], frequencies: npt.NDArray[Any]) -> RemoteIndex:
        """Return the same index with other statistics: ascending terms, and the number of passages with each term."""
        counted = Statistics.of(passages, self.statistics.average, terms.astype(np.uint32), frequencies)
        return replace(self, statistics=counted)

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        passage_encoder: PassageEncoder | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Let the engine find passages, and score them as :meth:`semclass.PassageIndex.candidates` does."""
        words = terms_of([query.query_used], self.language).values
        terms = {term: float(weight) for term, weight in bm25.weighted(self.statistics, words)}
        vector = unit(query.pooled) if len(query.pooled) else query.pooled
        condition = None if where is None else filters.parse(where)
        rows = list(self.find(Wanted(vector, terms, max(n, fusion.DEPTH), condition)))
        rows.sort(key=lambda row: row[0].id)  # of equal scores, the first id is first
        index = self._local([passage for passage, _ in rows], self._unpacked([packed for _, packed in rows]))
        scoring = replace(scoring, around=0.0)  # which passages are side by side is not known
        best = index.candidates(query, n, scoring, passage_encoder=passage_encoder)
        return replace(best, passages=tuple(rows[row][0] for row in best.rows))

    def _local(self, passages: Sequence[Passage], parts: Mapping[str, Ragged]) -> PassageIndex:
        """Make an index of found passages, which are weighed by the statistics of all."""
        whole = {"tokens": NOTHING, "pieces": NOTHING, **parts}  # which a small index lacks
        records = records_of([line_of(passage) for passage in passages])
        segment = replace(segment_of(whole), records=records)
        index = PassageIndex(**self.header(), parts=(Part(segment),))
        vars(index)["statistics"] = self.statistics
        return index

    def _unpacked(self, rows: Sequence[bytes]) -> dict[str, Ragged]:
        heads = np.frombuffer(b"".join(row[:_HEAD].ljust(_HEAD, b"\xff") for row in rows), "<u4")
        heads = heads.reshape(-1, len(_COUNTED))
        counts = np.pad(heads.astype(np.int64), ((0, 0), (0, 1)), constant_values=1)
        lengths = {name: counts[:, _ARRAYS[name]] for name in self.types}
        sizes = {name: np.dtype(kind).itemsize * int(np.prod(shape)) for name, (kind, shape) in self.types.items()}
        ends = _HEAD + np.cumsum([length * sizes[name] for name, length in lengths.items()], axis=0)
        if ends[-1].tolist() != [len(row) for row in rows]:
            raise ArtifactError(f"the bytes of a passage do not have the length that the record says; {_REMEDY}")
        begins, parts = np.concatenate([np.full((1, len(rows)), _HEAD), ends[:-1]]).tolist(), {}
        for (name, length), begin, end in zip(lengths.items(), begins, ends.tolist(), strict=True):
            joined = b"".join([row[first:last] for row, first, last in zip(rows, begin, end, strict=True)])
            kind, shape = self.types[name]
            parts[name] = Ragged(np.frombuffer(joined, kind).reshape(int(length.sum()), *shape), offsets_of(length))
        return parts


SearchIndex: TypeAlias = "PassageIndex | RemoteIndex"
"""An index that a retriever searches."""


def stored_rows(index: PassageIndex, average: float | None = None) -> Iterator[StoredRow]:
    """Yield the rows of the passages of an index. `average` is the mean number of terms per passage, for `impacts`."""
    average = index.statistics.average if average is None else average
    for part in index.parts:
        segment = part.segment
        live = np.ones(len(segment), np.bool_) if part.keep is None else part.keep
        for first in range(0, len(segment), _PASSAGES_A_PASS):
            rows, last = np.flatnonzero(live[first : first + _PASSAGES_A_PASS]), first + _PASSAGES_A_PASS
            terms, impacts, repeated = bm25.impacts(segment.postings, first, last, average)
            for some in np.split(rows, range(256, len(rows), 256)):
                parts = _arrays(segment, first + some, repeated.take(some))
                means, excerpts = _vectors(parts)
                for row, (place, passage) in enumerate(zip(some, segment.passages(first + some), strict=True)):
                    here = slice(terms.offsets[place], terms.offsets[place + 1])
                    vectors = means[row], excerpts.row(row)
                    learnt = unpack(parts["sparse"].row(row))
                    yield StoredRow(passage, *vectors, terms.values[here], impacts[here], learnt, _packed(parts, row))


def _arrays(segment: Segment, rows: IntArray, terms: Ragged) -> dict[str, Ragged]:
    parts = {
        "terms": Ragged(terms.values.astype("<u4"), terms.offsets),
        "probabilities": Ragged(segment.probabilities[rows], np.arange(len(rows) + 1)),
    }
    names = tuple(name for name in _ARRAYS if name not in parts and len(getattr(segment, name)) == len(segment))
    parts |= {name: getattr(segment, name).take(rows) for name in names}
    return {name: parts[name] for name in _ARRAYS if name in parts}


def _vectors(parts: Mapping[str, Ragged]) -> tuple[FloatArray, Ragged]:
    codes, scales, shares = (parts[name].values for name in ("excerpts", "scales", "shares"))
    vectors = (codes if codes.dtype == np.float32 else from_quarter_bytes(codes)) * scales[:, None]
    offsets = parts["excerpts"].offsets
    means = np.add.reduceat(vectors * shares[:, None], offsets[:-1]) if len(vectors) else vectors
    return means, Ragged(vectors, offsets)


def _text_of(numbers: npt.NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(numbers.astype("<u4").tobytes(), 9)).decode()


def _numbers_of(text: str) -> IntArray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<u4").astype(np.int64)


def _packed(parts: Mapping[str, Ragged], row: int) -> bytes:
    counts = [len(parts[name].row(row)) if name in parts else 0 for name in _COUNTED]
    arrays = [np.ascontiguousarray(part.row(row)).tobytes() for part in parts.values()]
    return b"".join([np.array(counts, "<u4").tobytes(), *arrays])
