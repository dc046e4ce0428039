"""What the pictures of the benchmark and of model cards share. The same figures give the same bytes."""

from __future__ import annotations

import io
from typing import Any

from semclass.core.errors import import_extra

EXTRA = "plot"
"""The extra that installs matplotlib."""

INK, BLUE, PALE, ORANGE = "#333333", "#2b6cb0", "#bcd3ea", "#c05621"


def plain(place: Any, x: str, y: str) -> None:
    """Label the axes in small type, and leave out their frame."""
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
