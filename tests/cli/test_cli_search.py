"""Cutting documents, filters, fusions and contexts on the command line."""

from __future__ import annotations

import json

import pytest
from running import running

from semclass import HybridRetriever, PassageIndex
from semclass.cli.main import main
from semclass.documents.readers import read_passages
from semclass.encoders.onnx_encoder import for_passages
from semclass_llm import build_context

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
    main(["index", "build", str(folder / "docs"), "--cut", "sentence", "--out", str(folder / "index")])
    return folder / "index"


@pytest.fixture(scope="module")
def retriever(index, models):
    found = HybridRetriever.load(index)
    return HybridRetriever(found.index, models)


def ids(out):
    return [hit["id"] for hit in json.loads(out)["hits"]]


def test_only_passages_that_match_are_found(run, index):
    code, out, _ = run("search", index, QUESTION, "--where", "document=port.txt", "--json")
    assert (code, sorted(ids(out))) == (0, ["port.txt#1", "port.txt#2", "port.txt#3"])
    out = run("search", index, QUESTION, "--where", "document=port.txt", "--where", "paragraph>=2", "--json")[1]
    assert sorted(ids(out)) == ["port.txt#2", "port.txt#3"]
    out = run("search", index, QUESTION, "--where", '{"_id": {"$in": ["bridge.md#1"]}}', "--json")[1]
    assert ids(out) == ["bridge.md#1"]
    assert run("search", index, QUESTION, "--where", "document=none") == (0, "", "no matching passages\n")
    code, _, err = run("search", index, QUESTION, "--where", "document")
    assert (code, "the filter 'document' must be a comparison" in err) == (2, True)


def test_weights_and_scores_are_those_of_python(run, index, retriever):
    out = run("search", index, QUESTION, "--method", "convex", "--json", "--weight", "alpha=0.2")[1]
    hits = retriever.search(QUESTION, method="convex", weights={"alpha": 0.2})
    assert ids(out) == [hit.id for hit in hits]
    scores = [hit["score"] for hit in json.loads(out)["hits"]]
    assert scores == pytest.approx([hit.score for hit in hits], abs=1e-5)


def test_a_context_is_printed_as_text_or_as_json(run, index, retriever):
    code, out, _ = run("search", index, QUESTION, "-k", 2, "--context", "--budget", 30)
    made = build_context(retriever.search(QUESTION, k=2), budget=30)
    assert (code, out) == (0, made.text + "\n")
    record = json.loads(run("search", index, QUESTION, "-k", 1, "--context", "--json")[1])
    assert set(record) == {"text", "count", "sources", "answerable"}
    assert record["sources"][0]["id"] == "bridge.md#2"
    assert record["text"] == "[1] bridge.md, The bridge\nAda Lovell built the bridge."


