"""The deep head: its layers read a question and a text together, above the encoder's lower part.

Every word piece of a question sees the word pieces of the text, and vice versa, as in a cross-encoder. This happens
only above the layers that both texts share with the encoder (as in DeFormer, Cao et al. 2020, and PreTTR, MacAvaney et
al. 2020). As a last step of a ranking it brought nothing: ``docs/decisions/signals.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.onnx_sessions import open_session
from semclass.core.types import DoubleArray, Encoder, Encoding, FloatArray, padded, ragged
from semclass.encoders.batching import STEP, batches_by_length

MAX_PIECES = 96  # most word pieces of a question, and of a text, that the head reads

BATCH = 32  # pairs per run of the network

Flags: TypeAlias = npt.NDArray[np.bool_]
Pair: TypeAlias = tuple[FloatArray, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class DeepHead:
    """Tells how likely texts answer a question, from both read together. Threads may share one instance."""

    encoder: Encoder
    network: onnxruntime.InferenceSession
    #: Weights of the log-odds of the entailment head and of these, and a bias, whose sum is the log-odds of an
    #: :class:`semclass.EntailmentClassifier`. None if the two were not calibrated together.
    beside_entailment: tuple[float, float, float] | None = None

    @classmethod
    def load(cls, folder: Path, encoder: Encoder, *, threads: int = 1) -> DeepHead:
        """Load the head from its folder.

        Raises an ArtifactError if the head is damaged or was made for another encoder.
        """
        artifact = artifacts.load_artifact(folder, "deep", encoder=encoder.fingerprint, views=(STATES,))
        beside = artifact.manifest.get("beside_entailment")
        weights = None if beside is None else (float(beside[0]), float(beside[1]), float(beside[2]))
        return cls(encoder, open_session(artifact, "network.onnx", threads), weights)

    def read(self, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> DoubleArray:
        """Log-odds of n pairs of a question and the sentences of a passage, float64 (n,)."""
        return self.compare(pairs_of(self.encoder, questions, passages))

    def compare(self, pairs: Sequence[Pair]) -> DoubleArray:
        """Log-odds of n pairs, given as the network's inputs, float64 (n,)."""
        found = np.zeros(len(pairs))
        for batch in batches_by_length(np.array([len(marks) for _, marks in pairs]), BATCH):
            rows, marks = zip(*(pairs[row] for row in batch), strict=True)
            feeds = {
                "states": padded(ragged(rows, rows[0]), step=STEP),
                "marks": padded(ragged(marks, marks[0]), step=STEP, dtype=np.int64),
            }
            found[batch] = self.network.run(["logits"], feeds)[0][:, 0]
        return found


def pairs_of(encoder: Encoder, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Pair]:
    """Return the network's inputs for pairs of a question and sentences.

    The inputs are states (length, hidden), and marks (length,).
    """
    places: dict[str, int] = {}
    asked = [places.setdefault(text, len(places)) for text in questions]
    given = [[places.setdefault(text, len(places)) for text in sentences] for sentences in passages]
    encoding = encoder.encode(list(places), views=(STATES,))
    return [pair_of(encoding, row, encoding, rows, encoder.is_term) for row, rows in zip(asked, given, strict=True)]


def pair_of(asked: Encoding, question: int, given: Encoding, sentences: Sequence[int], is_term: Flags) -> Pair:
    """States of a question and of sentences without their first tokens, `MAX_PIECES` of either, and the mark of each.

    `question` is a row of `asked`, `sentences` are rows of `given`.
    """
    states = given.pieces(STATES)
    rows = [asked.pieces(STATES).row(question), *(states.row(row)[1:] for row in sentences)]
    # special tokens are no terms: 0 stands for them, as for padding
    ids = [np.append(0, asked.terms.row(question)), *(given.terms.row(row) for row in sentences)]
    within = [np.append(part[: len(row) - 1], 0) for part, row in zip(ids, rows, strict=True)]
    # of a long question, what is asked stands at the end
    marks = marks_of(within[0][-MAX_PIECES:], np.concatenate(within[1:])[:MAX_PIECES], is_term)
    return np.concatenate([rows[0][-MAX_PIECES:], np.concatenate(rows[1:])[:MAX_PIECES]]), marks


def marks_of(asked: npt.NDArray[Any], given: npt.NDArray[Any], is_term: Flags) -> npt.NDArray[np.int64]:
    """Return the marks of the word pieces of a question and of a passage, by their ids.

    The marks are 0 for a question and 2 for a passage, and 1 and 3 for terms that both texts have.
    """
    same = np.isin(asked, given) & is_term[asked], np.isin(given, asked) & is_term[given]
    return np.concatenate([same[0], same[1] + np.int64(2)])
