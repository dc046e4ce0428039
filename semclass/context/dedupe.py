"""Dropping hits that say the same as a better one."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from semclass.context.hits import best_first, renumbered
from semclass.core.checks import check_positive, check_probability, short
from semclass.core.errors import InputTypeError
from semclass.core.types import Hit
from semclass.documents.duplicates import THRESHOLD, WORDS, Shingles, shingles


def drop_duplicates(hits: Sequence[Hit], *, threshold: float | None = THRESHOLD, words: int = WORDS) -> list[Hit]:
    """Keep the best of hits that say the same.

    Two hits are duplicates if they have one id; if one is marked as the other's duplicate, or both as a third's, by
    ``metadata["duplicate_of"]``; if their texts are equal but for case, white space and compatibility forms (Unicode NFKC);
    or if their resemblance is at least `threshold` and they hold the same numbers. Texts that differ in a number are never
    duplicates, as reports of two years often differ in nothing else.

    The resemblance of two texts is the Jaccard index of their shingles, ``|A & B| / |A | B|``, where A and B are the sets
    of all runs of `words` consecutive words; a shorter text is one shingle (Broder 1997, "On the resemblance and
    containment of documents"). Case and punctuation do not count. In scripts without spaces, what stands between two marks
    is a word.

    Parameters
    ----------
    hits
        n hits.
    threshold
        In [0, 1]; None: texts that merely resemble each other are kept. The default is that of
        :func:`semclass.documents.duplicates.mark_duplicates`, as is that of `words`.
    words
        Words of a shingle.

    Returns
    -------
    list of Hit
        Best first, with new ranks.

    Raises
    ------
    InputError, InputTypeError
        If an option is not allowed.
    """
    ranked = best_first(hits)
    check_positive(words, "words")
    if threshold is not None:
        check_probability(threshold, "threshold")
    marked = {hit.id: hit.metadata["duplicate_of"] for hit in ranked if hit.metadata.get("duplicate_of") is not None}
    kept: list[Hit] = []
    keys: set[tuple[str, str]] = set()
    read: list[Shingles] = []
    for hit in ranked:
        plain = " ".join(unicodedata.normalize("NFKC", hit.text).casefold().split())
        own = {("id", _original(hit.id, marked)), ("text", plain)}
        if not keys.isdisjoint(own):
            continue
        if threshold is not None:
            cut = shingles(plain, words)
            if any(_nearly_equal(cut, other, threshold) for other in read):
                continue
            read.append(cut)
        kept.append(hit)
        keys |= own
    return renumbered(kept)


def _nearly_equal(one: Shingles, other: Shingles, threshold: float) -> bool:
    few, many = sorted((len(one.runs), len(other.runs)))
    # the common part is at most the smaller set, so most pairs need no comparison
    if one.numbers != other.numbers or few < threshold * many:
        return False
    common = len(one.runs & other.runs)
    return common >= threshold * (few + many - common)


def _original(name: str, marked: Mapping[str, Any]) -> str:
    """Follow the marks of duplicates to their end; marks in a circle lead to the least of its ids."""
    path = [name]
    while (following := marked.get(path[-1])) is not None:
        if not isinstance(following, str):
            raise InputTypeError(f"metadata 'duplicate_of' of {path[-1]!r} must be an id, not {short(following)}")
        if following in path:
            return min(path[path.index(following) :])
        path.append(following)
    return path[-1]
