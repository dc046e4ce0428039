"""The shipped encoder, which computes every view that the heads need from word pieces in one ONNX run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from semclass.core import artifacts
from semclass.core.artifacts import STATES, open_session
from semclass.core.checks import check_positive, check_texts
from semclass.core.errors import ArtifactError
from semclass.core.types import Encoder, Encoding, FloatArray, IntArray, Ragged, offsets_of, padded, ragged, spans
from semclass.encoders.batching import BATCH, STEP, batches_by_length, check_views, pieces_of, steps, term_flags

NETWORKS = ("lower.onnx", "upper.onnx")
"""Files of the lower and the upper part of the network."""

KEPT = "kept.npy"
"""File that lists the word pieces of passages that the upper part reads. Without the file, it reads all word pieces."""

HUB = "hub:"  # prefix of an encoder's name that means a sentence-transformers model

MAX_WINDOWS = 16
"""Maximum number of windows that are read of a text, about 3,000 words of English. This bounds the memory of a text."""

PIECE_VIEWS = (STATES, "tokens", "weights")
"""Views with a row for each word piece. The other views have a row for each text."""

QUESTION, PASSAGE = 0, 1
"""Kinds of text that are read differently. Each may have its own prefix, and the upper part may read only some of the word
pieces of a passage.
"""


@dataclass(frozen=True)
class Windows:
    """The windows of texts. The windows of one text follow one another and do not overlap."""

    owners: IntArray  # int64 of shape (w,): the text of each window, ascending
    starts: IntArray  # int64 of shape (w,): its first word piece within the text
    lengths: IntArray  # int64 of shape (w,): its number of word pieces

    @property
    def firsts(self) -> IntArray:
        """Each text's first window, int64 of shape (n,)."""
        return np.flatnonzero(self.starts == 0)

    def pooled(self, view: str, rows: FloatArray) -> FloatArray:
        """Combine rows of windows, (w, dim), to one row a text: the maximum for ``entities``, else the mean by length."""
        if view == "entities":
            return np.maximum.reduceat(rows, self.firsts, axis=0)
        weights = self.lengths.astype(np.float32)[:, None]
        sums: FloatArray = np.add.reduceat(rows * weights, self.firsts, axis=0)
        if view == "pooled":
            sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        else:
            sums /= np.add.reduceat(weights, self.firsts, axis=0)
        alone = np.bincount(self.owners) == 1
        sums[alone] = rows[self.firsts[alone]]  # to the last bit what it is without long texts beside it
        return sums

    def pieces(self, terms: Ragged) -> Ragged:
        """Return the word pieces of each window."""
        first = terms.offsets[self.owners] + self.starts
        return spans(terms.values, first, first + self.lengths)

    def joined(self, rows: Ragged) -> Ragged:
        """Join the word pieces of all windows of a text to one row."""
        return Ragged(rows.values, rows.offsets[np.append(self.firsts, len(self.starts))])


