"""Makes a context from hits: one text from which a language model can answer a question.

Each step is a function from hits to hits, so you can chain steps or leave them out. The best hit has ``rank`` 1.
:func:`build_context` runs the usual steps in one call.
"""

from __future__ import annotations

import operator
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from semclass import Hit, InputTypeError
from semclass.plugins import check_positive, short, unwrapped_spans
from semclass_llm.quoting import quoted

SEPARATOR = "\n\n"
MAX_NAME = 200  # most characters of a title, a document or a heading in the name of a source

Count: TypeAlias = Callable[[str], int]


@dataclass(frozen=True)
class Source:
    """A numbered source of a context. The last four fields are from the metadata of the passage, or None."""

    number: int  #: from 1, in the order of the text
    label: str  #: as written in the text
    id: str  #: of the passage
    title: Any
    document: Any
    page: Any
    heading: Any


@dataclass(frozen=True)
class Context:
    """A text from which a question can be answered."""

    text: str  #: all sources, one after another; empty without sources
    sources: tuple[Source, ...]  #: the source of each number
    count: int  #: length of the text, by the argument `count`
    hits: tuple[Hit, ...]  #: the hits of the sources, in the order of the text


def count_words(text: str) -> int:
    """Count the words of a text, separated by white space."""
    return len(text.split())


def build_context(
    hits: Sequence[Hit],
    *,
    budget: int | None = None,
    count: Count = count_words,
) -> Context:
    """Make a context of hits.

    Duplicates are dropped (:func:`drop_duplicates`), and hits that exceed the budget are cut or left out
    (:func:`fit_budget`). The best hits are put first and last (:func:`order_for_reading`), and all are numbered.

    Texts are inserted unchanged, including any instructions and bracketed numbers in them.

    Parameters
    ----------
    budget
        Greatest length of the whole text, including numbers and sources. None means no limit. If nothing fits, the
        text is empty.
    count
        Function that counts the length of a text, in words by default. For a budget in tokens, use the tokenizer of the
        model that will read the text, ``lambda text: len(tokenizer.encode(text))``.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or `count` does not return a whole number.
    """
    room = None if budget is None else check_positive(budget, "budget")
    chosen = drop_duplicates(hits)
    if room is not None:
        widest = len(chosen)  # no number in the text is longer
        chosen = fit_budget(chosen, room, count=count, written=lambda hit: _write(hit, widest) + SEPARATOR)
    while True:
        ordered = order_for_reading(chosen)
        text = SEPARATOR.join(_write(hit, number) for number, hit in enumerate(ordered, 1))
        length = _length(count, text) if ordered else 0
        # a tokenizer may see more tokens in a text than in its parts
        if room is None or length <= room or not chosen:
            sources = (Source(number, _cite(hit), hit.id, *_names(hit)) for number, hit in enumerate(ordered, 1))
            return Context(text, tuple(sources), length, tuple(ordered))
        chosen = chosen[:-1]


def drop_duplicates(hits: Sequence[Hit]) -> list[Hit]:
    """Keep only the best of duplicate hits, with new ranks.

    Hits are duplicates if they have the same id, if ``metadata["duplicate_of"]`` marks them as the same passage, or if
    their texts differ only in case, white space and compatibility forms (Unicode NFKC).
    """
    kept: list[Hit] = []
    seen: set[object] = set()
    for hit in _best_first(hits):
        text = unicodedata.normalize("NFKC", hit.text).casefold().split()
        own = {hit.id, str(hit.metadata.get("duplicate_of") or hit.id), tuple(text)}
        if not seen & own:
            kept.append(hit)
        seen |= own
    return _ranked(kept)


def fit_budget(
    hits: Sequence[Hit], budget: int, *, count: Count = count_words, written: Callable[[Hit], str] | None = None
) -> list[Hit]:
    """Keep the best hits that fit into a budget, with new ranks.

    A hit that does not fit is cut at the end of a sentence, and then has ``metadata["cut"]``. If not even its first
    sentence fits, it is left out.

    Parameters
    ----------
    hits, count
        See :func:`build_context`.
    budget
        Greatest total length of the kept hits, at least 1.
    written
        Function that returns the text whose length counts for a hit. Defaults to the text of the hit.
    """
    room = check_positive(budget, "budget")

    def size_of(hit: Hit) -> int:
        return _length(count, hit.text if written is None else written(hit))

    chosen: list[Hit] = []
    for hit in _best_first(hits):
        size = size_of(hit)
        if size > room > 0 and hit.text.strip():
            hit = _cut(hit, room, size_of)
            size = size_of(hit)
        if size <= room:
            chosen.append(hit)
            room -= size
    return _ranked(chosen)


def _cut(hit: Hit, room: int, size_of: Callable[[Hit], int]) -> Hit:
    """Keep as many first sentences as fit, but at least one."""
    texts = [hit.text[:end] for _, end in unwrapped_spans(hit.text)]
    cuts = [replace(hit, text=text, metadata={**hit.metadata, "cut": True}) for text in texts]
    return cuts[max(bisect_right(cuts, room, key=size_of) - 1, 0)]


def order_for_reading(hits: Sequence[Hit]) -> list[Hit]:
    """Put the best hits first and last, and the worst in the middle, where language models read least closely.

    Ranks 1, 3, 5 ... are placed from the front and 2, 4, 6 ... from the back, as in Haystack's ``LostInTheMiddleRanker``,
    after Liu et al. (2023), "Lost in the Middle: How Language Models Use Long Contexts". Ranks stay unchanged.
    """
    ranked = _best_first(hits)
    return ranked[::2] + ranked[1::2][::-1]


def _best_first(hits: Sequence[Hit]) -> list[Hit]:
    """Sort hits by rank. Hits with equal ranks, from several searches, keep their order."""
    items = list(hits) if isinstance(hits, Iterable) else [hits]
    if not all(isinstance(hit, Hit) for hit in items):
        raise InputTypeError(f"hits must be a sequence of Hit, such as the result of a search, not {short(hits)}")
    return sorted(items, key=lambda hit: hit.rank)


def _ranked(hits: Sequence[Hit]) -> list[Hit]:
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]


def _length(count: Count, text: str) -> int:
    try:
        return operator.index(count(text))
    except TypeError as error:
        raise InputTypeError(
            f"count must return a whole number ({error}); for a tokenizer write "
            "count=lambda text: len(tokenizer.encode(text))"
        ) from error


def _names(hit: Hit) -> list[Any]:
    return [hit.metadata.get(name) for name in ("title", "document", "page", "heading")]


def _cite(hit: Hit) -> str:
    title, document, page, heading = _names(hit)
    parts = [title, document, None if page is None else f"p. {page}", heading]
    return ", ".join(quoted(str(part), MAX_NAME) for part in parts if part not in (None, "")) or quoted(
        hit.id, MAX_NAME
    )


def _write(hit: Hit, number: int) -> str:
    return f"[{number}] {_cite(hit)}\n{hit.text}"
