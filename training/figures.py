"""Pictures for model cards, as PNG bytes: reliability diagrams and curves. The same figures give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.calibration import expected_calibration_error, reliability
from semclass.errors import import_extra

EXTRA = "plot"
"""The extra that installs matplotlib."""

INK, BLUE, PALE = "#333333", "#2b6cb0", "#bcd3ea"


def reliability_diagram(
    parts: Mapping[str, tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]], *, columns: int = 2
) -> bytes:
    """Draw how often predictions of each probability are right.

    Parameters
    ----------
    parts
        Title of each diagram, its probabilities (n,) in [0, 1] and whether each was right, bool (n,).
    columns
        Diagrams side by side.

    Returns
    -------
    bytes
        A PNG. Dots on the diagonal mean honest probabilities; bars tell how many predictions there are.
    """
    pyplot = _pyplot()
    rows = -(-len(parts) // columns)
    figure, places = pyplot.subplots(rows, columns, figsize=(3.1 * columns, 3.1 * rows), squeeze=False)
    for place in places.flat[len(parts) :]:
        place.axis("off")
    for place, (title, (probabilities, right)) in zip(places.flat, parts.items(), strict=False):
        found = reliability(probabilities, right)
        error = expected_calibration_error(probabilities, right)
        share = [row["count"] / len(right) for row in found]
        place.bar([(row["from"] + row["to"]) / 2 for row in found], share, width=0.09, color=PALE, label="share")
        place.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
        place.plot(
            [row["probability"] for row in found], [row["share"] for row in found], "o-", color=BLUE, markersize=4
        )
        place.set_title(f"{title}: error {error:.3f}, n = {len(right)}", fontsize=9, color=INK)
        place.set(xlim=(0, 1), ylim=(0, 1))
        _plain(place, "probability", "share that is right")
    return _png(figure)


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str, logarithmic: bool = False
) -> bytes:
    """Draw lines, each with x and y values, with their names at their ends."""
    figure, place = _pyplot().subplots(figsize=(5.4, 3.4))
    if logarithmic:
        place.set_xscale("log")
    for name, (across, up) in lines.items():
        (line,) = place.plot(across, up, "o-", markersize=4)
        place.annotate(
            f" {name}", (across[-1], up[-1]), color=line.get_color(), fontsize=8, va="center", annotation_clip=False
        )
    place.margins(x=0.02)
    _plain(place, x, y)
    return _png(figure)


def _plain(place: Any, x: str, y: str) -> None:
    place.set_xlabel(x, fontsize=8, color=INK)
    place.set_ylabel(y, fontsize=8, color=INK)
    place.tick_params(labelsize=7, colors=INK)
    place.spines[["top", "right"]].set_visible(False)


def _pyplot() -> Any:
    import_extra("matplotlib", EXTRA).use("agg")
    return import_extra("matplotlib.pyplot", EXTRA)


def _png(figure: Any) -> bytes:
    figure.tight_layout()
    buffer = io.BytesIO()
    # a version of the program in the file would change its bytes
    figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None}, bbox_inches="tight")
    _pyplot().close(figure)
    return buffer.getvalue()
