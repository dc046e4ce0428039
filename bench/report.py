"""Pages of the results: one for each section, with its tables and pictures, and ``REPORT.md``, which lists them.

    python -m bench.report [FOLDER]

writes the pages of a folder of results; of the project's own also the tables of the README and of the documentation.
The same files of results give the same bytes.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import click

from bench import prices, provenance, readme
from bench.provenance import Results
from semclass.core.artifacts import read_json, write_atomic
from semclass.core.errors import SemclassError

RESULTS = Path(__file__).parent / "results"
WORDS = Path(__file__).parent / "words.md"

SECTIONS = (
    "main_job", "labels", "questions", "passages", "entailment", "retrieval", "carry", "thesis",
    "abstain", "small_folders", "documents", "languages", "cascade", "scale",
)  # fmt: skip
"""Modules of this package, in the order in which they run. Each has ``run(bench)``, which gives the results, and

``TABLES``: functions that make a table from the results of all sections, by name; the first one's is ``""``;
``PICTURES``, perhaps: functions that draw a PNG from these results, by file name;
``READS``, perhaps: sections whose results the tables read, if others, too.
"""

DERIVED = ("decide",)
"""Modules with tables that are made of the results of sections alone."""


class ReportError(SemclassError):
    """A file of results is not what it should be."""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    strange = sorted({path.stem for path in folder.glob("*.json")} - set(SECTIONS))
    if strange:
        raise ReportError(f"{folder}: {', '.join(strange)}: no section has this name; there are {', '.join(SECTIONS)}")
    return {name: read_json(path) for name in SECTIONS if (path := folder / f"{name}.json").is_file()}


def seconds_of(results: Mapping[str, Any]) -> float:
    """Seconds of a section without kept steps: its time by the clock, and that of the steps that an earlier run did."""
    earlier = sum(step["seconds"] for step in results.get("steps", ()) if step.get("earlier"))
    return float(results.get("seconds_of_section", 0)) + earlier


def tables(name: str, found: Results) -> dict[str, str]:
    """Tables of a section, by the names that marks have, each with the line that says which models are earlier ones."""
    reads = getattr(importlib.import_module(f"bench.{name}"), "READS", (name,))
    return {place: provenance.with_line(make, found, reads) for place, make in _makers(name).items()}


def _makers(name: str) -> dict[str, Any]:
    made = importlib.import_module(f"bench.{name}").TABLES
    return {f"{name}: {part}" if part else name: make for part, make in made.items()}


def pictures(name: str) -> dict[str, Any]:
    """Functions that draw a section's pictures, by file."""
    return dict(getattr(importlib.import_module(f"bench.{name}"), "PICTURES", {}))


def write(folder: Path) -> None:
    """Write pictures, pages and, of the project's own results, tables."""
    found = read(folder)
    for name in found:
        _write_page(folder, name, found)
    for name in (*found, *DERIVED) if folder.resolve() == RESULTS.resolve() else ():
        for place, text in tables(name, found).items():
            readme.update(place, text)
    write_atomic(folder / "REPORT.md", overview(found).encode())


def _write_page(folder: Path, name: str, found: Results) -> None:
    try:
        for file, draw in pictures(name).items():
            write_atomic(folder / file, draw(found))
        write_atomic(folder / f"{name}.md", page(name, found).encode())
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ReportError(
            f"{folder / name}.json is not what bench/{name}.py writes ({type(error).__name__}: {error}); measure it "
            f"again with `python -m bench {name} --data DATA`"
        ) from error


