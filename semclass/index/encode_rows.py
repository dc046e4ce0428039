"""From passages to the rows of a segment, and back to what re-ranking reads: what every change of an index shares."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from semclass.core.checks import check_choice, check_depth, check_positive, check_text, counted, short
from semclass.core.errors import (
    ArtifactError,
    EncoderMismatchError,
    InputError,
    InputTypeError,
    SkippedWarning,
    TruncationWarning,
    warn,
)
from semclass.core.files import REMEDY
from semclass.core.tools import available_threads
from semclass.core.types import Passage, Ragged, offsets_of
from semclass.encoders.words import LANGUAGES, language_of, terms_of
from semclass.heads.sparse import pack
from semclass.index.candidates import Evidence, decode
from semclass.index.columns import columns_of
from semclass.index.folder import Header
from semclass.index.passage_encoder import (
    PassageEncoder,
    PassageFeatures,
    fields_of,
    has_text,
    label,
    labelled,
    searchable,
    title_of,
)
from semclass.index.segment import NOTHING, Segment, hashes_of
from semclass.scoring.bm25 import count_terms
from semclass.scoring.dense import shares_of
from semclass.scoring.vectors import (
    COMPONENTS,
    SCALE,
    Codebooks,
    to_quarter_bytes,
    to_scaled_bytes,
    unit,
)

CHUNK_PASSAGES = 64
"""Passages that a thread reads at a time, at most: bounds memory and what a stop of a build loses; changes no value."""

CHUNK_LENGTH = 1024
"""Characters that a passage of a chunk may have on average."""

UNSORTED_IDS = 1 << 16
"""Ids whose hashes are kept unsorted."""

MAX_NAMED_IDS = 3
"""Most ids that a message names."""


@dataclass(frozen=True)
class IndexConfig:
    """Turns passages into rows of an index."""

    passage_encoder: PassageEncoder
    small: bool  # whether to store only the vectors of sentences
    language: str = "english"  # of the stems of words

    @classmethod
    def of(cls, passage_encoder: PassageEncoder, *, small: bool, language: str = "english") -> IndexConfig:
        """Refuse an encoder whose vectors do not fit the quarter bytes that they would be stored in."""
        dims = passage_encoder.encoder.views["pooled"], passage_encoder.provided_dim
        if (small or passage_encoder.codebooks is not None) and any(dim % COMPONENTS for dim in dims):
            raise InputError(
                f"vectors of {max(dims)} dimensions cannot be stored in quarter bytes, which need a multiple of "
                f"{COMPONENTS}; build the index without small=True (--small), and the models without codebooks"
            )
        check_choice(language, LANGUAGES, "language")
        return cls(passage_encoder, small, language)

    @property
    def books(self) -> Codebooks | None:
        """The codebooks that compress token vectors."""
        return None if self.small else self.passage_encoder.codebooks

    @property
    def exact(self) -> bool:
        """Whether vectors are stored as they are, because no codebooks compress them."""
        return not self.small and self.books is None

    def header(self) -> dict[str, Any]:
        """The fields that describe the whole index, see :class:`semclass.index.folder.Header`."""
        head = self.passage_encoder.classifier.head
        return {
            "encoder": self.passage_encoder.encoder.fingerprint,
            "classes": self.passage_encoder.classifier.classes,
            "thresholds": tuple(self.passage_encoder.classifier.thresholds.tolist()),
            "head": "" if head is None else head.artifact.manifest["files"]["model.onnx"]["sha256"],
            "small": self.small,
            "codebooks": "" if self.books is None else self.books.fingerprint,
            "sparse": "" if self.passage_encoder.sparse is None else self.passage_encoder.sparse.fingerprint,
            "language": self.language,
            "heads": self.passage_encoder.head_fingerprints,
        }

    def encode(self, passages: Sequence[Passage]) -> tuple[Segment, list[str]]:
        """Encode passages. Returns their segment, and the ids of passages that are longer than the encoder reads."""
        heads = self.passage_encoder.heads
        arrays, truncated = self.arrays(passages)
        lines = [line_of(labelled(passage, dict.fromkeys(fields_of(heads)))) for passage in passages]
        if heads:
            passages = label(passages, heads)
            lines = [line_of(passage) for passage in passages]
        columns = columns_of([passage.metadata for passage in passages])
        segment = replace(segment_of(arrays), records=records_of(lines), columns=columns, **hashes(passages))
        return segment, [passages[row].id for row in truncated]

    def arrays(self, passages: Sequence[Passage], *, classes: bool = True) -> tuple[dict[str, Ragged], tuple[int, ...]]:
        """Encode passages into the arrays of :func:`segment_of`. Also returns the rows of those that are too long."""
        features, truncated = self.passage_encoder.read(passages, tokens=not self.small, classes=classes)
        arrays = {
            **self.store(features),
            "sparse": pack(features.sparse),
            "terms": terms_of([searchable(passage) for passage in passages], self.language),
            "probabilities": Ragged(features.probabilities, np.arange(len(passages) + 1)),
        }
        return arrays, truncated

    def store(self, features: PassageFeatures) -> dict[str, Ragged]:
        """Return the evidence of passages in the few bytes that an index keeps, as the arrays of a segment."""
        vectors, offsets = unit(features.sentences.values), features.sentences.offsets
        shares = shares_of(vectors, features.words.values, offsets)
        codes, scales = (vectors, np.ones_like(shares)) if self.exact else to_quarter_bytes(vectors)
        provided, tokens, pieces = features.provides.values, features.tokens.values, features.pieces.values
        if not provided.shape[1]:  # the encoder does not have the view: rows without columns
            provided = np.zeros((len(vectors), 0), np.float32 if self.exact else np.uint8)
        elif not self.exact:
            provided = to_scaled_bytes(provided)
        if self.books is not None:
            tokens = self.books.encode(tokens, pieces)
        elif not self.small:
            tokens = np.rint(tokens * SCALE).astype(np.int8)
        pieces = pieces.astype(np.min_scalar_type(len(self.passage_encoder.encoder.is_term)))
        of_sentences = {"sentences": codes, "provides": provided, "scales": scales, "shares": shares}
        return {
            **{name: Ragged(values, offsets) for name, values in of_sentences.items()},
            "tokens": NOTHING if self.small else Ragged(tokens, features.tokens.offsets),
            "pieces": NOTHING if self.small else Ragged(pieces, features.pieces.offsets),
        }


def segment_of(arrays: Mapping[str, Ragged]) -> Segment:
    """Make a segment of the arrays that searching reads, a row for each passage: without texts, ids and metadata."""
    rows: dict[str, Any] = {name: array for name, array in arrays.items() if name not in ("terms", "probabilities")}
    return Segment(
        **rows,
        records=NOTHING,
        probabilities=arrays["probabilities"].values,
        postings=count_terms(arrays["terms"]),
        columns=columns_of([]),
        id_hashes=np.zeros(0, np.uint64),
        title_hashes=np.zeros(0, np.uint64),
    )


def hashes(passages: Sequence[Passage]) -> dict[str, Any]:
    """Hash the ids of passages, and of each its document and title, as the arrays of a segment."""
    titles = [f"{passage.metadata.get('document', '')}\n{title_of(passage)}" for passage in passages]
    return {"id_hashes": hashes_of([passage.id for passage in passages]), "title_hashes": hashes_of(titles)}


def language_for(passages: Sequence[Passage], told: str | None) -> str:
    """Return the language of an index that begins with some passages."""
    return language_of([searchable(passage) for passage in passages]) if told is None else told


def check_models(header: Header, passage_encoder: PassageEncoder, index: object) -> IndexConfig:
    """Refuse models other than those that made an index, but for heads of your own."""
    config = IndexConfig(passage_encoder, header.small, header.language)
    before, loaded = header.header(), config.header()
    if differing := [name for name in loaded if name != "heads" and loaded[name] != before[name]]:
        name = differing[0]
        raise EncoderMismatchError(
            f"{index} was built with {name} {short(before[name])}, the models have {short(loaded[name])}; name the models "
            f"that built it (--models, --encoder), or {REMEDY}"
        )
    return config


def types_of(rows: Mapping[str, Ragged]) -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and the shape of an item of each array."""
    return {name: (array.values.dtype.str, list(array.values.shape[1:])) for name, array in rows.items()}


