"""Checks of public arguments. Each error names the given value, the allowed values and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semclass.core.errors import InputError, InputTypeError

DEEPEST = 100  # levels of objects and lists within one another, in metadata; each costs every reader of it a call


def check_text(text: object, name: str = "text") -> str:
    """Return a text. Refuse a value that is not a string, or that is only white space."""
    if not isinstance(text, str):
        raise InputTypeError(f"{name} must be a string, not {type(text).__name__}: {short(text)}")
    if not text.strip():
        raise InputError(f"{name} is empty; give a text with at least one character that is not white space")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is not valid Unicode: {error.reason} at character {error.start}") from error
    return text


def check_texts(texts: Iterable[object], name: str = "texts") -> list[str]:
    """Copy a sequence of non-empty strings into a list. A single string is refused, because it is a common mistake."""
    if isinstance(texts, (str, bytes)):
        raise InputTypeError(f"{name} must be a sequence of strings, not one string; write [{short(texts)}]")
    if not isinstance(texts, Iterable):
        raise InputTypeError(f"{name} must be a sequence of strings, not {type(texts).__name__}")
    found: list[Any] = list(texts)
    for index, text in enumerate(found):
        # plain texts need no call of their own, which takes seconds for millions
        if not (isinstance(text, str) and text.isascii() and text.strip()):
            check_text(text, f"{name}[{index}]")
    return found


def check_positive(value: object, name: str) -> int:
    """Return a number. Refuse a value that is not a whole number of at least 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputTypeError(f"{name} must be a whole number, not {type(value).__name__}: {short(value)}")
    number = int(value.__index__())
    if number < 1:
        raise InputError(f"{name} is {short(number)}; it must be at least 1")
    return number


def check_weight(value: object, name: str) -> float:
    """Return a number. Refuse a value that is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputTypeError(f"{name} must be a number, not {type(value).__name__}: {short(value)}")
    if not 0 <= value <= sys.float_info.max:
        raise InputError(f"{name} is {short(value)}; it must be a finite number of at least 0")
    return float(value)


def check_probability(value: object, name: str) -> float:
    """Return a number. Refuse a value that is not a number from 0 to 1."""
    number = check_weight(value, name)
    if number > 1:
        raise InputError(f"{name} is {number}; it must be a probability, from 0 to 1")
    return number


def check_choice(value: Any, allowed: Sequence[Any], name: str) -> None:
    """Refuse a value that is not one of the allowed ones."""
    if value not in allowed:
        raise InputError(f"{name} is {short(value)}; it must be one of {', '.join(map(repr, allowed))}")


def check_unique(ids: Sequence[str], name: str = "id") -> None:
    """Refuse a list in which an id comes twice."""
    first: dict[str, int] = {}
    for place, item in enumerate(ids):
        if item in first:
            raise InputError(
                f"{name} {item!r} comes twice (items {first[item] + 1} and {place + 1}); each must be unique"
            )
        first[item] = place


def check_depth(value: dict[str, Any], name: str) -> None:
    """Refuse an object with more than `DEEPEST` nested levels, because a reader of JSON may refuse it."""
    level: Iterable[Any] = [value]
    for _ in range(DEEPEST + 1):
        inner = [one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer)]
        # each once: lists that hold one another would double from level to level
        level = {id(one): one for one in inner if isinstance(one, (dict, list, tuple))}.values()
        if not level:
            return
    raise InputError(f"{name} nests deeper than {DEEPEST} levels; flatten it, or leave it out")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 passage, 2 passages, 3 classes."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def short(value: object, limit: int = 60) -> str:
    """Return the beginning of a value's repr, for messages."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists within one another without end
        return f"<{type(value).__name__} too large to show>"
    return text if len(text) <= limit else text[:limit] + "..."


def check_weights(weights: object, names: Sequence[str], shares: Sequence[str]) -> dict[str, float]:
    """Check that weights are in `names`, that those in `shares` are from 0 to 1, and the others finite and at least 0."""
    if not isinstance(weights, Mapping):
        raise InputError(f"weights must map names to numbers, such as {{'alpha': 0.6}}, not {weights!r}")
    for name in weights:
        check_choice(name, names, "a weight")
    return {
        name: check_probability(value, name) if name in shares else check_weight(value, name)
        for name, value in weights.items()
    }
