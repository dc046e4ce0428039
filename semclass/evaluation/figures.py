"""Draws pictures of classes and of weights as PNG bytes.

The same figures give the same bytes. matplotlib is an extra.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from semclass.core.errors import import_extra

if TYPE_CHECKING:
    from semclass.evaluation.class_shares import ClassShares
    from semclass.evaluation.weight_search import WeightSearch

EXTRA = "plot"
"""The extra that installs matplotlib."""

INK, BLUE, PALE, ORANGE = "#333333", "#2b6cb0", "#bcd3ea", "#c05621"

_COLUMNS = 3


def weight_curves(searches: Sequence[WeightSearch]) -> bytes:
    """Draw MRR along each weight that was searched."""
    pyplot = load_pyplot()
    rows = -(-len(searches) // _COLUMNS)
    figure, places = pyplot.subplots(rows, _COLUMNS, figsize=(3.4 * _COLUMNS, 2.6 * rows), squeeze=False)
    for place in places.flat[len(searches) :]:
        place.axis("off")
    for place, item in zip(places.flat, searches, strict=False):
        place.plot(item.grid[1:], item.mrr[1:], color=BLUE, linewidth=1.2)
        place.axhline(item.mrr[0], color=INK, linewidth=0.8, linestyle=":", label="weight 0")
        place.axhline(item.mrr_cross_validated, color=ORANGE, linewidth=0.8, linestyle="--", label="cross-validated")
        if item.default <= item.grid[-1]:
            place.plot(
                [item.default], [item.mrr_default], "o", color=INK, fillstyle="none", markersize=5, label="before"
            )
        if item.best > 0:
            place.plot([item.best], [item.mrr_searched], "o", color=BLUE, markersize=4, label="best")
        place.set_xscale("log")
        place.set_title(item.name, fontsize=9, color=INK)
        plain(place, "weight", "MRR@10")
    places.flat[0].legend(fontsize=7, frameon=False)
    return png(figure)


def class_picture(shares: ClassShares) -> bytes:
    """Draw the classes that questions ask for, and the classes that passages and first hits provide.

    If the true classes are known, the picture also shows the confused classes.
    """
    pyplot, names = load_pyplot(), list(shares.classes)
    panels = 3 + (shares.confusion is not None)
    figure, (bars, curves, found, *wrong) = pyplot.subplots(1, panels, figsize=(3.6 * panels, 3.2))
    places = range(len(names))
    bars.bar(
        [place - 0.2 for place in places], shares.asked, 0.4, color=ORANGE, label=f"{shares.questions} questions ask"
    )
    bars.bar(
        [place + 0.2 for place in places], shares.provided, 0.4, color=BLUE, label=f"{shares.passages} passages give"
    )
    bars.set_xticks(list(places), names)
    for (method, values), color in zip(shares.met.items(), (PALE, BLUE), strict=False):
        curves.plot(range(1, len(values) + 1), values, "o-", color=color, markersize=3, linewidth=1.2, label=method)
    curves.set_ylim(0, 1)
    plain(bars, "class", "share")
    plain(curves, "place in the ranking", "share that give what is asked")
    _grid(found, shares.found, names, ("the first hit gives", "the question asks for"), ".2f")
    for place in wrong:
        _grid(place, shares.confusion, names, ("taken for", "the question asks for"), "d")
    for place in (bars, curves):
        place.legend(fontsize=7, frameon=False)
    return png(figure)


def _grid(place: Any, values: Any, names: list[str], axes: tuple[str, str], kind: str) -> None:
    """Draw a matrix, each row in shades of its own largest value, with its numbers."""
    shades = values / np.maximum(values.max(axis=1, keepdims=True), 1e-9)
    place.imshow(shades, cmap="Blues", vmin=0, vmax=2.2, aspect="auto")
    for row, column in product(range(len(names)), repeat=2):
        place.text(column, row, format(values[row, column], kind), ha="center", va="center", fontsize=6, color=INK)
    place.set_xticks(range(len(names)), names)
    place.set_yticks(range(len(names)), names)
    plain(place, *axes)


def plain(place: Any, x: str, y: str) -> None:
    """Label the axes in small type, and leave out their frame."""
    place.set_xlabel(x, fontsize=8, color=INK)
    place.set_ylabel(y, fontsize=8, color=INK)
    place.tick_params(labelsize=7, colors=INK)
    place.spines[["top", "right"]].set_visible(False)


def load_pyplot() -> Any:
    """matplotlib.pyplot, drawing to memory."""
    import_extra("matplotlib", EXTRA).use("agg")
    return import_extra("matplotlib.pyplot", EXTRA)


def png(figure: Any) -> bytes:
    """Write a figure and close it."""
    figure.tight_layout()
    buffer = io.BytesIO()
    # a version of the program in the file would change its bytes
    figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None}, bbox_inches="tight")
    load_pyplot().close(figure)
    return buffer.getvalue()
