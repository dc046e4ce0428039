"""The service as users start it, among clients that no service wants: only they are refused, and it goes on."""

import json
import time
from pathlib import Path

import hostile_clients
import pytest
from small_searches import resident

from bench import service

for extra in ("fastapi", "uvicorn", "prometheus_client"):
    pytest.importorskip(extra)

BODY = json.dumps(
    {"model": "semclass", "query": "Who built it?", "documents": ["Ada built it.", "It is old."]}
).encode()
MESSAGE = service.request(service.PATH, BODY)
BYTES = 1 << 16


@pytest.fixture(scope="module")
def running():
    with service.served("--max-body", str(2 * BYTES), "--max-texts", "50", "--max-requests", "16") as started:
        yield started


@pytest.fixture
def ask(running):
    """Clients of a kind; the service is well after them."""

    def asked(kind, *arguments, **options):
        found = kind(service.HOST, running.port, *arguments, **options)
        assert running.process.poll() is None
        assert service.drive(service.HOST, running.port, [MESSAGE] * 4, 2).statuses == {"200": 4}
        return found

    return asked


def test_requests_one_after_another_over_connections_that_stay_open(running):
    found = service.drive(service.HOST, running.port, [MESSAGE] * 20, 4)
    assert found.statuses == {"200": 20}
    assert len(found.latencies) == 20


def test_more_at_once_than_are_taken_are_answered_or_told_to_come_back(ask):
    found = ask(hostile_clients.crowd, [MESSAGE] * 80)
    assert sum(found.values()) == 80
    assert set(found) <= {"200", "429"}
    assert found["200"]


def test_clients_that_dawdle_hold_up_nobody(ask):
    found = ask(hostile_clients.slow, MESSAGE, clients=10, pause=0.1, patience=0.5)
    assert set(found) <= {service.SILENT, "408"}


def test_clients_that_go_away_in_the_middle_are_forgotten(ask):
    ask(hostile_clients.cut, MESSAGE, clients=30)


def test_a_body_without_an_end_is_not_read(ask):
    found = ask(hostile_clients.huge, service.PATH, size=64 * BYTES, clients=6)
    # who is still sending may find the connection closed before the answer is read
    assert set(found) <= {"413", "408", service.CLOSED}
    assert found["413"] >= 2


def test_whatever_is_no_request_is_the_fault_of_the_client(ask):
    found = ask(hostile_clients.malformed, service.PATH)
    wrong = {name: status for name, status in found.items() if not (status.startswith("4") or status == service.CLOSED)}
    assert not wrong


def test_memory_is_given_back_after_crowds_and_large_bodies(running, ask):
    ask(hostile_clients.crowd, [MESSAGE] * 80)
    status = Path(f"/proc/{running.process.pid}/statm")  # in pages; the second figure is what is resident
    before = int(status.read_text().split()[1])
    for _ in range(3):
        ask(hostile_clients.crowd, [MESSAGE] * 80)
        ask(hostile_clients.huge, service.PATH, size=64 * BYTES, clients=6)
    assert int(status.read_text().split()[1]) < 1.3 * before


def test_memory_is_given_back_after_long_questions(running):
    body = json.dumps({"query": "a,b;" * 24_000, "documents": ["Ada built it. " * 20] * 20})
    message = service.request(service.PATH, body.encode())
    service.drive(service.HOST, running.port, [MESSAGE] * 8, 2)
    before = resident(running.process.pid)
    service.drive(service.HOST, running.port, [message] * 16, 8)
    # given back a moment after the last of them
    end = time.monotonic() + 60
    while resident(running.process.pid) > before + 100 and time.monotonic() < end:
        time.sleep(0.2)
    assert resident(running.process.pid) < before + 100


def test_requests_are_made_of_different_sentences(data_folder):
    items = service.asked(str(data_folder), 30)
    assert items == service.asked(str(data_folder), 30)
    assert all(len(set(texts)) == service.SENTENCES for _, texts in items)
    assert len({text for _, texts in items for text in texts}) > 150
