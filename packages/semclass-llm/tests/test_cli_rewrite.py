"""``semclass search --rewrite``: what a language model makes of the question, and what it cost."""

import json

import pytest
from running import running
from stub_endpoint import stub_endpoint

pytest.importorskip("openai")
run = pytest.fixture(running)

QUESTION = "When was it finished?"


@pytest.fixture(scope="module")
def index(tmp_path_factory, retriever):
    folder = tmp_path_factory.mktemp("rewrite") / "index"
    retriever.index.save(folder)
    return folder


def service(stub, way, *more):
    return ["--rewrite", way, "--endpoint", stub.url, "--model", "m", "--json", *more]


def ids(text):
    return [hit["id"] for hit in json.loads(text)["hits"]]


@pytest.mark.parametrize("method", ["default", "convex"])
@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("conversation", "When was the lighthouse finished?"),
        ("step-back", "When was the lighthouse built?"),
        ("sub-questions", "When was the lighthouse finished?\nWhen was work on it finished?"),
        ("wordings", "In which year was the lighthouse done?"),
        ("hyde", "The lighthouse was finished in October 1874."),
    ],
)
def test_each_way_finds_what_the_question_alone_does_not_say(run, index, method, way, says):
    said = ["--said", "Tell me of the lighthouse."] if way == "conversation" else []
    with stub_endpoint(lambda prompt, before: says) as stub:
        code, out, err = run("search", index, QUESTION, "-k", 3, "--method", method, *service(stub, way), *said)
    assert code == 0
    assert "lighthouse-2" in ids(out)
    assert f"{way}: {says.splitlines()[0]}" in err
    assert f"{way}: 1 call, " in err


def test_replies_are_kept_in_a_file_and_cost_nothing_again(run, index, tmp_path):
    with stub_endpoint(lambda prompt, before: "When was the lighthouse built?") as stub:
        options = service(stub, "step-back", "--cache", tmp_path / "replies.jsonl")
        first = run("search", index, QUESTION, *options)
        again = run("search", index, QUESTION, *options)
    assert first[1] == again[1]
    assert "1 of them kept" in again[2]
    assert sum(stub.asked.values()) == 1


@pytest.mark.filterwarnings("always")
def test_a_refusal_is_told_and_the_question_asked_as_it_is(run, index):
    with stub_endpoint(lambda prompt, before: "I'm sorry, but I cannot do that.") as stub:
        code, out, err = run("search", index, QUESTION, *service(stub, "hyde"))
    assert (code, ids(out)) == (0, ids(run("search", index, QUESTION, "--json")[1]))
    assert "warning: 'When was it finished?' is searched without rewriting" in err


@pytest.mark.parametrize(
    "options",
    [
        ["--rewrite", "hyde"],
        ["--rewrite", "hyde", "--endpoint", "http://localhost/v1"],
        ["--endpoint", "http://localhost/v1", "--model", "m"],
        ["--said", "Hello."],
    ],
)
def test_half_of_the_options_are_refused(run, index, options):
    code, out, err = run("search", index, QUESTION, *options)
    assert (code, out, "--" in err) == (2, "", True)


PASSAGES = '{"_id": "high", "text": "It is forty metres high."}\n{"_id": "done", "text": "It was finished in 1874."}\n'


@pytest.fixture
def passages(tmp_path):
    file = tmp_path / "passages.jsonl"
    file.write_text(PASSAGES)
    return ["rerank", QUESTION, "--passages", file]


@pytest.mark.parametrize(("way", "calls"), [((), 2), (("--prompt", "listwise"), 1)])
def test_a_model_re_ranks_passages_and_the_cost_is_told(run, passages, way, calls):
    def says(prompt, before):
        return "[2]" if "[1]" in prompt else "yes" if "1874" in prompt else "no"

    with stub_endpoint(says) as stub:
        code, out, err = run(*passages, *way, "--endpoint", stub.url, "--model", "m", "--json")
        text = run(*passages, *way, "--endpoint", stub.url, "--model", "m")[1]
    assert (code, ids(out)) == (0, ["done", "high"])
    assert f"wise: {calls} call" in err
    assert "1.000" in text.splitlines()[0]


@pytest.mark.parametrize(
    "options",
    [
        ["--prompt", "listwise"],
        ["--endpoint", "http://localhost/v1"],
        ["--endpoint", "http://localhost/v1", "--model", "m", "--method", "learned"],
        ["--endpoint", "http://localhost/v1", "--model", "m", "--explain"],
    ],
)
def test_half_of_the_options_for_a_model_that_re_ranks_are_refused(run, passages, options):
    code, out, err = run(*passages, *options)
    assert (code, out, "--" in err) == (2, "", True)


def says_yes_to_trams(prompt, before):
    return "yes" if "tram" in prompt.rpartition("Passage:")[2].lower() else "no"


def test_a_search_that_is_unsure_of_its_first_passage_asks_a_model(run, index):
    question = "What can be seen in the town?"
    plain = json.loads(run("search", index, question, "--json")[1])["hits"]
    with stub_endpoint(says_yes_to_trams) as stub:
        asked = ("search", index, question, "--endpoint", stub.url, "--model", "m", "--json", "-k", 3)
        code, out, err = run(*asked, "--send-below", "inf")
        sure = run(*asked, "--send-below", 0)
        listed = run(*asked, "--send-below", "inf", "--prompt", "listwise")
    hits = json.loads(out)["hits"]
    assert (code, len(hits), "pointwise: 5 calls" in err) == (0, 3, True)
    yes = [hit["id"] for hit in plain[:5] if "tram" in hit["text"].lower()]
    no = [hit["id"] for hit in plain[:5] if hit["id"] not in yes]
    assert [hit["id"] for hit in hits] == [*yes, *no][:3]
    assert [hit["components"]["entails"] for hit in hits] == [float(hit["id"] in yes) for hit in hits]
    assert (ids(sure[1]), "pointwise: 0 calls" in sure[2]) == ([hit["id"] for hit in plain[:3]], True)
    assert "listwise: 1 call" in listed[2]


@pytest.mark.parametrize(
    "options",
    [
        ["--send-below", "1"],
        ["--send-below", "1", "--endpoint", "http://localhost/v1"],
        ["--prompt", "listwise"],
        ["--send-below", "1", "--endpoint", "http://localhost/v1", "--model", "m", "-k", "0"],
    ],
)
def test_half_of_the_options_for_an_unsure_search_are_refused(run, index, options):
    code, out, err = run("search", index, QUESTION, *options)
    assert (code, out, err.startswith("error: ")) == (2, "", True)
