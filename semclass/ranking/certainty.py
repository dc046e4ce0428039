"""Tells how certain the first hit of a ranking is, in one word: strong, likely or weak."""

from __future__ import annotations

from dataclasses import dataclass

from semclass.core.types import FloatArray
from semclass.index.records import Candidates
from semclass.ranking.features import PAIR_FEATURES

CERTAINTIES = ("strong", "likely", "weak")
"""The words. A ``"strong"`` first hit is right in at least 85 %, a ``"likely"`` one more often than not, and a
``"weak"`` one is no better than the next hit, or not about the question.
"""

FIRST = 10
"""Number of first places among which another passage may give more of the requested answer."""

BETTER = 2.0
"""How much more of the requested answer another passage may give, in log-odds, if the first hit is to be strong."""

_PROVIDED = PAIR_FEATURES.index("provided")


@dataclass(frozen=True)
class Bounds:
    """Least values from which a word holds. ``python -m bench words`` chose them, with each set left out in turn.

    Attributes
    ----------
    strong, likely
        Least lead of the first score over the second, in units of the default method's score.
    near, answers
        Least cosine of the first passage's vector with the question's vector, and least probability that the passage
        answers. Below both, no found passage is about the question.
    """

    strong: float = 0.85
    likely: float = 0.01
    near: float = 0.45
    answers: float = 0.04


@dataclass(frozen=True)
class Standing:
    """The standing of the first passage of a ranking.

    Attributes
    ----------
    lead
        Score of the first passage minus the score of the second passage.
    behind
        How much more of the requested answer another of the first passages gives, in log-odds. Below 0 if no passage
        gives more.
    near
        Cosine of the first passage's vector with the question's vector.
    answers
        Probability that the first passage answers the question, from both texts alone.
    """

    lead: float
    behind: float
    near: float
    answers: float

    def word(self, bounds: Bounds) -> str:
        """Return one of `CERTAINTIES`."""
        if self.lead < bounds.likely or (self.near < bounds.near and self.answers < bounds.answers):
            return "weak"
        return "strong" if self.lead >= bounds.strong and self.behind <= BETTER else "likely"


def certainty(ranked: Candidates, features: FloatArray) -> str | None:
    """Return one of `CERTAINTIES` for the first candidate of the default method. None if it cannot be known."""
    first = standing(ranked, features)
    return None if first is None else first.word(Bounds())


def standing(ranked: Candidates, features: FloatArray) -> Standing | None:
    """Return the standing of the first candidate.

    None if there is no second candidate, or the encoder does not tell what passages provide.
    """
    places = ranked.places[:FIRST]
    if len(places) < 2 or not len(ranked.evidence.provides.values):
        return None
    provided = features[places, _PROVIDED]
    return Standing(
        lead=float(ranked.score[places[0]] - ranked.score[places[1]]),
        behind=float(provided[1:].max() - provided[0]),
        near=float(ranked.dense[places[0]]),
        answers=float(ranked.components["relevance"][places[0]]),
    )
