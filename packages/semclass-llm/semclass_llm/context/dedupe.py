"""Drops hits that repeat a better hit."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from semclass.core.checks import check_probability
from semclass.core.types import Hit
from semclass.documents.duplicates import THRESHOLD, Shingles, shingles
from semclass_llm.context.hits import best_first, name_in, renumbered


def drop_duplicates(hits: Sequence[Hit], *, threshold: float = THRESHOLD) -> list[Hit]:
    """Keep only the best of duplicate hits, with new ranks.

    Two hits are duplicates in each of these cases:

    - They have the same id.
    - ``metadata["duplicate_of"]`` marks one as a duplicate of the other, or both as duplicates of a third passage.
    - Their texts are equal except for case, white space and compatibility forms (Unicode NFKC).
    - Their resemblance is at least `threshold`, and they hold the same numbers, see
      :func:`semclass.documents.duplicates.mark_duplicates`.

    Raises
    ------
    InputError, InputTypeError
        If the threshold is not in [0, 1], or ``duplicate_of`` is not an id.
    """
    check_probability(threshold, "threshold")
    kept: list[Hit] = []
    ids: set[str] = set()
    texts: set[str] = set()
    read: list[Shingles] = []
    for hit in best_first(hits):
        own = {hit.id, name_in(hit, "duplicate_of") or hit.id}
        if ids & own:
            ids |= own
            continue
        plain = " ".join(unicodedata.normalize("NFKC", hit.text).casefold().split())
        cut = shingles(plain)
        if plain in texts or any(_nearly_equal(cut, other, threshold) for other in read):
            continue
        kept.append(hit)
        ids |= own
        texts.add(plain)
        read.append(cut)
    return renumbered(kept)


def _nearly_equal(one: Shingles, other: Shingles, threshold: float) -> bool:
    few, many = sorted((len(one.runs), len(other.runs)))
    # the common part is at most the smaller set, so most pairs need no comparison
    if one.numbers != other.numbers or few < threshold * many:
        return False
    common = len(one.runs & other.runs)
    return common >= threshold * (few + many - common)
