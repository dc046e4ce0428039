"""The passage index, which holds everything about passages that does not depend on the question.

An index is a list of segments (:mod:`semclass.index.segment`) in a folder whose manifest names the segments
(:mod:`semclass.index.folder`). A loaded index is a snapshot. Later changes of the folder (:mod:`semclass.index.writer`)
do not reach it, and :meth:`PassageIndex.refresh` returns an index with the changes. :mod:`semclass.core.files` explains
how the files of an index are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError, InputError, warn
from semclass.core.files import REMEDY
from semclass.core.types import DoubleArray, IntArray, Passage, Ragged, chained
from semclass.encoders.words import terms_of
from semclass.heads import sparse
from semclass.index import filters
from semclass.index.candidates import Candidates, Evidence, Query, Scoring, decode, no_rows, sum_of
from semclass.index.columns import FALSE, FIRST_CODE, Scalar
from semclass.index.folder import (
    Header,
    Manifest,
    check_target,
    commit,
    locked,
    manifest_or_none,
    open_parts,
    read_manifest,
)
from semclass.index.passage_encoder import (
    PROBABILITY,
    PassageEncoder,
    chunks,
    language_for,
    types_of,
    warn_of_truncated,
)
from semclass.index.segment import Part, Segment, hashes_of, join
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics
from semclass.scoring.fusion import DEPTH, pool
from semclass.scoring.vectors import nth_at_least, top_k

CACHED_MASKS = 8
"""Number of filters whose matching passages are cached."""

MAX_VALUES = 50
"""Maximum number of values of a field that becomes a facet."""

PLACES = frozenset(("start", "end", "page", "paragraph", "window", "section", "heading", "headings", "table"))
"""Fields with the position of a passage in its document."""

EVIDENCE = ("excerpts", "provides", "tokens", "pieces")
"""Arrays of a segment that re-ranking reads."""

EXHAUSTIVE_BELOW = 50_000
"""Maximum number of passages of an index for scoring all passages."""

EXHAUSTIVE_FILTERED = 10_000
"""Maximum number of passages that match a filter for scoring all of them, however large the index is."""

OVERFETCH = 2
"""Number of passages that reduced vectors find for each passage of the list by vectors.

On 100,000 synthetic passages, a search finds 0.979 of the ten best by vectors alone for questions with an answer among
them (squad4), and 0.858 for other questions (pubmedqa). With four times as many passages, it finds 0.986 and 0.912. With
BM25, it finds all (``docs/decisions/settled.md``).
"""

NEAR = 4
"""Number of passages on either side whose words count for a passage, see `AROUND`. From 2 to 10, results hardly change."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Facet:
    """A field that divides the passages into a few groups."""

    field: str
    head: bool  #: whether a head labelled the passages
    values: Sequence[tuple[Scalar, int]]  #: values and their numbers of passages, the most frequent first


