"""The passage index: everything about passages that does not depend on the question, computed once.

An index is a row of segments (:mod:`semclass.index.segment`) in a folder whose manifest names them
(:mod:`semclass.index.store`). One that was loaded is a snapshot: whoever changes the folder
(:mod:`semclass.index.writer`) does not disturb it, and :meth:`PassageIndex.refresh` gives the newer one. How its files
are read, and why, says :mod:`semclass.core.files`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_texts, check_unique
from semclass.core.errors import ArtifactError, EncoderMismatchError, InputError
from semclass.core.files import Files
from semclass.core.npy import array_of
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage, Ragged, chained
from semclass.index import candidates, filters, shapes, store
from semclass.index.candidates import Asked, SearchedSegment
from semclass.index.ingest import FORMS, Recipe, chunks, decoded, warn_of_long
from semclass.index.passage_encoder import PassageReader, searchable
from semclass.index.records import Candidates, Query, Scoring, no_evidence
from semclass.index.segment import Part, Segment, hashes_of, join
from semclass.index.store import Entry, Manifest
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics
from semclass.scoring.postings import Postings, Removed, merge

__all__ = ["FORMS", "PassageIndex", "Source"]

MASKS = 8
"""Filters whose passages are remembered."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Source:
    """Where an index was loaded from.

    Attributes
    ----------
    folder
        The folder.
    manifest
        What it held then.
    mapped
        Whether files were memory-mapped, see :meth:`PassageIndex.mapped`.
    """

    folder: Path
    manifest: Manifest
    mapped: bool = False


