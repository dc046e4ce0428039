"""Predicts whether a sentence answers a question.

The first head reads the token vectors of both texts, which are encoded apart. Its inputs are the best cosines of their
pieces, a soft alignment of each text with the other (Parikh et al. 2016, a decomposable attention model), and how well
each piece of the sentence fits the question. The deep head, if the models have it, reads both texts together, as a
cross-encoder does, but only above the layers that it shares with the encoder (as in DeFormer, Cao et al. 2020, and PreTTR,
MacAvaney et al. 2020). It did not improve rankings as their last step: ``docs/decisions/signals.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.artifacts import STATES, open_session
from semclass.core.checks import check_texts, short
from semclass.core.errors import InputTypeError
from semclass.core.types import DoubleArray, Encoder, Encoding, FloatArray, IntArray, padded, ragged
from semclass.encoders.batching import CHUNK, STEP, batches_by_length, steps, warn_truncated
from semclass.encoders.onnx_encoder import for_passages, open_models
from semclass.heads.head import Head, log_odds
from semclass.heads.query_focus import load_generic, query_focus

BATCH = 32  # pairs per run of a head

QUESTION_VIEWS, SENTENCE_VIEWS = ("tokens", "weights", "expects"), ("tokens",)  # what the head reads of the encoder's

MIN_PROBABILITY = 1e-6  # how near to 0 and 1 probabilities may come for log-odds

EXPECTED = 2  # of the vectors in ``expects``, so many, the first ones

CLASSES = ("not_entailment", "entailment")  # below the threshold, and from it on


MAX_PIECES = 96  # most word pieces of a question, and of a text, that the head reads

Flags: TypeAlias = npt.NDArray[np.bool_]
Pair: TypeAlias = tuple[FloatArray, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class DeepHead:
    """Predicts whether a text answers a question, and reads both together. Threads may share one instance."""

    network: onnxruntime.InferenceSession
    #: Weights of the log-odds of the entailment head and of this head, and a bias. Their weighted sum is the log-odds of
    #: an :class:`semclass.EntailmentClassifier`.
    beside_entailment: tuple[float, float, float] = (0.0, 1.0, 0.0)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder, *, threads: int = 1) -> DeepHead:
        """Load the head from its folder. Raises an ArtifactError if it is damaged or was made for another encoder."""
        artifact = artifacts.load_artifact(folder, "deep", encoder=encoder.fingerprint, views=(STATES,))
        first, second, bias = map(float, artifact.field("beside_entailment"))
        return cls(open_session(artifact, "network.onnx", threads), (first, second, bias))

    def compare(self, pairs: Sequence[Pair]) -> DoubleArray:
        """Return the log-odds of n pairs, given as the network's inputs, float64 (n,)."""
        found = np.zeros(len(pairs))
        for batch in batches_by_length(np.array([len(marks) for _, marks in pairs]), BATCH):
            rows, marks = zip(*(pairs[row] for row in batch), strict=True)
            feeds = {
                "states": padded(ragged(rows, rows[0]), step=STEP),
                "marks": padded(ragged(marks, marks[0]), step=STEP, dtype=np.int64),
            }
            found[batch] = self.network.run(["logits"], feeds)[0][:, 0]
        return found


@dataclass(frozen=True)
class EntailmentLabel:
    """Whether a sentence answers a question."""

    question: str
    sentence: str
    label: str  #: ``"entailment"`` or ``"not_entailment"``
    probability: float  #: P(sentence answers question), in [0, 1]


