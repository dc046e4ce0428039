"""Tables of the README and of the documentation that benchmarks write: between two marks that name the benchmark."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from semclass.core.artifacts import write_atomic
from semclass.core.errors import ArtifactError

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"


NOT_RECORDED = "not recorded"  # stands for what training a shipped head took, where its training did not write it down


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


def table(name: str, found: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The table of a section, from the results of all sections; None if it has none."""
    section = importlib.import_module(f"bench.{name}")
    if not hasattr(section, "table"):
        return None
    others = {other: found.get(other) for other in getattr(section, "NEEDS", ())}
    return str(section.table(found[name], **others))


def places(name: str) -> list[Path]:
    """The README and the pages of the documentation that show the table of a benchmark."""
    begin = block(name, "").partition("\n")[0]
    pages = [path for path in (README, *sorted(DOCS.rglob("*.md"))) if path.is_file()]
    return [path for path in pages if begin in path.read_text(encoding="utf-8")]


def update(name: str, text: str) -> None:
    """Write a benchmark's table between its marks, on every page that has them."""
    begin, end = block(name, "").split("\n\n")
    for path in places(name):
        before, _, rest = path.read_text(encoding="utf-8").partition(begin)
        _, ended, after = rest.partition(end)
        if not ended:
            raise ArtifactError(f"{path} has no end mark of the table of bench/{name}.py; put {end} behind the table")
        write_atomic(path, f"{before}{block(name, text)}{after}".encode())
