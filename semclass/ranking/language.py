"""Tells whether passages are in English. The shipped models read English, and judge text in other languages badly.

The test is naive Bayes: the mean over the best candidates of how much more frequent each word piece is in English than in
other languages. Passages decide, because a question may be too short, and because evidence finds the names in a question
of another language better than fusion does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import warn
from semclass.core.types import Encoder, FloatArray
from semclass.index.candidates import Candidates, Query, sum_of, summed
from semclass.ranking.features import COLUMN
from semclass.scoring.fusion import fused

FOLDER = "language"  #: folder of the table, and kind of its manifest
UNITS = 16  #: the table holds int8 numbers: logarithms in units of 1 / UNITS
ENGLISH, OTHER = "en", "other"
LANGUAGE_DEPTH = 10  #: number of candidates that the test reads
MIN_PIECES = 50  #: word pieces below which candidates say too little, because names outweigh the other words

UNREAD = -4.0
"""Mean of a question up to which it is in another language, whatever its candidates: most of its letters are unknown."""

MIN_ENGLISH = -0.8
"""Mean from which candidates are English. Ten passages together have 0.4 or more in nine English sets, 0.0 in one set
of source code, and -0.7 if each passage has the foreign name of a hotel. They have -1.0 or less in 13 other languages,
see ``training/train_language.py``.
"""

BY_WORDS: Mapping[str, float] = {"alpha": 0.15, "sparse": 0.0}
"""Weights of the convex fusion of passages in other languages, whose vectors and learnt words say little."""

NEIGHBOURS_BY_WORDS = 0.5
"""Weight of the pair feature ``neighbours`` in other languages, by ``python -m bench languages``."""


class LanguageWarning(UserWarning):
    """Passages are in a language that the models do not read."""


@dataclass(frozen=True)
class LanguageTest:
    """Tells English from other languages by word pieces."""

    logs: FloatArray  # how much more frequent each word piece is in English, natural logarithms, (vocabulary,)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder) -> LanguageTest:
        """Read the table of an encoder's word pieces."""
        arrays = {"pieces.npy": (len(encoder.is_term),)}
        artifact = artifacts.load_artifact(folder, FOLDER, encoder=encoder.fingerprint, arrays=arrays)
        return cls((artifact.arrays["pieces.npy"] / UNITS).astype(np.float32))

    def language(self, query: Query, candidates: Candidates) -> str:
        """Return `ENGLISH` or `OTHER`, the language of the first candidates, or of a question that cannot be read."""
        rows = candidates.evidence.pieces
        pieces = rows.values[: rows.offsets[min(LANGUAGE_DEPTH, len(candidates))]]
        tests = ((pieces, MIN_PIECES, MIN_ENGLISH), (query.terms, 1, UNREAD))
        foreign = (len(some) >= least and float(self.logs[some].mean()) < limit for some, least, limit in tests)
        return OTHER if any(foreign) else ENGLISH


def by_words(candidates: Candidates, features: FloatArray) -> Candidates:
    """Fuse candidates again, with more weight on BM25, and add the evidence."""
    weights = {"dense": BY_WORDS["alpha"], "bm25": 1 - BY_WORDS["alpha"]}
    parts = fused({"dense": candidates.dense, "bm25": candidates.bm25}, "convex", weights).parts
    fused_again = replace(candidates, score=sum_of(parts), parts=parts, language=OTHER)
    return summed(
        fused_again, {"meaning": NEIGHBOURS_BY_WORDS * features[:, COLUMN["neighbours"]].astype(np.float64)}, {}
    )


def warn_of_language() -> None:
    """Warn that passages are in a language that the models do not read."""
    warn(
        LanguageWarning(
            "the passages seem not to be in English, the language of these models; they are ranked by the words that they "
            "share with the question, and less by their vectors"
        )
    )
