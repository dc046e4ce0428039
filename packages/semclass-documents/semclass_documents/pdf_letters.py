"""Letters of a page of a PDF: turned upright, set straight, each once, and with what was filled into a form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import islice
from statistics import median
from typing import Any, TypeAlias

from pdfminer.pdftypes import PDFStream, resolve1
from pdfminer.psparser import PSLiteral
from pdfminer.utils import decode_text
from pdfplumber.page import Page

_Letter: TypeAlias = dict[str, Any]

STRAIGHT = 0.001
"""Lean of letters, as a tangent, that changes nothing."""

OVERPRINT = 0.1
"""Distance of a letter from the same one, in sizes of it, within which it is printed over it."""

MAX_FIELDS = 1000
"""Fields of the form on a page, at most."""

MAX_LEVELS = 16
"""Levels of names of a field, at most."""

_HIDDEN, _PASSWORD, _PUSHED = 1 << 1, 1 << 13, 1 << 16  # flags of annotations, of texts, and of buttons


def upright_pages(page: Any) -> Iterator[tuple[Any, int]]:
    """Yield a page for each direction in which text runs: turned upright by so many quarters, and with this text alone."""
    for turn in dict.fromkeys(map(_turn, page.chars)) or [0]:
        view = _turned(page, turn) if turn else page
        letters = _once(_straight(letter, view) for letter in view.chars if not _turn(letter))
        view.objects["char"] = letters if turn else _with_fields(view, letters)
        yield view, turn


def _turn(letter: _Letter) -> int:
    a, b = letter["matrix"][:2]
    return round(math.atan2(b, a) / (math.pi / 2)) % 4


def _turned(page: Any, turn: int) -> Any:
    """Read a page again, turned clockwise, with its lines and pictures."""
    content = copy(page.page_obj)
    content.rotate = (page.rotation + 90 * turn) % 360
    content.attrs = {**content.attrs, "Rotate": content.rotate}
    return Page(page.pdf, content, page.page_number, page.initial_doctop)


def _straight(letter: _Letter, page: Any) -> _Letter:
    """Set a letter straight that leans or stands on a slope: about the middle of the page, with its own width."""
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
    return {**letter, "size": size, **_box(letter, x0, x0 + width, top, top + size)}


def _box(letter: _Letter, x0: float, x1: float, top: float, bottom: float) -> dict[str, float]:
    doctop = letter["doctop"] - letter["top"] + top
    return {
        "x0": x0,
        "x1": x1,
        "top": top,
        "bottom": bottom,
        "doctop": doctop,
        "width": x1 - x0,
        "height": bottom - top,
    }


def _once(letters: Iterable[_Letter]) -> list[_Letter]:
    """Leave out letters that are printed over the same ones, as a shadow or for bold type."""
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
    """Write the values of a form beside their labels, or else with their names below what stands above them."""
    for name, value, (x0, top, x1, bottom) in islice(_fields(page), MAX_FIELDS):
        middles = [((one["x0"] + one["x1"]) / 2, (one["top"] + one["bottom"]) / 2) for one in letters]
        if any(x0 < across < x1 and top < down < bottom for across, down in middles):
            continue  # it is printed, too
        size = median(one["size"] for one in letters) if letters else 10.0
        beside = [place for place, (across, down) in enumerate(middles) if across < x0 and top < down < bottom]
        above = [place for place, (_, down) in enumerate(middles) if down < top]
        order = partial(_order, letters, "x1" if beside else "bottom")
        place = max(beside or above, key=order, default=-1)
        text = value if beside else f"{name}: {value}"
        like = letters[place] if letters else _LETTER
        box: tuple[Any, Any] = (like["top"], like["bottom"]) if beside else (top, top + size)
        step = min(size / 2, (x1 - x0) / len(text))
        written = [
            {**like, "text": sign, "size": like["size"] if beside else size, **_box(like, left, left + step, *box)}
            for sign, left in zip(text, (x0 + step * number for number in range(len(text))), strict=True)
        ]
        letters[place + 1 : place + 1] = written
    return letters


_LETTER = {"doctop": 0, "top": 0, "upright": True, "matrix": (1, 0, 0, 1, 0, 0), "object_type": "char", "fontname": ""}


def _order(letters: Sequence[_Letter], by: str, place: int) -> tuple[int, int]:
    return round(letters[place][by]), place


def _fields(page: Any) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Yield the names and values of the fields of a page's form that are seen, and where they are."""
    for reference in resolve1(page.page_obj.annots) or ():
        field = resolve1(reference)
        if not isinstance(field, dict) or getattr(resolve1(field.get("Subtype")), "name", "") != "Widget":
            continue
        kind, flags = _text(_inherited(field, "FT")), _inherited(field, "Ff") or 0
        value = _text(_inherited(field, "V") if kind != "Btn" else resolve1(field.get("AS")))
        unseen = flags & (_PUSHED if kind == "Btn" else _PASSWORD) or (resolve1(field.get("F")) or 0) & _HIDDEN
        if value and not unseen and (kind, value) != ("Btn", "Off"):
            name = _text(_inherited(field, "TU")) or _text(_inherited(field, "T"))
            left, low, right, high = (float(resolve1(one)) for one in resolve1(field["Rect"]))
            yield (
                name,
                value,
                (min(left, right), page.height - max(low, high), max(left, right), page.height - min(low, high)),
            )


def _inherited(field: Any, name: str) -> Any:
    """Return a value of a field, or else of the one that it belongs to."""
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
    return " ".join(
        (decode_text(value) if isinstance(value, bytes) else value if isinstance(value, str) else "").split()
    )
