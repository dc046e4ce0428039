"""Train classifiers on texts and labels of your own, with scikit-learn's interface (extra ``train``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_positive, check_probability, check_texts
from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import DoubleArray, Encoder
from semclass.encoders.batching import warn_truncated
from semclass.heads.examples import Examples
from semclass.heads.inputs import PIECES, labelled
from semclass.heads.texts import Label, TextLabels, TextModel, decide
from semclass.train.blend import fit_blend
from semclass.train.choices import choices_of
from semclass.train.data import problem_of
from semclass.train.export import head_to_onnx
from semclass.train.fit import fit_head
from semclass.train.fitted import FittedHead, head_probabilities, head_scores, support_of
from semclass.train.report import card_sections, measured, report_of
from semclass.train.solvers import affordable_kind
from semclass.train.text_data import (
    Progress,
    Targets,
    check_view_names,
    column_names,
    encode,
    encode_cached,
    names_of,
    ood_of,
    say_to,
    shared_encoder,
)

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
        The inputs of the head: views of the encoder with one row per text, ``"surface"`` (counts of numbers, capitals
        and the like), or ``"pieces"`` (n-grams of word pieces). If None, cross-validation chooses the views.
    kind, seed
        The parameters of :class:`semclass.HeadClassifier`.
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
    cache
        Folder or ``joblib.Memory`` that keeps embeddings. The cache holds pickles, so choose a folder that nobody else
        can write to.
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
        Cross-validated figures in JSON types: ``accuracy``, ``log_loss``, ``calibration_error``, ``classes``
        (precision, recall, F1 and number of texts of each class), ``coverage`` (costs and gains of `min_probability`),
        ``reliability``, ``confusion``, ``chosen``, ``candidates``, and ``compared`` (the number of texts on which the
        candidates were compared).
    encoder_fingerprint_
        Fingerprint of the encoder that the classifier was trained with.
    """

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        views: Sequence[str] | None = None,
        kind: str = "auto",
        multi_label: bool = False,
        min_probability: float = 0.0,
        target_precision: float | None = None,
        rejection_rate: float = 0.0,
        ood_label: Label | None = None,
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
        self.target_precision = target_precision
        self.rejection_rate = rejection_rate
        self.ood_label = ood_label
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
            n labels, strings or integers. With `multi_label`, give n collections of labels, which may be empty, or an
            array of 0 and 1 of shape (n, n_classes). The columns of such an array are the classes 0, 1, 2 ...
        sample_weight
            n numbers of at least 0. Each number says how many examples its text counts for.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty, the lengths differ, labels are of mixed types, or fewer than two classes have an example
            each (two examples each if `kind`, `views` or `multi_label` is given).
        MissingExtraError
            If scikit-learn, or a package that the encoder needs, is not installed.
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
        texts = [texts[place] for place in order]
        targets = replace(targets, rows=[targets.rows[place] for place in order])
        # everything that can be refused is refused before texts are encoded, which may take minutes
        encoder = shared_encoder(self.encoder)
        names = check_view_names(self.views, encoder)
        blended = self.kind == "auto" and self.views is None and not self.multi_label
        if (self.rejection_rate or self.ood_label is not None) and (not blended or not self.rejection_rate):
            raise InputError(
                "ood_label needs a rejection_rate above 0; both need kind='auto', views=None, and one label per text"
            )
        targets, inside = targets.without(self.ood_label)
        labels = targets.for_head(1 if blended else 2)
        choices = None  # where it is blended, leaving out chooses
        if not blended:
            names, choices = choices_of(self.views, names, encoder, self.kind, bool(self.multi_label), len(texts))
        folds = check_positive(self.cv, "cv")
        cache = str(self.cache) if isinstance(self.cache, Path) else self.cache
        memory = _validation.check_memory(cache)
        views = encode_cached(texts, names, encoder, memory, say)
        groups = [" ".join(text.lower().split()) for text in texts]
        weight = None if sample_weight is None else weights[order]
        if blended:
            head = fit_blend(
                problem_of(
                    {view: values[inside] for view, values in views.items()},
                    labels,
                    sample_weight=None if weight is None else weight[inside],
                    least=1,
                ),
                names_of(targets.classes, names, encoder, len(inside)),
                ood_of(views, inside),
                [groups[place] for place in inside],
                rejection_rate=self.rejection_rate,
                folds=folds,
                seed=self.seed,
                say=say,
            )
        else:
            head = fit_head(
                views,
                labels,
                kind=affordable_kind(self.kind, len(texts)),
                choices=choices,
                link="sigmoid" if self.multi_label else "softmax",
                names=column_names(range(len(targets.classes))),
                groups=groups,
                sample_weight=weight,
                folds=folds,
                seed=self.seed,
                progress=say,
            )
        self.classes_: npt.NDArray[Any] = np.array(targets.classes)
        self.head_: FittedHead = replace(head, classes=tuple(map(str, targets.classes)))
        self.encoder_fingerprint_: str = encoder.fingerprint
        self.indicator_: bool = targets.indicator
        self.label_thresholds_, self.report_ = report_of(self.head_, targets, self.target_precision)
        self.out_of_fold_: DoubleArray = np.full((len(texts), len(targets.classes)), np.nan)
        self.out_of_fold_[np.asarray(order)[inside]] = self.head_.out_of_fold
        view = next(name for name in ("pooled", *self.head_.inputs) if name in self.head_.inputs and name != PIECES)
        self.examples_: Examples = Examples.of([texts[row] for row in inside], targets.rows, view, views[view][inside])
        say("")
        return self

    def predict_proba(self, X: Iterable[str]) -> DoubleArray:
        """Return the calibrated class probabilities of texts.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes), with columns in the order of `classes_`. Rows sum to 1 unless `multi_label`
            is true.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the encoder is not the one that the classifier was trained with.
        """
        return self.judge(X)[0]

    def judge(self, X: Iterable[str]) -> tuple[DoubleArray, DoubleArray]:
        """Return the probabilities of :meth:`predict_proba`, and the support that decides on rejection.

        Raises the same errors as :meth:`predict_proba`.

        Returns
        -------
        tuple
            First the probabilities. Then the support, float64 of shape (n,): the log support for any class at all,
            minus its threshold. A text with a support below 0 is rejected. The support is 0 if `rejection_rate` is 0.
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
    def classes(self) -> tuple[Label, ...]:
        """The sorted labels, under the same name as in :class:`semclass.TextModel`."""
        _validation.check_is_fitted(self)
        return tuple(self.classes_.tolist())

    def classify(self, X: Iterable[str]) -> list[TextLabels]:
        """Return the labels of texts with all probabilities. Raises the same errors as :meth:`predict_proba`."""
        texts = check_texts(X)
        probabilities, above = self.judge(texts)
        chosen = self._chosen(probabilities, above)
        return [TextLabels(*row) for row in labelled(texts, self.classes, probabilities, chosen)]

    def predict(self, X: Iterable[str]) -> Any:
        """Return the labels of texts. Raises the same errors as :meth:`predict_proba`.

        Returns
        -------
        ndarray or list
            An array of shape (n,), which holds Python objects if the classifier abstains. With `multi_label`, a list of
            tuples, or int64 of shape (n, n_classes) if the classifier was fitted to such an array.
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
        """Return the share of texts with the right label, or with the right set of labels.

        Takes the same arguments and raises the same errors as :meth:`fit`.
        """
        said, true = self.predict(X), Targets.of(y, multi_label=bool(self.multi_label)).rows
        if len(said) != len(true):
            raise InputError(f"there are {len(said)} texts and {len(true)} labels; give one label per text")
        if not self.multi_label:
            said = [(label,) for label in said]
        elif self.indicator_:
            said = map(np.flatnonzero, said)
        right = [set(row) == set(labels) for row, labels in zip(said, true, strict=True)]
        return float(np.average(right, weights=sample_weight))

    @staticmethod
    def load(folder: str | Path, *, encoder: Encoder | str | Path | None = None, threads: int = 1) -> TextModel:
        """Load a saved classifier, which cannot be trained further. See :meth:`semclass.TextModel.load`."""
        return TextModel.load(folder, encoder=encoder, threads=threads)

    def save(
        self,
        folder: str | Path,
        *,
        title: str | None = None,
        language: str | None = None,
        license: str | None = None,  # noqa: A002 - as model hubs name it
        examples: bool = False,
    ) -> Path:
        """Write the fitted classifier for :meth:`load`, as a network with its manifest and a model card.

        Parameters
        ----------
        folder
            Folder for the head, which is created if it does not exist.
        title, language, license
            The heading of the model card, the language of the texts, such as ``"de"``, and the licence of the model.
            Name the licence as model hubs do, such as ``"apache-2.0"``.
        examples
            Whether to write the training texts too, for :meth:`semclass.TextModel.nearest`. Everyone who has the folder
            can then read the texts.

        Returns
        -------
        Path
            The manifest.

        Raises
        ------
        ArtifactError
            If the folder cannot be written.
        MissingExtraError
            If onnx is not installed.
        """
        _validation.check_is_fitted(self)
        head, report, task = self.head_, self.report_, "text-classification"
        multi_label, least = bool(self.multi_label), float(self.min_probability)
        by_label = self.label_thresholds_.any() and not multi_label
        card = artifacts.HeadCard(
            task=task,
            classes=head.classes,
            link=head.link,
            inputs=head.inputs,
            encoder=self.encoder_fingerprint_,
            calibration={
                "method": "platt" if multi_label else "temperature",
                "on": f"out-of-fold scores, {report['folds']} folds, of the training texts",
            },
            training={name: report[name] for name in ("examples", "folds", "seed", "chosen")},
            metrics={"cross_validation": report},
            threshold=self.label_thresholds_.round(6).tolist() if multi_label else None,
            extra={
                "labels": self.classes_.tolist(),
                "min_probability": self._thresholds().round(6).tolist() if by_label else least,
                **({} if head.ood_threshold is None else {"least_support": head.ood_threshold}),
            },
        )
        heading = f"Text classifier: {len(self.classes_)} classes" if title is None else title
        given = {"pipeline_tag": task, "language": language, "license": license}
        facts: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        facts |= {"model-index": measured(heading, report)}
        sections = card_sections(report, head.inputs, self.label_thresholds_, multi_label=multi_label)
        shown: dict[str, Any] = {"title": heading, "sections": sections, "facts": facts}
        files = self.examples_.files() if examples else None
        return artifacts.save_head(folder, head_to_onnx(head), card, files=files, **shown)
