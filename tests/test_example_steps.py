"""What the examples share: the stub that answers as a language model by rule, and the prompts and parsers of its steps."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import steps

    return steps


@pytest.fixture
def address(steps):
    with steps.stub_model() as address:
        yield address


@pytest.fixture
def ask(address):
    def answered(prompt, **fields):
        message = {"role": "user", "content": prompt.format(**fields)}
        answer = httpx.post(f"{address}/chat/completions", json={"model": "stub", "messages": [message]})
        return answer.raise_for_status().json()["choices"][0]["message"]["content"]

    return answered


def test_the_stub_does_each_step(steps, ask):
    question = steps.read_line(
        ask(steps.REWRITE, question="Hi! Please tell me who built the tower, and how high is it")
    )
    assert question == "Who built the tower, and how high is it?"
    parts = steps.read_lines(ask(steps.SUBQUESTIONS, question=question))
    assert parts == ["Who built the tower?", "How high is the tower?"]
    assert "built the tower" in ask(steps.HYDE, question=parts[0])
    text = steps.read_corpus()["ferry.md"]
    assert ask(steps.PLACE, document=text, passage="She was built in Gdansk.") == "This is about The ferry Kittiwake."
    first, second = "The tower is high. Ada built the tower.", "This is about the tower. The tower has 41 metres."
    context = f"[1] a.md\n{first}\n\n[2] b.md\n{second}"
    assert (
        ask(steps.ANSWER, question=question, context=context) == "Ada built the tower. [1] The tower has 41 metres. [2]"
    )
    assert ask(steps.ANSWER, question="Why?", context="") == "The sources do not tell."


def test_the_stub_speaks_as_a_server_does(ask, address):
    assert [model["id"] for model in httpx.get(f"{address}/models").json()["data"]] == ["stub"]
    parts = [{"type": "text", "text": "REWRITE\n\nMessage: why is it so"}]
    asked = {"model": "x", "stream": True, "messages": [{"role": "user", "content": parts}]}
    lines = [line for line in httpx.post(f"{address}/chat/completions", json=asked).text.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    pieces = [json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content", "") for line in lines[:-1]]
    assert "".join(pieces) == "Why is it so?"
    assert httpx.post(f"{address}/chat/completions", json={"messages": []}).status_code == 400
    assert httpx.post(f"{address}/embeddings", json={}).status_code == 404
    assert ask("Sing.").startswith("I am a stub: I know REWRITE")


def test_answers_are_read_as_models_write_them(steps):
    lines = steps.read_lines('1. Who?\n\n- "Where?"\n* Who?\n2) When was 1. FC founded?\n')
    assert lines == ["Who?", "Where?", "When was 1. FC founded?"]
    assert steps.read_line("\n  “Why?”\nAs asked.") == "Why?"
    assert steps.read_numbers("So [2, 1] it is [1]; not [9], [0] or [x].", 3) == [2, 1]


def test_lists_take_turns_and_what_several_have_comes_once(steps):
    assert steps.each_once([["a", "b", "c"], [], ["d", "a"]], str) == ["a", "d", "b", "c"]
    assert steps.each_once([["Kittiwake", "tower"], ["TOWER"]], str.lower) == ["Kittiwake", "TOWER"]


def test_a_model_is_named_by_options_or_by_the_environment(steps, monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with steps.open_model(steps.arguments("An example.").parse_args([])) as model:
        assert model.name == "stub"
        assert httpx.get(f"{model.base_url}/models").status_code == 200
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    with steps.open_model(steps.arguments("An example.").parse_args(["--model", "m"])) as model:
        assert model == steps.Model("http://localhost:1/v1", "m", "none")
    with pytest.raises(SystemExit, match="name the model"), steps.open_model(steps.arguments("-").parse_args([])):
        pass
