"""Count the lines of each feature in features.md: ``python docs/decisions/lines.py`` writes its last column again.

The last but one column names files by patterns, relative to the root. Tests compare the column, and that each file of the
library and its packages is in one row.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TABLE = Path(__file__).parent / "features.md"
CODE = ("semclass/**/*.py", "packages/*/semclass_*/**/*.py")


def files_of(patterns: str) -> list[Path]:
    """Files that patterns in backticks name."""
    names = patterns.split("`")[1::2]
    return sorted({path for name in names for path in ROOT.glob(name) if path.suffix == ".py"})


def counted(text: str) -> str:
    """The page with its last column counted."""
    lines = []
    for line in text.splitlines():
        cells = line.split(" | ")
        if line.startswith("| ") and "`" in cells[-2]:
            total = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files_of(cells[-2]))
            line = " | ".join([*cells[:-1], f"{total:,} |"])
        lines.append(line)
    return "\n".join(lines) + "\n"


def rows(text: str) -> list[list[Path]]:
    """Files of each row."""
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [files_of(row[-2]) for row in cells if "`" in row[-2]]


if __name__ == "__main__":
    TABLE.write_text(counted(TABLE.read_text(encoding="utf-8")), encoding="utf-8")
