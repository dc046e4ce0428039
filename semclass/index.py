"""The passage index: everything about passages that does not depend on the question, computed once.

On disk an index is a folder with ``manifest.json`` and one folder of data that the manifest names. A build writes new
data beside the old and then replaces the manifest in one step, so that at every moment, also after a crash, the index is
all of the old one or all of the new one. Arrays are memory-mapped: opening costs little, and processes share memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import artifacts, bm25
from semclass.bm25 import Postings
from semclass.bulk import CHUNK
from semclass.candidates import Candidates, Query, Scoring, sum_of
from semclass.errors import ArtifactError, EncoderMismatchError, InputError, TruncationWarning
from semclass.evidence import Evidence, PassageReader, searchable
from semclass.quantise import Codebook, Codebooks, from_int8, to_int8
from semclass.ranking import SIMILARITIES, class_match, similarity, top_k, unit
from semclass.stored import open_ragged
from semclass.types import DoubleArray, FloatArray, IntArray, Passage, Ragged
from semclass.validation import check_choice, check_text, check_unique

FORMS = ("standard", "lean", "exact")
"""How much an index keeps of each passage.

``"standard"``: pooled vectors in int8, those of sentences and of tokens in the bytes of the codebooks. ``"lean"``: pooled
vectors in int8, and no more; candidates are read again when they are re-ranked. ``"exact"``: pooled vectors in float32,
those of sentences and of tokens in int8.
"""

SCALE = 127
"""Unit vectors in int8 without a scale of their own hold round(127 * component)."""

BUILDING = ".building-"
"""What the names of folders begin with in which an index is being written."""

_FIELDS = ("data", "files", "encoder", "classes", "thresholds", "similarity", "interaction", "form", "codebooks")

_REMEDY = "build it again with `semclass index build`"


@dataclass(frozen=True)
class PassageIndex:
    """Passages with their vectors, terms and classes. Read-only; many threads may share one.

    Attributes
    ----------
    encoder
        Fingerprint of the encoder that made the vectors.
    interaction
        What made the token vectors, see :attr:`semclass.evidence.PassageReader.interaction`.
    classes
        Names of the passage classes.
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    similarity
        How `pooled` is compared with a question's vector, see :func:`semclass.ranking.similarity`.
    form
        One of :data:`FORMS`.
    codebooks
        Fingerprint of the codebooks that `tokens` and `sentences` were written with; empty if with none.
    pooled_codes
        Pooled vectors, float32 or int8 of shape (n, dim); of unit length where the similarity is ``"cosine"``.
    pooled_levels
        What an int8 row is to be multiplied with, float32 of shape (n,); ones for float32.
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    tokens
        Ragged unit token vectors, one for each of `terms`: codes (uint8), or int8 with components times 127.
    sentences
        Ragged unit vectors of each passage's sentences, written likewise.
    terms
        Ragged word-piece ids of the whole passages. It, `tokens` and `sentences` are without rows in a lean index.
    postings
        What BM25 is computed from.
    records
        The passages as JSON lines, ragged uint8.
    tuned
        What ``semclass tune`` found, see :meth:`semclass.tuning.Tuning.as_record`; empty if it was never run.
    """

    encoder: str
    interaction: str
    classes: tuple[str, ...]
    thresholds: DoubleArray
    similarity: str
    form: str
    codebooks: str
    pooled_codes: npt.NDArray[Any]
    pooled_levels: FloatArray
    probabilities: FloatArray
    tokens: Ragged
    sentences: Ragged
    terms: Ragged
    postings: Postings
    records: Ragged
    tuned: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the passages."""
        return len(self.pooled_codes)

    @property
    def pooled(self) -> FloatArray:
        """Pooled vectors, float32 of shape (n, dim), for a look at all of them: int8 is widened at each access."""
        if self.pooled_codes.dtype == np.float32:
            return self.pooled_codes
        return from_int8(self.pooled_codes, self.pooled_levels)

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
        tokens, sentences, terms = self.tokens.take(rows), self.sentences.take(rows), self.terms.take(rows)
        return (
            Ragged(_decode(tokens.values, None if books is None else books.tokens), tokens.offsets),
            Ragged(_decode(sentences.values, None if books is None else books.sentences), sentences.offsets),
            terms,
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
        lines = self.records.take(rows).values.tobytes().splitlines()
        records = [json.loads(line) for line in lines]
        return [Passage(record["_id"], record["text"], record["metadata"]) for record in records]

    def dense_scores(self, pooled: FloatArray) -> DoubleArray:
        """Similarity of every passage with a question's vector (dim,), float64 of shape (n,)."""
        levels = None if self.pooled_codes.dtype == np.float32 else self.pooled_levels
        return similarity(self.pooled_codes, pooled, self.similarity, levels)

    def lexical_scores(self, terms: npt.NDArray[Any]) -> FloatArray:
        """BM25 score of every passage for a question's word pieces, float32 of shape (n,)."""
        return bm25.scores([self.postings], self.statistics, terms)

    def scores(self, query: Query) -> tuple[DoubleArray, DoubleArray]:
        """Similarity and BM25 score of every passage, each float64 of shape (n,)."""
        return self.dense_scores(query.pooled), self.lexical_scores(query.terms).astype(np.float64)

    def candidates(self, query: Query, n: int, scoring: Scoring, *, reader: PassageReader | None = None) -> Candidates:
        """Score passages and give the best.

        Parameters
        ----------
        query
            The question.
        n
            How many; fewer if the index holds fewer.
        scoring
            How passages are scored.
        reader
            The models that read passages, where token vectors, sentence vectors and terms are wanted; without it their
            rows are empty.

        Returns
        -------
        Candidates
            Best first.
        """
        dense, lexical = self.scores(query)
        parts, matched = {"dense": dense, "bm25": scoring.bm25_weight * lexical}, None
        if scoring.match is not None:
            matched = class_match(query.probabilities, self.probabilities, self.thresholds, scoring.match)
            parts["match"] = scoring.match_weight * matched
        score = sum_of(parts)
        rows = top_k(score, n)
        nothing = Ragged(np.zeros((0, 0), np.float32), np.zeros(len(rows) + 1, np.int64))
        tokens, sentences, terms = (nothing,) * 3 if reader is None else self.evidence(rows, reader)
        return Candidates(
            rows=rows,
            dense=dense[rows],
            bm25=lexical[rows],
            match=None if matched is None else matched[rows],
            parts={name: values[rows] for name, values in parts.items()},
            score=score[rows],
            probabilities=np.asarray(self.probabilities[rows]),
            thresholds=self.thresholds,
            tokens=tokens,
            sentences=sentences,
            terms=terms,
            idf=self.idf,
        )

    @cached_property
    def statistics(self) -> bm25.Statistics:
        """What BM25 has to know of all passages."""
        return bm25.statistics([self.postings])

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for pieces that are no terms."""
        return self.statistics.idf

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
        """Index passages.

        Parameters
        ----------
        passages
            At least one; ids must be unique, texts not empty. A title in ``metadata["title"]`` is encoded before the
            text, as BEIR does.
        reader
            The models that read passages; the shipped ones if None.
        similarity
            ``"cosine"``, ``"ip"`` or ``"l2"``, see :func:`semclass.ranking.similarity`; which one an encoder was trained
            for, its model card says.
        form
            One of :data:`FORMS`; if None, ``"standard"``, or ``"exact"`` for a reader without codebooks.
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
        check_choice(similarity, SIMILARITIES, "similarity")
        reader = PassageReader.load() if reader is None else reader
        encoder, classifier, books = reader.encoder, reader.classifier, reader.codebooks
        form = ("exact" if books is None else "standard") if form is None else form
        check_choice(form, FORMS, "form")
        if form != "standard":
            books = None
        elif books is None:
            raise InputError(
                "an index of the form 'standard' needs codebooks for this encoder: make them with "
                "training/train_codebooks.py, or build it with form='exact'"
            )
        ids: list[str] = []
        lines: list[bytes] = []
        parts: list[Evidence] = []
        pooled: list[tuple[npt.NDArray[Any], FloatArray]] = []
        cut: list[str] = []
        for chunk in _chunks(passages, CHUNK):
            texts = [searchable(passage) for passage in chunk]
            ids += [passage.id for passage in chunk]
            lines += [_line(passage) for passage in chunk]
            found, rows = reader.read(texts)
            vectors = unit(found.pooled) if similarity == "cosine" else found.pooled
            pooled.append((vectors, np.ones(len(vectors), np.float32)) if form == "exact" else to_int8(vectors))
            parts.append(_written(found, books) if form != "lean" else found)
            cut += [chunk[row].id for row in rows]
            if progress is not None:
                progress(len(chunk))
        if not ids:
            raise InputError("there are no passages to index; give at least one")
        check_unique(ids, "passage id")
        if cut:
            message = (
                f"{len(cut)} of {len(ids)} passages are longer than the encoder reads (the first is {cut[0]!r}): BM25 "
                "sees all of them, vectors and classes only their beginning; cut them into shorter passages"
            )
            warnings.warn(TruncationWarning(message), stacklevel=2)
        terms = _join([part.terms for part in parts])
        is_term = encoder.is_term
        return cls(
            encoder=encoder.fingerprint,
            interaction=reader.interaction,
            classes=classifier.classes,
            thresholds=classifier.thresholds,
            similarity=similarity,
            form=form,
            codebooks="" if books is None else books.fingerprint,
            pooled_codes=np.concatenate([codes for codes, _ in pooled]),
            pooled_levels=np.concatenate([levels for _, levels in pooled]),
            probabilities=np.concatenate([part.probabilities for part in parts]),
            tokens=_join([part.tokens for part in parts]) if form != "lean" else NOTHING,
            sentences=_join([part.sentences for part in parts]) if form != "lean" else NOTHING,
            terms=Ragged(terms.values.astype(np.min_scalar_type(len(is_term))), terms.offsets)
            if form != "lean"
            else NOTHING,
            postings=bm25.postings(terms, is_term),
            records=Ragged(
                np.frombuffer(b"".join(lines), np.uint8),
                np.concatenate([np.zeros(1, np.int64), np.cumsum([len(line) for line in lines])]),
            ),
        )

    def save(self, folder: str | Path) -> None:
        """Write the index; an older one in the same folder stays whole until the new one is complete.

        Parameters
        ----------
        folder
            Made if it is not there; may hold an index, but nothing else.

        Raises
        ------
        ArtifactError
            If the folder holds something else, or cannot be written, for example for want of space.
        """
        folder = Path(folder)
        check_target(folder)
        try:
            beside = folder / f"{BUILDING}{uuid.uuid4().hex}"
            beside.mkdir(parents=True)
        except OSError as error:
            raise ArtifactError(f"cannot write {folder}: {error.strerror or error}") from error
        try:
            for name, array in self._arrays().items():
                np.save(beside / name, array, allow_pickle=False)
            bm25.save(self.postings, beside / "bm25")
            names = sorted(str(path.relative_to(beside)) for path in beside.rglob("*") if path.is_file())
            records = {name: _record(beside / name) for name in names}
            fields = {
                "encoder": self.encoder,
                "interaction": self.interaction,
                "classes": list(self.classes),
                "thresholds": self.thresholds.tolist(),
                "similarity": self.similarity,
                "form": self.form,
                "codebooks": self.codebooks,
                "passages": len(self),
                "files": records,
            }
            data = "data-" + hashlib.sha256(artifacts.dump_json(fields)).hexdigest()[:16]
            if not (folder / data).exists():
                beside.rename(folder / data)
            manifest = {**fields, "protocol": artifacts.PROTOCOL, "kind": "index", "data": data}
            if self.tuned:
                manifest["tuned"] = dict(self.tuned)
            artifacts.write_atomic(folder / artifacts.MANIFEST, artifacts.dump_json(manifest))
        except OSError as error:
            reason = error.strerror or f"{error} (is the disk full?)"
            raise ArtifactError(
                f"cannot write the index {folder}: {reason}; an older index there is unchanged"
            ) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        # the old data, and what builds that were killed left behind
        for old in [*folder.glob("data-*"), *folder.glob(f"{BUILDING}*")]:
            if old.name != data:
                shutil.rmtree(old, ignore_errors=True)
        for part in folder.glob(f".{artifacts.MANIFEST}.*.part"):
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str | None = None, verify: bool = True) -> PassageIndex:
        """Open an index.

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
            The index, memory-mapped.

        Raises
        ------
        ArtifactError
            If a file is missing, cut short, changed, or of another protocol.
        EncoderMismatchError
            If the index was made with another encoder.
        """
        folder = Path(folder)
        path = folder / artifacts.MANIFEST
        if not path.is_file():
            raise ArtifactError(f"{folder} holds no index ({artifacts.MANIFEST} is missing); {_REMEDY}")
        manifest = artifacts.read_json(path)
        artifacts.check_protocol(manifest, path, "index")
        missing = [name for name in _FIELDS if name not in manifest]
        if missing:
            raise ArtifactError(f"{path} has no field {missing[0]!r}; {_REMEDY}")
        if encoder is not None and manifest["encoder"] != encoder:
            raise EncoderMismatchError(
                f"the index {folder} was made with encoder {manifest['encoder']}, but is used with {encoder}; name the "
                f"encoder that made it (--encoder), or {_REMEDY}"
            )
        data = folder / manifest["data"]
        artifacts.check_files(data, manifest["files"], _REMEDY, hashes=verify)

        def read(name: str) -> npt.NDArray[Any]:
            # a plain view of the mapped file: every slice of a memmap object would cost microseconds
            return np.asarray(np.load(data / f"{name}.npy", mmap_mode="r", allow_pickle=False))

        return cls(
            encoder=manifest["encoder"],
            interaction=str(manifest["interaction"]),
            classes=tuple(manifest["classes"]),
            thresholds=np.array(manifest["thresholds"]),
            similarity=str(manifest["similarity"]),
            form=str(manifest["form"]),
            codebooks=str(manifest["codebooks"]),
            pooled_codes=read("pooled"),
            pooled_levels=read("pooled_levels"),
            probabilities=read("probabilities"),
            tokens=open_ragged(data / "tokens.npy", read("token_offsets")),
            sentences=open_ragged(data / "sentences.npy", read("sentence_offsets")),
            terms=open_ragged(data / "terms.npy", read("term_offsets")),
            postings=bm25.load(data / "bm25"),
            records=open_ragged(data / "records.npy", read("record_offsets")),
            tuned=_tuned(manifest, path),
        )

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "pooled.npy": self.pooled_codes,
            "pooled_levels.npy": self.pooled_levels,
            "probabilities.npy": self.probabilities,
            "tokens.npy": self.tokens.values,
            "token_offsets.npy": self.tokens.offsets,
            "sentences.npy": self.sentences.values,
            "sentence_offsets.npy": self.sentences.offsets,
            "terms.npy": self.terms.values,
            "term_offsets.npy": self.terms.offsets,
            "records.npy": self.records.values,
            "record_offsets.npy": self.records.offsets,
        }


