"""Train classifiers on labels of your own, with scikit-learn's interface (extra ``train``).

:class:`TextClassifier` goes from texts to labels, :class:`HeadClassifier` from vectors to labels. What a text classifier
saves, :class:`semclass.TextModel` runs, where scikit-learn need not be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import __version__
from semclass.core import artifacts, cards
from semclass.core.checks import check_choice, check_positive, check_probability, check_texts, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import DoubleArray, Encoder, FloatArray
from semclass.encoders.bulk import CHUNK, encode_quietly, warn_of_cuts
from semclass.encoders.onnx_encoder import STATES
from semclass.heads.head import Head
from semclass.heads.inputs import PIECES, SURFACE, piece_matrix
from semclass.heads.surface import surface_features
from semclass.heads.texts import Label, decide, open_encoder
from semclass.train import calibration, fit
from semclass.train.calibration import best_threshold, f1_score, reliability
from semclass.train.export import head_to_onnx
from semclass.train.fit import Choice, FittedHead, fit_head, head_probabilities

_base = import_extra("sklearn.base", "train")

Progress = Callable[[str], object] | bool

TASK = "text-classification"

KERNEL_TEXTS = (300, 10_000)
"""With fewer or with more examples than these ``kind="auto"`` tries logistic regressions only. With few, cross-validation
cannot tell which is better: on 8 questions of each coarse TREC class, accuracy on others is 0.741 with logistic regressions
alone and 0.732 with both, on 32 it is 0.833 with either (12 draws). With many, a kernel machine takes memory by the square
and time by the cube of their number."""

CHOICES = (
    Choice({"pooled": 1.0}, "logistic"),
    Choice({"pooled": 2.0, "layers": 1.0}, "logistic"),
    Choice({"layers": 1.0}, "auto"),
)
"""What the head may read where the caller names no views. Topics and intents are in ``pooled``, types of questions in
``layers``. Accuracy over ``pooled``, both and ``layers``, on 2,000 training texts that were not fitted on: 0.781, 0.774 and
0.649 with 5 messages of each bank intent; 0.677, 0.765 and 0.833 with 500 questions of six classes. A kernel machine is
tried over layers and word pieces alone: over ``pooled`` it gained half a point at a log loss that was a seventh higher."""

COVERAGE = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Values of min_probability that the report tells the consequences of."""

PROBE = 16
"""Training texts whose views a fitted classifier keeps, to compare the network with when it is saved."""

TOLERANCE = 1e-4
"""Largest difference allowed between probabilities of the network that is saved and of the arrays it was made from."""


class HeadClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A calibrated classifier of vectors: what semclass trains over embeddings, as a scikit-learn estimator.

    Parameters
    ----------
    kind
        ``"logistic"``, ``"svm"``, or ``"auto"``, which lets cross-validation choose; see :mod:`semclass.train.fit` and
        `KERNEL_TEXTS`.
    components
        Principal components at most.
    cv
        Folds for choice and calibration: a number, a splitter of scikit-learn, or pairs of rows.
    seed
        Of the folds, where `cv` is a number.
    progress
        Whether to tell on standard error, if that is a terminal, what is being done; or a function that is called with
        lines of text.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    head_
        The :class:`semclass.train.fit.FittedHead`; :func:`semclass.train.export.head_to_onnx` writes it as a network
        with the input ``features``.
    n_features_in_
        Columns of X.
    """

    def __init__(
        self, kind: str = "auto", *, components: int = 384, cv: Any = 5, seed: int = 0, progress: Progress = False
    ) -> None:
        self.kind = kind
        self.components = components
        self.cv = cv
        self.seed = seed
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HeadClassifier:
        """Fit to vectors and their labels.

        Parameters
        ----------
        X
            Numbers of shape (n, n_features); kept as float32.
        y
            n labels.
        sample_weight
            n numbers, at least 0: as how many examples a row counts.

        Returns
        -------
        HeadClassifier
            This one.

        Raises
        ------
        InputError
            If there are fewer than two classes with two examples each, or a weight is not allowed.
        ValueError
            As scikit-learn raises it, for what is not a matrix of finite numbers.
        """
        validation = import_extra("sklearn.utils.validation", "train")
        X, y = validation.validate_data(self, X, y, dtype=np.float32)
        import_extra("sklearn.utils.multiclass", "train").check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        folds = self.cv
        if not hasattr(folds, "__index__"):
            selection = import_extra("sklearn.model_selection", "train")
            folds = list(selection.check_cv(folds, y, classifier=True).split(X, y))
        head = fit_head(
            {"features": X},
            _column_names(places),
            kind=_affordable(self.kind, len(X)),
            sample_weight=sample_weight,
            components=self.components,
            folds=folds,
            seed=self.seed,
            progress=_teller(self.progress),
        )
        self.head_ = replace(head, classes=tuple(str(name) for name in self.classes_.tolist()))
        return self

    def predict_proba(self, X: Any) -> DoubleArray:
        """Calibrated probabilities, float64 of shape (n, n_classes), columns in the order of `classes_`."""
        validation = import_extra("sklearn.utils.validation", "train")
        validation.check_is_fitted(self)
        X = validation.validate_data(self, X, reset=False, dtype=np.float32)
        return head_probabilities(self.head_, {"features": X})

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Most probable labels, of shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[best]
        return found


class TextClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A classifier of texts for labels of your own: a head over the embeddings of an encoder, calibrated.

    It works in scikit-learn's ``Pipeline``, ``GridSearchCV``, ``cross_val_score`` and ``clone``. The order of the training
    texts makes no difference, and equal texts are never on both sides of a fold.

    Parameters
    ----------
    encoder
        None for the shipped encoder, the folder of an exported one, ``"hub:NAME"`` or ``"hub:FOLDER"`` for a
        sentence-transformers model (extra ``hub``), or anything that has the members of :class:`semclass.Encoder`. A name
        is better than an object where the classifier is pickled, as it is by ``n_jobs=2``.
    views
        What the head reads: views of the encoder with one row per text, ``"surface"`` (counts of numbers, capitals and
        the like), ``"pieces"`` (n-grams of word pieces). None lets cross-validation choose among `CHOICES`; for an encoder
        that lacks ``pooled`` or ``layers``, the other one and ``"pieces"``.
    kind
        ``"logistic"``, ``"svm"``, or ``"auto"``, which lets cross-validation choose; see :mod:`semclass.train.fit` and
        `KERNEL_TEXTS`.
    multi_label
        Whether a text may have several labels, or none: one yes-or-no column for each label, with a threshold that is
        best for F1 on held-out texts.
    min_probability
        Below this probability the classifier declines to say; 0 means that it always says something. With several labels
        a text, a label must reach it besides its threshold.
    abstain_label
        What `predict` gives where the classifier declines; of the same type as the labels, such as -1 for integers.
    components
        Principal components at most.
    cv
        Number of folds for choice and calibration.
    cache
        Folder, or ``joblib.Memory``, that keeps embeddings and fitted heads, so that fitting the same again takes
        seconds. It holds pickles: name one that nobody else can write to. None keeps nothing.
    seed
        Of the folds.
    progress
        Whether to tell on standard error, if that is a terminal, what is being done; or a function that is called with
        lines of text.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    head_
        The :class:`semclass.train.fit.FittedHead`.
    thresholds_
        Probabilities from which a text has a label, float64 of shape (n_classes,); None if each text has one label.
    report_
        Cross-validated figures in JSON types: ``accuracy``, ``log_loss``, ``calibration_error``, ``classes`` (precision,
        recall, F1 and number of each), ``coverage`` (what `min_probability` would cost and bring), ``reliability``,
        ``chosen``, ``candidates`` and the number of texts these were ``compared`` on.
    encoder_fingerprint_
        Of the encoder that it was trained with.
    probe_
        Views of the first training texts, which :meth:`save` compares the network on.

    Examples
    --------
    >>> model = TextClassifier().fit(texts, labels)  # doctest: +SKIP
    >>> model.save("my-head")  # doctest: +SKIP
    >>> model.predict(["Can I bring my dog?"])  # doctest: +SKIP
    array(['in scope'], dtype='<U9')
    """

    def __init__(
        self,
        encoder: Encoder | str | Path | None = None,
        *,
        views: Sequence[str] | None = None,
        kind: str = "auto",
        multi_label: bool = False,
        min_probability: float = 0.0,
        abstain_label: Label = ABSTAIN,
        components: int = 384,
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
        self.abstain_label = abstain_label
        self.components = components
        self.cv = cv
        self.cache = cache
        self.seed = seed
        self.progress = progress

    def __sklearn_clone__(self) -> TextClassifier:
        """Clones share the encoder: it cannot be copied and never changes."""
        return type(self)(**self.get_params(deep=False))

    def __sklearn_tags__(self) -> Any:
        """Texts go in, not matrices."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = bool(self.multi_label)
        return tags

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

        Returns
        -------
        TextClassifier
            This one.

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
        targets = _Targets.of(y, multi_label=bool(self.multi_label))
        weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        for name, given in (("labels", len(targets)), ("weights", len(texts) if weight is None else weight.size)):
            if given != len(texts):
                raise InputError(f"there are {len(texts)} texts and {given} {name}; each text needs one")
        least = check_probability(self.min_probability, "min_probability")
        if least > 0 and not self.multi_label:
            targets.check_other(self.abstain_label)
        say = _teller(self.progress)
        # what comes out must not depend on the order in which texts came in, and folds do
        weights = np.ones(len(texts)) if weight is None else weight.ravel()
        order = sorted(range(len(texts)), key=lambda place: (texts[place], targets.rows[place], weights[place]))
        texts, targets = [texts[place] for place in order], targets.take(order)
        weight = None if weight is None else weights[order]
        # everything that can be refused is refused before texts are encoded, which may take minutes
        labels = targets.for_head()
        encoder = _shared_encoder(self.encoder)
        names = _check_view_names(self.views, encoder)
        several = self.views is None and {"pooled", "layers"} <= set(names)
        settings = {
            "kind": _affordable(self.kind, len(texts)),
            "choices": _choices(self.kind, len(texts)) if several else None,
            "link": "sigmoid" if self.multi_label else "softmax",
            "name": _column_names(range(len(targets.classes))),
            "groups": [" ".join(text.lower().split()) for text in texts],
            "sample_weight": weight,
            "components": check_positive(self.components, "components"),
            "folds": check_positive(self.cv, "cv"),
            "seed": self.seed,
        }
        cache = str(self.cache) if isinstance(self.cache, Path) else self.cache
        memory = import_extra("sklearn.utils.validation", "train").check_memory(cache)
        views = _embed(texts, names, encoder, memory, say)
        head = _fit_once(views, labels, settings, memory, say)
        self.classes_ = np.array(targets.classes)
        self.head_ = replace(head, classes=tuple(map(str, targets.classes)))
        self.encoder_fingerprint_ = encoder.fingerprint
        self.indicator_ = targets.indicator
        self.probe_ = {name: views[name][:PROBE] for name in head.inputs}
        self.thresholds_, self.report_ = _report(self.head_, targets)
        say("")
        return self

    def predict_proba(self, X: Iterable[str]) -> DoubleArray:
        """Calibrated probabilities of texts.

        Parameters
        ----------
        X
            n non-empty texts.

        Returns
        -------
        ndarray
            float64 of shape (n, n_classes), columns in the order of `classes_`; rows sum to 1 unless `multi_label`.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the encoder is not the one it was trained with.
        """
        import_extra("sklearn.utils.validation", "train").check_is_fitted(self)
        texts = check_texts(X)
        encoder = _shared_encoder(self.encoder)
        if encoder.fingerprint != self.encoder_fingerprint_:
            raise InputError("the encoder was changed after fitting; fit again")
        if not texts:
            return np.zeros((0, len(self.classes_)))
        views, cut = _encode(texts, tuple(self.head_.inputs), encoder, lambda line: None)
        warn_of_cuts(cut, len(texts))
        return head_probabilities(self.head_, views)

    def predict(self, X: Iterable[str]) -> Any:
        """Labels of texts.

        Parameters
        ----------
        X
            n non-empty texts.

        Returns
        -------
        ndarray or list
            Array of shape (n,), with `abstain_label` where no class reaches `min_probability`. With `multi_label` a list
            of tuples, or int64 of shape (n, n_classes) if fitted to such an array.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string.
        """
        probabilities = self.predict_proba(X)
        chosen = decide(probabilities, self.thresholds_, check_probability(self.min_probability, "min_probability"))
        if self.thresholds_ is None:
            labels = self.classes_[probabilities.argmax(axis=1)]
            return labels if chosen.any(axis=1).all() else np.where(chosen.any(axis=1), labels, self.abstain_label)
        if self.indicator_:
            return chosen.astype(np.int64)
        return [tuple(self.classes_[row].tolist()) for row in chosen]

    def score(self, X: Iterable[str], y: Any, sample_weight: Any = None) -> float:
        """Share of texts whose label, or whose whole set of labels, is right; a label never seen in training is wrong.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        InputError, InputTypeError
            As for :meth:`fit`.
        """
        said, targets = self.predict(X), _Targets.of(y, multi_label=bool(self.multi_label))
        if len(said) != len(targets):
            raise InputError(f"there are {len(said)} texts and {len(targets)} labels; each text needs one")
        if self.thresholds_ is None:
            right = [label == true[0] for label, true in zip(said.tolist(), targets.rows, strict=True)]
        elif self.indicator_:
            right = [set(np.flatnonzero(row).tolist()) == set(t) for row, t in zip(said, targets.rows, strict=True)]
        else:
            right = [set(row) == set(true) for row, true in zip(said, targets.rows, strict=True)]
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
        title
            Heading of the model card.
        language
            Language of the texts, for the model card, such as ``"de"``.
        license
            Licence of the model, for the model card, by the name that model hubs know, such as ``"apache-2.0"``.

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
        import_extra("sklearn.utils.validation", "train").check_is_fitted(self)
        head, report = self.head_, self.report_
        multi = self.thresholds_ is not None
        card = cards.HeadCard(
            task=TASK,
            classes=head.classes,
            link=head.link,
            inputs=head.inputs,
            encoder=self.encoder_fingerprint_,
            calibration={
                "method": "platt" if multi else "temperature",
                "on": f"out-of-fold scores, {report['folds']} folds, of the training texts",
            },
            training={name: report[name] for name in ("examples", "folds", "seed", "chosen")},
            metrics={"cross_validation": report},
            threshold=None if self.thresholds_ is None else np.round(self.thresholds_, 6).tolist(),
            extra={
                "labels": self.classes_.tolist(),
                "min_probability": float(self.min_probability),
            },
        )
        heading = f"Text classifier: {len(self.classes_)} classes" if title is None else title
        given = {"language": language, "license": license}
        facts = {
            "pipeline_tag": "text-classification",
            **{name: value for name, value in given.items() if value is not None},
            "model-index": _measured(heading, report),
        }
        written = cards.save_head(
            folder, head_to_onnx(head), card, title=heading, sections=_card_sections(self), facts=facts
        )
        network = Head.load(folder, encoder=self.encoder_fingerprint_).probabilities(self.probe_)
        if np.abs(network - head_probabilities(head, self.probe_)).max() > TOLERANCE:
            raise ArtifactError(f"{folder}: the network differs from what was fitted by more than {TOLERANCE}")
        return written


# -- labels -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Targets:
    """Checked labels: `rows` holds each text's, one or several; `classes` all of them, sorted."""

    rows: Sequence[tuple[Label, ...]]
    classes: tuple[Label, ...]
    multi: bool
    indicator: bool

    @classmethod
    def of(cls, y: Any, *, multi_label: bool) -> _Targets:
        """Check labels of either shape."""
        if y is None or isinstance(y, (str, bytes)) or not isinstance(y, Iterable):
            raise InputTypeError(f"labels must be a sequence with a label for each text, not {short(y)}")
        if multi_label and isinstance(y, np.ndarray) and y.ndim == 2:
            if not np.isin(y, (0, 1)).all():
                raise InputError("labels in an array of two dimensions must be 0 or 1, a column for each class")
            rows = [tuple(np.flatnonzero(row).tolist()) for row in y]
            return cls(rows, tuple(range(y.shape[1])), multi=True, indicator=True)
        items = list(y.tolist() if hasattr(y, "tolist") else y)
        if multi_label:
            rows = [_several(item, place) for place, item in enumerate(items)]
        else:
            rows = [(_one(item, f"labels[{place}]", "; for several labels a text set multi_label=True"),)
                    for place, item in enumerate(items)]  # fmt: skip
        found = {label for row in rows for label in row}
        kinds = {type(label) for label in found}
        if len(kinds) > 1:
            raise InputTypeError("labels mix strings and integers; make all of them strings")
        return cls(rows, tuple(sorted(found)), multi=multi_label, indicator=False)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Sequence[int]) -> _Targets:
        """Some rows."""
        return replace(self, rows=[self.rows[place] for place in places])

    def matrix(self) -> npt.NDArray[np.bool_]:
        """Which text has which class, bool of shape (n, n_classes)."""
        column = {label: place for place, label in enumerate(self.classes)}
        found = np.zeros((len(self.rows), len(self.classes)), np.bool_)
        for place, row in enumerate(self.rows):
            found[place, [column[label] for label in row]] = True
        return found

    def for_head(self) -> Any:
        """Labels as `fit_head` takes them: names that sort like the classes, or 0 and 1."""
        if self.multi and not self.classes:
            raise InputError("no text has a label; at least one label with two examples is needed")
        if self.multi:
            return self.matrix().astype(np.int64)
        names = _column_names(self.matrix().argmax(axis=1))
        fit.check_classes(names)
        return names

    def check_other(self, label: Label) -> None:
        """Refuse a label for declining that is a class, or of another type than the classes."""
        if self.classes and (label in self.classes or type(label) is not type(self.classes[0])):
            raise InputError(
                f"abstain_label is {label!r}; with min_probability above 0 it must be none of the labels, and of their "
                f"type, {type(self.classes[0]).__name__}"
            )


