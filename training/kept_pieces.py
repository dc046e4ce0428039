"""Which word pieces the tuned layers of the encoder read of a passage: about three in five."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# words that say little by themselves: their states have been mixed into their neighbours' by the lower part. Question
# words, negations and the question mark stay, as they tell what a sentence does.
FUNCTION_WORDS = frozenset(
    "the of and in to a an is was were are be been being for as by on with that it its at from or this these those which "  # noqa: SIM905
    "has have had but his her their he she they we you i our your my also into such than then there so if can may will "
    "would could should more most other some any all between both each about after over through during under within up "
    "out them him me us do does did".split()
)

# of these, what tells where, when or by whom
PREPOSITIONS = frozenset(("at", "by", "in"))

QUESTION_WORDS = frozenset("what who whom whose where when why how much many is are not no".split())  # noqa: SIM905


def kept_pieces(vocabulary: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which word pieces the tuned layers read of a passage, bool (vocabulary,)."""
    marks = {"[CLS]", "[SEP]", "?"}
    return np.array(
        [
            piece in marks or (piece not in FUNCTION_WORDS - PREPOSITIONS and any(map(str.isalnum, piece)))
            for piece in vocabulary
        ]
    )
