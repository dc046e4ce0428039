"""Smaller readers of texts, made of parts of the shipped encoder: vectors of its word pieces alone, or its first layers.

A text is the mean of the vectors of its word pieces. For a search, rare pieces count more, by their idf in general text,
and what the first layers give is mapped linearly to what the whole encoder gives, which ridge regression over training
texts finds: without the map such means are worse than those of word vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnx_graphs
from bench.retrieval_systems import SEED
from datasets_io import read_jsonl, squad_train
from semclass import OnnxEncoder
from semclass.core.artifacts import default_models
from semclass.documents.sentences import split_sentences
from semclass.encoders.batching import batches_by_length
from semclass.encoders.onnx_encoder import QUESTION
from semclass.scoring.topk import unit

Array = npt.NDArray[Any]
TAUGHT = 2000  # training texts of each kind that the map is found on
RIDGE = 0.01  # strength, as a share of the mean variance
SHARED = 2  # layers of the encoder's lower part
LONGEST = 254  # word pieces of a text that layers read, without special ones

WORDS, FEW_WORDS, ALONE, TWO, THREE, WHOLE = (
    "word vectors", "word vectors, 64 dimensions", "pieces read alone", "2 layers", "3 layers", "6 layers",
)  # fmt: skip
READERS = {
    WORDS: "the encoder's own vectors of word pieces, int8",
    FEW_WORDS: "the same, their first 64 principal components",
    ALONE: "what the encoder gives of each word piece read by itself, 256 principal components, as model2vec distils it",
    TWO: "the encoder's lower part",
    THREE: "and one layer of its upper part",
    WHOLE: "the shipped encoder",
}
"""By name: what reads."""


@dataclass(frozen=True)
class Reader:
    """Gives vectors of texts."""

    encoder: OnnxEncoder
    idf: Array
    size: int  #: bytes of weights, the tokeniser's file not counted
    states: Callable[[Array, Array], Array] = lambda ids, mask: (
        ids
    )  #: of ids and mask (n, length): vectors of the pieces
    whole: bool = False  #: whether the whole encoder reads
    to_whole: Array | None = None  #: the map, with a row for the constant

    def for_search(self, texts: Sequence[str], *, passages: bool = False) -> Array:
        """Unit vectors, (n, dim)."""
        if self.whole:
            reader = self.encoder.for_passages if passages else self.encoder
            return np.concatenate(
                [reader.encode(texts[at : at + 512]).rows("pooled") for at in range(0, len(texts), 512)]
            )
        means = self._means(texts, self.idf)
        if self.to_whole is not None:
            means = with_constant(means) @ self.to_whole
        return unit(means)

    def for_classes(self, texts: Sequence[str]) -> Array:
        """What classifiers read, (n, dim)."""
        if self.whole:
            return self.encoder.encode(texts, views=("layers",)).rows("layers")
        return self._means(texts, np.ones_like(self.idf))

    def _means(self, texts: Sequence[str], weight: Array) -> Array:
        """Weighted means of the vectors of word pieces; special ones do not count."""
        first, last = self.encoder.special
        terms = self.encoder.tokenize(texts)
        found = np.zeros((0, 0), np.float32)
        for batch in batches_by_length(np.minimum(terms.lengths(), LONGEST) + 2, 32):
            pieces = [np.array([first, *terms.row(row)[:LONGEST], last]) for row in batch.tolist()]
            lengths = np.array([len(row) for row in pieces])
            mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
            ids = np.zeros_like(mask)
            ids[mask > 0] = np.concatenate(pieces)
            counts = np.where((ids == first) | (ids == last), 0, weight[ids] + 1e-6) * mask
            means = np.einsum("nl,nld->nd", counts, self.states(ids, mask)) / (counts.sum(axis=1, keepdims=True) + 1e-9)
            found = found if len(found) else np.zeros((len(texts), means.shape[1]), np.float32)
            found[batch] = means
        return found


def make(name: str, data: str) -> Reader:
    """One of :data:`READERS`."""
    encoder = OnnxEncoder.load()
    idf = np.load(default_models() / "entailment" / "idf.npy")
    lower, upper = (onnx.load(str(default_models() / "encoder" / f"{part}.onnx")) for part in ("lower", "upper"))
    if name in (TWO, THREE):
        return _mapped(_layers(encoder, idf, lower, upper, name == THREE), Path(data))
    if name == WHOLE:
        pooled = _part(upper, "pooled")
        return Reader(encoder, idf, lower.ByteSize() + pooled.ByteSize(), whole=True)
    known = {item.name: numpy_helper.to_array(item) for item in lower.graph.initializer}
    table = known["words"] * known["words.scale"].reshape(-1, 1).astype(np.float32)
    if name == ALONE:
        table = _alone(encoder, len(table))
    if name != WORDS:
        table = _components(table, encoder.is_term, 256 if name == ALONE else 64)
    scale = np.abs(table).max(axis=1, keepdims=True) / 127 + 1e-12
    kept = np.rint(table / scale).astype(np.int8)
    rows = kept * scale.astype(np.float32)
    return Reader(encoder, idf, kept.nbytes + 4 * len(kept), lambda ids, mask: rows[ids])


def _layers(encoder: OnnxEncoder, idf: Array, lower: Any, upper: Any, third: bool) -> Reader:
    """The lower part, perhaps with the layer above it."""
    if not third:
        return Reader(encoder, idf, lower.ByteSize(), _states(encoder))
    above = _part(upper, f"layer{SHARED + 1}")
    session, below = onnx_graphs.open_model(above, 1), _states(encoder)
    kind = np.array(QUESTION, np.int64)
    return Reader(
        encoder, idf, lower.ByteSize() + above.ByteSize(),
        lambda ids, mask: session.run(
            None, {"states": below(ids, mask), "attention_mask": mask, "kind": kind}
        )[0],
    )  # fmt: skip


def _states(encoder: OnnxEncoder) -> Callable[[Array, Array], Array]:
    return lambda ids, mask: encoder.lower.run(None, {"input_ids": ids, "attention_mask": mask})[0]


def _part(upper: Any, wanted: str) -> Any:
    output = helper.make_tensor_value_info(wanted, TensorProto.FLOAT, None)
    return onnx_graphs.part(upper, list(upper.graph.input), [output])


def _alone(encoder: OnnxEncoder, count: int) -> Array:
    """The encoder's vector of each word piece, float32 (count, hidden)."""
    parts = []
    for at in range(0, count, 512):
        some = np.arange(at, min(at + 512, count))
        ids = np.stack([np.full_like(some, encoder.special[0]), some, np.full_like(some, encoder.special[1])], axis=1)
        mask = np.ones_like(ids)
        feeds = {"states": _states(encoder)(ids, mask), "attention_mask": mask, "kind": np.array(QUESTION, np.int64)}
        parts.append(encoder.upper.run(["pooled"], feeds)[0])
    return np.concatenate(parts)


