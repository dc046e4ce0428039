"""``semclass questions`` and ``index classes``: from an index to questions, and what questions and passages are of."""

import json
from dataclasses import replace

import pytest
from running import running
from stub_endpoint import stub_endpoint

run = pytest.fixture(running)


@pytest.fixture(scope="module")
def index(tmp_path_factory, models, corpus):
    from semclass import PassageIndex

    folder = tmp_path_factory.mktemp("made") / "index"
    PassageIndex.build(corpus, passage_encoder=models.passage_encoder).save(folder)
    return folder


@pytest.fixture(scope="module")
def titled(tmp_path_factory, models, corpus):
    """An index in which each passage has its first words for a title."""
    from semclass import PassageIndex

    folder = tmp_path_factory.mktemp("titled") / "index"
    passages = [replace(passage, metadata={"title": " ".join(passage.text.split()[:6])}) for passage in corpus]
    PassageIndex.build(passages, passage_encoder=models.passage_encoder).save(folder)
    return folder


def test_headings_as_questions_are_read_by_tune_and_evaluate(run, titled, tmp_path):
    out = tmp_path / "made"
    code, text, _ = run("questions", titled, "--out", out, "--passages", 20, "--json")
    record = json.loads(text)
    assert code == 0
    assert (record["passages"], record["counts"]["kept"]) == (20, record["questions"])
    assert record["questions"] > 10
    files = ["--queries", out / "queries.jsonl", "--qrels", out / "qrels" / "test.tsv"]
    code, text, _ = run("tune", titled, *files, "--limit", 10, "--dry-run", "--json")
    assert (code, json.loads(text)["found_on"]["questions"]) == (0, 10)
    code, text, _ = run("evaluate", out, "--index", titled, "--limit", 5, "--json")
    assert (code, "default" in json.loads(text)) == (0, True)
    code, _, error = run("evaluate", out)
    assert (code, "corpus.jsonl" in error) == (2, True)


def test_what_was_kept_and_dropped_is_shown(run, titled, tmp_path):
    code, text, _ = run("questions", titled, "--out", tmp_path, "--passages", 30, "--seed", 3)
    assert code == 0
    first, *_ = text.splitlines()
    assert first.split()[0] == "kept"
    assert f"in {tmp_path}" in text.splitlines()[-1]


def test_questions_by_a_model(run, index, tmp_path):
    pytest.importorskip("openai")
    with stub_endpoint(lambda prompt, before: f"What is told of {' '.join(prompt.split()[-4:])}?") as stub:
        service = ["--endpoint", stub.url, "--model", "m", "--passages", 6, "--each", 1]
        code, text, _ = run("questions", index, "--out", tmp_path, *service, "--json")
        assert code == 0
        record = json.loads(text)
        assert (record["calls"]["made"], record["model"], record["each"]) == (6, "m", 1)
        code, text, _ = run("questions", index, "--out", tmp_path, *service)
        assert sum(stub.asked.values()) == 6  # what was replied is kept
        assert text.startswith("calls: made 0, cached 6")
        code, _, error = run("questions", index, "--out", tmp_path, "--endpoint", stub.url)
        assert (code, "--model" in error) == (2, True)


def test_classes_of_an_index_and_of_questions(run, index, tmp_path):
    rows = {"Who built the bridge?": "HUM", "When was it opened?": "NUM"}
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in rows.items()))
    code, text, _ = run("index", "classes", index, asked, "--json")
    record = json.loads(text)
    assert (code, record["asked"]["HUM"], "confusion" in record) == (0, 0.5, False)
    code, text, _ = run("index", "classes", index, asked, "--labelled", "--json")
    assert json.loads(text)["confusion"]["NUM"]["NUM"] == 1
    code, text, _ = run("index", "classes", index, asked, "--labelled")
    assert "1.000" in text.splitlines()[-1]
    asked.write_text("text\tlabels\nWho?\tHUM,LOC\n")
    code, _, error = run("index", "classes", index, asked, "--labelled")
    assert (code, "label" in error) == (2, True)
