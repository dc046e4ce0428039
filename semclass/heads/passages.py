"""Passage classes: which types of answer does a passage provide? One yes or no for each, so there may be several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core.checks import check_texts
from semclass.core.types import DoubleArray, Encoder, Encoding, PassageLabels
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.classify import classify, labelled
from semclass.heads.head import Head
from semclass.heads.inputs import encoder_views


@dataclass(frozen=True)
class PassageClassifier:
    """An encoder and a one-vs-all head; many threads may share one.

    Attributes
    ----------
    encoder
        Makes the views.
    head
        A sigmoid head with a column for each class; None where no classes are known, as with an encoder that none were
        trained for.
    """

    encoder: Encoder
    head: Head | None

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> PassageClassifier:
        """Load the classifier.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None.
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of the encoder that is loaded here.

        Returns
        -------
        PassageClassifier
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or the head was trained for another encoder.
        """
        root, used = open_models(models, encoder, threads)
        return cls(used, Head.load(root / "passages", encoder=used.fingerprint))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in column order."""
        return self.head.classes if self.head else ()

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views that this classifier needs of an encoding."""
        return encoder_views([self.head] if self.head else [])

    @property
    def thresholds(self) -> DoubleArray:
        """Probability from which a passage has a class, float64 of shape (n_classes,)."""
        return np.array(self.head.thresholds if self.head else ())

    def predict(self, passages: Iterable[str]) -> list[PassageLabels]:
        """Classify passages.

        Parameters
        ----------
        passages
            n non-empty texts; a generator is fine, one string is refused.

        Returns
        -------
        list of PassageLabels
            In the order of `passages`; empty for none.

        Raises
        ------
        InputError, InputTypeError
            If one is empty or not a string.
        """
        texts = check_texts(passages, "passages")
        probabilities = self.predict_proba(texts)
        rows = labelled(texts, self.classes, probabilities, probabilities >= self.thresholds)
        return [PassageLabels(*row) for row in rows]

    def predict_proba(self, passages: Iterable[str]) -> DoubleArray:
        """Class probabilities of passages.

        Parameters
        ----------
        passages
            n non-empty texts.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes), columns in the order of `classes`, each in [0, 1].

        Raises
        ------
        InputError, InputTypeError
            If one is empty or not a string.
        """
        texts = check_texts(passages, "passages")
        return classify_in_chunks(self.encoder, texts, self.encoder_views, self.probabilities)

    def probabilities(self, passages: list[str], encoding: Encoding) -> DoubleArray:
        """Class probabilities of passages that are encoded already.

        Parameters
        ----------
        passages
            n texts.
        encoding
            Theirs, with the views that `encoder_views` names.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes).
        """
        return classify(self.head, passages, encoding)
