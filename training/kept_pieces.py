"""Which word pieces the tuned layers of the encoder read of a passage: about three in four."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# the lower part has mixed their states into their neighbours'; leaving out more words makes vectors of passages worse
UNREAD = frozenset(("a", "an", "and", "of", "the", "to"))


def kept_pieces(vocabulary: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which word pieces the tuned layers read of a passage, bool (vocabulary,)."""
    marks = {"[CLS]", "[SEP]", "<s>", "</s>", "?", "\u2581?", "\u061f"}
    unread = frozenset() if "<s>" in vocabulary else UNREAD  # a vocabulary with such marks is of many languages
    return np.array([piece in marks or (piece not in unread and any(map(str.isalnum, piece))) for piece in vocabulary])
