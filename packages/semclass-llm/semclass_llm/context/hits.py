"""Functions that the steps from hits to a context share, for checks, ranks, lengths and places in a document."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from semclass.core.checks import short
from semclass.core.errors import InputTypeError
from semclass.core.types import Hit, Passage


def checked(hits: Sequence[Hit]) -> list[Hit]:
    """Check that hits are hits."""
    found = list(hits) if isinstance(hits, Iterable) else [hits]
    if not all(isinstance(hit, Hit) for hit in found):
        raise InputTypeError(f"hits must be a sequence of Hit, such as the result of a search, not {short(hits)}")
    return found


def best_first(hits: Sequence[Hit]) -> list[Hit]:
    """Sort hits by rank. Hits with equal ranks, from several searches, keep their order."""
    return sorted(checked(hits), key=lambda hit: hit.rank)


def renumbered(hits: Iterable[Hit]) -> list[Hit]:
    """Give hits new ranks from 1, in their order."""
    return [hit if hit.rank == rank else replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]


def name_in(hit: Hit, field: str) -> str | None:
    """Read a name, such as of the document, from a hit's metadata."""
    value = hit.metadata.get(field)
    if value is not None and not isinstance(value, str):
        raise InputTypeError(f"metadata {field!r} of hit {hit.id!r} must be a string, not {short(value)}")
    return value


def length(count: Callable[[str], int], text: str) -> int:
    """Count the length of a text with a function of the caller."""
    size = count(text)
    try:
        return operator.index(size)
    except TypeError as error:
        raise InputTypeError(
            f"count must give a whole number ({error}); for a tokenizer write "
            "count=lambda text: len(tokenizer.encode(text))"
        ) from error


def found_ids(hits: Iterable[Hit]) -> list[str]:
    """Return the ids of the hits that the given hits hold."""
    return list(dict.fromkeys(name for hit in hits for name in hit.metadata.get("found", [hit.id])))


def span(item: Hit | Passage) -> tuple[int, int] | None:
    """Return the place of a text in its document, in characters, if it is known."""
    start, end = item.metadata.get("start"), item.metadata.get("end")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def is_verbatim(item: Hit | Passage) -> bool:
    """Tell whether a text equals the text at its place in the document. The text of a table differs, for example."""
    place = span(item)
    return place is not None and place[1] - place[0] == len(item.text)
