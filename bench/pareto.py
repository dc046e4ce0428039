"""The picture of quality against cost: a panel for each set of questions, and one for re-ranking alone.

Ours are dots and peers' squares, in colours that nobody mistakes for each other and that differ in print, too; prompted
models, whose times are recorded, are hollow diamonds. A line goes from each system that nothing cheaper beats to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench import prices
from semclass.core.errors import import_extra
from semclass.evaluation import figures

STYLES = {
    "semclass": {"marker": "o", "color": "#0072B2", "markersize": 5},
    "peer": {"marker": "s", "color": "#C8500A", "markersize": 4.5},
    "prompted": {"marker": "D", "color": figures.INK, "markersize": 5.5, "fillstyle": "none"},
}
"""Marks by kind of system."""

TITLES = {"semclass": "semclass", "peer": "peers", "prompted": "prompted, time assumed"}

PALE = {"alpha": 0.45, "markersize": 3.5}
"""How systems look that have no label of their own."""

WIDTH, HEIGHT = 5.0, 4.7
"""Inches of a panel; at 90 dots an inch two of them are as wide as a page shows."""

DPI = 90
"""Dots of an inch, as the picture is written."""

SIZE = 7.5
"""Points of a label."""


class Point(NamedTuple):
    """A system in a panel.

    Attributes
    ----------
    name
        Written beside it; empty for none.
    kind
        One of `STYLES`.
    cost, quality
        Where it is.
    """

    name: str
    kind: str
    cost: float
    quality: float


class Panel(NamedTuple):
    """A part of the picture.

    Attributes
    ----------
    title
        What it is of.
    points
        The systems.
    interval
        Half of the width that the 95 % intervals of their quality have, about.
    """

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


def _priced(points: Sequence[Point]) -> list[Point]:
    """Those that were measured here; others' figures are of other questions."""
    return [point for point in points if point.kind != "prompted"]


