"""Replaces small hits by their parents, which are larger passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from semclass.core.checks import check_probability, short
from semclass.core.errors import InputError
from semclass.core.types import Hit, Passage
from semclass_llm.context.hits import best_first, found_ids, name_in, renumbered

Parents: TypeAlias = Mapping[str, Passage] | Callable[[Sequence[str]], Iterable[Passage]]
"""Source of parents: passages by id, or a function from ids to the passages with these ids, in any order."""


def expand_parents(hits: Sequence[Hit], parents: Parents, *, threshold: float = 0.0) -> list[Hit]:
    """Replace children by their parents. Small passages are best for search, and larger passages for reading.

    A parent replaces its children if ``found children / children > threshold``. With 0, one child is enough, as in
    LangChain's ``ParentDocumentRetriever``. The ``AutoMergingRetriever`` of Haystack and of LlamaIndex uses 0.5. A
    second call replaces parents by their own parents.

    Parameters
    ----------
    hits
        n hits. A child has its parent's id in ``metadata["parent"]``. A hit without a parent stays unchanged.
    parents
        Source of parents. With a threshold above 0, ``metadata["children"]`` of a parent must hold the ids or the
        number of its children.
    threshold
        In [0, 1).

    Returns
    -------
    list of Hit
        The hits, best first, with new ranks. A parent has the place, score, components and labels of its best child.
        Its metadata also hold ``found`` (ids of the hits that it replaces) and ``core`` (begin and end of the best
        child's text).

    Raises
    ------
    InputError, InputTypeError
        If the threshold is not allowed, a parent is missing, or a parent lacks the needed ``children``.
    """
    ranked = best_first(hits)
    if check_probability(threshold, "threshold") == 1:
        raise InputError(
            "threshold is 1; it must be below 1, because a parent replaces its children if a larger share of them are hits"
        )
    children: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in ranked:
        if (parent := name_in(hit, "parent")) is not None:
            children[parent].append(hit)
    if not children:
        return renumbered(ranked)
    found = parents if isinstance(parents, Mapping) else {item.id: item for item in parents(list(children))}
    merged: dict[str, Hit] = {}
    for name, group in children.items():
        if name not in found:
            raise InputError(f"parents holds no passage {name!r}, which hit {group[0].id!r} names as its parent")
        if threshold == 0 or len({hit.id for hit in group}) > threshold * _n_children(found[name]):
            merged[name] = _parent(found[name], group + [hit for hit in ranked if hit.id == name])
    replaced: dict[str, Hit] = {}
    for hit in ranked:
        taken = merged.get(hit.id) or merged.get(hit.metadata.get("parent", "")) or hit
        replaced.setdefault(taken.id, taken)
    return renumbered(replaced.values())


def _parent(parent: Passage, group: Sequence[Hit]) -> Hit:
    ordered = sorted(group, key=lambda hit: hit.rank)
    best = ordered[0]
    begin = parent.text.find(best.text)
    core = {} if begin < 0 or best.id == parent.id else {"core": [begin, begin + len(best.text)]}
    metadata = {**parent.metadata, "found": found_ids(ordered), **core}
    return replace(best, id=parent.id, text=parent.text, metadata=metadata)


def _n_children(parent: Passage) -> int:
    children = parent.metadata.get("children")
    if isinstance(children, Sequence) and not isinstance(children, str):
        children = len(children)
    if isinstance(children, bool) or not isinstance(children, int) or children < 1:
        raise InputError(
            f"metadata 'children' of the parent {parent.id!r} is {short(children)}; with a threshold above 0, give the ids "
            "of all its children, or their number"
        )
    return children