def test_a_window_adds_the_neighbours_in_the_document(run, index):
    out = run("search", index, QUESTION, "-k", 1, "--context", "--window", 1)[1]
    assert out.splitlines()[1:] == ["It is of granite.", "", "Ada Lovell built the bridge.", "", "Trams cross it."]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--budget", 9], "--context"),
        (["--window", 1], "--context"),
        (["--context", "--explain"], "give only one of them"),
        (["--weight", "alpha=2"], "alpha is 2.0; it must be a probability"),
        (["--weight", "alpha"], "has no numeric value; write NAME=VALUE"),
        (["--weight", "beta=2"], "a weight is 'beta'; it must be one of 'alpha'"),
        (["--method", "sum"], "'sum' is not one of 'default', 'deep', 'bm25'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run, index, given, says):
    code, out, err = run("search", index, QUESTION, *given)
    assert (code, out, says in err) == (2, "", True)


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bridge.md").write_text(BRIDGE)
    (folder / "port.txt").write_text(PORT)
    (folder / "same.txt").write_text(PORT)
    return folder


def passages_of(folder):
    found = PassageIndex.load(folder)
    return found.passages(found.rows)


@pytest.mark.parametrize(
    ("given", "cut"),
    [
        ([], {}),
        (["--cut", "sentence"], {"by": "sentence"}),
        (["--cut", "section"], {"by": "section"}),
        (["--cut", "window", "--size", 8, "--overlap", 6], {"by": "window", "size": 8, "overlap": 6}),
        (["--cut", "meaning", "--size", 12], {"by": "meaning", "size": 12}),
    ],
)
def test_documents_are_cut_as_in_python_when_built_and_when_added(run, docs, tmp_path, models, given, cut):
    wanted = read_passages(docs, **cut, vectors=lambda texts: for_passages(models.encoder).encode(texts).pooled)
    assert run("index", "build", docs, "--out", tmp_path / "built", *given)[0] == 0
    assert passages_of(tmp_path / "built") == wanted
    (tmp_path / "one.txt").write_text("Nothing of it.\n")
    run("index", "build", tmp_path / "one.txt", "--out", tmp_path / "added")
    code, out, _ = run("index", "add", tmp_path / "added", docs, "--json", *given)
    assert (code, json.loads(out)["added"]) == (0, len(wanted))
    assert passages_of(tmp_path / "added")[1:] == wanted


def test_what_is_added_is_marked_where_it_repeats_the_index(run, docs, tmp_path):
    run("index", "build", docs / "port.txt", "--cut", "sentence", "--out", tmp_path / "index")
    (tmp_path / "news.txt").write_text("Ferries leave it at noon.\n\nThe last one leaves at midnight.\n")
    assert (
        run("index", "add", tmp_path / "index", tmp_path / "news.txt", "--cut", "sentence", "--mark-duplicates")[0] == 0
    )
    added = passages_of(tmp_path / "index")[3:]
    assert [passage.metadata.get("duplicate_of") for passage in added] == ["port.txt#2", None]


def test_ids_that_are_taken_are_told_before_the_index_is_read_for_duplicates(run, docs, tmp_path, monkeypatch):
    run("index", "build", docs / "port.txt", "--out", tmp_path / "index")
    monkeypatch.setattr(PassageIndex, "passages", lambda *_: pytest.fail("the index is read in vain"))
    code, _, err = run("index", "add", tmp_path / "index", docs / "port.txt", "--mark-duplicates")
    assert (code, "'port.txt#1' is already in the index" in err) == (2, True)


def test_an_update_marks_what_repeats_itself_and_nothing_else(run, docs, tmp_path):
    run("index", "build", docs / "port.txt", "--cut", "sentence", "--out", tmp_path / "index")
    (tmp_path / "news.txt").write_text("Ferries leave it at noon.\n\nFerries leave it at noon.\n")
    assert (
        run(
            "index",
            "add",
            tmp_path / "index",
            tmp_path / "news.txt",
            "--cut",
            "sentence",
            "--update",
            "--mark-duplicates",
        )[0]
        == 0
    )
    added = passages_of(tmp_path / "index")[3:]
    assert [passage.metadata.get("duplicate_of") for passage in added] == [None, "news.txt#1"]


def test_files_that_are_no_text_are_told_once(run, docs, tmp_path):
    (docs / "chart.rtf").write_bytes(b"PK")
    code, out, err = run("index", "build", docs, "--out", tmp_path / "index", "--json")
    assert (code, len(out.splitlines())) == (0, 1)
    assert err.startswith("skipped: 1 .rtf file; `pandoc FILE")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--overlap", 3], "overlap needs a size"),
        (["--cut", "window", "--size", 3, "--overlap", 3], "overlap is 3; it must be less than size"),
        (["--cut", "page"], "'page' is not one of 'paragraph', 'sentence', 'window', 'section', 'meaning'"),
    ],
)
def test_cuts_that_cannot_be_are_refused_before_anything_is_written(run, docs, tmp_path, given, says):
    code, out, err = run("index", "build", docs, "--out", tmp_path / "index", *given)
    assert (code, out, says in err) == (2, "", True)
    assert not (tmp_path / "index").exists()