@dataclass(frozen=True)
class PassageIndex(Header):
    """Passages with their vectors, terms and classes, read-only. Threads may share one instance.

    Each passage has a row, counted through all segments. A deleted passage keeps its row until segments are joined, but
    no search finds it, and the length of the index does not count it.
    """

    parts: tuple[Part, ...]  #: segments, and which of their passages are deleted
    tuned: Mapping[str, Any] = field(
        default_factory=dict
    )  #: result of ``semclass tune``; empty if the index was not tuned
    folder: Path | None = None  #: folder from which it was loaded; None for an index in memory
    manifest: Manifest | None = None  #: the manifest of the folder then
    mmap: bool = False  #: whether the files are memory-mapped
    _warned: set[str] = field(default_factory=set, init=False, repr=False, compare=False)  # messages on filters
    _masks: dict[str, BoolArray] = field(default_factory=dict, init=False, repr=False, compare=False)  # by filter

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments."""
        return tuple(part.segment for part in self.parts)

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each segment, and the number of all rows, int64 of shape (segments + 1,)."""
        return np.cumsum([0, *map(len, self.segments)], dtype=np.int64)

    @cached_property
    def live(self) -> BoolArray | None:
        """Whether each row's passage is not deleted, bool of shape (rows,). None if no passage is deleted."""
        if all(part.keep is None for part in self.parts):
            return None
        return np.concatenate([np.ones(len(p.segment), np.bool_) if p.keep is None else p.keep for p in self.parts])

    @cached_property
    def rows(self) -> IntArray:
        """The rows of all passages that are not deleted, ascending, int64 of shape (len(index),)."""
        return np.arange(self.starts[-1]) if self.live is None else np.flatnonzero(self.live)

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of BM25 over all passages that are not deleted."""
        return bm25.statistics([part.segment.postings for part in self.parts], [part.deleted for part in self.parts])

    def within(self, rows: IntArray) -> Iterator[tuple[Segment, IntArray, IntArray]]:
        """Yield each segment with some of the rows, the places of these in `rows`, and their rows in the segment."""
        if len(self.segments) == 1:
            yield self.segments[0], np.arange(len(rows)), rows
            return
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            here = np.flatnonzero(owner == number)
            yield self.segments[number], here, rows[here] - self.starts[number]

    def _take(self, name: str, rows: IntArray) -> Ragged:
        places = list(self.within(rows)) or [(self.segments[0], rows, rows)]
        taken = chained([getattr(segment, name).take(local) for segment, _, local in places])
        if len(places) == 1:
            return taken
        return taken.take(np.argsort(np.concatenate([here for _, here, _ in places])))

    def _values(self, name: str, rows: IntArray) -> npt.NDArray[Any]:
        """Read some rows of an array with one row for each passage."""
        first = getattr(self.segments[0], name)
        values = np.empty((len(rows), *first.shape[1:]), first.dtype)
        for segment, here, local in self.within(rows):
            values[here] = getattr(segment, name)[local]
        return values

    def without(self, rows: IntArray) -> PassageIndex:
        """Return the index without the passages at `rows`. All other passages keep their rows."""
        parts = list(self.parts)
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            parts[number] = parts[number].without(rows[owner == number] - self.starts[number])
        return replace(self, parts=tuple(parts))

    def passages(self, rows: IntArray) -> list[Passage]:
        """Return passages as you gave them. `rows` is int64 of shape (m,)."""
        result: dict[int, Passage] = {}
        for segment, places, local in self.within(np.asarray(rows, np.int64)):
            result |= zip(places.tolist(), segment.passages(local), strict=True)
        return [result[place] for place in range(len(result))]

    def find(self, ids: Sequence[str]) -> IntArray:
        """Return the rows of the passages with the given ids, int64 of shape (m,). An unknown id has the row -1."""
        result, hashes = np.full(len(ids), -1, np.int64), hashes_of(ids)
        for first, part in zip(self.starts.tolist(), self.parts, strict=False):
            rows = part.segment.find(ids, hashes)
            there = rows >= 0
            if part.keep is not None:
                there[there] = part.keep[rows[there]]
            result[there] = first + rows[there]
        return result

    @property
    def fields(self) -> set[str]:
        """Names of the metadata fields, as filters use them."""
        return {path for segment in self.segments for path in segment.columns.fields}

    def mask(self, where: Mapping[str, Any] | None = None) -> BoolArray:
        """Return whether each passage matches a filter, bool of shape (rows,). A deleted passage does not match.

        See :mod:`semclass.index.filters` for `where`; None matches all passages. The next search uses the same mask, so
        do not change it. A field that no passage has causes a warning, and a wrong filter an InputError.
        """
        if where is None:
            return np.ones(self.starts[-1], np.bool_) if self.live is None else self.live
        condition = filters.parse(where)
        key, known = repr(condition), self._masks
        if (mask := known.get(key)) is None:
            message = filters.unknown_field(condition, self.fields)
            # a service is asked for any field
            if message and message not in self._warned and len(self._warned) < filters.MAX_NAMED_FIELDS:
                self._warned.add(message)
                warn(UserWarning(message))
            found = [filters.mask(condition, segment.columns, segment.find) for segment in self.segments]
            mask = known[key] = np.concatenate(found) if self.live is None else np.concatenate(found) & self.live
            for oldest in list(known)[:-CACHED_MASKS]:
                known.pop(oldest, None)  # another thread may have removed it
        return mask

    def evidence(self, rows: IntArray, passage_encoder: PassageEncoder) -> Evidence:
        """Read or decode the evidence of some passages for re-ranking. A small index encodes the passages again."""
        if self.small:
            return passage_encoder.evidence(self.passages(rows))
        stored = {name: self._take(name, rows) for name in EVIDENCE}
        if int(stored["pieces"].values.max(initial=0)) >= len(passage_encoder.classifier.encoder.is_term):
            raise ArtifactError(f"the index has word pieces that its encoder does not know; {REMEDY}")
        return decode(stored, passage_encoder.codebooks if self.codebooks else None)

    @property
    def types(self) -> dict[str, tuple[str, list[int]]]:
        """Return the types and item shapes of the arrays that re-ranking reads. They are the same in all segments."""
        rows = {name: getattr(part, name) for part in self.segments for name in EVIDENCE}
        return types_of({name: array for name, array in rows.items() if len(array.values)})

    def terms_of(self, query: Query) -> npt.NDArray[np.uint32]:
        """Return the terms of a question for BM25, uint32."""
        return terms_of([query.query_used], self.language).values

    def scores(self, query: Query) -> tuple[DoubleArray, DoubleArray]:
        """Return similarities and BM25 scores of all rows, deleted ones included, each float64 of shape (rows,)."""
        dense = np.concatenate([segment.vectors.scores(query.pooled) for segment in self.segments])
        postings = [segment.postings for segment in self.segments]
        return dense, bm25.scores(postings, self.statistics, self.terms_of(query)).astype(np.float64)

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        passage_encoder: PassageEncoder | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Score passages and return the n best. Passages with equal scores are in the order of rows.

        Fusions other than linear fuse two lists of passages that match `where`. A list has `n` passages, but at least
        :data:`semclass.scoring.fusion.DEPTH`. The evidence for re-ranking is read only with `passage_encoder`.
        """
        best = find(self, query, n, scoring, self.live if where is None else self.mask(where))
        if passage_encoder is None or not len(best):
            return best
        return replace(best, evidence=self.evidence(best.rows, passage_encoder))

    def scored(self, query: Query, scoring: Scoring, passage_encoder: PassageEncoder) -> Candidates:
        """Score all passages, in the order of rows, like passages that came with the question."""
        rows, lexical = self.rows, _lexical(self, query, self.rows)
        found = _fused(self, query, rows, scoring, _dense(self, query, rows), lexical, lexical, len(rows))
        return replace(found, evidence=self.evidence(rows, passage_encoder), is_stored=False)

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        *,
        passage_encoder: PassageEncoder | None = None,
        small: bool = False,
        language: str | None = None,
    ) -> PassageIndex:
        """Index passages in memory. :func:`semclass.build_index` builds an index on the disk, and can resume a build.

        Parameters
        ----------
        passages
            At least one passage. Ids must be unique. Passages without text and title are left out, with a
            :class:`semclass.SkippedWarning`, because they answer nothing. A title in ``metadata["title"]`` is encoded
            before each excerpt of the text, or in place of an empty text.
        passage_encoder
            Defaults to the passage encoder of the shipped models.
        small
            Whether to store only the vectors of excerpts. Each search then encodes the passages that it re-ranks.
        language
            Language of the passages. BM25 compares words by their stems in this language. Give a name that Snowball uses,
            such as ``"english"``, or ``""`` to leave words unstemmed. By default, the language is detected from the first
            passages.

        Raises
        ------
        InputError, InputTypeError
            If there is no passage with a text, an id comes twice, a text is not a string, or an option is not allowed.
        """
        passage_encoder = PassageEncoder.load() if passage_encoder is None else passage_encoder
        stream = chunks(passages)
        if (first := next(stream, None)) is None:
            raise InputError("there are no passages to index; give at least one")
        header = passage_encoder.header(small=small, language=language_for(first, language))
        parts, truncated = list[Part](), list[str]()
        for chunk in chain([first], stream):
            segment, long = passage_encoder.encode(chunk, header)
            parts.append(Part(segment))
            truncated += long
        index = cls(**header.header(), parts=(Part(join(parts)),))
        warn_of_truncated(truncated, len(index))
        return index

    def facets(self, where: Mapping[str, Any] | None = None) -> list[Facet]:
        """Count the values of metadata fields that divide the passages into a few groups. Labels of heads come first.

        Such a field has 2 to :data:`MAX_VALUES` values, and on average two passages per value. With a filter, all values
        stay in the result, but only matching passages are counted.
        """
        skipped = PLACES | {name + PROBABILITY for name in self.heads}
        present, facets = self.mask(), []
        allowed = self.mask(where)
        for name in sorted(self.fields - skipped):
            counts = self._counts(name, present)
            if 1 < len(counts) <= MAX_VALUES and (name in self.heads or 2 * len(counts) <= sum(counts.values())):
                here = counts if where is None else self._counts(name, allowed)
                order = sorted(counts.items(), key=lambda item: (-item[1], str(item[0][1])))
                facets.append(Facet(name, name in self.heads, [(value[1], here[value]) for value, _ in order]))
        return sorted(facets, key=lambda facet: (not facet.head, len(facet.values)))

    def _counts(self, field: str, allowed: BoolArray) -> Counter[tuple[bool, Scalar]]:
        """Count the values of a field, each with whether it is a boolean, as 1 is equal to True in Python."""
        counts: Counter[tuple[bool, Scalar]] = Counter()
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            if (column := segment.columns.fields.get(field)) is None:
                continue
            if len(column.values) > MAX_VALUES:
                return Counter()
            here = allowed[start : start + len(segment)]
            numbers = np.bincount(column.codes[here[column.rows] if len(column.rows) else here])
            for code in np.flatnonzero(numbers).tolist():
                if code >= FALSE:
                    counts[code < FIRST_CODE, column.value(code)] += int(numbers[code])
        return counts

    def save(self, folder: str | Path) -> None:
        """Write the index as one segment into a folder. An older index there stays valid until it is replaced.

        Raises an ArtifactError if the folder holds other files, has another writer, or cannot be written. The same error
        is raised if this index was loaded from the folder, and the folder was changed since then.
        """
        folder = Path(folder)
        check_target(folder, replace=True)
        with locked(folder) as place:
            current, known = manifest_or_none(folder), self.manifest
            same = self.folder is not None and self.folder.resolve() == folder.resolve()
            if same and current and known and (current.tuned, current.segments) != (known.tuned, known.segments):
                raise ArtifactError(
                    f"the index {folder} was changed after it was loaded; call refresh() before you save it there"
                )
            commit(folder, place, Manifest(Header(**self.header()), (), self.tuned), [self.parts])

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True, mmap: bool = False) -> PassageIndex:
        """Open an index in its current state. Later changes in the folder do not change the opened index.

        Parameters
        ----------
        verify
            Whether to compare the SHA-256 of every file, and not only its size. This reads the whole index once.
        mmap
            Whether to memory-map files, for copying most of them. If a file is truncated meanwhile, the process dies.

        Raises
        ------
        ArtifactError
            If a file is missing, truncated, changed, or of another protocol, or if files do not fit together.
        """
        folder = Path(folder)
        return cls.of(folder, read_manifest(folder), mmap=mmap, verify=verify)

    def check_files(self) -> None:
        """Raise a ChangedFileError if an open file of the index was overwritten since it was opened."""
        for segment in self.segments:
            segment.check_files()

    def refresh(self) -> PassageIndex:
        """Return the index in the current state of its folder, or the same object if nothing changed.

        The new index shares unchanged segments. Segments with overwritten files are opened again, and verified. Raises an
        InputError for an index that was not loaded from a folder, and an ArtifactError as :meth:`load` does.
        """
        if self.folder is None:
            raise InputError("this index was built in memory, so it cannot be refreshed; save it and load it first")
        current = read_manifest(self.folder)
        whole = [part for part in self.parts if not part.segment.is_changed]
        damaged = len(whole) < len(self.parts)
        if current == self.manifest and not damaged:
            return self
        return self.of(self.folder, current, whole, mmap=self.mmap, verify=damaged)

    @classmethod
    def of(
        cls, folder: Path, current: Manifest, known: Sequence[Part] = (), *, mmap: bool, verify: bool = False
    ) -> PassageIndex:
        """Open the index that a manifest describes. Segments in `known` are not opened again."""
        current, parts = open_parts(folder, current, known, mmap=mmap, verify=verify)
        fields: dict[str, Any] = {"tuned": current.tuned, "folder": folder, "manifest": current, "mmap": mmap}
        return cls(**current.header.header(), parts=tuple(parts), **fields)


