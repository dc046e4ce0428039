"""The report of all results: ``REPORT.md``, and the same as one page, ``report.html``, with its pictures inside.

Both are made from the files of results that are there, whichever these are; what is missing or was skipped is said. The
same files give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from bench import pareto, prices, readme
from bench.reporting.answers import answers, main_figure
from bench.reporting.check import complaint
from bench.reporting.page import render, slug
from bench.reporting.sections import QUALITY_KEYS, RETRIEVAL_KEYS, as_text, section
from bench.reporting.tables import (
    COSTS,
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
    """Write ``REPORT.md`` and ``report.html`` from the files of results that are there.

    Of the project's own results the tables of the README and of the documentation are written, too.

    Parameters
    ----------
    results
        Folder with ``<section>.json`` and the sections' pictures.

    Raises
    ------
    ReportError
        If a JSON file is no section's, or is not what the section writes.
    MissingExtraError
        If markdown-it-py or matplotlib is not installed.
    """
    found = read(results)
    for name, picture in cost_pictures(found).items():
        write_atomic(results / name, picture)
    text = markdown(found, results)
    write_atomic(results / "REPORT.md", text.encode())
    pictures = {path.name: path.read_bytes() for path in sorted(results.glob("*.png"))}
    write_atomic(results / "report.html", render(text, said("title"), pictures).encode())
    if results.resolve() == RESULTS.resolve():
        for name in filter(readme.has_place, found):
            readme.update(name, readme.table(name, found) or "")


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Results by section.

    Raises
    ------
    ReportError
        Naming the first file that is no section's or is no JSON object.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.stem not in SECTIONS:
            raise ReportError(f"{path} is no section's file of results; the report knows {', '.join(SECTIONS)}")
        try:
            found[path.stem] = read_json(path)
        except ArtifactError as error:
            raise ReportError(str(error)) from error
        if (wrong := complaint(found[path.stem])) is not None:
            raise _strange(path, wrong)
    return {name: found[name] for name in SECTIONS if name in found}


def markdown(found: Results, folder: Path) -> str:
    """The report as Markdown; pictures are named if they lie in `folder`."""
    chapters = [
        ("What should I use?", answers(found)),
        ("What is compared", said("groups")),
        ("How it was measured", how(found)),
        *((title_of(name), _of_file(folder, name, found)) for name in found),
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


def _of_file(folder: Path, name: str, found: Results) -> str:
    """A section; whatever is wrong with its results is told with the file's name."""
    try:
        return section(name, found, sorted(path.name for path in folder.glob(f"{name}*.png")))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, StopIteration) as error:
        raise _strange(folder / f"{name}.json", f"{type(error).__name__}: {error}") from error


def _strange(path: Path, what: str) -> ReportError:
    name = path.stem
    return ReportError(
        f"{path} is not what bench/{name}.py writes ({what}); measure it again with `python -m bench {name} --data DATA`"
    )


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


PRICED = ("unit", "source", "date", "checked")
"""What a price says of itself."""


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
    """File, command, date and commit of each section, and the key of each column."""
    if not found:
        return ""
    files = []
    for name, results in found.items():
        facts = facts_of(results)
        commands = "; ".join(f"`{command}`" for command in facts.get("commands", []))
        when = [escape(facts.get(key) or NONE) for key in ("date", "commit")]
        seconds = number(results.get("seconds_of_section"))
        files.append([title_of(name), f"[{name}.json]({name}.json)", commands or NONE, *when, seconds, _shown(name)])
    made = table(("section", "file", "command", "date", "commit", "seconds", "in the README"), files)
    where = table(("column", "files", "key"), _keys(found))
    return "\n\n".join([said("traces"), made, where])


def _shown(name: str) -> str:
    """Whether the README has a table that was made from a section's file."""
    return "a table" if readme.has_place(name) else NONE


def _keys(found: Results) -> list[list[str]]:
    """Where the columns of tables are in the files."""
    rows = []
    for column, key in {**QUALITY_KEYS, **COSTS}.items():
        files = [f"`{name}.json`" for name in TASKS if measured(at(found, name, "systems") or [], key)]
        rows += [[column, ", ".join(files), f"`systems[NAME].{key}`"]] if files else []
    if "retrieval" in found:
        shown = {**RETRIEVAL_KEYS, "error removed": "error_removed", **COSTS}
        systems = [row for data in (found["retrieval"].get("sets") or {}).values() for row in data.get("systems", [])]
        rows += [
            [column, "`retrieval.json`", f"`sets.SET.systems[NAME].{key}`"]
            for column, key in shown.items()
            if measured(systems, key)
        ]
    others = [name for name in found if name not in (*TASKS, "retrieval")]
    return [*rows, *([f"*{title_of(name)}*", f"`{name}.json`", f"as `bench/{name}.py` names it"] for name in others)]


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
