"""Train classifiers of texts on labels of your own, with scikit-learn's interface (extra ``train``)."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from semclass.core import artifacts
from semclass.core.checks import check_positive, check_probability, check_texts
from semclass.core.errors import InputError
from semclass.core.types import ABSTAIN, ClassName, DoubleArray, Encoder, FloatArray, IntArray, Label
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.encoders.onnx_encoder import open_encoder
from semclass.heads.head import SURFACE, decide, labelled
from semclass.heads.surface import surface_features
from semclass.heads.texts import TextModel
from semclass.train.fit import Choice, Targets, fit_problem, problem_of
from semclass.train.fitted import FittedHead, head_probabilities, head_to_onnx
from semclass.train.report import Examples, report_of

ONE_LABEL = ({"pooled": 1.0}, {"pooled": 0.85, "layers": 0.15}, {"pooled": 0.6, "layers": 0.4}, {"layers": 1.0})
"""Views that a head may read, and their shares. ``pooled`` suits topics and intents, ``layers`` types of questions."""

SEVERAL_LABELS = ({"pooled": 1.0, "surface": 1.0, "entities": 1.0}, {"pooled": 4.0, "layers": 1.0})
"""The same, if a text may have several labels. ``surface`` and ``entities`` help to recognise passages with a name, a
number or a place."""

PHRASES = ("{}", "a question about {}", "I want to talk about {}", "help with {}")
"""Sentences around a class's name. The mean of their vectors is nearer to messages than the vector of the name."""

Say: TypeAlias = Callable[[str], object]
Progress: TypeAlias = Say | bool
Views: TypeAlias = dict[str, FloatArray]


def words_of(label: ClassName) -> str:
    """Return the words of a label, joined by spaces, or "" if the label is a number."""
    return " ".join(re.findall(r"[^\W_]+", label)) if isinstance(label, str) else ""


# -- texts ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Return the encoder for the parameter `encoder`."""
    if encoder is None or isinstance(encoder, (str, Path)):
        return _named_encoder(None if encoder is None else str(encoder))
    return encoder


def encode(texts: Sequence[str], names: Iterable[str], encoder: Encoder, say: Say) -> tuple[Views, list[int]]:
    """Encode texts. Returns their views, and the rows of texts that are longer than the encoder reads."""
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    wanted = [name for name in parts if name != SURFACE]
    cut: list[int] = []
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        encoding = encoder.encode(chunk, views=wanted)
        cut += [start + row for row in encoding.truncated]
        for name, part in parts.items():
            part.append(surface_features(chunk) if name == SURFACE else encoding.rows(name))
        say(f"encoded {start + len(chunk)} of {len(texts)} texts")
    return {name: np.concatenate(part) for name, part in parts.items()}, cut


def say_to(progress: Progress) -> Say:
    """Return a function that shows progress: the caller's, one for a terminal, or one that does nothing."""
    if callable(progress):
        return progress
    if not (progress and sys.stderr.isatty()):
        return lambda line: None
    width = shutil.get_terminal_size().columns - 1  # a longer line would wrap
    return lambda line: sys.stderr.write(f"\r{line[:width]}\x1b[K")  # the code blanks the line to its end


def names_of(classes: Sequence[ClassName], views: Sequence[str], encoder: Encoder) -> tuple[IntArray, Views] | None:
    """Encode the names of classes in `PHRASES`. Returns their places and views, or None if fewer than two are words."""
    places = [place for place, label in enumerate(classes) if words_of(label)]
    if len(places) < 2:
        return None
    texts = [phrase.format(words_of(classes[place])) for place in places for phrase in PHRASES]
    found, _ = encode(texts, views, encoder, lambda line: None)
    return np.array(places), {
        view: rows.reshape(len(places), len(PHRASES), -1).mean(axis=1) for view, rows in found.items()
    }


# -- the classifier ---------------------------------------------------------------------------------------------------


class TextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a calibrated classifier of texts on your own labels.

    The classifier is a head over the outputs of an encoder.

    :class:`semclass.TextModel` runs the saved head without scikit-learn. The classifier works in ``Pipeline``,
    ``GridSearchCV``, ``cross_val_score`` and ``clone``. The order of the training texts has no effect, and equal texts are
    never on both sides of a fold.

    Parameters
    ----------
    encoder
        None for the shipped encoder, the folder of an exported encoder, the name of an installed package of models, such
        as ``"multilingual"``, ``"hub:NAME"`` or ``"hub:FOLDER"`` for a sentence-transformers model (extra ``hub``), or any
        object with the members of :class:`semclass.Encoder`. If the classifier is pickled, as with ``n_jobs=2``, use a
        name or a folder instead of an object.
    seed
        Seed of the folds.
    multi_label
        Whether a text may have several labels or none. The classifier then decides yes or no for each label, with the
        threshold that gives the best F1 on held-out texts.
    target_precision
        Least precision of each label, such as 0.95. The classifier then gives a label only from the probability at
        which held-out texts reached this precision, and otherwise abstains: `predict` returns ``semclass.ABSTAIN``, or no
        label with `multi_label`. If None, precision sets no limit.
    cv
        Number of folds for the choice of settings and for calibration.
    progress
        Whether to show progress on standard error, if standard error is a terminal. You can also give a function, which
        is called with lines of text.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    label_thresholds_
        Probability from which a text gets each label, float64 of shape (n_classes,). With one label per text, the
        thresholds are zeros unless you give `target_precision`.
    out_of_fold_
        Probabilities from heads that were not trained on the text, float64 of shape (n, n_classes), in the order of the
        training texts.
    examples_
        The training texts with their vectors.
    report_
        Cross-validated figures in JSON types: ``accuracy``, ``macro_f1``, ``log_loss``, ``calibration_error``,
        ``reliability``, ``classes`` (precision, recall, F1, number of texts and threshold of each class), ``coverage``
        (the effects of `min_probability`), ``precisions`` (the effects of `target_precision`), ``confused`` (pairs of
        labels, the most frequent first), ``chosen`` and ``candidates`` (settings), and ``compared`` (the number of texts
        on which settings were compared).
    encoder_fingerprint_
        Fingerprint of the encoder that the classifier was trained with.
    """

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        multi_label: bool = False,
        target_precision: float | None = None,
        cv: int = 5,
        seed: int = 0,
        progress: Progress = False,
    ) -> None:
        self.encoder = encoder
        self.multi_label = multi_label
        self.target_precision = target_precision
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def __sklearn_clone__(self) -> TextClassifier:
        """Clones share the encoder: it cannot be copied and never changes."""
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Iterable[str], y: Any) -> TextClassifier:
        """Fit to texts and their labels.

        Raises an InputError or InputTypeError if a text is empty, lengths differ, labels are of mixed types, or there
        are fewer than two classes.

        Parameters
        ----------
        X
            n non-empty texts.
        y
            n labels, strings or integers. With `multi_label`, give n collections of labels, which may be empty.
        """
        texts = [str(text) for text in check_texts(X)]  # numpy's strings hash otherwise
        if not texts:
            raise InputError("there are no texts; give at least two classes with two examples each")
        targets = Targets.of(y, multi_label=bool(self.multi_label))
        if len(targets.rows) != len(texts):
            raise InputError(f"there are {len(texts)} texts and {len(targets.rows)} labels; give one label per text")
        if self.target_precision is not None:
            check_probability(self.target_precision, "target_precision")
            if ABSTAIN in targets.classes:
                raise InputError(f"a label is {ABSTAIN!r}, which the model returns when it abstains; rename the label")
        folds, say = check_positive(self.cv, "cv"), say_to(self.progress)
        # what comes out must not depend on the order in which texts came in, and folds do
        order = sorted(range(len(texts)), key=lambda place: (texts[place], targets.rows[place]))
        texts, targets = [texts[row] for row in order], replace(targets, rows=[targets.rows[row] for row in order])
        encoder = shared_encoder(self.encoder)
        offered = [dict(shares) for shares in (SEVERAL_LABELS if self.multi_label else ONE_LABEL)]
        offered = [shares for shares in offered if set(shares) <= {*encoder.views, "surface"}]
        names = tuple(dict.fromkeys(view for shares in offered for view in shares))
        views, cut = encode(texts, names, encoder, say)
        warn_truncated(cut, len(texts))
        problem = problem_of(views, targets)
        named = None if self.multi_label else names_of(targets.classes, names, encoder)
        if named is not None:
            problem = problem.with_names(*named)
        choices = [Choice(shares, named is not None) for shares in offered]
        groups = [" ".join(text.lower().split()) for text in texts]
        self.head_: FittedHead = fit_problem(problem, choices, groups, folds=folds, seed=self.seed, say=say)
        self.classes_: npt.NDArray[Any] = np.array(targets.classes)
        self.encoder_fingerprint_: str = encoder.fingerprint
        self.label_thresholds_, self.report_ = report_of(self.head_, targets, texts, self.target_precision)
        self.out_of_fold_: DoubleArray = np.empty((len(texts), len(targets.classes)))
        self.out_of_fold_[order] = self.head_.out_of_fold
        view = "pooled" if "pooled" in self.head_.inputs else next(iter(self.head_.inputs))
        self.examples_: Examples = Examples(texts, targets.rows, view, views[view])
        say("")
        return self

    def predict_proba(self, X: Iterable[str]) -> DoubleArray:
        """Return calibrated class probabilities, float64 of shape (n, n_classes), with columns as in `classes_`.

        Rows sum to 1 unless `multi_label` is true. This method and the methods below raise an InputError or InputTypeError
        if a text is empty or not a string, or the classifier was trained with another encoder.
        """
        check_is_fitted(self)
        texts = check_texts(X)
        encoder = shared_encoder(self.encoder)
        if encoder.fingerprint != self.encoder_fingerprint_:
            raise InputError("the encoder changed after fitting; call fit again")
        if not texts:
            return np.zeros((0, len(self.classes_)))
        views, cut = encode(texts, self.head_.inputs, encoder, lambda line: None)
        warn_truncated(cut, len(texts))
        return head_probabilities(self.head_, views)

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The sorted labels, under the same name as in :class:`semclass.TextModel`."""
        check_is_fitted(self)
        return tuple(self.classes_.tolist())

    def classify(self, X: Iterable[str]) -> list[Label]:
        """Return the labels of texts with all probabilities."""
        texts = check_texts(X)
        probabilities = self.predict_proba(texts)
        chosen = decide(probabilities, self.label_thresholds_, multi_label=self.multi_label)
        return labelled(texts, self.classes, probabilities, chosen)

    def predict(self, X: Iterable[str]) -> Any:
        """Return the labels of texts in an array of shape (n,).

        The array holds Python objects if the classifier abstains. With `multi_label`, return a list of tuples instead.
        """
        probabilities = self.predict_proba(X)
        chosen = decide(probabilities, self.label_thresholds_, multi_label=self.multi_label)
        if self.multi_label:
            return [tuple(self.classes_[row].tolist()) for row in chosen]
        labels, sure = self.classes_[probabilities.argmax(axis=1)], chosen.any(axis=1)
        return labels if sure.all() else np.where(sure, labels.astype(object), ABSTAIN)

    def score(self, X: Iterable[str], y: Any) -> float:
        """Return the share of texts with the right label, or with the right set of labels."""
        said, true = self.predict(X), Targets.of(y, multi_label=bool(self.multi_label)).rows
        if len(said) != len(true):
            raise InputError(f"there are {len(said)} texts and {len(true)} labels; give one label per text")
        if not self.multi_label:
            said = [(label,) for label in said]
        right = [set(row) == set(labels) for row, labels in zip(said, true, strict=True)]
        return float(np.mean(right))

    load = staticmethod(TextModel.load)

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier for :meth:`load`, as a network and its manifest, into a folder.

        Returns the path of the manifest. Raises an ArtifactError if the folder cannot be written; a MissingExtraError
        if onnx is not installed.
        """
        check_is_fitted(self)
        head, report, thresholds = self.head_, self.report_, self.label_thresholds_
        fields = {
            "task": "text-classification",
            **{name: getattr(head, name) for name in ("classes", "link", "inputs")},
            "encoder": self.encoder_fingerprint_,
            "calibration": {
                "method": "platt" if self.multi_label else "temperature",
                "on": f"out-of-fold scores, {report['folds']} folds, of the training texts",
            },
            "training": {name: report[name] for name in ("examples", "folds", "seed", "chosen")},
            "metrics": {"cross_validation": report},
            "threshold": thresholds.round(6).tolist() if thresholds.any() else None,
            "labels": self.classes_.tolist(),
        }
        return artifacts.save(folder, "head", {"model.onnx": head_to_onnx(head)}, fields)