# searching


def find(index: PassageIndex, query: Query, n: int, scoring: Scoring, allowed: BoolArray | None = None) -> Candidates:
    """Find at most n passages with the best scores, best first. Passages with equal scores are in the order of rows.

    Vectors and words find passages, and learnt words also score the found ones. In a small index, every passage is scored.
    In a large index, fusions read two lists: the best passages by vectors alone, see
    :mod:`semclass.scoring.approximation`, and the best by BM25 alone. Only the sum of the reference thesis reads no list.
    `allowed` marks the rows that may be found; None allows all rows.
    """
    total, depth = sum(map(len, index.segments)), max(DEPTH, n)
    number = total if allowed is None else int(np.count_nonzero(allowed))
    if scoring.alone == "bm25":
        rows, dense, lexical, _ = _best_of_bm25(index, query, depth, allowed, np.zeros(0, np.int64), np.zeros(0))
    elif scoring.fusion != "linear" and total > EXHAUSTIVE_BELOW and number > max(EXHAUSTIVE_FILTERED, n):
        rows, dense, lexical = _lists(index, query, scoring, depth, allowed)
    else:
        rows = np.arange(total) if allowed is None else np.flatnonzero(allowed)
        dense, lexical = _dense(index, query, rows), _lexical(index, query, rows)
    if scoring.fusion != "linear":
        places = _pooled(scoring, {"dense": dense, "bm25": lexical}, depth)
        rows, dense, lexical = rows[places], dense[places], lexical[places]
    nearby = lexical
    if scoring.around and len(rows):
        places = rows if index.live is None else np.searchsorted(index.rows, rows)
        share = scoring.around * min(1.0, len(rows) / DEPTH)  # in a small index, everything is nearby
        titles = index._values("title_hashes", rows)
        nearby = (1 - share) * lexical + share * largest_nearby(places, titles, lexical)
    return _fused(index, query, rows, scoring, dense, lexical, nearby, depth, n)


