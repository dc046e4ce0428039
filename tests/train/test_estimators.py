"""Your own taxonomy: estimators that train on texts and labels, and the light model that runs what they saved."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from world import ROOT, FakeEncoder

from semclass import (
    ABSTAIN,
    EncoderMismatchError,
    InputError,
    InputTypeError,
    TextClassifier,
    TextModel,
)

WORDS = {
    "boat": "harbour sail mast anchor rope",
    "cake": "flour sugar butter oven cream",
    "song": "tune choir verse drum",
}
ENCODER = FakeEncoder()


def corpus(each=12, seed=0):
    """Texts of three words: two of the class, one of any."""
    rng = np.random.default_rng(seed)
    everything = " ".join(WORDS.values()).split()
    rows = [
        (" ".join([*rng.choice(words.split(), 2), rng.choice(everything)]), label)
        for label, words in WORDS.items()
        for _ in range(each)
    ]
    return [text for text, _ in rows], [label for _, label in rows]


TEXTS, LABELS = corpus()


def classifier(**settings):
    return TextClassifier(ENCODER, **{"cv": 3, **settings})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(TEXTS, LABELS)


# -- texts ------------------------------------------------------------------------------------------------------------


def test_what_is_saved_gives_the_same_probabilities(tmp_path):
    model = classifier(target_precision=0.9).fit(TEXTS, LABELS)
    manifest = json.loads(model.save(tmp_path / "head").read_text())
    loaded = TextModel.load(tmp_path / "head", encoder=ENCODER)
    np.testing.assert_allclose(loaded.predict_proba(TEXTS), model.predict_proba(TEXTS), atol=1e-4)
    assert [found.label for found in loaded.classify(TEXTS)] == model.predict(TEXTS).tolist()
    assert loaded.predict([]) == []
    np.testing.assert_allclose(loaded.label_thresholds, model.label_thresholds_, atol=1e-6)
    assert manifest["metrics"]["cross_validation"] == model.report_
    with pytest.raises(EncoderMismatchError):
        TextModel.load(tmp_path / "head", encoder=FakeEncoder("other"))


def test_a_service_needs_no_training_library(tmp_path):
    texts, labels = corpus(each=4)
    TextClassifier(cv=2).fit(texts, labels).save(tmp_path)
    code = f"""
import sys
for name in ("sklearn", "scipy", "joblib", "onnx"):
    sys.modules[name] = None
from semclass import TextModel
found = TextModel.load({str(tmp_path)!r}).classify(["the mast of a sailing boat"])[0]
print(found.label, found.label in found.labels, found.probability == found.probabilities["boat"])
try:
    from semclass import TextClassifier
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    said, missing = run.stdout.splitlines()
    assert said == "boat True True"
    assert missing.endswith('pip install "semclass[train]"')


def test_integers_stay_integers(tmp_path):
    numbers = np.array([sorted(WORDS).index(label) * 5 for label in LABELS])  # 10 sorts behind 5, unlike "10" and "5"
    model = classifier().fit(TEXTS, numbers)
    assert model.classes_.tolist() == [0, 5, 10]
    assert model.predict(["anchor mast"]).dtype == model.classes_.dtype
    model.save(tmp_path)
    loaded = TextModel.load(tmp_path, encoder=ENCODER)
    assert loaded.classify(["anchor mast"])[0].labels == (0,)
    assert loaded.classes == (0, 5, 10)
    assert loaded.predict(TEXTS, min_probability=1.0) == [ABSTAIN] * len(TEXTS)
    assert 0 < model.score(TEXTS, numbers) <= 1


def test_several_labels_a_text(tmp_path):
    texts, labels = corpus(each=20)
    both = [(label, "oven") if "oven" in text else (label,) for text, label in zip(texts, labels, strict=True)]
    texts, both = [*texts, "the of", "of the and", "and"], [*both, (), (), ()]
    model = classifier(multi_label=True).fit(texts, both)
    assert model.classes_.tolist() == ["boat", "cake", "oven", "song"]
    assert {"cake", "oven"} <= set(model.predict(["oven flour"])[0])
    assert model.score(texts, both) > 0.5
    assert model.label_thresholds_.shape == (4,)
    model.save(tmp_path)
    loaded = TextModel.load(tmp_path, encoder=ENCODER)
    np.testing.assert_allclose(loaded.predict_proba(texts), model.predict_proba(texts), atol=1e-4)
    assert loaded.predict(texts) == model.predict(texts)
    assert loaded.predict(["oven flour"], min_probability=1.0) == [()]


# -- scikit-learn -----------------------------------------------------------------------------------------------------


def test_it_works_in_pipelines_and_searches():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    search = GridSearchCV(
        Pipeline([("lower", lower), ("classify", classifier())]),
        {"classify__target_precision": [None, 0.9]},
        cv=2,
    )
    search.fit([text.upper() for text in TEXTS], LABELS)
    assert search.best_score_ > 0.5
    assert search.predict(["ANCHOR MAST"]).tolist() == ["boat"]
    assert search.best_estimator_["classify"].encoder is ENCODER


def test_cross_validation_counts_unseen_labels_as_wrong(fitted):
    assert cross_val_score(classifier(), np.array(TEXTS), np.array(LABELS), cv=3).shape == (3,)
    assert fitted.score(["anchor mast", "anchor mast"], ["boat", "unseen"]) == 0.5


