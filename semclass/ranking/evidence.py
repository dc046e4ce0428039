"""The pair head, which judges a question and a passage together, and the weights of evidence in the default method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray, IntArray
from semclass.encoders.stems import words
from semclass.encoders.words import WordTable, joined_pieces, mark_of
from semclass.heads.head import Head
from semclass.index.candidates import Candidates, Query
from semclass.index.remote import SearchIndex
from semclass.ranking.features import FEATURES, PAIR_FEATURES, features_by, pair_features

SHORT = 20.0
"""Mean number of word pieces up to which candidates are short, such as sentences or answers to frequent questions."""


STORED_SHARE = 0.25
"""Share of the weights of short candidates that passages of an index have: those that come with a question are more often
its echoes. Of 123 questions over small collections in one index, 105 are right first with a quarter, 102 with a half.
"""

GENERAL_PASSAGES = 20
"""Number of passages that general text counts for in word frequencies.

In an index of ten passages, five of which only resemble the answer, the answer is first in 24 % by the index's own idf,
and in 42 % by that of general text. With 232 to 11,429 passages, its own is better, by 0.5 to 1.0 points of nDCG@10.
"""


def shortness(lengths: IntArray) -> float:
    """Return min(1, `SHORT` / mean length) of candidates, by their lengths in word pieces."""
    return min(1.0, SHORT / max(float(lengths.mean()), 1.0)) if len(lengths) else 1.0


def weights_for(weights: DoubleArray, lengths: IntArray, share: float = 1.0) -> DoubleArray:
    """Return weights[0] + share * `shortness` * weights[1], for weights of shape (2, n_features)."""
    return np.asarray(weights[0] + share * shortness(lengths) * weights[1])


def evidence_parts(features: FloatArray, weights: DoubleArray) -> dict[str, DoubleArray]:
    """Return what each group of features adds to the scores of n candidates, each (n,), for weights (n_features,)."""
    parts: dict[str, DoubleArray] = {}
    for column in np.flatnonzero(weights).tolist():
        group, added = FEATURES[column].group, weights[column] * features[:, column]
        parts[group] = parts[group] + added if group in parts else added.astype(np.float64)
    return parts


def question_idf(query: Query, index: SearchIndex, vocabulary: Sequence[str], general: FloatArray | None) -> FloatArray:
    """Inverse document frequency of the word pieces of a question in an index, float32 (m,): that of their words.

    Function words, which no index counts, have that of general text, (vocabulary,), or 0.
    """
    pieces, stems = [vocabulary[piece] for piece in query.terms.tolist()], words(index.language)
    texts, owner = joined_pieces(pieces, mark_of(pieces))
    first = np.array([next(iter(stems[text]), -1) for text in texts], np.int64)
    known = first[owner]
    own: FloatArray = index.statistics.idf(known.astype(np.uint32)) * (known >= 0)
    if general is None:
        return own
    usual, share = general[query.terms], np.float32(len(index) / (len(index) + GENERAL_PASSAGES))
    return np.asarray(np.where(known >= 0, usual + share * (own - usual), usual), np.float32)


@dataclass(frozen=True)
class PairModel:
    """The pair head, with what it needs of general text, and the weights of evidence."""

    entailment: Head  #: P(passage answers question) from the two texts alone, which can be compared between questions
    #: inverse document frequency of word pieces in general text, float32 (vocabulary,), for passages of no index
    idf: FloatArray
    words: WordTable  #: makes words of word pieces
    #: ``evidence``, 1, and ``entailment`` and ``class`` of the integrated methods, found on training questions
    weights: Mapping[str, float]
    #: weights of the pair features in the default method, and what is added to them for short candidates, float64
    #: (2, n_features), see :func:`weights_for`
    evidence: DoubleArray

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> PairModel:
        """Load the head in ``folder/entailment``, and the weights in ``folder/evidence``."""
        arrays = {"idf.npy": (None,), "words.npy": (2, None)}
        head = Head.load(
            Path(folder) / "entailment", encoder=encoder_fingerprint, features=PAIR_FEATURES, arrays=arrays
        )
        idf, words = head.artifact.arrays["idf.npy"], WordTable.of(head.artifact.arrays["words.npy"])
        if len(words.keys) != len(idf):
            raise ArtifactError(
                f"{head.artifact.folder}: words.npy has {len(words.keys)} rows, idf.npy {len(idf)}; train it again"
            )
        weights = {str(name): float(value) for name, value in head.artifact.field("weights").items()}
        evidence = load_evidence(Path(folder) / "evidence", encoder_fingerprint)
        return cls(head, idf, words, {**weights, "evidence": 1.0}, evidence)

    def features(self, query: Query, candidates: Candidates) -> FloatArray:
        """Return the pair features of n candidates, (n, n_features). Refuse a question that was encoded without tokens."""
        query.check(tokens=True)
        return pair_features(query, candidates, self.words)

    def judge(self, query: Query, candidates: Candidates) -> tuple[FloatArray, DoubleArray]:
        """Return the pair features of n candidates, and P(passage answers question), (n,).

        The probability depends on the two texts alone: words are weighed as in general text, whatever an index holds.
        """
        query.check(tokens=True)
        features, general = features_by(query, candidates, self.words, candidates.idf, self.idf[query.terms])
        return features, self.entailment.probabilities({"pairs": general})[:, 0]

    def evidence_of(self, features: FloatArray, candidates: Candidates) -> dict[str, DoubleArray]:
        """Return what each group of evidence adds to the scores of n candidates, each (n,)."""
        share = STORED_SHARE if candidates.reused is None else 1.0
        return evidence_parts(features, weights_for(self.evidence, candidates.evidence.pieces.lengths(), share))


def load_evidence(folder: Path, encoder_fingerprint: str) -> DoubleArray:
    """Load the weights that were fitted for an encoder; without them, those of `FEATURES`, for candidates of any length."""
    if not folder.exists():
        return np.array([[feature.weight for feature in FEATURES], [0.0] * len(FEATURES)])
    arrays = {"weights.npy": (2, len(PAIR_FEATURES))}
    artifact = artifacts.load_artifact(
        folder, "evidence", encoder=encoder_fingerprint, features=PAIR_FEATURES, arrays=arrays
    )
    return artifact.arrays["weights.npy"].astype(np.float64)
