"""The order of hits in a context, and its text with numbered sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from semclass.context.hits import best_first, checked, length
from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Hit
from semclass.documents.chunking import count_words

TEMPLATE = "[{number}] {source}\n{text}"
"""How a source is written by default."""

SEPARATOR = "\n\n"
"""What stands between two sources."""


@dataclass(frozen=True)
class Source:
    """What a number in a context stands for.

    Attributes
    ----------
    number
        From 1, in the order of the text.
    label
        As it is written in the text.
    id
        Of the passage; of passages that were merged, that of the best, or that of their parent.
    title, document, page, heading
        From the metadata of the passage; None where they have none.
    """

    number: int
    label: str
    id: str
    title: Any
    document: Any
    page: Any
    heading: Any


@dataclass(frozen=True)
class Context:
    """A text to answer from.

    Attributes
    ----------
    text
        All sources, one after another; empty if there are none.
    sources
        What each number stands for, in the order of the text.
    count
        How long the text is, by the function that counted.
    hits
        What was written, in the order of the text; their ranks say which was best.
    """

    text: str
    sources: tuple[Source, ...]
    count: int
    hits: tuple[Hit, ...]


def reorder_for_long_context(hits: Sequence[Hit]) -> list[Hit]:
    """Put the best first and last, and the worst in the middle, where language models read least closely.

    Ranks 1, 3, 5 ... from the front and 2, 4, 6 ... from the back, for what Liu et al. (2023) found, "Lost in the Middle:
    How Language Models Use Long Contexts". This is the order of Haystack's ``LostInTheMiddleRanker``. LangChain and
    LlamaIndex, both ``LongContextReorder``, give the same for odd numbers of hits and the reverse for even ones, with the
    best last; here it is always first.

    Parameters
    ----------
    hits
        n hits, in any order.

    Returns
    -------
    list of Hit
        The same hits; their ranks still say which is best.
    """
    ranked = best_first(hits)
    return ranked[::2] + ranked[1::2][::-1]


def cite_hit(hit: Hit) -> str:
    """Name the source of a hit: title, document, page and heading, those that its metadata have; else its id.

    Examples
    --------
    >>> cite_hit(Hit("a#3", "...", {"document": "a.md", "page": 2}, 0.5, 1, 1, {}, (), {}))
    'a.md, p. 2'
    """
    title, document, page, heading = (hit.metadata.get(name) for name in ("title", "document", "page", "heading"))
    parts = [title, document, None if page is None else f"p. {page}", heading]
    return ", ".join(str(part) for part in parts if part not in (None, "")) or hit.id


def as_prompt(
    hits: Sequence[Hit],
    *,
    template: str = TEMPLATE,
    cite: Callable[[Hit], str] | None = None,
    count: Callable[[str], int] = count_words,
) -> Context:
    """Write hits as one text with numbered sources, in the order in which they are given.

    Texts are put in as they are: nothing in them is escaped, and what reads like an instruction or a number in brackets
    stays so. Where passages are not to be trusted, choose a template that sets them apart, and say so in the prompt.

    Parameters
    ----------
    hits
        n hits.
    template
        How a source is written: a format string of ``{number}`` (from 1), ``{source}`` and ``{text}``.
    cite
        What ``{source}`` stands for; :func:`cite_hit` if None.
    count
        Length of a text, for ``Context.count``.

    Returns
    -------
    Context
        The sources, with an empty line between two.

    Raises
    ------
    InputError, InputTypeError
        If the template lacks ``{text}`` or has other fields, or `count` gives no whole number.

    Examples
    --------
    >>> hit = Hit("a#3", "It opened in 1874.", {"document": "a.md"}, 0.5, 1, 1, {}, (), {})
    >>> print(as_prompt([hit]).text)
    [1] a.md
    It opened in 1874.
    """
    check_template(template)
    given = checked(hits)
    cite = cite or cite_hit
    text = SEPARATOR.join(write_source(hit, number, template, cite) for number, hit in enumerate(given, 1))
    sources = tuple(_source(number, cite(hit), hit) for number, hit in enumerate(given, 1))
    return Context(text, sources, length(count, text) if given else 0, tuple(given))


def _source(number: int, label: str, hit: Hit) -> Source:
    title, document, page, heading = (hit.metadata.get(name) for name in ("title", "document", "page", "heading"))
    return Source(number, label, hit.id, title, document, page, heading)


def write_source(hit: Hit, number: int, template: str, cite: Callable[[Hit], str]) -> str:
    """Write one numbered source."""
    return template.format(number=number, source=cite(hit), text=hit.text)


def check_template(template: str) -> None:
    """Check that a template can be filled and holds the text."""
    if not isinstance(template, str):
        raise InputTypeError(f"template must be a string, not {type(template).__name__}")
    probe = "\0"
    try:
        written = template.format(number=1, source="", text=probe)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        raise InputError(
            f"template {short(template)} is no format string of {{number}}, {{source}} and {{text}} ({error}); double the "
            "braces that are to be written"
        ) from error
    if probe not in written:
        raise InputError(f"template {short(template)} has no {{text}}; without it the passages would be left out")
