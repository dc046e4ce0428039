"""From passages to segments: what a build and every change of an index share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_positive, counted
from semclass.core.cpu import available_threads
from semclass.core.errors import ArtifactError, InputError, TruncationWarning, warn
from semclass.core.files import REMEDY
from semclass.core.types import Passage, Ragged
from semclass.index.column_tables import columns_of
from semclass.index.labels import fields_of, label, labelled
from semclass.index.passage_encoder import Evidence, PassageEncoder, PassageFeatures, no_rows
from semclass.index.passage_stream import line_of, records_of
from semclass.index.segment import NOTHING, Segment, hash_table, hashes_of
from semclass.scoring.dense import shares_of
from semclass.scoring.postings import count_terms
from semclass.scoring.quantisation import (
    COMPONENTS,
    SCALE,
    SCALE_BYTES,
    Codebooks,
    from_quarter_bytes,
    from_scaled_bytes,
    to_quarter_bytes,
    to_scaled_bytes,
)
from semclass.scoring.topk import unit


@dataclass(frozen=True)
class IndexConfig:
    """Turns passages into rows of an index."""

    passage_encoder: PassageEncoder
    small: bool  # whether to store only the vectors of sentences

    @classmethod
    def of(cls, passage_encoder: PassageEncoder, *, small: bool) -> IndexConfig:
        """Refuse an encoder whose vectors cannot be stored in quarter bytes where they are."""
        dims = passage_encoder.encoder.views["pooled"], passage_encoder.provided_dim
        if (small or passage_encoder.codebooks is not None) and any(dim % COMPONENTS for dim in dims):
            raise InputError(
                f"vectors of {max(dims)} dimensions cannot be stored in quarter bytes, which need a multiple of "
                f"{COMPONENTS}; build the index without small=True (--small), and the models without codebooks"
            )
        return cls(passage_encoder, small)

    @property
    def exact(self) -> bool:
        """Whether vectors are stored as they are: there are no codebooks to compress them."""
        return not self.small and self.books is None

    @property
    def books(self) -> Codebooks | None:
        """The codebooks that compress token vectors."""
        return None if self.small else self.passage_encoder.codebooks

    def header(self) -> dict[str, Any]:
        """The fields that describe the whole index, see :class:`semclass.PassageIndex`."""
        return {
            "encoder": self.passage_encoder.encoder.fingerprint,
            "classes": self.passage_encoder.classifier.classes,
            "thresholds": self.passage_encoder.classifier.thresholds,
            "small": self.small,
            "codebooks": "" if self.books is None else self.books.fingerprint,
            "heads": self.passage_encoder.head_fingerprints,
        }

    def read(self, passages: Sequence[Passage]) -> tuple[Segment, list[str]]:
        """Encode passages. Returns their segment, and the ids of passages that are longer than the encoder reads."""
        heads = self.passage_encoder.heads
        found, cut = self.passage_encoder.read(passages, tokens=not self.small)
        lines = [line_of(labelled(passage, dict.fromkeys(fields_of(heads)))) for passage in passages]
        if heads:
            passages = label(passages, heads)
            lines = [line_of(passage) for passage in passages]
        vectors, words = unit(found.sentences.values), found.words.values
        shares = shares_of(vectors, words, found.sentences.offsets)
        codes, scales = (vectors, np.ones_like(words)) if self.exact else to_quarter_bytes(vectors)
        is_term = self.passage_encoder.encoder.is_term
        kind = np.min_scalar_type(len(is_term))
        hashes, rows = hash_table(hashes_of([passage.id for passage in passages]))
        segment = Segment(
            sentences=Ragged(codes, found.sentences.offsets),
            scales=Ragged(scales, found.sentences.offsets),
            shares=Ragged(shares, found.sentences.offsets),
            provides=_written_provides(found, exact=self.exact),
            probabilities=found.probabilities,
            tokens=NOTHING if self.small else _written(found, self.books),
            pieces=NOTHING if self.small else Ragged(found.pieces.values.astype(kind), found.pieces.offsets),
            postings=count_terms(found.terms, is_term),
            records=records_of(lines),
            columns=columns_of([passage.metadata for passage in passages]),
            id_hashes=hashes,
            id_rows=rows,
        )
        return segment, [passages[row].id for row in cut]


def stored_types(passage_encoder: PassageEncoder, *, small: bool) -> dict[str, tuple[str, int]]:
    """Return the dtypes and numbers of columns of the vectors that an index stores."""
    dim, provided = passage_encoder.encoder.views["pooled"], passage_encoder.provided_dim
    if small:
        return {"sentences": ("u1", dim // COMPONENTS), "provides": ("u1", 0)}
    if passage_encoder.codebooks is None:
        return {"sentences": ("<f4", dim), "provides": ("<f4", provided), "tokens": ("i1", passage_encoder.token_dim)}
    return {
        "sentences": ("u1", dim // COMPONENTS),
        "provides": ("u1", provided // COMPONENTS + SCALE_BYTES if provided else 0),
        "tokens": ("u1", passage_encoder.codebooks.rest.parts),
    }


def _written(found: PassageFeatures, books: Codebooks | None) -> Ragged:
    """Return token vectors as an index stores them."""
    vectors, pieces = found.tokens.values, found.pieces.values
    values = np.rint(vectors * SCALE).astype(np.int8) if books is None else books.encode(vectors, pieces)
    return Ragged(values, found.tokens.offsets)


def _written_provides(found: PassageFeatures, *, exact: bool) -> Ragged:
    """Return the view ``provides`` of sentences as an index stores it, one row each. Unknown views have no columns."""
    values = found.provides.values
    if not values.shape[1]:
        stored: npt.NDArray[Any] = np.zeros((len(found.sentences.values), 0), np.float32 if exact else np.uint8)
    else:
        stored = values if exact else to_scaled_bytes(values)
    return Ragged(stored, found.sentences.offsets)


def decoded(stored: Evidence, books: Codebooks | None) -> Evidence:
    """Decode stored vectors. They get unit length, because cosines are needed, except the view ``provides``."""
    codes, vectors = stored.tokens.values, stored.sentences.values
    tokens = codes.astype(np.float32) if books is None else books.decode(codes, stored.pieces.values)
    sentences = vectors if vectors.dtype == np.float32 else from_quarter_bytes(vectors).astype(np.float32)
    return Evidence(
        tokens=Ragged(unit(tokens), stored.tokens.offsets),
        sentences=Ragged(unit(sentences), stored.sentences.offsets),
        provides=_decoded_provides(stored.provides),
        pieces=stored.pieces,
    )


def _decoded_provides(stored: Ragged) -> Ragged:
    """Decode the view ``provides`` of sentences, float32. Without columns in the index, there are no rows."""
    values = stored.values
    if not values.shape[1]:
        return no_rows(len(stored))
    with np.errstate(over="ignore", invalid="ignore"):  # scales may be any bytes
        found = values if values.dtype == np.float32 else from_scaled_bytes(values)
    if not np.isfinite(found).all():
        raise ArtifactError(f"provides.npy of the index holds NaN or infinity; {REMEDY}")
    return Ragged(found, stored.offsets)


def evidence_of(passage_encoder: PassageEncoder, passages: Sequence[Passage]) -> Evidence:
    """Encode the evidence of passages of a small index. See :meth:`semclass.PassageIndex.evidence`."""
    found, _ = passage_encoder.read(passages, classes=False)
    sentences = Ragged(unit(found.sentences.values), found.sentences.offsets)
    return Evidence(sentences, found.provides, found.tokens, found.pieces)


Item = TypeVar("Item")

Result = TypeVar("Result")


def in_order(job: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[tuple[Item, Result]]:
    """Do a job for each item in several threads. Yield pairs of item and result in the order of the items.

    Only a few more items than threads are taken in advance. With one worker, the caller's thread does all the work.
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
    """Return the number of threads that read passages. If None, these threads and the encoder's use all processors."""
    if workers is not None:
        return check_positive(workers, "workers")
    return max(available_threads() // int(getattr(passage_encoder.encoder, "threads", 1)), 1)


def warn_of_long(cut: Sequence[str], count: int) -> None:
    """Warn once of the passages that were truncated."""
    if cut:
        message = (
            f"{len(cut)} of {counted(count, 'passage')} {'has' if len(cut) == 1 else 'have'} a sentence that is longer "
            f"than the encoder reads (the first is {cut[0]!r}). BM25 uses the whole sentence, but vectors and classes "
            "only its start. A sentence ends at a full stop, at a line end or after 100 words, so such a long sentence is "
            "rarely text; leave out encoded data"
        )
        warn(TruncationWarning(message))
