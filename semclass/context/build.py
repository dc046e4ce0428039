"""The usual chain of steps from hits to a context."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

from semclass.context.budget import fit_budget
from semclass.context.dedupe import drop_duplicates
from semclass.context.hits import length
from semclass.context.parents import Parents, expand_parents
from semclass.context.prompt import (
    SEPARATOR,
    TEMPLATE,
    Context,
    as_prompt,
    check_template,
    cite_hit,
    reorder_for_long_context,
    write_source,
)
from semclass.context.window import Documents, expand_window, look_up
from semclass.core.checks import check_positive
from semclass.core.errors import InputError
from semclass.core.types import Hit
from semclass.documents.chunking import count_words


def build_context(
    hits: Sequence[Hit],
    *,
    budget: int | None = None,
    count: Callable[[str], int] = count_words,
    documents: Documents | None = None,
    parents: Parents | None = None,
    before: int = 1,
    after: int = 1,
    template: str = TEMPLATE,
    cite: Callable[[Hit], str] | None = None,
) -> Context:
    """Make one text of hits, for a language model to answer from.

    Duplicates are dropped (:func:`~semclass.context.dedupe.drop_duplicates`). Passages become windows
    (:func:`~semclass.context.window.expand_window`), from the best on as long as all hits fit, so that no neighbour
    takes the room of a hit; or their parents (:func:`~semclass.context.parents.expand_parents`). The best that fit are
    taken, others cut to what room is left (:func:`~semclass.context.budget.fit_budget`). The best are put first and last
    (:func:`~semclass.context.prompt.reorder_for_long_context`), and all are written with numbers
    (:func:`~semclass.context.prompt.as_prompt`).

    Parameters
    ----------
    hits
        As a search gives them.
    budget
        How long the whole text may be, numbers and sources included, as `count` counts; None for no limit.
    count
        Length of a text; words by default, see :func:`~semclass.context.budget.fit_budget` for tokens.
    documents
        To add neighbours to each passage: where they are.
    parents
        To give parents in place of passages: where they are. Not together with `documents`.
    before, after
        Neighbours to add; with `documents` only.
    template, cite
        See :func:`~semclass.context.prompt.as_prompt`.

    Returns
    -------
    Context
        Never longer than `budget`; empty if nothing fits.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or a neighbour or parent is not where it should be.
    """
    if documents is not None and parents is not None:
        raise InputError(
            "documents and parents are both given; expand passages to windows or to their parents, not both"
        )
    check_template(template)
    chosen = drop_duplicates(hits)
    if parents is not None:
        chosen = expand_parents(chosen, parents)
    most = len(chosen)  # no number in the text is longer than this one

    def written(hit: Hit) -> str:
        return write_source(hit, most, template, cite or cite_hit) + SEPARATOR

    if documents is not None:
        room = None if budget is None else check_positive(budget, "budget")
        chosen = _widened(chosen, documents, before, after, room, lambda hit: length(count, written(hit)))
    if budget is not None:
        chosen = fit_budget(chosen, budget, count=count, cut=True, written=written)
    while True:
        context = as_prompt(reorder_for_long_context(chosen), template=template, cite=cite, count=count)
        # a tokenizer may see more tokens in a text than in its parts
        if budget is None or context.count <= budget or not chosen:
            return context
        chosen = chosen[:-1]


def _widened(
    hits: Sequence[Hit], documents: Documents, before: int, after: int, room: int | None, size_of: Callable[[Hit], int]
) -> list[Hit]:
    """Give windows from the best hit on, as long as all hits have room."""
    names = {hit.metadata["document"]: None for hit in hits if isinstance(hit.metadata.get("document"), str)}
    windows = partial(expand_window, hits, look_up(documents, list(names)), before=before, after=after)
    if room is None:
        return windows()
    best = bisect_right(range(1, len(hits) + 1), room, key=lambda best: sum(map(size_of, windows(best=best))))
    return windows(best=best)