def largest_nearby(places: IntArray, titles: npt.NDArray[np.uint64], scores: DoubleArray) -> DoubleArray:
    """For n passages at ascending `places`, return the largest score of the same title at most `NEAR` places away, (n,)."""
    largest: DoubleArray = scores.copy()
    for step in range(1, NEAR + 1):
        near = (places[step:] - places[:-step] <= NEAR) & (titles[step:] == titles[:-step])
        np.maximum(largest[step:], scores[:-step], out=largest[step:], where=near)
        np.maximum(largest[:-step], scores[step:], out=largest[:-step], where=near)
    return largest


def _fused(
    index: PassageIndex,
    query: Query,
    rows: IntArray,
    scoring: Scoring,
    dense: DoubleArray,
    lexical: DoubleArray,
    nearby: DoubleArray,
    depth: int,
    n: int | None = None,
) -> Candidates:
    """Fuse the signals of some rows, with the BM25 scores `nearby`. Returns the n best, best first; without n, all rows."""
    learnt = sparse_scores(index, query, rows) if scoring.weights.get("sparse") else np.zeros(len(rows))
    terms = index.terms_of(query) if scoring.coverage else np.zeros(0, np.uint32)
    parts = scoring.parts({"dense": dense, "bm25": nearby, "sparse": learnt}, index.statistics, terms, depth)
    score = sum_of(parts)
    best = np.arange(len(rows)) if n is None else top_k(score, n)
    return Candidates(
        rows=rows[best],
        dense=dense[best],
        bm25=lexical[best],
        sparse=learnt[best],
        parts={name: part[best] for name, part in parts.items()},
        score=score[best],
        probabilities=index._values("probabilities", rows[best]),
        classes=index.classes,
        thresholds=np.array(index.thresholds),
        evidence=Evidence(*[no_rows(len(best))] * 4),
        order=np.arange(len(best)),
    )