def _components(table: Array, of: Array, count: int) -> Array:
    """The first principal components of the rows `of` a table, for all rows."""
    mean = table[of].mean(axis=0)
    _, directions = np.linalg.eigh(np.cov((table[of] - mean).T))
    return np.asarray((table - mean) @ directions[:, ::-1][:, :count], np.float32)


def with_constant(rows: Array) -> Array:
    return np.concatenate([rows, np.ones((len(rows), 1), rows.dtype)], axis=1)


def _mapped(reader: Reader, data: Path) -> Reader:
    """The same with its map, from training questions and sentences of articles, policies, health pages."""
    sentences, questions, _ = squad_train(data)
    policies = [text for row in read_jsonl(data / "policyqa" / "train.jsonl.gz") for text in row["passages"]]
    health = [part["answer"] for row in read_jsonl(data / "medquad" / "documents.jsonl.gz") for part in row["sections"]]
    rng = np.random.default_rng(SEED)

    def some(texts: Sequence[str], count: int) -> list[str]:
        return [texts[row] for row in rng.permutation(len(texts))[:count].tolist()]

    long = [
        text for part in (policies, health) for passage in some(part, TAUGHT // 4) for text in split_sentences(passage)
    ]
    asked, given = some(questions, TAUGHT), [*some(sentences, TAUGHT // 2), *some(long, TAUGHT // 2)]
    whole = replace(reader, whole=True)
    rows = np.concatenate([reader._means(texts, reader.idf) for texts in (asked, given)]).astype(np.float64)
    wanted = np.concatenate([whole.for_search(asked), whole.for_search(given, passages=True)])
    strength = np.full(rows.shape[1] + 1, RIDGE * len(rows) * rows.var(axis=0).mean())
    strength[-1] = 0
    wide = with_constant(rows)
    found = np.linalg.solve(wide.T @ wide + np.diag(strength), wide.T @ wanted).astype(np.float32)
    return replace(reader, to_whole=found, size=reader.size + found.nbytes)
