"""Counts the values of metadata fields, for those who choose a filter from a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from semclass.index.columns import FALSE, FIRST_CODE, Scalar
from semclass.index.labels import PROBABILITY
from semclass.index.segment import Part

MAX_VALUES = 50
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


def count_facets(parts: Sequence[Part], fields: Sequence[str], heads: Collection[str]) -> list[Facet]:
    """Count the values of each field that has 2 to :data:`MAX_VALUES` of them, each in two passages on average."""
    skipped = PLACES | {name + PROBABILITY for name in heads}
    facets = [Facet(field, field in heads, _count(parts, field)) for field in fields if field not in skipped]
    chosen = [
        facet
        for facet in facets
        if 1 < len(facet.values) <= MAX_VALUES
        and (facet.head or 2 * len(facet.values) <= sum(number for _, number in facet.values))
    ]
    return sorted(chosen, key=lambda facet: (not facet.head, len(facet.values)))


def _count(parts: Sequence[Part], field: str) -> list[tuple[Scalar, int]]:
    counts: Counter[tuple[bool, Scalar]] = Counter()  # with whether it is a boolean, as 1 is equal to True in Python
    for segment, keep in parts:
        column = segment.columns.fields.get(field)
        if column is None:
            continue
        if column.starts[3] - FIRST_CODE > MAX_VALUES:
            return []
        codes = column.codes
        if keep is not None:
            codes = codes[keep[column.rows] if len(column.rows) else keep]
        for code in np.flatnonzero(numbers := np.bincount(codes)).tolist():
            if code >= FALSE:
                counts[code < FIRST_CODE, column.value(code)] += int(numbers[code])
    return sorted(((value, number) for (_, value), number in counts.items()), key=lambda item: (-item[1], str(item[0])))
