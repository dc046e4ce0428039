"""From passages to segments: what a build and every change of an index share."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_choice, check_positive, check_text
from semclass.core.cpu import available_threads
from semclass.core.errors import InputError, TruncationWarning, warn
from semclass.core.types import FloatArray, Passage, Ragged
from semclass.encoders.batching import CHUNK
from semclass.index.column_tables import columns_of
from semclass.index.passage_encoder import PassageEncoder, searchable
from semclass.index.segment import NOTHING, Segment, hash_table, hashes_of
from semclass.scoring.dense import shares_of
from semclass.scoring.postings import count_terms
from semclass.scoring.quantisation import Codebook, Codebooks, from_half_bytes, to_half_bytes
from semclass.scoring.topk import SIMILARITIES, unit

FORMS = ("standard", "lean", "exact")
"""How much an index stores of each passage.

``"standard"``: vectors of sentences in half bytes, those of tokens in the bytes of the codebook. ``"lean"``: those of
sentences, and no more; candidates are read again when they are re-ranked. ``"exact"``: vectors of sentences in float32,
those of tokens in int8.
"""

SCALE = 127
"""Unit vectors in int8 without a scale of their own hold round(127 * component)."""


@dataclass(frozen=True)
class IndexConfig:
    """How passages become rows of an index."""

    passage_encoder: PassageEncoder
    similarity: str  # "cosine", "ip" or "l2", see semclass.scoring.topk.SIMILARITIES
    form: str  # one of FORMS

    @classmethod
    def of(cls, passage_encoder: PassageEncoder, similarity: str, form: str | None) -> IndexConfig:
        """Check the options; a form that is None is ``"standard"``, or ``"exact"`` without codebooks."""
        check_choice(similarity, SIMILARITIES, "similarity")
        form = ("exact" if passage_encoder.codebooks is None else "standard") if form is None else form
        check_choice(form, FORMS, "form")
        if form == "standard" and passage_encoder.codebooks is None:
            raise InputError(
                "an index of the form 'standard' needs codebooks for this encoder: make them with "
                "training/train_codebooks.py, or build it with form='exact'"
            )
        if form != "exact" and passage_encoder.encoder.views["pooled"] % 2:
            raise InputError("vectors of an odd number of components have no half bytes; build it with form='exact'")
        return cls(passage_encoder, similarity, form)

    @property
    def books(self) -> Codebooks | None:
        """The codebook that vectors of tokens are written with."""
        return self.passage_encoder.codebooks if self.form == "standard" else None

    def header(self) -> dict[str, Any]:
        """Fields about the whole index, see :class:`semclass.PassageIndex`."""
        return {
            "encoder": self.passage_encoder.encoder.fingerprint,
            "interaction": self.passage_encoder.interaction,
            "classes": self.passage_encoder.classifier.classes,
            "thresholds": self.passage_encoder.classifier.thresholds,
            "similarity": self.similarity,
            "form": self.form,
            "codebooks": "" if self.books is None else self.books.fingerprint,
        }

    def read(self, passages: Sequence[Passage]) -> tuple[Segment, list[str]]:
        """Read passages; their segment, and the ids of those that are longer than the encoder reads."""
        lines = [line_of(passage) for passage in passages]
        for passage in passages:
            searchable(passage)  # there is something to read
        lean, books = self.form == "lean", self.books
        found, cut = self.passage_encoder.read(passages, tokens=not lean)
        vectors, words = found.sentences.values, found.words.values
        vectors = unit(vectors) if self.similarity == "cosine" else vectors
        shares = shares_of(vectors, words, found.sentences.offsets)
        codes, scales = (vectors, np.ones_like(words)) if self.form == "exact" else to_half_bytes(vectors)
        is_term = self.passage_encoder.encoder.is_term
        kind = np.min_scalar_type(len(is_term))
        hashes, rows = hash_table(hashes_of([passage.id for passage in passages]))
        segment = Segment(
            sentences=Ragged(codes, found.sentences.offsets),
            scales=Ragged(scales, found.sentences.offsets),
            shares=Ragged(shares, found.sentences.offsets),
            probabilities=found.probabilities,
            tokens=NOTHING if lean else _written(found.tokens, None if books is None else books.tokens),
            terms=NOTHING if lean else Ragged(found.terms.values.astype(kind), found.terms.offsets),
            postings=count_terms(found.terms, is_term),
            records=records_of(lines),
            columns=columns_of([passage.metadata for passage in passages]),
            id_hashes=hashes,
            id_rows=rows,
        )
        return segment, [passages[row].id for row in cut]


def _written(vectors: Ragged, book: Codebook | None) -> Ragged:
    """Vectors of tokens as an index stores them."""
    values = np.rint(vectors.values * SCALE).astype(np.int8) if book is None else book.encode(vectors.values)
    return Ragged(values, vectors.offsets)


def decoded(codes: npt.NDArray[Any], book: Codebook | None) -> FloatArray:
    """Unit vectors again: rounding changes lengths, and cosines are wanted."""
    return unit(codes.astype(np.float32) if book is None else book.decode(codes))


def vectors_of(codes: npt.NDArray[Any]) -> FloatArray:
    """Unit vectors of sentences, from half bytes or float32; their scales do not matter for cosines."""
    return unit(codes if codes.dtype == np.float32 else from_half_bytes(codes).astype(np.float32))


def evidence_of(passage_encoder: PassageEncoder, passages: Sequence[Passage]) -> tuple[Ragged, Ragged, Ragged]:
    """What re-ranking reads of passages of a lean index: see :meth:`semclass.PassageIndex.evidence`."""
    found, _ = passage_encoder.read(passages, classes=False)
    return found.tokens, Ragged(unit(found.sentences.values), found.sentences.offsets), found.terms


def line_of(passage: Passage) -> bytes:
    """One passage as a JSON line, to be read back when it is found."""
    check_text(passage.id, "passage id")
    record = {"_id": passage.id, "text": passage.text, "metadata": dict(passage.metadata)}
    try:
        return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata of passage {passage.id!r} cannot be saved as JSON: {error}") from error


def records_of(lines: Sequence[bytes]) -> Ragged:
    """JSON lines as an index stores them."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    return Ragged(np.frombuffer(b"".join(lines), np.uint8), np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


