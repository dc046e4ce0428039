"""A prompted model behind an endpoint, against a stub in place of the network."""

import gzip
import json

import pytest

from bench import prices
from bench.peers import prompted

KEY = "sk-a-key-that-is-nowhere-written"


class Stub:
    """A service whose `say` gives a text, ``(status, headers, body)`` or ``"cut"``, by prompt and number of the request."""

    def __init__(self):
        self.say, self.usage, self.requests = lambda prompt, number: "yes", None, []

    def answer(self, request):
        httpx = pytest.importorskip("httpx")
        self.requests.append((request.headers, body := json.loads(request.content)))
        said = self.say(body["messages"][0]["content"], len(self.requests))
        if said == "cut":
            raise httpx.ReadError("cut")
        status, headers, text = said if isinstance(said, tuple) else (200, {}, completion(said, self.usage))
        return httpx.Response(status, headers={"Content-Type": "application/json", **headers}, text=text)


def completion(text, usage=None, finish="stop"):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})


@pytest.fixture
def stub(monkeypatch):
    openai, httpx = pytest.importorskip("openai"), pytest.importorskip("httpx")
    client, made = openai.AsyncOpenAI, Stub()

    def connected(**options):
        return client(**{**options, "http_client": httpx.AsyncClient(transport=httpx.MockTransport(made.answer))})

    monkeypatch.setattr(openai, "AsyncOpenAI", connected)
    return made


