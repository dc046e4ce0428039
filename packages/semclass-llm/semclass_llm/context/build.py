"""Runs the usual chain of steps from hits to a context."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial

from semclass.core.checks import check_positive
from semclass.core.errors import InputError
from semclass.core.types import Hit
from semclass.documents.chunking import count_words
from semclass_llm.context.budget import fit_budget
from semclass_llm.context.dedupe import drop_duplicates
from semclass_llm.context.hits import length, name_in
from semclass_llm.context.parents import Parents, expand_parents
from semclass_llm.context.prompt import (
    SEPARATOR,
    TEMPLATE,
    Context,
    as_prompt,
    check_template,
    reorder_for_long_context,
    write_source,
)
from semclass_llm.context.window import Documents, expand_window, look_up


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
) -> Context:
    """Make one text of hits, from which a language model can answer a question.

    The steps are as follows. Duplicates are dropped (:func:`~semclass_llm.context.dedupe.drop_duplicates`). Passages are
    replaced by windows (:func:`~semclass_llm.context.window.expand_window`), from the best passage on and as long as all
    hits fit, or by their parents (:func:`~semclass_llm.context.parents.expand_parents`). Hits that exceed the budget are
    cut or left out (:func:`~semclass_llm.context.budget.fit_budget`). The best hits are put first and last
    (:func:`~semclass_llm.context.prompt.reorder_for_long_context`), and all are written with numbers
    (:func:`~semclass_llm.context.prompt.as_prompt`).

    Parameters
    ----------
    hits
        Hits of a search.
    budget
        Greatest length of the whole text, with numbers and sources. If None, there is no limit. If nothing fits, the
        text is empty.
    count
        Function that counts the length of a text, in words by default. See :func:`~semclass_llm.context.budget.fit_budget`
        for a budget in tokens.
    documents
        Source of neighbouring passages. `before` and `after` say how many neighbours are added to each passage.
    parents
        Source of parents, which replace the passages. You cannot give both `parents` and `documents`.
    template
        See :func:`~semclass_llm.context.prompt.as_prompt`.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed, or a neighbour or parent is missing.
    """
    if documents is not None and parents is not None:
        raise InputError("documents and parents cannot be combined; give documents for windows, or parents")
    check_template(template)
    room = None if budget is None else check_positive(budget, "budget")
    chosen = drop_duplicates(hits)
    if parents is not None:
        chosen = expand_parents(chosen, parents)
    most = len(chosen)  # no number in the text is longer than this one

    def written(hit: Hit) -> str:
        return write_source(hit, most, template) + SEPARATOR

    if documents is not None:
        names = [name for hit in chosen if (name := name_in(hit, "document")) is not None]
        store = look_up(documents, list(dict.fromkeys(names)))
        windows = partial(expand_window, chosen, store, before=before, after=after)
        best = most
        if room is not None:  # as many windows, from the best hit on, as leave room for all hits
            best = bisect_right(
                range(1, most + 1), room, key=lambda n: sum(length(count, written(hit)) for hit in windows(best=n))
            )
        chosen = windows(best=best)
    if room is not None:
        chosen = fit_budget(chosen, room, count=count, cut=True, written=written)
    while True:
        context = as_prompt(reorder_for_long_context(chosen), template=template, count=count)
        # a tokenizer may see more tokens in a text than in its parts
        if room is None or context.count <= room or not chosen:
            return context
        chosen = chosen[:-1]
