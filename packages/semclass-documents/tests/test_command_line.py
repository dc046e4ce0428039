"""The command line with files that are read only in part."""

from __future__ import annotations

import json

import hostile_files
import pytest

from semclass.cli.main import main


@pytest.fixture
def run(capsys):
    def called(*given):
        try:
            code = main([str(word) for word in given])
        except SystemExit as error:
            code = error.code
        return (code or 0, *capsys.readouterr())

    return called


SERVE = "from semclass_documents.worker import serve; serve()"


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tea.md").write_text(hostile_files.GOOD)
    (folder / "old.txt").write_bytes(b"\xe9")
    return folder


def test_files_that_are_read_up_to_a_page_are_listed_apart(run, docs, tmp_path, monkeypatch):
    hostile_files.long_pdf(docs / "manual.pdf", size=1000, pages=4)
    code = "import semclass_documents.limits as limits; limits.PAGES_SHARE = -1"
    monkeypatch.setattr("semclass_documents.worker._CODE", f"import sys; sys.path[:] = sys.argv[1:]; {code}; {SERVE}")
    code, out, err = run("index", "build", docs, "--out", tmp_path / "index", "--json")
    record = json.loads(out)
    assert (code, [one["document"] for one in record["skipped"]]) == (0, ["old.txt"])
    assert [(one["document"], "page 1 of 4" in one["reason"]) for one in record["cut"]] == [("manual.pdf", True)]
    assert err.count("manual.pdf: read up to page 1 of 4") == 1
    assert run("index", "build", docs / "manual.pdf", "--out", tmp_path / "strict", "--strict")[0] == 2
    code, out, _ = run("index", "add", tmp_path / "index", docs, "--update", "--json")
    assert (code, {name: json.loads(out)[name] for name in ("skipped", "cut")}) == (
        0,
        {name: record[name] for name in ("skipped", "cut")},
    )
