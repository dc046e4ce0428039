"""Equations of office documents (OMML) as a line of text, in the order in which they are read."""

from __future__ import annotations

from typing import Any, TypeAlias

_Element: TypeAlias = Any  # of lxml, which has no types


def linear(equation: _Element) -> str:
    """Write an equation, such as "(a+b)/2" or "x_1^2"."""
    kind = _name(equation)
    if kind == "t":
        return equation.text or ""
    parts = {_name(part): linear(part) for part in equation if not _name(part).endswith("Pr")}
    match kind:
        case "f":
            return f"{_grouped(parts.get('num', ''))}/{_grouped(parts.get('den', ''))}"
        case "sSup" | "sSub" | "sSubSup" | "limLow" | "limUpp" | "sPre":
            return parts.get("e", "") + _raised(parts)
        case "nary":
            return _sign(equation, "chr", "∫") + _raised(parts) + " " + parts.get("e", "")
        case "rad":
            return f"{parts.get('deg', '')}√{_grouped(parts.get('e', ''))}"
        case "func":
            return f"{parts.get('fName', '')} {parts.get('e', '')}"
        case "d":
            inside = _sign(equation, "sepChr", "|").join(_inside(equation))
            return f"{_sign(equation, 'begChr', '(')}{inside}{_sign(equation, 'endChr', ')')}"
        case "m" | "eqArr":
            return "; ".join(_inside(equation))
        case "mr":
            return " ".join(_inside(equation))
    return "".join(_inside(equation))


def _inside(equation: _Element) -> list[str]:
    return [linear(part) for part in equation if not _name(part).endswith("Pr")]


def _name(element: _Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "Pr"


def _raised(parts: dict[str, str]) -> str:
    signs = {"sub": "_", "sup": "^", "lim": "_"}
    return "".join(f"{sign}{_grouped(parts[name])}" for name, sign in signs.items() if parts.get(name))


def _grouped(text: str) -> str:
    return text if text.strip("-−.,").isalnum() or not text else f"({text})"


def _sign(equation: _Element, name: str, usual: str) -> str:
    sign = equation.find(f"{{*}}*/{{*}}{name}")
    return usual if sign is None else next(iter(sign.values()), "")
