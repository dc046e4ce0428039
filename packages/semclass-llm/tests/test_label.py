"""Labels of a language model: prompts, the command, texts to label next."""

import json
import time

import pytest
from stub_endpoint import FILTERED, stub_endpoint

from semclass import InputError
from semclass_llm import LabelTask, choose_texts

LABELS = {"billing": "invoices and refunds", "travel": "trips", "other": ""}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    texts = [f"Text {number} is about {('billing', 'travel')[number % 2]}." for number in range(60)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return tmp_path


def label(run, files, stub, *options):
    arguments = (files / "texts.jsonl", "--labels", files / "labels.json", "--out", files / "out.jsonl")
    return run("label", *arguments, "--endpoint", stub.url, "--model", "m", *options)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_yes_and_no_are_read_for_each_label():
    task = LabelTask(LABELS, "yes-no")
    assert len(list(task.prompts("A text."))) == len(LABELS)
    assert task.read(["Yes", "no", "yes."]) == ["billing", "other"]
    assert task.read(["Yes", "hm", "yes."]) is None
    with pytest.raises(InputError, match="at least two"):
        LabelTask({"billing": ""})


def test_texts_are_labelled_in_order_at_a_known_cost(run, files):
    with stub_endpoint(lambda prompt, before: "billing" if "about billing" in prompt else "travel") as stub:
        code, out, err = label(run, files, stub, "--prices", "0.5", "2", "--json")
    assert code == 0, err
    rows = lines(files / "out.jsonl")
    assert [row["label"] for row in rows] == ["billing", "travel"] * 30
    assert rows[0] == {"text": "Text 0 is about billing.", "label": "billing", "by": "model"}
    report = json.loads(out)
    assert (report["labelled"], report["labels"]) == (60, {"billing": 30, "travel": 30})
    tokens = sum(len(str(body["messages"][-1]["content"]).split()) for body in stub.requests)
    assert report["cost"]["prompt_tokens"] == tokens
    assert err.startswith("about 60 calls")
    assert "USD" in err
    assert sum(stub.asked.values()) == 60


def test_an_estimate_asks_about_a_few_texts_alone(run, files):
    with stub_endpoint(lambda prompt, before: "billing") as stub:
        code, out, _ = label(run, files, stub, "--estimate", "--json", "--ask", "yes-no")
    assert (code, json.loads(out)["calls"], sum(stub.asked.values())) == (0, 180, 48)
    assert not (files / "out.jsonl").exists()


def test_the_next_run_repeats_failed_calls_alone(run, files):
    bad = {3: 500, 5: FILTERED, 7: "I would rather not say.", 9: "billing or travel"}
    mended = False

    def rule(prompt, before):
        number = int(prompt.partition("Text: Text ")[2].split()[0])
        return "travel" if mended else bad.get(number, "travel")

    with stub_endpoint(rule) as stub:
        code, out, _ = label(run, files, stub)
        assert (code, "56 texts labelled" in out) == (0, True)
        problems = {int(one["text"].split()[1]): one["why"] for one in lines(files / "out.problems.jsonl")}
        assert problems == {3: "failed", 5: "refused", 7: "unreadable", 9: "unreadable"}
        mended, before = True, sum(stub.asked.values())
        label(run, files, stub)
        assert sum(stub.asked.values()) - before == 1
    assert len(lines(files / "out.jsonl")) == 57


def test_a_service_that_is_missing_is_named(run, files):
    code, _, err = run("label", files / "texts.jsonl", "--labels", files / "labels.json", "--out", files / "out.jsonl")
    assert (code, "--endpoint" in err) == (2, True)
    with stub_endpoint(lambda prompt, before: 401) as stub:
        code, _, err = label(run, files, stub)
    assert (code, "401" in err) == (2, True)


# -- which texts to label next


def test_a_text_is_proposed_once_and_not_with_a_label(encoder):
    texts = ["Where is it?", "How long?", "Where is it?", "Who was it?"]
    assert sorted(choose_texts(texts, 9, encoder=encoder, labelled=["Who was it?"])) == [0, 1]
    assert len(choose_texts(texts, 1, encoder=encoder)) == 1
    with pytest.raises(InputError):
        choose_texts(texts, 0, encoder=encoder)