def _one(item: Any, name: str, remedy: str) -> Label:
    """Check one label; numpy's scalars become Python's."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, bool) or not isinstance(item, (str, int)):
        raise InputTypeError(f"{name} must be a string or an integer, not {type(item).__name__}: {short(item)}{remedy}")
    return item


def _several(item: Any, place: int) -> tuple[Label, ...]:
    """Check the labels of one text."""
    if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
        raise InputTypeError(
            f"labels[{place}] must be a collection of labels with multi_label=True, not {short(item)}; write "
            f"({short(item)},)"
        )
    return tuple(sorted({_one(label, f"labels[{place}]", "") for label in item}, key=str))


def _column_names(places: Iterable[int]) -> list[str]:
    """Names that sort as the numbers do."""
    return [f"{int(place):09d}" for place in places]


# -- views ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _named_encoder(name: str | None) -> Encoder:
    """Load an encoder once; the clones of a grid search share it."""
    return open_encoder(name)


def _shared_encoder(encoder: Encoder | str | Path | None) -> Encoder:
    """Give the encoder that a parameter means."""
    if encoder is None or isinstance(encoder, str):
        return _named_encoder(encoder)
    return _named_encoder(str(encoder)) if isinstance(encoder, Path) else encoder


def _check_view_names(views: Sequence[str] | None, encoder: Encoder) -> tuple[str, ...]:
    """Give the views that the head will read."""
    if views is None:
        return (*(name for name in ("pooled", "layers") if name in encoder.views), PIECES)
    if isinstance(views, str):
        raise InputTypeError(f"views must be a sequence of names, not one string; write ({views!r},)")
    allowed = [name for name in encoder.views if name not in ("tokens", STATES)] + [SURFACE, PIECES]
    for name in views:
        check_choice(name, allowed, "view")
    return tuple(dict.fromkeys(views))


def _encode(
    texts: Sequence[str], names: Sequence[str], encoder: Encoder, say: Callable[[str], object]
) -> tuple[dict[str, FloatArray], list[int]]:
    """Views of texts, and which were longer than the encoder reads."""
    wanted = [name for name in names if name not in (SURFACE, PIECES)]
    parts: dict[str, list[FloatArray]] = {name: [] for name in names}
    cut: list[int] = []
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        encoding, rows = encode_quietly(encoder, chunk, wanted)
        cut += [start + row for row in rows]
        for name, part in parts.items():
            if name == SURFACE:
                part.append(surface_features(chunk))
            else:
                part.append(piece_matrix(encoding.terms) if name == PIECES else encoding.rows(name))
        say(f"encoded {start + len(chunk)} of {len(texts)} texts")
    return {name: np.concatenate(part) for name, part in parts.items()}, cut


# -- what the cache keeps ---------------------------------------------------------------------------------------------


def _embed(
    texts: Sequence[str], names: Sequence[str], encoder: Encoder, memory: Any, say: Callable[[str], object]
) -> dict[str, FloatArray]:
    """Views of texts, from the cache if it has them; equal texts are encoded once."""
    unique = sorted(set(texts))
    place = {text: number for number, text in enumerate(unique)}
    rows = np.array([place[text] for text in texts], np.int64)
    key = import_extra("joblib", "train").hash((unique, tuple(names), encoder.fingerprint, __version__))
    say(f"encoding {len(unique)} texts")
    kept = memory.cache(_kept_views, ignore=["texts", "names", "encoder", "say"])
    views, cut = kept(key, texts=unique, names=names, encoder=encoder, say=say)
    warn_of_cuts(cut, len(unique))
    return {name: values[rows] for name, values in views.items()}


def _kept_views(key: str, texts: Any, names: Any, encoder: Any, say: Any) -> Any:
    """What the cache keeps under a hash of texts, views and encoder."""
    return _encode(texts, names, encoder, say)


def _fit_once(
    views: Mapping[str, FloatArray], labels: Any, settings: Mapping[str, Any], memory: Any, say: Callable[[str], object]
) -> FittedHead:
    """Fit a head, or take the one that was fitted to the same with the same code."""
    key = import_extra("joblib", "train").hash((dict(views), labels, dict(settings), _code()))
    kept = memory.cache(_kept_head, ignore=["views", "labels", "settings", "say"])
    head: FittedHead = kept(key, views=views, labels=labels, settings=settings, say=say)
    return head


@lru_cache(maxsize=1)
def _code() -> tuple[str, ...]:
    """Hashes of the code that fits heads: what another version fitted is not taken from the cache."""
    return tuple(artifacts.sha256_of(Path(str(module.__file__))) for module in (fit, calibration))


def _kept_head(key: str, views: Any, labels: Any, settings: Any, say: Any) -> Any:
    """What the cache keeps under a hash of views, labels, settings and code."""
    chosen = dict(settings)
    if chosen["link"] == "softmax":
        del chosen["name"]
    return fit_head(views, labels, progress=say, **chosen)


def _affordable(kind: str, examples: int) -> str:
    """Leave kernel machines out of the choice where they bring nothing or take too long."""
    check_choice(kind, ("auto", *fit.KINDS), "kind")
    least, most = KERNEL_TEXTS
    return "logistic" if kind == "auto" and not least <= examples <= most else kind


def _choices(kind: str, examples: int) -> list[Choice]:
    """`CHOICES` with the kind that was asked for, or with kinds of their own, as far as they are affordable."""
    return [replace(choice, kind=_affordable(choice.kind if kind == "auto" else kind, examples)) for choice in CHOICES]


def _teller(progress: Progress) -> Callable[[str], object]:
    """Give what lines of progress go to: the caller's function, one line of a terminal, or nothing."""
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        # back to the line's beginning, and blank to its end
        return lambda line: sys.stderr.write(f"\r{line[:100]}\x1b[K")
    return lambda line: None


