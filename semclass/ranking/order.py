"""Re-ordering candidates: one function for each kind of method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, Passage
from semclass.index.records import Candidates, Query, sum_of, summed
from semclass.ranking import thesis
from semclass.ranking.answerable import answerable, answerable_features
from semclass.ranking.certainty import certainty
from semclass.ranking.deep import gain_of, joint_log_odds
from semclass.ranking.features import pair_features
from semclass.ranking.language import OTHER, WORDS
from semclass.ranking.methods import DEFAULT, METHODS, Method, weight_of
from semclass.ranking.models import TRAIN_CLASSES, Models
from semclass.ranking.pair_model import evidence_parts, weights_for, weights_of


def reorder(
    models: Models,
    query: Query,
    candidates: Candidates,
    method: Method,
    *,
    weights: Mapping[str, float] | None = None,
    passages: Sequence[Passage] = (),
) -> Candidates:
    """Rank candidates by a method: the same with `order`, `score` and what it was made of.

    Parameters
    ----------
    models
        The models.
    query
        The question.
    candidates
        n passages, best first; ties keep their order.
    method
        How.
    weights
        Weights of signals by name; those of the models if None.
    passages
        Those of the candidates, n; only a method that reads the first `joint_top_k` with the question needs them.

    Raises
    ------
    InputError
        If the heads that the method needs are not there, or the question was encoded without what it needs.
    """
    if method.kind is None:
        return candidates
    require(models, method)
    used = models.weights if weights is None else weights
    features = _features(models, query, candidates, method) if method.uses_pairs else None
    if features is not None and method.kind == "evidence":
        return by_evidence(models, query, candidates, features, method, used, passages)
    if features is not None and method.kind == "learned":
        return by_learned(models, candidates, features)
    by = thesis.by_sum if method.kind == "sum" else thesis.by_partition
    return by(models, query, candidates, features, method, used)


def by_evidence(
    models: Models,
    query: Query,
    candidates: Candidates,
    features: FloatArray,
    method: Method,
    weights: Mapping[str, float],
    passages: Sequence[Passage],
) -> Candidates:
    """Add the weighted sum of pair features; passages in other languages are ranked by the words that they share."""
    pairs = models.pairs
    if candidates.language == OTHER:
        return summed(candidates, evidence_parts(features, weights_of(WORDS)), {})
    relevance = pairs.entailment.probabilities({"pairs": features})[:, 0]
    parts = _evidence(models, candidates, features, weight_of(weights, method.weight))
    ranked = summed(candidates, parts, {"relevance": relevance})
    if models.answerable is not None:
        ranked = replace(ranked, answerable=_answerable(models, query, ranked, features))
    if method.joint_top_k:
        return _read_jointly(models, query, ranked, method, weight_of(weights, "deep"), passages)
    # the words of certainty were measured with these options
    measured = method == METHODS[DEFAULT] and all(weights[name] == models.weights[name] for name in method.weights)
    return replace(ranked, certainty=certainty(ranked, features) if measured else None)


def by_learned(models: Models, candidates: Candidates, features: FloatArray) -> Candidates:
    """Rank by the probability of the head that sees all evidence."""
    score = models.pairs.learned.probabilities({"pairs": features})[:, 0]
    ranks = np.argsort(-score, kind="stable")
    components = {"relevance": score}
    return replace(candidates, order=ranks, score=score, parts={}, components=components, features=features)


SIGNALS = ("match_soft", "match_hard", "entailment", "entails", "evidence", "learned")
"""What orders go by, see :func:`signals`."""


def signals(models: Models, query: Query, candidates: Candidates) -> dict[str, DoubleArray]:
    """Everything that any method reads of n candidates, by `SIGNALS`, each float64 of shape (n,).

    ``match_soft`` and ``match_hard``: the class matches of the integrated methods, 0 without class heads.
    ``entailment``: P(passage answers question) from the two texts alone. ``entails``: whether it reaches the head's
    threshold, 0 or 1. ``evidence``: what the default method adds, of weight 1. ``learned``: the probability of the
    learned head.
    """
    query.check(classes=models.has_classes, tokens=True)
    pairs, nothing = models.pairs, np.zeros(len(candidates))
    features = {"pairs": pair_features(query, candidates, pairs.words)}
    entailment = pairs.entailment.probabilities(features)[:, 0]
    matches = [
        thesis.match(models, query, candidates, kind) if models.has_classes else nothing for kind in ("soft", "hard")
    ]
    entails = thesis.entails(models, entailment)
    evidence = sum_of(_evidence(models, candidates, features["pairs"], 1.0))
    learned = pairs.learned.probabilities(features)[:, 0]
    return dict(zip(SIGNALS, (*matches, entailment, entails, evidence, learned), strict=True))


def sort_keys(method: Method, score: DoubleArray, signal: DoubleArray, weight: float) -> DoubleArray:
    """What a method sorts by, largest first, from the fused score and its signal, of any shape."""
    if method.weight:
        return np.asarray(score + weight * signal)
    return score if method.kind is None else signal


def available(models: Models, method: Method) -> Method:
    """The method; without pair heads, plain fusion in place of the default method."""
    if models.pair_heads is None and method.uses_evidence and not method.joint_top_k:
        return replace(METHODS["convex"], fusion=method.fusion)
    return method


def require(models: Models, method: Method) -> None:
    """Refuse a method whose heads are not there, with how they are trained."""
    if method.uses_classes and not models.has_classes:
        raise InputError(
            f"there are no class heads for this encoder, but this method needs two class heads; {TRAIN_CLASSES}"
        )
    if method.uses_pairs:
        models.pairs  # noqa: B018 - says what is missing
    if method.joint_top_k:
        models.deep  # noqa: B018 - likewise


def has_heads_for(models: Models, method: Method) -> bool:
    """Whether the heads are there that a method and its weights come from."""
    if method.joint_top_k and models.deep_folder is None:
        return False
    if method.kind is None and method.match is None:
        return True
    return models.pair_heads is not None and (models.has_classes or not method.uses_classes)


def needs(models: Models, method: Method, *, explain: bool = False) -> dict[str, bool]:
    """What a method looks at of a question and of passages, as arguments for :meth:`semclass.Models.encode`.

    ``tokens`` also stands for what is asked, provided and expected. :meth:`PassageEncoder.read` takes the same arguments.
    """
    near = method.kind == "sum" and method.signal == "match_soft" and models.proximity is not None
    return {
        "classes": explain or method.uses_classes or _weighs_classes(models, method),
        "tokens": explain or method.uses_pairs or near,
    }


def _evidence(models: Models, candidates: Candidates, features: FloatArray, weight: float) -> dict[str, DoubleArray]:
    """What the evidence of each group adds to the scores of candidates of their length."""
    shares = weights_for(models.pairs.evidence, candidates.evidence.pieces.lengths())
    return evidence_parts(features, shares, weight)


def _features(models: Models, query: Query, candidates: Candidates, method: Method) -> FloatArray:
    """Pair features, of a question that was encoded with what the method needs."""
    query.check(classes=models.has_classes and _weighs_classes(models, method), tokens=True)
    return pair_features(query, candidates, models.pairs.words)


def _weighs_classes(models: Models, method: Method) -> bool:
    """Whether the pair head of a method weighs the class match."""
    if not method.uses_pairs:
        return False
    terms = models.pairs.learned_terms if method.kind == "learned" else models.pairs.entailment_terms
    return terms is None or terms.weighs("match")


def _answerable(models: Models, query: Query, ranked: Candidates, features: FloatArray) -> float:
    """P(one of the candidates answers the question); none do if there are none."""
    if models.answerable is None or not len(ranked):
        return 0.0
    learned = models.pairs.learned.probabilities({"pairs": features})[:, 0]
    return answerable(models.answerable, answerable_features(query, ranked, features, learned))


def _read_jointly(
    models: Models,
    query: Query,
    ranked: Candidates,
    method: Method,
    weight: float,
    passages: Sequence[Passage],
) -> Candidates:
    """Rank the first few again, of which none falls behind the others, by what the deep head adds to their scores."""
    first = ranked.places[: method.joint_top_k]
    odds = joint_log_odds(
        models.deep, query, ranked.evidence.sentences.take(first), [passages[place] for place in first]
    )
    added, relevance = np.zeros(len(ranked)), ranked.components["relevance"].copy()
    gain = gain_of(odds)
    added[first] = weight * (gain - gain.min(initial=np.inf))
    relevance[first] = 1 / (1 + np.exp(-odds))
    return summed(ranked, {"deep": added}, {**ranked.components, "relevance": relevance})
