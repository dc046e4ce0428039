"""Question classes: the type of answer that a question asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from semclass.bulk import classify_in_chunks
from semclass.encoder import open_models
from semclass.heads import Head
from semclass.taxonomy import COARSE, coarse_of
from semclass.types import DoubleArray, Encoder, Encoding, QuestionLabel
from semclass.validation import check_choice, check_texts
from semclass.views import STATES, encoder_views, gather

LEVELS = ("coarse", "fine")

BATCH = 32
"""Texts per run of a head that reads word-piece states."""


@dataclass(frozen=True)
class QuestionClassifier:
    """An encoder and a question head; many threads may share one.

    Attributes
    ----------
    encoder
        Makes the views.
    head
        A softmax head over them.
    classes
        Names of the classes, in column order: the head's, or the coarse ones that they belong to, whose probabilities
        are then sums, so that coarse and fine answers always agree.
    """

    encoder: Encoder
    head: Head
    classes: tuple[str, ...]

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        level: str = "coarse",
        encoder: Encoder | None = None,
        threads: int = 1,
    ) -> QuestionClassifier:
        """Load the classifier.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None.
        level
            ``"coarse"`` (6 classes) or ``"fine"`` (50).
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of the encoder that is loaded here.

        Returns
        -------
        QuestionClassifier
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or the head was trained for another encoder.
        """
        check_choice(level, LEVELS, "level")
        root, used = open_models(models, encoder, threads)
        folder = root / "questions" / level
        # one network for the fine classes can serve both levels
        head = Head.load(folder if folder.is_dir() else root / "questions" / "fine", encoder=used.fingerprint)
        return cls(used, head, COARSE if level == "coarse" else head.classes)

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views that this classifier needs of an encoding."""
        return encoder_views([self.head])

    def predict(self, questions: Iterable[str]) -> list[QuestionLabel]:
        """Classify questions.

        Parameters
        ----------
        questions
            n non-empty texts; a generator is fine, one string is refused.

        Returns
        -------
        list of QuestionLabel
            In the order of `questions`; empty for none.

        Raises
        ------
        InputError, InputTypeError
            If one is empty or not a string.
        """
        texts = check_texts(questions, "questions")
        labels = []
        for text, row in zip(texts, self.predict_proba(texts).tolist(), strict=True):
            best = max(range(len(row)), key=row.__getitem__)
            labels.append(QuestionLabel(text, self.classes[best], row[best], dict(zip(self.classes, row, strict=True))))
        return labels

    def predict_proba(self, questions: Iterable[str]) -> DoubleArray:
        """Class probabilities of questions.

        Parameters
        ----------
        questions
            n non-empty texts.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes), columns in the order of `classes`, rows sum to 1.

        Raises
        ------
        InputError, InputTypeError
            If one is empty or not a string.
        """
        texts = check_texts(questions, "questions")
        return classify_in_chunks(self.encoder, texts, self.encoder_views, self.probabilities)

    def probabilities(self, questions: list[str], encoding: Encoding) -> DoubleArray:
        """Class probabilities of questions that are encoded already.

        Parameters
        ----------
        questions
            n texts.
        encoding
            Theirs, with the views that `encoder_views` names.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes).
        """
        found = _in_batches(self.head, questions, encoding)
        if self.classes == self.head.classes:
            return found
        return np.asarray(found @ self._membership)

    @cached_property
    def _membership(self) -> DoubleArray:
        """Which of the head's classes belongs to which class, 0 or 1, float64 of shape (head's classes, classes)."""
        return np.array([[coarse_of(fine) == name for name in self.classes] for fine in self.head.classes], np.float64)


def _in_batches(head: Head, texts: list[str], encoding: Encoding) -> DoubleArray:
    """Run a head; one that reads word-piece states gets texts of like length together, as padding costs time."""
    if not texts:
        return np.zeros((0, len(head.classes)))
    if STATES not in head.inputs or len(texts) <= BATCH:
        return head.probabilities(gather([head], texts, encoding))
    found = np.zeros((len(texts), len(head.classes)))
    order = np.argsort(encoding.pieces(STATES).lengths(), kind="stable")
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        part = Encoding(terms=encoding.terms.take(batch), states=encoding.pieces(STATES).take(batch))
        found[batch] = head.probabilities(gather([head], [texts[row] for row in batch.tolist()], part))
    return found
