"""`semclass train`: from a file of labelled texts to a head, and what it got wrong."""

from __future__ import annotations

import json

import pytest
from running import running
from world import ROOT

from semclass import InputError, TextModel

run = pytest.fixture(running)

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A head with its examples, and what the command said of it."""
    from semclass.cli.main import main

    folder = tmp_path_factory.mktemp("train")
    main_of = [EXAMPLES / "messages.tsv", "--head", folder / "head", "--test", EXAMPLES / "new_messages.tsv"]
    main(["train", *map(str, main_of), "--target-precision", "0.95", "--keep-examples"])
    return folder


def test_the_figures_are_those_of_the_test_file(trained):
    found = json.loads((trained / "head-report" / "figures.json").read_text())
    assert (found["examples"], found["texts"]) == (48, 22)
    assert [row["label"] for row in found["labels"]] == ["booking", "opening hours", "price", "repair"]
    assert found["accuracy"] > 0.85
    assert found["ood"]["texts"] == 4  # "other" is no label of the head


def test_wrong_cases_come_with_what_is_near(trained):
    lines = (trained / "head-report" / "wrong.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    assert (first["label"], len(first["nearest"])) == (["other"], 3)
    table = (trained / "head-report" / "wrong.tsv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + len(lines)
    assert table[1].split("\t")[1] == first["text"]


def test_why_a_text_got_its_label(trained, run):
    code, out, _ = run("classify", "texts", "--head", trained / "head", "--why", "--json", "Are you open tomorrow?")
    assert code == 0
    nearest = json.loads(out)["nearest"]
    assert nearest[0]["text"] == "Are you open tomorrow?"
    assert nearest[0]["similarity"] == pytest.approx(1, abs=0.01)
    assert nearest[0]["labels"] == ["opening hours"]


def test_without_its_examples_a_head_cannot_say_why(run, tmp_path):
    file = tmp_path / "a.csv"
    rows = [
        f"{text},{label}"
        for label, texts in {"in": "ab cd ef gh", "out": "uv wx yz st"}.items()
        for text in texts.split()
    ]
    file.write_text("text,label\n" + "\n".join(rows))
    code, out, err = run("train", file, "--head", tmp_path / "head", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["measured_on"], found["texts"], found["report"]) == (
        "cross-validation",
        8,
        str(tmp_path / "head-report"),
    )
    assert found["wrong"] == len((tmp_path / "head-report" / "wrong.jsonl").read_text().splitlines())
    with pytest.raises(InputError, match="keep-examples"):
        TextModel.load(tmp_path / "head").nearest(["ab"])


def test_what_cannot_be_trained_on_is_refused_before_anything_is_written(run, tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text("text\tlabel\none\ta\ntwo\n")
    code, out, err = run("train", file, "--head", tmp_path / "head")
    assert (code, out) == (2, "")
    assert "line 3" in err
    code, _, err = run("train", EXAMPLES / "messages.tsv", "--head", tmp_path / "head", "--ood-label", "oos")
    assert code == 2
    assert "'oos'" in err
    code, _, err = run(
        "train", EXAMPLES / "messages.tsv", "--head", tmp_path / "head", "--test", EXAMPLES / "other.tsv"
    )
    assert code == 2
    assert "no label in common" in err
    code, _, err = run("train", EXAMPLES / "messages.tsv", "--head", file)
    assert code == 2
    assert "not a folder" in err
    assert not (tmp_path / "head").exists()
