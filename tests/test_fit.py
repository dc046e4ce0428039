"""Heads: fitting, calibration, and the same probabilities from numpy and from the network."""

import sys

import numpy as np
import onnxruntime
import pytest

from semclass.core.errors import InputError, MissingExtraError
from semclass.heads.inputs import PIECES
from semclass.train import fit
from semclass.train.calibration import (
    LINKS,
    best_threshold,
    calibrate,
    expected_calibration_error,
    probabilities_of,
    reliability,
)
from semclass.train.export import head_to_onnx

CLASSES = ("LOC:city", "LOC:other", "NUM:date")
PARENTS = {label: label[:3] for label in CLASSES}


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
    views = {"a": a, "b": b, PIECES: pieces}
    return views, [CLASSES[k] for k in truth]


def run(head, views):
    session = onnxruntime.InferenceSession(head_to_onnx(head), providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {name: views[name] for name in head.inputs})[0]


def without_pieces(views):
    return {name: values for name, values in views.items() if name != PIECES}


SETTINGS = {
    "logistic": {"kind": "logistic"},
    "svm": {"kind": "svm"},
    "parents": {"kind": "svm", "parents": PARENTS},
    "merged": {"kind": "svm", "parents": PARENTS, "merge": True},
    "merged logistic": {"kind": "logistic", "parents": PARENTS, "merge": True},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("with_pieces", [True, False])
def test_network_and_numpy_agree(setting, with_pieces):
    views, labels = questions()
    if not with_pieces:
        views = without_pieces(views)
    head = fit.fit_head(views, labels, folds=3, **SETTINGS[setting])
    new, _ = questions(seed=1)
    expected = fit.head_probabilities(head, new)
    found = run(head, new)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert head.report["rounding_error"] < 1e-4  # from scikit-learn's own scores
    assert found.shape == (150, len(head.classes))
    np.testing.assert_allclose(run(head, {name: values[:1] for name, values in new.items()}), found[:1], atol=1e-6)


def test_logistic_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    views, labels = questions()
    head = fit.fit_head(views, labels, kind="logistic", folds=3)
    strength = float(head.report["chosen"].partition("C=")[2])
    dense = np.concatenate([views["a"], views["b"]], axis=1)
    coordinates = fit._project(dense, 384)(dense)
    model = linear_model.LogisticRegression(C=strength, max_iter=5000, tol=1e-6).fit(coordinates, labels)
    assert tuple(model.classes_) == head.classes
    expected = probabilities_of(head.slope * model.decision_function(coordinates), "softmax")
    np.testing.assert_allclose(run(head, views), expected, atol=1e-4)


def test_kernel_machine_is_scikit_learns():
    kernel_ridge = pytest.importorskip("sklearn.kernel_ridge")
    views, labels = questions()
    views = without_pieces(views)
    head = fit.fit_head(views, labels, kind="svm", folds=3)
    points, texts = head.landmarks.dense(), head.projection(np.concatenate([views["a"], views["b"]], axis=1))
    ridge = float(head.report["chosen"].partition("ridge=")[2].partition(" ")[0])
    targets = np.array([[label == name for name in CLASSES] for label in labels], np.float64)
    model = kernel_ridge.KernelRidge(alpha=ridge, kernel="rbf", gamma=head.gamma)
    scores = model.fit(points, targets - targets.mean(axis=0)).predict(texts) + targets.mean(axis=0)
    np.testing.assert_allclose(run(head, views), probabilities_of(head.slope * scores, "softmax"), atol=1e-4)


@pytest.mark.parametrize("kind", fit.KINDS)
def test_one_class_or_not(kind):
    views, labels = questions()
    truth = [int(label == "NUM:date") for label in labels]
    head = fit.fit_head(views, truth, kind=kind, link="sigmoid", name="NUM", folds=3)
    new, new_labels = questions(seed=0)
    found = run(head, new)
    assert head.classes == ("NUM",)
    assert found.shape == (150, 1)
    np.testing.assert_allclose(found, fit.head_probabilities(head, new), atol=1e-4)
    assert np.mean((found[:, 0] > 0.5) == np.array([label == "NUM:date" for label in new_labels])) > 0.8
    assert head.slope > 0


@pytest.mark.parametrize("link", LINKS)
def test_calibration_does_not_hurt(link):
    views, labels = questions()
    target = labels if link == "softmax" else [int(label == "NUM:date") for label in labels]
    head = fit.fit_head(views, target, link=link, kind="svm", folds=3)
    assert head.report["log_loss"] <= head.report["uncalibrated_log_loss"] + 1e-6
    assert head.report["calibration_error"] < 0.15


def test_ngrams_are_read():
    views, labels = questions(n=300)
    views = {"b": views["b"], PIECES: views[PIECES]}  # the view b says nothing
    head = fit.fit_head(views, labels, kind="svm", folds=3)
    blind = fit.fit_head(without_pieces(views), labels, kind="svm", folds=3)
    assert head.report["accuracy"] > blind.report["accuracy"] + 0.15


def test_a_superclass_has_its_best_classs_score():
    views, labels = questions()
    below = fit.fit_head(views, labels, kind="svm", folds=3, parents=PARENTS)
    above = fit.fit_head(views, labels, kind="svm", folds=3, parents=PARENTS, merge=True)
    assert above.classes == ("LOC", "NUM")
    if below.report["chosen"] == above.report["chosen"]:
        decided = [PARENTS[below.classes[place]] for place in run(below, views).argmax(axis=1)]
        assert decided == [above.classes[place] for place in run(above, views).argmax(axis=1)]
    scores = np.array([[0.1, 0.3, 0.2]])
    assert fit.merged(scores, above.merge).tolist() == [[0.3, 0.2]]
    assert fit.merged(scores, None) is scores


def test_padding_and_unknown_ngrams_add_nothing():
    views, labels = questions()
    head = fit.fit_head(views, labels, kind="svm", folds=3)
    blank = {"a": views["a"][:2], "b": views["b"][:2], PIECES: np.full((2, 8), -1, np.float32)}
    blank[PIECES][1, 0] = 2**24 - 1
    slots, valid = fit.ngram_slots(blank[PIECES].astype(np.int64))
    assert slots.min() >= 0
    assert slots.max() < fit.NGRAM_SLOTS
    assert valid.sum(axis=1).tolist() == [0, 3]
    np.testing.assert_allclose(run(head, blank), fit.head_probabilities(head, blank), atol=1e-4)


def test_the_same_data_gives_the_same_network():
    views, labels = questions()
    before = {name: values.copy() for name, values in views.items()}
    networks = [head_to_onnx(fit.fit_head(views, labels, folds=3, seed=3)) for _ in range(2)]
    assert networks[0] == networks[1]
    for name, values in before.items():
        np.testing.assert_array_equal(views[name], values)


def test_a_class_with_one_example_is_kept():
    views, labels = questions()
    labels[0] = "ABBR:exp"
    for kind in fit.KINDS:
        head = fit.fit_head(views, labels, kind=kind, folds=3)
        assert head.classes == ("ABBR:exp", *CLASSES)
        assert np.isfinite(run(head, views)).all()


def test_two_classes():
    views, labels = questions()
    head = fit.fit_head(views, [PARENTS[label] for label in labels], kind="logistic", folds=3)
    assert head.classes == ("LOC", "NUM")
    np.testing.assert_allclose(run(head, views), fit.head_probabilities(head, views), atol=1e-4)


def test_a_few_labels_are_enough():
    views, _ = questions(n=6)
    head = fit.fit_head(views, [0, 1, 0, 1, 0, 1], link="sigmoid")
    assert head.report["folds"] == 3
    assert np.isfinite(run(head, views)).all()


def test_groups_stay_together():
    views, labels = questions(n=60)
    twice = {name: np.concatenate([values, values]) for name, values in views.items()}
    noise = np.random.default_rng(0).permutation(labels).tolist() * 2
    groups = [str(index) for index in range(60)] * 2
    kept = fit.fit_head(twice, noise, kind="svm", groups=groups, folds=3)
    apart = fit.fit_head(twice, noise, kind="svm", folds=3)
    assert kept.report["accuracy"] < 0.6 < apart.report["accuracy"]


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_folds_hold_each_class(seed):
    """Two examples a class are enough for two folds; with a fold of one class alone, this is refused."""
    head = fit.fit_head({"a": np.eye(4, dtype=np.float32)}, ["x", "y", "x", "y"], kind="logistic", folds=2, seed=seed)
    assert head.report["folds"] == 2


def test_progress_is_told():
    views, labels = questions(n=40)
    lines = []
    fit.fit_head(views, labels, folds=2, progress=lines.append)
    assert len(lines) == 2 + 1 + len(fit.LOGISTIC_STRENGTHS) + len(fit.KERNEL_WIDTHS) * len(fit.KERNEL_RIDGES)


BAD = {
    "one class": ({}, ["x"] * 9, {}, "two classes"),
    "too few": ({}, ["x"] * 8 + ["y"], {}, "two classes"),
    "not names": ({}, [0, 1, 2] * 3, {}, "class names"),
    "not binary": ({}, [0, 1, 2] * 3, {"link": "sigmoid"}, "0 or 1"),
    "no positive": ({}, [0] * 9, {"link": "sigmoid"}, "at least 2"),
    "rows": ({"a": np.zeros((3, 2), np.float32)}, ["x", "y", "z"] * 3, {}, "one row"),
    "not finite": ({"a": np.full((9, 2), np.nan, np.float32)}, ["x", "y", "z"] * 3, {}, "finite"),
    "only pieces": ({"a": None}, ["x", "y", "z"] * 3, {}, "at least one view"),
    "kind": ({}, ["x", "y", "z"] * 3, {"kind": "forest"}, "kind"),
    "link": ({}, ["x", "y", "z"] * 3, {"link": "probit"}, "link"),
    "parent": ({}, ["x", "y", "z"] * 3, {"parents": {"x": "X"}}, "superclass"),
    "merge": ({}, ["x", "y", "z"] * 3, {"merge": True}, "parents"),
    "sigmoid parents": ({}, [0, 1, 0] * 3, {"link": "sigmoid", "parents": {}}, "softmax"),
    "folds": ({}, ["x", "y", "z"] * 3, {"folds": 1}, "folds"),
    "groups": ({}, ["x", "y", "z"] * 3, {"groups": ["g"]}, "groups"),
    "one group": ({}, ["x", "y", "z"] * 3, {"groups": ["g"] * 9}, "group"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(case):
    change, labels, settings, message = BAD[case]
    views = {"a": np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32), PIECES: np.zeros((9, 4), np.float32)}
    views = {name: values for name, values in {**views, **change}.items() if values is not None}
    with pytest.raises(InputError, match=message):
        fit.fit_head(views, labels, **settings)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.model_selection", None)
    views, labels = questions(n=20)
    with pytest.raises(MissingExtraError, match=r'pip install "semclass\[train\]"'):
        fit.fit_head(views, labels)


def test_expected_calibration_error():
    assert expected_calibration_error(np.array([1.0, 1.0]), np.array([True, True])) == 0
    assert expected_calibration_error(np.array([0.8, 0.8]), np.array([True, False])) == pytest.approx(0.3)


# -- weights, judged texts, views with weights, several classes at once -------------------------------------------------


def test_out_of_fold_probabilities_are_what_the_report_tells_of():
    views, labels = questions()
    head = fit.fit_head(views, labels, folds=3)
    said = [head.classes[place] for place in head.out_of_fold.argmax(axis=1)]
    assert np.mean([a == b for a, b in zip(said, labels, strict=True)]) == head.report["accuracy"]
    np.testing.assert_allclose(head.out_of_fold.sum(axis=1), 1)
    assert np.abs(head.out_of_fold - fit.head_probabilities(head, views)).max() > 0.01  # these have seen the texts


@pytest.mark.parametrize("kind", fit.KINDS)
@pytest.mark.parametrize("link", LINKS)
def test_a_weight_is_a_number_of_examples(kind, link):
    views, labels = questions(n=90)
    views = without_pieces(views)
    labels = labels if link == "softmax" else [int(label == "NUM:date") for label in labels]
    weight = np.random.default_rng(5).integers(0, 3, 90)
    rows = np.repeat(np.arange(90), weight)
    # the same folds, whether a text is written twice or has weight 2
    parts = np.arange(90) % 3
    folds = [(np.flatnonzero(parts != k), np.flatnonzero(parts == k)) for k in range(3)]
    again = [(np.flatnonzero(parts[rows] != k), np.flatnonzero(parts[rows] == k)) for k in range(3)]
    weighted = fit.fit_head(views, labels, kind=kind, link=link, sample_weight=weight, folds=folds)
    written = {name: values[rows] for name, values in views.items()}
    repeated = fit.fit_head(written, [labels[row] for row in rows], kind=kind, link=link, folds=again)
    new, _ = questions(seed=1)
    np.testing.assert_allclose(fit.head_probabilities(weighted, new), fit.head_probabilities(repeated, new), atol=1e-4)
    assert weighted.report["chosen"] == repeated.report["chosen"]
    assert np.isnan(weighted.out_of_fold[weight == 0]).all()


def test_texts_that_are_not_judged_are_fitted_on_only():
    views, labels = questions(n=60)
    both = {name: np.concatenate([values, values + (name != PIECES)]) for name, values in views.items()}
    judged = np.arange(120) < 60
    groups = [str(place % 60) for place in range(120)]
    head = fit.fit_head(both, labels * 2, judged=judged, groups=groups, folds=3)
    assert np.isfinite(head.out_of_fold[:60]).all()
    assert np.isnan(head.out_of_fold[60:]).all()
    alone = fit.fit_head(views, labels, folds=3)
    assert np.abs(fit.head_probabilities(head, views) - fit.head_probabilities(alone, views)).max() > 1e-3


@pytest.mark.parametrize("kind", fit.KINDS)
def test_views_can_have_weights(kind):
    views, labels = questions()
    weighted = fit.fit_head(views, labels, kind=kind, folds=3, view_weights={"a": 10.0, "b": 0.01})
    plain = fit.fit_head(views, labels, kind=kind, folds=3)
    if kind == "logistic":  # b is noise; a kernel machine is chosen by accuracy, which is equal here
        assert weighted.report["log_loss"] < plain.report["log_loss"]
    np.testing.assert_allclose(run(weighted, views), fit.head_probabilities(weighted, views), atol=1e-4)
    few = fit.fit_head(views, labels, kind="svm", folds=3, view_weights={"a": 1.0, "b": 1.0}, components=3)
    assert few.landmarks.values.shape == (150, 6)  # three of each view
    # each view has the length that was asked for, times a factor for both
    axes = fit._project(
        np.concatenate([views["a"], views["b"]], axis=1), 12, fit._blocks({"a": 12, "b": 5}, {"a": 4.0, "b": 2.0})
    )
    spread = axes(np.concatenate([views["a"], views["b"]], axis=1)).var(axis=0)
    assert spread[:12].sum() / spread[12:].sum() == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("kind", fit.KINDS)
def test_several_classes_yes_or_no(kind):
    views, labels = questions()
    truth = np.array([[label == name for name in CLASSES] + [label.startswith("LOC"), False] for label in labels], int)
    names = (*CLASSES, "LOC", "never")
    head = fit.fit_head(views, truth, kind=kind, link="sigmoid", name=names, folds=3)
    new, _ = questions(seed=1)
    found = run(head, new)
    assert head.classes == names
    np.testing.assert_allclose(found, fit.head_probabilities(head, new), atol=1e-4)
    assert found[:, 4].max() < 0.1
    assert head.report["accuracy"] > 0.8
    alone = fit.fit_head(views, truth[:, 3], kind=kind, link="sigmoid", name="LOC", folds=3)
    if alone.report["chosen"] == head.report["chosen"]:
        assert np.abs(fit.head_probabilities(alone, new)[:, 0] - found[:, 3]).max() < 0.2  # other folds, the same fit


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


def test_reliability_tells_of_each_bin():
    rows = reliability(np.array([0.05, 0.95, 1.0, 0.92]), np.array([False, True, True, False]))
    assert [(row["from"], row["count"], row["share"]) for row in rows] == [
        (0.0, 1, 0.0),
        (0.9, 3, pytest.approx(2 / 3)),
    ]
    weight = np.array([4.0, 1.0])
    error = expected_calibration_error(np.array([0.8, 0.8]), np.array([True, False]), weight=weight)
    assert error == pytest.approx(0)


WRONG = {
    "weights": ({"sample_weight": np.ones(5)}, "sample_weight has shape"),
    "negative": ({"sample_weight": -np.ones(9)}, "at least 0"),
    "one class has weight": ({"sample_weight": np.arange(9) % 3 == 0}, "sample_weight above 0"),
    "judged": ({"judged": np.zeros(9, bool)}, "judged"),
    "views": ({"view_weights": {"b": 1.0}}, "view_weights"),
    "no fold": ({"folds": []}, "score no text"),
    "far rows": ({"folds": [([0, 1], [9])]}, "rows go from 0 to 8"),
    "names": ({"link": "sigmoid", "name": ("x", "y")}, "2 names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_refused(case):
    settings, message = WRONG[case]
    views = {"a": np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)}
    labels = [0, 1, 0] * 3 if "link" in settings else ["x", "y", "z"] * 3
    with pytest.raises(InputError, match=message):
        fit.fit_head(views, labels, **settings)


def test_a_class_for_every_two_texts_is_no_cause_for_warnings():
    labels = [f"class {number}" for number in range(20) for _ in range(2)]
    views = {"x": np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)}
    assert len(fit.fit_head(views, labels, kind="logistic", folds=2).classes) == 20  # warnings are errors here


# -- a choice of views --------------------------------------------------------------------------------------------------


def test_cross_validation_chooses_the_views_and_the_network_reads_no_others():
    views, labels = questions()
    noise, telling = fit.Choice({"b": 1.0}, "logistic"), fit.Choice({"a": 1.0}, "logistic")
    head = fit.fit_head(views, labels, folds=3, choices=[noise, telling])
    assert dict(head.inputs) == {"a": 12}
    assert head.report["chosen"].endswith("over a")
    assert len(head.report["candidates"]) == 2 * len(fit.LOGISTIC_STRENGTHS)
    alone = fit.fit_head({"a": views["a"]}, labels, kind="logistic", folds=3, choices=[telling])
    np.testing.assert_array_equal(run(head, views), run(alone, views))
    both = fit.fit_head(views, labels, folds=3, choices=[fit.Choice({"a": 2.0, "b": 0.1}, "svm")])
    np.testing.assert_allclose(run(both, views), fit.head_probabilities(both, views), atol=1e-4)


def test_what_lost_on_enough_texts_is_not_fitted_again(monkeypatch):
    views, labels = questions()
    choices = [fit.Choice({"a": 1.0}, "logistic"), fit.Choice({"b": 1.0}, "logistic")]
    everywhere = fit.fit_head(views, labels, folds=5, choices=choices)
    assert everywhere.report["compared"] == 150
    monkeypatch.setattr(fit, "COMPARED", 50)
    lines = []
    head = fit.fit_head(views, labels, folds=5, choices=choices, progress=lines.append)
    assert head.report["compared"] == 60  # two folds of 30
    assert [line.rpartition(": ")[2] for line in lines if line.startswith("fold")] == ["8 settings"] * 2 + [
        "1 setting"
    ] * 3
    assert np.isfinite(head.out_of_fold).all()  # calibrated on every text all the same
    said = [head.classes[place] for place in head.out_of_fold.argmax(axis=1)]
    assert head.report["accuracy"] == np.mean([a == b for a, b in zip(said, labels, strict=True)])


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"c": 1.0}, {PIECES: 1.0}])
def test_a_choice_names_views_that_are_there(weights):
    views, labels = questions(n=30)
    with pytest.raises(InputError, match="choice"):
        fit.fit_head(views, labels, folds=2, choices=[fit.Choice(weights)])
    with pytest.raises(InputError, match="choices"):
        fit.fit_head(views, labels, folds=2, choices=[])
