"""Whether passages are in English, which the shipped models read: of text in other languages they judge nothing well.

Each word piece has the logarithm of how much more frequent it is in English than in other languages, all of which weigh
the same: naive Bayes. The mean over the best candidates tells. A question alone may be too short to tell, and a question in
another language over English passages shares names with them, which evidence finds better than fusion does; so passages
decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, EncoderMismatchError, warn
from semclass.core.types import Encoder, FloatArray
from semclass.index.records import Candidates, sum_of
from semclass.scoring.fusion import fused

FOLDER = "language"
"""Folder of the table, and kind of its manifest."""

UNITS = 16
"""The table holds int8: logarithms of this base's units, 1 / UNITS each."""

ENGLISH, OTHER = "en", "other"

FIRST = 10
"""Candidates that are looked at."""

ENOUGH = 50
"""Word pieces below which they are taken to be English: names outweigh the rest of a few words."""

LEAST = -0.8
"""Mean from which they are English. Ten passages together have 0.4 or more in nine English sets, 0.0 in one of source
code, and -0.7 where the foreign name of a hotel stands in each; -1.0 or less in 13 other languages:
``training/train_language.py``."""

BY_WORDS_ALPHA = 0.15
"""Weight of the vectors in convex fusion, by which passages in other languages are found."""

WORDS: Mapping[str, float] = {"overlap_rare": 0.5, "neighbours": 0.5}
"""What is added to that, weights of pair features: whole words, as of many scripts the pieces are single letters.

Chosen on 120 questions of each of twelve languages, as those that are in none below BM25 or plain fusion:
``python -m bench.languages``."""


class LanguageWarning(UserWarning):
    """Passages are in a language that the models do not read."""


@dataclass(frozen=True)
class LanguageTest:
    """Tells English from other languages by word pieces."""

    logs: FloatArray  # how much more frequent each word piece is in English, natural logarithms, (vocabulary,)

    @classmethod
    def load(cls, folder: Path, *, encoder_fingerprint: str, vocabulary: int) -> LanguageTest:
        """Read the table of an encoder's word pieces; that of another encoder is refused."""
        artifact = artifacts.load(folder, FOLDER)
        if (made_with := artifact.field("encoder")) != encoder_fingerprint:
            raise EncoderMismatchError(
                f"the table in {artifact.folder} belongs to encoder {made_with}, but is used with "
                f"{encoder_fingerprint}; make one for this encoder with training/train_language.py"
            )
        table = artifact.array("pieces.npy")
        if table.shape != (vocabulary,):
            raise ArtifactError(
                f"{artifact.path('pieces.npy')} has shape {table.shape}; the encoder's vocabulary has {vocabulary} pieces"
            )
        return cls((table / UNITS).astype(np.float32))

    def language(self, candidates: Candidates) -> str:
        """`ENGLISH`, or `OTHER`: the language of the first candidates."""
        pieces = candidates.evidence.pieces.values[: candidates.evidence.pieces.offsets[min(FIRST, len(candidates))]]
        return ENGLISH if len(pieces) < ENOUGH or float(self.logs[pieces].mean()) >= LEAST else OTHER


def load_language(models: Path, encoder: Encoder) -> LanguageTest | None:
    """Load the table of an encoder; None if there is none."""
    folder = models / FOLDER
    if not folder.exists():
        return None
    return LanguageTest.load(folder, encoder_fingerprint=encoder.fingerprint, vocabulary=len(encoder.is_term))


def with_language(candidates: Candidates, test: LanguageTest) -> Candidates:
    """Candidates from elsewhere with their language, and scored by words if the models do not read it."""
    language = test.language(candidates)
    if language == ENGLISH:
        return replace(candidates, language=language)
    parts = fused(candidates.dense, candidates.bm25, "convex", alpha=BY_WORDS_ALPHA).parts
    return replace(candidates, language=language, score=sum_of(parts), parts=parts)


def warn_of_language() -> None:
    """Warn that passages are in another language than the models read."""
    warn(
        LanguageWarning(
            "the passages seem not to be in English, the language of these models; they are ranked by the words that they "
            "share with the question, and less by their vectors"
        )
    )
