"""``python -m bench``: the whole benchmark, or some of its sections.

``python -m bench data FOLDER`` fetches public sets; ``python -m bench decide`` says what to use.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from pathlib import Path

import click

from bench import data as public_data
from bench import decide, provenance, report
from bench.steps import AbsentError, Bench
from semclass.core import artifacts
from semclass.core.errors import ArtifactError, InputError, SemclassError


def run_section(name: str, bench: Bench) -> None:
    """Run a section and write ``<name>.json``."""
    started, first = time.perf_counter(), len(bench.steps)
    found = importlib.import_module(f"bench.{name}").run(bench)
    command = f"python -m bench {name} --data DATA" + " --quick" * bench.quick
    steps = bench.steps[first:]
    results = {
        **found,
        "steps": steps,
        "seconds_of_section": round(time.perf_counter() - started, 1),
        "commands": [command],
        "threads": sorted({step["threads"] for step in steps} or {1}),
        "models": provenance.of(name),
        **provenance.of_run(),
    }
    path = bench.results / f"{name}.json"
    artifacts.write_atomic(path, artifacts.dump_json(results))


def run_all(bench: Bench, names: list[str]) -> tuple[list[str], list[str]]:
    """Run sections and the report; gives those that failed, and those that lack a file or a package."""
    failed, skipped = [], []
    for name in names:
        bench.say(f"{name} ...")
        try:
            if name == "report":
                report.write(bench.results)
            else:
                run_section(name, bench)
        except (AbsentError, FileNotFoundError, ImportError, InputError, ArtifactError) as error:
            bench.say(f"{name}: skipped, {why_absent(error, bench.data)}")
            skipped.append(name)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other sections are still worth their hour
            bench.say(f"{name}: {error if isinstance(error, SemclassError) else traceback.format_exc()}")
            failed.append(name)
    return failed, skipped


def why_absent(error: Exception, data: Path) -> str:
    """Say which file or package a section lacks."""
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is not there: `python -m bench data {data}` fetches what is published"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it needs {error.name}; run: pip install '.[bench]'"
    return str(error)


@click.command(help=__doc__)
@click.argument("sections", nargs=-1, type=click.Choice(report.SECTIONS))
@click.option("--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of data; `python -m bench data FOLDER` fetches public sets into one.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Few items of everything, results below --work: to see that it runs.")
@click.option("--work", type=click.Path(file_okay=False, path_type=Path), help="Keeps indices, peers and steps.")
@click.option("--results", type=click.Path(file_okay=False, path_type=Path), help="Default: bench/results.")
def main(sections: tuple[str, ...], data: Path, quick: bool, work: Path | None, results: Path | None) -> None:
    """Run sections, all of them if none is named, then the report."""
    work = (work or Path.home() / ".cache" / "semclass" / "bench").absolute()
    results = (results or (work / "quick" if quick else report.RESULTS)).absolute()
    results.mkdir(parents=True, exist_ok=True)
    bench = Bench(data.absolute(), work, results, quick)
    started, wanted = time.perf_counter(), sections or report.SECTIONS
    failed, skipped = run_all(bench, [*wanted, "report"])
    bench.say(f"{time.perf_counter() - started:.0f} s; {results / 'REPORT.md'}")
    if skipped:
        bench.say(f"skipped: {', '.join(skipped)}")
    if failed or len(skipped) >= len(wanted):
        raise click.ClickException(f"not done: {', '.join([*failed, *skipped])}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["decide"]:
        decide.main(sys.argv[2:], prog_name="python -m bench decide")
    if sys.argv[1:2] == ["data"]:
        public_data.main(sys.argv[2:], prog_name="python -m bench data")
    main(prog_name="python -m bench")
