"""What systems are measured with, on answers that can be checked by hand."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.metrics import f1_score

from bench import measures


def test_an_answer_that_names_no_class_is_wrong():
    found = measures.of_classes(["HUM", "LOC", "HUM", "NUM"], ["HUM", None, "HUM", "no idea"])
    assert (found["items"], found["accuracy"]) == (4, 0.5)
    assert found["macro_f1"] == pytest.approx(1 / 3, abs=1e-4)  # HUM 1, LOC 0, NUM 0


def test_the_interval_holds_the_figure_and_says_nothing_of_luck_where_all_is_right():
    rng = np.random.default_rng(0)
    truth = rng.choice(["a", "b", "c"], 300).tolist()
    said = [name if rng.random() < 0.8 else "a" for name in truth]
    found = measures.of_classes(truth, said)
    for name in ("accuracy", "macro_f1"):
        low, high = found[f"{name}_ci"]
        assert low < found[name] < high
        assert high - low < 0.12
    assert measures.of_classes(truth, truth)["macro_f1_ci"] == [1.0, 1.0]
    assert measures.of_classes(truth, said) == found


def test_yes_or_no_has_f1_of_yes_and_a_curve_where_there_are_scores():
    truth, scores = np.array([True, True, False, False] * 20), np.array([0.9, 0.4, 0.3, 0.2] * 20)
    found = measures.of_answers(truth, scores >= 0.5, scores)
    assert (found["accuracy"], found["auc"], found["f1"]) == (0.75, 1.0, pytest.approx(2 / 3, abs=1e-4))
    assert "auc" not in measures.of_answers(truth, scores >= 0.5)


def test_what_is_not_known_or_not_answered_counts_for_no_class():
    truth = np.array([[1, 0], [1, np.nan], [0, 1], [0, 1]], float)
    said = np.array([[1, 0], [0, 1], [0, 1], [np.nan, 0]], float)
    found = measures.of_several(truth, [said])
    assert found["decisions"] == 6
    assert found["f1_by_class"] == [
        round(f1_score([1, 1, 0], [1, 0, 0]), 4),
        round(f1_score([0, 1, 1], [0, 1, 0]), 4),
    ]
    assert found["macro_f1"] == pytest.approx(np.mean(found["f1_by_class"]), abs=1e-4)
    assert measures.of_several(truth, [said, said])["macro_f1_ci"] == found["macro_f1_ci"]


def test_few_items_leave_no_interval_without_a_number():
    found = measures.of_answers(np.array([True] + [False] * 5), np.zeros(6, bool), np.arange(6))
    assert all(np.isfinite(bound) for name, value in found.items() if name.endswith("_ci") for bound in value)