# -- what is told about it --------------------------------------------------------------------------------------------


def _report(head: FittedHead, targets: _Targets) -> tuple[DoubleArray | None, dict[str, Any]]:
    """Thresholds, for several labels a text, and cross-validated figures in JSON types."""
    if head.out_of_fold is None:
        raise ValueError("a head without out-of-fold probabilities cannot be judged")
    judged = np.isfinite(head.out_of_fold[:, 0])
    probabilities, truth = head.out_of_fold[judged], targets.matrix()[judged]
    thresholds = None
    if targets.multi:
        columns = zip(probabilities.T, truth.T, strict=True)
        # a class whose only examples have weight 0 has nothing to choose by
        thresholds = np.array([best_threshold(column, true) if true.any() else 0.5 for column, true in columns])
    said = decide(probabilities, thresholds, 0.0)
    right = (said == truth).all(axis=1)
    report: dict[str, Any] = {
        "examples": head.report["examples"],
        "folds": head.report["folds"],
        "seed": head.report["seed"],
        "chosen": head.report["chosen"],
        "candidates": head.report["candidates"],
        "compared": head.report["compared"],
        "accuracy": float(right.mean()),
        "log_loss": head.report["log_loss"],
        "calibration_error": head.report["calibration_error"],
        "classes": [
            {"label": label, **_class_figures(said[:, place], truth[:, place])}
            for place, label in enumerate(targets.classes)
        ],
    }
    report["macro_f1"] = float(np.mean([row["f1"] for row in report["classes"]]))
    if thresholds is None:
        confidence = probabilities.max(axis=1)
        report["reliability"] = reliability(confidence, right)
        report["coverage"] = _coverage(confidence, right)
        report["confusion"] = (truth.T.astype(np.int64) @ said).tolist()
    else:
        report["reliability"] = reliability(probabilities.ravel(), truth.ravel())
    return thresholds, _rounded(report)


