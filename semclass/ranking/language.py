"""Tells whether passages are in English. The shipped models read English, and judge text in other languages badly.

The test is naive Bayes. Each word piece has the logarithm of how much more frequent it is in English than in other
languages, all of which weigh the same. The mean over the best candidates decides. A question alone may be too short to
decide. A question in another language over English passages shares names with the passages, and evidence finds these
names better than fusion does. So passages decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import warn
from semclass.core.types import Encoder, FloatArray
from semclass.index.records import Candidates, sum_of, summed
from semclass.ranking.evidence import evidence_parts
from semclass.ranking.features import weights_of
from semclass.scoring.fusion import fused

FOLDER = "language"
"""Folder of the table, and kind of its manifest."""

UNITS = 16
"""The table holds int8 numbers. They are logarithms in units of 1 / UNITS."""

ENGLISH, OTHER = "en", "other"

LANGUAGE_DEPTH = 10
"""Number of candidates that the test reads."""

MIN_PIECES = 50
"""Number of word pieces below which candidates count as English, because names outweigh all other words in a few
words.
"""

MIN_ENGLISH = -0.8
"""Mean from which candidates are English. Ten passages together have 0.4 or more in nine English sets, 0.0 in one set
of source code, and -0.7 if each passage has the foreign name of a hotel. They have -1.0 or less in 13 other languages,
see ``training/train_language.py``.
"""

BY_WORDS_ALPHA = 0.15
"""Weight of the vectors in the convex fusion that finds passages in other languages."""

WORDS: Mapping[str, float] = {"overlap_rare": 0.5, "neighbours": 0.5}
"""Weights of pair features that are added to the fused score. They compare whole words, because the pieces of many
scripts are single letters.

They were chosen on 120 questions of each of twelve languages, by ``python -m bench languages``. In no language are they
worse than BM25 or plain fusion.
"""


class LanguageWarning(UserWarning):
    """Passages are in a language that the models do not read."""


@dataclass(frozen=True)
class LanguageTest:
    """Tells English from other languages by word pieces."""

    logs: FloatArray  # how much more frequent each word piece is in English, natural logarithms, (vocabulary,)

    @classmethod
    def load(cls, folder: Path, *, encoder_fingerprint: str, vocabulary: int) -> LanguageTest:
        """Read the table of an encoder's word pieces. The table of another encoder is refused."""
        arrays = {"pieces.npy": (vocabulary,)}
        artifact = artifacts.load_artifact(folder, FOLDER, encoder=encoder_fingerprint, arrays=arrays)
        return cls((artifact.arrays["pieces.npy"] / UNITS).astype(np.float32))

    def language(self, candidates: Candidates) -> str:
        """Return `ENGLISH` or `OTHER`, the language of the first candidates."""
        pieces = candidates.evidence.pieces.values[
            : candidates.evidence.pieces.offsets[min(LANGUAGE_DEPTH, len(candidates))]
        ]
        return ENGLISH if len(pieces) < MIN_PIECES or float(self.logs[pieces].mean()) >= MIN_ENGLISH else OTHER


def load_language(models: Path, encoder: Encoder) -> LanguageTest | None:
    """Load the table of an encoder. None if there is no table."""
    folder = models / FOLDER
    if not folder.exists():
        return None
    return LanguageTest.load(folder, encoder_fingerprint=encoder.fingerprint, vocabulary=len(encoder.is_term))


def by_words(candidates: Candidates, features: FloatArray) -> Candidates:
    """Fuse candidates again, with more weight on BM25, and add the evidence of shared words."""
    parts = fused(candidates.dense, candidates.bm25, "convex", alpha=BY_WORDS_ALPHA).parts
    fused_again = replace(candidates, score=sum_of(parts), parts=parts, language=OTHER)
    return summed(fused_again, evidence_parts(features, weights_of(WORDS)), {})


def warn_of_language() -> None:
    """Warn that passages are in a language that the models do not read."""
    warn(
        LanguageWarning(
            "the passages seem not to be in English, the language of these models; they are ranked by the words that they "
            "share with the question, and less by their vectors"
        )
    )
