"""Output to a terminal: progress, and no terminal codes from documents, names and errors."""

import ast
import json
import os
import re
import signal
import sys

import pytest
from world import ROOT

from semclass.cli.options import json_line, plain

if sys.platform == "win32":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

from beir import write_beir
from terminal import CTRL_C, drawn, in_terminal

from semclass import Passage
from semclass.cli import options as module
from semclass.index.verify import verify

TITLE, CLEAR, RED = "\x1b]0;owned\x07", "\x1b[2J", "\x9b31m"  # the last one is a command in 8 bits
EVIL = f"{TITLE}{CLEAR}{RED}"

OURS = re.compile("\x1b\\[(?:[01]m|K|\\?25[lh])")  # words in bold, a line cleared, and the cursor hidden
COMMAND = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents, a corpus, questions, labelled texts and an index, all of which hold commands for a terminal."""
    root = tmp_path_factory.mktemp("escapes")
    documents = root / f"documents{CLEAR}"
    documents.mkdir()
    (documents / f"bridge{TITLE}.md").write_text(
        f"# The bridge {EVIL}\n\nAda {RED}Merriweather built {CLEAR}the bridge.\r\n\n```\nopen{TITLE} 1874\n```\n"
    )
    (documents / f"bad{EVIL}.md").write_bytes(b"caf\xe9 \xff")
    (documents / f"table{EVIL}.csv").write_text(f"name{RED},text{CLEAR}\nmill{EVIL},The mill grinds oats.\n")
    (documents / f"program{EVIL}.exe").write_bytes(b"MZ")
    (documents / os.fsdecode(b"caf\xe9\x9b2J.md")).write_bytes(b"caf\xe9 \xff")  # not UTF-8, nor is its name
    corpus = [(f"a{EVIL}", f"The bridge {CLEAR}was opened in 1874."), ("b", f"Ada {EVIL}built the tower.")]
    (root / "corpus.jsonl").write_text(
        lines(*({"_id": name, "text": text, "title": f"Town {EVIL}"} for name, text in corpus))
    )
    beir = root / f"beir{RED}"
    (beir / "qrels").mkdir(parents=True)
    (beir / "corpus.jsonl").write_text((root / "corpus.jsonl").read_text())
    (beir / "queries.jsonl").write_text(lines({"_id": f"q{EVIL}", "text": f"When was the {CLEAR} bridge opened?"}))
    (beir / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq{EVIL}\ta{EVIL}\t1\n")
    labels = [f"place{CLEAR}", f"person{RED}"]
    rows = [("where is it", 0), ("which town is it in", 0), ("who built it", 1), ("who drew it", 1)]
    labelled = [{"text": f"{text} {EVIL}", "label": labels[row]} for text, row in rows]
    (root / "labelled.jsonl").write_text(lines(*labelled, {"text": f"who is it {EVIL}", "label": labels[0]}))
    (root / "labels.json").write_text(json.dumps({label: f"such a {label}" for label in labels}))
    (root / "broken.jsonl").write_text(lines({"_id": f"a{EVIL}", "txt": EVIL}))
    for source, name in ((documents, "index"), (beir, "judged")):
        code, sent = in_terminal("index", "build", source, "--out", root / name)
        assert code == 0, sent
    return root


COMMANDS = {
    "build": (0, "index build {0}/documents\x1b[2J --out {0}/built"),
    "build of what is broken": (2, "index build {0}/broken.jsonl --out {0}/broken"),
    "sync": (0, "index sync {0}/synced {0}/documents\x1b[2J"),
    "info": (0, "index info {0}/index"),
    "nothing there": (2, "index info {0}/no\x1b[2Jthing"),
    "no such option": (2, "index info {0}/index --\x1b[2J"),
    "search": (0, "search {0}/index bridge --explain"),
    "search in JSON": (0, "search {0}/index bridge --json"),
    "search with a wrong filter": (2, "search {0}/index bridge --where \x1b[2J=1"),
    "rerank": (0, "rerank bridge --passages {0}/corpus.jsonl"),
    "classify questions": (0, "classify questions --file {0}/labelled.jsonl"),
    "classify passages": (0, "classify passages --file {0}/corpus.jsonl"),
    "classify texts": (0, "classify texts --labels {0}/labels.json --file {0}/labelled.jsonl"),
    "train": (0, "train {0}/labelled.jsonl --head {0}/head\x1b[2J --test {0}/labelled.jsonl"),
    "evaluate": (0, "evaluate {0}/beir\x9b31m --index {0}/judged"),
    "evaluate an index of other passages": (2, "evaluate {0}/beir\x9b31m --index {0}/index"),
}


def written(folder, command):
    return [part.format(folder) for part in command.split(" ")]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_hands_on_what_commands_a_terminal(run, folder, monkeypatch, name):
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_, **__: False)  # as on a terminal
    expected, command = COMMANDS[name]
    code, *sent = run(*written(folder, command))
    assert code == expected, sent
    assert not COMMAND.search(OURS.sub("", "".join(sent))), sent


def test_a_terminal_gets_no_commands_of_texts(folder):
    code, sent = in_terminal(*written(folder, COMMANDS["search"][1]))
    assert code == 0, sent
    assert "\x1b[1m" in sent
    assert not COMMAND.search(OURS.sub("", sent)), sent


def test_control_characters_become_spaces():
    assert plain("a\x1b[2Jb\x9bc\r\n\td\udce9") == "a [2Jb c \n\td?"


def test_json_keeps_them_as_escapes():
    record = {"text": f"{EVIL}\x7f\udc9b ü"}
    assert not COMMAND.search(json_line(record))
    assert json_line(record).isprintable()
    assert json.loads(json_line(record)) == record


def test_the_command_line_prints_in_one_place():
    """Text that is printed elsewhere is not made plain."""
    for path in (ROOT / "semclass" / "cli").glob("*.py"):
        calls = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        }
        allowed = {"click.echo"} if path.name == "options.py" else set()
        assert calls & {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"} == allowed, path


# -- progress

TEXTS = ["The bridge was opened in 1874.", "Ada Merriweather built the tower.", "The mill grinds oats."]


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Documents, a BEIR folder over the same texts, and an index."""
    root = tmp_path_factory.mktemp("terminal")
    (root / "documents").mkdir()
    for number, text in enumerate(TEXTS):
        (root / "documents" / f"{number}.md").write_text(f"# Part {number}\n\n{text}\n")
    passages = [Passage(str(number), text) for number, text in enumerate(TEXTS)]
    write_beir(root / "beir", passages, {"q": ("When was the bridge opened?", "0")})
    return root


@pytest.mark.parametrize("columns", [80, 40])
def test_a_bar_shows_files_or_passages(town, columns):
    for source, shown in (("documents", "3 passages"), ("beir", "3 of 3 passages")):
        out = town / f"{source}{columns}"
        code, sent = in_terminal("index", "build", town / source, "--out", out, columns=columns)
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


def test_a_sync_after_ctrl_c_completes_the_index(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tower.md").write_text("The tower was built in 1901.\n")
    assert in_terminal("index", "sync", tmp_path / "index", notes)[0] == 0
    for number in range(400):
        (notes / f"{number}.md").write_text(f"The mill number {number} grinds oats since {number + 1400}.\n")
    code, sent = in_terminal("index", "sync", tmp_path / "index", notes, steps=[("reading ", lambda: CTRL_C)])
    # Python ends by the signal itself where it comes while a class is made from text; a shell shows 130 for both
    assert code in (130, -signal.SIGINT), sent
    assert ("Traceback" in sent, sent.rstrip().endswith("stopped")) == (False, True), sent
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
    assert "indexing: 1 of 3 files, 2 passages\n" in capsys.readouterr().err
