"""Predicts whether an index answers a question at all, from the features of its best hits and not from their scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semclass.core.types import DoubleArray, FloatArray
from semclass.heads.head import Head, log_odds
from semclass.index.records import Candidates, Query
from semclass.ranking.features import PAIR_FEATURES

TAKEN = (
    "dense",
    "sentence",
    "cosine",
    "cosine_rarity",
    "cosine_unmatched",
    "neighbours",
    "unmet",
    "unmet_rarity",
    "overlap",
    "unmatched",
    "numbers",
    "provided",
    "expected",
)
"""Pair features that the head reads. These features do not compare a passage with other candidates."""

LOOKED_AT = 6
"""Number of first passages whose best values the head reads."""

FEATURES = (
    "answers",
    "learned",
    "most_answers",
    "most_learned",
    "candidates",
    "length",
    *(f"first_{name}" for name in TAKEN),
    *(f"most_{name}" for name in TAKEN),
)
"""Names of the features that the head reads, see :func:`answerable_features`."""

_COLUMNS = [PAIR_FEATURES.index(name) for name in TAKEN]
_LEAST = 1e-6  # a probability is kept so far from 0 and 1 that its log-odds are finite


def load_answerable(models: Path, encoder_fingerprint: str) -> Head | None:
    """Load the head.

    Raises an ArtifactError if the head is damaged, was made for another encoder, or reads other features.
    """
    folder = models / "answerable"
    if not folder.exists():
        return None
    return Head.load(folder, encoder=encoder_fingerprint, features=FEATURES)


def answerable_features(query: Query, ranked: Candidates, features: FloatArray, learned: DoubleArray) -> FloatArray:
    """Describe n >= 1 ranked candidates, float32 of shape (1, len(FEATURES)).

    ``answers``, ``learned``
        Log-odds of the entailment head and of the learned head (`learned`, probabilities (n,)) for the first candidate.
        With ``most_``, the largest log-odds of all candidates.
    ``candidates``, ``length``
        Logarithm of n, which is small in a small index, and number of word pieces of the question.
    ``first_`` and ``most_``
        Pair features, see :func:`semclass.ranking.features.pair_features`, whose columns `features` (n, n_features) are:
        of the first candidate, and the largest of the first :data:`LOOKED_AT`.
    """
    first = ranked.places[0]
    answers, others = (log_odds(values, _LEAST) for values in (ranked.components["relevance"], learned))
    looked_at = features[ranked.places[:LOOKED_AT]][:, _COLUMNS]
    standing = [answers[first], others[first], answers.max(), others.max(), np.log(len(ranked)), len(query.terms)]
    return np.array([[*standing, *looked_at[0], *looked_at.max(axis=0)]], np.float32)


def answerable(head: Head, inputs: FloatArray) -> float:
    """Return P(one of the candidates answers the question), from the result of :func:`answerable_features`."""
    return float(head.probabilities({"ranking": inputs})[0, 0])
