"""``python -m bench``: the whole benchmark, or some of its sections."""

from __future__ import annotations

import importlib
import time
import traceback
from pathlib import Path
from typing import Any

import click

from bench import facts, report
from bench.steps import Bench
from semclass.core import artifacts
from semclass.core.errors import SemclassError

RESULTS = Path(__file__).parent / "results"

SECTIONS = {
    "main_job": "the main job on the shipped models",
    "classifiers": "the shipped classifiers: noise, calibration, times",
    "questions": "question classes: accuracy against cost, beside peers and prompted models",
    "passages": "passage classes, likewise",
    "entailment": "does this sentence answer the question, likewise",
    "defaults": "how a search ranks by default: settings chosen over sets of all kinds, with each set left out",
    "retrieval": "retrieval and re-ranking: quality against time, beside peers",
    "thesis": "the reference's methods by its own protocol",
    "domains": "re-ranking on text of other kinds, with 10 and with 50 candidates",
    "tune": "what tuned weights bring on other questions",
    "index_bytes": "bytes a passage, and what they bring",
    "learning_curves": "how many labels a taxonomy needs",
    "few_labels": "a taxonomy of 77 or 150 intents with few labels, beside logistic regressions",
    "scale": "speed and memory as the corpus grows",
    "living": "building against encoding, adding and removing passages, killed writers",
    "service": "semclass serve under load, beside the library",
    "engines": "do the embedded index, Qdrant's local mode and its Rust core give the same scores",
}
"""Modules of this package with ``run(bench)``, in the order in which they run.

A section may have ``table(results)``: the report's table, and that of the README and of pages between marks that name it,
see :func:`bench.readme.table`; and ``pictures(results)``: PNG by file name. Both are made from what is written, never from
what is in memory alone.
"""


def run_section(name: str, bench: Bench) -> None:
    """Run a section, write ``<name>.json`` and its pictures."""
    started, first = time.perf_counter(), len(bench.steps)
    section = importlib.import_module(f"bench.{name}")
    found: dict[str, Any] = section.run(bench)
    path = bench.results / f"{name}.json"
    how = f"python -m bench {name} --data DATA" + " --quick" * bench.quick
    how += " --fine-tune" * bench.fine_tune
    how += " --cross-encoder FOLDER" * (bench.cross_encoder is not None)
    how += f" --endpoint URL --model {bench.model}" * (bench.endpoint is not None)
    steps = bench.steps[first:]
    artifacts.write_atomic(
        path,
        artifacts.dump_json(
            {
                **found,
                "steps": steps,
                "seconds_of_section": round(time.perf_counter() - started, 1),
                **facts.of_run(how, threads=sorted({step["threads"] for step in steps} or {1})),
            }
        ),
    )
    results = artifacts.read_json(path)
    if hasattr(section, "pictures"):
        for file, picture in section.pictures(results).items():
            artifacts.write_atomic(bench.results / file, picture)


@click.command(help=__doc__)
@click.argument("sections", nargs=-1, type=click.Choice(sorted(SECTIONS)))
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--quick", is_flag=True, help="Few items of everything, results beside --work: to see that it runs.")
@click.option("--again", is_flag=True, help="Measure again what an earlier run measured.")
@click.option("--work", type=click.Path(file_okay=False, path_type=Path), help="Keeps indices, peers and steps.")
@click.option("--results", type=click.Path(file_okay=False, path_type=Path), help="Default: bench/results.")
@click.option("--fine-tune", is_flag=True, help="Fine-tune a network for passages, too: half an hour.")
@click.option("--cross-encoder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--endpoint", help="Address of an OpenAI-compatible service, such as http://localhost:8000/v1.")
@click.option("--model", help="The service's model.")
@click.option("--key", help="Variable that holds the service's key; without it none is sent.")
def main(
    sections: tuple[str, ...],
    data: Path,
    quick: bool,
    again: bool,
    work: Path | None,
    results: Path | None,
    fine_tune: bool,
    cross_encoder: Path | None,
    endpoint: str | None,
    model: str | None,
    key: str | None,
) -> None:
    """Run sections, all of them if none is named, then the report."""
    work = (work or Path.home() / ".cache" / "semclass" / "bench").absolute()
    results = (results or (work / "quick" if quick else RESULTS)).absolute()
    results.mkdir(parents=True, exist_ok=True)
    network = None if cross_encoder is None else cross_encoder.absolute()
    bench = Bench(data.absolute(), work, results, quick, again, fine_tune, network, endpoint, model, key)
    started, failed = time.perf_counter(), []
    for name in [*(sections or SECTIONS), "report"]:
        bench.say(f"{name}: {SECTIONS.get(name, 'REPORT.md of all results')}")
        try:
            if name == "report":
                report.write(results)
            else:
                run_section(name, bench)
        except SemclassError as error:
            bench.say(f"{name}: {error}")
            failed.append(name)
        except Exception:  # noqa: BLE001 - whatever it was, the other sections are still worth their hour
            bench.say(f"{name}: {traceback.format_exc()}")
            failed.append(name)
    bench.say(f"{time.perf_counter() - started:.0f} s; {results / 'REPORT.md'}")
    if failed:
        raise click.ClickException(f"not done: {', '.join(failed)}")


if __name__ == "__main__":
    main(prog_name="python -m bench")
