"""Pictures for model cards, as PNG bytes: reliability diagrams. The same figures give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.figures import BLUE, INK, PALE, load_pyplot, plain, png
from semclass.train.calibration import expected_calibration_error, reliability


def reliability_diagram(
    parts: Mapping[str, tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]], *, columns: int = 2
) -> bytes:
    """Draw how often predictions of each probability are right, `columns` diagrams side by side, as a PNG.

    `parts` are titles with probabilities (n,) and whether each prediction was right, bool (n,).
    """
    pyplot = load_pyplot()
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
        plain(place, "probability", "share that is right")
    return png(figure)
