"""Tables of the README that benchmarks write: between two marks that name the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semclass.artifacts import write_atomic
from semclass.errors import ArtifactError

README = Path(__file__).parent.parent / "README.md"


def block(name: str, text: str) -> str:
    """A table with its marks, as it stands in the README."""
    return f"<!-- table: begin, written by bench/{name}.py -->\n{text}\n<!-- table: end -->"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
    return "\n".join([first, "|" + "---|" * len(head), *others])


def money(dollars: float) -> str:
    """USD as a table shows them: two digits that count, or whole dollars."""
    return f"{dollars:,.0f}" if dollars >= 10 else f"{dollars:.2g}"


def has_place(name: str) -> bool:
    """Whether the README shows the table of a benchmark."""
    return README.is_file() and block(name, "").partition("\n")[0] in README.read_text(encoding="utf-8")


def update(name: str, text: str) -> None:
    """Write a benchmark's table in place of the one that is there.

    Raises
    ------
    ArtifactError
        If the README has no place for it.
    """
    readme = README.read_text(encoding="utf-8")
    begin, end = block(name, "").split("\n\n")
    before, found, rest = readme.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise ArtifactError(f"{README} has no place for the table of bench/{name}.py: put its two marks there")
    write_atomic(README, f"{before}{block(name, text)}{after}".encode())
