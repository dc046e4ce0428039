"""Predicts whether documents may answer a text, or whether it is chit-chat, a command, a statement or a fragment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from semclass.core.checks import check_probability, check_texts
from semclass.core.types import DoubleArray, Encoder, Label
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.classifier import encoder_views, labelled, run_head
from semclass.heads.head import Head

IN_SCOPE = "in scope"
"""The head's only class; its folder is ``in_scope``."""

CLASSES = ("out of scope", IN_SCOPE)


@dataclass(frozen=True)
class ScopeClassifier:
    """Predicts whether documents may answer a text. Threads may share one instance.

    Questions, keywords, requests such as "show me ...", titles, and claims to check are in scope. Chit-chat, commands,
    statements and fragments are out of scope.
    """

    encoder: Encoder
    head: Head
    classes: ClassVar[tuple[str, str]] = CLASSES  #: ``("out of scope", "in scope")``, in column order

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> ScopeClassifier:
        """Load the classifier. See :meth:`semclass.QuestionClassifier.load` for the parameters."""
        root, used = open_models(models, encoder, threads)
        return cls(used, Head.load(root / "in_scope", encoder=used.fingerprint))

    @property
    def threshold(self) -> float:
        """Probability from which a text is in scope."""
        return self.head.thresholds[0]

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views of an encoding that this classifier needs."""
        return encoder_views(self.head)

    def classify(self, texts: Iterable[str], *, threshold: float | None = None) -> list[Label]:
        """Classify non-empty texts as in scope, from `threshold` on (by default that of the head), or as out of scope.

        Raises an InputError or InputTypeError if a text is empty or not a string, or the threshold is not in [0, 1].
        """
        least = check_probability(self.threshold if threshold is None else threshold, "threshold")
        checked = check_texts(texts)
        probabilities = self.predict_proba(checked)
        inside = probabilities[:, 1] >= least
        return labelled(checked, self.classes, probabilities, np.column_stack([~inside, inside]))

    def predict(self, texts: Iterable[str], *, threshold: float | None = None) -> list[str]:
        """Return one of `classes` for each text. See :meth:`classify` for arguments and errors."""
        return [str(found.label) for found in self.classify(texts, threshold=threshold)]

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """Return class probabilities, float64 of shape (n, 2), with columns as in `classes`."""
        inside = classify_in_chunks(self.encoder, check_texts(texts), self.encoder_views, partial(run_head, self.head))
        return np.hstack([1 - inside, inside])
