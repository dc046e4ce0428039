"""What the steps from hits to a context share: checks, ranks, lengths, and where a text stands in its document."""

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
    """Sort hits by rank; of equal ranks, from several searches, the one given first comes first."""
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
    """Count a text with a function that a caller gave."""
    size = count(text)
    try:
        return operator.index(size)
    except TypeError as error:
        raise InputTypeError(
            f"count must give a whole number ({error}); for a tokenizer write "
            "count=lambda text: len(tokenizer.encode(text))"
        ) from error


def found_ids(hits: Iterable[Hit]) -> list[str]:
    """Give the ids of the hits that these hold."""
    return list(dict.fromkeys(name for hit in hits for name in hit.metadata.get("found", [hit.id])))


def span(item: Hit | Passage) -> tuple[int, int] | None:
    """Say where a text stands in its document, in characters, if that is known."""
    start, end = item.metadata.get("start"), item.metadata.get("end")
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def is_verbatim(item: Hit | Passage) -> bool:
    """Whether a text is what stands there in its document: a table, for one, is written differently."""
    place = span(item)
    return place is not None and place[1] - place[0] == len(item.text)
