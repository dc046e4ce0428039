"""The heads that judge a question and a passage together, and what their scores are the sum of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.encoders.words import WordTable
from semclass.heads.head import Head
from semclass.ranking.features import FEATURE_GROUPS, PAIR_FEATURES

EVIDENCE: Mapping[str, float] = {
    "dense": 0.0701,
    "sentence": 0.0743,
    "cosine": 0.0458,
    "cosine_rarity": 0.0754,
    "cosine_unmatched": 0.025,
    "neighbours": 0.243,
    "unmet": -0.00356,
    "unmet_rarity": -0.0057,
    "overlap": -0.28,
    "numbers": -0.2,
    "provided": -0.036,
    "expected": 0.049,
    "dense_gap": 0.27,
    "bm25_z": -0.00277,
    "sentence_z": 0.111,
    "cosine_rarity_z": 0.0894,
    "advantage": 0.287,
    "overlap_z": 0.103,
    "overlap_rare": 0.0393,
    "provided_z": 0.00737,
    "expected_z": -0.0371,
}
"""Weights of pair features for any encoder. ``match`` is not among them, because the default method classifies no question.

0.03 of each weight is from a fit of ``learned``; the rest was found by a search over seven sets and sentences of two more.
``training/fit_evidence.py`` starts from these weights.
"""

_WITHOUT_OWN_WEIGHT = {"class_hard": "match_hard", "entailment_hard": "entailment"}
"""Weights that models may lack, and those that stand in for them: of the same signal, found in another place."""


SHORT = 20.0
"""Mean number of word pieces of candidates up to which they are short: sentences, answers to frequent questions. The
longer they are, the less the weights of short candidates count, see :func:`weights_for`."""


def weights_of(named: Mapping[str, float]) -> DoubleArray:
    """Weights of the pair features in their order, float64 of shape (n_features,); 0 for features without one."""
    return np.array([named.get(name, 0.0) for name in PAIR_FEATURES])


def shortness(lengths: IntArray) -> float:
    """How short candidates of some lengths in word pieces are: min(1, `SHORT` / mean length)."""
    return min(1.0, SHORT / max(float(lengths.mean()), 1.0)) if len(lengths) else 1.0


def weights_for(weights: DoubleArray, lengths: IntArray) -> DoubleArray:
    """Weights for candidates of some lengths: weights[0] + `shortness` * weights[1], for weights of (2, n_features)."""
    return np.asarray(weights[0] + shortness(lengths) * weights[1])


def evidence_parts(features: FloatArray, weights: DoubleArray, weight: float = 1.0) -> dict[str, DoubleArray]:
    """What each group of features adds to the scores of n candidates, each (n,); weights of shape (n_features,)."""
    parts: dict[str, DoubleArray] = {}
    for column in np.flatnonzero(weights).tolist():
        group, added = FEATURE_GROUPS[PAIR_FEATURES[column]], weight * weights[column] * features[:, column]
        parts[group] = parts[group] + added if group in parts else added.astype(np.float64)
    return parts


@dataclass(frozen=True)
class LinearTerms:
    """What a linear head over pair features computes, term by term.

    Attributes
    ----------
    groups
        Names of the groups of features, in the order of the columns.
    table
        float64 of shape (n_features, n_groups): each feature's weight, in the column of its group.
    bias
        The constant.
    """

    groups: tuple[str, ...]
    table: DoubleArray
    bias: float

    @classmethod
    def of(cls, head: Head) -> LinearTerms:
        """Read the weights of a head, and check that its network computes the same."""
        linear = head.artifact.field("linear")
        weights, bias = np.array(linear["weights"], np.float64), float(linear["bias"])
        groups = tuple(dict.fromkeys(FEATURE_GROUPS[name] for name in PAIR_FEATURES))
        columns = [groups.index(FEATURE_GROUPS[name]) for name in PAIR_FEATURES]
        if weights.shape != (len(PAIR_FEATURES),):
            raise ArtifactError(
                f"{head.artifact.folder} has {len(weights)} weights, not {len(PAIR_FEATURES)}; train the head again"
            )
        probe = np.eye(len(PAIR_FEATURES), dtype=np.float32)
        table = np.zeros((len(PAIR_FEATURES), len(groups)))
        table[np.arange(len(PAIR_FEATURES)), columns] = weights
        if not np.allclose(head.probabilities({"pairs": probe})[:, 0], 1 / (1 + np.exp(-weights - bias)), atol=1e-5):
            raise ArtifactError(f"{head.artifact.folder}: network and manifest differ in weights; train it again")
        return cls(groups, table, bias)

    def weighs(self, feature: str) -> bool:
        """Whether a feature counts: one whose weight is exactly 0 need not be computed."""
        return bool(self.table[PAIR_FEATURES.index(feature)].any())

    def parts(self, features: FloatArray) -> dict[str, DoubleArray]:
        """What each group of features adds to the log-odds of n candidates."""
        sums = features.astype(np.float64) @ self.table
        means = sums.mean(axis=0) if len(sums) else sums.sum(axis=0)  # no candidates have no mean
        average = np.full(len(features), means.sum() + self.bias)
        parts = zip(self.groups, (sums - means).T, (self.table != 0).sum(axis=0).tolist(), strict=True)
        return {**{name: part for name, part, weighs in parts if weighs}, "average": average}


@dataclass(frozen=True)
class PairModel:
    """The heads that judge a question and a passage together.

    Attributes
    ----------
    entailment
        P(passage answers question) from the two texts alone; comparable between questions.
    learned
        The same with the retrieval scores and the other candidates as further evidence.
    idf
        Inverse document frequency of word pieces in general text, float32 of shape (vocabulary,), for passages that come
        from no index.
    entailment_terms, learned_terms
        What the log-odds of the two are the sum of, see :class:`LinearTerms`; None for an entailment head whose manifest
        does not say.
    weights
        ``entailment`` and ``class``: the weights of the integrated methods; ``entailment_hard`` and ``class_hard``: of the
        same with labels of 0 and 1 in place of probabilities; ``match_soft`` and ``match_hard``: of the class match in
        retrieval. All found on training questions, with linear fusion. ``evidence``: of the sum over `evidence`, 1.
    words
        What makes words of word pieces.
    evidence
        Weights of the pair features that the default method adds to a convex combination, which is from 0 to 1, and
        what is added to them for short candidates: float64 of shape (2, n_features), see :func:`weights_for`.
    """

    entailment: Head
    learned: Head
    idf: FloatArray
    entailment_terms: LinearTerms | None
    learned_terms: LinearTerms
    weights: dict[str, float]
    words: WordTable
    evidence: DoubleArray

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> PairModel:
        """Load the heads in ``folder/entailment`` and ``folder/learned``, and the weights in ``folder/evidence``."""
        folder = Path(folder)
        load = partial(Head.load, encoder=encoder_fingerprint, features=PAIR_FEATURES)
        entailment = load(folder / "entailment")
        learned = load(folder / "learned", arrays={"idf.npy": (None,), "words.npy": (2, None)})
        idf, words = learned.artifact.arrays["idf.npy"], WordTable.of(learned.artifact.arrays["words.npy"])
        if len(words.keys) != len(idf):
            raise ArtifactError(
                f"{learned.artifact.folder}: words.npy has {len(words.keys)} rows, idf.npy {len(idf)}; train it again"
            )
        weights = {str(name): float(value) for name, value in learned.artifact.field("weights").items()}
        weights |= {name: weights[other] for name, other in _WITHOUT_OWN_WEIGHT.items() if name not in weights}
        weights["evidence"] = 1.0
        # only what `learned` is the sum of is explained: the other head may be anything
        terms = LinearTerms.of(entailment) if "linear" in entailment.artifact.manifest else None
        evidence = load_evidence(folder / "evidence", encoder_fingerprint)
        return cls(entailment, learned, idf, terms, LinearTerms.of(learned), weights, words, evidence)


def load_evidence(folder: Path, encoder_fingerprint: str) -> DoubleArray:
    """Load the weights that were fitted for an encoder; `EVIDENCE` for candidates of any length where there are none."""
    if not folder.exists():
        return np.stack([weights_of(EVIDENCE), weights_of({})])
    artifact = artifacts.load_artifact(
        folder,
        "evidence",
        encoder=encoder_fingerprint,
        features=PAIR_FEATURES,
        arrays={"weights.npy": (2, len(PAIR_FEATURES))},
    )
    return artifact.arrays["weights.npy"].astype(np.float64)
