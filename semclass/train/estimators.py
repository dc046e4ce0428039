"""Train classifiers of texts on labels of your own, with scikit-learn's interface (extra ``train``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_choice, check_positive, check_probability, check_texts
from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import ClassName, DoubleArray, Encoder, Label
from semclass.encoders.batching import warn_truncated
from semclass.heads.classifier import decide, labelled
from semclass.heads.examples import Examples
from semclass.heads.texts import TextModel
from semclass.train.data import (
    Progress,
    Targets,
    can_hold_out,
    check_view_names,
    encode,
    encode_unique,
    names_of,
    problem_of,
    say_to,
    shared_encoder,
)
from semclass.train.fit import STRENGTHS, Choice, fit_problem
from semclass.train.fitted import FittedHead, head_probabilities, head_scores, head_to_onnx, support_of
from semclass.train.report import card_sections, measured, report_of

ONE_LABEL = ({"pooled": 1.0}, {"pooled": 0.85, "layers": 0.15}, {"pooled": 0.6, "layers": 0.4}, {"layers": 1.0})
"""Views that a head may read, with their shares: topics and intents are in ``pooled``, types of questions in ``layers``."""

SEVERAL_LABELS = ({"pooled": 1.0, "surface": 1.0, "entities": 1.0}, {"pooled": 4.0, "layers": 1.0})
"""The same where a text may have several labels. Spelling and entities show whether a passage tells a name, a number or a
place."""

_base, _validation = (import_extra(f"sklearn.{name}", "train") for name in ("base", "utils.validation"))


class TextClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
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
        object with the members of :class:`semclass.Encoder`. If the classifier is pickled, as with ``n_jobs=2``, give a
        name or a folder rather than an object.
    views
        The inputs of the head: views of the encoder with one row per text, or ``"surface"`` (counts of numbers, capitals
        and the like). If None, cross-validation chooses the views.
    kind
        ``"kernel"``, a logistic regression over a Gaussian kernel, or ``"logistic"``, a logistic regression. If None,
        ``"kernel"``, or ``"logistic"`` with `multi_label`.
    seed
        Seed of the folds.
    multi_label
        Whether a text may have several labels or none. The classifier then decides yes or no for each label, with the
        threshold that gives the best F1 on held-out texts.
    min_probability
        Below this probability the classifier abstains: `predict` returns ``semclass.ABSTAIN``. With `multi_label`, a label
        must reach this probability and its own threshold.
    target_precision
        Least precision of each label, such as 0.95. The classifier then gives a label only from the probability at
        which held-out texts reached this precision. With one label per text, it abstains below this probability. If
        None, precision sets no limit.
    rejection_rate
        Share of texts of the classes, such as 0.04, that the classifier may reject in order to reject texts out of
        domain too. `predict` returns ``semclass.ABSTAIN`` for every rejected text. Cross-validation sets the threshold
        without texts out of domain.
    ood_label
        The label in y that marks texts of none of the classes, if there are any. It does not become a class. These
        texts improve rejection.
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
        training texts. A text without such a head has nan.
    examples_
        The training texts with their vectors.
    report_
        Cross-validated figures in JSON types: ``accuracy``, ``macro_f1``, ``log_loss``, ``calibration_error``,
        ``classes`` (precision, recall, F1, number of texts and threshold of each class), ``coverage`` (costs and gains of
        `min_probability`), ``precisions`` (the same of `target_precision`), ``reliability``, ``confused`` (pairs of
        labels, most often first), ``chosen``, ``candidates``, and ``compared`` (the number of texts on which the
        candidates were compared).
    encoder_fingerprint_
        Fingerprint of the encoder that the classifier was trained with.
    """

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        views: Sequence[str] | None = None,
        kind: str | None = None,
        multi_label: bool = False,
        min_probability: float = 0.0,
        target_precision: float | None = None,
        rejection_rate: float = 0.0,
        ood_label: ClassName | None = None,
        cv: int = 5,
        seed: int = 0,
        progress: Progress = False,
    ) -> None:
        self.encoder = encoder
        self.views = views
        self.kind = kind
        self.multi_label = multi_label
        self.min_probability = min_probability
        self.target_precision = target_precision
        self.rejection_rate = rejection_rate
        self.ood_label = ood_label
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def __sklearn_clone__(self) -> TextClassifier:
        """Clones share the encoder: it cannot be copied and never changes."""
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Iterable[str], y: Any, sample_weight: Any = None) -> TextClassifier:
        """Fit to texts and their labels.

        Raises an InputError or InputTypeError if a text is empty, lengths differ, labels are of mixed types, or there
        are fewer than two classes.

        Parameters
        ----------
        X
            n non-empty texts.
        y
            n labels, strings or integers. With `multi_label`, give n collections of labels, which may be empty, or an
            array of 0 and 1 of shape (n, n_classes). The columns of such an array are the classes 0, 1, 2 ...
        sample_weight
            n numbers of at least 0. Each number says how many examples its text counts for.
        """
        texts = [str(text) for text in check_texts(X)]  # numpy's strings hash otherwise
        if not texts:
            raise InputError("there are no texts; give at least two classes with two examples each")
        targets = Targets.of(y, multi_label=bool(self.multi_label))
        weights = np.ones(len(texts)) if sample_weight is None else np.asarray(sample_weight, np.float64).ravel()
        for name, given in (("labels", len(targets.rows)), ("weights", len(weights))):
            if given != len(texts):
                raise InputError(f"there are {len(texts)} texts and {given} {name}; give as many {name} as texts")
        sure = check_probability(0.0 if self.target_precision is None else self.target_precision, "target_precision")
        least = (
            check_probability(self.min_probability, "min_probability"),
            check_probability(self.rejection_rate, "rejection_rate"),
        )
        if max(sure, *least) > 0 and ABSTAIN in targets.classes:
            raise InputError(f"a label is {ABSTAIN!r}, which the model returns when it abstains; rename the label")
        say = say_to(self.progress)
        # what comes out must not depend on the order in which texts came in, and folds do
        order = sorted(range(len(texts)), key=lambda place: (texts[place], targets.rows[place], weights[place]))
        texts, targets = [texts[row] for row in order], replace(targets, rows=[targets.rows[row] for row in order])
        # everything that can be refused is refused before texts are encoded, which may take minutes
        encoder = shared_encoder(self.encoder)
        names = () if self.views is None else check_view_names(self.views, encoder)
        kind = ("logistic" if self.multi_label else "kernel") if self.kind is None else self.kind
        check_choice(kind, tuple(STRENGTHS), "kind")
        if (self.rejection_rate or self.ood_label is not None) and (self.multi_label or not self.rejection_rate):
            raise InputError(
                "ood_label needs a rejection_rate above 0; both need one label per text; with several, leave texts out of "
                "domain without labels"
            )
        targets, inside = targets.without(self.ood_label)
        offered = [dict.fromkeys(names, 1.0)]
        if self.views is None:
            offered = [dict(shares) for shares in (SEVERAL_LABELS if self.multi_label else ONE_LABEL)]
            offered = [shares for shares in offered if set(shares) <= {*encoder.views, "surface"}]
            names = tuple(dict.fromkeys(view for shares in offered for view in shares))
        folds = check_positive(self.cv, "cv")
        views = encode_unique(texts, names, encoder, say)
        groups = [" ".join(texts[place].lower().split()) for place in inside]
        problem = problem_of(
            {view: values[inside] for view, values in views.items()},
            targets,
            None if sample_weight is None else weights[order][inside],
            min_examples=1,
        )
        if len(inside) < len(texts):
            problem = problem.with_ood({view: np.delete(values, inside, axis=0) for view, values in views.items()})
        named = None if self.multi_label else names_of(targets.classes, names, encoder)
        if named is not None:
            problem = problem.with_names(*named)
        if self.rejection_rate and not can_hold_out(problem, groups):
            raise InputError(
                "rejection_rate needs two classes with at least two examples each, to hold some out; give more examples"
            )
        self.head_: FittedHead = fit_problem(
            problem,
            [Choice(shares, kind, named is not None) for shares in offered],
            groups,
            folds=folds,
            seed=self.seed,
            say=say,
            rejection_rate=self.rejection_rate,
        )
        self.classes_: npt.NDArray[Any] = np.array(targets.classes)
        self.encoder_fingerprint_: str = encoder.fingerprint
        self.indicator_: bool = targets.indicator
        self.label_thresholds_, self.report_ = report_of(
            self.head_, targets, [texts[row] for row in inside], self.target_precision
        )
        self.out_of_fold_: DoubleArray = np.full((len(texts), len(targets.classes)), np.nan)
        self.out_of_fold_[np.asarray(order)[inside]] = self.head_.out_of_fold
        view = "pooled" if "pooled" in self.head_.inputs else next(iter(self.head_.inputs))
        self.examples_: Examples = Examples.of([texts[row] for row in inside], targets.rows, view, views[view][inside])
        say("")
        return self

    def predict_proba(self, X: Iterable[str]) -> DoubleArray:
        """Return calibrated class probabilities, float64 of shape (n, n_classes), with columns as in `classes_`.

        Rows sum to 1 unless `multi_label` is true. Raises an InputError or InputTypeError if a text is empty or not a
        string, or the encoder is not the one that the classifier was trained with. So do the methods below.
        """
        return self.judge(X)[0]

    def judge(self, X: Iterable[str]) -> tuple[DoubleArray, DoubleArray]:
        """Return the probabilities of :meth:`predict_proba`, and the support for any class at all, float64 of shape (n,).

        The support is logarithmic, minus its threshold: a text below 0 is rejected. It is 0 if `rejection_rate` is 0.
        """
        _validation.check_is_fitted(self)
        texts = check_texts(X)
        encoder = shared_encoder(self.encoder)
        if encoder.fingerprint != self.encoder_fingerprint_:
            raise InputError("the encoder changed after fitting; call fit again")
        if not texts:
            return np.zeros((0, len(self.classes_))), np.zeros(0)
        views, cut = encode(texts, self.head_.inputs, encoder, lambda line: None)
        warn_truncated(cut, len(texts))
        probabilities, least = head_probabilities(self.head_, views), self.head_.ood_threshold
        if least is None:
            return probabilities, np.zeros(len(texts))
        scores = self.head_.slope * head_scores(self.head_, views) + self.head_.intercept
        return probabilities, support_of(scores) - least

    @property
    def classes(self) -> tuple[ClassName, ...]:
        """The sorted labels, under the same name as in :class:`semclass.TextModel`."""
        _validation.check_is_fitted(self)
        return tuple(self.classes_.tolist())

    def classify(self, X: Iterable[str]) -> list[Label]:
        """Return the labels of texts with all probabilities."""
        texts = check_texts(X)
        probabilities, above = self.judge(texts)
        return labelled(texts, self.classes, probabilities, self._chosen(probabilities, above))

    def predict(self, X: Iterable[str]) -> Any:
        """Return the labels of texts, an array of shape (n,), which holds Python objects if the classifier abstains.

        With `multi_label`, return a list of tuples, or int64 of shape (n, n_classes) after a fit to such an array.
        """
        probabilities, above = self.judge(X)
        chosen = self._chosen(probabilities, above)
        if not self.multi_label:
            labels, sure = self.classes_[probabilities.argmax(axis=1)], chosen.any(axis=1)
            return labels if sure.all() else np.where(sure, labels.astype(object), ABSTAIN)
        if self.indicator_:
            return chosen.astype(np.int64)
        return [tuple(self.classes_[row].tolist()) for row in chosen]

    def _chosen(self, probabilities: DoubleArray, above: DoubleArray) -> npt.NDArray[np.bool_]:
        """Labels of texts from what :meth:`judge` gives, bool of shape (n, n_classes)."""
        return decide(probabilities, self._thresholds(), multi_label=self.multi_label) & (above >= 0)[:, None]

    def _thresholds(self) -> DoubleArray:
        """Probability that each label must reach."""
        return np.maximum(self.label_thresholds_, check_probability(self.min_probability, "min_probability"))

    def score(self, X: Iterable[str], y: Any, sample_weight: Any = None) -> float:
        """Return the share of texts with the right label, or with the right set of labels."""
        said, true = self.predict(X), Targets.of(y, multi_label=bool(self.multi_label)).rows
        if len(said) != len(true):
            raise InputError(f"there are {len(said)} texts and {len(true)} labels; give one label per text")
        if not self.multi_label:
            said = [(label,) for label in said]
        elif self.indicator_:
            said = map(np.flatnonzero, said)
        right = [set(row) == set(labels) for row, labels in zip(said, true, strict=True)]
        return float(np.average(right, weights=sample_weight))

    load = staticmethod(TextModel.load)

    def save(
        self,
        folder: str | Path,
        *,
        title: str | None = None,
        language: str | None = None,
        license: str | None = None,  # noqa: A002 - as model hubs name it
        examples: bool = False,
    ) -> Path:
        """Write the fitted classifier for :meth:`load`, as a network, its manifest and a model card.

        Returns the path of the manifest. Raises an ArtifactError if the folder cannot be written; a MissingExtraError
        if onnx is not installed.

        Parameters
        ----------
        folder
            Folder for the head, which is created if it does not exist.
        title, language, license
            Fields of the model card, as model hubs name them, such as ``"de"`` and ``"apache-2.0"``.
        examples
            Whether to write the training texts too, for :meth:`semclass.TextModel.nearest`. Everyone who has the folder
            can then read the texts.
        """
        _validation.check_is_fitted(self)
        head, report, task = self.head_, self.report_, "text-classification"
        multi_label, least = bool(self.multi_label), float(self.min_probability)
        by_label = self.label_thresholds_.any() and not multi_label
        fields = {
            "task": task,
            **{name: getattr(head, name) for name in ("classes", "link", "inputs")},
            "encoder": self.encoder_fingerprint_,
            "calibration": {
                "method": "platt" if multi_label else "temperature",
                "on": f"out-of-fold scores, {report['folds']} folds, of the training texts",
            },
            "training": {name: report[name] for name in ("examples", "folds", "seed", "chosen")},
            "metrics": {"cross_validation": report},
            "threshold": self.label_thresholds_.round(6).tolist() if multi_label else None,
            "labels": self.classes_.tolist(),
            "min_probability": self._thresholds().round(6).tolist() if by_label else least,
            **({} if head.ood_threshold is None else {"least_support": head.ood_threshold}),
        }
        heading = f"Text classifier: {len(self.classes_)} classes" if title is None else title
        given = {"pipeline_tag": task, "language": language, "license": license}
        facts: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        facts |= {"model-index": measured(heading, report)}
        sections = card_sections(report, head.inputs, self.label_thresholds_, multi_label=multi_label)
        files = self.examples_.files() if examples else None
        return artifacts.save_head(
            folder, head_to_onnx(head), fields, title=heading, sections=sections, facts=facts, files=files
        )
