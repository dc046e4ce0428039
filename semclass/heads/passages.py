"""Passage classes: the types of answer that a passage provides. A passage may provide several types, or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from semclass.core.checks import check_texts
from semclass.core.types import ClassName, DoubleArray, Encoder, Label
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.excerpts import encode_passages
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.head import Head, encoder_views, labelled, run_head


@dataclass(frozen=True)
class PassageClassifier:
    """Classifies passages by the types of answer they provide, if the models have passage heads.

    Threads may share one instance.
    """

    encoder: Encoder
    head: Head | None  # sigmoid

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> PassageClassifier:
        """Load the classifier. See :meth:`semclass.QuestionClassifier.load` for the parameters."""
        root, used = open_models(models, encoder, threads)
        return cls(used, Head.load(root / "passages", encoder=used.fingerprint))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in column order."""
        return self.head.classes if self.head else ()

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views of an encoding that this classifier needs."""
        return encoder_views(self.head)

    @property
    def thresholds(self) -> DoubleArray:
        """Probability from which a passage has a class, float64 of shape (n_classes,)."""
        return np.array(self.head.thresholds if self.head else ())

    def classify(self, passages: Iterable[str]) -> list[Label]:
        """Classify non-empty passages.

        Raises an InputError or InputTypeError, as the methods below, if a passage is empty or not a string.
        """
        texts = check_texts(passages, "passages")
        probabilities = self.predict_proba(texts)
        return labelled(texts, self.classes, probabilities, probabilities >= self.thresholds)

    def predict(self, passages: Iterable[str]) -> list[tuple[ClassName, ...]]:
        """Return the labels of each passage. There may be none or several."""
        return [found.labels for found in self.classify(passages)]

    def predict_proba(self, passages: Iterable[str]) -> DoubleArray:
        """Return class probabilities, float64 of shape (n, n_classes), each in [0, 1]."""
        texts, job = check_texts(passages, "passages"), partial(run_head, self.head)
        return classify_in_chunks(self.encoder, texts, self.encoder_views, job, read=encode_passages)
