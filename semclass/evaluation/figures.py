"""Pictures of searches over weights, as PNG bytes. The same figures give the same bytes; matplotlib is an extra."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from semclass.core.errors import import_extra

if TYPE_CHECKING:
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


def plain(place: Any, x: str, y: str) -> None:
    """Label the axes, small, and leave out what frames them."""
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
