"""Whether a text asks something that documents may answer, or is chit-chat, a command, a statement, a fragment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core.checks import check_texts
from semclass.core.types import DoubleArray, Encoder, Encoding
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.head import Head
from semclass.heads.inputs import classify, encoder_views

IN_SCOPE = "in scope"
"""The head's only class; its folder is ``in_scope``."""


@dataclass(frozen=True)
class ScopeClassifier:
    """Tells what a corpus can be asked from all else; many threads may share one.

    In scope are questions, keywords, requests such as "show me ...", titles, and claims to check.
    """

    encoder: Encoder
    head: Head

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> ScopeClassifier:
        """As for :meth:`semclass.QuestionClassifier.load`."""
        root, used = open_models(models, encoder, threads)
        return cls(used, Head.load(root / "in_scope", encoder=used.fingerprint))

    @property
    def threshold(self) -> float:
        """Probability from which a text is in scope."""
        return self.head.thresholds[0]

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views that this classifier needs of an encoding."""
        return encoder_views(self.head)

    def predict(self, texts: Iterable[str], *, threshold: float | None = None) -> list[bool]:
        """Tell of each text whether it is in scope, by `threshold` or, if None, the head's own.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string.
        """
        found: list[bool] = (self.predict_proba(texts) >= (self.threshold if threshold is None else threshold)).tolist()
        return found

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """P(text is in scope), float64 of shape (n,); errors as for :meth:`predict`."""
        return classify_in_chunks(self.encoder, check_texts(texts), self.encoder_views, self.of_encoded)[:, 0]

    def of_encoded(self, texts: list[str], encoding: Encoding) -> DoubleArray:
        """As :meth:`predict_proba`, of shape (n, 1), of texts that are encoded already."""
        return np.asarray(classify(self.head, texts, encoding))
