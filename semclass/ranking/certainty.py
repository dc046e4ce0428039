"""Tells how certain the first hit of a ranking is, in one word, and how probable it is that a question has an answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.heads.head import log_odds
from semclass.ranking.features import COLUMN

CERTAINTIES = ("strong", "likely", "weak")
"""The words. A ``"strong"`` first hit is right in at least 85 %, a ``"likely"`` one more often than not, and a
``"weak"`` one is no better than the next hit, or not about the question.
"""

CERTAINTY_DEPTH = 10  #: number of first places among which another passage may give more of the requested answer
MAX_BEHIND = 2.0  #: how much more of it, in log-odds, another passage may give if the first hit is to be strong

BOUNDS: Mapping[str, float] = {"strong": 0.3, "likely": 0.15, "near": 0.45, "relevance": 0.04}
"""Least values from which a word holds: the least at which the sentence on `CERTAINTIES` is true of manuals, too.

``strong`` and ``likely`` bound the lead; ``python -m bench carry`` shows how often each word is right. A first passage
below both ``near`` and ``relevance`` is not about the question.
"""

LEAD_WEIGHT = 2.0
"""Weight of the lead in the log-odds of ``answerable``. Beyond 2 the gain is small: ``bench/results/abstain.md``.
"""

_MIN_PROBABILITY = 1e-6  # how near to 0 and 1 a probability may come for log-odds


def answerable(order: IntArray, score: DoubleArray, relevance: DoubleArray) -> float:
    """Return the probability that one of n passages answers: that the first does, the more the further it leads.

    The arguments are those of :func:`standing`. 0 if there is no passage.
    """
    if not len(order):
        return 0.0
    odds = log_odds(relevance[order[:1]], _MIN_PROBABILITY)[0]
    return float(1 / (1 + np.exp(-odds - LEAD_WEIGHT * lead(order, score))))


def lead(order: IntArray, score: DoubleArray) -> float:
    """Return the score of the first passage minus the best score of the others; 0 for a single passage."""
    return float(score[order[0]] - score[order[1:]].max()) if len(order) > 1 else 0.0


def standing(
    order: IntArray, score: DoubleArray, dense: DoubleArray, relevance: DoubleArray, features: FloatArray
) -> dict[str, float]:
    """Return the standing of the first of at least two passages, in `order`, best first.

    ``lead`` is that of :func:`lead`; `score` has evidence of weight 1, so that its unit is the same for all weights of a
    search. ``behind`` is how much more of the requested answer another of the first passages gives, in log-odds. ``near``
    is its cosine with the question, ``relevance`` its probability of answering, from both texts alone.
    """
    first, others = order[0], order[1:CERTAINTY_DEPTH]
    provided = features[:, COLUMN["provided"]]
    return {
        "lead": lead(order, score),
        "behind": float(provided[others].max() - provided[first]),
        "near": float(dense[first]),
        "relevance": float(relevance[first]),
    }


def certainty(standing: Mapping[str, float], bounds: Mapping[str, float] = BOUNDS) -> str:
    """Return one of `CERTAINTIES` for the first passage."""
    ahead, far = standing["lead"], standing["near"] < bounds["near"]
    if ahead < bounds["likely"] or (far and standing["relevance"] < bounds["relevance"]):
        return "weak"
    return "strong" if ahead >= bounds["strong"] and standing["behind"] <= MAX_BEHIND else "likely"
