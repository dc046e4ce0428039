"""How the head that tells whether an index answers a question is fitted."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("sklearn")

from train_answerable import auc, calibrated, fit


def test_a_fit_tells_with_and_without_apart_in_every_domain():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(count, 2, 3)) for count in (40, 400)]
    for part in parts:
        part[:, 0, 1] += 2
    weights, bias = fit(parts)
    assert abs(weights).argmax() == 1
    scores = [part @ weights + bias for part in parts]
    assert min(map(auc, scores)) > 0.85
    slope, intercept = calibrated(scores)
    assert slope == pytest.approx(1, abs=0.2)
    assert intercept == pytest.approx(0, abs=0.2)


def test_the_area_under_the_curve_compares_all_questions():
    assert auc(np.array([[0.9, 0.1], [0.5, 0.7]])) == 0.75
