"""Fitting: the same probabilities from numpy, from scikit-learn and from the network; folds, weights, choices of views."""

import sys

import numpy as np
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from semclass.core.errors import InputError, MissingExtraError
from semclass.heads.head import LINKS
from semclass.heads.inputs import PIECES
from semclass.train import fit
from semclass.train.calibration import probabilities_of
from semclass.train.data import problem_of
from semclass.train.export import head_to_onnx
from semclass.train.fit import Choice, fit_head
from semclass.train.fitted import NGRAM_SLOTS, head_probabilities, ngram_slots
from semclass.train.solvers import KINDS, LOGISTIC_STRENGTHS, Limits, project, space_of

CLASSES = ("LOC:city", "LOC:other", "NUM:date")


def questions(n=150, seed=0):
    """Three overlapping classes in two views, and word pieces of which the first tells the class half of the time."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    centres = rng.normal(size=(3, 12))
    a = (centres[truth] + 1.5 * rng.normal(size=(n, 12))).astype(np.float32)
    b = (7 + 100 * rng.normal(size=(n, 5))).astype(np.float32)
    pieces = rng.integers(0, 40, (n, 8)).astype(np.float32)
    pieces[:, 0] = np.where(rng.random(n) < 0.5, 30000 + truth, pieces[:, 0])
    pieces[np.arange(8) >= rng.integers(1, 9, n)[:, None]] = -1
    return {"a": a, "b": b, PIECES: pieces}, [CLASSES[k] for k in truth]


def run(head, views):
    session = onnxruntime.InferenceSession(head_to_onnx(head), providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {name: views[name] for name in head.inputs})[0]


def is_date(labels):
    """Labels of a sigmoid head of one class."""
    return np.array([[label == "NUM:date"] for label in labels], int)


def without_pieces(views):
    return {name: values for name, values in views.items() if name != PIECES}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_pieces", [True, False])
def test_network_and_numpy_agree(kind, with_pieces):
    views, labels = questions()
    head = fit_head(views if with_pieces else without_pieces(views), labels, kind=kind, folds=3)
    new, _ = questions(seed=1)
    found = run(head, new)
    np.testing.assert_allclose(found, head_probabilities(head, new), atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert found.shape == (150, len(head.classes))


def test_logistic_is_scikit_learns():
    views, labels = questions()
    head = fit_head(views, labels, kind="logistic", folds=3)
    strength = float(head.report["chosen"].partition("C=")[2])
    dense = np.concatenate([views["a"], views["b"]], axis=1)
    coordinates = project(dense, [(slice(0, 17), 1.0)])(dense)
    model = LogisticRegression(C=strength, max_iter=5000, tol=1e-6).fit(coordinates, labels)
    expected = probabilities_of(head.slope * model.decision_function(coordinates), "softmax")
    np.testing.assert_allclose(run(head, views), expected, atol=1e-4)


def test_a_column_that_hardly_varies_leaves_the_others_as_they_are():
    dense = np.random.default_rng(0).normal(size=(100, 6))
    blocks = [(slice(0, 6), 1.0)]
    plain = project(dense, blocks)(dense)
    dense[:, 2] = 5 + 1e-5 * dense[:, 2]
    found = project(dense, blocks)(dense)
    distances, others = (np.linalg.norm(rows[:, None] - rows[None], axis=2) for rows in (found, plain))
    assert np.corrcoef(distances.ravel(), others.ravel())[0, 1] > 0.9


def as_features(kernel, between):
    """What a linear machine reads where a kernel machine reads a kernel."""
    return np.linalg.solve(np.linalg.cholesky(between + 1e-9 * np.eye(len(between))), kernel.T).T


@pytest.mark.parametrize("weighted", [False, True])
def test_support_vector_machine_is_scikit_learns(weighted):
    views, labels = questions()
    weight = np.random.default_rng(1).integers(1, 4, 150) if weighted else np.ones(150)
    head = fit_head(views, labels, kind="svm", folds=3, sample_weight=weight if weighted else None)
    space = space_of(problem_of(views, labels, sample_weight=weight), np.arange(150), kernel=True)
    points, texts = head.landmarks.dense(), head.projection(np.concatenate([views["a"], views["b"]], axis=1))
    ngrams = (space.ngrams.features @ space.ngrams.features.T).toarray()
    fitted, asked = (rbf_kernel(rows, points, gamma=head.gamma) + ngrams for rows in (points, texts))
    strength = float(head.report["chosen"].partition("C=")[2].partition(" ")[0])
    model = LinearSVC(C=strength, dual=False, tol=1e-8).fit(as_features(fitted, fitted), labels, weight)
    scores = model.decision_function(as_features(asked, fitted))
    np.testing.assert_allclose(run(head, views), probabilities_of(head.slope * scores, "softmax"), atol=0.01)


@pytest.mark.parametrize("with_pieces", [True, False])
def test_a_machine_with_fewer_landmarks_is_smaller_and_nearly_the_same(with_pieces):
    views, labels = questions()
    views = views if with_pieces else without_pieces(views)
    whole, small = (
        fit_head(views, labels, kind="svm", folds=3, limits=limits)
        for limits in (None, Limits(components=12, landmarks=149, ngrams=100))
    )
    assert small.landmarks.values.shape == (149, 12)
    assert not with_pieces or len(small.ngrams.weights.values) <= 101
    new, _ = questions(seed=1)
    found = head_probabilities(small, new)
    np.testing.assert_allclose(run(small, new), found, atol=1e-4)
    assert np.mean(found.argmax(axis=1) == head_probabilities(whole, new).argmax(axis=1)) > 0.8
    every, one_less = (fit_head(views, labels, kind="svm", folds=3, limits=Limits(landmarks=n)) for n in (150, 149))
    np.testing.assert_allclose(head_probabilities(one_less, new), head_probabilities(every, new), atol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_or_not(kind):
    views, labels = questions()
    head = fit_head(views, is_date(labels), kind=kind, link="sigmoid", names=["NUM"], folds=3)
    found = run(head, views)
    assert head.classes == ("NUM",)
    np.testing.assert_allclose(found, head_probabilities(head, views), atol=1e-4)
    assert np.mean((found > 0.5) == is_date(labels)) > 0.8


def test_ngrams_are_read():
    views, labels = questions(n=300)
    views = {"b": views["b"], PIECES: views[PIECES]}  # the view b says nothing
    head = fit_head(views, labels, kind="svm", folds=3)
    blind = fit_head(without_pieces(views), labels, kind="svm", folds=3)
    assert head.report["accuracy"] > blind.report["accuracy"] + 0.15


def test_padding_and_unknown_ngrams_add_nothing():
    views, labels = questions()
    head = fit_head(views, labels, kind="svm", folds=3)
    blank = {"a": views["a"][:2], "b": views["b"][:2], PIECES: np.full((2, 8), -1, np.float32)}
    blank[PIECES][1, 0] = 2**24 - 1
    slots, valid = ngram_slots(blank[PIECES].astype(np.int64))
    assert slots.min() >= 0
    assert slots.max() < NGRAM_SLOTS
    assert valid.sum(axis=1).tolist() == [0, 3]
    np.testing.assert_allclose(run(head, blank), head_probabilities(head, blank), atol=1e-4)


def test_the_same_data_gives_the_same_network():
    views, labels = questions()
    before = {name: values.copy() for name, values in views.items()}
    networks = [head_to_onnx(fit_head(views, labels, folds=3, seed=3)) for _ in range(2)]
    assert networks[0] == networks[1]
    for name, values in before.items():
        np.testing.assert_array_equal(views[name], values)


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_with_one_example_is_kept(kind):
    views, labels = questions()
    head = fit_head(views, ["ABBR:exp", *labels[1:]], kind=kind, folds=3)
    assert head.classes == ("ABBR:exp", *CLASSES)
    assert np.isfinite(run(head, views)).all()


def test_a_few_labels_are_enough():
    views, _ = questions(n=6)
    head = fit_head(views, [[0], [1]] * 3, link="sigmoid", names=["yes"])
    assert head.report["folds"] == 3
    assert np.isfinite(run(head, views)).all()


def test_groups_stay_together():
    views, labels = questions(n=60)
    twice = {name: np.concatenate([values, values]) for name, values in views.items()}
    noise = np.random.default_rng(0).permutation(labels).tolist() * 2
    groups = [str(index) for index in range(60)] * 2
    kept = fit_head(twice, noise, kind="svm", groups=groups, folds=3)
    apart = fit_head(twice, noise, kind="svm", folds=3)
    assert kept.report["accuracy"] < 0.6 < apart.report["accuracy"]


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_folds_hold_each_class(seed):
    """Two examples a class are enough for two folds; with a fold of one class alone, this is refused."""
    head = fit_head({"a": np.eye(4, dtype=np.float32)}, ["x", "y", "x", "y"], kind="logistic", folds=2, seed=seed)
    assert head.report["folds"] == 2


XYZ = ["x", "y", "z"] * 3
SIGMOID = {"link": "sigmoid", "names": "x"}
BAD = {
    "one class": ({}, ["x"] * 9, {}, "two classes"),
    "too few": ({}, ["x"] * 8 + ["y"], {}, "two classes"),
    "not names": ({}, [0, 1, 2] * 3, {}, "must be strings"),
    "not binary": ({}, [[0], [1], [2]] * 3, SIGMOID, "0 or 1"),
    "no positive": ({}, [[0]] * 9, SIGMOID, "at least 2 of each"),
    "ragged": ({}, [[0], [1, 1], [0]] * 3, SIGMOID, "0 or 1 for each"),
    "names": ({}, [[0], [1], [0]] * 3, {"link": "sigmoid", "names": ("x", "y")}, "2 different names"),
    "rows": ({"a": np.zeros((3, 2), np.float32)}, XYZ, {}, "one row"),
    "not finite": ({"a": np.full((9, 2), np.nan, np.float32)}, XYZ, {}, "finite"),
    "only pieces": ({"a": None}, XYZ, {}, "at least one view"),
    "kind": ({}, XYZ, {"kind": "forest"}, "kind"),
    "link": ({}, XYZ, {"link": "probit"}, "link"),
    "folds": ({}, XYZ, {"folds": 1}, "folds"),
    "groups": ({}, XYZ, {"groups": ["g"]}, "groups"),
    "one group": ({}, XYZ, {"groups": ["g"] * 9}, "group"),
    "weights": ({}, XYZ, {"sample_weight": np.ones(5)}, "sample_weight has shape"),
    "negative": ({}, XYZ, {"sample_weight": -np.ones(9)}, "at least 0"),
    "one weighs": ({}, XYZ, {"sample_weight": np.arange(9) % 3 == 0}, "sample_weight above 0"),
    "no fold": ({}, XYZ, {"folds": []}, "hold out no text"),
    "far rows": ({}, XYZ, {"folds": [([0, 1], [9])]}, "rows are 0 to 8"),
    "no choice": ({}, XYZ, {"choices": []}, "choices"),
    "choice of no length": ({}, XYZ, {"choices": [Choice({"a": 0.0})]}, "choice"),
    "choice of no view": ({}, XYZ, {"choices": [Choice({"c": 1.0})]}, "choice"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(case):
    change, labels, settings, message = BAD[case]
    views = {"a": np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32), PIECES: np.zeros((9, 4), np.float32)}
    views = {name: values for name, values in {**views, **change}.items() if values is not None}
    with pytest.raises(InputError, match=message):
        fit_head(views, labels, **settings)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    views, labels = questions(n=20)
    with pytest.raises(MissingExtraError, match=r'pip install "semclass\[train\]"'):
        fit_head(views, labels)


# -- weights, several classes at once, given folds  -------------------------------------------------


def test_out_of_fold_probabilities_are_what_the_report_is_made_of():
    views, labels = questions()
    head = fit_head(views, labels, folds=3)
    said = [head.classes[place] for place in head.out_of_fold.argmax(axis=1)]
    assert np.mean([a == b for a, b in zip(said, labels, strict=True)]) == head.report["accuracy"]
    np.testing.assert_allclose(head.out_of_fold.sum(axis=1), 1)
    assert np.abs(head.out_of_fold - head_probabilities(head, views)).max() > 0.01  # these have seen the texts
    assert head.report["log_loss"] <= head.report["uncalibrated_log_loss"] + 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_a_weight_is_a_number_of_examples(kind, link):
    views, labels = questions(n=90)
    views = without_pieces(views)
    labels = labels if link == "softmax" else is_date(labels).tolist()
    weight = np.random.default_rng(5).integers(0, 3, 90)
    rows = np.repeat(np.arange(90), weight)
    # the same folds, whether a text is written twice or has weight 2
    parts = np.arange(90) % 3
    folds = [(np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in range(3)]
    again = [(np.flatnonzero(parts[rows] != k), np.flatnonzero(parts[rows] == k)) for k in range(3)]
    weighted = fit_head(views, labels, kind=kind, link=link, names=["NUM"], sample_weight=weight, folds=folds)
    written = {name: values[rows] for name, values in views.items()}
    repeated = fit_head(written, [labels[row] for row in rows], kind=kind, link=link, names=["NUM"], folds=again)
    new, _ = questions(seed=1)
    close = 5e-3 if kind == "svm" else 1e-4  # its solver takes steps, and stops where they are small
    np.testing.assert_allclose(head_probabilities(weighted, new), head_probabilities(repeated, new), atol=close)
    assert weighted.report["chosen"] == repeated.report["chosen"]
    assert np.isnan(weighted.out_of_fold[weight == 0]).all()


def test_texts_that_no_fold_scores_are_fitted_on_only():
    views, labels = questions(n=60)
    both = {name: np.concatenate([values, values + (name != PIECES)]) for name, values in views.items()}
    parts = np.arange(120) % 3
    folds = [(np.flatnonzero(parts != k), np.flatnonzero((parts == k) & (np.arange(120) < 60))) for k in range(3)]
    head = fit_head(both, labels * 2, folds=folds)
    assert np.isfinite(head.out_of_fold[:60]).all()
    assert np.isnan(head.out_of_fold[60:]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_several_classes_yes_or_no(kind):
    views, labels = questions()
    truth = np.array([[label == name for name in CLASSES] + [label.startswith("LOC"), False] for label in labels], int)
    names = (*CLASSES, "LOC", "never")
    head = fit_head(views, truth, kind=kind, link="sigmoid", names=names, folds=3)
    new, _ = questions(seed=1)
    found = run(head, new)
    assert head.classes == names
    np.testing.assert_allclose(found, head_probabilities(head, new), atol=1e-4)
    assert found[:, 4].max() < 0.1
    assert head.report["accuracy"] > 0.8


def test_a_class_for_every_two_texts_is_no_cause_for_warnings():
    labels = [f"class {number}" for number in range(20) for _ in range(2)]
    views = {"x": np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)}
    assert len(fit_head(views, labels, kind="logistic", folds=2).classes) == 20  # warnings are errors here


# -- a choice of views --------------------------------------------------------------------------------------------------


def test_each_view_of_a_choice_has_its_length_and_components_of_its_own():
    views, labels = questions()
    over = problem_of(views, labels).over({"a": 4.0, "b": 2.0})
    spread = project(over.dense, over.blocks)(over.dense).var(axis=0)
    assert spread[:12].sum() / spread[12:].sum() == pytest.approx(4.0, rel=0.05)
    few = fit_head(views, labels, folds=3, choices=[Choice({"a": 1.0, "b": 1.0}, "svm")], limits=Limits(components=3))
    assert few.landmarks.values.shape == (150, 6)  # three of each view


def test_cross_validation_chooses_the_views_and_the_network_reads_no_others():
    views, labels = questions()
    noise, telling = Choice({"b": 1.0}, "logistic"), Choice({"a": 1.0}, "logistic")
    head = fit_head(views, labels, folds=3, choices=[noise, telling])
    assert dict(head.inputs) == {"a": 12}
    assert head.report["chosen"].endswith("over a")
    assert len(head.report["candidates"]) == 2 * len(LOGISTIC_STRENGTHS)
    both = fit_head(views, labels, folds=3, choices=[Choice({"a": 2.0, "b": 0.1}, "svm")])
    np.testing.assert_allclose(run(both, views), head_probabilities(both, views), atol=1e-4)


def test_what_lost_on_enough_texts_is_not_fitted_again(monkeypatch):
    views, labels = questions()
    choices = [Choice({"a": 1.0}, "logistic"), Choice({"b": 1.0}, "logistic")]
    monkeypatch.setattr(fit, "COMPARED", 50)
    lines = []
    head = fit_head(views, labels, folds=5, choices=choices, progress=lines.append)
    assert head.report["compared"] == 60  # two folds of 30
    told = [line.rpartition(": ")[2] for line in lines if line.startswith("fold")]
    assert told == ["8 settings"] * 2 + ["1 setting"] * 3
    assert np.isfinite(head.out_of_fold).all()  # calibrated on every text all the same
