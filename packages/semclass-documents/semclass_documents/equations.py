"""Writes equations of office documents (OMML) as a line of text, in reading order."""

from __future__ import annotations

from typing import Any, TypeAlias

_Element: TypeAlias = Any  # of lxml, which has no types

_BETWEEN = {"func": " ", "mr": " ", "m": "; ", "eqArr": "; "}


def linear(equation: _Element) -> str:
    """Write an equation as text, such as "(a+b)/2" or "x_1^2"."""
    kind = _name(equation)
    if kind == "t":
        return equation.text or ""
    inside = [(_name(part), linear(part)) for part in equation if not _name(part).endswith("Pr")]
    parts = dict(inside)
    if kind == "f":
        return f"{_grouped(parts.get('num', ''))}/{_grouped(parts.get('den', ''))}"
    if kind == "rad":
        return f"{parts.get('deg', '')}√{_grouped(parts.get('e', ''))}"
    if kind == "d":
        begin, between, end = (_sign(equation, *sign) for sign in (("begChr", "("), ("sepChr", "|"), ("endChr", ")")))
        return f"{begin}{between.join(text for _, text in inside)}{end}"
    if {"sub", "sup", "lim"} & parts.keys():
        signs = {"sub": "_", "lim": "_", "sup": "^"}
        raised = "".join(f"{signs[name]}{_grouped(parts[name])}" for name in signs if parts.get(name))
        base = parts.get("e", "")
        return f"{_sign(equation, 'chr', '∫')}{raised} {base}" if kind == "nary" else f"{base}{raised}"
    return _BETWEEN.get(kind, "").join(text for _, text in inside)


def _name(element: _Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "Pr"


def _grouped(text: str) -> str:
    return text if text.strip("-−.,").isalnum() or not text else f"({text})"


def _sign(equation: _Element, name: str, usual: str) -> str:
    sign = equation.find(f"{{*}}*/{{*}}{name}")
    return usual if sign is None else next(iter(sign.values()), "")
