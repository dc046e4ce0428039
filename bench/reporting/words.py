"""What the report says in words: ``bench/reporting/words.md``, by heading. No figure that was measured is in there."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".md")
TASKS = ("questions", "passages", "entailment")  # sections whose rows are systems on a task

OTHERS = (
    "defaults",
    "main_job",
    "classifiers",
    "thesis",
    "domains",
    "tune",
    "index_bytes",
    "learning_curves",
    "few_labels",
)
"""Sections that are shown in brief."""

CORPORA = ("living", "service", "engines")
"""Sections about corpora that grow, change and are served: shown in parts, each with what is to be said of it."""

SECTIONS = (*TASKS, "retrieval", "scale", *CORPORA, *OTHERS)  # sections that the report knows, in its order


@lru_cache(maxsize=1)
def _read() -> dict[str, str]:
    parts = re.split(r"^# (.+)$", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {key: text.strip() for key, text in zip(parts[1::2], parts[2::2], strict=True)}


def said(key: str, part: str = "") -> str:
    """The words below a heading, such as ``"opening"``, or of a section's part, such as ``"questions"``, ``"limits"``."""
    return _read()[f"{key}: {part}" if part else key]


def has(key: str, part: str) -> str | None:
    """The words of a section's part, if there are any."""
    return _read().get(f"{key}: {part}")


def title_of(name: str) -> str:
    """Heading of a section."""
    return said(name, "title")
