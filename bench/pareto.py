"""Pictures of quality against cost.

Dots are semclass's, squares peers', hollow diamonds prompted models, whose times are recorded. The legend names the
systems by number. A line joins the systems that nothing cheaper beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench import prices
from semclass.evaluation import figures

STYLES = {
    "semclass": {"marker": "o", "color": "#0072B2", "markersize": 5},
    "peer": {"marker": "s", "color": "#C8500A", "markersize": 4.5},
    "prompted": {"marker": "D", "color": figures.INK, "markersize": 5.5, "fillstyle": "none"},
}
"""Marks by kind of system."""

PALE = {"alpha": 0.45, "markersize": 3.5}  # how systems look that have no number
WIDTH, HEIGHT = 5.0, 4.2  # inches of a panel; at 90 dots an inch two of them are as wide as a page shows
ONE = (6.6, 4.3)  # inches of a picture with one panel
DPI = 90  # dots of an inch, as the picture is written
SIZE = 7.5  # points of numbers and legends


class Point(NamedTuple):
    """A system in a panel."""

    name: str
    kind: str
    cost: float
    quality: float


class Panel(NamedTuple):
    """A part of the picture."""

    title: str
    points: Sequence[Point]
    interval: float


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no cheaper or equally cheap point reaches, by rising cost."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, -point.quality)):
        if not found or point.quality > found[-1].quality:
            found.append(point)
    return found


def draw(panels: Sequence[Panel], alone: Panel) -> bytes:
    """Draw them, two in a row, with one legend for all."""
    rows = -(-(len(panels) + 1) // 2)
    figure, places = figures.load_pyplot().subplots(rows, 2, figsize=(2 * WIDTH, HEIGHT * rows), dpi=DPI, squeeze=False)
    for place in places.flat[len(panels) + 1 :]:
        place.axis("off")
    numbers = _numbers([*panels, alone])
    for place, panel in zip(places.flat, panels, strict=False):
        quality = f"MRR@10 (95 %: ± {panel.interval:.3f})"
        _panel(place, panel, "milliseconds for a question, one thread", quality, numbers)
        money = place.secondary_xaxis("top", functions=(_dollars, _milliseconds))
        money.set_xlabel("USD for a million questions", fontsize=8, color=figures.INK)
        money.tick_params(labelsize=7, colors=figures.INK)
        money.xaxis.set_major_formatter(_plain)
    last = places.flat[len(panels)]
    wide = f"error of the hybrid removed (95 %: ± {alone.interval:.0%})"
    _panel(last, alone, "milliseconds of re-ranking alone, for a question", wide, numbers)
    last.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    pale = last.plot([], [], linestyle="none", label="semclass, other methods", **(STYLES["semclass"] | PALE))
    _legend(figure, last, numbers, pale)
    return figures.png(figure)


def draw_one(title: str, points: Sequence[Point], intervals: Sequence[tuple[float, float] | None], y: str) -> bytes:
    """Draw a share against milliseconds, with the share's intervals: one panel, for tasks other than retrieval."""
    figure, place = figures.load_pyplot().subplots(figsize=ONE, dpi=DPI)
    panel = Panel(title, points, 0.0)  # each point shows its own interval
    numbers = _numbers([panel])
    _panel(place, panel, "milliseconds for one call (each step is ten times as long)", y, numbers)
    for point, interval in zip(points, intervals, strict=True):
        if interval is not None:
            ends = [[max(point.quality - interval[0], 0)], [max(interval[1] - point.quality, 0)]]
            colour = STYLES[point.kind]["color"]
            place.errorbar([point.cost], [point.quality], yerr=ends, color=colour, alpha=0.35, linewidth=1.2, zorder=1)
    place.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    place.set_ylim(top=min(place.get_ylim()[1], 1.01))
    _legend(figure, place, numbers, [])
    return figures.png(figure)


def _numbers(panels: Sequence[Panel]) -> dict[Point, int]:
    """A number for each name; the same name has the same number in every panel."""
    names: dict[str, int] = {}
    found: dict[Point, int] = {}
    for point in (point for panel in panels for point in panel.points if point.name):
        found[point] = names.setdefault(point.name, len(names) + 1)
    return found


def _panel(place: Any, panel: Panel, x: str, y: str, numbers: dict[Point, int]) -> None:
    """Points with their numbers, and their front."""
    line = front([point for point in panel.points if point.kind != "prompted"])  # those were measured elsewhere
    steps = [point.cost for point in line], [point.quality for point in line]
    place.step(*steps, where="post", color=figures.INK, linewidth=0.9, alpha=0.6, zorder=1)
    for point in panel.points:
        style = STYLES[point.kind] | ({} if point.name else PALE)
        place.plot([point.cost], [point.quality], linestyle="none", markeredgewidth=1.1, zorder=2, **style)
        if point in numbers:
            above = numbers[point] % 2  # neighbours often have numbers in a row
            offset = {"xytext": (3.5, 2.5 if above else -8.5), "textcoords": "offset points"}
            place.annotate(str(numbers[point]), point[2:], fontsize=SIZE, color=STYLES[point.kind]["color"], **offset)
    place.set_xscale("log")
    place.margins(x=0.14, y=0.1)
    place.set_title(panel.title, fontsize=9, color=figures.INK, loc="left", fontweight="bold")
    place.xaxis.set_major_formatter(_plain)
    place.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    place.set_axisbelow(True)
    figures.plain(place, x, y)


def _legend(figure: Any, place: Any, numbers: dict[Point, int], marks: Sequence[Any]) -> None:
    """The systems by number, below the panels."""
    firsts = {number: point for point, number in reversed(numbers.items())}
    shown = [
        place.plot([], [], linestyle="none", label=f"{number}  {point.name}", **STYLES[point.kind])[0]
        for number, point in sorted(firsts.items())
    ]
    shown += [*marks, *place.plot([], [], color=figures.INK, linewidth=0.9, label="nothing cheaper is better")]
    style = {"fontsize": SIZE, "frameon": False, "loc": "upper center", "labelcolor": figures.INK}
    figure.legend(handles=shown, bbox_to_anchor=(0.5, 0), ncols=3 if len(figure.axes) == 1 else 4, **style)


def _plain(value: float, _: int = 0) -> str:
    return f"{value:,.10g}"


def _dollars(milliseconds: Any) -> Any:
    return milliseconds * prices.machine_call(1e-3, 1)


def _milliseconds(dollars: Any) -> Any:
    return dollars / prices.machine_call(1e-3, 1)
