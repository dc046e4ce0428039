"""The cascade: what is sent, what comes back, what stays when the model fails, and the threshold for an accuracy."""

import json
import time

import pytest
from stub_endpoint import stub_endpoint

from semclass import InputError, TextClassifier, TextModel
from semclass_llm import Cascade, Endpoint

TRAINED = {
    "repair": ["My brakes squeak.", "The wheel is bent.", "A gear is broken.", "The tyre is flat."],
    "price": ["How much is a chain?", "What does a wheel cost?", "Is there a discount?", "Send me the bill."],
}
EASY = ["The brakes are broken.", "What does a tyre cost?"]
HARD = "Hello."
"""Nothing that the head was trained on: it is the least sure of it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    texts = [text for some in TRAINED.values() for text in some]
    labels = [name for name, some in TRAINED.items() for _ in some]
    place = tmp_path_factory.mktemp("head") / "head"
    TextClassifier(cv=2).fit(texts, labels).save(place)
    return place


@pytest.fixture(scope="module")
def head(folder):
    return TextModel.load(folder)


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.chdir(tmp_path)


def to(stub, **options):
    return Endpoint(stub.url, "m", retries=0, timeout=2, **options)


def always(said):
    return stub_endpoint(lambda prompt, before: said)


def test_the_model_decides_the_least_sure_texts(head):
    with always("price") as stub:
        found = Cascade(head, to(stub), share=1 / 3).classify([*EASY, HARD])
    assert [one.by for one in found] == ["head", "head", "model"]
    assert [one.labels for one in found] == [("repair",), ("price",), ("price",)]
    assert found[2].confidence == min(one.confidence for one in found)
    assert sum(stub.asked.values()) == 1


@pytest.mark.parametrize(("said", "why"), [(500, "failed"), (400, "refused"), ("I do not know.", "unreadable")])
def test_the_label_of_the_head_stays_where_the_model_gives_none(head, said, why):
    # the first texts are answered, so that the service is known to work
    with stub_endpoint(lambda prompt, before: said if HARD in prompt else "price") as stub:
        found = Cascade(head, to(stub), share=1).classify([*EASY, HARD])
    assert [one.why for one in found] == ["", "", why]
    assert (found[2].by, found[2].labels) == ("head", found[2].head_labels)


def test_a_share_becomes_a_threshold_on_held_out_texts(head):
    with always("price") as stub:
        cascade, report = Cascade(head, to(stub), share=1 / 3).calibrate([*EASY, HARD], ["repair", "price", "price"])
        assert (report["share"], report["texts"]) == (pytest.approx(1 / 3), 3)
        assert [one.sent for one in cascade.decide([HARD, *EASY])] == [True, False, False]
        assert [one.sent for one in cascade.decide(EASY[:1])] == [False]
        assert not stub.asked


def knowing(texts, labels):
    """A model that gives these texts these labels."""
    right = dict(zip(texts, labels, strict=True))
    return stub_endpoint(lambda prompt, before: right[prompt.partition("Text: ")[2].partition("\n")[0]])


def wrong_when_unsure(head):
    """Labelled texts that the head has wrong where it is the least sure."""
    decided = Cascade(head, Endpoint("http://localhost", "m"), share=0).decide([*EASY, HARD, "Good morning."])
    unsure = sorted(decided, key=lambda one: one.confidence)[:2]
    labels = [
        one.labels[0] if one not in unsure else next(name for name in TRAINED if name != one.labels[0])
        for one in decided
    ]
    return [one.item for one in decided], labels


def test_the_smallest_share_that_reaches_an_accuracy_is_sent(head):
    texts, labels = wrong_when_unsure(head)
    with knowing(texts, labels) as stub:
        plain = Cascade(head, to(stub), accuracy=1.0)
        with pytest.raises(InputError, match="calibrate"):
            plain.classify(texts)
        cascade, report = plain.calibrate(texts, labels)
        assert (report["head"], report["both"], report["share"], report["asked"]) == (0.5, 1.0, 0.5, 2)
        assert [label for one in cascade.classify(texts) for label in one.labels] == labels
        _, less = Cascade(head, to(stub), accuracy=0.75).calibrate(texts, labels)
        assert less["share"] == 0.25
    with always("I do not know.") as stub, pytest.raises(InputError, match="no share to send reaches more than"):
        Cascade(head, to(stub), accuracy=1.0).calibrate(texts, labels)


def test_wrong_arguments_are_named(head):
    endpoint = Endpoint("http://localhost", "m")
    for options in ({}, {"share": 0.1, "accuracy": 0.9}):
        with pytest.raises(InputError, match="either share"):
            Cascade(head, endpoint, **options)
    with pytest.raises(InputError, match="probability"):
        Cascade(head, endpoint, share=1.5)
    with pytest.raises(InputError, match="colour"):
        Cascade(head, endpoint, share=0.1, labels={"colour": ""})
    with pytest.raises(InputError, match="3 texts and 1 labels"):
        Cascade(head, endpoint, share=0.1).calibrate([*EASY, HARD], ["price"])
    with pytest.raises(InputError, match="colour"):
        Cascade(head, endpoint, share=0.1).calibrate(EASY, ["price", "colour"])


# -- the command line


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_command_sends_a_share_and_keeps_labels_to_train_on(run, folder, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join([*EASY, HARD]))
    (tmp_path / "labels.json").write_text(json.dumps({"price": "what something costs"}))
    with always("price") as stub:
        arguments = ("cascade", "texts", "texts.txt", "--head", folder, "--labels", "labels.json", "--json")
        arguments += ("--endpoint", stub.url, "--model", "m", "--prices", "1", "1", "--send")
        code, out, err = run(*arguments, "0.34")
        assert code == 0, err
        assert [json.loads(line)["by"] for line in out.splitlines()] == ["head", "head", "model"]
        assert "1 of 3 texts to send, about 1 call" in err
        assert "USD" in err
        assert lines(tmp_path / "sent.jsonl") == [{"text": HARD, "label": "price", "by": "model"}]
        assert "- price: what something costs" in next(iter(stub.asked))
        run(*arguments, "1")  # all texts: replies are kept
        assert sorted(stub.asked.values()) == [1, 1, 1]
    assert [one["text"] for one in lines(tmp_path / "sent.jsonl")] == [HARD, *EASY]


def test_the_command_reaches_an_accuracy_on_held_out_texts(run, folder, head, tmp_path):
    texts, labels = wrong_when_unsure(head)
    rows = "".join(f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True))
    (tmp_path / "held.tsv").write_text("text\tlabel\n" + rows)
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    with knowing(texts, labels) as stub:
        service = ("--endpoint", stub.url, "--model", "m", "--estimate")
        options = ("--head", folder, "--accuracy", "1", "--held-out", "held.tsv")
        code, out, err = run("cascade", "texts", "texts.txt", *options, *service)
    assert (code, out) == (0, "")
    assert "head right on 50.0%, with the model 100.0%" in err
    assert "2 of 4 texts to send" in err


def test_the_command_classifies_pairs_passages_and_questions(run, tmp_path):
    (tmp_path / "pairs").write_text('{"question": "Who built it?", "sentence": "It is red."}\n')
    (tmp_path / "text").write_text("Who built it?\n")
    for kind, file, reply, kept in (
        ("pairs", "pairs", "yes", {"question": "Who built it?", "sentence": "It is red.", "label": "entailment"}),
        ("questions", "text", "HUM", {"text": "Who built it?", "label": "HUM"}),
        ("passages", "text", "HUM", {"text": "Who built it?", "labels": ["HUM"]}),
    ):
        with always(reply) as stub:
            service = ("--endpoint", stub.url, "--model", "m", "--send", "1", "--out", f"{kind}.jsonl")
            code, _, err = run("cascade", kind, file, *service)
        assert code == 0, err
        assert lines(tmp_path / f"{kind}.jsonl") == [{**kept, "by": "model"}]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--send", "0.5"), "--endpoint"),
        (("--endpoint", "http://localhost", "--model", "m"), "share"),
        (("--endpoint", "http://localhost", "--model", "m", "--accuracy", "0.9"), "--held-out"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, folder, options, named):
    code, _, err = run("cascade", "texts", "texts.txt", "--head", folder, *options)
    assert (code, named in err) == (2, True), err
    assert run("cascade", "questions", "texts.txt", "--head", folder, *options)[0] == 2
