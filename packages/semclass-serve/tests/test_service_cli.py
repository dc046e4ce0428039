"""``semclass serve`` as a process: it starts, answers, tells and stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi")

import httpx
from serving import address, serving

from semclass import PassageIndex
from semclass.cli.main import main

KEY = "a-key-that-is-long-enough"
QUESTION = "Who built the bridge?"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")


@pytest.fixture(scope="module")
def index(tmp_path_factory, models, corpus):
    folder = tmp_path_factory.mktemp("served") / "index"
    PassageIndex.build(corpus, passage_encoder=models.passage_encoder).save(folder)
    return folder


def stop(process, lines, number=signal.SIGTERM):
    """Stop a process; gives its exit code."""
    process.send_signal(number)
    code = process.wait(120)
    for _ in range(1000):  # the last lines are read by another thread
        if lines[-1]["event"] == "stopped":
            return code
        time.sleep(0.01)
    pytest.fail("it logged no stop")


def test_a_service_answers_and_finishes_what_it_took_when_it_is_stopped(index):
    with serving(index) as (process, told), httpx.Client(base_url=address(told), timeout=120) as client:
        assert client.post("/api/search", json={"question": QUESTION}).json()["hits"][0]["labels"]
        assert client.get("/").status_code == 200
        # a request is counted for a moment after its answer: another one lies between it and those that look
        assert client.get("/ready").status_code == 200
        # enough work to be in flight for some time, on another connection
        many = {"texts": [f"{place} {QUESTION}" for place in range(200)]}
        with ThreadPoolExecutor(1) as pool:
            before = _open_requests(client)
            answer = pool.submit(httpx.post, f"{address(told)}/api/classify/passages", json=many, timeout=120)
            while not answer.done() and _open_requests(client) == before:
                pass
            code = stop(process, told)
            assert answer.result().status_code == 200
            assert len(answer.result().json()["results"]) == 200
    assert code == 0
    assert not any(QUESTION in json.dumps(line) for line in told)


def test_a_stop_takes_no_longer_than_it_may(index):
    with (
        serving(index, "--stop-timeout", "0.05", "--timeout", 36_000) as (process, told),
        ThreadPoolExecutor(1) as pool,
    ):
        # many runs, each of which takes a second or so
        many = {"texts": [f"{place} {QUESTION} " * 500 for place in range(100)]}
        with httpx.Client(base_url=address(told), timeout=120) as client:
            before = _texts_begun(client)
            answer = pool.submit(httpx.post, f"{address(told)}/api/classify/passages", json=many, timeout=120)
            while _texts_begun(client) == before:
                pass
        code = stop(process, told)
        assert (answer.result().status_code, answer.result().json()["error_type"]) == (503, "stopping")
    assert code in (0, 1)  # by whether the run came to its next step before the process ended
    assert any(line["level"] == "warning" and "before all requests" in line["event"] for line in told)


def _texts_begun(client):
    """Passages whose runs have begun."""
    text = client.get("/metrics").text
    return float(next(line for line in text.splitlines() if 'texts_sum{kind="passages"}' in line).split()[1])


def _open_requests(client):
    """Requests that are being answered, this one among them."""
    text = client.get("/metrics").text
    return float(next(line for line in text.splitlines() if line.startswith("semclass_requests_open ")).split()[1])


def test_readiness_ends_first_where_balancers_need_time(index):
    with serving(index, "--drain", 600) as (process, told), httpx.Client(base_url=address(told)) as client:
        process.send_signal(signal.SIGTERM)
        while client.get("/ready").status_code == 200:
            pass
        assert client.get("/ready").status_code == 503
        assert client.post("/api/search", json={"question": QUESTION}).status_code == 200
        client.close()
        code = stop(process, told, signal.SIGINT)  # a second signal does not wait
    assert code == 0


def test_keys_and_names_are_asked_for_and_limits_are_options(index, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    keys.chmod(0o600)
    limits = ("--max-texts", 2, "--max-characters", 30)
    with serving(index, "--api-key-file", keys, *limits) as (_, told), httpx.Client(base_url=address(told)) as client:
        assert client.get("/api/info").status_code == 401
        info = client.get("/api/info", headers={"authorization": f"Bearer {KEY}"}).json()
        assert info["index"]["passages"] == 30
        assert (info["limits"]["max_texts"], info["limits"]["max_characters"]) == (2, 30)
        assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_a_service_warns_that_others_reach_it_without_a_key_and_of_the_files_that_the_system_allows():
    with serving("--host", "0.0.0.0", before=["sh", "-c", 'ulimit -n 300 && exec "$@"', "sh"]) as (_, told):  # noqa: S104
        assert any(line["level"] == "warning" and "--api-key-file" in line["event"] for line in told)
        port = address(told).rpartition(":")[2]
        answer = httpx.post(f"http://127.0.0.1:{port}/api/search", json={"question": QUESTION})
        assert (answer.status_code, answer.json()["error_type"]) == (404, "no_index")
        (line,) = [line for line in told if "fewer connections" in line["event"]]
        assert (line["level"], line["max_connections"], line["open_files"]) == ("warning", 44, 300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-index"], "no-such-index does not exist; build an index there with `semclass index build"),
        (["--api-key-file", "no-such-file"], "no-such-file"),
        (["--host", "256.1.1.1"], "cannot listen"),
        (["--max-texts", "0"], "max-texts"),
        (["--documents", "no-such-folder"], "no-such-folder"),
        (["--documents", "."], "--documents FOLDER needs an index"),
    ],
)
def test_a_start_that_cannot_be_is_told_in_a_line(capsys, monkeypatch, arguments, message):
    monkeypatch.setattr("semclass_serve.logs.configure", lambda: None)
    with pytest.raises(SystemExit) as stopped:
        main(["serve", "--port", "0", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(capsys, monkeypatch):
    monkeypatch.setattr("semclass_serve.logs.configure", lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as stopped:
        main(["serve", "--port", str(taken.getsockname()[1])])
    assert stopped.value.code == 2
    assert "--port" in capsys.readouterr().err
