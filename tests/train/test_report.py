"""Reports on texts that a head has not seen: thresholds for a precision, figures, wrong cases."""

from __future__ import annotations

import numpy as np
import pytest

from semclass.train.fitted import precision_thresholds
from semclass.train.report import Judged, figures, wrong_rows


def calibrated(n=4000, seed=0):
    """Probabilities of two classes that are right as often as they say, and the truth."""
    rng = np.random.default_rng(seed)
    first = rng.beta(0.7, 0.7, n)
    probabilities = np.stack([first, 1 - first], axis=1)
    return probabilities, np.stack([rng.random(n) < first, np.zeros(n)], axis=1).astype(bool)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("wanted", [0.8, 0.9, 0.97])
def test_a_threshold_brings_the_target_precision_to_other_texts(wanted, multi_label):
    probabilities, truth = calibrated()
    truth[:, 1] = ~truth[:, 0]
    found = precision_thresholds(probabilities, truth, wanted, multi_label=multi_label)
    others, right = calibrated(seed=1)
    right[:, 1] = ~right[:, 0]
    for place, threshold in enumerate(found):
        said = (others[:, place] >= threshold) & (multi_label | (others.argmax(axis=1) == place))
        assert right[said, place].mean() == pytest.approx(wanted, abs=0.03)
        assert said.sum() > 500


def test_few_texts_are_judged_by_their_probabilities():
    # one right answer proves little: three others were not sure either
    probabilities = np.array([[0.55, 0.45], [0.54, 0.46], [0.52, 0.48], [0.51, 0.49]])
    truth = np.array([[True, False]] * 4)
    first, second = precision_thresholds(probabilities, truth, 0.9, multi_label=False)
    assert 0.55 < first <= 1
    assert second == 0.9  # nothing was seen: a probability is taken at its word
    sure = precision_thresholds(np.tile([0.97, 0.03], (4, 1)), truth, 0.9, multi_label=False)
    assert sure[0] == 0


def judged(**changes):
    given = {
        "texts": ["a", "b", "c", "d"],
        "labels": [("x",), ("y",), ("y",), ("z",)],
        "places": [1, 2, 3, 4],
        "classes": ("x", "y"),
        "probabilities": np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55]]),
        "label_thresholds": np.array([0.0, 0.6]),
        "multi_label": False,
    }
    return Judged(**{**given, **changes})


def test_figures_count_labels_and_what_was_taken_for_what():
    found = figures(judged(), None)
    assert found["accuracy"] == pytest.approx(2 / 3, abs=1e-4)
    x, y = found["classes"]
    assert (x["examples"], x["precision"], x["recall"], x["threshold"]) == (1, 0.5, 1.0, 0.0)
    assert (y["examples"], y["precision"], y["recall"], y["threshold"]) == (2, 1.0, 0.5, 0.6)
    assert {"label": "y", "predicted": "x", "n": 1} in found["confused"]


def test_a_label_that_the_head_does_not_know_is_no_label():
    found = figures(judged(), None)["ood"]
    assert (found["texts"], found["rejected"], found["others_rejected"]) == (1, 1.0, 0.0)
    assert wrong_rows(judged()) == [1]
    assert wrong_rows(judged(label_thresholds=np.zeros(2))) == [1, 3]


def test_sets_of_labels_are_right_as_a_whole():
    sets = judged(labels=[("x",), ("x", "y"), ("y",), ()], label_thresholds=np.array([0.5, 0.5]), multi_label=True)
    found = figures(sets, 0.9)
    assert found["accuracy"] == 0.5
    assert wrong_rows(sets) == [1, 3]
    assert [row["target_precision"] for row in found["precisions"]] == [0.9, 0.95, 0.99]
