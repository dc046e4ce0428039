"""A service whose index is overwritten and cut short beneath it: it lives, and says what it cannot read."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import httpx
from serving import address, serving

from semclass import PassageIndex
from semclass.scoring import approximation

QUESTION = {"question": "Who designed the lighthouse?", "method": "deep", "where": {"page": {"$gte": 0}}}
BY_POSITION = {"records.npy", "provides.npy", "tokens.npy", "pieces.npy"}
AT_ONCE = 2
"""Searches while a file is another."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="an open file cannot be cut short there")


@contextmanager
def damaged(path, data):
    """A file that holds something else for a while: the same file, written into."""
    whole, times = path.read_bytes(), path.stat()
    with path.open("r+b") as file:
        file.write(data)
        file.truncate(len(data))
    yield
    with path.open("r+b") as file:
        file.write(whole)
        file.truncate(len(whole))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    ("many", "more"), [(approximation.REDUCED_FROM, set()), (20, {"sentences.npy"})], ids=["small", "large"]
)
def test_a_service_lives_while_each_file_is_overwritten_and_cut_short(
    models, corpus, tmp_path, monkeypatch, many, more
):
    monkeypatch.setattr(approximation, "REDUCED_FROM", many)
    by_position = BY_POSITION | more
    folder = tmp_path / "index"
    passages = [type(one)(one.id, one.text, {"page": place}) for place, one in enumerate(corpus)]
    PassageIndex.build(passages, passage_encoder=models.passage_encoder).save(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    with (
        serving(folder) as (process, told),
        ThreadPoolExecutor(2) as clients,
        httpx.Client(base_url=address(told), timeout=120) as client,
    ):

        def ask(_=0):
            answer = client.post("/api/search", json=QUESTION)
            return answer.status_code, [hit["id"] for hit in answer.json().get("hits", ())]

        right = ask()
        assert right[0] == 200
        for path in files:
            for data in (bytes(path.stat().st_size), path.read_bytes()[:100], b""):
                running = [clients.submit(ask) for _ in range(AT_ONCE)]
                with damaged(path, data):
                    status, found = ask()
                    assert process.poll() is None, path
                    # what is in memory answers as it did
                    assert (status == 503) if path.name in by_position else (status, found) == right, path
                    answers = [one.result() for one in running]
                    assert all(one == right or one[0] == 503 for one in answers), path
                assert ask() == right, path
        assert client.get("/health").status_code == 200
    refused = [line for line in told if line["event"] == "request" and line["status"] == 503]
    assert {Path(line["file"]).name for line in refused} == by_position
    assert not [line for line in told if line.get("status") == 500]


def test_a_damaged_index_is_not_ready_and_is_served_again_once_its_bytes_are_back(models, corpus, tmp_path):
    folder = tmp_path / "index"
    PassageIndex.build(corpus, passage_encoder=models.passage_encoder).save(folder)
    (path,) = folder.glob("*/records.npy")
    whole = path.read_bytes()
    asked = {"question": "Who designed the lighthouse?"}
    with (
        serving(folder, "--refresh", "0.05") as (_, told),
        httpx.Client(base_url=address(told), timeout=120) as client,
    ):
        assert client.get("/ready").status_code == 200
        right = [hit["id"] for hit in client.post("/api/search", json=asked).json()["hits"]]
        for damage in (whole[:100], bytes(len(whole))):  # cut short, and overwritten
            _write_into(path, damage)
            ready = client.get("/ready")
            assert ready.status_code == client.post("/api/search", json=asked).status_code == 503
            assert "index" in ready.json()["message"]
            assert client.get("/health").status_code == 200
            _write_into(path, whole)
            while client.get("/ready").status_code != 200:
                pass
            assert [hit["id"] for hit in client.post("/api/search", json=asked).json()["hits"]] == right


def _write_into(path, data):
    """Give a file other bytes, and another time of its last change."""
    before = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.write(data)
        file.truncate(len(data))
    os.utime(path, ns=(before + 10**9, before + 10**9))
