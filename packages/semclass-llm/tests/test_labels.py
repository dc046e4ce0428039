"""Labels by hand: which to give next, how they put a teacher right, which are doubted."""

import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from cli.running import running

from semclass.core.errors import InputError
from semclass_llm.labelling.combine import combine, weigh_multi_label, weigh_single_label
from semclass_llm.labelling.compare import compare, figures
from semclass_llm.labelling.order import grouped, next_to_label, unsure_of


@pytest.fixture
def run(capsys):
    return running(capsys)


def blobs(*sizes):
    """Vectors in groups of so many, each around a corner of its own."""
    rng = np.random.default_rng(0)
    middles = np.repeat(10 * np.eye(len(sizes)), sizes, axis=0)
    return middles + rng.normal(0, 0.1, middles.shape)


def test_one_text_of_each_group_is_proposed_the_largest_group_first():
    rows = grouped(blobs(5, 20, 10), np.ones(35), 3, seed=0)
    assert [int(np.searchsorted([5, 25, 35], row, side="right")) for row in rows] == [1, 2, 0]


def test_groups_that_hold_a_labelled_text_come_last():
    vectors = blobs(5, 20, 10)
    rows = grouped(np.vstack([vectors, vectors[6:7]]), np.ones(35), 2, seed=0)  # one of the largest group has a label
    assert not any(5 <= row < 25 for row in rows)


def test_texts_that_a_head_is_unsure_of_count_more():
    weight = np.ones(35)
    weight[5:25] = 0.05  # sure of the largest group
    assert grouped(blobs(5, 20, 10), weight, 3, seed=0)[0] >= 25


def test_how_unsure_a_head_is():
    probabilities = np.array([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]])
    assert unsure_of(probabilities, multi_label=False) == pytest.approx([1.0, 0.2])
    assert unsure_of(probabilities, multi_label=True) == pytest.approx([2 / 3, 2 / 15])


def test_few_texts_are_all_proposed_once_and_never_those_with_a_label(encoder):
    texts = ["Where is it?", "How long?", "Where is it?", "Who was it?"]
    assert sorted(next_to_label(texts, 9, encoder=encoder, labelled=["Who was it?"])) == [0, 1]
    with pytest.raises(InputError):
        next_to_label(texts, 0, encoder=encoder)


def test_a_teacher_that_is_right_where_it_was_checked_is_believed_against_an_unsure_head():
    truth = np.repeat(np.eye(2), 10, axis=0)
    unsure, given = np.array([[0.6, 0.4]]), np.array([[0.0, 1.0]])
    assert weigh_single_label(unsure, given, truth, said=truth).argmax() == 1
    assert weigh_single_label(unsure, given, truth, said=1 - truth).argmax() == 0


def test_yes_and_no_are_weighed_label_by_label():
    truth = np.repeat([[1.0, 1.0], [0.0, 0.0]], 10, axis=0)
    said = truth.copy()
    said[:, 1] = 0  # the teacher never sees the second label
    found = weigh_multi_label(np.array([[0.4, 0.6]]), np.array([[1.0, 0.0]]), truth, said)
    assert (found >= 0.5).tolist() == [[True, True]]


class Head:
    """Says what it was made with."""

    def __init__(self, classes, probabilities, multi_label=False):
        self.classes_, self.probabilities, self.multi_label = np.array(classes), probabilities, multi_label

    def predict_proba(self, texts):
        return np.array([self.probabilities[text] for text in texts])


def test_what_a_person_says_stands_and_labels_that_nobody_checked_stay_possible():
    taught = {"a": ("x",), "b": ("x",), "c": ("y",), "d": ("z",)}
    checked = {"a": ("y",), "b": ("x",)}
    found = combine(taught, checked, Head(["x", "y"], {"c": [0.1, 0.9], "d": [0.5, 0.5]}))
    assert found["a"] == ("y",)
    assert found["c"] == ("y",)
    assert list(found) == ["a", "b", "c", "d"]
    assert len(found["d"]) == 1
    with pytest.raises(InputError, match="none of 1 checked text"):
        combine(taught, {"other": ("x",)}, Head(["x"], {}))


def test_figures_of_one_label_and_of_several():
    one = figures([("x",), ("y",)], [("x",), ("x",)], multi_label=False)
    assert (one["accuracy"], one["f1"]) == (0.5, {"x": 0.6667, "y": 0.0})
    multi_label = figures([("x", "y"), ()], [("x",), ()], multi_label=True)
    assert (multi_label["accuracy"], multi_label["macro_f1"]) == (0.75, 0.5)
    with pytest.raises(InputError, match="5 are needed"):
        compare({"a": ("x",)}, {"a": ("x",)}, multi_label=False)


def test_doubtful_labels_come_first(run, tmp_path, encoder):
    pytest.importorskip("cleanlab")
    from semclass_llm.labelling.doubts import doubts

    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.05, 0.95]])
    found = doubts([("x",), ("x",), ("y",)], ["x", "y"], probabilities)
    assert (found[0].place, found[0].labels) == (1, ("y",))
    multi_label = doubts([("x",), ("x", "y"), ("x",)], ["x", "y"], probabilities, multi_label=True)
    assert multi_label[0].place == 2
    with pytest.raises(InputError, match="has no label 'z'"):
        doubts([("z",)], ["x", "y"], probabilities[:1])


def test_the_next_texts_keep_the_labels_of_their_file(run, tmp_path):
    rows = [{"text": f"Text {number}.", "label": "x", "by": "model"} for number in range(4)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "known.jsonl").write_text(json.dumps({"text": "Text 0.", "label": "y"}) + "\n")
    options = ("--number", 3, "--checked", tmp_path / "known.jsonl", "--out", tmp_path / "out.jsonl")
    code, _, told = run("labels", "next", tmp_path / "in.jsonl", *options)
    assert code == 0, told
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(row["text"] for row in found) == ["Text 1.", "Text 2.", "Text 3."]
    assert found[0] == {"text": found[0]["text"], "label": "x"}


def test_labels_of_one_kind_cannot_be_put_right_by_those_of_another(run, tmp_path):
    (tmp_path / "one.jsonl").write_text('{"text": "a", "label": "x"}\n')
    (tmp_path / "several.jsonl").write_text('{"text": "a", "labels": ["x"]}\n')
    files = (tmp_path / "one.jsonl", "--checked", tmp_path / "several.jsonl", "--out", tmp_path / "out.jsonl")
    code, _, told = run("labels", "combine", *files)
    assert (code, "same format" in told) == (2, True)
