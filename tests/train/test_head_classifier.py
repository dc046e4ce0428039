"""A classifier of vectors is an estimator like scikit-learn's own."""

import numpy as np
import onnxruntime
import pytest
from sklearn.model_selection import LeaveOneOut
from sklearn.utils.estimator_checks import parametrize_with_checks

from semclass import HeadClassifier
from semclass.train.export import head_to_onnx


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([HeadClassifier("logistic", cv=2), HeadClassifier("svm", cv=2)])
def test_numeric_heads_are_scikit_learn_estimators(estimator, check):
    check(estimator)


def test_a_head_of_vectors_can_be_written_as_a_network():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)).astype(np.float32), rng.integers(10, 13, 60)
    X[:, 0] += y
    model = HeadClassifier("svm", cv=3).fit(X, y)
    session = onnxruntime.InferenceSession(head_to_onnx(model.head_), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"features": X})[0], model.predict_proba(X), atol=1e-4)
    assert model.predict(X).dtype == y.dtype
    assert model.head_.classes == ("10", "11", "12")
    assert model.score(X, y) > 0.6


def test_folds_may_be_a_splitter_of_scikit_learn():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    assert HeadClassifier("logistic", cv=LeaveOneOut()).fit(X, y).head_.report["folds"] == 20
