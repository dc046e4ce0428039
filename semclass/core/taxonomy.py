"""The answer types of Li and Roth (2002), "Learning Question Classifiers", with 6 coarse and 50 fine classes."""

from __future__ import annotations

COARSE_NAMES: dict[str, str] = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "human",
    "LOC": "location",
    "NUM": "number",
}
"""Names of the coarse classes in words."""

COARSE: tuple[str, ...] = tuple(COARSE_NAMES)
"""The coarse classes, in the column order of every coarse probability matrix in semclass."""

ABSTAIN = "ABSTAIN"
"""The label of a text whose best class is less probable than the requested minimum. No class has this name."""


def coarse_of(label: str) -> str:
    """Return the coarse class of a label: ``"NUM"`` for ``"NUM:date"`` and for ``"NUM"``."""
    return label.partition(":")[0]
