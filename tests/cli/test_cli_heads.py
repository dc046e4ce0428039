"""Heads of one's own on the command line: an index is labelled, grown and searched by them, and takes no others."""

from __future__ import annotations

import json

import pytest

from semclass import TextClassifier

pytestmark = pytest.mark.usefixtures("no_packages")

BILLING = ["How do I pay my invoice?", "Invoices are sent each month.", "A refund takes a week.", "Receipts are free."]
TECHNICAL = ["The app crashes.", "Restart the router.", "The screen stays black.", "How do I install the driver?"]


@pytest.fixture(scope="module")
def heads(tmp_path_factory, encoder):
    """Two heads, as the option names them."""
    folder = tmp_path_factory.mktemp("heads")
    for name, labels in {"topic": ["billing"] * 4 + ["technical"] * 4, "odd": ["a", "b"] * 4}.items():
        TextClassifier(encoder).fit(BILLING + TECHNICAL, labels).save(folder / name)
    return {name: f"topic={folder / name}" for name in ("topic", "odd")}


@pytest.fixture
def docs(tmp_path):
    """A folder of two documents."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pay.txt").write_text("Your invoice can be paid by card.")
    (tmp_path / "docs" / "help.txt").write_text("If the app crashes, install it again.")
    return tmp_path / "docs"


def documents(out):
    return [hit["metadata"]["document"] for hit in json.loads(out)["hits"]]


def test_an_index_is_labelled_filtered_and_boosted(run, heads, docs, tmp_path):
    index, head = tmp_path / "index", ("--head", heads["topic"])
    assert run("index", "build", docs, "--out", index, *head)[0] == 0
    code, out, _ = run("search", index, "What now?", "--where", "topic=billing", "--json")
    assert (code, documents(out)) == (0, ["pay.txt"])
    code, out, _ = run("search", index, "The router crashes?", *head, "--boost", "topic=9", "--json")
    assert (code, documents(out)[0]) == (0, "help.txt")
    assert json.loads(out)["hits"][0]["components"]["boost:topic"] > 0.5
    assert run("search", index, "The router crashes?", *head, "--boost", "topic")[0] == 0
    (docs / "new.txt").write_text("The driver of the screen is on the disc.")
    code, out, err = run("index", "sync", index, docs)
    assert (code, out) == (2, "")
    assert "--head topic=DIR" in err
    assert run("index", "sync", index, docs, *head)[0] == 0
    code, out, _ = run("search", index, "What now?", "--where", "topic=technical", "--json")
    assert sorted(documents(out)) == ["help.txt", "new.txt"]
    assert "labelled by the heads topic" in run("index", "info", index)[1]
    assert run("index", "verify", index)[0] == 0


def test_other_heads_are_refused_before_anything_is_read(run, heads, docs, tmp_path):
    labelled, plain = tmp_path / "labelled", tmp_path / "plain"
    run("index", "build", docs, "--out", labelled, "--head", heads["topic"])
    run("index", "build", docs, "--out", plain)
    for index, message in ((labelled, "by the head 'topic'"), (plain, "by the heads none")):
        code, _, err = run("index", "sync", index, docs, "--head", heads["odd"])
        assert (code, message in err) == (2, True)


@pytest.mark.parametrize("heads", ["topic", "topic= ", "topic=a --head topic=b"])
def test_heads_are_written_as_pairs(run, docs, tmp_path, heads):
    code, _, err = run("index", "build", docs, "--out", tmp_path / "index", "--head", *heads.split())
    assert (code, "write NAME=DIR, e.g. topic=my-head, and use each name only once" in err) == (2, True), err