def test_clones_share_the_encoder_and_fits_can_be_pickled():
    model = classifier(seed=7)
    again = clone(model)
    assert again.encoder is model.encoder
    assert again.get_params() == model.get_params()
    assert "seed=7" in repr(model)
    model.fit(TEXTS, LABELS)
    assert not hasattr(again, "classes_")
    copied = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(copied.predict_proba(TEXTS), model.predict_proba(TEXTS))


# -- what must not matter ---------------------------------------------------------------------------------------------


def test_the_order_of_the_texts_makes_no_difference(fitted):
    order = np.random.default_rng(1).permutation(36).tolist()
    again = classifier().fit([TEXTS[place] for place in order], [LABELS[place] for place in order])
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_equal_texts_are_in_one_fold():
    texts, _ = corpus(each=6)
    noise = np.random.default_rng(0).choice(["x", "y"], 18).tolist()
    model = classifier().fit([*texts, *map(str.upper, texts)], noise * 2)
    assert model.report_["accuracy"] < 0.8


# -- few, rare, many --------------------------------------------------------------------------------------------------


def test_few_texts_lose_nothing_to_a_plain_regression(encoder):
    folder = ROOT.parent / "shared" / "data" / "intents"
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}")
    with gzip.open(folder / "banking77.train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [tuple(line.rstrip("\n").split("\t")) for line in file]
    names = sorted({label for label, _ in rows})[:20]
    parts = {name: [text for label, text in rows if label == name] for name in names}
    texts, labels = [text for name in names for text in parts[name][:5]], [name for name in names for _ in range(5)]
    new, truth = [text for name in names for text in parts[name][5:30]], [name for name in names for _ in range(25)]
    model = TextClassifier(encoder).fit(texts, labels)
    vectors, others = (encoder.encode(some).rows("pooled") for some in (texts, new))
    peer = LogisticRegression(C=10, max_iter=1000).fit(vectors, labels).score(others, truth)
    assert model.score(new, truth) > peer
    assert "pooled" in model.head_.inputs
    one = TextClassifier(encoder).fit(texts[::5], labels[::5])
    peer = LogisticRegression(C=10, max_iter=1000).fit(vectors[::5], labels[::5]).score(others, truth)
    assert one.score(new, truth) > peer + 0.05  # the names of intents say more than one message
    coded = TextClassifier(encoder).fit(texts, [names.index(label) for label in labels])
    assert "names" in model.report_["chosen"]
    assert "names" not in coded.report_["chosen"]


def test_one_text_of_each_class_is_enough():
    model = TextClassifier(ENCODER).fit(["boat and sail", "cake and flour"], ["boat", "cake"])
    assert model.predict(["sail and boat", "flour and cake"]).tolist() == ["boat", "cake"]
    np.testing.assert_allclose(model.predict_proba(["sail"]).sum(), 1)


# -- what is refused --------------------------------------------------------------------------------------------------

FEW = ["a b", "b c", "x y", "y z"]
PAIRS = ["p", "p", "q", "q"]
BAD = {
    "lengths": (FEW, ["p", "q"], {}, InputError, "4 texts and 2 labels"),
    "no labels": (FEW, None, {}, InputTypeError, "labels must be"),
    "a string as labels": (FEW, "ppqq", {}, InputTypeError, "labels must be"),
    "an empty text": (["a", " ", "x", "y"], PAIRS, {}, InputError, r"texts\[1\] is empty"),
    "no texts": ([], [], {}, InputError, "there are no texts"),
    "one class": (FEW, ["p"] * 4, {}, InputError, "at least two classes"),
    "a float": (FEW, [0.5, 1, 2, 3], {}, InputTypeError, r"labels\[0\] must be a string or an integer"),
    "several labels": (FEW, [("p",)] * 4, {}, InputTypeError, "set multi_label=True"),
    "mixed": (FEW, ["p", 1, "p", 1], {}, InputTypeError, "mix strings and integers"),
    "one label": (FEW, PAIRS, {"multi_label": True}, InputTypeError, r"write \('p',\)"),
    "no label anywhere": (FEW, [()] * 4, {"multi_label": True}, InputError, "no text has a label"),
    "always": (FEW, [("p",)] * 4, {"multi_label": True}, InputError, "at least 2"),
    "probability": (FEW, PAIRS, {"target_precision": 1.5}, InputError, "target_precision is 1.5"),
    "abstain is a class": (FEW, [ABSTAIN, ABSTAIN, "q", "q"], {"target_precision": 0.5}, InputError, "ABSTAIN"),
    "nothing to hold out": (["a b"] * 4, [1, 1, 2, 2], {}, InputError, "cannot serve as"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(case):
    texts, labels, settings, error, message = BAD[case]
    with pytest.raises(error, match=message):
        classifier(**settings).fit(texts, labels)


def test_another_encoder_than_the_fitted_one_is_refused(fitted, monkeypatch):
    monkeypatch.setattr(fitted, "encoder", FakeEncoder("other"))
    with pytest.raises(InputError, match="changed after fitting"):
        fitted.predict(["x"])


# -- the examples -----------------------------------------------------------------------------------------------------


def test_the_routing_example_runs(monkeypatch, capsys, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    monkeypatch.setattr(sys, "argv", ["routing.py", "--out", str(tmp_path / "routing")])
    import routing

    routing.main()
    shown = capsys.readouterr().out
    assert float(shown.partition("accuracy ")[2].partition(",")[0]) > 0.95
    assert [line.split()[0] for line in shown.splitlines()[-5:-1]] == ["in", "in", "chit-chat", "chit-chat"]
    assert (tmp_path / "routing" / "model.onnx").is_file()
