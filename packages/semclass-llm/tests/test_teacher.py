"""`semclass label`: prompts, answers, what has no label, the cache, the cost; against a stub on this machine."""

import json
import time

import pytest
from cli.running import running
from stub_endpoint import CUT, FILTERED, STALL, stub_endpoint

from semclass_llm.labelling.tasks import Task

pytest.importorskip("openai")

LABELS = {"billing": "invoices and refunds", "travel": "trips", "other": ""}


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return running(capsys)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "labels.json").write_text(json.dumps(LABELS))
    texts = [f"Text {number} is about {('billing', 'travel')[number % 2]}." for number in range(60)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return tmp_path


def label(run, files, stub, *options):
    arguments = (files / "texts.jsonl", "--labels", files / "labels.json", "--out", files / "out.jsonl")
    return run("label", *arguments, "--endpoint", stub.url, "--model", "m", "--timeout", "0.3", *options)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def right(prompt):
    return prompt.partition("Text: ")[2].split()[-2].rstrip(".")


def test_what_is_asked_one_several_yes_or_no():
    (one,), (several,) = (list(Task(LABELS, way).prompts("A text.")) for way in ("one", "several"))
    assert "- billing: invoices and refunds\n- travel: trips\n- other\n" in one
    assert one.endswith("Text: A text.\nLabel:")
    assert several.endswith("Text: A text.\nLabels:")
    assert [prompt.split("\n")[2] for prompt in Task(LABELS, "yes-no").prompts("x")][2] == "Label: other"
    assert Task(LABELS, "yes-no").read(["Yes", "no", "yes."]) == ["billing", "other"]
    assert Task(LABELS, "yes-no").read(["Yes", "hm", "yes."]) is None


def test_texts_are_labelled_in_their_order_and_the_cost_is_told_before_and_after(run, files):
    with stub_endpoint(lambda prompt, before: "billing" if "about billing" in prompt else "travel") as stub:
        code, out, told = label(run, files, stub, "--prices", "0.5", "2", "--json")
    assert code == 0, told
    found = lines(files / "out.jsonl")
    assert [one["label"] for one in found] == ["billing", "travel"] * 30
    assert found[0] == {"text": "Text 0 is about billing.", "label": "billing", "by": "model"}
    report = json.loads(out)
    assert report == json.loads((files / "out.report.json").read_text())
    assert (report["labelled"], report["labels"]) == (60, {"billing": 30, "travel": 30, "other": 0})
    tokens = sum(len(str(body["messages"][-1]["content"]).split()) for body in stub.requests)
    assert report["cost"]["prompt_tokens"] == tokens
    assert report["cost"]["usd"] == pytest.approx((0.5 * tokens + 2 * 60) / 1e6, abs=1e-4)
    assert report["cost_of_a_million_texts"]["calls"] == 1_000_000
    assert told.startswith("about 60 calls")
    assert sum(stub.asked.values()) == 60


def test_only_an_estimate(run, files):
    with stub_endpoint(lambda prompt, before: "billing") as stub:
        code, out, _ = label(run, files, stub, "--estimate", "--json", "--ask", "yes-no")
    assert (code, json.loads(out)["calls"], sum(stub.asked.values())) == (0, 180, 48)
    assert not (files / "out.jsonl").exists()


def test_nothing_is_lost_and_the_next_run_asks_what_failed_alone(run, files):
    """A service that is busy, cuts, stalls, filters, talks nonsense, and fails for good."""
    bad = {3: 500, 5: FILTERED, 7: "I would rather not say.", 9: "billing or travel", 11: 400}
    passing = {0: 429, 2: CUT, 4: STALL, 6: 503}
    mended = False

    def rule(prompt, before):
        number = int(prompt.partition("Text: Text ")[2].split()[0])
        if number in passing and before == 0:
            return passing[number]
        return "travel" if mended else bad.get(number, "travel")

    with stub_endpoint(rule) as stub:
        code, out, _ = label(run, files, stub, "--ask", "one")
        assert code == 0
        assert "55 texts labelled" in out
        problems = {one["text"]: (one["why"], one["said"]) for one in lines(files / "out.problems.jsonl")}
        by_number = {int(text.split()[1]): found for text, found in problems.items()}
        assert by_number == {
            3: ("failed", "InternalServerError 500"),
            5: ("refused", "content_filter"),
            7: ("nonsense", "I would rather not say."),
            9: ("nonsense", "billing or travel"),
            11: ("refused", "BadRequestError 400"),
        }
        mended, before = True, sum(stub.asked.values())
        label(run, files, stub)
        assert sum(stub.asked.values()) - before == 2  # the failed call and the one that was not taken
    assert len(lines(files / "out.jsonl")) == 57


def test_a_service_that_is_not_there_and_options_that_are_missing(run, files):
    code, _, told = run("label", files / "texts.jsonl", "--labels", files / "labels.json", "--out", files / "out.jsonl")
    assert (code, "--endpoint" in told) == (2, True)
    with stub_endpoint(lambda prompt, before: 401) as stub:
        code, _, told = label(run, files, stub)
    assert (code, "401" in told) == (2, True)