def draw(panels: Sequence[Panel], alone: Panel) -> bytes:
    """Draw them, two in a row.

    Parameters
    ----------
    panels
        Of milliseconds of a question and MRR@10.
    alone
        The last one: of milliseconds of re-ranking alone and the share of the hybrid's error that is removed.

    Returns
    -------
    bytes
        A PNG.
    """
    pyplot = figures.load_pyplot()
    rows = -(-(len(panels) + 1) // 2)
    figure, places = pyplot.subplots(rows, 2, figsize=(2 * WIDTH, HEIGHT * rows), dpi=DPI, squeeze=False)
    for place in places.flat[len(panels) + 1 :]:
        place.axis("off")
    for place, panel in zip(places.flat, panels, strict=False):
        _panel(place, panel, "milliseconds for a question, one thread", f"MRR@10 (95 %: ± {panel.interval:.3f})")
        money = place.secondary_xaxis("top", functions=(_dollars, _milliseconds))
        money.set_xlabel("USD for a million questions", fontsize=8, color=figures.INK)
        money.tick_params(labelsize=7, colors=figures.INK)
        money.xaxis.set_major_formatter(_plain)
    last = places.flat[len(panels)]
    wide = f"error of the hybrid removed (95 %: ± {alone.interval:.0%})"
    _panel(last, alone, "milliseconds of re-ranking alone, for a question", wide)
    marks = [last.plot([], [], linestyle="none", label=TITLES[kind], **style)[0] for kind, style in STYLES.items()]
    marks += last.plot([], [], linestyle="none", label="semclass, other methods", **(STYLES["semclass"] | PALE))
    marks += last.plot([], [], color=figures.INK, linewidth=0.9, alpha=0.6, label="nothing cheaper is better")
    last.legend(handles=marks, fontsize=SIZE, frameon=False, loc="lower left", labelcolor=figures.INK)
    last.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.tight_layout()  # labels are placed on what this makes of the panels
    for place, panel in zip(places.flat, (*panels, alone), strict=False):
        _label(place, panel.points)
    return figures.png(figure)


def _panel(place: Any, panel: Panel, x: str, y: str) -> None:
    """Points and their front, without labels, whose places depend on the final shape of the figure."""
    line = front(_priced(panel.points))
    steps = [point.cost for point in line], [point.quality for point in line]
    place.step(*steps, where="post", color=figures.INK, linewidth=0.9, alpha=0.6, zorder=1)
    for point in panel.points:
        style = STYLES[point.kind] | ({} if point.name else PALE)
        place.plot([point.cost], [point.quality], linestyle="none", markeredgewidth=1.1, zorder=2, **style)
    place.set_xscale("log")
    place.margins(x=0.14, y=0.1)
    place.set_title(panel.title, fontsize=9, color=figures.INK, loc="left", fontweight="bold")
    place.xaxis.set_major_formatter(_plain)
    place.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    place.set_axisbelow(True)
    figures.plain(place, x, y)


# -- labels that do not overlap -------------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]
"""Left, lower, right and upper end, in dots."""

NEAR, FAR, RINGS = 9.0, 90.0, 14
"""Dots from a point to the nearest and the farthest place of its label, and how many distances are tried."""

ANGLES = np.radians([0, 180, 30, -30, 150, -150, 60, -60, 120, -120, 90, -90])
"""Directions in which labels are tried, the best first."""

LEADER = 25
"""Places of a thin line that are looked at, to see what it crosses."""

MARK = 8.0
"""Half of the width of the place that a mark keeps free of other systems' labels, lest they be taken for its own."""


def _label(place: Any, points: Sequence[Point]) -> None:
    """Write each name where it covers nothing, with a thin line to its point where that is not beside it."""
    renderer = place.figure.canvas.get_renderer()
    dots = place.transData.transform([(point.cost, point.quality) for point in points])
    marks: list[Box] = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in dots]
    taken = _boxes(place.transData.transform([(point.cost, point.quality) for point in front(_priced(points))]))
    edge = import_extra("matplotlib.patheffects", figures.EXTRA).withStroke(linewidth=2.5, foreground="white")
    frame = place.get_window_extent(renderer)
    back = place.transData.inverted()
    # the most crowded choose last: they have to go far in any case
    room = [float(np.sort(np.hypot(*(dots - dot).T))[:4].sum()) for dot in dots]
    for row in sorted(range(len(points)), key=lambda row: -room[row]):
        if not points[row].name:
            continue
        colour = STYLES[points[row].kind]["color"]
        text = place.text(0, 0, points[row].name, fontsize=SIZE, color=colour, ha="center", va="center", zorder=4)
        text.set_in_layout(False)  # panels keep the shape that labels were placed in
        text.set_path_effects([edge])  # a line that runs below a name leaves it legible
        size = text.get_window_extent(renderer)
        box = best_box(dots[row], (size.width + 4, size.height), [*marks[:row], *marks[row + 1 :], *taken], frame)
        taken.append(box)
        text.set_position(back.transform(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)))
        end = np.clip(dots[row], box[:2], box[2:])
        if np.hypot(*(end - dots[row])) > 1.5 * NEAR:
            (x0, y0), (x1, y1) = back.transform([end, dots[row]])
            place.plot([x0, x1], [y0, y1], color=colour, linewidth=0.5, alpha=0.7, zorder=1.5)
            taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in np.linspace(end, dots[row], LEADER)]


def _boxes(corners: npt.NDArray[Any]) -> list[Box]:
    """Thin boxes along a line of steps, each of which goes right, then up."""
    found: list[Box] = []
    for (x0, y0), (x1, y1) in itertools.pairwise(corners.tolist()):
        found += [(x0, y0 - 1, x1, y0 + 1), (x1 - 1, y0, x1 + 1, y1)]
    return found


