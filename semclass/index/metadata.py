"""How filters compare the values of metadata.

A field is a path. Dots join the keys of nested objects, as in ``author.name``, and a dot within a key is read the same
way. A list stands for each of its elements, including objects. A field that is null or an empty list counts as missing.

Integers of 64 bits and float64 numbers are compared exactly. Larger integers are rounded to float64. ``3`` and ``3.0``
are the same number, but ``true`` and ``1`` are not. Texts are ordered by code points. A text of more than `LONGEST`
characters exists, but equals no value.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from json import dumps
from typing import TypeAlias

Scalar: TypeAlias = "str | bool | int | float"

LONGEST = 512
"""Most characters of a text that is compared. Longer texts are for reading, and would be stored twice."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - zones are subtracted later, where no date can overflow

_MICROSECOND = timedelta(microseconds=1)

_DATE = re.compile(
    r"\s*([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt ]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?"
    r"(?: ?(?:[Zz]|UTC)| ?([+-])([0-9]{2}):?([0-9]{2})?)?)?)?"
)


def number(value: float) -> int | float:
    """Return a number in the form for comparison: an int if the number is whole and has 64 bits, or else a float.

    An integer that is too large for float64 becomes infinite.
    """
    if isinstance(value, float) and not value.is_integer():
        return float(value)
    if -(2**63) <= value < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def instant(text: str) -> int | None:
    """Return the microseconds since 1970-01-01 UTC of an ISO 8601 date or date-time. None for any other text."""
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        moment = datetime(  # noqa: DTZ001
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
        )
    except ValueError:
        return None
    zone = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if zone >= timedelta(days=1) or int(minutes or 0) > 59:
        return None
    return (
        microseconds(moment)
        + int((fraction or "")[:6].ljust(6, "0"))
        - zone // _MICROSECOND * (-1 if sign == "-" else 1)
    )


def microseconds(moment: date) -> int:
    """Return the microseconds since 1970-01-01 UTC of a date or datetime, by the rules of :func:`instant`."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001
    zone = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=None) - _EPOCH - zone) // _MICROSECOND


def is_scalar(value: object) -> bool:
    """Tell whether a value is a text of at most `LONGEST` characters, a boolean, or a number other than NaN."""
    if isinstance(value, str):
        return len(value) <= LONGEST
    return isinstance(value, (int, float)) and value == value  # a NaN is not equal to itself


def key_text(key: object) -> str:
    """An object's key as JSON would write it."""
    return key if isinstance(key, str) else dumps(key)
