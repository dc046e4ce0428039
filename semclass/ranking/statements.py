"""Says of a whole ranking how certain its first hit is, whether it answers, and in which language its passages are.

The test of the language is naive Bayes: the mean over the best candidates of how much more frequent each word piece is in
English, which the shipped models read, than in other languages. Passages decide, because a question may be too short, and
because evidence finds the names in a question of another language better than fusion does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import warn
from semclass.core.types import DoubleArray, Encoder, FloatArray, IntArray
from semclass.heads.head import log_odds
from semclass.index.candidates import Candidates, Query, sum_of, summed
from semclass.ranking.features import COLUMN
from semclass.scoring.fusion import fused

# certainty

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


# language

FOLDER = "language"  #: folder of the table, and kind of its manifest
UNITS = 16  #: the table holds int8 numbers: logarithms in units of 1 / UNITS
ENGLISH, OTHER = "en", "other"
LANGUAGE_DEPTH = 10  #: number of candidates that the test reads
MIN_PIECES = 50  #: word pieces below which candidates say too little, because names outweigh the other words

UNREAD = -4.0
"""Mean of a question up to which it is in another language, whatever its candidates: most of its letters are unknown."""

MIN_ENGLISH = -0.8
"""Mean from which candidates are English. Ten passages together have 0.4 or more in nine English sets, 0.0 in one set
of source code, and -0.7 if each passage has the foreign name of a hotel. They have -1.0 or less in 13 other languages,
see ``training/train_language.py``.
"""

BY_WORDS: Mapping[str, float] = {"alpha": 0.15, "sparse": 0.0}
"""Weights of the convex fusion of passages in other languages, whose vectors and learnt words say little."""

NEIGHBOURS_BY_WORDS = 0.5
"""Weight of the pair feature ``neighbours`` in other languages, by ``python -m bench languages``."""


class LanguageWarning(UserWarning):
    """Passages are in a language that the models do not read."""


@dataclass(frozen=True)
class LanguageTest:
    """Tells English from other languages by word pieces."""

    logs: FloatArray  # how much more frequent each word piece is in English, natural logarithms, (vocabulary,)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder) -> LanguageTest:
        """Read the table of an encoder's word pieces."""
        arrays = {"pieces.npy": (len(encoder.is_term),)}
        artifact = artifacts.load_artifact(folder, FOLDER, encoder=encoder.fingerprint, arrays=arrays)
        return cls((artifact.arrays["pieces.npy"] / UNITS).astype(np.float32))

    def language(self, query: Query, candidates: Candidates) -> str:
        """Return `ENGLISH` or `OTHER`, the language of the first candidates, or of a question that cannot be read."""
        rows = candidates.evidence.pieces
        pieces = rows.values[: rows.offsets[min(LANGUAGE_DEPTH, len(candidates))]]
        tests = ((pieces, MIN_PIECES, MIN_ENGLISH), (query.terms, 1, UNREAD))
        foreign = (len(some) >= least and float(self.logs[some].mean()) < limit for some, least, limit in tests)
        return OTHER if any(foreign) else ENGLISH


def by_words(candidates: Candidates, features: FloatArray) -> Candidates:
    """Fuse candidates again, with more weight on BM25, and add the evidence."""
    weights = {"dense": BY_WORDS["alpha"], "bm25": 1 - BY_WORDS["alpha"]}
    parts = fused({"dense": candidates.dense, "bm25": candidates.bm25}, "convex", weights).parts
    fused_again = replace(candidates, score=sum_of(parts), parts=parts, language=OTHER)
    return summed(
        fused_again, {"meaning": NEIGHBOURS_BY_WORDS * features[:, COLUMN["neighbours"]].astype(np.float64)}, {}
    )


def warn_of_language() -> None:
    """Warn that passages are in a language that the models do not read."""
    warn(
        LanguageWarning(
            "the passages seem not to be in English, the language of these models; they are ranked by the words that they "
            "share with the question, and less by their vectors"
        )
    )
