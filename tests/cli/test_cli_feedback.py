"""``semclass feedback``: hits are judged, and the judgements listed and exported."""

from __future__ import annotations

import json
from dataclasses import replace

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


def test_judgements_of_first_hits_give_a_threshold(run, index):
    """Of questions that the corpus answers, and of others that it cannot answer."""
    strangers = ["tungsten", "photosynthesis", "the Krebs cycle", "inflation", "chess openings", "black holes"]
    questions = {f"Who invented {what}?": "wrong" for what in strangers}
    known = [
        "Who built the bridge?",
        "How tall is the tower?",
        "When was the bridge opened?",
        "Who designed the tower?",
    ]
    known += ["Where is the lighthouse?", "What is shown in the museum?"]
    questions |= dict.fromkeys(known, "right")
    for question, verdict in questions.items():
        hit = json.loads(run("search", index, question, "-k", 1, "--json")[1])["hits"][0]["id"]
        assert run("feedback", index, "--question", question, "--passage", hit, f"--{verdict}")[0] == 0
    code, out, _ = run("calibrate", index, "--json")
    record = json.loads(out)
    assert (code, record["questions"], record["answered"], record["stored"]) == (0, 12, 6, True)
    assert record["found_on"]["questions"] == "judgements"
    assert f"{record['from']:.2f}" in run("index", "info", index)[1].splitlines()[-1]
    assert run("calibrate", index)[1].splitlines()[-1].endswith(str(index))
    assert run("calibrate", index, "--reset")[0] == 0
    code, out, _ = run("tune", index, "--folds", 2, "--dry-run", "--json")
    assert (code, json.loads(out)["found_on"]["questions"]) == (0, 6)
    assert "judgements" in json.loads(out)["found_on"]


def test_without_judgements_made_questions_stand_in(run, tmp_path, models, corpus):
    titled = [replace(each, metadata={"title": " ".join(each.text.split()[:6])}) for each in corpus]
    build_index(tmp_path / "index", titled, passage_encoder=models.passage_encoder)
    code, out, _ = run("calibrate", tmp_path / "index", "--json")
    record = json.loads(out)
    assert (code, record["stored"], "headings" in record["found_on"]["questions"]) == (0, False, True)
    code, _, error = run("tune", tmp_path / "index")
    assert (code, "semclass questions" in error) == (2, True)
    code, _, error = run("calibrate", tmp_path / "index", "--qrels", tmp_path / "none")
    assert (code, "--queries" in error) == (2, True)