def check_types(types: Mapping[str, object], passage_encoder: PassageEncoder, *, small: bool) -> None:
    """Refuse models whose arrays differ from those of an index, even if their fingerprints are the same."""
    features, _ = passage_encoder.read([], tokens=not small, classes=False, sparse=False)
    for name, wanted in types_of(IndexConfig(passage_encoder, small).store(features)).items():
        if types.get(name, wanted) != wanted:
            raise ArtifactError(f"{name} of the index are {types[name]}, those of its encoder {wanted}; {REMEDY}")


def encode_evidence(passage_encoder: PassageEncoder, passages: Sequence[Passage]) -> Evidence:
    """Encode the evidence of passages of a small index, as precise as if an index stored it."""
    features, _ = passage_encoder.read(passages, classes=False, sparse=False)
    config = IndexConfig(passage_encoder, small=False)
    return decode(config.store(features), config.books)


def chunks(passages: Iterable[Passage], size: int | None = None) -> Iterator[list[Passage]]:
    """Cut a stream into lists of at most `size` passages (default :data:`CHUNK_PASSAGES`), of long ones fewer.

    Refuses other objects, and an id that comes twice. That two ids share 64 bits is less probable than a broken disk.
    Passages without text and title are left out, with a warning at the end.
    """
    known, recent = np.zeros(0, np.uint64), set[int]()  # ascending, as a set of all of them takes ten times the memory
    empty = list[str]()
    for chunk in _lists(passages, CHUNK_PASSAGES if size is None else size):
        for passage in chunk:
            if not isinstance(passage, Passage):
                raise InputTypeError(
                    f"passages must be of the type Passage, not {type(passage).__name__}: {short(passage)}"
                )
        ids = [check_text(passage.id, "passage id") for passage in chunk]
        hashes = hashes_of(ids)
        is_known = np.searchsorted(known, hashes, "right") > np.searchsorted(known, hashes, "left")
        for name, number, repeated in zip(ids, hashes.tolist(), is_known.tolist(), strict=True):
            if repeated or number in recent:
                raise InputError(f"passage id {name!r} comes twice; ids must be unique")
            recent.add(number)
        if len(recent) >= UNSORTED_IDS:
            known = np.sort(np.concatenate([known, np.fromiter(recent, np.uint64, len(recent))]))
            recent.clear()
        empty += [passage.id for passage in chunk if not has_text(passage)]
        if kept := [passage for passage in chunk if has_text(passage)]:
            yield kept
    if empty:
        warn(SkippedWarning(f"{name_ids(empty)} left out of the index, as there is no text"))


