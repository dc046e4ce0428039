"""Markdown without what is meant for generators of sites: targets, comments, what begins and ends a note, contents."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ANY = re.compile(r"^(?:[ \t]*(?:(?:`{3,}|~{3,})[ \t]*\{|:{3,})|\([^()\n]+\)=[ \t]*$)|\A\s*:[a-z-]+:", re.MULTILINE)
_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?)(`{3,}|~{3,}|:{3,})[ \t]*(?:\{([^{}]+)\})?(.*)")
_TARGET = re.compile(r"\([^()]+\)=[ \t]*|%[ \t].*")  # or a comment
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t].*)?")
_ABOUT_FILE = re.compile(r"[ \t]*:(?:orphan|no-?search|no-?comments|tocdepth):.*")
_RST = re.compile(r"[ \t]*(?:\.\. .*|:[\w-]+:.*)")

_CODE = frozenset([
    "code", "code-block", "code-cell", "console", "doctest", "math", "mermaid", "parsed-literal", "prompt", "raw",
    "sourcecode", "testcode", "testoutput",
])  # fmt: skip
_UNSEEN = frozenset([
    "automodule", "autosummary", "bibliography", "contents", "currentmodule", "image", "include", "index",
    "literalinclude", "module", "tableofcontents", "toctree",
])  # fmt: skip
_VERSIONS = frozenset(["deprecated", "versionadded", "versionchanged", "versionremoved"])


def without_marks(text: str) -> str:
    """Write blanks for targets, comments, contents, and the lines that begin and end a note; each line keeps its place."""
    return "\n".join(_lines(text)) if _ANY.search(text) else text


def _lines(text: str) -> Iterator[str]:
    fences: list[tuple[str, str]] = []  # what closes each that is open, and what it is
    top = option = True  # of the file, or right below the beginning of a directive
    for line in text.split("\n"):
        blank, kind = " " * len(line), fences[-1][1] if fences else ""
        fence = _FENCE.fullmatch(line)
        if fences and fence and _closes(fence, fences[-1][0]):
            fences.pop()
            yield line if kind == "code" else blank
        elif kind in ("code", "unseen"):
            yield line if kind == "code" else blank
        elif fence:
            kind = _kind(fence[3]) if fence[3] or fence[2][0] != ":" else "text"
            fences.append((fence[2], kind))
            option = True
            yield line if kind == "code" else _about(fence).ljust(len(line)) if kind == "text" else blank
            continue
        elif _TARGET.fullmatch(line) or (kind == "rst" and _RST.fullmatch(line)):
            yield blank
        elif option and (_OPTION if fences else _ABOUT_FILE).fullmatch(line) and (top or fences):
            yield blank
            continue
        else:
            yield line
        option = top = top and not line.strip()


def _closes(fence: re.Match[str], opened: str) -> bool:
    return fence[2].startswith(opened) and not fence[3] and not fence[4].strip() and not fence[1].strip()


def _kind(directive: str | None) -> str:
    """Tell what a fence holds: code, text, reStructuredText, or nothing that its page shows as text."""
    if directive is None or directive in _CODE:
        return "code"
    return "rst" if directive == "eval-rst" else "unseen" if directive in _UNSEEN else "text"


def _about(fence: re.Match[str]) -> str:
    """Give the title of a note, which others than MyST write behind a word without braces, or the version it is about."""
    named = f"{fence[3]} " if fence[3] in _VERSIONS else ""
    title = fence[4].strip() if fence[3] else fence[4].strip().partition(" ")[2]
    return f"{fence[1]}{named}{title}"
