"""What the page makes of texts, run by node: Markdown becomes text, in a time that grows with the text."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from semclass.service import static

NODE = shutil.which("node")
TEXT = Path(static.__file__).parent / "page" / "text.js"

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")

LONG = 1_000_000  # characters; what takes the square of them takes hours


@pytest.fixture
def run(tmp_path):
    """Calls a function of the page with a text, in a minute at most."""
    (tmp_path / "text.mjs").write_bytes(TEXT.read_bytes())

    def called(name, text, show="value"):
        (tmp_path / "given.json").write_text(json.dumps(text))
        (tmp_path / "call.mjs").write_text(
            'import { readFileSync } from "node:fs";\nimport * as text from "./text.mjs";\n'
            'const given = JSON.parse(readFileSync(new URL("given.json", import.meta.url), "utf-8"));\n'
            f"const value = text.{name}(given);\nconsole.log(JSON.stringify({show}));\n"
        )
        done = subprocess.run([NODE, tmp_path / "call.mjs"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return called


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Bridges\nAda **drew** `it`.", "Bridges\nAda drew it."),
        ("``a `b` c`` and __init__", "a `b` c and init"),
        ("[Ada](https://example.org/a_(b)) and ![a plan](plan.png)", "Ada and a plan"),
        ("[one](a) [two](b) [not a link] (c)", "one two [not a link] (c)"),
        ("2 ** 3 ** 4 and a ** b**", "2 ** 3 ** 4 and a ** b**"),
        ("**a **b** c", "a **b c"),
        ("**** and ` ` and **open", "**** and ` ` and **open"),
        ("one **line\nanother** line", "one **line\nanother** line"),
    ],
)
def test_markdown_becomes_text(run, markdown, text):
    assert run("readable", markdown) == text


def test_words_are_compared_without_case_and_accents(run):
    assert run("folded", "BRU\u0308CKE Café Ǻ") == "brucke cafe a"


def test_passages_stand_between_empty_lines_or_on_lines_of_their_own(run):
    assert run("split", "a\n b\n \nc\n") == ["a b", "c"]
    assert run("split", "a\n b\n") == ["a", "b"]


@pytest.mark.parametrize("name", ["readable", "folded", "split"])
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "[a](",
        "[a]((b)",
        "![",
        "`a ",
        "**a ",
        "`` a",
        "**",
        "__a",
        "# ",
        "\n ",
        "# a\n ",
        "\u0301\u0316",
        "1,",
        " ",
    ],
)
def test_the_time_grows_with_the_text_and_not_with_its_square(run, name, piece):
    assert run(name, "x" + piece * (LONG // len(piece)) + "x", show="value.length") > 0
