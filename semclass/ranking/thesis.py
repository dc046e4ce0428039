"""The methods of the reference thesis: candidates re-ordered by class match or entailment, by partition or by a sum.

A stable partition puts candidates with a positive label first; the integrated methods add weight * signal to the score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from semclass.core.types import DoubleArray, Passage
from semclass.index.records import Candidates, Query, summed
from semclass.ranking.features import pair_features
from semclass.ranking.methods import Method, weight_of
from semclass.ranking.models import Models
from semclass.ranking.proximity import placed_match
from semclass.scoring.topk import class_match, stable_partition


def by_sum(
    models: Models,
    query: Query,
    candidates: Candidates,
    method: Method,
    weights: Mapping[str, float],
    passages: Sequence[Passage],
) -> Candidates:
    """Add weight * signal to the score of each candidate."""
    signal, components = _signal(models, query, candidates, method)
    part = "class" if method.uses_classes else "entailment"
    return summed(candidates, {part: weight_of(weights, method.weight) * signal}, components)


def by_partition(
    models: Models,
    query: Query,
    candidates: Candidates,
    method: Method,
    weights: Mapping[str, float],
    passages: Sequence[Passage],
) -> Candidates:
    """Put candidates with a positive label first; scores stay as they are."""
    signal, components = _signal(models, query, candidates, method)
    components.pop("entails", None)
    return replace(candidates, order=stable_partition(signal > 0), components=components)


def match(models: Models, query: Query, candidates: Candidates, kind: str) -> DoubleArray:
    """Class match of a kind, ``"soft"`` or ``"hard"``; the soft one is read near the question's words, with a model."""
    if kind == "soft" and models.proximity is not None:
        query.check(classes=True, tokens=True)
        return placed_match(query, candidates, models.proximity)
    query.check(classes=True)
    return class_match(query.probabilities, candidates.probabilities, candidates.thresholds, kind)


def _signal(
    models: Models, query: Query, candidates: Candidates, method: Method
) -> tuple[DoubleArray, dict[str, DoubleArray]]:
    """The signal of a method, and the components that hits show of it."""
    if method.uses_classes:
        signal = match(models, query, candidates, method.signal.removeprefix("match_"))
        return signal, {"match": signal}
    pairs = models.pairs
    relevance = pairs.entailment.probabilities({"pairs": pair_features(query, candidates, pairs.words)})[:, 0]
    if method.signal == "entailment":
        return relevance, {"relevance": relevance}
    entails = (relevance >= pairs.entailment.thresholds[0]).astype(np.float64)
    return entails, {"relevance": relevance, "entails": entails}
