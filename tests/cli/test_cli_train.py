"""`semclass train`: from a file of labelled texts to a head, and what it got wrong."""

from __future__ import annotations

import json

import pytest
from world import ROOT

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A head and its report."""
    from semclass.cli.main import main

    folder = tmp_path_factory.mktemp("train")
    main_of = [EXAMPLES / "messages.tsv", "--head", folder / "head", "--test", EXAMPLES / "new_messages.tsv"]
    main(["train", *map(str, main_of), "--target-precision", "0.95"])
    return folder


def test_the_figures_are_those_of_the_test_file(trained):
    found = json.loads((trained / "head-report" / "figures.json").read_text())
    assert (found["examples"], found["texts"]) == (48, 22)
    assert [row["label"] for row in found["classes"]] == ["booking", "opening hours", "price", "repair"]
    assert found["accuracy"] > 0.85
    assert found["ood"]["texts"] == 4  # "other" is no label of the head


def test_wrong_cases_come_with_what_is_near(trained):
    lines = (trained / "head-report" / "wrong.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    assert (first["label"], len(first["nearest"])) == (["other"], 3)
    table = (trained / "head-report" / "wrong.tsv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + len(lines)
    assert table[1].split("\t")[1] == first["text"]


def test_without_a_test_file_a_head_is_cross_validated(run, tmp_path):
    rows = "text,label\nab,in\ncd,in\nef,in\ngh,in\nuv,out\nwx,out\nyz,out\nst,out\n"
    (tmp_path / "a.csv").write_text(rows)
    code, out, err = run("train", tmp_path / "a.csv", "--head", tmp_path / "head", "--json")
    found = json.loads(out)
    assert (code, err, found["measured_on"], found["texts"]) == (0, "", "cross-validation", 8)
    assert found["report"] == str(tmp_path / "head-report")
    assert found["wrong"] == len((tmp_path / "head-report" / "wrong.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{tmp}/a.tsv", "--head", "{tmp}/head"], "line 3"),
        (["{examples}/messages.tsv", "--head", "{tmp}/head", "--test", "{examples}/routing.tsv"], "no label in common"),
        (["{examples}/messages.tsv", "--head", "{tmp}/a.tsv"], "not a folder"),
    ],
    ids=["line", "labels", "folder"],
)
def test_what_cannot_be_trained_on_is_refused_before_the_work(run, tmp_path, arguments, says):
    (tmp_path / "a.tsv").write_text("text\tlabel\none\ta\ntwo\n")
    code, out, err = run("train", *(word.format(tmp=tmp_path, examples=EXAMPLES) for word in arguments))
    assert (code, out, says in err) == (2, "", True), err
    assert not (tmp_path / "head").exists()
