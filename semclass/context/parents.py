"""Parents: larger passages in place of the small ones that were found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from semclass.context.hits import best_first, found_ids, name_in, renumbered
from semclass.core.errors import InputError
from semclass.core.types import Hit, Passage

Parents: TypeAlias = Mapping[str, Passage] | Callable[[Sequence[str]], Iterable[Passage]]
"""Where parents are: passages by id, or a function from ids to their passages, in any order."""


def expand_parents(hits: Sequence[Hit], parents: Parents) -> list[Hit]:
    """Give parents in place of their children, as in LangChain's ``ParentDocumentRetriever``.

    A child names its parent's id in ``metadata["parent"]``; a hit that names none stays as it is. Called again, it replaces
    parents by their own parents.

    Parameters
    ----------
    hits
        n hits.
    parents
        Where parents are.

    Returns
    -------
    list of Hit
        Best first, with new ranks. A parent has the place, score, components and labels of its best child. Its metadata
        also hold ``found`` (ids of the hits that it stands for) and ``core`` (where the best child's text begins and ends).

    Raises
    ------
    InputError, InputTypeError
        If `parents` lacks a parent, or a name is not a string.
    """
    ranked = best_first(hits)
    named = {hit.id: name_in(hit, "parent") for hit in ranked}
    names = list(dict.fromkeys(name for name in named.values() if name is not None))
    if not names:
        return renumbered(ranked)
    found = parents if isinstance(parents, Mapping) else {item.id: item for item in parents(names)}
    groups: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in ranked:
        name = None if hit.id in names else named[hit.id]  # a parent that was found itself stays
        if name is not None and name not in found:
            raise InputError(f"parents holds no passage {name!r}, which hit {hit.id!r} names as its parent")
        groups[name or hit.id].append(hit)
    return renumbered(_parent(found[name], group) if name in names else group[0] for name, group in groups.items())


def _parent(parent: Passage, group: Sequence[Hit]) -> Hit:
    best = group[0]
    begin = parent.text.find(best.text)
    core = {} if begin < 0 or best.id == parent.id else {"core": [begin, begin + len(best.text)]}
    return replace(
        best, id=parent.id, text=parent.text, metadata={**parent.metadata, "found": found_ids(group), **core}
    )
