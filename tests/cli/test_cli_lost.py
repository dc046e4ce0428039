"""Folders of which most files cannot be read: said before the work, and an error unless --partial is given."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from running import running
from world import ROOT

from semclass import PassageIndex

run = pytest.fixture(running)

WITHOUT_PACKAGES = """
import importlib.metadata

importlib.metadata.entry_points = lambda **_: ()
"""


@pytest.fixture
def pages(tmp_path):
    """Three pages of HTML, and one of Markdown."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.html").write_text(f"<p>Part {number} is made of leaves.")
    (folder / "tea.md").write_text("Tea is made of leaves.")
    return folder


@pytest.fixture
def without_packages(tmp_path):
    """The environment of an interpreter without packages, one of which reads HTML."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WITHOUT_PACKAGES)
    return {"PYTHONPATH": str(tmp_path / "site")}


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
def test_on_a_terminal_a_missing_extra_stops_a_build_before_it_begins(pages, without_packages, tmp_path):
    from terminal import in_terminal

    code, sent = in_terminal("index", "build", pages, "--out", tmp_path / "index", env=without_packages, columns=200)
    assert code == 2
    assert "skipped: 3 .html files" in sent
    assert "pip install semclass-documents" in " ".join(sent.split())
    assert "error: 3 of 4 files" in sent
    assert "--partial" in sent
    assert not (tmp_path / "index").exists()
    code, sent = in_terminal(
        "index", "build", pages, "--out", tmp_path / "index", "--partial", env=without_packages, columns=200
    )
    assert (code, len(PassageIndex.load(tmp_path / "index"))) == (0, 1)
    assert sent.index("skipped: 3 .html files") < sent.index("1 passage indexed")


@pytest.mark.parametrize(
    "command", ["index build {1} --out {0}/new", "index sync {0}/new {1}", "index add {0}/there {1}"]
)
def test_in_a_pipe_the_exit_code_says_so(run, pages, without_packages, tmp_path, command):
    (tmp_path / "p.jsonl").write_text('{"text": "Oil is made of seeds."}')
    run("index", "build", tmp_path / "p.jsonl", "--out", tmp_path / "there")
    ran = subprocess.run(
        [sys.executable, "-m", "semclass", *command.format(tmp_path, pages).split()],
        cwd=ROOT,
        env={**os.environ, **without_packages},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[0].startswith("skipped: 3 .html files")
    assert not (tmp_path / "new").exists()
    assert len(PassageIndex.load(tmp_path / "there")) == 1


def test_files_of_unknown_endings_count_and_pictures_do_not(run, pages, tmp_path):
    for number in range(9):
        (pages / f"{number}.png").write_bytes(b"PNG")
    code, out, err = run("index", "build", pages, "--out", tmp_path / "a")
    assert (code, out[:18]) == (0, "4 passages indexed")
    assert "9 .png files" in err
    for number in range(5):
        (pages / f"{number}.dat").write_bytes(b"PK")
    code, out, err = run("index", "build", pages, "--out", tmp_path / "b")
    assert (code, out) == (2, "")
    assert "5 of 9 files" in err
    assert run("index", "build", pages, "--out", tmp_path / "b", "--partial")[0] == 0


def test_a_build_stops_when_most_files_turn_out_to_be_damaged(run, pages, tmp_path):
    index = tmp_path / "index"
    assert run("index", "sync", index, pages)[0] == 0
    for number in range(3):
        (pages / f"{number}.html").rename(pages / f"{number}.docx")
    code, _, err = run("index", "sync", index, pages)
    assert code == 2
    assert "3 of 4 files" in err
    assert "0.docx" in err
    assert len(PassageIndex.load(index)) == 4, "nothing was removed"
    assert run("index", "sync", index, pages, "--partial")[0] == 0
    assert len(PassageIndex.load(index)) == 1
