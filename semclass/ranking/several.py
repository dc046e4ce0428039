"""Fuses the rankings of several retrievers for the same question, each with an encoder of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from semclass.core.checks import check_positive, check_weight
from semclass.core.errors import InputError
from semclass.core.types import Hit
from semclass.scoring.fusion import normalise


def fuse_hits(rankings: Sequence[Sequence[Hit]], k: int = 10, *, weights: Sequence[float] | None = None) -> list[Hit]:
    """Fuse rankings of the same passages by a weighted sum of their scores.

    The scores of each ranking are scaled to 0 to 1, see :mod:`semclass.scoring.fusion`, so rankings may have different
    kinds of scores. If a ranking lacks a passage, the passage gets 0 from this ranking. Give long rankings; 100 hits
    are usual.

    Parameters
    ----------
    rankings
        For each ranking, the hits for the question, best first. Hits with the same id are the same passage.
    k
        Most passages to return.
    weights
        Weight of each ranking, at least 0. If None, all weights are equal.

    Returns
    -------
    list of Hit
        The hits, best first. Hits with equal scores are in the order of their best rank in any ranking, then in the
        order of the rankings. ``score`` is the weighted sum, from 0 to the sum of the weights. All other fields are
        from the ranking in which the passage ranks best.

    Raises
    ------
    InputError, InputTypeError
        If k or a weight is out of range, or there are not as many weights as rankings.
    """
    limit = check_positive(k, "k")
    shares = [1.0] * len(rankings) if weights is None else [check_weight(each, "weights") for each in weights]
    if len(shares) != len(rankings):
        raise InputError(f"there are {len(rankings)} rankings and {len(shares)} weights; give one weight per ranking")
    best: dict[str, Hit] = {}
    for hit in sorted((hit for hits in rankings for hit in hits), key=lambda hit: hit.rank):  # stable
        best.setdefault(hit.id, hit)
    score = np.zeros(len(best))
    for share, hits in zip(shares, rankings, strict=True):
        found = {hit.id: hit.score for hit in hits}
        score += share * normalise(np.array([found.get(name, np.nan) for name in best]))
    total = dict(zip(best, score.tolist(), strict=True))
    named = sorted(total, key=lambda name: -total[name])[:limit]  # stable
    return [replace(best[name], score=total[name], rank=rank) for rank, name in enumerate(named, 1)]
