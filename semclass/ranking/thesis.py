"""The re-ranking methods of the reference thesis, by class match or by entailment, with a partition or with a sum.

A stable partition puts candidates with a positive label first. The integrated methods add weight * signal to the score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from semclass.core.types import DoubleArray, FloatArray
from semclass.index.records import Candidates, Query, summed
from semclass.ranking.methods import Method, weight_of
from semclass.ranking.models import Models
from semclass.ranking.proximity import placed_match
from semclass.scoring.topk import class_match, stable_partition


def by_sum(
    models: Models,
    query: Query,
    candidates: Candidates,
    features: FloatArray | None,
    method: Method,
    weights: Mapping[str, float],
) -> Candidates:
    """Add weight * signal to the score of each candidate. `features` are None for a class match."""
    signal, components = _signal(models, query, candidates, features, method)
    if method.signal == "entails":
        components = {**components, "entails": signal}
    part = "class" if features is None else "entailment"
    return summed(candidates, {part: weight_of(weights, method.weight) * signal}, components)


def by_partition(
    models: Models,
    query: Query,
    candidates: Candidates,
    features: FloatArray | None,
    method: Method,
    weights: Mapping[str, float],
) -> Candidates:
    """Put candidates with a positive label first. The scores stay unchanged."""
    signal, components = _signal(models, query, candidates, features, method)
    return replace(candidates, order=stable_partition(signal > 0), components=components)


def match(models: Models, query: Query, candidates: Candidates, kind: str) -> DoubleArray:
    """Return the class match, ``"soft"`` or ``"hard"``.

    With a model, the soft match is read near the question's words.
    """
    if kind == "soft" and models.proximity is not None:
        query.check(classes=True, tokens=True)
        return placed_match(query, candidates, models.proximity)
    query.check(classes=True)
    return class_match(query.probabilities, candidates.probabilities, candidates.thresholds, kind)


def entails(models: Models, relevance: DoubleArray) -> DoubleArray:
    """Return 1 if the probability that a passage answers reaches the head's threshold, or else 0."""
    return (relevance >= models.pairs.entailment.thresholds[0]).astype(np.float64)


def _signal(
    models: Models, query: Query, candidates: Candidates, features: FloatArray | None, method: Method
) -> tuple[DoubleArray, dict[str, DoubleArray]]:
    """The signal of a method, and the component that hits show of it."""
    if features is None:
        signal = match(models, query, candidates, method.signal.removeprefix("match_"))
        return signal, {"match": signal}
    relevance = models.pairs.entailment.probabilities({"pairs": features})[:, 0]
    signal = entails(models, relevance) if method.signal == "entails" else relevance
    return signal, {"relevance": relevance}