def _pooled(scoring: Scoring, listed: Mapping[str, DoubleArray], depth: int) -> IntArray:
    """Places of the passages in the lists that a fusion reads."""
    if scoring.alone is not None and len(own := pool({scoring.alone: listed[scoring.alone]}, depth)) >= depth:
        return own
    return pool({name: values for name, values in listed.items() if not np.isnan(values).any()}, depth)


def _lists(
    index: PassageIndex, query: Query, scoring: Scoring, depth: int, allowed: BoolArray | None
) -> tuple[IntArray, DoubleArray, DoubleArray]:
    """Find the `depth` best passages by vectors alone and by BM25 alone, as far as both lists have a weight."""
    rows, dense = _similar(index, query, depth, allowed)
    if scoring.alone == "dense" and len(rows) >= depth:
        return rows, dense, _lexical(index, query, rows)
    best, similar, lexical, only = _best_of_bm25(index, query, depth, allowed, rows, dense)
    order = np.argsort(joined := np.concatenate([best, rows[only]]))
    lexical = np.concatenate([lexical, _lexical(index, query, rows[only])])
    return joined[order], np.concatenate([similar, dense[only]])[order], lexical[order]


def _best_of_bm25(
    index: PassageIndex,
    query: Query,
    depth: int,
    allowed: BoolArray | None,
    rows: IntArray,
    dense: DoubleArray,
) -> tuple[IntArray, DoubleArray, DoubleArray, BoolArray]:
    """Find the best passages by BM25 alone: rows, ascending, with both scores.

    Also returns which of `rows`, whose dense scores are known, are not among them.
    """
    postings = [part.postings for part in index.segments]
    lexical, scores = bm25.best(postings, index.statistics, index.terms_of(query), depth, allowed)
    lexical, scores = lexical[order := np.argsort(lexical)], scores[order]
    here, there = np.intersect1d(lexical, rows, assume_unique=True, return_indices=True)[1:]
    similarity, new, only = np.empty(len(lexical)), np.ones(len(lexical), np.bool_), np.ones(len(rows), np.bool_)
    new[here], only[there], similarity[here] = False, False, dense[there]
    similarity[new] = _dense(index, query, lexical[new])
    return lexical, similarity, scores.astype(np.float64), only


