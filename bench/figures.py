"""Pictures of quality against time. The same figures give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from semclass.core.errors import import_extra

EXTRA = "plot"
"""The extra that installs matplotlib."""

INK = "#333333"
COLOURS = {"semclass": "#0072B2", "peer": "#C8500A"}
"""Of marks, by kind of system."""


class Point(NamedTuple):
    """A system in a picture."""

    name: str
    kind: str
    cost: float
    quality: float


def draw(points: Sequence[Point], cost: str, quality: str) -> bytes:
    """Draw the name of each system beside its mark; our own in bold."""
    figure, place = load_pyplot().subplots(figsize=(7.2, 3.4), dpi=180)
    least = min(point.quality for point in points if point.kind == "semclass")
    for point in points:
        ours, colour = point.kind == "semclass", COLOURS[point.kind]
        marker = "o" if ours else "s"
        place.plot([point.cost], [point.quality], linestyle="none", marker=marker, color=colour, markersize=9)
        below = ours and point.quality == least  # names of two systems of ours, which lie close together, stand apart
        aside = {"xytext": (9, -16 if below else 3), "ha": "left"} if ours else {"xytext": (0, 9), "ha": "center"}
        style = {"fontsize": 10, "color": colour, "fontweight": "bold" if ours else "normal"}
        place.annotate(point.name, (point.cost, point.quality), textcoords="offset points", **style, **aside)
    place.margins(x=0.22, y=0.28)
    _axes(place, cost, quality)
    return png(figure)


def curves(x: Sequence[float], name: str, panels: Mapping[str, Mapping[str, Sequence[float]]]) -> bytes:
    """Draw a panel with curves over `x`, a logarithmic axis, for each title."""
    figure, places = load_pyplot().subplots(1, len(panels), figsize=(3.2 * len(panels), 2.8), dpi=180)
    for (title, lines), place in zip(panels.items(), places, strict=True):
        for (label, y), colour in zip(lines.items(), COLOURS.values(), strict=False):
            place.plot(x, y, marker="o", markersize=4, color=colour, label=label)
        _axes(place, name, title)
        place.set_ylim(bottom=0)
        if len(lines) > 1:
            place.legend(fontsize=7, frameon=False)
    return png(figure)


def _axes(place: Any, x: str, y: str) -> None:
    """Label the axes in small type, with a grid and a logarithmic axis below, without a frame."""
    place.set_xscale("log")
    place.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    place.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    place.set_axisbelow(True)
    place.set_xlabel(x, fontsize=8, color=INK)
    place.set_ylabel(y, fontsize=8, color=INK)
    place.tick_params(labelsize=7, colors=INK)
    place.spines[["top", "right"]].set_visible(False)


def load_pyplot() -> Any:
    """Import matplotlib.pyplot, which draws to memory."""
    import_extra("matplotlib", EXTRA).use("agg")
    return import_extra("matplotlib.pyplot", EXTRA)


def png(figure: Any) -> bytes:
    """Write a figure as PNG, and close it."""
    figure.tight_layout()
    buffer = io.BytesIO()
    # a version of the program in the file would change its bytes
    figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None}, bbox_inches="tight")
    load_pyplot().close(figure)
    return buffer.getvalue()
