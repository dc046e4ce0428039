"""Sections of the benchmark are made of steps: each runs in a process of its own, and its result is kept.

So memory is that of one system, and threads are set before the first import. A step runs again if its arguments, the code,
the models, the packages' versions or the machine have changed, or if what it wrote is missing. A changed file that a step's
arguments name does not count: take away the folder ``steps`` of ``--work``.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import click

from bench import provenance
from semclass.core import artifacts
from semclass.core.errors import InputError, MissingExtraError, SemclassError

ROOT = Path(__file__).parent.parent

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that say how many threads a library takes; some are read only when it is imported."""

QUICK_QUESTIONS, QUICK_PASSAGES = 40, 200  # of a set in a quick run


class StepError(SemclassError):
    """A step of the benchmark failed."""


class AbsentError(StepError):
    """A step needs a file or a package that is not there."""


@dataclass
class Bench:
    """Settings that the sections are run with."""

    data: Path
    work: Path
    results: Path
    quick: bool = False
    steps: list[dict[str, Any]] = field(default_factory=list)

    def beir(self, name: str) -> Path:
        """A BEIR folder of the data; in a quick run, a small part of it."""
        folder = self.data / "beir" / name
        return first_questions(folder, self.work / "quick-data" / name) if self.quick else folder

    @property
    def indices(self) -> Path:
        """Where indices are kept."""
        return self.work / "indices"

    def say(self, text: str) -> None:
        """Write progress to standard error."""
        click.echo(text, err=True)

    def step(
        self,
        name: str,
        function: str,
        *,
        threads: int = 1,
        wrote: Path | None = None,
        of: str = "",
        **arguments: Any,
    ) -> dict[str, Any]:
        """Run a function in a process of its own, or give what it gave before.

        `of` stands for what the function reads beside its arguments, such as the texts of a file.
        """
        task = {"function": function, "arguments": json.loads(json.dumps(arguments, default=str)), "threads": threads}
        key = hashlib.sha256(json.dumps([task, of, self.quick, code()], sort_keys=True).encode()).hexdigest()[:16]
        kept = self.work / "steps" / f"{re.sub('[^A-Za-z0-9]+', '-', name)}-{key}.json"
        record = None if wrote is not None and not wrote.exists() else _kept(kept)
        earlier = record is not None
        if record is None:
            self.say(f"  {name} ...")
            kept.parent.mkdir(parents=True, exist_ok=True)
            record = _in_process(task, kept.with_suffix(f".{os.getpid()}.part"))
            kept.unlink(missing_ok=True)
            if "absent" in record["result"]:
                raise AbsentError(record["result"]["absent"])
            artifacts.write_atomic(kept, artifacts.dump_json(record))
        told = {key: record[key] for key in ("seconds", "peak_mb", "date", "commit")}
        self.steps.append({"step": name, "threads": threads, "earlier": earlier, **told})
        return {**record["result"], "peak_mb": record["peak_mb"]}

    def side_by_side(self, jobs: Mapping[Any, Callable[[], Any]]) -> dict[Any, Any]:
        """Results of jobs whose steps measure no times: two run at once, each on one thread."""
        with ThreadPoolExecutor(2) as pool:
            return dict(zip(jobs, pool.map(lambda job: job(), jobs.values()), strict=True))


def first_questions(folder: Path, out: Path) -> Path:
    """Write a small part of a BEIR folder: its first questions, their passages, and other passages in order."""
    from semclass.evaluation.dataset import load_dataset

    dataset = load_dataset(folder, limit=QUICK_QUESTIONS)
    wanted = {passage for found in dataset.relevance.values() for passage in found}
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    lines.sort(key=lambda line: json.loads(line)["_id"] not in wanted)
    queries = [json.dumps({"_id": name, "text": text}) + "\n" for name, text in dataset.questions.items()]
    qrels = [f"{name}\t{id_}\t{value}\n" for name, found in dataset.relevance.items() for id_, value in found.items()]
    return write_beir(out, lines[: max(QUICK_PASSAGES, len(wanted))], queries, qrels)


def write_beir(folder: Path, corpus: Sequence[str], queries: Sequence[str], qrels: Sequence[str]) -> Path:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, lines in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)):
        artifacts.write_atomic(folder / name, "".join(lines).encode())
    return folder


@cache
def code() -> str:
    """SHA-256 over all code, the prices and the models' manifests."""
    files = [path for name in ("semclass", "bench", "training") for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / "bench" / "prices.json", *(ROOT / "models").rglob("manifest.json")]
    return hashlib.sha256("".join(artifacts.sha256_of(path) for path in sorted(files)).encode()).hexdigest()


def _kept(path: Path) -> dict[str, Any] | None:
    """The kept result of a step, if it was measured by the same packages on the same machine."""
    if not path.is_file():
        return None
    record = artifacts.read_json(path)
    same = record["machine"] == provenance.machine() and record["versions"] == provenance.versions()
    return dict(record) if same else None


def _in_process(task: dict[str, Any], out: Path) -> dict[str, Any]:
    environment = {**os.environ, **{name: str(task["threads"]) for name in THREADS}, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.steps", str(out)],
        input=json.dumps(task),
        text=True,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise StepError(f"{task['function']} failed with status {done.returncode}:\n{done.stderr[-4000:]}")
    record = json.loads(out.read_text())
    out.unlink()
    return dict(record)


def peak_megabytes() -> float:
    """Most memory that this process has held so far, MB of 10^6 bytes."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage says includes what the parent held before this program began
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) * 1024 / 1e6, 1)
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)


def main(out: str) -> None:
    """Run the task on standard input; write its result, time and peak memory."""
    task = json.load(sys.stdin)
    module, _, function = task["function"].partition(":")
    started = time.perf_counter()
    try:
        result = getattr(importlib.import_module(module), function)(**task["arguments"])
    except ModuleNotFoundError as error:
        result = {"absent": f"it needs {error.name}; run: pip install '.[bench]'"}
    except (FileNotFoundError, InputError, MissingExtraError) as error:
        result = {"absent": str(error)}
    record = {
        "result": result,
        "seconds": round(time.perf_counter() - started, 2),
        "peak_mb": peak_megabytes(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "versions": provenance.versions(),
    }
    Path(out).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
