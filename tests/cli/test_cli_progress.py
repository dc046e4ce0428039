"""Progress of long commands, on real terminals of two widths and in a log."""

import json
import re
import sys

import pytest

from semclass import Passage
from semclass.cli import progress as module
from semclass.cli.progress import Progress, clock, fitting
from semclass.index.verify import verify

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

from beir import write_beir
from stub_endpoint import stub_endpoint
from terminal import CTRL_C, drawn, in_terminal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents, a BEIR folder over the same texts, labelled texts, and indices of both."""
    root = tmp_path_factory.mktemp("terminal")
    texts = ["The bridge was opened in 1874.", "Ada Merriweather built the tower.", "The mill grinds oats."]
    (root / "documents").mkdir()
    for number, text in enumerate(texts):
        (root / "documents" / f"{number}.md").write_text(f"# Part {number}\n\n{text}\n")
    passages = [Passage(str(number), text) for number, text in enumerate(texts)]
    write_beir(root / "beir", passages, {"q": ("When was the bridge opened?", "0")})
    labelled = {
        "where is it": "place",
        "which town is it in": "place",
        "who built it": "person",
        "who drew it": "person",
    }
    (root / "labelled.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in labelled.items()))
    (root / "texts.txt").write_text("Where is the mill?\nIs it in Paris?\n")
    (root / "labels.json").write_text(json.dumps({"place": "a place or town", "person": "somebody"}))
    code, sent = in_terminal("index", "build", root / "documents", "--out", root / "index")
    assert code == 0, sent
    return root


COMMANDS = {
    "build": ("index build {0}/documents --out {0}/built{1}", "indexing"),
    "add": ("index add {0}/index {0}/documents --update", "indexing"),
    "sync": ("index sync {0}/synced{1} {0}/documents", "reading"),
    "verify": ("index verify {0}/index", "verifying"),
    "evaluate": ("evaluate {0}/beir", "searching"),
    "train": ("train {0}/labelled.tsv --head {0}/head{1} --test {0}/labelled.tsv", "testing"),
    "label": (
        "label {0}/texts.txt --labels {0}/labels.json --out {0}/{1}.jsonl --endpoint {2} --model m",
        "labelling",
    ),
}


@pytest.mark.parametrize(("name", "columns"), [("build", 80), *((name, 40) for name in COMMANDS)])
def test_a_long_command_ends_well_on_a_terminal(folder, name, columns):
    command, label = COMMANDS[name]
    cache = {"SEMCLASS_CACHE": str(folder / f"cache{columns}")}
    with stub_endpoint(lambda prompt, before: "place") as stub:
        code, sent = in_terminal(*command.format(folder, columns, stub.url).split(), columns=columns, env=cache)
    assert code == 0, sent
    assert "Traceback" not in sent
    lines = drawn(sent, label)
    assert lines
    assert max(map(len, lines)) < columns
    over = [part for line in sent.split("\r\n") if "\r" in line for part in line.replace("\x1b[K", "").split("\r")]
    assert max(map(len, over)) < columns  # a longer one would wrap, and be drawn over in its last line alone


@pytest.mark.parametrize("columns", [80, 40])
def test_the_demonstration_fits_the_terminal(columns):
    code, sent = in_terminal("demo", columns=columns)
    assert code == 0, sent
    lines = re.sub("\x1b\\[\\d*m", "", sent).splitlines()
    assert max(len(line) for line in lines if "&&" not in line) <= columns  # the command is there to be copied
    assert "  Who leads the museum?" in {line[:23] for line in lines}


def test_a_folder_shows_files_and_passages(folder):
    code, sent = in_terminal("index", "build", folder / "documents", "--out", folder / "shown")
    assert code == 0
    assert drawn(sent, "indexing")[-1] == "indexing 3 of 3 files, 3 passages"


def test_a_pipe_shows_how_many_passages_of_how_many(folder):
    code, sent = in_terminal("index", "build", folder / "beir", "--out", folder / "beir-index")
    assert code == 0
    assert drawn(sent, "indexing")[-1] == "indexing 3 of 3 passages"


@pytest.mark.parametrize("columns", [80, 40])
def test_a_folder_is_watched_until_ctrl_c(tmp_path, columns):
    pytest.importorskip("watchfiles")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tower.md").write_text("The tower was built in 1901.\n")

    def change():
        (notes / "mill.md").write_text("The mill grinds oats since 1874.\n")

    def remove():
        (notes / "tower.md").unlink()

    code, sent = in_terminal(
        *("index", "sync", notes / "index", notes, "--watch"),  # the index is in the folder that is watched
        columns=columns,
        steps=[
            ("watching", change),
            ("documents: 1 added, 0 changed, 0 removed: 2 passages", remove),
            ("documents: 0 added, 0 changed, 1 removed: 1 passage", lambda: CTRL_C),
        ],
    )
    assert (code, "Traceback" in sent) == (130, False), sent
    assert sent.rstrip().endswith("stopped")
    assert sent.count("documents: ") == 3
    assert max(map(len, drawn(sent, "reading"))) < columns
    assert verify(notes / "index")["passages"] == 1


def test_ctrl_c_in_the_middle_of_a_sync_leaves_an_index_that_the_next_sync_completes(tmp_path):
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


def test_the_time_left_goes_by_the_files_read_and_the_passages_done():
    found = Progress("indexing", None, "passages", terminal=False)
    found.file_read(1, 4)
    assert found.parts(10.0) == ["1 of 4 files", "0 passages"]  # how long they take is not known yet
    list(found.reading(range(20)))
    found(10)
    # of a quarter, half is done: an eighth in ten seconds
    assert found.parts(10.0) == ["1 of 4 files", "10 passages", "1:10 left"]


def test_a_narrow_terminal_shows_the_parts_that_fit():
    parts = ["12 of 340 files", "1,204 passages", "0:35 left"]
    assert fitting("indexing", parts, 79) == "indexing 12 of 340 files, 1,204 passages, 0:35 left"
    assert fitting("indexing", parts, 39) == "indexing 12 of 340 files"
    assert fitting("indexing", parts, 5) == "index"


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(module, "LOGGED", 0.0)
    with module.progress("searching", 4, "questions") as step:
        step(2)
    assert "searching: 2 of 4 questions" in capsys.readouterr().err


@pytest.mark.parametrize(("seconds", "shown"), [(5.2, "0:05"), (65, "1:05"), (3723, "1:02:03")])
def test_a_time_reads_as_a_clock_shows_it(seconds, shown):
    assert clock(seconds) == shown
