"""Orders the hits of a context, and writes its text with numbered sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Hit
from semclass.documents.chunking import count_words
from semclass_llm.context.hits import best_first, checked, length

TEMPLATE = "[{number}] {source}\n{text}"
"""Default format of a source."""

SEPARATOR = "\n\n"
"""Text between two sources."""


@dataclass(frozen=True)
class Source:
    """A numbered source of a context. The last four fields are from the metadata of the passage, or None."""

    number: int  # from 1, in the order of the text
    label: str  # as written in the text
    id: str  # of the passage; of a window, the id of its best passage
    title: Any
    document: Any
    page: Any
    heading: Any


@dataclass(frozen=True)
class Context:
    """A text from which a question can be answered.

    Attributes
    ----------
    text
        All sources, one after another. Empty without sources.
    sources
        The source of each number.
    count
        Length of the text, as counted by the argument `count` of the call.
    hits
        The hits of the sources, in the order of the text. Their ranks tell which hit was best.
    """

    text: str
    sources: tuple[Source, ...]
    count: int
    hits: tuple[Hit, ...]


def reorder_for_long_context(hits: Sequence[Hit]) -> list[Hit]:
    """Put the best hits first and last, and the worst in the middle, which language models read least closely.

    Ranks 1, 3, 5 ... are placed from the front and 2, 4, 6 ... from the back, as in Haystack's ``LostInTheMiddleRanker``,
    after Liu et al. (2023), "Lost in the Middle: How Language Models Use Long Contexts". Ranks stay unchanged.
    """
    ranked = best_first(hits)
    return ranked[::2] + ranked[1::2][::-1]


def cite_hit(hit: Hit) -> str:
    """Name the source of a hit by the title, document, page and heading in its metadata, or else by its id."""
    title, document, page, heading = _named(hit)
    parts = [title, document, None if page is None else f"p. {page}", heading]
    return ", ".join(str(part) for part in parts if part not in (None, "")) or hit.id


def as_prompt(
    hits: Sequence[Hit],
    *,
    template: str = TEMPLATE,
    count: Callable[[str], int] = count_words,
) -> Context:
    """Write hits as one text with numbered sources, in the given order.

    Texts are inserted unchanged, including any instructions and numbers in brackets that they hold. If you do not trust
    the passages, choose a template that sets the passages apart from the rest, and say so in the prompt.

    Parameters
    ----------
    hits
        n hits.
    template
        Format string of a source, with ``{number}`` (from 1), ``{source}`` (see :func:`cite_hit`) and
        ``{text}``.
    count
        Function that counts the length of a text, for ``Context.count``.

    Raises
    ------
    InputError, InputTypeError
        If the template lacks ``{text}`` or has other fields, or `count` does not return a whole number.
    """
    check_template(template)
    given = checked(hits)
    text = SEPARATOR.join(write_source(hit, number, template) for number, hit in enumerate(given, 1))
    sources = tuple(Source(number, cite_hit(hit), hit.id, *_named(hit)) for number, hit in enumerate(given, 1))
    return Context(text, sources, length(count, text) if given else 0, tuple(given))


def _named(hit: Hit) -> list[Any]:
    return [hit.metadata.get(name) for name in ("title", "document", "page", "heading")]


def write_source(hit: Hit, number: int, template: str) -> str:
    """Write one numbered source."""
    return template.format(number=number, source=cite_hit(hit), text=hit.text)


def check_template(template: str) -> None:
    """Check that a template can be filled and holds the text."""
    if not isinstance(template, str):
        raise InputTypeError(f"template must be a string, not {type(template).__name__}")
    try:
        written = template.format(number=1, source="", text="\0")
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise InputError(
            f"template {short(template)} is not a format string of {{number}}, {{source}} and {{text}} ({error}); write "
            "{{ and }} for literal braces"
        ) from error
    if "\0" not in written:
        raise InputError(f"template {short(template)} has no {{text}}")