def store_tuned(folder: str | Path, tuned: Mapping[str, Any] | None) -> None:
    """Replace what the manifest of an index says about tuned weights, in one step; nothing else is written.

    Parameters
    ----------
    folder
        Holds an index.
    tuned
        As :attr:`PassageIndex.tuned`; None removes it.

    Raises
    ------
    ArtifactError
        If there is no index, or it cannot be written; the old manifest is whole then.
    """
    path = Path(folder) / artifacts.MANIFEST
    manifest = artifacts.read_json(path)
    artifacts.check_protocol(manifest, path, "index")
    manifest.pop("tuned", None)
    if tuned is not None:
        manifest["tuned"] = dict(tuned)
    artifacts.write_atomic(path, artifacts.dump_json(manifest))


def describe(folder: str | Path) -> dict[str, Any]:
    """What an index holds, from its manifest alone.

    Parameters
    ----------
    folder
        Holds an index.

    Returns
    -------
    dict
        ``passages``, ``encoder`` (fingerprint), ``similarity``, ``form``, ``classes``, ``bytes`` by file, and ``tuned``:
        see :attr:`PassageIndex.tuned`.

    Raises
    ------
    ArtifactError
        If there is no index, or its manifest is damaged.
    """
    path = Path(folder) / artifacts.MANIFEST
    manifest = artifacts.read_json(path)
    artifacts.check_protocol(manifest, path, "index")
    if missing := [name for name in (*_FIELDS, "passages") if name not in manifest]:
        raise ArtifactError(f"{path} has no field {missing[0]!r}; {_REMEDY}")
    return {
        **{name: manifest[name] for name in ("passages", "encoder", "similarity", "form", "classes")},
        "bytes": {name: record["bytes"] for name, record in manifest["files"].items()},
        "tuned": _tuned(manifest, path),
    }


