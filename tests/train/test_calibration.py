"""From held-out scores to probabilities that can be trusted, and thresholds."""

import numpy as np
import pytest

from semclass.train.fitted import (
    best_threshold,
    calibrate,
    expected_calibration_error,
    probabilities_of,
    reliability,
)


def test_few_texts_that_are_all_right_make_nothing_certain():
    scores = np.array([[9.0, 0.0]] * 4 + [[0.0, 9.0]] * 4)
    slope, intercept = calibrate(scores, np.repeat([0, 1], 4), "softmax")
    assert probabilities_of(slope * scores + intercept, "softmax").max(axis=1) == pytest.approx(
        np.full(8, 0.9), abs=1e-3
    )
    slope, intercept = calibrate(scores[:, :1], np.repeat([1, 0], 4)[:, None], "sigmoid")
    assert probabilities_of(slope * scores[:, :1] + intercept, "sigmoid").max() == pytest.approx(5 / 6, abs=1e-2)


def test_thresholds_are_in_the_middle_of_the_good_ones():
    probabilities = np.array([0.9, 0.8, 0.3, 0.1])
    assert best_threshold(probabilities, np.array([True, True, False, False])) == pytest.approx(0.55)
    assert best_threshold(probabilities, np.array([True] * 4)) < 0.1


def test_reliability_and_calibration_error():
    rows = reliability(np.array([0.05, 0.95, 1.0, 0.92]), np.array([False, True, True, False]))
    assert [(row["from"], row["count"], row["share"]) for row in rows] == [
        (0.0, 1, 0.0),
        (0.9, 3, pytest.approx(2 / 3)),
    ]
    found = expected_calibration_error(np.array([0.8, 0.8]), np.array([True, False]))
    assert found == pytest.approx(0.3)
