"""``semclass feedback``: hits are judged, and the judgements listed and exported."""

from __future__ import annotations

import json

import pytest
from running import running
from terminal import in_terminal

from semclass import build_index
from semclass.evaluation.dataset import load_dataset

run = pytest.fixture(running)

QUESTION = "Who built the bridge?"


@pytest.fixture
def index(tmp_path, models, corpus):
    build_index(tmp_path / "index", corpus, passage_encoder=models.passage_encoder)
    return tmp_path / "index"


def judge(run, index, passage, verdict):
    return run("feedback", index, "--question", QUESTION, "--passage", passage, f"--{verdict}", "--json")


def test_judgements_are_stored_listed_and_exported(run, index, corpus, tmp_path):
    assert run("feedback", index)[0] == 0
    assert json.loads(judge(run, index, corpus[0].id, "right")[1])["right"] is True
    judge(run, index, corpus[1].id, "wrong")
    judge(run, index, corpus[2].id, "right")
    judge(run, index, corpus[2].id, "withdraw")
    listed = [json.loads(line) for line in run("feedback", index, "--json")[1].splitlines()]
    assert [(one["passage"], one["right"]) for one in listed] == [(corpus[0].id, True), (corpus[1].id, False)]
    assert run("feedback", index, "--out", tmp_path / "beir")[0] == 0
    data = load_dataset(tmp_path / "beir")
    assert dict(data.questions) == {"judged1": QUESTION}
    assert data.relevance == {"judged1": {corpus[0].id: 1}}
    assert len((tmp_path / "beir" / "corpus.jsonl").read_text().splitlines()) == len(corpus)


def test_half_a_judgement_is_refused(run, index, corpus, tmp_path):
    for given in (["--question", QUESTION], ["--right"], ["--question", QUESTION, "--passage", corpus[0].id]):
        code, _, error = run("feedback", index, *given)
        assert (code, "--wrong" in error) == (2, True)
    code, _, error = judge(run, index, "none", "right")
    assert (code, "'none'" in error) == (2, True)
    code, _, error = run("feedback", index, "--out", tmp_path / "beir")
    assert (code, "judge" in error) == (2, True)


def test_a_judgement_is_a_line_in_a_terminal(run, index, corpus):
    judge(run, index, corpus[0].id, "right")
    code, sent = in_terminal("feedback", index)
    assert (code, len(sent.splitlines()), QUESTION in sent) == (0, 1, True)