def _tuned(manifest: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The field ``tuned`` of a manifest, with its weights found to be finite numbers of at least 0."""
    tuned = manifest.get("tuned", {})
    weights = tuned.get("weights", {}) if isinstance(tuned, dict) else None
    numbers = isinstance(weights, dict) and all(
        isinstance(value, (int, float)) and 0 <= value < float("inf") for value in weights.values()
    )
    if not numbers:
        raise ArtifactError(f"{path} holds tuned weights that are no numbers of at least 0; `semclass tune --reset` it")
    return dict(tuned)


def check_target(folder: str | Path) -> None:
    """Refuse to build an index into a folder that holds something else, before hours of work and not after.

    Raises
    ------
    ArtifactError
        If `folder` is a file, or holds other things than an index.
    """
    folder = Path(folder)
    if folder.is_file():
        raise ArtifactError(f"{folder} is a file; name a folder for the index")
    with contextlib.suppress(FileNotFoundError):
        names = [path.name for path in folder.iterdir()]
        ours = [name for name in names if name == artifacts.MANIFEST or name.startswith((".", "data-"))]
        if len(ours) < len(names):
            other = sorted(set(names) - set(ours))[0]
            raise ArtifactError(f"{folder} holds other things ({other!r}); name a new or empty folder for the index")


def _line(passage: Passage) -> bytes:
    """One passage as a JSON line, to be read back when it is found."""
    check_text(passage.id, "passage id")
    record = {"_id": passage.id, "text": passage.text, "metadata": dict(passage.metadata)}
    try:
        return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata of passage {passage.id!r} cannot be saved as JSON: {error}") from error


def _chunks(passages: Iterable[Passage], size: int) -> Iterator[Sequence[Passage]]:
    stream = iter(passages)
    while chunk := list(islice(stream, size)):
        yield chunk


NOTHING = Ragged(np.zeros(0, np.uint8), np.zeros(1, np.int64))
"""What a lean index has of tokens, sentences and terms."""


def _written(found: Evidence, books: Codebooks | None) -> Evidence:
    """Write the vectors of tokens and sentences as an index keeps them."""
    tokens, sentences = found.tokens, found.sentences
    return replace(
        found,
        tokens=Ragged(_encode(tokens.values, None if books is None else books.tokens), tokens.offsets),
        sentences=Ragged(_encode(sentences.values, None if books is None else books.sentences), sentences.offsets),
    )


def _encode(vectors: FloatArray, book: Codebook | None) -> npt.NDArray[Any]:
    return np.rint(vectors * SCALE).astype(np.int8) if book is None else book.encode(vectors)


def _decode(codes: npt.NDArray[Any], book: Codebook | None) -> FloatArray:
    """Unit vectors again: rounding changes lengths, and cosines are wanted."""
    return unit(codes.astype(np.float32) if book is None else book.decode(codes))


def _join(parts: Sequence[Ragged]) -> Ragged:
    """Concatenate ragged arrays."""
    lengths = np.concatenate([part.lengths() for part in parts])
    values = np.concatenate([part.values for part in parts])
    return Ragged(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def _record(path: Path) -> dict[str, Any]:
    """Flush a file to the disk and describe it for the manifest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "sha256": artifacts.sha256_of(path)}
