"""The pair head, which judges a question and a passage together, and the evidence that the default method adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray
from semclass.encoders.words import WordTable
from semclass.heads.head import Head
from semclass.index.candidates import Candidates, Query, sum_of
from semclass.ranking.features import COLUMN, PAIR_FEATURES, pair_features

NEIGHBOURS = 0.7
"""Weight of the pair feature ``neighbours`` beside a convex combination. With the other features, fitted together, domains
left out gain no more: ``docs/decisions/signals.md``.
"""

OF_SHORT: Mapping[str, float] = {"cosine": 1.3, "provided": 0.08, "overlap": -0.7, "numbers": -0.3}
"""Weights of pair features of short passages that come with a question: an answer has what is asked, an echo its words."""

STORED_SHARE = 0.1
"""Share of `OF_SHORT` for passages of an index, few of which are echoes of a question."""

SHORT = 20.0
"""Mean number of word pieces up to which candidates are short, such as sentences or answers to frequent questions.

The weights of longer ones are smaller in proportion.
"""

_GROUPS = {"meaning": ("neighbours", "cosine"), "answers": ("provided",), "words": ("overlap", "numbers")}


def evidence_of(features: FloatArray, candidates: Candidates) -> dict[str, DoubleArray]:
    """Return what each kind of evidence adds to the scores of n candidates with some pair features, each (n,)."""
    lengths = candidates.evidence.pieces.lengths()
    short = min(1.0, SHORT / max(float(lengths.mean()), 1.0)) if len(lengths) else 1.0
    share = short * (STORED_SHARE if candidates.is_stored else 1.0)
    weights = {"neighbours": NEIGHBOURS, **{name: share * weight for name, weight in OF_SHORT.items()}}
    return {
        group: sum_of({name: weights[name] * features[:, COLUMN[name]].astype(np.float64) for name in names})
        for group, names in _GROUPS.items()
    }


@dataclass(frozen=True)
class PairModel:
    """The pair head, with what it needs of general text, and the weights of evidence."""

    entailment: Head  #: P(passage answers question) from the two texts alone, which can be compared between questions
    #: inverse document frequency of word pieces in general text, float32 (vocabulary,), for passages of no index
    idf: FloatArray
    words: WordTable  #: makes words of word pieces
    #: ``evidence``, 1, and ``entailment`` and ``class`` of the integrated methods, found on training questions
    weights: Mapping[str, float]

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> PairModel:
        """Load the head in ``folder/entailment``."""
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
        return cls(head, idf, words, {**weights, "evidence": 1.0})

    def judge(self, query: Query, candidates: Candidates) -> tuple[FloatArray, DoubleArray]:
        """Return the pair features of n candidates, (n, n_features), and P(passage answers question), (n,).

        The probability depends on the two texts alone: words are weighed as in general text, whatever an index holds.
        """
        features = pair_features(query, candidates, self.words, self.idf[query.terms])
        return features, self.entailment.probabilities({"pairs": features})[:, 0]