@lru_cache(maxsize=1)
def words() -> dict[str, str]:
    """The prose of pages beside figures: the texts of ``words.md``, by heading."""
    parts = re.split(r"^# (.+)$", WORDS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {key: text.strip() for key, text in zip(parts[1::2], parts[2::2], strict=True)}


def page(name: str, found: Results) -> str:
    results, said = found[name], words()
    parts = [f"# {said[f'{name}: title']}", said[f"{name}: what"]]
    if any("--quick" in command for command in results.get("commands", ())):
        parts.append("> Of a quick run, few items of everything: not to be quoted.")
    made = {place: make(found) for place, make in _makers(name).items()}
    parts.append(provenance.line(found, [name]))
    task = {key: value for key, value in results.get("task", {}).items() if not isinstance(value, Mapping)}
    parts.append("\n".join(f"- {key.replace('_', ' ').capitalize()}: {_text(value)}" for key, value in task.items()))
    for place, text in made.items():
        parts += [said.get(place, "") if place != name and text else "", text]
    parts += [f"![{said[f'{file}: picture']}]({file})\n\n*{said[f'{file}: picture']}*" for file in pictures(name)]
    if "systems" in results:
        parts += ["" if name in made else readme.systems_table(results["systems"]), descriptions(results["systems"])]
    for data in results.get("sets", {}).values():
        parts += [f"## {data['what']}", readme.systems_table(data["systems"])]
    if "sets" in results:
        parts.append(descriptions(next(iter(results["sets"].values()))["systems"]))
    if f"{name}: limits" in said:
        parts += ["**Limits.**", said[f"{name}: limits"]]
    return "\n\n".join(part for part in [*parts, _source(name, results)] if part) + "\n"


def _text(value: Any) -> str:
    return ", ".join(map(_text, value)) if isinstance(value, list) else readme.number(value)


def _source(name: str, results: Mapping[str, Any]) -> str:
    commands = ", ".join(f"`{command}`" for command in results.get("commands", []))
    return f"*From [{name}.json]({name}.json): {commands}, {results.get('date')}, commit {results.get('commit')}.*"


def descriptions(systems: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"- **{row['name']}**: {row['what']}" for row in systems)


def overview(found: Results) -> str:
    """``REPORT.md``: what is compared, how it was measured, the pages, and the prices."""
    said = words()
    if not found:
        return f"# {said['title']}\n\nThere are no results yet: `python -m bench --data DATA` makes them.\n"
    took = {name: seconds_of(results) for name, results in found.items()}
    pages = [f"- [{said[f'{name}: title']}]({name}.md), {took[name]:,.0f} s" for name in found]
    machines = dict.fromkeys(_machine(run["machine"]) for run in found.values())
    versions = {item for run in found.values() for item in run["versions"].items()}
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions))
    parts = [
        f"# {said['title']}", said["opening"], "\n".join(pages), f"All together: {sum(took.values()) / 60:,.0f} minutes.",
        "## What is compared", said["groups"],
        "## How it was measured", "\n".join([*(f"- Machine: {machine}." for machine in machines), f"- Versions: {listed}.",
                                             said["protocol"]]),
        "## Prices", said["prices"], readme.markdown(("what", "USD for a", *PRICED), _priced()),
        "## Words", said["glossary"],
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _machine(facts: Mapping[str, Any]) -> str:
    form = "{processor}, {cores} cores, {memory_gb} GB of memory, {system}, Python {python}"
    flags = ", ".join(facts.get("flags", ()))  # products of 8-bit numbers are rounded otherwise where there are more
    return form.format(**facts) + (f", {flags}" if flags else "")


PRICED = ("unit", "source", "date", "checked")  # what a price says of itself


def _priced() -> list[list[str]]:
    rows = []
    for kind in ("machines", "tokens", "rerank"):
        for price in prices.load()[kind].values():
            amounts = {
                key.removeprefix("usd_per_"): value for key, value in price.items() if key.startswith("usd_per_")
            }
            shown = ", ".join(f"{value:g} {key.replace('_', ' ')}" for key, value in amounts.items())
            rows.append([price["name"], shown, *(price[key] for key in PRICED)])
    return rows


@click.command(help=__doc__)
@click.argument("results", default=RESULTS, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(results: Path) -> None:
    """Write the pages of a folder of results, bench/results if none is given."""
    try:
        write(results)
    except SemclassError as error:
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        raise click.ClickException(f"pages need {error.name}; run: pip install '.[bench]'") from error
    click.echo(results / "REPORT.md")


if __name__ == "__main__":
    main(prog_name="python -m bench.report")
