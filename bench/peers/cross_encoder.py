"""The cross-encoder that ``train_cross_encoder.py`` makes: it reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import tokenizers

from semclass.core import artifacts
from semclass.core.onnx_sessions import open_session

Array = npt.NDArray[Any]

INPUTS = ("input_ids", "token_type_ids", "attention_mask")
FEW = 3  # of the passages that ``learned`` puts first, the cross-encoder reads so many in the cheaper combination


@dataclass(frozen=True)
class CrossEncoder:
    """A network that scores a question and a passage together."""

    session: onnxruntime.InferenceSession
    tokenizer: tokenizers.Tokenizer
    manifest: dict[str, Any]

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> CrossEncoder:
        """Load a folder that ``train_cross_encoder.py`` wrote."""
        artifact = artifacts.load(folder, "cross-encoder")
        tokenizer = pair_tokenizer(artifact.read("tokenizer.json"), int(artifact.field("max_length")))
        return cls(open_session(artifact, "model.onnx", threads), tokenizer, dict(artifact.manifest))

    def scores(self, question: str, passages: Sequence[str]) -> Array:
        """Logits of passages for a question, float32 (n,)."""
        pairs = self.tokenizer.encode_batch([(question, passage) for passage in passages])
        return np.concatenate([self.session.run(["logits"], feed([pair]))[0] for pair in pairs])


def pair_tokenizer(data: bytes, max_length: int) -> tokenizers.Tokenizer:
    """A tokeniser that makes pairs of `max_length` word pieces at most by cutting the second text."""
    tokenizer = tokenizers.Tokenizer.from_buffer(data)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="only_second")
    return tokenizer


def feed(pairs: Sequence[tokenizers.Encoding]) -> dict[str, Array]:
    """Inputs of a run, padded to the longest pair."""
    lengths = np.array([len(pair.ids) for pair in pairs])
    inputs = {name: np.zeros((len(pairs), lengths.max()), np.int64) for name in INPUTS}
    for row, pair in enumerate(pairs):
        for name, values in zip(INPUTS, (pair.ids, pair.type_ids, pair.attention_mask), strict=True):
            inputs[name][row, : len(values)] = values
    return inputs


def order_of_few(probabilities: Array, logits: Array, slope: float) -> Array:
    """Order by probabilities, then the first :data:`FEW` by both; logits of the others do not count."""
    sure = np.clip(probabilities, 1e-7, 1 - 1e-7)  # what float32 tells apart
    both = np.log(sure) - np.log1p(-sure) + slope * logits
    order = np.argsort(-probabilities, kind="stable")
    first, rest = order[:FEW], order[FEW:]
    return np.concatenate([first[np.argsort(-both[first], kind="stable")], rest])