def _lists(passages: Iterable[Passage], size: int) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    room = size * CHUNK_LENGTH
    for passage in passages:
        length = len(text) if isinstance(text := getattr(passage, "text", None), str) else 0
        if chunk and length > room:
            yield chunk
            chunk, room = [], size * CHUNK_LENGTH
        chunk.append(passage)
        room -= length
        if len(chunk) == size:
            yield chunk
            chunk, room = [], size * CHUNK_LENGTH
    if chunk:
        yield chunk


def line_of(passage: Passage, without: Collection[str] = ()) -> bytes:
    """Write a passage as a JSON line, without some fields of its metadata."""
    metadata = {field: value for field, value in passage.metadata.items() if field not in without}
    check_depth(metadata, f"metadata of passage {passage.id!r}")
    record: dict[str, Any] = {"_id": passage.id, "text": passage.text, "metadata": metadata}
    try:
        return (json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata of passage {passage.id!r} cannot be saved as JSON: {error}") from error


def records_of(lines: Sequence[bytes]) -> Ragged:
    """JSON lines as a segment stores them."""
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    return Ragged(np.frombuffer(b"".join(lines), np.uint8), offsets_of(lengths))


def name_ids(ids: Sequence[str]) -> str:
    """Name the first few of some ids in a message, followed by "is" or "are"."""
    names = ", ".join(map(repr, ids[:MAX_NAMED_IDS])) + (" ..." if len(ids) > MAX_NAMED_IDS else "")
    return f"passage id {names} is" if len(ids) == 1 else f"{len(ids)} passage ids ({names}) are"


Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(job: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[tuple[Item, Result]]:
    """Do a job for each item in several threads. Yield pairs of item and result in the order of the items.

    Only a few more items than threads are taken in advance. With one worker, the caller's thread does all the work.
    """
    if workers == 1:
        yield from ((item, job(item)) for item in items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(job, item)))
                if len(waiting) > workers + 1:
                    first, future = waiting.popleft()
                    yield first, future.result()
            yield from ((first, future.result()) for first, future in waiting)
        finally:
            for _, future in waiting:
                future.cancel()


def threads_of(passage_encoder: PassageEncoder, workers: int | None) -> int:
    """Return the number of threads that read passages. If None, these threads and the encoder's use all processors."""
    free = available_threads() // int(getattr(passage_encoder.encoder, "threads", 1))
    return max(free, 1) if workers is None else check_positive(workers, "workers")


def warn_of_truncated(ids: Sequence[str], count: int) -> None:
    """Warn once of the passages that were truncated."""
    if ids:
        message = (
            f"{len(ids)} of {counted(count, 'passage')} {'has' if len(ids) == 1 else 'have'} a sentence that is longer "
            f"than the encoder reads (the first is {ids[0]!r}). BM25 uses the whole sentence, but vectors and classes "
            "only its start. A sentence ends at a full stop, at a line end or after 100 words, so such a long sentence is "
            "rarely text; leave out encoded data"
        )
        warn(TruncationWarning(message))
