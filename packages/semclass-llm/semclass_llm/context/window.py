"""Replaces passages by windows, which hold a passage and its neighbours in a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

from semclass.core.checks import check_positive
from semclass.core.errors import InputError
from semclass.core.types import Hit, Passage
from semclass_llm.context.hits import best_first, found_ids, is_verbatim, name_in, renumbered, span

Documents: TypeAlias = Mapping[str, Sequence[Passage]] | Callable[[Sequence[str]], Iterable[Passage]]
"""Source of neighbours: passages by document name, or a function from document names to all passages of these
documents.
"""

_POSITIONS = ("start", "paragraph", "position")
"""Metadata that order the passages of a document. The first field that all passages have is used."""


def by_document(passages: Iterable[Passage]) -> dict[str, list[Passage]]:
    """Group passages by ``metadata["document"]``, for :func:`expand_window`.

    Passages without a document are left out.
    """
    found: defaultdict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        if (document := passage.metadata.get("document")) is not None:
            found[document].append(passage)
    return dict(found)


def look_up(documents: Documents, names: Sequence[str]) -> Mapping[str, Sequence[Passage]]:
    """Return the passages of documents, by their names."""
    if isinstance(documents, Mapping):
        return documents
    return by_document(documents(names) if names else ())


def expand_window(
    hits: Sequence[Hit], documents: Documents, *, before: int = 1, after: int = 1, best: int | None = None
) -> list[Hit]:
    """Replace each passage by a window with its neighbours, as in Haystack's ``SentenceWindowRetriever``.

    Overlapping windows are joined, at the place of their best hit. Passages are ordered by ``metadata["start"]``, or
    else ``["paragraph"]``, or else ``["position"]``, or else as given. With ``start`` and ``end`` (characters in the
    document), overlapping texts are joined without the overlap, neighbouring texts with a space, and other texts with
    an empty line. Without ``start`` and ``end``, or if a text differs from the document, as with tables, texts are
    joined with a line end.

    Parameters
    ----------
    hits
        n hits. A hit without ``metadata["document"]`` stays unchanged.
    documents
        Source of neighbours. :func:`by_document` makes one from a list of passages.
    before, after
        How many neighbours to add on each side, at least 0. At the beginning and end of the document there may be
        fewer.
    best
        How many of the best hits get neighbours, at least 0. If None, all hits get neighbours.

    Returns
    -------
    list of Hit
        The hits, best first, with new ranks. A window is its best hit with another text, ``start`` and ``end``. Its
        metadata also hold ``found`` (ids of its hits), ``passages`` (ids of all its passages) and ``core`` (begin and
        end of the best hit's text).

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or `documents` lacks a hit.
    """
    ranked = best_first(hits)
    before, after = _check_count(before, "before"), _check_count(after, "after")
    best = len(ranked) if best is None else _check_count(best, "best")
    members: defaultdict[str, list[int]] = defaultdict(list)
    placed: list[tuple[int, Hit]] = []
    for place, hit in enumerate(ranked):
        document = name_in(hit, "document")
        if document is None:
            placed.append((place, hit))
        else:
            members[document].append(place)
    found = look_up(documents, list(members))
    for document, places in members.items():
        passages = _in_order(found.get(document, ()))
        position = {passage.id: number for number, passage in enumerate(passages)}
        windows = []
        for place in places:
            middle = position.get(ranked[place].id)
            if middle is None:
                raise InputError(
                    f"documents holds no passage {ranked[place].id!r} of the document {document!r}; give the passages "
                    "of the searched index"
                )
            first, last = (middle - before, middle + after) if place < best else (middle, middle)
            windows.append((max(first, 0), min(last + 1, len(passages)), place))
        for first, last, inside in _joined(sorted(windows), passages):
            placed.append((min(inside), _window([ranked[place] for place in sorted(inside)], passages[first:last])))
    return renumbered([hit for _, hit in sorted(placed, key=lambda item: item[0])])


def _check_count(value: object, name: str) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else check_positive(value, name)


def _in_order(passages: Iterable[Passage]) -> list[Passage]:
    found = list(passages)
    for name in _POSITIONS:
        if all(isinstance(passage.metadata.get(name), (int, float)) for passage in found):
            return sorted(found, key=lambda passage: passage.metadata[name])
    return found


def _joined(windows: Sequence[tuple[int, int, int]], passages: Sequence[Passage]) -> list[tuple[int, int, list[int]]]:
    """Join windows (first passage, the one after the last, a hit) that overlap; the hits of each come as a list."""
    joined: list[tuple[int, int, list[int]]] = []
    for first, last, place in windows:
        if joined:
            begin, end, inside = joined[-1]
            # where passages overlap much, they share characters with others than the next, too
            start = span(passages[first])
            covered = max((reach[1] for passage in passages[begin:end] if (reach := span(passage))), default=0)
            if first < end or (start is not None and start[0] < covered):
                joined[-1] = (begin, max(end, last), [*inside, place])
                continue
        joined.append((first, last, [place]))
    return joined


def _window(hits: Sequence[Hit], passages: Sequence[Passage]) -> Hit:
    best = hits[0]
    if len(passages) == 1:
        return best
    text, begins = _merged(passages)
    core = begins[[passage.id for passage in passages].index(best.id)]
    metadata: dict[str, Any] = {key: value for key, value in best.metadata.items() if key not in ("start", "end")}
    known = [place for passage in passages if (place := span(passage)) is not None]
    if len(known) == len(passages):
        metadata |= {"start": min(start for start, _ in known), "end": max(end for _, end in known)}
    metadata |= {
        "found": found_ids(hits),
        "passages": [passage.id for passage in passages],
        "core": [core, core + len(best.text)],
    }
    return replace(best, text=text, metadata=metadata)


def _merged(passages: Sequence[Passage]) -> tuple[str, list[int]]:
    """Join texts without what two have in common; also give where each begins in the whole."""
    text, begins = passages[0].text, [0]
    reach = span(passages[0])
    for before, passage in pairwise(passages):
        place = span(passage)
        shared = 0 if reach is None or place is None else reach[1] - place[0]
        agree = shared <= 0 or (shared <= len(text) and text[-shared:].startswith(passage.text[:shared]))
        if shared < -1:
            joint = "\n\n"
        elif not (agree and is_verbatim(before) and is_verbatim(passage)):
            joint, shared = "\n", 0  # saying something twice is better than losing it
        else:
            joint = " " * -shared
        begins.append(len(text) + len(joint) - max(shared, 0))
        text += joint + passage.text[max(shared, 0) :]
        reach = max(reach, place, key=itemgetter(1)) if shared > 0 and reach and place else place
    return text, begins
