"""Does a sentence answer a question? A head over the token vectors of both, each text encoded by itself.

Two networks do the work. The *branch* goes on from the encoder's view ``states`` with layers that were tuned for this, once
for each text, and gives a unit vector for each word piece; a question also gets a weight for each piece and a vector that
stands for what is asked for. The *head* compares the vectors of one question and one sentence: the best cosines of their
pieces, a soft alignment of either text with the other (Parikh et al. 2016, a decomposable attention model), and for every
piece of the sentence how well it suits what is asked for. No layer of the encoder ever sees both texts, so the vectors of
sentences can be made, and kept, before any question is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.checks import check_texts, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError
from semclass.core.onnx_sessions import open_session
from semclass.core.types import DoubleArray, Encoder, FloatArray, IntArray, Ragged, padded
from semclass.encoders.batching import CHUNK, batches_by_length, steps, warn_truncated
from semclass.encoders.onnx_encoder import STATES, open_models
from semclass.encoders.token_encoder import QUESTION, SENTENCE, TokenEncoder

BATCH = 32
"""Texts or pairs per run of a network; those of like length share one."""

LABELS = ("not_entailment", "entailment")
"""Labels below the threshold, and from it on."""


@dataclass(frozen=True)
class EntailmentLabel:
    """Whether a sentence answers a question.

    Attributes
    ----------
    question, sentence
        The texts.
    label
        One of :data:`semclass.heads.entailment.LABELS`.
    probability
        P(sentence answers question), in [0, 1].
    """

    question: str
    sentence: str
    label: str
    probability: float


@dataclass(frozen=True)
class TextVectors:
    """What the branch gives for n texts; special tokens are left out. Weights and slots are meant for questions."""

    vectors: Ragged  # float32 of item shape (dim,), unit length: one for each word piece that the encoder read
    terms: Ragged  # word-piece ids, as many
    weights: Ragged  # float32: log of each piece's weight, up to a constant
    slots: FloatArray  # (n, slot_dim): what is asked for

    def __len__(self) -> int:
        """Count the texts."""
        return len(self.vectors)


@dataclass(frozen=True)
class EntailmentClassifier:
    """An encoder, the branch and the head; many threads may share one.

    Attributes
    ----------
    encoder
        Gives the view ``states``.
    branch
        Makes the vectors.
    head
        Compares them.
    idf
        Inverse document frequency of word pieces in general text, float32 of shape (vocabulary,); 0 for no terms.
    threshold
        Probability from which the label is ``"entailment"``.
    """

    encoder: Encoder
    token_encoder: TokenEncoder
    head: onnxruntime.InferenceSession
    idf: FloatArray
    threshold: float

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> EntailmentClassifier:
        """Load the classifier.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None.
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of each network that is loaded here.

        Returns
        -------
        EntailmentClassifier
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged.
        EncoderMismatchError
            If the networks were trained on another encoder's states.
        """
        root, used = open_models(models, encoder, threads)
        artifact = artifacts.load(root / "entailment", "entailment")
        token_encoder = TokenEncoder.of(artifact, encoder=used.fingerprint, threads=threads)
        head = open_session(artifact, "head.onnx", threads)
        idf = artifact.array("idf.npy")
        if idf.shape != used.is_term.shape:
            raise ArtifactError(
                f"{artifact.path('idf.npy')} has shape {idf.shape}; the encoder's vocabulary has {used.is_term.shape}"
            )
        return cls(used, token_encoder, head, idf, float(artifact.field("threshold")))

    def predict(self, pairs: Iterable[tuple[str, str]]) -> list[EntailmentLabel]:
        """Classify pairs by whether the sentence answers the question.

        Parameters
        ----------
        pairs
            n pairs of a question and a sentence.

        Returns
        -------
        list of EntailmentLabel
            In the order of `pairs`.

        Raises
        ------
        InputError, InputTypeError
            If an item is no pair of non-empty texts.
        """
        items = check_pairs(pairs)
        questions, sentences = [item[0] for item in items], [item[1] for item in items]
        given = self.predict_proba(questions, sentences).tolist()
        return [
            EntailmentLabel(question, sentence, LABELS[int(probability >= self.threshold)], probability)
            for question, sentence, probability in zip(questions, sentences, given, strict=True)
        ]

    def predict_proba(self, questions: Iterable[str], sentences: Iterable[str]) -> DoubleArray:
        """P(sentence answers question) of pairs.

        Parameters
        ----------
        questions, sentences
            n non-empty texts each: the first question goes with the first sentence, and so on. A text that comes more
            than once is encoded once per chunk.

        Returns
        -------
        ndarray
            float64 of shape (n,), in [0, 1].

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or there are not as many questions as sentences.
        """
        asked, given = check_texts(questions, "questions"), check_texts(sentences, "sentences")
        if len(asked) != len(given):
            raise InputError(
                f"there are {len(asked)} questions and {len(given)} sentences; give one sentence for each question"
            )
        found = np.zeros(len(asked))
        for start in range(0, len(asked), CHUNK):
            part = slice(start, start + CHUNK)
            first, rows = _distinct(asked[part])
            second, places = _distinct(given[part])
            found[part] = self.probabilities(
                self.encode(first, QUESTION), self.encode(second, SENTENCE), np.stack([rows, places], axis=1)
            )
        return found

    def encode(self, texts: Sequence[str], kind: int) -> TextVectors:
        """Give the vectors of texts.

        Parameters
        ----------
        texts
            n non-empty texts.
        kind
            `QUESTION` or `SENTENCE` of this module.

        Returns
        -------
        TextVectors
            In the same order.
        """
        encoding = self.encoder.encode(texts, views=(STATES,))
        warn_truncated(encoding.truncated, len(texts), encoding)
        found = self.token_encoder.read(encoding.pieces(STATES), kind)
        # the encoder reads the beginning of a long text, and only pieces that it read have vectors
        offsets, lengths = found.vectors.offsets, found.vectors.lengths()
        read = np.repeat(encoding.terms.offsets[:-1] - offsets[:-1], lengths) + np.arange(offsets[-1])
        terms = Ragged(encoding.terms.values[read], offsets)
        return TextVectors(found.vectors, terms, found.weights, found.slots)

    def probabilities(self, questions: TextVectors, sentences: TextVectors, pairs: IntArray) -> DoubleArray:
        """P(sentence answers question) of encoded texts.

        Parameters
        ----------
        questions, sentences
            Encoded as such.
        pairs
            int64 of shape (n, 2): places in `questions` and in `sentences`.

        Returns
        -------
        ndarray
            float64 of shape (n,), in [0, 1]; 0 where a text has no word piece, such as one of control characters.
        """
        found = np.zeros(len(pairs))
        for batch in steps(batches_by_length(sentences.terms.lengths()[pairs[:, 1]], BATCH)):
            asked, given = pairs[batch].T
            words, pieces = padded_ids(questions.terms.take(asked)), padded_ids(sentences.terms.take(given))
            rarity = np.where(words >= 0, self.idf[words], 0)
            feeds = {
                "question": padded(questions.vectors.take(asked), shortest=1),
                "weights": padded(questions.weights.take(asked), shortest=1),
                "slots": questions.slots[asked],
                "sentence": padded(sentences.vectors.take(given), shortest=1),
                "exact": ((words[:, :, None] == pieces[:, None, :]) & (rarity > 0)[:, :, None]).astype(np.float32),
                "idf": rarity.astype(np.float32),
            }
            found[batch] = self.head.run(["probabilities"], feeds)[0][:, 0]
        read = (questions.terms.lengths() > 0)[pairs[:, 0]] & (sentences.terms.lengths() > 0)[pairs[:, 1]]
        return np.where(read, found, 0.0)


def check_pairs(pairs: object) -> list[tuple[str, str]]:
    """Copy pairs into a list and refuse items that are no pairs; texts are checked later."""
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputTypeError(f"pairs must be a sequence of (question, sentence), not {short(pairs)}")
    items = list(pairs)
    for place, item in enumerate(items):
        if isinstance(item, (str, bytes)) or not isinstance(item, Sequence) or len(item) != 2:
            raise InputTypeError(f"pairs[{place}] must be (question, sentence), not {short(item)}")
    return items


def _distinct(texts: list[str]) -> tuple[list[str], IntArray]:
    """Each text once, in order of first appearance, and which of them each place holds."""
    places: dict[str, int] = {}
    rows = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(rows, np.int64)


def padded_ids(terms: Ragged) -> npt.NDArray[Any]:
    """Word-piece ids as a matrix, int64 of shape (n, longest), at least one column; -1 behind the end of a text."""
    return padded(terms, fill=-1, shortest=1, dtype=np.int64)
