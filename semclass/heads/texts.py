"""Your own taxonomy at run time: a head that :class:`semclass.TextClassifier` saved, without any training library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_probability, check_texts
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import DoubleArray, Encoder
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.encoders.sentence_transformers import SentenceTransformerEncoder
from semclass.heads.head import Head
from semclass.heads.inputs import classify, encoder_views, labelled

Label: TypeAlias = str | int

HUB = "hub:"
"""What the name of a sentence-transformers model begins with, where an encoder is named."""


@dataclass(frozen=True)
class TextLabels:
    """The classes of one text.

    Attributes
    ----------
    labels
        Its classes: one, or none where the model abstains; several where a text may have several labels.
    probabilities
        All classes with their calibrated probabilities.
    """

    text: str
    labels: tuple[Label, ...]
    probabilities: Mapping[Label, float]

    @property
    def label(self) -> Label:
        """The most probable of `labels`; ``semclass.ABSTAIN`` where there is none."""
        return max(self.labels, key=self.probabilities.__getitem__) if self.labels else ABSTAIN

    @property
    def probability(self) -> float:
        """Calibrated probability of the most probable class, whether it is among `labels` or not."""
        return max(self.probabilities.values())


@dataclass(frozen=True)
class TextModel:
    """An encoder and a head that was trained on labels of one's own; many threads may share one.

    Attributes
    ----------
    classes
        The labels as they were trained on, strings or integers, in column order.
    thresholds
        Of a sigmoid head: probability from which a text has a class, float64 of shape (n_classes,). None for softmax.
    min_probability
        Below this probability the model abstains.
    """

    encoder: Encoder
    head: Head
    classes: tuple[Label, ...]
    thresholds: DoubleArray | None
    min_probability: float

    @classmethod
    def load(cls, folder: str | Path, *, encoder: Encoder | str | Path | None = None, threads: int = 1) -> TextModel:
        """Load what :meth:`semclass.TextClassifier.save` wrote.

        Parameters
        ----------
        folder
            Its folder.
        encoder
            The encoder that it was trained with: one that is loaded already, the folder of an exported one,
            ``"hub:NAME"`` or ``"hub:FOLDER"`` for a sentence-transformers model; the shipped one if None.
        threads
            Threads of an encoder that is loaded here.

        Raises
        ------
        ArtifactError
            If the folder is damaged.
        EncoderMismatchError
            If it was trained with another encoder.
        """
        used = open_encoder(encoder, threads)
        head = Head.load(folder, encoder=used.fingerprint)
        manifest = head.artifact.manifest
        thresholds = np.array(head.thresholds) if head.artifact.field("link") == "sigmoid" else None
        classes = tuple(manifest.get("labels", head.classes))
        return cls(used, head, classes, thresholds, float(manifest.get("min_probability", 0.0)))

    def predict(self, texts: Iterable[str], *, min_probability: float | None = None) -> list[TextLabels]:
        """Classify texts.

        Parameters
        ----------
        texts
            Non-empty texts; a generator is fine, one string is refused.
        min_probability
            Abstain below this probability; what the model was saved with if None.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the probability is not one.
        """
        least = (
            self.min_probability if min_probability is None else check_probability(min_probability, "min_probability")
        )
        checked = check_texts(texts)
        probabilities = self.predict_proba(checked)
        chosen = decide(probabilities, self.thresholds, least)
        return [TextLabels(*row) for row in labelled(checked, self.classes, probabilities, chosen)]

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """Class probabilities, float64 of shape (n, n_classes); rows sum to 1 where a text has one class."""
        views, job = encoder_views(self.head), partial(classify, self.head)
        return classify_in_chunks(self.encoder, check_texts(texts), views, job)


def open_encoder(encoder: Encoder | str | Path | None, threads: int = 1) -> Encoder:
    """Load an encoder by its name, as :meth:`semclass.TextModel.load` takes it; one that is loaded is given back."""
    if isinstance(encoder, str) and encoder.startswith(HUB):
        return SentenceTransformerEncoder.load(encoder.removeprefix(HUB))
    if encoder is None or isinstance(encoder, (str, Path)):
        return OnnxEncoder.load(encoder, threads=threads)
    return encoder


def decide(probabilities: DoubleArray, thresholds: DoubleArray | None, min_probability: float) -> npt.NDArray[np.bool_]:
    """Choose classes, bool (n, n_classes): those that reach their threshold, or, for None, the most probable one."""
    sure: npt.NDArray[np.bool_] = probabilities >= min_probability
    if thresholds is not None:
        return sure & (probabilities >= thresholds)
    best: npt.NDArray[np.bool_] = np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None]
    return sure & best
