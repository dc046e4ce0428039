"""How sure the first place of a ranking is, in a word that people read: strong, likely or weak."""

from __future__ import annotations

from dataclasses import dataclass

from semclass.core.types import FloatArray
from semclass.index.records import Candidates
from semclass.ranking.features import BETTER, PAIR_FEATURES

CERTAINTIES = ("strong", "likely", "weak")
"""The words: right in at least 85 %, right more often than not, and no better than the next, or near to nothing."""

FIRST = 10
"""Places among which another passage may give more of what is asked."""

_PROVIDED = PAIR_FEATURES.index("provided")


@dataclass(frozen=True)
class Bounds:
    """From where on a word holds: chosen by ``python -m bench words``, each set left out in turn.

    Attributes
    ----------
    strong, likely
        Least lead of the first score over the second, in units of the default method's score.
    near, answers
        Least cosine of the first passage's vector with the question's, and least probability that it answers: below both,
        nothing found is about the question.
    """

    strong: float = 0.75
    likely: float = 0.02
    near: float = 0.45
    answers: float = 0.04


@dataclass(frozen=True)
class Standing:
    """Where the first passage of a ranking stands.

    Attributes
    ----------
    lead
        Its score less the second one's.
    behind
        How much more of what is asked another of the first places gives, in log-odds; below 0 if none does.
    near
        Cosine of its vector with the question's.
    answers
        Probability that it answers the question, by the two texts alone.
    """

    lead: float
    behind: float
    near: float
    answers: float

    def word(self, bounds: Bounds) -> str:
        """One of `CERTAINTIES`."""
        if self.lead < bounds.likely or (self.near < bounds.near and self.answers < bounds.answers):
            return "weak"
        return "strong" if self.lead >= bounds.strong and self.behind <= BETTER else "likely"


def certainty(ranked: Candidates, features: FloatArray) -> str | None:
    """One of `CERTAINTIES` for the first of candidates that the default method ranked; None where nothing tells."""
    first = standing(ranked, features)
    return None if first is None else first.word(Bounds())


def standing(ranked: Candidates, features: FloatArray) -> Standing | None:
    """Where the first of ranked candidates stands; None where there is no second, or nobody tells what they provide."""
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