@dataclass(frozen=True)
class PassageIndex:
    """Passages with their vectors, terms and classes. Read-only; many threads may share one.

    Passages are numbered through all segments: their rows. A removed passage keeps its row until segments are joined; it is
    never found, and not counted. Attributes that are made of those of the segments have its row, too.

    Attributes
    ----------
    encoder
        Fingerprint of the encoder that made the vectors.
    interaction
        What made the token vectors, see :attr:`semclass.index.passage_encoder.PassageReader.interaction`.
    classes
        Names of the passage classes.
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    similarity
        How `pooled` is compared with a question's vector, see :func:`semclass.scoring.topk.similarity`.
    form
        One of :data:`semclass.index.ingest.FORMS`.
    codebooks
        Fingerprint of the codebooks that `tokens` and `sentences` were written with; empty if with none.
    segments
        The passages, at least one segment.
    removed
        What was removed from each segment; None for one of which all is there.
    tuned
        What ``semclass tune`` found, see :meth:`semclass.evaluation.tune.Tuning.as_record`; empty if it was never run.
    source
        Where it was loaded from; None for one in memory.
    """

    encoder: str
    interaction: str
    classes: tuple[str, ...]
    thresholds: DoubleArray
    similarity: str
    form: str
    codebooks: str
    segments: tuple[Segment, ...]
    removed: tuple[Removed | None, ...]
    tuned: Mapping[str, Any] = field(default_factory=dict)
    source: Source | None = None

    def __len__(self) -> int:
        """Count the passages, without removed ones."""
        return self.statistics.passages

    @cached_property
    def starts(self) -> IntArray:
        """First row of each segment, and the number of all rows; int64 of shape (segments + 1,)."""
        return np.cumsum([0, *map(len, self.segments)], dtype=np.int64)

    @cached_property
    def live(self) -> BoolArray | None:
        """Which rows are those of passages that are there, bool of shape (rows,); None if all are."""
        if not any(gone is not None and len(gone.rows) for gone in self.removed):
            return None
        found = np.ones(self.starts[-1], np.bool_)
        for first, gone in zip(self.starts.tolist(), self.removed, strict=False):
            if gone is not None:
                found[first + gone.rows] = False
        return found

    @cached_property
    def rows(self) -> IntArray:
        """Rows of the passages that are there, ascending, int64 of shape (len(index),)."""
        return np.arange(self.starts[-1]) if self.live is None else np.flatnonzero(self.live)

    @cached_property
    def statistics(self) -> Statistics:
        """What BM25 has to know of all passages that are there."""
        return bm25.statistics([segment.postings for segment in self.segments], self.removed)

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for pieces that are no terms."""
        return self.statistics.idf

    @cached_property
    def pooled_codes(self) -> npt.NDArray[Any]:
        """Pooled vectors as they are kept, see :attr:`semclass.index.segment.Segment.pooled_codes`; shape (rows, dim)."""
        return self._flat("pooled_codes")

    @cached_property
    def pooled_levels(self) -> FloatArray:
        """What an int8 row is to be multiplied with, float32 of shape (rows,)."""
        return self._flat("pooled_levels")

    @cached_property
    def probabilities(self) -> FloatArray:
        """P(class | passage), float32 of shape (rows, n_classes)."""
        return self._flat("probabilities")

    @cached_property
    def tokens(self) -> Ragged:
        """Token vectors as they are kept, see :attr:`semclass.index.segment.Segment.tokens`."""
        return self._ragged("tokens")

    @cached_property
    def sentences(self) -> Ragged:
        """Vectors of sentences as they are kept, see :attr:`semclass.index.segment.Segment.sentences`."""
        return self._ragged("sentences")

    @cached_property
    def terms(self) -> Ragged:
        """Word-piece ids of whole passages; without rows in a lean index."""
        return self._ragged("terms")

    @cached_property
    def records(self) -> Ragged:
        """Passages as JSON lines, ragged uint8."""
        return self._ragged("records")

    @cached_property
    def postings(self) -> Postings:
        """What BM25 is computed from, of all rows."""
        parts = [segment.postings for segment in self.segments]
        return parts[0] if len(parts) == 1 else merge(parts)

    @property
    def pooled(self) -> FloatArray:
        """Pooled vectors, float32 of shape (rows, dim), for a look at all of them: int8 is widened at each access."""
        return _one([segment.pooled for segment in self.segments])

    def _flat(self, name: str) -> npt.NDArray[Any]:
        return _one([getattr(segment, name) for segment in self.segments])

    def _rows(self, name: str, rows: IntArray) -> npt.NDArray[Any]:
        """Some rows of an array, read from their segments."""
        values = getattr(self.segments[0], name)
        if len(self.segments) == 1:
            return np.asarray(values[rows])
        found = np.empty((len(rows), *values.shape[1:]), values.dtype)
        for segment, places, local in self._within(rows):
            found[places] = getattr(segment, name)[local]
        return found

    def _ragged(self, name: str) -> Ragged:
        """A ragged array of all rows; copied where there are several segments."""
        return chained([getattr(segment, name) for segment in self.segments])

    def _take(self, name: str, rows: IntArray) -> Ragged:
        """Some rows of a ragged array, read from their segments."""
        if len(self.segments) == 1:
            return getattr(self.segments[0], name).take(rows)  # type: ignore[no-any-return]
        places, parts = [], []
        for segment, here, local in self._within(rows):
            places.append(here)
            parts.append(getattr(segment, name).take(local))
        if not parts:
            return getattr(self.segments[0], name).take(rows)  # type: ignore[no-any-return]
        return chained(parts).take(np.argsort(np.concatenate(places)))

    def _within(self, rows: IntArray) -> Iterator[tuple[Segment, IntArray, IntArray]]:
        """Each segment that has some of the rows: which of `rows` they are, and their places in the segment."""
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(owner).tolist():
            here = np.flatnonzero(owner == number)
            yield self.segments[number], here, rows[here] - self.starts[number]

    def evidence(self, rows: IntArray, reader: PassageReader) -> tuple[Ragged, Ragged, Ragged]:
        """Give what re-ranking needs of some passages.

        Parameters
        ----------
        rows
            int64 of shape (m,).
        reader
            The models that read passages; those that the index was made with.

        Returns
        -------
        tuple of Ragged
            Unit token vectors and unit vectors of the sentences, float32; word-piece ids of the whole passages.
        """
        if self.form == "lean":
            return reader.read_sentences([searchable(passage) for passage in self.passages(rows)])
        books = reader.codebooks if self.codebooks else None
        tokens, sentences, terms = (self._take(name, rows) for name in ("tokens", "sentences", "terms"))
        if int(terms.values.max(initial=0)) >= len(self.statistics.is_term):
            raise ArtifactError(f"the terms of the index are not those of its encoder; {store.REMEDY}")
        return (
            Ragged(decoded(tokens.values, None if books is None else books.tokens), tokens.offsets),
            Ragged(decoded(sentences.values, None if books is None else books.sentences), sentences.offsets),
            terms,
        )

    def check_reader(self, reader: PassageReader) -> None:
        """Refuse models that give other arrays than this index holds, though their fingerprints are the same.

        Raises
        ------
        ArtifactError
            If dimensions or the vocabulary differ.
        """
        views, books = reader.encoder.views, reader.codebooks if self.codebooks else None
        wanted = {"pooled_codes": views["pooled"]}
        if books is not None:
            wanted |= {"tokens": books.tokens.parts, "sentences": books.sentences.parts}
        elif self.form == "exact":
            wanted |= {"tokens": reader.token_dim, "sentences": views["pooled"]}
        vocabulary = len(reader.encoder.is_term)
        for segment in self.segments:
            terms = len(segment.postings.is_term)
            if terms != vocabulary:
                raise ArtifactError(f"the index has {terms} terms, its encoder {vocabulary}; {store.REMEDY}")
            for name, dim in wanted.items():
                held = getattr(segment, name)
                values = held.values if isinstance(held, Ragged) else held
                if len(values) and values.shape[1:] != (dim,):
                    raise ArtifactError(
                        f"{name} of the index are of {values.shape[1:]} numbers, those of its encoder of {dim}; "
                        f"{store.REMEDY}"
                    )

    def passage(self, row: int) -> Passage:
        """Read one passage back, as it was handed in; `row` is its place, from 0."""
        return self.passages(np.array([row]))[0]

    def passages(self, rows: IntArray) -> list[Passage]:
        """Read passages back.

        Parameters
        ----------
        rows
            Their places, int64 of shape (m,).

        Returns
        -------
        list of Passage
            As they were handed in.
        """
        if len(self.segments) == 1:
            return self.segments[0].passages(rows)
        found: dict[int, Passage] = {}
        for segment, places, local in self._within(np.asarray(rows, np.int64)):
            found |= zip(places.tolist(), segment.passages(local), strict=True)
        return [found[place] for place in range(len(found))]

    def find(self, ids: Sequence[str]) -> IntArray:
        """Find passages by their ids.

        Parameters
        ----------
        ids
            m ids.

        Returns
        -------
        ndarray
            Their rows, -1 for an id that no passage has; int64 of shape (m,).
        """
        found, hashes = np.full(len(ids), -1, np.int64), hashes_of(ids)
        for first, segment, gone in zip(self.starts.tolist(), self.segments, self.removed, strict=False):
            rows = segment.find(ids, hashes)
            if gone is not None:
                rows[np.isin(rows, gone.rows)] = -1
            found = np.where(rows >= 0, first + rows, found)
        return found

    def by_ids(self, ids: Sequence[str]) -> list[Passage]:
        """Read passages by their ids, such as the parents of :func:`semclass.build_context`.

        Parameters
        ----------
        ids
            Any ids.

        Returns
        -------
        list of Passage
            In the order of the ids; none for an id that no passage has.

        Raises
        ------
        InputError, InputTypeError
            If an id is empty or not a string.
        """
        rows = self.find(check_texts(ids, "ids"))
        return self.passages(rows[rows >= 0])

    def by_documents(self, names: Sequence[str]) -> list[Passage]:
        """Read all passages of some documents, such as the neighbours of :func:`semclass.build_context`.

        Parameters
        ----------
        names
            Documents, as ``metadata["document"]`` names them; up to 512 characters each.

        Returns
        -------
        list of Passage
            In the order of the index; none for a document that no passage is of.

        Raises
        ------
        InputError, InputTypeError
            If a name is empty or not a string.
        """
        condition = filters.parse({"document": {"$in": check_texts(names, "names")}})
        return self.passages(np.flatnonzero(self._matching(condition)))  # asked once, so not remembered

    def mask(self, where: Mapping[str, Any] | None = None) -> BoolArray:
        """Tell which passages match a filter.

        Parameters
        ----------
        where
            A filter over the metadata, see :mod:`semclass.index.filters`; None matches all.

        Returns
        -------
        ndarray
            bool of shape (rows,); False for removed passages. It is remembered, and must not be changed.

        Raises
        ------
        InputError, InputTypeError
            If the filter is not one.
        """
        if where is None:
            return np.ones(self.starts[-1], np.bool_) if self.live is None else self.live
        condition = filters.parse(where)
        key, known = repr(condition), self._masks
        if key not in known:
            # a new table each time: threads that read the old one are not disturbed
            known = {**dict(list(known.items())[-MASKS + 1 :]), key: self._matching(condition)}
            self.__dict__["_masks"] = known
        return known[key]

    def _matching(self, condition: filters.Filter) -> BoolArray:
        found = np.concatenate([matching(condition, segment) for segment in self.segments])
        return found if self.live is None else found & self.live

    @cached_property
    def _masks(self) -> dict[str, BoolArray]:
        return {}

    def dense_scores(self, pooled: FloatArray) -> DoubleArray:
        """Similarity of every row with a question's vector (dim,), float64 of shape (rows,)."""
        return _one([segment.vectors(self.similarity).scores(pooled) for segment in self.segments])

    def lexical_scores(self, terms: npt.NDArray[Any]) -> FloatArray:
        """BM25 score of every row for a question's word pieces, float32 of shape (rows,)."""
        return bm25.scores([segment.postings for segment in self.segments], self.statistics, terms)

    def scores(self, query: Query) -> tuple[DoubleArray, DoubleArray]:
        """Similarity and BM25 score of every row, each float64 of shape (rows,); those of removed passages mean nothing."""
        return self.dense_scores(query.pooled), self.lexical_scores(query.terms).astype(np.float64)

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        reader: PassageReader | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Score passages and give the best.

        What is not linear, see :mod:`semclass.scoring.fusion`, is fused over the passages that match `where`. The first
        :data:`semclass.scoring.fusion.DEPTH` of them by vectors and by BM25 take part, or the first `n`, if that is
        more; the class match is added to what comes out.

        Parameters
        ----------
        query
            The question.
        n
            How many; fewer if the index holds fewer, or fewer match.
        scoring
            How passages are scored.
        reader
            The models that read passages, where token vectors, sentence vectors and terms are wanted; without it their
            rows are empty.
        where
            A filter over the metadata, see :mod:`semclass.index.filters`: passages that do not match are not ranked.

        Returns
        -------
        Candidates
            Best first, the earlier row of equally good ones.

        Raises
        ------
        InputError, InputTypeError
            If the filter is not one.
        """
        allowed = self.live if where is None else self.mask(where)
        found = candidates.find(self._searched, Asked(query, scoring, self.statistics, self.thresholds, allowed), n)
        rows = found.rows
        tokens, sentences, terms = (
            no_evidence(len(rows)) if reader is None or not len(rows) else self.evidence(rows, reader)
        )
        return Candidates(
            rows=rows,
            dense=found.dense,
            bm25=found.bm25,
            match=found.match,
            parts=found.parts,
            score=found.score,
            probabilities=self._rows("probabilities", rows),
            thresholds=self.thresholds,
            tokens=tokens,
            sentences=sentences,
            terms=terms,
            idf=self.idf,
        )

    @cached_property
    def _searched(self) -> list[SearchedSegment]:
        """What is searched of each segment."""
        return [
            SearchedSegment(segment.vectors(self.similarity), segment.postings, segment.probabilities)
            for segment in self.segments
        ]

    @classmethod
    def build(
        cls,
        passages: Iterable[Passage],
        *,
        reader: PassageReader | None = None,
        similarity: str = "cosine",
        form: str | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> PassageIndex:
        """Index passages in memory; :func:`semclass.build_index` builds on the disk, and goes on after a stop.

        Parameters
        ----------
        passages
            At least one; ids must be unique, texts not empty. A title in ``metadata["title"]`` is encoded before the
            text, as BEIR does.
        reader
            The models that read passages; the shipped ones if None.
        similarity
            ``"cosine"``, ``"ip"`` or ``"l2"``, see :func:`semclass.scoring.topk.similarity`; which one an encoder was
            trained for, its model card says.
        form
            One of :data:`semclass.index.ingest.FORMS`; if None, ``"standard"``, or ``"exact"`` for a reader without
            codebooks.
        progress
            Called with the number of passages done, now and then.

        Returns
        -------
        PassageIndex
            The index, in memory.

        Raises
        ------
        InputError, InputTypeError
            If there is no passage, an id comes twice, a text is empty or not a string, or an option is not allowed.
        """
        recipe = Recipe.of(PassageReader.load() if reader is None else reader, similarity, form)
        ids: list[str] = []
        parts: list[Part] = []
        cut: list[str] = []
        for chunk in chunks(passages):
            found, long = recipe.read(chunk)
            ids += [passage.id for passage in chunk]
            parts.append((found, None))
            cut += long
            if progress is not None:
                progress(len(chunk))
        if not ids:
            raise InputError("there are no passages to index; give at least one")
        check_unique(ids, "passage id")
        warn_of_long(cut, len(ids), stacklevel=3)
        return cls(**recipe.header(), segments=(join(parts),), removed=(None,))

    def header(self) -> dict[str, Any]:
        """What the manifest says about the whole index."""
        fields = {name: getattr(self, name) for name in store.HEADER}
        return {**fields, "classes": list(self.classes), "thresholds": self.thresholds.tolist()}

    def parts(self) -> list[Part]:
        """Each segment, and which of its passages are there."""
        found: list[Part] = []
        for segment, gone in zip(self.segments, self.removed, strict=True):
            keep = None
            if gone is not None and len(gone.rows):
                keep = np.ones(len(segment), np.bool_)
                keep[gone.rows] = False
            found.append((segment, keep))
        return found

    def save(self, folder: str | Path) -> None:
        """Write the index as one segment; an older one in the same folder stays whole until the new one is complete.

        Parameters
        ----------
        folder
            Made if it is not there; may hold an index, which is replaced without a question, but nothing else.

        Raises
        ------
        ArtifactError
            If the folder holds something else, is being changed, or cannot be written, for example for want of space; if
            the index was loaded from there and was changed since.
        """
        folder = Path(folder)
        store.check_target(folder)
        with store.locked(folder), store.beside(folder) as place, store.committing(folder):
            self._check_current(folder)
            entry = store.install(self.parts(), folder, place, self.similarity)
            generation = store.generation_of(folder) + 1
            store.commit(folder, Manifest(self.header(), (entry,), generation, self.tuned))

    def _check_current(self, folder: Path) -> None:
        """Refuse to write over what others committed since this index was loaded from the same folder."""
        if self.source is None or self.source.folder.resolve() != folder.resolve():
            return
        found, known = store.find(folder), self.source.manifest
        if found is not None and (
            found.tuned != known.tuned or list(map(_key, found.segments)) != list(map(_key, known.segments))
        ):
            raise ArtifactError(
                f"the index {folder} was changed since it was loaded; refresh it before it is saved there"
            )

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str | None = None, verify: bool = True) -> PassageIndex:
        """Open an index as it is now; what is changed in the folder later does not change it.

        Parameters
        ----------
        folder
            Where it was saved.
        encoder
            Fingerprint of the encoder that questions will be encoded with; not compared if None.
        verify
            Whether to compare every file's SHA-256, which reads the whole index once; if not, only sizes are compared.

        Returns
        -------
        PassageIndex
            The index: what every search reads in memory, the rest in files that stay open.

        Raises
        ------
        ArtifactError
            If a file is missing, cut short, changed, or of another protocol; if what it holds does not fit together.
        EncoderMismatchError
            If the index was made with another encoder.
        """
        folder = Path(folder)
        return cls._open(Source(folder, store.read(folder)), encoder, {}, verify=verify)

    @classmethod
    def mapped(cls, folder: str | Path) -> PassageIndex:
        """Open an index for changing it: most of it is copied, or not looked at, and so files are memory-mapped.

        Only sizes are compared; who cuts a file short meanwhile ends the process.
        """
        folder = Path(folder)
        return cls._open(Source(folder, store.read(folder), mapped=True), None, {}, verify=False)

    def refresh(self, *, verify: bool = False) -> PassageIndex:
        """Give the index as its folder holds it now; what did not change is shared with this one.

        Parameters
        ----------
        verify
            Whether to compare the SHA-256 of files that are new.

        Returns
        -------
        PassageIndex
            This one itself if nothing changed.

        Raises
        ------
        InputError
            If it was not loaded from a folder.
        ArtifactError
            As for :meth:`load`.
        """
        if self.source is None:
            raise InputError("this index was built in memory; save it, and load it to see changes")
        found = store.read(self.source.folder)
        if found == self.source.manifest:
            return self
        known = {
            _key(entry): pair
            for entry, pair in zip(
                self.source.manifest.segments, zip(self.segments, self.removed, strict=True), strict=True
            )
        }
        known |= {
            (entry.name, ""): (segment, None)
            for (entry, segment) in zip(self.source.manifest.segments, self.segments, strict=True)
        }
        return self._open(replace(self.source, manifest=found), None, known, verify=verify)

    @classmethod
    def _open(
        cls,
        source: Source,
        encoder: str | None,
        known: Mapping[tuple[str, str], tuple[Segment, Removed | None]],
        *,
        verify: bool,
    ) -> PassageIndex:
        """Open what a manifest names, and start again if it is replaced meanwhile."""
        folder, found = source.folder, source.manifest
        while True:
            if encoder is not None and found.header["encoder"] != encoder:
                raise EncoderMismatchError(
                    f"the index {folder} was made with encoder {found.header['encoder']}, but is used with {encoder}; "
                    f"name the encoder that made it (--encoder), or {store.REMEDY}"
                )
            try:
                shapes.check_header(found.header, folder / artifacts.MANIFEST)
                opened = replace(source, manifest=found)
                pairs = [_open_entry(opened, entry, known, verify=verify) for entry in found.segments]
                shapes.check_alike([segment for segment, _ in pairs], folder)
                break
            except ArtifactError:
                newer = store.read(folder)
                if newer == found:
                    raise
                found = newer
        header = found.header
        return cls(
            encoder=str(header["encoder"]),
            interaction=str(header["interaction"]),
            classes=tuple(header["classes"]),
            thresholds=np.array(header["thresholds"], np.float64),
            similarity=str(header["similarity"]),
            form=str(header["form"]),
            codebooks=str(header["codebooks"]),
            segments=tuple(segment for segment, _ in pairs),
            removed=tuple(gone for _, gone in pairs),
            tuned=found.tuned,
            source=opened,
        )


def _key(entry: Entry) -> tuple[str, str]:
    return entry.name, str(entry.removed.get("name", ""))


def _open_entry(
    source: Source,
    entry: Entry,
    known: Mapping[tuple[str, str], tuple[Segment, Removed | None]],
    *,
    verify: bool,
) -> tuple[Segment, Removed | None]:
    """Open a segment and what was removed from it, as far as they are not known."""
    if (pair := known.get(_key(entry))) is not None:
        return pair
    folder = source.folder / entry.name
    shared = known.get((entry.name, ""))
    if shared is None:
        if source.mapped:
            artifacts.check_files(folder, entry.files, store.REMEDY, hashes=verify)
        segment = Segment.open(Files(folder, entry.files, hashes=verify, mapped=source.mapped), entry.name)
        shapes.check(segment, source.manifest.header, entry.passages, folder)
    else:
        segment = shared[0]
    if not entry.removed:
        return segment, None
    gone = read_removed(source.folder, entry.removed)
    shapes.check_removed(segment, gone, entry.removed["passages"], source.folder / str(entry.removed["name"]))
    return segment, gone


def removed_bytes(gone: Removed) -> bytes:
    """What passages took along, as a file."""
    file = io.BytesIO()
    np.savez(file, rows=gone.rows, document_frequencies=gone.document_frequencies, terms=np.array(gone.terms))
    return file.getvalue()


def read_removed(folder: Path, record: Mapping[str, Any]) -> Removed:
    """Read what was removed from a segment.

    Raises
    ------
    ArtifactError
        If the file is missing or was changed.
    """
    path = folder / str(record["name"])
    data = artifacts.read_file(path, record, store.REMEDY)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as found:
            # as they are written: what is packed may be of any size
            if any(item.compress_type != zipfile.ZIP_STORED or item.file_size > len(data) for item in found.infolist()):
                raise ValueError("its arrays are packed")
            rows, frequencies, terms = (array_of(found.read(f"{name}.npy")) for name in _REMOVED)
            return Removed(rows, frequencies, int(terms))
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        EOFError,
        ArithmeticError,
        RuntimeError,
        zipfile.BadZipFile,
    ) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); {store.REMEDY}") from error


_REMOVED = ("rows", "document_frequencies", "terms")
"""Arrays of what was removed, each in the file."""


def matching(condition: filters.Filter, segment: Segment) -> BoolArray:
    """Which passages of a segment match a filter, bool of shape (n,)."""

    def rows_of(ids: Sequence[str]) -> IntArray:
        rows = segment.find(ids)
        return rows[rows >= 0]

    return filters.mask(condition, segment.columns, rows_of)


Kind = TypeVar("Kind", bound=np.generic)


def _one(parts: Sequence[npt.NDArray[Kind]]) -> npt.NDArray[Kind]:
    """All parts in one array; a single one as it is."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
