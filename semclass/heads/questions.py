"""Question classes: the type of answer that a question asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from semclass.core.checks import check_choice, check_probability, check_texts
from semclass.core.errors import InputError
from semclass.core.types import ABSTAIN, DoubleArray, Encoder, Encoding, QuestionLabel, coarse_of
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.head import Head, encoder_views, run_head
from semclass.heads.query_focus import questions_of
from semclass.heads.spelling import WORD_LIST, Speller, with_mark


@dataclass(frozen=True)
class QuestionClassifier:
    """Classifies questions by the type of answer they ask for. Threads may share one instance.

    ``"NUM:date"`` is a fine class of the coarse class ``"NUM"``. The probability of a coarse class is the sum over its
    fine classes. The fine label is the best fine class of the coarse label, so the two never contradict each other.

    Without a head there are no classes, but you can still encode questions and search for them.
    """

    encoder: Encoder
    head: Head | None  # softmax, one column for each fine class

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> QuestionClassifier:
        """Load the classifier.

        Raises an ArtifactError if a model folder is missing or damaged, or the head was trained for another encoder.

        Parameters
        ----------
        models
            Folder with the layout of the shipped ``models/``. Defaults to the shipped models.
        encoder
            A loaded encoder to share. Defaults to the encoder in `models`.
        threads
            Threads of an encoder that is loaded here.
        """
        root, used = open_models(models, encoder, threads)
        return cls(used, Head.load(root / "questions", encoder=used.fingerprint))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the coarse classes, in column order."""
        return tuple(sorted({coarse_of(fine) for fine in self.fine_classes}))

    @property
    def fine_classes(self) -> tuple[str, ...]:
        """Names of the fine classes, in column order."""
        return self.head.classes if self.head else ()

    @property
    def encoder_views(self) -> tuple[str, ...]:
        """The views of an encoding that this classifier needs."""
        return encoder_views(self.head)

    def classify(self, questions: Iterable[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """Classify questions.

        Raises an InputError or InputTypeError if a question is empty or not a string, `min_probability` is not in [0,
        1], or there is no head.

        Parameters
        ----------
        questions
            Non-empty texts, also from a generator, but not a single string.
        min_probability
            In [0, 1]. If the best coarse class is less probable, the label is ``semclass.ABSTAIN``. Probabilities are
            calibrated: of the labels with 0.8 or more, about 80 % or more are right.
        """
        texts = check_texts(questions, "questions")
        least = check_probability(min_probability, "min_probability")
        asked = questions_of(texts)
        fine = self._classify(asked)
        coarse = self.coarse(fine)
        best = coarse.argmax(axis=1)
        within = np.where(self._membership.T[best] > 0, fine, -1.0).argmax(axis=1)
        rows = zip(texts, asked, best.tolist(), within.tolist(), coarse.tolist(), fine.tolist(), strict=True)
        return [
            QuestionLabel(
                text=text,
                label=self.classes[above] if broad[above] >= least else ABSTAIN,
                probability=broad[above],
                fine=self.fine_classes[below] if broad[above] >= least else ABSTAIN,
                fine_probability=narrow[below],
                probabilities=dict(zip(self.classes, broad, strict=True)),
                fine_probabilities=dict(zip(self.fine_classes, narrow, strict=True)),
                asked=None if question == text else question,
            )
            for text, question, above, below, broad, narrow in rows
        ]

    def predict(self, questions: Iterable[str], *, min_probability: float = 0.0) -> list[str]:
        """Return the coarse label of each question. See :meth:`classify`."""
        return [found.label for found in self.classify(questions, min_probability=min_probability)]

    def predict_proba(self, questions: Iterable[str], *, level: str = "coarse") -> DoubleArray:
        """Return class probabilities, float64 of shape (n, n_classes). Rows sum to 1. See :meth:`classify`.

        Columns have the order of `classes`, or of `fine_classes` if the level is ``"fine"``.
        """
        check_choice(level, ("coarse", "fine"), "level")
        texts = check_texts(questions, "questions")
        fine = self._classify(questions_of(texts))
        return fine if level == "fine" else self.coarse(fine)

    def coarse(self, fine: DoubleArray) -> DoubleArray:
        """Sum fine class probabilities to coarse class probabilities, float64 of shape (n, coarse classes)."""
        return np.asarray(fine @ self._membership)

    def fine_probabilities(self, questions: list[str], texts: list[str], encoding: Encoding) -> DoubleArray:
        """Return fine class probabilities of questions, from an encoding of `texts` with the views `encoder_views`.

        A question is encoded again if it differs from its text, has misspelt words, or lacks a question mark, because
        the head reads the corrected question. Without a head, the result has no columns.
        """
        meant = questions if self.head is None else self._spelt(questions)
        changed = [row for row, (text, said) in enumerate(zip(meant, texts, strict=True)) if text != said]
        if not changed:
            return run_head(self.head, texts, encoding)
        corrected = [meant[row] for row in changed]
        found = run_head(self.head, corrected, self.encoder.encode(corrected, views=self.encoder_views))
        if len(changed) == len(questions):
            return found
        everything = run_head(self.head, texts, encoding)
        everything[changed] = found
        return everything

    @cached_property
    def speller(self) -> Speller | None:
        """Corrects misspelt words as in the training of the head. None if the head reads uncorrected texts."""
        artifact = self._trained.artifact
        if WORD_LIST not in artifact.manifest["files"]:
            return None
        return Speller.of_words(artifact.read(WORD_LIST).decode("utf-8").splitlines())

    def _spelt(self, texts: list[str]) -> list[str]:
        """Texts as the head reads them."""
        speller = self.speller
        return texts if speller is None else [with_mark(speller(text)) for text in texts]

    def _classify(self, texts: list[str]) -> DoubleArray:
        """Fine class probabilities of texts, corrected before they are encoded."""
        job = partial(run_head, self._trained)
        return classify_in_chunks(self.encoder, self._spelt(texts), self.encoder_views, job)

    @property
    def _trained(self) -> Head:
        """The head, which must be there."""
        if self.head is None:
            raise InputError("these models have no question head for this encoder; train one to classify questions")
        return self.head

    @cached_property
    def _membership(self) -> DoubleArray:
        """Which fine class belongs to which coarse class, 0 or 1, float64 of shape (fine classes, coarse classes)."""
        rows = [[coarse_of(fine) == name for name in self.classes] for fine in self.fine_classes]
        return np.array(rows, np.float64).reshape(len(self.fine_classes), len(self.classes))
