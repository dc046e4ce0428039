"""Filters, weights and cuts on the command line."""

from __future__ import annotations

import json

import pytest
from running import running

from semclass import HybridRetriever, PassageIndex
from semclass.cli.main import main

run = pytest.fixture(running)

QUESTION = "Who built the bridge?"
BRIDGE = "# The bridge\n\nIt is of granite.\n\nAda Lovell built the bridge.\n\nTrams cross it.\n"
PORT = "The port was built by the town.\n\nFerries leave it at noon.\n\nBoats are built there, and bridges were.\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "docs").mkdir()
    (folder / "docs" / "bridge.md").write_text(BRIDGE)
    (folder / "docs" / "port.txt").write_text(PORT)
    main(["index", "build", str(folder / "docs"), "--cut", "window", "--size", "8", "--out", str(folder / "index")])
    return folder / "index"


def ids(out):
    return [hit["id"] for hit in json.loads(out)["hits"]]


def test_only_passages_that_match_are_found(run, index):
    code, out, _ = run("search", index, QUESTION, "--where", "document=port.txt", "--json")
    assert (code, sorted(ids(out))) == (0, ["port.txt#1", "port.txt#2", "port.txt#3"])
    out = run("search", index, QUESTION, "--where", "document=port.txt", "--where", "window>=2", "--json")[1]
    assert sorted(ids(out)) == ["port.txt#2", "port.txt#3"]
    out = run("search", index, QUESTION, "--where", '{"_id": {"$in": ["bridge.md#1"]}}', "--json")[1]
    assert ids(out) == ["bridge.md#1"]
    assert run("search", index, QUESTION, "--where", 'document="=x"') == (0, "", "no matching passages\n")


def test_weights_and_scores_are_those_of_python(run, index):
    out = run("search", index, QUESTION, "--method", "convex", "--json", "--weight", "alpha=0.2")[1]
    hits = HybridRetriever.load(index).search(QUESTION, method="convex", weights={"alpha": 0.2})
    assert ids(out) == [hit.id for hit in hits]
    scores = [hit["score"] for hit in json.loads(out)["hits"]]
    assert scores == pytest.approx([hit.score for hit in hits], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-k", "0"], ["k is 0; it must be at least 1"]),
        (["--weight", "alpha=2"], ["alpha is 2.0; it must be a probability"]),
        (["--weight", "alpha"], ["has no numeric value; write NAME=VALUE"]),
        (["--weight", "beta=2"], ["a weight is 'beta'; it must be one of 'alpha'"]),
        (["--method", "sum"], ["'sum' is not one of 'default', 'deep', 'bm25'"]),
        (["--where", "document"], ["the filter 'document' must be a comparison"]),
        (["--where", "pag>=3"], ["'pag'", "document, end"]),
        (["--where", '{"$or": [{"page": 1}, {"author.name": "Ada"}]}'], ["'author.name'"]),
        (["--where", "page>>100"], [">>100", "=, !=, <, <=, >, >="]),
    ],
)
def test_what_cannot_be_meant_is_refused(run, index, arguments, says):
    code, out, err = run("search", index, QUESTION, *arguments)
    assert (code, out) == (2, "")
    assert all(part in err for part in says)


def test_nothing_is_deleted_by_a_field_that_no_passage_has(run, index):
    code, _, err = run("index", "delete", index, "--where", "documen!=3")
    assert (code, "did you mean 'document'?" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "count"), [([], 2), (["--cut", "section"], 2), (["--cut", "window", "--size", "8"], 5)]
)
def test_documents_are_cut_when_built_and_when_added(run, tmp_path, arguments, count):
    (docs := tmp_path / "docs").mkdir()
    (docs / "bridge.md").write_text(BRIDGE)
    (docs / "port.txt").write_text(PORT)
    assert run("index", "build", docs, "--out", tmp_path / "index", *arguments)[0] == 0
    built = PassageIndex.load(tmp_path / "index")
    assert len(built) == count
    run("index", "build", docs / "port.txt", "--out", tmp_path / "added", *arguments)
    assert run("index", "add", tmp_path / "added", docs, "--update", *arguments)[0] == 0
    added = PassageIndex.load(tmp_path / "added")
    texts = [{passage.text for passage in index.passages(index.rows)} for index in (built, added)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--overlap", 3], "overlap needs a size"),
        (["--cut", "window", "--size", 3, "--overlap", 3], "overlap is 3; it must be less than size"),
        (["--cut", "page"], "'page' is not one of 'paragraph'"),
    ],
)
def test_cuts_that_cannot_be_are_refused_before_the_work(run, tmp_path, arguments, says):
    (tmp_path / "port.txt").write_text(PORT)
    code, out, err = run("index", "build", tmp_path / "port.txt", "--out", tmp_path / "index", *arguments)
    assert (code, out, says in err) == (2, "", True)
    assert not (tmp_path / "index").exists()
