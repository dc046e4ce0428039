"""Progress of long commands: a bar on a terminal, a line now and then in a log."""

import sys

import pytest

from semclass.cli import progress as module
from semclass.index.verify import verify

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

from beir import write_beir
from terminal import CTRL_C, drawn, in_terminal

from semclass import Passage

TEXTS = ["The bridge was opened in 1874.", "Ada Merriweather built the tower.", "The mill grinds oats."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents, a BEIR folder over the same texts, and an index."""
    root = tmp_path_factory.mktemp("terminal")
    (root / "documents").mkdir()
    for number, text in enumerate(TEXTS):
        (root / "documents" / f"{number}.md").write_text(f"# Part {number}\n\n{text}\n")
    passages = [Passage(str(number), text) for number, text in enumerate(TEXTS)]
    write_beir(root / "beir", passages, {"q": ("When was the bridge opened?", "0")})
    return root


@pytest.mark.parametrize("columns", [80, 40])
def test_a_bar_shows_files_or_passages(folder, columns):
    for source, shown in (("documents", "3 passages"), ("beir", "3 of 3 passages")):
        out = folder / f"{source}{columns}"
        code, sent = in_terminal("index", "build", folder / source, "--out", out, columns=columns)
        assert (code, "Traceback" in sent) == (0, False), sent
        lines = drawn(sent, "indexing")
        assert "100%" in lines[-1]
        assert (shown in lines[-1]) is (columns == 80)
        assert max(map(len, lines)) <= columns


def test_the_demonstration_fits_the_terminal():
    code, sent = in_terminal("demo", columns=60)
    assert code == 0, sent
    lines = sent.replace("\x1b[1m", "").replace("\x1b[32m", "").replace("\x1b[0m", "").splitlines()
    assert max(len(line) for line in lines if "&&" not in line) <= 60  # the command is there to be copied


def test_a_folder_is_watched_until_ctrl_c(tmp_path):
    pytest.importorskip("watchfiles")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tower.md").write_text("The tower was built in 1901.\n")
    code, sent = in_terminal(
        *("index", "sync", notes / "index", notes, "--watch"),  # the index is in the folder that is watched
        steps=[
            ("watching", lambda: (notes / "mill.md").write_text("The mill grinds oats.\n") and None),
            ("documents: 1 added, 0 changed, 0 removed: 2 passages", (notes / "tower.md").unlink),
            ("documents: 0 added, 0 changed, 1 removed: 1 passage", lambda: CTRL_C),
        ],
    )
    assert (code, "Traceback" in sent, sent.rstrip().endswith("stopped")) == (130, False, True), sent
    assert verify(notes / "index")["passages"] == 1


def test_ctrl_c_in_a_sync_leaves_an_index_that_the_next_sync_completes(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tower.md").write_text("The tower was built in 1901.\n")
    assert in_terminal("index", "sync", tmp_path / "index", notes)[0] == 0
    for number in range(400):
        (notes / f"{number}.md").write_text(f"The mill number {number} grinds oats since {number + 1400}.\n")
    code, sent = in_terminal("index", "sync", tmp_path / "index", notes, steps=[("reading ", lambda: CTRL_C)])
    assert (code, "Traceback" in sent, sent.rstrip().endswith("stopped")) == (130, False, True), sent
    assert 1 <= verify(tmp_path / "index")["passages"] < 401
    assert in_terminal("index", "sync", tmp_path / "index", notes)[0] == 0
    assert verify(tmp_path / "index")["passages"] == 401


def test_a_log_gets_a_line_now_and_then_and_else_nothing(monkeypatch, capsys):
    with module.progress("searching", 4, "questions") as step:
        step(2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "LOG_SECONDS", 0.0)
    with module.progress("indexing", None) as step:
        step.file_read(1, 3)
        step(2)
    assert "indexing: 1 of 3 files, 2 passages after 0 s\n" in capsys.readouterr().err
