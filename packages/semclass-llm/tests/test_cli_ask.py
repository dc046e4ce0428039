"""``semclass ask``: sentences with their places, and an answer of a language model."""

from __future__ import annotations

import json

import pytest
from running import running
from stub_endpoint import stub_endpoint
from terminal import in_terminal

from semclass.cli.main import main

run = pytest.fixture(running)

QUESTION = "When was the tower finished?"
ANSWER = "All work on it was done in the year 1901."


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    (folder / "docs").mkdir()
    (folder / "docs" / "town.md").write_text(f"# Bridge\n\nAda drew it, and trams cross it.\n\n# Tower\n\n{ANSWER}\n")
    main(["index", "build", str(folder / "docs"), "--out", str(folder / "index")])
    return folder / "index"


def test_sentences_are_printed_with_their_places(run, index):
    code, out, _ = run("ask", index, QUESTION, "-k", 1)
    assert code == 0
    assert [line.split(maxsplit=1)[-1] for line in out.splitlines()[:1]] == [ANSWER]
    assert "town.md" in out.splitlines()[1]
    record = json.loads(run("ask", index, QUESTION, "--json")[1])
    assert record["answered"] is True
    assert record["sentences"][0]["text"] == ANSWER
    assert record["sentences"][0]["metadata"]["headings"] == ["Tower"]


def test_an_index_that_does_not_answer_says_so(run, index):
    code, _, error = run("ask", index, "At what temperature does tungsten melt?")
    assert (code, "answerable" in error) == (0, True)
    assert run("ask", index, QUESTION, "--where", "document=none")[:2] == (0, "")


def test_a_model_writes_the_answer_and_the_cost_is_told(run, index):
    pytest.importorskip("openai")
    with stub_endpoint(lambda prompt, before: "It was finished in 1901 [1].") as stub:
        service = ["--endpoint", stub.url, "--model", "m"]
        code, out, error = run("ask", index, QUESTION, *service)
        record = json.loads(run("ask", index, QUESTION, *service, "--json")[1])
    assert (code, out.splitlines()[0]) == (0, "It was finished in 1901 [1].")
    assert "1 call" in error
    assert (record["text"], record["cited"]) == ("It was finished in 1901 [1].", [1])
    with stub_endpoint(lambda prompt, before: "It was finished in 1901.") as stub:
        code, out, error = run("ask", index, QUESTION, "--endpoint", stub.url, "--model", "m")
    assert (code, "nonsense" in error, ANSWER in out) == (0, True, True)
    with stub_endpoint(lambda prompt, before: "None.") as stub:
        code, out, error = run("ask", index, QUESTION, "--endpoint", stub.url, "--model", "m")
    assert (code, "language model" in error, ANSWER in out) == (0, True, True)
    assert run("ask", index, QUESTION, "--model", "m")[0] == 2


def test_text_of_documents_commands_no_terminal(run, index, tmp_path):
    (tmp_path / "a.txt").write_text("The tower was \x1b[31mfinished in 1901\x07 by Ada Lovell and others.\n")
    run("index", "build", tmp_path / "a.txt", "--out", tmp_path / "index")
    code, sent = in_terminal("ask", tmp_path / "index", QUESTION, columns=60)
    assert (code, "\x07" in sent, "\x1b" in sent, "finished in 1901" in sent) == (0, False, False, True)
