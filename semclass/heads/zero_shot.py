"""Classifies texts by names and descriptions of classes, without examples.

A class has three texts: its name, its description, and both together. A text's score for the class is the mean cosine
with these three texts, plus `ENTAILMENT` times the entailment head's log-probability that the description answers the
text. A softmax turns scores into probabilities. Nothing is trained on the classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.checks import check_probability, check_text, check_texts, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import ClassName, DoubleArray, Encoder, Encoding, FloatArray, Label
from semclass.documents.decoding import read_text
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import for_passages, open_encoder
from semclass.heads.entailment import QUESTION_VIEWS, SENTENCE_VIEWS, EntailmentClassifier
from semclass.heads.head import decide, labelled, softmax
from semclass.scoring.vectors import unit

ENTAILMENT = 0.03
"""Weight of the log-probability beside the cosine. Log-odds would need another weight for each kind of classes."""

SHARPNESS = 16.0
"""Factor of the scores in the softmax, with the least mean log loss over the sets of ``docs/decisions/settled.md``.

An encoder for which any two texts have a high cosine has a factor of its own, `sharpness`.
"""

NEAREST = 10
"""Number of nearest classes that the entailment head judges. All other classes get the least probability of the judged
classes.
"""

MIN_PROBABILITY = 1e-4  # probabilities of the entailment head count as this at least


@dataclass(frozen=True)
class ZeroShotClassifier:
    """Classifies texts by descriptions of the classes in words. Threads may share one instance.

    It has the methods of :class:`semclass.TextModel`. Its probabilities are less certain than those of a trained model.
    As soon as you have examples, train a :class:`semclass.TextClassifier`.
    """

    encoder: Encoder
    classes: tuple[str, ...]  #: the labels, in column order
    vectors: FloatArray  # mean of the unit vectors of each class's texts, (n_classes, dim)
    entailment: EntailmentClassifier | None  # None for another encoder than the shipped one
    described: Encoding | None  # the descriptions, as the entailment head reads sentences

    @classmethod
    def from_descriptions(
        cls, descriptions: Mapping[str, str], *, encoder: Encoder | str | Path | None = None, threads: int = 1
    ) -> ZeroShotClassifier:
        """Make a classifier from descriptions of its classes.

        Raises an InputError or InputTypeError if there are fewer than two labels, or a label or description is not a
        text.

        Parameters
        ----------
        descriptions
            A line of description for each of at least two labels, such as ``{"refund": "A refund has not arrived."}``.
            If the line is empty, the classifier reads only the label, with ``_`` as a space.
        encoder, threads
            See :meth:`semclass.TextModel.load`. The entailment head is used only with the shipped encoder.
        """
        told = _told(descriptions)
        used = open_encoder(encoder, threads)
        vectors = np.mean(
            [unit(used.encode(list(texts)).rows("pooled")) for texts in zip(*told.values(), strict=True)], 0
        )
        entailment, sentences = None, None
        if encoder is None:
            entailment = EntailmentClassifier.load(encoder=used, threads=threads, deep=False)
            sentences = for_passages(used).encode([texts[1] for texts in told.values()], views=SENTENCE_VIEWS)
        return cls(used, tuple(told), np.asarray(vectors, np.float32), entailment, sentences)

    def classify(self, texts: Iterable[str], *, min_probability: float | None = None) -> list[Label]:
        """Classify texts. See :meth:`semclass.TextModel.classify` for arguments and errors."""
        least, checked = check_probability(min_probability or 0.0, "min_probability"), check_texts(texts)
        probabilities = self.predict_proba(checked)
        return labelled(checked, self.classes, probabilities, decide(probabilities, least, multi_label=False))

    def predict(self, texts: Iterable[str], *, min_probability: float | None = None) -> list[ClassName]:
        """Return the label of each text. See :meth:`semclass.TextModel.classify` for arguments and errors."""
        return [found.label for found in self.classify(texts, min_probability=min_probability)]

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """Return class probabilities, float64 of shape (n, n_classes). Rows sum to 1."""
        views = ("pooled", *(QUESTION_VIEWS if self.entailment else ()))
        sharpness = getattr(self.encoder, "sharpness", 0.0) or SHARPNESS
        return classify_in_chunks(
            self.encoder, check_texts(texts), views, lambda _, encoding: softmax(sharpness * self.scores(encoding))
        )

    def scores(self, encoding: Encoding) -> DoubleArray:
        """Return scores of encoded texts before sharpness and softmax, float64 of shape (n, n_classes)."""
        cosines = np.asarray(unit(encoding.rows("pooled")) @ self.vectors.T, np.float64)
        n, count = cosines.shape
        if self.entailment is None or self.described is None or not n:
            return cosines
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAREST]
        rows = np.repeat(np.arange(n), nearest.shape[1])
        entailed = self.entailment.compare(encoding, self.described, rows, nearest.ravel()).reshape(nearest.shape)
        near = np.log(np.maximum(entailed, MIN_PROBABILITY))
        logs = np.repeat(near.min(axis=1, keepdims=True), count, axis=1)
        np.put_along_axis(logs, nearest, near, axis=1)
        return cosines + ENTAILMENT * logs


def read_descriptions(path: str | Path) -> dict[str, str]:
    """Read labels from a JSON file, which holds an object of descriptions by label, or a list of labels.

    Raises an InputError if the file has another form.
    """
    path = Path(path)
    try:
        found: Any = json.loads(read_text(path, None))
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}; write JSON, such as a list of labels") from error
    if isinstance(found, list):
        if len(set(map(str, found))) < len(found):
            raise InputError(f"{path} holds a label twice; labels must be unique")
        found = dict.fromkeys(found, "")
    if not isinstance(found, dict) or not found:
        raise InputError(
            f"{path} must hold a list of labels, or a mapping of labels to descriptions, not {short(found)}"
        )
    for name, told in found.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(told, str | None):
            raise InputError(f"{path}: a label and its description must be strings, not {short(name)}: {short(told)}")
    return {name.strip(): (told or "").strip() for name, told in found.items()}


def _told(descriptions: object) -> dict[str, tuple[str, str, str]]:
    """By label, the three texts that tell a class: its name, its description, and both."""
    if not isinstance(descriptions, Mapping):
        raise InputTypeError(f"descriptions must be a mapping of labels to texts, not {short(descriptions)}")
    if len(descriptions) < 2:
        raise InputError(f"there are {len(descriptions)} descriptions; give at least two labels")
    told = {}
    for label, text in descriptions.items():
        name = check_text(label, "a label").replace("_", " ").strip()
        if not isinstance(text, str):
            raise InputTypeError(f"the description of {label!r} must be a text, not {short(text)}")
        said = text.strip() or name
        told[label] = (name, said, f"{name}: {said}" if said != name else name)
    return told