def _similar(index: PassageIndex, query: Query, depth: int, allowed: BoolArray | None) -> tuple[IntArray, DoubleArray]:
    """Find the passages that are best by vectors alone, ascending, and their similarity."""
    found, values, first = [], [], 0
    for part in index.segments:
        here = None if allowed is None else allowed[first : first + len(part)]
        if part.vectors.reduced is None:
            scores, rows = part.vectors.scores(query.pooled), np.arange(len(part))
            if here is not None:
                scores[~here] = -np.inf
        else:
            rows = part.vectors.nearest(query.pooled, OVERFETCH * depth, here)
            scores = part.vectors.scores_at(query.pooled, rows)
        chosen = np.flatnonzero(scores >= max(float(nth_at_least(scores, depth)), np.finfo(np.float64).min))
        found.append(rows[chosen] + first)
        values.append(scores[chosen])
        first += len(part)
    return np.concatenate(found), np.concatenate(values)


def _dense(index: PassageIndex, query: Query, rows: IntArray) -> DoubleArray:
    scores = np.full(len(rows), np.nan)
    for part, here, local in index.within(rows) if len(query.pooled) else ():
        scores[here] = part.vectors.scores_at(query.pooled, local)
    return scores


def _lexical(index: PassageIndex, query: Query, rows: IntArray) -> DoubleArray:
    postings = [part.postings for part in index.segments]
    return bm25.scores_at(postings, index.statistics, index.terms_of(query), rows).astype(np.float64)


def sparse_scores(index: PassageIndex, query: Query, rows: IntArray) -> DoubleArray:
    """Score the passages at `rows` by learnt words, float64 of shape (m,)."""
    scores = np.zeros(len(rows))
    for part, here, local in index.within(rows) if len(query.sparse) else ():
        scores[here] = sparse.scores(query.sparse, part.sparse.take(local))
    return scores
