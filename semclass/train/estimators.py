"""Train classifiers on vectors or texts and labels of your own, with scikit-learn's interface (extra ``train``)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core import cards
from semclass.core.checks import check_positive, check_probability, check_texts
from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import DoubleArray, Encoder
from semclass.encoders.batching import warn_truncated
from semclass.heads.texts import decide
from semclass.train.export import head_to_onnx
from semclass.train.fit import Choice, fit_head
from semclass.train.fitted import head_probabilities
from semclass.train.report import card_sections, measured, report_of
from semclass.train.solvers import affordable_kind
from semclass.train.text_data import Targets, check_view_names, column_names, encode, encode_cached, shared_encoder

_base, _validation = (import_extra(f"sklearn.{name}", "train") for name in ("base", "utils.validation"))

Progress: TypeAlias = Callable[[str], object] | bool

CHOICES = (
    Choice({"pooled": 1.0}, "logistic"),
    Choice({"pooled": 2.0, "layers": 1.0}, "logistic"),
    Choice({"layers": 1.0}, "auto"),
)
"""What the head may read where the caller names no views. Topics and intents are in ``pooled``, types of questions in
``layers``: accuracy over ``pooled``, both and ``layers`` is 0.781, 0.774 and 0.649 with 5 messages of each bank intent;
0.677, 0.765 and 0.833 with 500 questions of six classes. Over ``pooled`` a kernel machine gained half a point at a log loss
that was a seventh higher."""


class HeadClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A calibrated classifier of vectors: what semclass trains over embeddings, as a scikit-learn estimator.

    Parameters
    ----------
    kind
        ``"logistic"``, ``"svm"``, or ``"auto"``, which lets cross-validation choose; with fewer than 300 or more than
        10,000 examples ``"auto"`` is ``"logistic"``.
    cv
        Folds for choice and calibration: a number, a splitter of scikit-learn, or pairs of rows.
    seed
        Of the folds, where `cv` is a number.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    head_
        The fitted head; :func:`semclass.train.export.head_to_onnx` writes it as a network with the input ``features``.
    n_features_in_
        Columns of X.
    """

    def __init__(self, kind: str = "auto", *, cv: Any = 5, seed: int = 0) -> None:
        self.kind = kind
        self.cv = cv
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HeadClassifier:
        """Fit to vectors and their labels.

        Parameters
        ----------
        X, y
            Numbers of shape (n, n_features), kept as float32, and n labels.
        sample_weight
            As for :meth:`semclass.TextClassifier.fit`.

        Raises
        ------
        InputError
            As for :meth:`semclass.TextClassifier.fit`.
        ValueError
            As scikit-learn raises it, for what is not a matrix of finite numbers.
        """
        X, y = _validation.validate_data(self, X, y, dtype=np.float32)
        import_extra("sklearn.utils.multiclass", "train").check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        folds = self.cv
        if not hasattr(folds, "__index__"):
            selection = import_extra("sklearn.model_selection", "train")
            folds = list(selection.check_cv(folds, y, classifier=True).split(X, y))
        head = fit_head(
            {"features": X},
            column_names(places),
            kind=affordable_kind(self.kind, len(X)),
            sample_weight=sample_weight,
            folds=folds,
            seed=self.seed,
        )
        self.head_ = replace(head, classes=tuple(str(name) for name in self.classes_.tolist()))
        return self

    def predict_proba(self, X: Any) -> DoubleArray:
        """Calibrated probabilities, float64 of shape (n, n_classes), columns in the order of `classes_`."""
        _validation.check_is_fitted(self)
        X = _validation.validate_data(self, X, reset=False, dtype=np.float32)
        return head_probabilities(self.head_, {"features": X})

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable labels, of shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)  # first, as it says whether there are classes
        found: npt.NDArray[Any] = self.classes_[best]
        return found


class TextClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A classifier of texts for labels of your own: a head over the embeddings of an encoder, calibrated.

    What it saves, :class:`semclass.TextModel` runs without scikit-learn. It works in ``Pipeline``, ``GridSearchCV``,
    ``cross_val_score`` and ``clone``. The order of the training texts makes no difference, and equal texts are never on
    both sides of a fold.

    Parameters
    ----------
    encoder
        None for the shipped encoder, the folder of an exported one, ``"hub:NAME"`` or ``"hub:FOLDER"`` for a
        sentence-transformers model (extra ``hub``), or anything that has the members of :class:`semclass.Encoder`. A name
        is better than an object where the classifier is pickled, as it is by ``n_jobs=2``.
    views
        What the head reads: views of the encoder with one row per text, ``"surface"`` (counts of numbers, capitals and
        the like), ``"pieces"`` (n-grams of word pieces). None lets cross-validation choose.
    kind, seed
        As for :class:`semclass.HeadClassifier`.
    multi_label
        Whether a text may have several labels, or none: one yes-or-no column for each label, with a threshold that is
        best for F1 on held-out texts.
    min_probability
        Below this probability the classifier abstains: `predict` gives ``semclass.ABSTAIN``. Where a text may have several
        labels, a label must reach it and its threshold.
    cv
        Number of folds for choice and calibration.
    cache
        Folder, or ``joblib.Memory``, that keeps embeddings. It holds pickles: name one that nobody else can write to.
    progress
        Whether to show progress on standard error, if that is a terminal; or a function that is called with lines of text.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    thresholds_
        Probabilities from which a text has a label, float64 of shape (n_classes,); None if each text has one label.
    report_
        Cross-validated figures in JSON types: ``accuracy``, ``log_loss``, ``calibration_error``, ``classes`` (precision,
        recall, F1 and number of each), ``coverage`` (what `min_probability` would cost and bring), ``reliability``,
        ``confusion``, ``chosen``, ``candidates`` and the number of texts these were ``compared`` on.
    encoder_fingerprint_
        Of the encoder that it was trained with.
    """

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        views: Sequence[str] | None = None,
        kind: str = "auto",
        multi_label: bool = False,
        min_probability: float = 0.0,
        cv: int = 5,
        cache: Any = None,
        seed: int = 0,
        progress: Progress = False,
    ) -> None:
        self.encoder = encoder
        self.views = views
        self.kind = kind
        self.multi_label = multi_label
        self.min_probability = min_probability
        self.cv = cv
        self.cache = cache
        self.seed = seed
        self.progress = progress

    def __sklearn_clone__(self) -> TextClassifier:
        """Clones share the encoder: it cannot be copied and never changes."""
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Iterable[str], y: Any, sample_weight: Any = None) -> TextClassifier:
        """Fit to texts and their labels.

        Parameters
        ----------
        X
            n non-empty texts.
        y
            n labels, strings or integers. With `multi_label` n collections of labels, which may be empty, or an array of
            0 and 1 of shape (n, n_classes), whose columns are then the classes 0, 1, 2 ...
        sample_weight
            n numbers, at least 0: as how many examples a text counts.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty, the lengths differ, labels are of mixed types, or there are fewer than two classes with two
            examples each.
        MissingExtraError
            If scikit-learn, or what the encoder needs, is not installed.
        """
        texts = [str(text) for text in check_texts(X)]  # numpy's strings hash otherwise
        if not texts:
            raise InputError("there are no texts; at least two classes with two examples each are needed")
        targets = Targets.of(y, multi_label=bool(self.multi_label))
        weights = np.ones(len(texts)) if sample_weight is None else np.asarray(sample_weight, np.float64).ravel()
        for name, given in (("labels", len(targets.rows)), ("weights", len(weights))):
            if given != len(texts):
                raise InputError(f"there are {len(texts)} texts and {given} {name}; each text needs one")
        if check_probability(self.min_probability, "min_probability") > 0 and ABSTAIN in targets.classes:
            raise InputError(f"no label may be {ABSTAIN!r}: with min_probability above 0 it means that there is none")
        say = _say_to(self.progress)
        # what comes out must not depend on the order in which texts came in, and folds do
        order = sorted(range(len(texts)), key=lambda place: (texts[place], targets.rows[place], weights[place]))
        texts = [texts[place] for place in order]
        targets = replace(targets, rows=[targets.rows[place] for place in order])
        # everything that can be refused is refused before texts are encoded, which may take minutes
        labels = targets.for_head()
        encoder = shared_encoder(self.encoder)
        names = check_view_names(self.views, encoder)
        choices = None
        if self.views is None and {"pooled", "layers"} <= set(names):
            kinds = [choice.kind if self.kind == "auto" else self.kind for choice in CHOICES]
            choices = [Choice(c.weights, affordable_kind(k, len(texts))) for c, k in zip(CHOICES, kinds, strict=True)]
        folds = check_positive(self.cv, "cv")
        cache = str(self.cache) if isinstance(self.cache, Path) else self.cache
        memory = _validation.check_memory(cache)
        views = encode_cached(texts, names, encoder, memory, say)
        head = fit_head(
            views,
            labels,
            kind=affordable_kind(self.kind, len(texts)),
            choices=choices,
            link="sigmoid" if self.multi_label else "softmax",
            names=column_names(range(len(targets.classes))),
            groups=[" ".join(text.lower().split()) for text in texts],
            sample_weight=None if sample_weight is None else weights[order],
            folds=folds,
            seed=self.seed,
            progress=say,
        )
        self.classes_ = np.array(targets.classes)
        self.head_ = replace(head, classes=tuple(map(str, targets.classes)))
        self.encoder_fingerprint_ = encoder.fingerprint
        self.indicator_ = targets.indicator
        self.thresholds_, self.report_ = report_of(self.head_, targets)
        say("")
        return self

    def predict_proba(self, X: Iterable[str]) -> DoubleArray:
        """Calibrated probabilities of texts.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes), columns in the order of `classes_`; rows sum to 1 unless `multi_label`.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the encoder is not the one it was trained with.
        """
        _validation.check_is_fitted(self)
        texts = check_texts(X)
        encoder = shared_encoder(self.encoder)
        if encoder.fingerprint != self.encoder_fingerprint_:
            raise InputError("the encoder was changed after fitting; fit again")
        if not texts:
            return np.zeros((0, len(self.classes_)))
        views, cut = encode(texts, self.head_.inputs, encoder, lambda line: None)
        warn_truncated(cut, len(texts))
        return head_probabilities(self.head_, views)

    def predict(self, X: Iterable[str]) -> Any:
        """Labels of texts; errors as for :meth:`predict_proba`.

        Returns
        -------
        ndarray or list
            Array of shape (n,); of Python objects where the classifier abstains. With `multi_label` a list of tuples, or
            int64 of shape (n, n_classes) if fitted to such an array.
        """
        probabilities = self.predict_proba(X)
        chosen = decide(probabilities, self.thresholds_, check_probability(self.min_probability, "min_probability"))
        if self.thresholds_ is None:
            labels, sure = self.classes_[probabilities.argmax(axis=1)], chosen.any(axis=1)
            return labels if sure.all() else np.where(sure, labels.astype(object), ABSTAIN)
        if self.indicator_:
            return chosen.astype(np.int64)
        return [tuple(self.classes_[row].tolist()) for row in chosen]

    def score(self, X: Iterable[str], y: Any, sample_weight: Any = None) -> float:
        """Share of texts whose label, or whose whole set of labels, is right; arguments and errors as for :meth:`fit`."""
        said, true = self.predict(X), Targets.of(y, multi_label=bool(self.multi_label)).rows
        if len(said) != len(true):
            raise InputError(f"there are {len(said)} texts and {len(true)} labels; each text needs one")
        if self.thresholds_ is None:
            said = [(label,) for label in said]
        elif self.indicator_:
            said = map(np.flatnonzero, said)
        right = [set(row) == set(labels) for row, labels in zip(said, true, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def save(
        self,
        folder: str | Path,
        *,
        title: str | None = None,
        language: str | None = None,
        license: str | None = None,  # noqa: A002 - as model hubs name it
    ) -> Path:
        """Write the fitted classifier for :meth:`semclass.TextModel.load`: a network, its manifest and a model card.

        Parameters
        ----------
        folder
            Where; made if it is not there.
        title, language, license
            For the model card: its heading, the language of the texts, such as ``"de"``, and the licence of the model, by
            the name that model hubs know, such as ``"apache-2.0"``.

        Returns
        -------
        Path
            The manifest.

        Raises
        ------
        ArtifactError
            If it cannot be written.
        MissingExtraError
            If onnx is not installed.
        """
        _validation.check_is_fitted(self)
        head, report, task = self.head_, self.report_, "text-classification"
        card = cards.HeadCard(
            task=task,
            classes=head.classes,
            link=head.link,
            inputs=head.inputs,
            encoder=self.encoder_fingerprint_,
            calibration={
                "method": "temperature" if self.thresholds_ is None else "platt",
                "on": f"out-of-fold scores, {report['folds']} folds, of the training texts",
            },
            training={name: report[name] for name in ("examples", "folds", "seed", "chosen")},
            metrics={"cross_validation": report},
            threshold=None if self.thresholds_ is None else np.round(self.thresholds_, 6).tolist(),
            extra={"labels": self.classes_.tolist(), "min_probability": float(self.min_probability)},
        )
        heading = f"Text classifier: {len(self.classes_)} classes" if title is None else title
        given = {"pipeline_tag": task, "language": language, "license": license}
        facts: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        facts |= {"model-index": measured(heading, report)}
        sections = card_sections(report, head.inputs, self.thresholds_)
        return cards.save_head(folder, head_to_onnx(head), card, title=heading, sections=sections, facts=facts)


def _say_to(progress: Progress) -> Callable[[str], object]:
    """The caller's function, or one line of standard error if that is a terminal, or nothing."""
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        # back to the line's beginning, and blank to its end
        return lambda line: sys.stderr.write(f"\r{line[:100]}\x1b[K")
    return lambda line: None
