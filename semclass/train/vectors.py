"""Train classifiers on vectors and labels of your own, with scikit-learn's interface (extra ``train``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray
from semclass.train.fit import fit_head
from semclass.train.fitted import FittedHead, head_probabilities
from semclass.train.solvers import affordable_kind
from semclass.train.text_data import column_names

_base, _validation = (import_extra(f"sklearn.{name}", "train") for name in ("base", "utils.validation"))


class HeadClassifier(_base.ClassifierMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A calibrated classifier of vectors, as a scikit-learn estimator.

    semclass trains its own heads with this estimator.

    Parameters
    ----------
    kind
        ``"logistic"``, ``"svm"`` or ``"auto"``. With ``"auto"``, cross-validation chooses between the two. With fewer
        than 300 or more than 10,000 examples, ``"auto"`` is ``"logistic"``.
    cv
        Folds for the choice of `kind` and for calibration: a number, a splitter of scikit-learn, or pairs of rows.
    seed
        Seed of the folds, if `cv` is a number.

    Attributes
    ----------
    classes_
        The labels, sorted, of shape (n_classes,).
    head_
        The fitted head. :func:`semclass.train.export.head_to_onnx` writes it as a network with the input ``features``.
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
            X: array of shape (n, n_features), converted to float32. y: n labels, one for each row of X.
        sample_weight
            The weights of :meth:`semclass.TextClassifier.fit`.

        Raises
        ------
        InputError
            For the same reasons as in :meth:`semclass.TextClassifier.fit`.
        ValueError
            From scikit-learn, if X is not a matrix of finite numbers.
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
        self.head_: FittedHead = replace(head, classes=tuple(str(name) for name in self.classes_.tolist()))
        return self

    def predict_proba(self, X: Any) -> DoubleArray:
        """Return calibrated probabilities, float64 of shape (n, n_classes), with columns in the order of `classes_`."""
        _validation.check_is_fitted(self)
        X = _validation.validate_data(self, X, reset=False, dtype=np.float32)
        return head_probabilities(self.head_, {"features": X})

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable labels, of shape (n,)."""
        best = self.predict_proba(X).argmax(axis=1)  # first, as it says whether there are classes
        found: npt.NDArray[Any] = self.classes_[best]
        return found
