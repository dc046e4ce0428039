"""The report of all results: REPORT.md and a page of its own."""

from __future__ import annotations

from pathlib import Path


def write(results: Path) -> None:
    """Write ``REPORT.md`` and ``report.html`` from the files of results that are there."""
