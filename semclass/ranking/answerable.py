"""Whether an index answers a question at all: what its best hit has, and how far it is ahead of the next ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray
from semclass.heads.head import Head
from semclass.index.records import Candidates
from semclass.ranking.features import PAIR_FEATURES

TAKEN = ("dense", "sentence", "cosine_rarity", "overlap")
"""Pair features of the best hit that the head reads."""

FEATURES = ("answers", "score", "ahead", *TAKEN)
"""What the head reads, see :func:`answerable_features`."""

RIVALS = 5
"""Passages behind the best one that ``ahead`` compares it with."""

_LEAST = 1e-6  # a probability is kept so far from 0 and 1 that its log-odds are finite


def load_answerable(models: Path, encoder: str) -> Head | None:
    """Load the head; an ArtifactError if it is damaged, was made for another encoder, or reads other features."""
    folder = models / "answerable"
    if not folder.exists():
        return None
    head = Head.load(folder, encoder=encoder)
    if tuple(head.artifact.field("features")) != FEATURES:
        raise ArtifactError(
            f"the head in {folder} was trained on other features than this version of semclass computes; install the "
            "version that trained it, or train it again with training/train_answerable.py"
        )
    return head


def answerable_features(ranked: Candidates, features: FloatArray) -> FloatArray:
    """Describe the best of n >= 1 candidates, float32 of shape (1, len(FEATURES)).

    ``answers``
        Log-odds of the entailment head.
    ``score``, ``ahead``
        Score of the default method, and how much more it is than the mean of the next :data:`RIVALS`; 0 without any.
    others
        Pair features, see :func:`semclass.ranking.features.pair_features`, whose columns `features` (n, n_features) are.
    """
    first, *others = ranked.places[: 1 + RIVALS].tolist()
    given = np.clip(ranked.components["answers"][first], _LEAST, 1 - _LEAST)
    score = ranked.score[first]
    ahead = score - ranked.score[others].mean() if others else 0.0
    taken = (features[first, PAIR_FEATURES.index(name)] for name in TAKEN)
    return np.array([[np.log(given / (1 - given)), score, ahead, *taken]], np.float32)


def answerable(head: Head, ranked: Candidates, features: FloatArray) -> float:
    """P(one of n >= 1 candidates answers the question)."""
    found: DoubleArray = head.probabilities({"ranking": answerable_features(ranked, features)})
    return float(found[0, 0])
