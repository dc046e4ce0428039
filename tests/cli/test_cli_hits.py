"""What a search shows: where a passage stands, its best sentence, the words that match, and what is wrong with a filter."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from running import running

from semclass import Explanation, Hit
from semclass.cli import hits
from semclass.cli.main import cli
from semclass.core.types import WordMatch

run = pytest.fixture(running)

QUESTION = "Who built the bridge?"
MANUAL = (
    "# Town\n\n## The bridge\n\nTrams cross it every hour, and carts came to market over it before there were any. It is "
    "of granite, as are the houses on both sides of the river, and it has five arches. The bridge was built by Ada Lovell. "
    "Every spring the council lets a mason look at it, who has found nothing yet that had to be mended in a hurry.\n"
)
PAGES = "Ferries leave at noon.\n\fThe harbour was dredged in 1890.\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hits")
    (folder / "docs").mkdir()
    (folder / "docs" / "town.md").write_text(MANUAL)
    (folder / "docs" / "port.txt").write_text(PAGES)
    CliRunner().invoke(cli, ["index", "build", str(folder / "docs"), "--out", str(folder / "index")])
    return folder / "index"


def search(index, *arguments, color=False):
    return CliRunner().invoke(cli, ["search", str(index), *arguments], color=color, env={"COLUMNS": "80"})


def test_a_hit_says_document_headings_and_page_and_begins_with_its_best_sentence(index):
    lines = search(index, QUESTION, "-k", "1").stdout.splitlines()
    assert lines[0].startswith(" 1  town.md · Town › The bridge  ")
    assert lines[1].startswith("    … The bridge was built by Ada Lovell.")
    assert max(map(len, lines)) <= 80
    assert "port.txt · page 2 " in search(index, "When was the harbour dredged?").stdout


def test_matching_words_are_bold_on_a_terminal_alone(index):
    shown = search(index, QUESTION, "-k", "1", color=True).stdout
    bold = {word.lower() for word in re.findall("\x1b\\[1m(.*?)\x1b\\[0m", shown)}
    assert {"built", "bridge"} <= bold
    assert not {"was", "by", "the"} & bold
    assert re.sub("\x1b\\[\\d*m", "", shown) == search(index, QUESTION, "-k", "1").stdout
    assert "\x1b" not in search(index, QUESTION, "--json", color=True).stdout


def test_a_search_that_finds_no_answer_says_so_beside_its_hits(run, index):
    strange = "At what temperature does tungsten melt?"
    for question, silent in ((QUESTION, True), (strange, False)):
        _, out, err = run("search", index, question)
        assert ("no passage answers" not in err) is silent
        assert len(out.splitlines()) > 3
        assert (json.loads(run("search", index, question, "--json", "-k", 1)[1])["answerable"] > 0.3) is silent
    assert json.loads(run("search", index, strange, "--context", "--json")[1])["answerable"] < 0.3
    assert "answerable" not in json.loads(run("search", index, QUESTION, "--json", "-k", 1, "--method", "bm25")[1])


def test_json_says_where_the_best_sentence_is(run, index):
    (record,) = json.loads(run("search", index, QUESTION, "-k", 1, "--json")[1])["hits"]
    assert record["text"][slice(*record["sentence"])] == "The bridge was built by Ada Lovell."
    assert (record["metadata"]["document"], record["metadata"]["headings"]) == ("town.md", ["Town", "The bridge"])
    assert "explanation" not in record
    _, out, _ = run("search", index, "dredged", "--where", "page=2", "--json")
    (found,) = json.loads(out)["hits"]
    assert (found["metadata"]["document"], found["metadata"]["page"]) == ("port.txt", 2)


def test_an_explanation_is_of_words_and_in_words(index):
    shown = search(index, "Who built the granite bridge, was it Merriweather?", "-k", "1", "--explain").stdout
    assert "##" not in shown
    assert re.search(r"the same words: .*\bgranite\b", shown)


def hit_of(text, sentence=None, words=(), **metadata):
    explanation = Explanation({}, 0.5, "identity", words, (), sentence)
    return Hit("id-1", text, metadata, 0.5, 1, 1, {}, (), {}, explanation)


def test_of_a_long_path_the_nearest_headings_are_kept():
    hit = hit_of(
        "Two years.", document="manual.pdf", page=12, headings=["The whole of the manual", "Boiler", "Warranty"]
    )
    (first, text) = hits.lines_of(hit, 60)
    assert first.split("  ")[1:2] == ["manual.pdf · page 12 · … › Boiler › Warranty"]
    assert (len(first), text.strip()) == (60, "Two years.")
    assert len(next(hits.lines_of(hit_of("Two years.", title="A title " * 20), 60))) == 60


def test_a_long_sentence_is_shown_whole_and_a_terminal_takes_no_commands():
    long = f"It was {'very ' * 60}old."
    text = f"It is of granite. {long} {'Trams cross it. ' * 40}"
    lines = hits.excerpt(text, (18, 18 + len(long)), 76)
    assert " ".join(lines).startswith(f"… {long}")
    assert hits.LINES < len(lines) <= hits.MOST
    assert lines[-1].endswith("…")
    assert hits.excerpt("red\x1b[31m \nand\tgreen", None, 76) == ["red [31m and green"]


def test_words_near_those_of_the_question_are_marked():
    words = (WordMatch("Erbauer", 0.6, "Brücke", 0.8, False), WordMatch("the", 0.01, "with", 0.9, False))
    (_, line) = hits.lines_of(hit_of("Die BRÜCKE with arches", words=words), 60)
    assert line == "    Die \x1b[1mBRÜCKE\x1b[0m with arches"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("pag>=3", ["'pag'", "did you mean 'page'?", "document, end"]),
        ('{"$or": [{"page": 1}, {"author.name": "Ada"}]}', ["'author.name'"]),
        ("page>>100", [">>100", "=, !=, <, <=, >, >="]),
        ("page=>3", ["=>3", "=, !=, <, <=, >, >="]),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(run, index, given, says):
    code, out, err = run("search", index, QUESTION, "--where", given)
    assert (code, out) == (2, "")
    assert all(part in err for part in says)


def test_a_quoted_value_may_begin_like_an_operator_and_a_missing_field_may_be_asked_for(run, index):
    assert run("search", index, QUESTION, "--where", 'document="=x"') == (0, "", "no matching passages\n")
    assert run("search", index, QUESTION, "--where", '{"author": {"$exists": false}}')[0] == 0


def test_nothing_is_deleted_by_a_field_that_no_passage_has(run, index):
    code, _, err = run("index", "delete", index, "--where", "pag!=3")
    assert (code, "did you mean 'page'?" in err) == (2, True)


def test_duplicates_are_counted_and_one_passage_is_one(run, tmp_path):
    (tmp_path / "a.txt").write_text("Ferries leave the old harbour every day at noon.\n\n" * 2)
    code, out, err = run("index", "build", tmp_path / "a.txt", "--out", tmp_path / "index", "--mark-duplicates")
    assert (code, out.startswith("2 passages indexed"), "1 of 2 passages" in err) == (0, True, True)
    assert run("index", "delete", tmp_path / "index", "a.txt#2")[1] == "1 removed: 1 passage in 1 segment\n"
    assert run("index", "info", tmp_path / "index")[1].startswith("1 passage, ")


def test_rows_items_and_lines_of_code_are_shown_apart():
    rows = "part: filter; years: 1\npart: pump; years: 8"
    assert hits.excerpt(rows, None, 60, rows=True) == rows.split("\n")
    assert hits.excerpt("one line\nand its end", None, 60) == ["one line and its end"]
    shown = hits.excerpt("Run it:\n\n- first\n- then\n  more\n\n```sh\nif x:\n    y\n```", None, 60)
    assert shown == ["Run it:", "- first", "- then more …"]
    assert hits.excerpt("Say:\n\n```sh\nif x:\n    y\n```", None, 60) == ["Say:", "if x:", "    y"]
    code = "Words " * 40 + "\n\n```\na\n    b\n```"
    assert hits.excerpt(code, (code.index("a\n"), code.index("b")), 60) == ["… a", "    b"]
