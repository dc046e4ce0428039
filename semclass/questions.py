"""Question classes: the type of answer that a question asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from semclass import artifacts
from semclass.encoder import OnnxEncoder
from semclass.heads import Head
from semclass.types import DoubleArray, Encoder, Encoding, QuestionLabel
from semclass.validation import check_choice, check_texts
from semclass.views import encoder_views, gather

LEVELS = ("coarse", "fine")


@dataclass(frozen=True)
class QuestionClassifier:
    """An encoder and a question head; many threads may share one.

    Attributes
    ----------
    encoder
        Makes the views.
    head
        A softmax head over them.
    """

    encoder: Encoder
    head: Head

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
        root = artifacts.default_models() if models is None else Path(models)
        used = OnnxEncoder.load(root / "encoder", threads=threads) if encoder is None else encoder
        return cls(used, Head.load(root / "questions" / level, encoder=used.fingerprint))

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in column order."""
        return self.head.classes

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
        return self.probabilities(texts, self.encoder.encode(texts, views=self.encoder_views))

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
        return self.head.probabilities(gather([self.head], questions, encoding))