def cut_windows(lengths: IntArray, room: int, most: int) -> Windows:
    """Cut each text into as few windows of similar length as possible: at most `most` of at most `room` word pieces."""
    if lengths.max(initial=0) <= room:  # a question: the common case, and the one where microseconds count
        return Windows(np.arange(len(lengths)), np.zeros(len(lengths), np.int64), lengths)
    read = np.minimum(lengths, most * room)
    counts = np.maximum(-(-read // room), 1)
    owners = np.repeat(np.arange(len(lengths)), counts)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = places * read[owners] // counts[owners]
    ends = (places + 1) * read[owners] // counts[owners]
    return Windows(owners, starts, ends - starts)


@dataclass(frozen=True)
class OnnxEncoder:
    """An encoder exported by ``training/export_encoder.py``. Threads may share one instance.

    A model may have been trained with a prefix before each text, such as ``"query: "``. The encoder adds it.

    A text of more than `max_length` word pieces, with two special ones and the prefix, is read in at most 16 windows of
    similar length. The vectors of the windows are averaged. ``entities`` is the maximum of the windows, and ``tokens``
    holds the vectors of all windows in a row. With the view ``states``, only the first window is read. `Encoding.truncated`
    lists texts that are longer than all windows.

    Texts are read as questions, with every word piece. :attr:`for_passages` reads texts as excerpts of passages.
    """

    fingerprint: str
    views: Mapping[str, int]
    max_length: int
    threads: int
    lower: onnxruntime.InferenceSession
    upper: onnxruntime.InferenceSession
    tokenizer: tokenizers.Tokenizer
    special: tuple[int, int]
    kept: npt.NDArray[np.bool_] | None = None  # which word pieces the upper part reads of passages; None: all
    prefixes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # word pieces before a question, and before a passage
    kind: int = QUESTION
    sharpness: float = 0.0  # factor of cosines in a softmax, see :mod:`semclass.heads.zero_shot`; 0: the usual one

    @classmethod
    def load(cls, folder: str | Path | None = None, *, threads: int = 1) -> OnnxEncoder:
        """Load an encoder.

        Raises an ArtifactError if the folder is damaged; an InputError if a number is out of range.

        Parameters
        ----------
        folder
            Folder of the encoder. Defaults to the shipped encoder.
        threads
            Threads per run. Use one thread for single questions, and all processors for building an index.
        """
        check_positive(threads, "threads")
        artifact = artifacts.load_artifact(
            artifacts.default_models() / "encoder" if folder is None else folder, "encoder"
        )
        # before the tokeniser, because opening a network takes twice its size for a moment
        lower, upper = (open_session(artifact, name, threads, optimise=False) for name in NETWORKS)
        try:
            tokenizer = tokenizers.Tokenizer.from_buffer(artifact.read("tokenizer.json"))
        except Exception as error:  # the tokenizers library raises bare Exception
            raise ArtifactError(f"{artifact.path('tokenizer.json')} cannot be read: {error}") from error
        # windows and padding are made here, so that the whole text's terms are known and no call changes shared state
        tokenizer.no_truncation()
        tokenizer.no_padding()
        first, last = artifact.field("special_ids")
        views = {str(name): int(dim) for name, dim in artifact.field("views").items()}
        outputs = {item.name: item.shape[-1] for item in [*lower.get_outputs(), *upper.get_outputs()]}
        if outputs != views:
            raise ArtifactError(f"the networks in {artifact.folder} have the outputs {outputs}, the manifest {views}")
        kept = artifact.array(KEPT) if KEPT in artifact else None
        question, passage = artifact.manifest.get("prefixes", ("", ""))
        if (kept is not None) != any(item.name == "kind" for item in upper.get_inputs()):
            raise ArtifactError(
                f"{artifact.folder}: {KEPT} must exist if the network has the input 'kind', and only then"
            )
        return cls(
            fingerprint=fingerprint_of(artifact.manifest["files"]),
            views=views,
            max_length=int(artifact.field("max_length")),
            threads=threads,
            lower=lower,
            upper=upper,
            tokenizer=tokenizer,
            special=(int(first), int(last)),
            kept=kept,
            prefixes=(prefix_pieces(tokenizer, question), prefix_pieces(tokenizer, passage)),
            sharpness=float(artifact.manifest.get("sharpness", 0.0)),
        )

    @cached_property
    def for_passages(self) -> OnnxEncoder:
        """Encoder for excerpts of passages, with the same model."""
        return self if self.kept is None and not any(self.prefixes) else replace(self, kind=PASSAGE)

    @property
    def prefix(self) -> tuple[int, ...]:
        """Ids of the word pieces before each text."""
        return self.prefixes[self.kind]

    @property
    def window(self) -> int:
        """Maximum number of word pieces that are read at a time."""
        return self.max_length - len(self.special) - len(self.prefix)

    @cached_property
    def is_term(self) -> npt.NDArray[np.bool_]:
        """Whether each word piece counts as a term, bool of shape (vocabulary,). Terms have a letter or a digit."""
        added = self.tokenizer.get_added_tokens_decoder().values()
        return term_flags(self.tokenizer.get_vocab(), (token.content for token in added if token.special))

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """Text of each word piece, by id."""
        return pieces_of(self.tokenizer.get_vocab())

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Split non-empty texts into word pieces. Returns the int32 ids of each whole text, without special tokens."""
        # one after another: what the tokeniser gives besides ids takes many times the memory
        encodings = (self.tokenizer.encode(text, add_special_tokens=False) for text in steps(check_texts(texts)))
        return ragged([np.array(item.ids, np.int32) for item in encodings], np.zeros(0, np.int32))

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """Encode texts.

        Raises an InputError for an empty text or an unknown view. See :meth:`semclass.Encoder.encode`.
        """
        check_views(views, self.views)
        wanted = [name for name in self.views if name in views]
        terms = self.tokenize(texts)
        # heads that read states classify questions, which are short: one window bounds their time
        lengths = terms.lengths()
        if not wanted:
            return Encoding(terms, kept=self._kept(terms))
        most = 1 if STATES in wanted else MAX_WINDOWS
        windows = cut_windows(lengths, self.window, most)
        read, parts = windows.lengths, windows.pieces(terms)
        kept = self._kept(parts)
        rows = {name: np.zeros((len(read), self.views[name]), np.float32) for name in wanted if name not in PIECE_VIEWS}
        pieces = {name: self._no_pieces(name, read, kept) for name in wanted if name in PIECE_VIEWS}
        for batch in steps(batches_by_length(read, BATCH)):
            ids, mask = surrounded(parts.take(batch), (self.special[0], *self.prefix), self.special[1])
            for name, output in self._run(ids, mask, wanted).items():
                if name in rows:
                    rows[name][batch] = output
                else:
                    scatter(pieces[name], batch, output)
        if len(read) > len(terms):
            rows = {name: windows.pooled(name, values) for name, values in rows.items()}
            pieces = {name: windows.joined(values) for name, values in pieces.items()}
            kept = None if kept is None else windows.joined(kept)
        given: dict[str, Any] = {**rows, **pieces}
        return Encoding(terms, **given, limit=most * self.window, kept=kept)

    def _kept(self, pieces: Ragged) -> Ragged | None:
        """Ids of the word pieces of each window that the upper part reads; None: of all of them."""
        if self.kind == QUESTION or self.kept is None:
            return None
        flags = self.kept[pieces.values]
        return Ragged(pieces.values[flags], offsets_of(flags)[pieces.offsets])

    def _no_pieces(self, name: str, read: IntArray, kept: Ragged | None) -> Ragged:
        """Zeros for each word piece of each window, float32 of item shape (dim,)."""
        inside = offsets_of(read) if kept is None else kept.offsets
        offsets = offsets_of(read + len(self.special)) if name == STATES else inside
        return Ragged(np.zeros((offsets[-1], self.views[name]), np.float32), offsets)

    def _run(self, ids: IntArray, mask: IntArray, wanted: Sequence[str]) -> dict[str, FloatArray]:
        """Run the lower part and, if a view of it is wanted, the upper part.

        States are given without those of the prefix. A tuned upper part reads them so, too.
        """
        (states,) = self.lower.run([STATES], {"input_ids": ids, "attention_mask": mask})
        first = 1 + len(self.prefix)
        found: dict[str, FloatArray] = {}
        if STATES in wanted:
            found[STATES] = np.delete(states, slice(1, first), axis=1) if self.prefix else states
        above = [name for name in wanted if name != STATES]
        if above:
            seen = mask > 0
            if self.kept is not None:
                seen[:, 1:first] = False
                if self.kind == PASSAGE:
                    seen[:, first:] &= self.kept[ids[:, first:]]
            feeds = _packed(states, seen)
            if self.kept is not None:
                feeds["kind"] = np.array(self.kind, np.int64)
                first = 1
            for name, output in zip(above, self.upper.run(above, feeds), strict=True):
                found[name] = output[:, first:] if name in PIECE_VIEWS else output
        return found


def surrounded(pieces: Ragged, before: tuple[int, ...], after: int) -> tuple[IntArray, IntArray]:
    """Add special tokens to the word pieces of each text, and pad. Returns ids and mask, int64 of shape (n, longest)."""
    ends = pieces.lengths() + len(before)
    ids = np.zeros((len(pieces), int(ends.max()) + 1), np.int64)
    ids[:, : len(before)] = before
    ids[:, len(before) : -1] = padded(pieces, dtype=np.int64)
    ids[np.arange(len(ids)), ends] = after
    return ids, (np.arange(ids.shape[1]) <= ends[:, None]).astype(np.int64)


def prefix_pieces(tokenizer: tokenizers.Tokenizer, prefix: str) -> tuple[int, ...]:
    """Return the ids of a prefix's word pieces. A space at the end of the prefix belongs to the next word piece."""
    return tuple(tokenizer.encode(prefix.rstrip(), add_special_tokens=False).ids)


def _packed(states: FloatArray, kept: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """The states of some word pieces of each text, moved together and padded; `kept` is of shape (batch, longest)."""
    lengths = kept.sum(axis=1)
    packed = padded(Ragged(states[kept], offsets_of(lengths)), step=STEP)
    return {STATES: packed, "attention_mask": (np.arange(packed.shape[1]) < lengths[:, None]).astype(np.int64)}


def for_passages(encoder: Encoder) -> Encoder:
    """Return an encoder for excerpts of passages: `for_passages` of the shipped encoder, or else the given encoder."""
    return encoder.for_passages if isinstance(encoder, OnnxEncoder) else encoder


def scatter(target: Ragged, batch: IntArray, output: FloatArray) -> None:
    """Copy a network's output (batch, length, dim) to the rows of the same texts in `target`, without padding."""
    places = np.arange(output.shape[1])
    inside = places < target.lengths()[batch][:, None]
    target.values[(target.offsets[batch][:, None] + places)[inside]] = output[inside]


def open_models(models: str | Path | None, encoder: Encoder | None, threads: int) -> tuple[Path, Encoder]:
    """Find a models folder, by default the shipped folder, and load its encoder unless you give one to share."""
    root = artifacts.models_folder(models)
    if encoder is not None:
        return root, encoder
    if root.is_dir() and not (root / "encoder").exists():
        raise ArtifactError(f"{root} holds no encoder; name the encoder with which its heads were trained (--encoder)")
    return root, OnnxEncoder.load(root / "encoder", threads=threads)


def fingerprint_of(records: Mapping[str, Mapping[str, object]]) -> str:
    """Return the identity of an encoder: 12 digits of each file's hash, the lower part first and the tokenizer last."""
    files = (*NETWORKS, *([KEPT] if KEPT in records else []), "tokenizer.json")
    return "-".join(str(records[name]["sha256"])[:12] for name in files)


def open_encoder(encoder: Encoder | str | Path | None, threads: int = 1) -> Encoder:
    """Load an encoder by a name that :meth:`semclass.TextModel.load` takes. A loaded encoder is returned unchanged."""
    if isinstance(encoder, str) and encoder.startswith(HUB):
        from semclass.encoders.sentence_transformers import SentenceTransformerEncoder

        return SentenceTransformerEncoder.load(encoder.removeprefix(HUB))
    if isinstance(encoder, (str, Path)) and not Path(encoder).exists() and Path(encoder).name == str(encoder):
        encoder = artifacts.models_folder(encoder) / "encoder"  # no path: the name of an installed package
    if encoder is None or isinstance(encoder, (str, Path)):
        return OnnxEncoder.load(encoder, threads=threads)
    return encoder
