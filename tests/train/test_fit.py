"""Fitting: the same probabilities from numpy, from scikit-learn and from the network; folds, choices of views."""

import numpy as np
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from semclass.core.errors import InputError
from semclass.train import fit
from semclass.train.fit import Choice, Targets, fit_problem, problem_of, space_of
from semclass.train.fitted import head_probabilities, head_scores, head_to_onnx, probabilities_of

CLASSES = ("LOC:city", "LOC:other", "NUM:date")
BOTH = {"a": 1.0, "b": 0.2}


def questions(n=150, seed=0):
    """Three overlapping classes in the first of two views."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    centres = np.random.default_rng(9).normal(size=(3, 12))
    a = (centres[truth] + rng.normal(size=(n, 12))).astype(np.float32)
    b = (7 + 100 * rng.normal(size=(n, 5))).astype(np.float32)
    return {"a": a, "b": b}, [CLASSES[k] for k in truth]


def fitted(views, labels, *, link="softmax", choices=None, groups=None, **options):
    problem = problem_of(views, Targets.of(labels, multi_label=link == "sigmoid"))
    groups = list(map(str, range(len(labels)))) if groups is None else groups
    options = {"folds": 3, "seed": 0, "say": lambda line: None, **options}
    return fit_problem(problem, choices or [Choice(BOTH)], groups, **options)


def run(head, views):
    session = onnxruntime.InferenceSession(head_to_onnx(head), providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {name: views[name] for name in head.inputs})[0]


def strength_of(head):
    return float(head.report["chosen"].partition("C=")[2])


def test_network_and_numpy_agree():
    views, labels = questions()
    head = fitted(views, labels)
    new, _ = questions(seed=1)
    found = run(head, new)
    np.testing.assert_allclose(found, head_probabilities(head, new), atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert found.shape == (150, len(head.classes))


def test_heads_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(fit, "TOLERANCE", 1e-12)
    monkeypatch.setattr(fit, "MAX_STEPS", 2000)
    views, labels = questions()
    head = fitted(views, labels)
    space = space_of(problem_of(views, Targets.of(labels, multi_label=False)), Choice(BOTH), 3000)
    rows = space.projection(np.concatenate([views["a"], views["b"]], axis=1))
    points = head.landmarks.dense()
    between = rbf_kernel(points, gamma=head.gamma) + 1e-5 * np.eye(len(points))
    rows = np.linalg.solve(np.linalg.cholesky(between), rbf_kernel(rows, points, gamma=head.gamma).T).T
    options = {"C": strength_of(head), "tol": 1e-8, "max_iter": 20000}
    scores = LogisticRegression(**options).fit(rows, labels).decision_function(rows)
    found = head_scores(head, views)
    gaps = [given - given.mean(axis=1, keepdims=True) for given in (found, scores)]
    np.testing.assert_allclose(*gaps, atol=0.03)
    expected = probabilities_of(head.slope * scores, "softmax")
    np.testing.assert_allclose(run(head, views), expected, atol=0.01)


def test_the_same_data_gives_the_same_network():
    views, labels = questions()
    before = {name: values.copy() for name, values in views.items()}
    networks = [head_to_onnx(fitted(views, labels, seed=3)) for _ in range(2)]
    assert networks[0] == networks[1]
    for name, values in before.items():
        np.testing.assert_array_equal(views[name], values)


def test_a_class_with_one_example_is_kept():
    views, labels = questions()
    head = fitted(views, ["ABBR:exp", *labels[1:]])
    assert head.classes == ("ABBR:exp", *CLASSES)
    assert np.isfinite(run(head, views)).all()


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_folds_hold_each_class(seed):
    """Two examples a class are enough for two folds; with a fold of one class alone, this is refused."""
    head = fitted({"a": np.eye(4, dtype=np.float32)}, ["x", "y"] * 2, choices=[Choice({"a": 1.0})], folds=2, seed=seed)
    assert head.report["folds"] == 2


XYZ = ["x", "y", "z"] * 3
BAD = {
    "too few": (["x"] * 8 + ["y"], {}, "two different examples"),
    "folds": (XYZ, {"folds": 1}, "folds"),
    "one group": (XYZ, {"groups": ["g"] * 9}, "two different examples"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(case):
    labels, settings, message = BAD[case]
    views = {"a": np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)}
    with pytest.raises(InputError, match=message):
        fitted(views, labels, choices=[Choice({"a": 1.0})], **settings)


# -- held-out probabilities, several classes at once -------------------------------------------------


def test_the_report_is_made_of_held_out_probabilities():
    views, labels = questions()
    head = fitted(views, labels)
    said = [head.classes[place] for place in head.out_of_fold.argmax(axis=1)]
    assert np.mean([a == b for a, b in zip(said, labels, strict=True)]) == head.report["accuracy"]
    np.testing.assert_allclose(head.out_of_fold.sum(axis=1), 1)
    assert np.abs(head.out_of_fold - head_probabilities(head, views)).max() > 0.01  # these have seen the texts
    assert head.report["log_loss"] <= head.report["uncalibrated_log_loss"] + 1e-6


def test_several_classes_yes_or_no():
    views, labels = questions()
    truth = [(label, label.partition(":")[0]) for label in labels]
    head = fitted(views, truth, link="sigmoid")
    new, _ = questions(seed=1)
    found = run(head, new)
    assert head.classes == ("LOC", "LOC:city", "LOC:other", "NUM", "NUM:date")
    np.testing.assert_allclose(found, head_probabilities(head, new), atol=1e-4)
    assert head.report["accuracy"] > 0.8


# -- a choice of views --------------------------------------------------------------------------------------------------


def test_the_network_reads_the_chosen_views_alone():
    views, labels = questions()
    head = fitted(views, labels, choices=[Choice({"b": 1.0}), Choice({"a": 1.0})])
    assert dict(head.inputs) == {"a": 12}
    assert "over a" in head.report["chosen"]
    assert {row["candidate"].split(",")[0] for row in head.report["candidates"]} == {"kernel over b", "kernel over a"}


def test_settings_are_compared_on_a_part_of_many_texts(monkeypatch):
    views, labels = questions()
    monkeypatch.setattr(fit, "SEARCH_TEXTS", 60)
    head = fitted(views, labels)
    assert head.report["compared"] == 60  # in three folds of three
    assert np.isfinite(head.out_of_fold).all()  # calibrated on every text all the same
