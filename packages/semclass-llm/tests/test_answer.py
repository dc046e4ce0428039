"""``semclass ask``: sentences with their places, a context, and the answer of a language model."""

import json

import pytest
from stub_endpoint import stub_endpoint

from semclass import HybridRetriever, Passage
from semclass.cli.main import main
from semclass_llm import AnswerWriter, Endpoint

QUESTION = "When was the tower finished?"
ANSWER = "All work on it was done in the year 1901."
BRIDGE = "Ada Merriweather built the bridge over the river. It was opened to trams and people in 1874."


@pytest.fixture(scope="module")
def retriever(models):
    passages = [Passage("a", BRIDGE, {"document": "town.md", "heading": "Bridge"}), Passage("b", ANSWER)]
    return HybridRetriever.from_passages(passages, models=models)


def writing(reply, answer):
    with stub_endpoint(lambda prompt, before: reply) as stub:
        writer = AnswerWriter(Endpoint(stub.url, "m", retries=0))
        return writer.write(answer), writer.chat.bill, list(stub.asked)


def test_a_model_writes_an_answer_and_cites_by_number(retriever):
    answer = retriever.ask("Who built the bridge?")
    written, bill, (prompt,) = writing("Ada Merriweather built it [1], and trams use it [1, 2].", answer)
    assert (written.cited, written.answered, written.why, bill.calls) == ((1, 2), True, "", 1)
    assert written.text.startswith("Ada Merriweather")
    assert all(one.text in prompt for one in answer.sentences)
    assert "(Bridge)" in prompt


@pytest.mark.parametrize(("reply", "why"), [("Ada built it.", "unreadable"), ("Ada built it [9].", "unreadable")])
def test_an_answer_without_sources_is_none(retriever, reply, why):
    answer = retriever.ask("Who built the bridge?")
    written, bill, _ = writing(reply, answer)
    assert (written.text, written.why, written.sentences) == ("", why, answer.sentences)
    assert getattr(bill, why) == 1


def test_a_model_finds_no_answer_in_the_sentences(retriever):
    written, _, _ = writing("None of them does.", retriever.ask("Who built the bridge?"))
    assert (written.text, written.why, written.answered) == ("", "", False)
    nothing = retriever.ask("Who?", where={"document": "none.md"})
    assert writing("Ada [1].", nothing)[::2] == (nothing, [])


# -- the command line


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    (folder / "docs").mkdir()
    (folder / "docs" / "town.md").write_text(f"# Bridge\n\nAda drew it, and trams cross it.\n\n# Tower\n\n{ANSWER}\n")
    main(["index", "build", str(folder / "docs"), "--out", str(folder / "index")])
    return folder / "index"


def test_sentences_are_printed_with_their_places(run, index):
    code, out, _ = run("ask", index, QUESTION, "-k", 1)
    assert (code, out.splitlines()) == (0, [f" 1  {ANSWER}", "    town.md · Tower"])
    record = json.loads(run("ask", index, QUESTION, "--json")[1])
    assert record["answered"] is True
    assert record["sentences"][0]["text"] == ANSWER
    assert run("ask", index, QUESTION, "--where", "document=none")[:2] == (0, "")


def test_a_context_has_numbered_sources(run, index):
    code, out, _ = run("ask", index, QUESTION, "--context", 40)
    assert (code, out.startswith(f"[1] town.md, Tower\n{ANSWER}\n")) == (0, True)


def test_a_model_writes_the_answer_at_a_known_cost(run, index):
    for reply, first, note in (
        ("It was finished in 1901 [1].", "It was finished in 1901 [1].", "1 call"),
        ("It was finished in 1901.", f" 1  {ANSWER}", "unreadable"),
    ):
        with stub_endpoint(lambda prompt, before, reply=reply: reply) as stub:
            code, out, err = run("ask", index, QUESTION, "--endpoint", stub.url, "--model", "m")
        assert (code, out.splitlines()[0], note in err) == (0, first, True)
    assert run("ask", index, QUESTION, "--model", "m")[0] == 2
