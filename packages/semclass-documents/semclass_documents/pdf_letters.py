"""Prepares the letters of a PDF page: turns them upright, removes duplicates, and adds the values of forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from itertools import groupby, islice, pairwise
from statistics import median
from typing import Any, TypeAlias

from pdfminer.pdftypes import PDFStream, resolve1
from pdfminer.psparser import PSLiteral
from pdfminer.utils import decode_text
from pdfplumber.page import Page

_Letter: TypeAlias = dict[str, Any]

STRAIGHT = 0.001
"""Greatest lean of letters, as a tangent, that is ignored."""

APART = 0.1
"""Least typical distance between letters of a line that is spaced out, as a share of the size of letters."""

OVERPRINT = 0.15
"""Greatest distance between two equal letters, as a share of their size, at which one is printed over the other."""

MAX_FIELDS = 1000
"""Most fields of the form on a page."""

MAX_LEVELS = 16
"""Most levels of names of a field."""

_HIDDEN, _PASSWORD, _PUSHED = 1 << 1, 1 << 13, 1 << 16  # flags of annotations, of texts, and of buttons


def upright_pages(page: Any) -> Iterator[tuple[Any, bool]]:
    """Yield a page for each direction of text, turned upright and with only this text.

    Each page comes with whether its text is sideways and beside all other text, like a stamp.
    """
    for turn in dict.fromkeys(map(_turn, page.chars)) or [0]:
        view = _turned(page, turn) if turn else page
        others = [letter for letter in view.chars if _turn(letter)]
        letters = _together(_once(_straight(letter, view) for letter in view.chars if not _turn(letter)))
        view.objects["char"] = letters if turn else _with_fields(view, letters)
        yield view, bool(turn and letters) and _stands_beside(letters, others)


def _stands_beside(letters: Sequence[_Letter], others: Sequence[_Letter]) -> bool:
    """Whether letters stand above or below all others."""
    low, high = max(one["bottom"] for one in letters), min(one["top"] for one in letters)
    top, bottom = (
        min((one["top"] for one in others), default=0),
        max((one["bottom"] for one in others), default=math.inf),
    )
    return bool(low <= top or high >= bottom)


def _turn(letter: _Letter) -> int:
    a, b = letter["matrix"][:2]
    return round(math.atan2(b, a) / (math.pi / 2)) % 4


def _turned(page: Any, turn: int) -> Any:
    """Return a page with its lines and pictures, turned clockwise."""
    content = copy(page.page_obj)
    content.rotate = (page.rotation + 90 * turn) % 360
    content.attrs = {**content.attrs, "Rotate": content.rotate}
    return Page(page.pdf, content, page.page_number, page.initial_doctop)


def _straight(letter: _Letter, page: Any) -> _Letter:
    """Set a leaning or rotated letter upright: rotate it about the middle of the page, and keep its width."""
    a, b, c, d = letter["matrix"][:4]
    if (abs(b) <= STRAIGHT * abs(a) and abs(c) <= STRAIGHT * abs(d)) or not d:
        return letter
    length = math.hypot(a, b)
    width = abs(letter["adv"]) * length
    size = round((letter["height"] - abs(letter["adv"] * b)) / abs(d) * abs(a * d - b * c) / length, 1)
    middle, centre = page.width / 2, page.height / 2
    across, down = (letter["x0"] + letter["x1"]) / 2 - middle, (letter["top"] + letter["bottom"]) / 2 - centre
    x0 = middle + (across * a - down * b) / length - width / 2
    top = centre + (across * b + down * a) / length - size / 2
    return {**letter, "size": size, "x0": x0, "x1": x0 + width, "top": top, "bottom": top + size}


def _together(letters: Iterable[_Letter]) -> list[_Letter]:
    """Widen spaced-out letters, as in some titles, so that they form words. A space is wider than their gaps."""
    kept: list[_Letter] = []
    for _, line in groupby(letters, key=lambda letter: (round(letter["bottom"], 1), letter["size"])):
        row = list(line)
        # a soft hyphen that is not seen may be written as a space, over which the next letter stands
        hidden = {place for place, (one, after) in enumerate(pairwise(row)) if one["text"] == " " and _meet(one, after)}
        row = [one for place, one in enumerate(row) if place not in hidden]
        gaps = [(after["x0"] - one["x1"]) / (one["size"] or 1) for one, after in pairwise(row)]
        apart = median(gaps) if len(gaps) > 4 else 0.0
        is_apart = apart >= APART and any(letter["text"] == " " for letter in row)
        kept += [{**letter, "x1": letter["x1"] + apart * letter["size"]} for letter in row] if is_apart else row
    return kept


def _meet(one: _Letter, other: _Letter) -> bool:
    return bool(abs(one["x0"] - other["x0"]) <= OVERPRINT * one["size"])


def _once(letters: Iterable[_Letter]) -> list[_Letter]:
    """Leave out letters that are printed over an equal letter, as a shadow or for bold type."""
    kept: list[_Letter] = []
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for letter in letters:
        text, x, y, near = letter["text"], letter["x0"], letter["bottom"], OVERPRINT * letter["size"]
        column, row = (int(place // max(near, 0.1)) for place in (x, y))
        around = (seen.get((text, column + right, row + down), ()) for right in (-1, 0, 1) for down in (-1, 0, 1))
        if not any(abs(x - other) <= near and abs(y - its) <= near for places in around for other, its in places):
            kept.append(letter)
            seen.setdefault((text, column, row), []).append((x, y))
    return kept


def _with_fields(page: Any, letters: list[_Letter]) -> list[_Letter]:
    """Write the values of a form beside their labels. A value without a label gets its name, and follows the text above."""
    size = median(one["size"] for one in letters) if letters else 10.0
    for name, value, (x0, top, x1, bottom) in islice(_fields(page), MAX_FIELDS):
        middles = [((one["x0"] + one["x1"]) / 2, (one["top"] + one["bottom"]) / 2) for one in letters]
        if any(x0 < across < x1 and top < down < bottom for across, down in middles):
            continue  # it is printed, too
        beside = [place for place, (across, down) in enumerate(middles) if across < x0 and top < down < bottom]
        above = [place for place, (_, down) in enumerate(middles) if down < top]
        place = max(beside, key=lambda at: letters[at]["x1"], default=-1)
        if not beside:
            place = max(above, key=lambda at: (round(letters[at]["bottom"]), at), default=-1)
        like = {**(letters[place] if letters else _LETTER)}
        like |= {} if beside else {"size": size, "top": top, "bottom": top + size}
        text = value if beside else f"{name}: {value}"
        step = min(size / 2, (x1 - x0) / len(text))
        signs = enumerate(text)
        written = [{**like, "text": sign, "x0": x0 + step * at, "x1": x0 + step * (at + 1)} for at, sign in signs]
        letters[place + 1 : place + 1] = written
    return letters


_LETTER = {"doctop": 0, "upright": True, "object_type": "char"}


def _fields(page: Any) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Yield the names, values and places of the visible form fields of a page. Damaged fields are skipped."""
    for field in map(resolve1, resolve1(page.page_obj.annots) or ()):
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            kind, flags = _text(_inherited(field, "FT")), _inherited(field, "Ff") or 0
            value = _text(_inherited(field, "V") if kind != "Btn" else resolve1(field.get("AS")))
            unseen = flags & (_PUSHED if kind == "Btn" else _PASSWORD) or (resolve1(field.get("F")) or 0) & _HIDDEN
            if _text(resolve1(field["Subtype"])) != "Widget" or not value or unseen or (kind, value) == ("Btn", "Off"):
                continue
            left, low, right, high = (float(resolve1(one)) for one in resolve1(field["Rect"]))
            (x0, x1), (low, high) = sorted((left, right)), sorted((low, high))
            if page.rotation:  # below all that is on the page
                x0, x1, low, high = 0, page.width, -1, 0
            name = _text(_inherited(field, "TU")) or _text(_inherited(field, "T"))
            yield name, value, (x0, page.height - high, x1, page.height - low)


def _inherited(field: Any, name: str) -> Any:
    """Return a value of a field, or else of the field above it."""
    for _ in range(MAX_LEVELS):
        if not isinstance(field, dict) or name in field:
            break
        field = resolve1(field.get("Parent"))
    return resolve1(field.get(name)) if isinstance(field, dict) else None


def _text(value: Any) -> str:
    if isinstance(value, PDFStream):
        value = value.get_data()
    if isinstance(value, PSLiteral):
        value = value.name
    if isinstance(value, list):
        return ", ".join(filter(None, (_text(resolve1(one)) for one in value)))
    text = decode_text(value) if isinstance(value, bytes) else value
    return " ".join(text.split()) if isinstance(text, str) else ""