def best_box(dot: npt.NDArray[Any], size: tuple[float, float], taken: Sequence[Box], frame: Any) -> Box:
    """Find where a label covers least, and of those places the nearest.

    Parameters
    ----------
    dot
        The point that it belongs to.
    size
        Width and height.
    taken
        What it should not cover, nor the line from it to its point cross.
    frame
        ``x0``, ``y0``, ``x1`` and ``y1``: what it must not leave.

    Returns
    -------
    tuple
        Its box.
    """
    others = np.array(taken, np.float64).reshape(-1, 4)
    costs: dict[Box, float] = {}
    for ring, distance in enumerate(np.linspace(NEAR, FAR, RINGS)):
        for turn, angle in enumerate(ANGLES):
            x = dot[0] + distance * np.cos(angle) + np.sign(round(np.cos(angle), 6)) * size[0] / 2
            y = dot[1] + distance * np.sin(angle) + np.sin(angle) * size[1] / 2
            box = (x - size[0] / 2, y - size[1] / 2, x + size[0] / 2, y + size[1] / 2)
            outside = box[0] < frame.x0 or box[1] < frame.y0 or box[2] > frame.x1 or box[3] > frame.y1
            crossed = 0 if ring == 0 else _crossed(dot, np.clip(dot, box[:2], box[2:]), others)
            costs[box] = _covered(box, others) + 1e6 * outside + 12.0 * crossed + 2.0 * ring + 0.1 * turn
    return min(costs, key=lambda box: costs[box])


def _covered(box: Box, others: npt.NDArray[Any]) -> float:
    """Dots that a box has in common with others."""
    wide = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    high = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    return float((wide.clip(0) * high.clip(0)).sum())


def _crossed(start: npt.NDArray[Any], end: npt.NDArray[Any], others: npt.NDArray[Any]) -> int:
    """How many boxes, other than those that hold the start, a straight line meets."""
    line = np.linspace(start, end, LEADER)[:, None]
    inside = ((line >= others[:, :2]) & (line <= others[:, 2:])).all(axis=-1)
    return int((inside.any(axis=0) & ~inside[0]).sum())


def _plain(value: float, _: int = 0) -> str:
    return f"{value:,.10g}"


def _dollars(milliseconds: Any) -> Any:
    return milliseconds * prices.machine_call(1e-3, 1)


def _milliseconds(dollars: Any) -> Any:
    return dollars / prices.machine_call(1e-3, 1)


# -- one panel, for tasks other than retrieval ----------------------------------------------------------------------------

ONE = (6.6, 4.3)
"""Inches of a picture with one panel."""


def draw_one(title: str, points: Sequence[Point], intervals: Sequence[tuple[float, float] | None], y: str) -> bytes:
    """Draw a share against milliseconds, with the share's intervals.

    Parameters
    ----------
    title
        Over the panel.
    points
        Milliseconds of a call, and a share.
    intervals
        Of each point's share; None for none.
    y
        What the share is.

    Returns
    -------
    bytes
        A PNG.
    """
    figure, place = figures.load_pyplot().subplots(figsize=ONE, dpi=DPI)
    panel = Panel(title, points, 0.0)  # each point shows its own interval
    _panel(place, panel, "milliseconds for one call (each step is ten times as long)", y)
    for point, interval in zip(points, intervals, strict=True):
        if interval is not None:
            ends = [[max(point.quality - interval[0], 0)], [max(interval[1] - point.quality, 0)]]
            colour = STYLES[point.kind]["color"]
            place.errorbar([point.cost], [point.quality], yerr=ends, color=colour, alpha=0.35, linewidth=1.2, zorder=1)
    kinds = [kind for kind in STYLES if any(point.kind == kind for point in points)]
    names = {**TITLES, "prompted": "prompted models"}
    marks = [place.plot([], [], linestyle="none", label=names[kind], **STYLES[kind])[0] for kind in kinds]
    marks += place.plot([], [], color=figures.INK, linewidth=0.9, alpha=0.6, label="nothing cheaper is better")
    legend = {"fontsize": SIZE, "frameon": False, "loc": "upper center", "labelcolor": figures.INK}
    place.legend(handles=marks, ncols=len(marks), bbox_to_anchor=(0.5, -0.13), **legend)
    place.yaxis.set_major_formatter(import_extra("matplotlib.ticker", figures.EXTRA).PercentFormatter(1.0))
    place.set_ylim(top=min(place.get_ylim()[1], 1.01))
    figure.tight_layout()
    _label(place, points)
    return figures.png(figure)