@dataclass(frozen=True)
class EntailmentClassifier:
    """Predicts whether a sentence answers a question. Threads may share one instance."""

    encoder: Encoder  # has the views above
    head: onnxruntime.InferenceSession
    idf: FloatArray  # inverse document frequency of each word piece in general text; 0 for no terms
    threshold: float  #: probability from which the label is ``"entailment"``
    generic: Head | None = None  # tells questions that name nothing of their own
    joint: DeepHead | None = None  # reads both texts together
    classes: ClassVar[tuple[str, str]] = CLASSES  #: ``("not_entailment", "entailment")``, in column order

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1, deep: bool = True
    ) -> EntailmentClassifier:
        """Load the classifier. See :meth:`semclass.QuestionClassifier.load`; `threads` applies to each network.

        Without `deep`, it loads only the head that reads each text by itself.
        """
        root, used = open_models(models, encoder, threads)
        deep = deep and (root / "deep").exists()
        joint = DeepHead.load(root / "deep", used, threads=threads) if deep else None
        artifact = artifacts.load_artifact(root / "entailment", "entailment", encoder=used.fingerprint)
        idf, threshold = artifact.array("idf.npy", used.is_term.shape), float(artifact.field("threshold"))
        head, generic = open_session(artifact, "head.onnx", threads), load_generic(root, used.fingerprint)
        return cls(used, head, idf, threshold, generic, joint)

    def classify(self, pairs: Iterable[tuple[str, str]]) -> list[EntailmentLabel]:
        """Classify pairs of a question and a sentence.

        Raises an InputError or InputTypeError if an item is not a pair of non-empty texts.
        """
        items = check_pairs(pairs)
        return [
            EntailmentLabel(question, sentence, self.classes[probability >= self.threshold], probability)
            for (question, sentence), probability in zip(items, self.predict_proba(items)[:, 1].tolist(), strict=True)
        ]

    def predict(self, pairs: Iterable[tuple[str, str]]) -> list[str]:
        """Return one of `classes` for each pair. See :meth:`classify` for arguments and errors."""
        return [found.label for found in self.classify(pairs)]

    def predict_proba(self, pairs: Iterable[tuple[str, str]]) -> DoubleArray:
        """Return class probabilities, float64 of shape (n, 2), with columns as in `classes`. See :meth:`classify`.

        P(entailment) is 0 if a text has no word piece, for example if it holds only control characters.
        """
        items = check_pairs(pairs)
        asked = check_texts([question for question, _ in items], "questions")
        given = check_texts([sentence for _, sentence in items], "sentences")
        found = np.zeros(len(asked))
        for start in range(0, len(asked), CHUNK):
            part = slice(start, start + CHUNK)
            first, rows = _distinct([each.text for each in query_focus(self.encoder, asked[part], self.generic)])
            second, places = _distinct(given[part])
            found[part] = self._compared(first, rows, second, places)
        return np.column_stack([1 - found, found])

    def _compared(self, first: list[str], rows: IntArray, second: list[str], places: IntArray) -> DoubleArray:
        """P(sentence answers question) of pairs, given as `rows` of questions and `places` of sentences."""
        together = self.joint is not None
        question, asked = _encode(self.encoder, first, QUESTION_VIEWS, together)
        sentence, given = _encode(for_passages(self.encoder), second, SENTENCE_VIEWS, together)
        apart = self.compare(question, sentence, rows, places)
        if self.joint is None:
            return apart
        terms = self.encoder.is_term
        pairs = [pair_of(asked, row, given, [place], terms) for row, place in zip(rows, places, strict=True)]
        return combined(apart, self.joint.compare(pairs), self.joint.beside_entailment)

    def compare(self, question: Encoding, sentence: Encoding, rows: IntArray, places: IntArray) -> DoubleArray:
        """Return P(sentence answers question) of pairs, given as `rows` of `question` and `places` of `sentence`."""
        words, pieces = question.pieces_read(), sentence.pieces_read()
        tokens, others = question.pieces("tokens"), sentence.pieces("tokens")
        expects = question.rows("expects")[:, : EXPECTED * tokens.values.shape[1]]
        found = np.zeros(len(rows))
        for batch in steps(batches_by_length(pieces.lengths()[places], BATCH)):
            asked, given = rows[batch], places[batch]
            texts = words.take(asked), pieces.take(given)
            left, right = (padded(ids, fill=-1, shortest=1, dtype=np.int64) for ids in texts)
            rarity = np.where(left >= 0, self.idf[left], 0)
            feeds = {
                "question": padded(tokens.take(asked), shortest=1),
                "weights": padded(question.pieces("weights").take(asked), shortest=1)[..., 0],
                "expects": expects[asked],
                "sentence": padded(others.take(given), shortest=1),
                "exact": ((left[:, :, None] == right[:, None, :]) & (rarity > 0)[:, :, None]).astype(np.float32),
                "idf": rarity.astype(np.float32),
            }
            found[batch] = self.head.run(["probabilities"], feeds)[0][:, 0]
        read = (words.lengths() > 0)[rows] & (pieces.lengths() > 0)[places]
        return np.where(read, found, 0.0)


def combined(apart: DoubleArray, together: DoubleArray, weights: tuple[float, float, float]) -> DoubleArray:
    """Combine the probabilities of n pairs read apart with the log-odds of the pairs read together. 0 stays 0."""
    odds = weights[0] * log_odds(apart, MIN_PROBABILITY) + weights[1] * together + weights[2]
    return np.where(apart > 0, 1 / (1 + np.exp(-odds)), 0.0)


def _encode(encoder: Encoder, texts: Sequence[str], views: Sequence[str], states: bool) -> tuple[Encoding, Encoding]:
    """Views of texts, with a warning where one is longer than the encoder reads; and with `states`, the states of each."""
    found = first = encoder.encode(texts, views=(*views, STATES) if states else views)
    if states and first.truncated:  # states are those of the first window, views of all
        found = encoder.encode(texts, views=views)
    warn_truncated(found.truncated, len(texts), found)
    return found, first


def check_pairs(pairs: object) -> list[tuple[str, str]]:
    """Copy pairs into a list, and refuse items that are not pairs. Texts are checked later."""
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


# -- texts that are read together -----------------------------------------------------------------------------------


def pair_of(asked: Encoding, question: int, given: Encoding, sentences: Sequence[int], is_term: Flags) -> Pair:
    """Return states and marks of a question and of sentences without first tokens, at most `MAX_PIECES` of each."""
    states = given.pieces(STATES)
    rows = [asked.pieces(STATES).row(question), *(states.row(row)[1:] for row in sentences)]
    # special tokens are no terms: 0 stands for them, as for padding
    ids = [np.append(0, asked.terms.row(question)), *(given.terms.row(row) for row in sentences)]
    within = [np.append(part[: len(row) - 1], 0) for part, row in zip(ids, rows, strict=True)]
    # of a long question, what is asked stands at the end
    marks = marks_of(within[0][-MAX_PIECES:], np.concatenate(within[1:])[:MAX_PIECES], is_term)
    return np.concatenate([rows[0][-MAX_PIECES:], np.concatenate(rows[1:])[:MAX_PIECES]]), marks


def marks_of(asked: npt.NDArray[Any], given: npt.NDArray[Any], is_term: Flags) -> npt.NDArray[np.int64]:
    """Return the marks of word pieces by their ids: 0 for a question, 2 for a passage; 1 and 3 for terms in both texts."""
    same = np.isin(asked, given) & is_term[asked], np.isin(given, asked) & is_term[given]
    return np.concatenate([same[0], same[1] + np.int64(2)])
