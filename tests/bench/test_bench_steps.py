"""The benchmark's frame: steps run in processes of their own, are kept, and say why they were skipped or failed."""

import importlib
import os
import re
from pathlib import Path

import pytest
from world import ROOT

from bench import provenance
from bench.steps import AbsentError, Bench, StepError
from semclass.core.errors import MissingExtraError


def seen(word, count=None):
    """A step: what it was given and what it runs under."""
    if count is not None:
        with Path(count).open("a") as file:
            file.write("x")
    return {"word": word, "threads": os.environ["OMP_NUM_THREADS"], "process": os.getpid()}


def lacking():
    raise MissingExtraError('nothing is needed for this; run: pip install "semclass[bench]"')


def failing():
    raise ValueError("no good")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(ROOT / part) for part in (".", "tests", "tests/bench")))
    return Bench(data=tmp_path / "data", work=tmp_path / "work", results=tmp_path / "results")


def test_a_step_runs_in_a_process_of_its_own_with_its_threads(bench):
    found = bench.step("seen", "test_bench_steps:seen", threads=2, word="a")
    assert (found["word"], found["threads"]) == ("a", "2")
    assert found["process"] != os.getpid()
    assert 5 < found["peak_mb"] < 5000
    (told,) = bench.steps
    assert (told["step"], told["threads"], told["peak_mb"]) == ("seen", 2, found["peak_mb"])


def test_what_was_measured_is_not_measured_again(bench, tmp_path):
    count = tmp_path / "count"
    first = bench.step("seen", "test_bench_steps:seen", word="a", count=count)
    assert bench.step("seen", "test_bench_steps:seen", word="a", count=count) == first
    assert count.read_text() == "x"
    bench.step("seen", "test_bench_steps:seen", word="b", count=count)
    bench.step("seen", "test_bench_steps:seen", word="a", count=count, threads=2)
    assert count.read_text() == "xxx"


def test_a_step_that_fails_says_where(bench):
    with pytest.raises(StepError, match=r"test_bench_steps:failing failed with status 1:\n(.|\n)*no good"):
        bench.step("failing", "test_bench_steps:failing")


def test_a_step_that_lacks_a_package_skips_its_section(bench):
    with pytest.raises(AbsentError, match="nothing is needed for this"):
        bench.step("lacking", "test_bench_steps:lacking")


def test_another_machine_measures_again(bench, tmp_path, monkeypatch):
    count = tmp_path / "count"
    for name, value in (("versions", {"numpy": "0"}), ("machine", {"cores": 1000})):
        bench.step("seen", "test_bench_steps:seen", word=name, count=count)
        with monkeypatch.context() as patched:
            patched.setattr(provenance, name, lambda value=value: value)
            bench.step("seen", "test_bench_steps:seen", word=name, count=count)
    assert count.read_text() == "xxxx"


def test_every_step_that_a_section_names_is_there():
    sources = [path.read_text() for path in (ROOT / "bench").rglob("*.py")]
    named = {found for text in sources for found in re.findall(r'"bench\.([a-z_.]+):([a-z_]+)"', text)}
    assert len(named) > 20
    for module, function in sorted(named):
        assert callable(getattr(importlib.import_module(f"bench.{module}"), function)), f"{module}:{function}"
