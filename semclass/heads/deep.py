"""The deep head: its layers read a question and a text together, above the encoder's lower part.

Every word piece of a question sees the word pieces of the text, and vice versa, as in a cross-encoder. This happens
only above the layers that both texts share with the encoder (as in DeFormer, Cao et al. 2020, and PreTTR, MacAvaney et
al. 2020). In a ranking the head reads only the sentences of a passage that are most like an answer, and only the first
few passages, because each passage takes milliseconds.
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
from semclass.core.types import DoubleArray, Encoder, Encoding, FloatArray, Ragged, padded, ragged
from semclass.documents.sentences import split_sentences
from semclass.encoders.batching import STEP, batches_by_length
from semclass.scoring.topk import unit

MAX_PIECES = 96  # most word pieces of a question, and of a text, that the head reads

MAX_WORDS = 45
"""Most words of a passage that the head reads, in whole sentences. The head reads at least one sentence."""

WORD_BYTES = 12  # bytes that count as a word at most: some languages are written without spaces
WEIGHT = 0.1  # the amount that a unit of the head's log-odds adds to the score of the default method

UNLIKELY = -2.0
"""Log-odds below which each unit counts twice. Passages that are hardly an answer fall behind, and other evidence
decides among likely answers. See ``bench/results/deep.md``.
"""

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


def joint_log_odds(
    head: DeepHead, question: str, pooled: FloatArray, sentences: Ragged, texts: Sequence[tuple[str, str]]
) -> DoubleArray:
    """Return calibrated log-odds that n passages answer, float64 (n,).

    `pooled` is the question's vector, `sentences` are the unit vectors of the passages' sentences, and `texts` are their
    titles and texts.
    """
    worth = Ragged(np.einsum("ij,j->i", sentences.values, unit(pooled)), sentences.offsets)
    chosen = [chosen_sentences(title, body, worth.row(row)) for row, (title, body) in enumerate(texts)]
    return head.read([question] * len(chosen), chosen)


def gain_of(log_odds: DoubleArray) -> DoubleArray:
    """Return the gain of log-odds, see :data:`UNLIKELY`."""
    return log_odds + np.minimum(log_odds - UNLIKELY, 0)


def chosen_sentences(title: str, body: str, worth: FloatArray) -> list[str]:
    """Return the most valuable sentences of a passage, of at most `MAX_WORDS` words, in their order.

    The passage's title stands before the first sentence.
    """
    title = " ".join(title.split())
    sentences = split_sentences(body) if body.strip() else [title]
    words, kept = 0, list[int]()
    for place in np.argsort(-worth[: len(sentences)], kind="stable").tolist():
        text = sentences[place]
        words += max(text.count(" ") + 1, len(text.encode()) // WORD_BYTES)
        if kept and words > MAX_WORDS:
            break
        kept.append(place)
    first, *others = sorted(kept)
    named = f"{title} {sentences[first]}" if title and body.strip() else sentences[first]
    return [named, *(sentences[place] for place in others)]
