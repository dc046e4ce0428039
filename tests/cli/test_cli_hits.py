"""Hits on the command line: filters, weights, places, best sentences, and the words that match."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from semclass import Explanation, Hit, HybridRetriever
from semclass.cli import search as hits
from semclass.cli.main import cli
from semclass.core.types import WordMatch
from semclass.index.folder import store

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


def test_weights_and_scores_are_those_of_python(run, index):
    out = run("search", index, QUESTION, "--method", "convex", "--json", "--weight", "alpha=0.2")[1]
    hits = HybridRetriever.load(index).search(QUESTION, method="convex", weights={"alpha": 0.2})
    shown = [(hit["id"], hit["score"]) for hit in json.loads(out)["hits"]]
    assert shown == [(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in hits]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-k", "0"], ["k is 0; it must be at least 1"]),
        (["--weight", "alpha"], ["has no numeric value; write NAME=VALUE"]),
        (["--weight", "beta=2"], ["a weight is 'beta'; it must be one of 'alpha'"]),
        (["--boost", "topic=much"], ["--boost 'topic=much' has no numeric value"]),
        (["--method", "sum"], ["'sum' is not one of 'default', 'bm25'"]),
        (["--where", "document"], ["the filter 'document' must be a comparison"]),
        (["--where", "pag>=3"], ["did you mean 'page'?"]),
        (["--where", "page>>100"], [">>100", "=, !=, <, <=, >, >="]),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(run, index, arguments, says):
    code, out, err = run("search", index, QUESTION, *arguments)
    assert (code, out) == (2, "")
    assert all(part in err for part in says), err


def search(index, *arguments, color=False):
    return CliRunner().invoke(cli, ["search", str(index), *arguments], color=color, env={"COLUMNS": "80"})


def test_a_hit_shows_its_place_and_its_best_sentence(index):
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


def test_a_search_without_an_answer_says_so_by_a_threshold(run, index):
    strange = "At what temperature does tungsten melt?"
    assert "no passage answers" not in run("search", index, strange)[2]
    store(index, answerable={"from": 0.02})
    for question, silent in ((QUESTION, True), (strange, False)):
        _, out, err = run("search", index, question)
        assert ("no passage answers" not in err) is silent
        assert len(out.splitlines()) > 3
        assert (json.loads(run("search", index, question, "--json", "-k", 1)[1])["answerable"] > 0.3) is silent
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
    explanation = Explanation({}, 0.5, words, (), sentence)
    return Hit("id-1", text, metadata, 0.5, 1, 1, {}, (), {}, explanation)


def test_of_a_long_path_the_nearest_headings_are_kept():
    hit = hit_of(
        "Two years.", document="manual.pdf", page=12, headings=["The whole of the manual", "Boiler", "Warranty"]
    )
    (first, text) = hits.lines_of(hit, 60)
    assert first.split("  ")[1:2] == ["manual.pdf · page 12 · … › Boiler › Warranty"]
    assert (len(first), text.strip()) == (60, "Two years.")
    assert len(next(hits.lines_of(hit_of("Two years.", title="A title " * 20), 60))) == 60


def test_a_long_sentence_is_shown_whole():
    long = f"It was {'very ' * 60}old."
    text = f"It is of granite. {long} {'Trams cross it. ' * 40}"
    lines = hits.snippet(text, (18, 18 + len(long)), 76)
    assert " ".join(lines).startswith(f"… {long}")
    assert hits.MIN_LINES < len(lines) <= hits.MAX_LINES
    assert lines[-1].endswith("…")
    assert hits.snippet("red\x1b[31m \nand\tgreen", None, 76) == ["red [31m and green"]


def test_a_snippet_holds_the_sentence_that_matched(run, tmp_path):
    around = "The boat was built in the yard of Holm and is painted every spring by men of the town. " * 3
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(f"{around}In the cellar of the house stands a pump. {around}")
    (tmp_path / "docs" / "b.txt").write_text(
        f"{around}Much water, which is pumped\nby night. Nobody sees the pump. {around}"
    )
    run("index", "build", tmp_path / "docs", "--out", tmp_path / "index")
    for method in ("default", "bm25"):
        out = run("search", tmp_path / "index", "pump", "--method", method)[1]
        assert out.count("In the cellar of the house stands a pump.") == out.count("Nobody sees the pump.") == 1


def test_a_message_shows_its_sender_and_date():
    mail = {
        "document": "a.mbox:1@x", "file": "a.mbox", "message": 3, "sender": "ann@x.org", "sender_name": "Ann Lee",
        "date": "2025-11-03T10:12:00+01:00", "title": "The pump",
    }  # fmt: skip
    assert hits.place_of("a", mail, 80) == "a.mbox · message 3 · Ann Lee 2025-11-03 · The pump"
    assert hits.place_of("a", {"file": "a.eml", "sender": "ann@x.org", "document": "b.eml"}, 80) == "a.eml · ann@x.org"


def test_words_near_those_of_the_question_are_marked():
    words = (WordMatch("Erbauer", 0.6, "Brücke", 0.8, False), WordMatch("the", 0.01, "with", 0.9, False))
    (_, line) = hits.lines_of(hit_of("Die BRÜCKE with arches", words=words), 60)
    assert line == "    Die \x1b[1mBRÜCKE\x1b[0m with arches"


def test_rows_and_items_are_shown_apart():
    rows = "part: filter; years: 1\npart: pump; years: 8"
    assert hits.snippet(rows, None, 60, rows=True) == rows.split("\n")
    assert hits.snippet("one line\nand its end", None, 60) == ["one line and its end"]
    shown = hits.snippet("Run it:\n\n- first\n- then\n  more\n\n# End\n", None, 60)
    assert shown == ["Run it:", "- first", "- then more …"]
