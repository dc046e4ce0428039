"""A language model around the search, measured: against a stub that knows what is relevant."""

import gzip
import json

import pytest
from beir import write_beir
from stub_endpoint import FILTERED, stub_endpoint

from bench import language_model

pytest.importorskip("openai")
pytest.importorskip("ir_measures")
pytest.importorskip("sklearn")

QUESTIONS = {
    "who": ("Who designed the lighthouse?", "lighthouse-1"),  # made up: it is not what a search puts first
    "when": ("When was the lighthouse finished?", "lighthouse-2"),
    "fleet": ("Which ship replaced the Petrel?", "ferry-3"),
    "prize": ("Who won the Silver Needle?", "festival-2"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, corpus):
    """The demonstration's passages as a BEIR folder, and a few sentences to draw examples from."""
    folder = tmp_path_factory.mktemp("data")
    write_beir(folder / "set", corpus, QUESTIONS)
    (folder / "squad_sentences").mkdir()
    rows = {
        "train.corpus": [{"_id": f"s{number}", "text": f"sentence {number}."} for number in range(30)],
        "train.queries": [{"text": f"which {number}?", "relevant": f"s{number}"} for number in range(30)],
    }
    for name, records in rows.items():
        text = "".join(json.dumps(record) + "\n" for record in records)
        (folder / "squad_sentences" / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.fixture(scope="module")
def texts(corpus):
    return {passage.id: passage.text for passage in corpus}


def measured(data, folder, rule):
    where = {"folder": str(data / "set"), "cache": str(folder / "indices"), "data": str(data), "questions": 10}
    with stub_endpoint(rule) as stub:
        return language_model.prompted(
            **where, replies=str(folder / "replies.jsonl"), endpoint=stub.url, model="m", key=None
        )


def test_a_model_that_is_always_right_makes_the_ranking_right(data, texts, tmp_path):
    right = {question: texts[name] for question, name in QUESTIONS.values()}

    def rule(prompt, before):
        question = prompt.rpartition("Question: ")[2].partition("\n")[0]
        shown = prompt.rpartition("Question: ")[2]
        if prompt.startswith("Does"):
            return "yes" if " ".join(right[question].split()) in shown else "no"
        if prompt.startswith("Name"):
            number = [line.partition("]")[0][1:] for line in shown.splitlines() if right[question] in line]
            return number[0] if number else "none"
        return right[question] if prompt.startswith("Imagine") else question

    found = measured(data, tmp_path, rule)
    rows = {row["name"]: row for row in found["systems"]}
    assert rows["prompted, pointwise"]["after"] == rows["prompted, listwise"]["after"] == 1.0
    assert rows["prompted, pointwise"]["error_removed"] == 1.0
    assert rows["prompted, pointwise, added"]["after"] > rows["prompted, pointwise, added"]["ndcg_before"]
    assert rows["prompted, pointwise"]["calls_per_question"] == 10
    assert rows["prompted, listwise"]["calls_per_question"] == 1
    assert rows["rewritten, step-back"]["gain"] == rows["rewritten, sub-questions"]["gain"] == 0
    assert rows["rewritten, hyde"]["prompt_tokens_per_call"] > 20
    assert (found["questions"], found["failed"]) == (4, 0)
    table = language_model.table({"language_model": {"on": {"a set": {"prompted": found}}}})
    assert table.count("| a set |") == len(rows) == 10
    assert "not measured" not in table


def test_a_model_that_refuses_changes_nothing_and_is_counted(data, tmp_path):
    rows = {row["name"]: row for row in measured(data, tmp_path, lambda prompt, before: FILTERED)["systems"]}
    assert {row["gain"] for name, row in rows.items() if name.startswith(("prompted", "rewritten"))} == {0}
    assert rows["prompted, pointwise"]["refused"] == 40
    assert rows["rewritten, hyde"]["refused"] == rows["rewritten, hyde"]["searched_as_asked"] == 4


def test_without_a_model_our_heads_are_measured_and_the_table_says_how_to_measure_one(data, tmp_path):
    where = {"folder": str(data / "set"), "cache": str(tmp_path), "data": "", "replies": "", "questions": 10}
    found = language_model.prompted(**where, endpoint=None, model=None, key=None)
    assert [row["name"] for row in found["systems"]] == list(language_model.HEADS)
    table = language_model.table({"language_model": {"on": {"a set": {"prompted": found}}}})
    assert table.count("--endpoint URL") == 1


def test_examples_have_their_answer_among_neighbours(data):
    made = language_model.shots(data)
    assert len(made) == language_model.SHOTS
    assert all(shot.question.split()[1][:-1] in shot.passages[shot.answers] for shot in made)
    assert {len(shot.passages) for shot in made} <= {3, 4, 5}