Item = TypeVar("Item")

Result = TypeVar("Result")


def chunks(items: Iterable[Item], size: int | None = None) -> Iterator[list[Item]]:
    """Cut a stream into lists of `size` items, :data:`semclass.encoders.batching.CHUNK` if None, the last one shorter."""
    stream = iter(items)
    while chunk := list(islice(stream, CHUNK if size is None else size)):
        yield chunk


def in_order(job: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[tuple[Item, Result]]:
    """Do a job for each item in several threads; each item with its result, in the order of the items.

    Only a few more items than there are threads are taken in advance. With one worker all is done in the caller's thread.
    """
    if workers == 1:
        for item in items:
            yield item, job(item)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(job, item)))
                if len(waiting) > workers + 1:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def threads_of(passage_encoder: PassageEncoder, workers: int | None) -> int:
    """Threads that read passages; if None, as many as the threads of the encoder itself leave of the processors."""
    if workers is not None:
        return check_positive(workers, "workers")
    return max(available_threads() // int(getattr(passage_encoder.encoder, "threads", 1)), 1)


def warn_of_long(cut: Sequence[str], count: int) -> None:
    """Warn once of the passages that were truncated."""
    if cut:
        message = (
            f"{len(cut)} of {count} passages have a sentence that is longer than the encoder reads (the first is "
            f"{cut[0]!r}): BM25 sees all of it, vectors and classes only its beginning; end it with a full stop or a line"
        )
        warn(TruncationWarning(message))
