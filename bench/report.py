"""The report, ``REPORT.md``, of whichever files of results are there; the same files give the same bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from bench import pareto, prices, readme
from bench.reporting.answers import answers, main_figure
from bench.reporting.sections import as_text, section
from bench.reporting.tables import (
    NONE,
    Results,
    at,
    escape,
    facts_of,
    is_quick,
    measured,
    number,
    on_one_thread,
    table,
)
from bench.reporting.targets import targets
from bench.reporting.words import SECTIONS, TASKS, said, title_of
from semclass.core.artifacts import read_json, write_atomic
from semclass.core.errors import ArtifactError, SemclassError

RESULTS = Path(__file__).parent / "results"


class ReportError(SemclassError):
    """A file of results is not what it should be."""


def write(results: Path) -> None:
    """Write ``REPORT.md``; of the project's own results also the tables of the README and of the documentation."""
    found = read(results)
    for name, picture in cost_pictures(found).items():
        write_atomic(results / name, picture)
    write_atomic(results / "REPORT.md", markdown(found, results).encode())
    if results.resolve() == RESULTS.resolve():
        for name in filter(readme.places, found):
            readme.update(name, readme.table(name, found) or "")


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Results by section."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.stem not in SECTIONS:
            raise ReportError(f"{path} is no section's file of results; the report knows {', '.join(SECTIONS)}")
        try:
            found[path.stem] = read_json(path)
        except ArtifactError as error:
            raise ReportError(str(error)) from error
    return {name: found[name] for name in SECTIONS if name in found}


def slug(heading: str) -> str:
    """Name of a heading for links to it, as forges make them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def markdown(found: Results, folder: Path) -> str:
    """The report as Markdown; pictures are named if they lie in `folder`."""
    chapters = [
        ("What should I use?", answers(found)),
        ("What is compared", said("groups")),
        ("How it was measured", how(found)),
        *((title_of(name), section_of(folder, name, found)) for name in found),
        ("Targets", targets(found)),
        ("Prices", f"{said('prices')}\n\n{_prices()}" if found else ""),
        ("Where each figure comes from", traces(found)),
        ("Words", said("glossary")),
    ]
    shown = [(title, text) for title, text in chapters if text]
    contents = "\n".join(f"- [{title}](#{slug(title)})" for title, _ in shown)
    parts = [f"# {said('title')}", said("opening"), _made(found), contents]
    parts += [f"## {title}\n\n{text}" for title, text in shown]
    return "\n\n".join(part for part in parts if part) + "\n"


def section_of(folder: Path, name: str, found: Results) -> str:
    """A section; whatever is wrong with its results is told with the file's name."""
    try:
        return section(name, found, sorted(path.name for path in folder.glob(f"{name}*.png")))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise ReportError(
            f"{folder / name}.json is not what bench/{name}.py writes ({type(error).__name__}: {error}); measure it again "
            f"with `python -m bench {name} --data DATA`"
        ) from error


def _made(found: Results) -> str:
    """When, from which commit, and whether it may be quoted."""
    if not found:
        return "> There are no results yet: `python -m bench --data DATA` makes them."
    dates = sorted({facts_of(results)["date"] for results in found.values() if facts_of(results).get("date")})
    commits = sorted({facts_of(results)["commit"] for results in found.values() if facts_of(results).get("commit")})
    when = f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else "Measured"
    which = f", commit {', '.join(f'`{commit}`' for commit in commits)}" if commits else ""
    quick = [name for name, results in found.items() if is_quick(results)]
    lines = [f"{when}{which}."]
    if quick:
        what = "All results" if len(quick) == len(found) else f"The results of {', '.join(quick)}"
        lines.append(
            f"> **{what} are of a quick run**: few items of everything, to see that it runs. They are not to be quoted."
        )
    return "\n\n".join(lines)


# -- how, aims, sources -----------------------------------------------------------------------------------------------


def how(found: Results) -> str:
    """Machine, versions, protocol and data."""
    machines = list(dict.fromkeys(_machine(facts_of(results).get("machine") or {}) for results in found.values()))
    versions: dict[str, list[str]] = {}
    for results in found.values():
        for package, version in (facts_of(results).get("versions") or {}).items():
            versions.setdefault(package, []).append(escape(version))
    lines = [f"- Machine: {machine}." for machine in machines if machine]
    if versions:
        listed = ", ".join(
            f"{escape(name)} {' and '.join(dict.fromkeys(row))}" for name, row in sorted(versions.items())
        )
        lines.append(f"- Versions: {listed}.")
    lines.append(said("protocol"))
    data = [
        f"- Data of *{title_of(name)}*: {as_text(sources)}."
        for name, results in found.items()
        if (sources := at(results, "task", "sources"))
    ]
    return "\n".join([*lines, *data])


def _prices() -> str:
    """The prices that money is made of, with their sources."""
    rows = []
    for kind, priced in prices.load().items():
        for price in priced.values() if isinstance(priced, Mapping) else ():
            amounts = [f"{value:g} {_per(key)}" for key, value in price.items() if key.startswith("usd_per_")]
            rows.append([escape(price["name"]), kind, ", ".join(amounts), *(escape(price[key]) for key in PRICED)])
    return table(("what", "kind", "USD for a", *PRICED), rows)


def _per(key: str) -> str:
    """What a price is for, from its key: ``usd_per_million_prompt_tokens`` is for a prompt."""
    return key.removeprefix("usd_per_").removeprefix("million_").removesuffix("_tokens").replace("_", " ")


PRICED = ("unit", "source", "date", "checked")  # what a price says of itself


def _machine(facts: Mapping[str, Any]) -> str:
    """Processor, cores, memory and software in a line."""
    forms = {
        "processor": "{}",
        "cores": "{} cores",
        "memory_gb": "{} GB of memory",
        "system": "{}",
        "python": "Python {}",
    }
    return ", ".join(form.format(escape(facts[key])) for key, form in forms.items() if facts.get(key) is not None)


def traces(found: Results) -> str:
    """File, command, date and commit of each section."""
    if not found:
        return ""
    files = []
    for name, results in found.items():
        facts = facts_of(results)
        commands = "; ".join(f"`{command}`" for command in facts.get("commands", []))
        when = [escape(facts.get(key) or NONE) for key in ("date", "commit")]
        seconds = number(results.get("seconds_of_section"))
        files.append([title_of(name), f"[{name}.json]({name}.json)", commands or NONE, *when, seconds])
    made = table(("section", "file", "command", "date", "commit", "seconds"), files)
    return f"{said('traces')}\n\n{made}"


# -- pictures ---------------------------------------------------------------------------------------------------------


def cost_pictures(found: Results) -> dict[str, bytes]:
    """Quality against time of the tasks, as PNG by file name."""
    made = {}
    for name in TASKS:
        systems = at(found, name, "systems") or []
        key, quality = main_figure(name, systems)
        shown = [row for row in on_one_thread(measured(systems, key)) if row.get("p50_ms")]
        if shown:
            named = [pareto.Point(str(row["name"]), row.get("kind", "peer"), row["p50_ms"], row[key]) for row in shown]
            intervals = [row.get(f"{key}_ci") for row in shown]
            made[f"{name}_cost.png"] = pareto.draw_one(title_of(name), named, intervals, quality)
    return made


@click.command(help=__doc__)
@click.argument("results", default=RESULTS, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(results: Path) -> None:
    """Write the report of a folder of results, bench/results if none is given."""
    try:
        write(results)
    except SemclassError as error:
        raise click.ClickException(str(error)) from error
    click.echo(results / "REPORT.md")


if __name__ == "__main__":
    main(prog_name="python -m bench.report")