def _class_figures(said: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Precision and recall of one class; 0 where there is nothing to divide by."""
    both = float((said & true).sum())
    return {
        "precision": both / max(float(said.sum()), 1.0),
        "recall": both / max(float(true.sum()), 1.0),
        "f1": f1_score(said, true),
        "examples": int(true.sum()),
    }


def _coverage(confidence: DoubleArray, right: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """For some values of min_probability: the share of texts that get an answer, and the share of those that are right."""
    rows = []
    for least in COVERAGE:
        sure = confidence >= least
        rows.append(
            {
                "min_probability": least,
                "answered": float(sure.mean()),
                "accuracy": float(right[sure].mean()) if sure.any() else None,
            }
        )
    return rows


def _rounded(value: Any) -> Any:
    """Round every number in nested JSON types to four places."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Markdown table; a vertical bar in a label must not end its cell."""
    cells = [list(heads), ["---"] * len(heads), *([_cell(item) for item in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _cell(item: Any) -> str:
    if item is None:
        return "-"
    return f"{item:.3f}" if isinstance(item, float) else " ".join(str(item).replace("|", "\\|").split())


def _measured(name: str, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What cross-validation measured, as model hubs read it."""
    metrics = [
        {"type": kind, "value": round(report[field], 4), "name": title}
        for kind, field, title in (
            ("accuracy", "accuracy", "Accuracy"),
            ("f1", "macro_f1", "Macro F1"),
            ("expected_calibration_error", "calibration_error", "Expected calibration error"),
        )
    ]
    texts = {"type": "own", "name": f"{report['examples']} training texts, {report['folds']}-fold cross-validation"}
    result = {"task": {"type": "text-classification"}, "dataset": texts, "metrics": metrics}
    return [{"name": name, "results": [result]}]


def _card_sections(model: TextClassifier) -> list[tuple[str, str]]:
    """Sections of the model card."""
    report, multi = model.report_, model.thresholds_ is not None
    columns = ["class", "precision", "recall", "F1", "examples"]
    rows = [list(row.values()) for row in report["classes"]]
    if model.thresholds_ is not None:
        columns.append("threshold")
        rows = [[*row, threshold] for row, threshold in zip(rows, model.thresholds_.tolist(), strict=True)]
    whole, chosen = "", "Setting and calibration"
    if multi:
        whole, chosen = " (the whole set of labels is right)", "Setting, calibration and thresholds"
    measured = (
        f"Cross-validated on {report['examples']} training texts, {report['folds']} folds, equal texts in one fold: "
        f"accuracy {report['accuracy']:.3f}{whole}, macro F1 {report['macro_f1']:.3f}, expected calibration error "
        f"{report['calibration_error']:.3f}. {chosen} were chosen on the same folds, so new texts "
        "from the same source may do slightly worse, and texts from other sources clearly worse: measure on texts as they "
        "will come.\n\n" + _table(columns, rows)
    )
    if not multi:
        names = [str(row["label"]) for row in report["classes"]]
        counts = [[name, *row] for name, row in zip(names, report["confusion"], strict=True)]
        measured += "\n\nTrue class (row) and what was said (column):\n\n" + _table(["", *map(_cell, names)], counts)
    trust = "How often is it right when it says so?\n\n" + _table(
        ["probability from", "to", "texts", "mean probability", "share right"],
        [list(row.values()) for row in report["reliability"]],
    )
    if not multi:
        trust += "\n\nWhat declining below a probability costs and brings:\n\n" + _table(
            ["min_probability", "share answered", "accuracy of these"],
            [list(row.values()) for row in report["coverage"]],
        )
    tried = [
        [f"**{row['candidate']}**" if row["candidate"] == report["chosen"] else row["candidate"], row["accuracy"],
         row["log_loss"], row["calibration_error"]]
        for row in report["candidates"]
    ]  # fmt: skip
    return [
        (
            "What it is",
            f"Calibrated probabilities of {len(rows)} classes{', of which a text may have several or none' * multi}, from "
            f"the views {', '.join(f'`{name}`' for name in model.head_.inputs)} of a text. Load it with "
            "`semclass.TextModel.load`, and with the encoder it was trained with.",
        ),
        (
            "How it was made",
            f"`semclass.TextClassifier`, version {__version__}. The setting in bold was chosen by cross-validation, on "
            f"{report['compared']} texts.\n\n"
            + _table(["setting", "accuracy", "log loss", "calibration error"], tried),
        ),
        ("How good it is", measured),
        ("How far to trust it", trust),
    ]
