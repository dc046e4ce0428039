"""What the page makes of texts, run by node: Markdown becomes text, in a time that grows with the text."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from semclass_serve import static

NODE = shutil.which("node")
TEXT = Path(static.__file__).parent / "page" / "text.js"

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node")

LONG = 1_000_000  # characters; what takes the square of them takes hours


@pytest.fixture
def run(tmp_path):
    """Calls a function of the page with a text, in a minute at most."""
    (tmp_path / "text.mjs").write_bytes(TEXT.read_bytes())

    def called(call, text, show="value"):
        (tmp_path / "given.json").write_text(json.dumps(text))
        (tmp_path / "call.mjs").write_text(
            'import { readFileSync } from "node:fs";\nimport * as text from "./text.mjs";\n'
            'const given = JSON.parse(readFileSync(new URL("given.json", import.meta.url), "utf-8"));\n'
            f"const value = text.{call};\nconsole.log(JSON.stringify({show}));\n"
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
        ("```sh\nls\n```\nThen", "ls\nThen"),
        ("one **line\nanother** line", "one **line\nanother** line"),
    ],
)
def test_markdown_becomes_text(run, markdown, text):
    assert run("readable(given)", markdown) == text


def test_a_long_text_is_cut_around_its_sentence(run):
    text = f"{'before ' * 100}It was opened in 1874. {'after ' * 100}"
    start = text.index("It was")
    cut = run(f"excerpt(given, [{start}, {start + 23}], false)", text)
    assert cut["cut"]
    before, sentence, after = cut["parts"]
    assert sentence == "It was opened in 1874. "
    assert before.startswith("… before")
    assert after.endswith("after …")
    assert len(before + sentence + after) < 450
    whole = run(f"excerpt(given, [{start}, {start + 23}], true)", text)
    assert "".join(whole["parts"]) == text


def test_places_of_sentences_count_signs_of_two_units_once(run):
    assert run("excerpt(given, [11, 21], false).parts[1]", "𝔅 bridges. It is red.") == "It is red."


@pytest.mark.parametrize(
    ("path", "page", "found"),
    [
        ("/documents/a.pdf", "7", "page=7"),
        ("/documents/a.pdf", "null", ""),
        ("/documents/a.md", "null", ":~:text=A%20**red**%20half%2Dtimbered%20house.&text=The%20town"),
        ("/documents/a.html", "null", ":~:text=A%20red%20half%2Dtimbered%20house.&text=The%20town"),
    ],
)
def test_a_document_opens_at_a_page_or_at_the_words_of_a_sentence(run, path, page, found):
    sentence = "A **red** half-timbered house."
    assert run(f"fragment('{path}', {page}, given, 'The town')", sentence) == found


def test_of_a_long_sentence_the_first_and_last_words_are_looked_for(run):
    assert (
        run("fragment('/a.txt', null, given, '')", " ".join("abcdefghijklmno"))
        == ":~:text=a%20b%20c%20d%20e,l%20m%20n%20o"
    )


def test_passages_stand_between_empty_lines_or_on_lines_of_their_own(run):
    assert run("split(given)", "a\n b\n \nc\n") == ["a b", "c"]
    assert run("split(given)", "a\n b\n") == ["a", "b"]


@pytest.mark.parametrize("call", ["readable(given)", "split(given)", "fragment('/a.html', null, given, given)"])
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
def test_the_time_grows_with_the_text_and_not_with_its_square(run, call, piece):
    assert run(call, "x" + piece * (LONG // len(piece)) + "x", show="value.length") > 0
