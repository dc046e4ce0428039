"""``semclass sweep`` and ``semclass evaluate-answers``."""

from __future__ import annotations

import json

import pytest
from beir import write_beir
from made_models import export
from running import running
from stub_endpoint import stub_endpoint

run = pytest.fixture(running)


@pytest.fixture
def beir(tmp_path, corpus, monkeypatch):
    monkeypatch.setenv("SEMCLASS_CACHE", str(tmp_path / "cache"))
    questions = {
        "q1": ("Who designed the lighthouse?", "lighthouse-3"),
        "q2": ("How tall is the lighthouse?", "lighthouse-2"),
        "q3": ("Where is the museum?", "museum-2"),
        "q4": ("Which bird digs a burrow?", "birds-2"),
    }
    return write_beir(tmp_path / "beir", corpus, questions)


def test_a_sweep_compares_lengths_and_methods_and_builds_each_index_once(run, beir, tmp_path):
    code, out, _ = run("sweep", beir, "--size", 0, "--size", 20, "--measure", "R@5", "--json")
    record = json.loads(out)
    assert (code, record["measure"], record["gain"]["questions"]) == (0, "R@5", 2)
    names = {one["name"] for one in record["settings"]}
    assert len(names) == 2
    assert len(record["settings"]) == 12
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert run("sweep", beir, "--size", 0, "--size", 20, "--measure", "R@5", "--json")[1] == out
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_sweep_marks_the_best_line_also_of_an_index(run, beir, tmp_path):
    assert run("index", "build", beir, "--out", tmp_path / "index")[0] == 0
    code, out, _ = run("sweep", beir, "--index", tmp_path / "index")
    assert (code, sum(line.startswith("* index") for line in out.splitlines())) == (0, 1)
    code, _, error = run("sweep", beir, "--index", tmp_path / "index", "--size", 20)
    assert (code, "--index" in error) == (2, True)
    code, _, error = run("sweep", beir, "--limit", 3)
    assert (code, "at least 4" in error) == (2, True)


def test_a_sweep_compares_encoders(run, beir, tmp_path):
    other = str(export(tmp_path, layers=2))
    code, out, _ = run("sweep", beir, "--size", 0, "--encoder", "shipped", "--encoder", other, "--json")
    settings = json.loads(out)["settings"]
    assert (code, {one["name"] for one in settings}) == (0, {"shipped, whole", f"{other}, whole"})
    assert next(one["method"] for one in settings if one["name"] != "shipped, whole") == "convex"  # it has no heads


def test_answers_are_measured_and_judged(run, tmp_path):
    file = tmp_path / "answers.jsonl"
    row = {"question": "When was it built?", "answer": "In 1901.", "contexts": ["It was built in 1901."]}
    file.write_text(json.dumps({**row, "references": ["1901"]}) + "\n")
    code, out, _ = run("evaluate-answers", file, "--json")
    record = json.loads(out)
    assert (code, list(record)) == (0, ["exact_match", "f1", "rouge_l", "bleu"])
    assert record["f1"] == {"value": 2 / 3, "interval": [2 / 3, 2 / 3], "questions": 1}
    assert "rouge l" in run("evaluate-answers", file)[1]
    pytest.importorskip("openai")
    file.write_text(json.dumps(row) + "\n")
    assert run("evaluate-answers", file)[0] == 2  # nothing to compare it with
    assert run("evaluate-answers", file, "--model", "m")[0] == 2
    with stub_endpoint(lambda prompt, before: "1" if prompt.startswith("Which") else "1. When was it built?") as stub:
        code, out, error = run("evaluate-answers", file, "--endpoint", stub.url, "--model", "m", "--json")
    record = json.loads(out)
    assert (code, record["faithfulness"]["value"], "3 calls" in error) == (0, 1, True)
    assert record["answer_relevance"]["value"] == pytest.approx(1, abs=1e-5)