@pytest.fixture
def pauses(monkeypatch):
    """What was waited for between attempts; nothing is waited for."""
    found = []

    async def pause(seconds):
        found.append(seconds)

    monkeypatch.setattr("anyio.sleep", pause)
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder of a few made-up lines: enough for every prompt."""
    folder = tmp_path_factory.mktemp("data")
    head, names = "coarse\tfine\tquestion\n", prompted.COARSE
    trec = {
        "train": [f"{name}\tx\tWhat about {name} {i} ?\n" for name in names for i in range(6)],
        "test": [f"{name}\tx\tAsked of {name} {i} ?\n" for name in names for i in range(4)],
    }
    for name, lines in trec.items():
        (folder / "trec").mkdir(exist_ok=True)
        (folder / "trec" / f"{name}.tsv").write_text(head + "".join(lines))
    records = {
        "passages/gold.jsonl": [
            {"_id": f"w{i}", "labels": dict.fromkeys(names, i % 2), "readings": 1 + (i >= 20)} for i in range(26)
        ],
        "passages/wikipedia_flan_ul2.jsonl.gz": [
            {"_id": f"w{i}", "text": f"Passage {i} {'odd' if i % 2 else 'even'}."} for i in range(26)
        ],
        "squad_sentences/train.corpus.jsonl.gz": [{"_id": f"s{i}", "text": f"sentence {i}."} for i in range(40)],
        "squad_sentences/train.queries.jsonl.gz": [
            {"_id": f"q{i}", "text": f"which {i}?", "relevant": f"s{i}"} for i in range(40)
        ],
        "qnli/validation.jsonl.gz": [
            {"question": f"Asked {i}?", "sentence": f"Said {i}.", "label": "entailment" if i % 2 else "not_entailment"}
            for i in range(12)
        ],
    }
    for name, rows in records.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return folder


@pytest.fixture
def measure(stub, data, tmp_path, monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)

    def run(task="questions", **options):
        chosen = {"endpoint": "http://localhost/v1", "model": "a-model", "retries": 2, "concurrency": 4, **options}
        return prompted.measure(task, str(data), str(tmp_path), key="A_KEY", limit=prompted.ITEMS, **chosen)

    return run


def right_type(prompt, number=0):
    return prompted.TYPES[prompt.rpartition("Asked of ")[2][:4].strip()][0]


@pytest.mark.parametrize(("task", "labels"), [("questions", 6), ("passages", 2), ("entailment", 2)])
def test_a_prompt_is_an_instruction_examples_of_every_label_and_the_item(data, task, labels):
    made = prompted.TASKS[task](data, seed=3)
    prompt = made.items[0].prompts[0]
    instruction, *examples, item = prompt.split("\n\n")
    answers = [example.rpartition(" ")[2] for example in examples]
    assert len(examples) == made.shots
    assert {answers.count(answer) for answer in set(answers)} == {made.shots // labels}
    assert "Reply with" in instruction
    assert item.endswith(":")


def test_examples_are_drawn_by_the_seed_and_never_from_what_is_asked(data):
    first, same, other = (prompted.questions(data, seed=seed) for seed in (0, 0, 1))
    assert first == same
    assert first.items[0].prompts != other.items[0].prompts
    for item in first.items:
        assert item.prompts[0].count("Asked of") == 1


def test_right_answers(stub, measure):
    stub.say, stub.usage = right_type, {"prompt_tokens": 400, "completion_tokens": 2}
    found = measure(model="gpt-5-nano")
    assert (found["accuracy"], found["macro_f1"], found["items"]) == (1.0, 1.0, 24)
    assert (found["failed"], found["unparsed"]) == (0, 0)
    assert (found["prompt_tokens"], found["answer_tokens"]) == (400, 2)
    assert found["usd_per_million"] == pytest.approx(400 * 0.05 + 2 * 0.4)
    assert found["p50_ms"] is not None
    assert found["per_second"] is not None
    assert found["timed_items"] == 6
    headers, body = stub.requests[0]
    assert (body["model"], body["temperature"], headers["authorization"]) == ("gpt-5-nano", 0, f"Bearer {KEY}")


def test_the_key_is_written_nowhere(stub, measure, tmp_path):
    stub.say = lambda prompt, number: (
        right_type(prompt) if number % 3 else (401, {}, json.dumps({"error": {"message": f"wrong key: {KEY}"}}))
    )
    found = measure(endpoint=f"http://user:{KEY}@localhost/v1")
    assert found["failed"] > 0
    assert KEY not in json.dumps(found)
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_passage_takes_six_calls_and_a_pair_one(stub, measure):
    stub.say = lambda prompt, number: "yes" if prompt.rstrip().endswith("odd.\nAnswer:") else "no"
    found = measure("passages")
    assert (found["items"], found["calls"], found["calls_per_item"]) == (6, 36, 6)
    assert (found["accuracy"], found["macro_f1"]) == (1.0, 1.0)
    stub.say = lambda prompt, number: "yes" if int(prompt.rpartition("Asked ")[2].partition("?")[0]) % 2 else "no"
    found = measure("entailment")
    assert (found["items"], found["calls"], found["accuracy"]) == (12, 12, 1.0)


def test_answers_without_a_label_are_wrong_and_counted(stub, measure):
    stub.say = lambda prompt, number: "I would rather not say."
    for task in ("questions", "passages", "entailment"):
        found = measure(task)
        assert (found["accuracy"], found["unparsed"], found["failed"]) == (0.0, found["calls"], 0)


def test_tokens_are_counted_here_where_the_service_does_not(stub, measure):
    stub.say = right_type
    found = measure()
    assert found["prompt_tokens"] > 100
    assert found["answer_tokens"] == 1
    assert found["usd_per_million"] is None  # this model has no price by tokens: it may run on a machine of one's own
    assert found["usd_per_million_gpu"] == pytest.approx(prices.gpu_call(1 / found["per_second"]), abs=0.01)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((500, {}, "{}"), "InternalServerError 500"),
        ((200, {}, '{"choices": [{"mess'), "not a chat completion"),
        ("cut", "APIConnectionError"),
    ],
)
def test_what_fails_is_counted_by_its_reason_and_wrong(stub, measure, pauses, answer, reason):
    stub.say = lambda prompt, number: answer if "Asked of HUM" in prompt else right_type(prompt)
    found = measure(retries=1, seed=1)
    assert (found["failed"], found["failures"], found["unparsed"]) == (4, {reason: 4}, 0)
    assert found["accuracy"] == pytest.approx(20 / 24, abs=1e-4)


def test_nobody_there(stub, measure, pauses):
    stub.say = lambda prompt, number: "cut"
    assert measure() == {"skipped": "a-model at http://localhost/v1 gave no answer: APIConnectionError"}


def test_parameters_that_the_service_refuses_are_not_used(stub, measure):
    """As a model does that always thinks: no temperature, and the newer name of the limit."""

    def say(prompt, number):
        body = stub.requests[number - 1][1]
        return (400, {}, "{}") if {"temperature", "max_tokens"} & set(body) else right_type(prompt)

    stub.say = say
    found = measure()
    assert found["parameters"] == {"max_completion_tokens": 2048}
    assert (found["accuracy"], found["failed"]) == (1.0, 0)


def test_a_run_that_was_killed_in_the_middle_of_a_line_goes_on(stub, measure, tmp_path):
    stub.say = right_type
    whole = measure()
    kept = next((tmp_path / "answers").iterdir())
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:10]) + lines[10][:40])
    before = len(stub.requests)
    again = measure()
    assert len(stub.requests) - before == 14
    assert again["accuracy"] == whole["accuracy"] == 1.0
    assert measure() == again
    assert len(stub.requests) - before == 14
