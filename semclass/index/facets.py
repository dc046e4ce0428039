"""Counts the values of metadata fields, for those who choose a filter from a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semclass.index.columns import FALSE, FIRST, TRUE, Column
from semclass.index.metadata import Scalar
from semclass.index.passage_index import PassageIndex

MOST = 50
"""Most values of a field that are a choice."""

PLACES = frozenset(
    ("start", "end", "page", "paragraph", "sentence", "window", "section", "meaning", "heading", "headings", "table")
)
"""Fields that tell where a passage stands in its document."""


@dataclass(frozen=True)
class Facet:
    """A field that divides the passages into a few groups."""

    field: str
    head: bool  #: whether a head labelled the passages
    values: Sequence[tuple[Scalar, int]]  #: values and their numbers of passages, the most frequent first


def count_facets(index: PassageIndex) -> list[Facet]:
    """Count the values of each field that has 2 to :data:`MOST` of them, each in two passages on average.

    Labels of heads come first, then fields with few values.
    """
    skipped = PLACES | {f"{name}_probability" for name in index.heads}
    counted = [Facet(field, field in index.heads, _count(index, field)) for field in sorted(index.fields - skipped)]
    chosen = [
        facet
        for facet in counted
        if 1 < len(facet.values) <= MOST
        and (facet.head or 2 * len(facet.values) <= sum(number for _, number in facet.values))
    ]
    return sorted(chosen, key=lambda facet: (not facet.head, len(facet.values)))


def _count(index: PassageIndex, field: str) -> list[tuple[Scalar, int]]:
    """Count passages by value. Empty if the field has too many values."""
    found: Counter[tuple[bool, Scalar]] = (
        Counter()
    )  # whether the value is true or false, as 1 is equal to True in Python
    for segment, keep in index.parts():
        column = segment.columns.fields.get(field)
        if column is None:
            continue
        if column.starts[3] - FIRST > MOST:
            return []
        codes = column.codes
        if keep is not None:
            codes = codes[keep[column.rows] if len(column.rows) else keep]
        for code in np.flatnonzero(numbers := np.bincount(codes)).tolist():
            if code >= FALSE:
                found[code < FIRST, _value(column, code)] += int(numbers[code])
    return sorted(((value, number) for (_, value), number in found.items()), key=lambda one: (-one[1], str(one[0])))


def _value(column: Column, code: int) -> Scalar:
    """The value of a code."""
    integers, floats, strings, _ = column.starts
    if code < integers:
        return code == TRUE
    if code < floats:
        return int(column.integers[code - integers])
    if code < strings:
        return float(column.floats[code - floats])
    return column.string(code - strings).decode(errors="replace")
