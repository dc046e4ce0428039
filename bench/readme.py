"""Tables in Markdown, and those between marks in the README and the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import figures
from semclass.core.artifacts import write_atomic
from semclass.core.errors import ArtifactError

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"

NONE = "-"  # stands where there is no figure
NOT_RECORDED = "not recorded"  # what training a shipped head took, where its manifest does not say


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
    return "\n".join([first, "|" + "---|" * len(head), *others])


def cell(row: Mapping[str, Any], name: str, form: str) -> str:
    value = row.get(name)
    return NONE if value is None else format(value, form)


def with_interval(row: Mapping[str, Any], name: str, form: str = ".1%") -> str:
    value, interval = row.get(name), row.get(f"{name}_ci")
    if value is None or interval is None:
        return cell(row, name, form)
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f"{value:{form}} ({low} to {high})"


def with_error(row: Mapping[str, Any]) -> str:
    """What :func:`bench.measures.gain` gives, with a 95 % interval."""
    return f"{row['gain']:+.3f} ± {1.96 * row['error']:.3f}"


def number(value: Any) -> str:
    """A figure with about three significant digits; texts as they are."""
    if value is None or value != value:
        return NONE
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 else f"{value:.3g}"


def money(dollars: float) -> str:
    """USD with two significant digits, or whole dollars."""
    return f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:.2g}"


def trained(row: Mapping[str, Any]) -> str:
    if row.get("train_s") is None and row.get("kind") == "semclass":
        return NOT_RECORDED
    return cell(row, "train_s", ",.0f")


def block(name: str, text: str) -> str:
    """A table with its marks; `name` is that of a section, or ``"section: table"`` where a section has several."""
    section, _, part = name.partition(": ")
    return f"<!-- table: begin, written by bench/{section}.py{part and f': {part}'} -->\n{text}\n<!-- table: end -->"


def update(name: str, text: str) -> None:
    """Write a table between its marks, on every page that has them."""
    begin, end = block(name, "").split("\n\n")
    for path in (README, *sorted(DOCS.rglob("*.md")), *sorted(README.parent.glob("packages/*/docs/*.md"))):
        before, found, rest = path.read_text(encoding="utf-8").partition(begin)
        if not found:
            continue
        _, ended, after = rest.partition(end)
        if not ended:
            raise ArtifactError(f"{path} has no end mark of the table {name!r}; put {end} behind the table")
        write_atomic(path, f"{before}{block(name, text)}{after}".encode())


# -- pictures of quality against time ------------------------------------------------------------------------------------


STYLES = {
    "semclass": {"marker": "o", "color": "#0072B2", "markersize": 5},
    "peer": {"marker": "s", "color": "#C8500A", "markersize": 4.5},
    "prompted": {"marker": "D", "color": figures.INK, "markersize": 5.5, "fillstyle": "none"},
}
"""Marks by kind of system."""

WIDTH, HEIGHT, DPI = 5.0, 4.2, 90  # inches of a panel, dots an inch
SMALL = 7.5  # points of numbers and legends


class Point(NamedTuple):
    """A system in a panel."""

    name: str
    kind: str
    cost: float
    quality: float
    interval: Sequence[float]


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no point of the same cost or less reaches, by rising cost."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.quality)):
        if not found or point.quality > found[-1].quality:
            found.append(point)
    return found


def draw(panels: Mapping[str, Sequence[Point]], quality: str) -> bytes:
    """Draw a panel for each title, two in a row, with one legend for all."""
    columns = min(2, len(panels))
    shape = (-(-len(panels) // columns), columns)
    size = (WIDTH * max(columns, 1.3), HEIGHT * shape[0])
    figure, places = figures.load_pyplot().subplots(*shape, figsize=size, dpi=DPI, squeeze=False)
    numbers: dict[str, int] = {}
    marks = {}
    for (title, points), place in zip(panels.items(), places.flat, strict=False):
        for point in points:
            number = numbers.setdefault(point.name, len(numbers) + 1)
            marks[point.name] = _draw_point(place, point, number)
        _finish(place, title, points, quality)
    for place in places.flat[len(panels) :]:
        place.axis("off")
    style = {"fontsize": SMALL, "frameon": False, "loc": "upper center", "labelcolor": figures.INK}
    labels = [f"{number}  {name}" for name, number in numbers.items()]
    handles = [marks[name] for name in numbers]
    figure.legend(handles, labels, bbox_to_anchor=(0.5, 0), ncols=2 + columns, **style)
    return figures.png(figure)


def draw_named(points: Sequence[Point], cost: str, quality: str) -> bytes:
    """Draw one panel with the name of each system beside its mark; our own in bold."""
    figure, place = figures.load_pyplot().subplots(figsize=(7.2, 3.4), dpi=2 * DPI)
    for point in points:
        style = STYLES[point.kind]
        place.plot([point.cost], [point.quality], linestyle="none", **{**style, "markersize": 9})
        weight = "bold" if point.kind == "semclass" else "normal"
        aside = {"xytext": (9, -4), "ha": "left"} if point.kind == "semclass" else {"xytext": (0, 9), "ha": "center"}
        where = {**aside, "textcoords": "offset points"}
        at = (point.cost, point.quality)
        place.annotate(point.name, at, fontsize=10, color=style["color"], fontweight=weight, **where)
    place.margins(x=0.22, y=0.28)
    _axes(place, cost, quality)
    return figures.png(figure)


def _axes(place: Any, cost: str, quality: str) -> None:
    place.set_xscale("log")
    place.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    place.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    place.set_axisbelow(True)
    figures.plain(place, cost, quality)


def _draw_point(place: Any, point: Point, number: int) -> Any:
    style = STYLES[point.kind]
    low, high = point.interval
    ends = [[max(point.quality - low, 0)], [max(high - point.quality, 0)]]
    place.errorbar([point.cost], [point.quality], yerr=ends, color=style["color"], alpha=0.3, linewidth=1.1, zorder=1)
    (mark,) = place.plot([point.cost], [point.quality], linestyle="none", markeredgewidth=1.1, zorder=2, **style)
    offset = {"xytext": (3.5, 2.5 if number % 2 else -8.5), "textcoords": "offset points"}
    place.annotate(str(number), (point.cost, point.quality), fontsize=SMALL, color=style["color"], **offset)
    return mark


def _finish(place: Any, title: str, points: Sequence[Point], quality: str) -> None:
    line = front([point for point in points if point.kind != "prompted"])  # those were not timed here
    steps = [point.cost for point in line], [point.quality for point in line]
    place.step(*steps, where="post", color=figures.INK, linewidth=0.9, alpha=0.6, zorder=1)
    place.margins(x=0.14, y=0.1)
    place.set_title(title, fontsize=9, color=figures.INK, loc="left", fontweight="bold")
    _axes(place, "milliseconds, one thread", quality)


def of_task(section: str, key: str) -> Callable[[Mapping[str, Any]], bytes]:
    """What draws a task's systems on one thread: a figure of quality against time."""

    def picture(found: Mapping[str, Any]) -> bytes:
        shown = [
            Point(row["name"], row["kind"], row["p50_ms"], row[key], row[f"{key}_ci"])
            for row in found[section]["systems"]
            if row.get("threads") in (None, 1) and row.get("p50_ms") and row.get(key) is not None
        ]
        return draw({section: shown}, key.replace("_", " "))

    return picture
