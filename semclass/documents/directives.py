"""Marks in Markdown for generators of sites, such as MyST: labels, directives and colon fences."""

from __future__ import annotations

import re

_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?)(`{3,}|~{3,}|:{3,})[ \t]*(?:\{([\w:-]+)\})?[ \t]*(.*)")
_LABEL = re.compile(r"[ \t]*\([^()\s]+\)=[ \t]*")
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_CODE = re.compile(r"code(-block|-cell)?|console|math|mermaid|parsed-literal|raw|sourcecode")
_VERSION = re.compile(r"version\w+|deprecated")
_UNSEEN = re.compile(r"contents|eval-rst|figure|figure-md|image|include|index|literalinclude|toctree")


def without_directives(text: str) -> str:
    """Blank out labels, what fences prose, and directives without prose. All other lines keep their offsets."""
    lines: list[str] = []
    fences: list[tuple[str, str]] = []  # of each open fence: its mark, and "code", "prose" or "unseen"
    begins = False  # whether the line above opened a directive, so that an option may follow
    for line in text.split("\n"):
        mark, kind = fences[-1] if fences else ("", "prose")
        fence = _FENCE.fullmatch(line)
        if mark and fence and fence[2].startswith(mark) and not (fence[3] or fence[4]):
            line = line if fences.pop()[1] == "code" else " " * len(line)
        elif fence and kind == "prose":
            kind, begins = _kind(fence[2], fence[3]), True
            fences.append((fence[2], kind))
            title = fence[4] if fence[3] else fence[4].partition(" ")[2]
            title = f"{fence[3]} {title}" if _VERSION.fullmatch(fence[3] or "") else title
            line = line if kind == "code" else (fence[1] + title * (kind == "prose")).ljust(len(line))
        elif kind == "unseen" or (kind == "prose" and (_OPTION if begins else _LABEL).fullmatch(line)):
            line = " " * len(line)
        else:
            begins = False
        lines.append(line)
    return "\n".join(lines)


def _kind(mark: str, name: str | None) -> str:
    if name is None:
        return "prose" if mark.startswith(":") else "code"
    return "code" if _CODE.fullmatch(name) else "unseen" if _UNSEEN.fullmatch(name) else "prose"
