"""The deep head: layers that read a question and a passage together, above what the encoder's lower part gives of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray

PIECES = 96


def marks_of(asked: npt.NDArray[Any], given: npt.NDArray[Any], idf: FloatArray) -> npt.NDArray[np.int64]:
    """Marks of the word pieces of a question and of a passage, by their ids: 0 and 2, and 1 and 3 for terms of both."""
    same = np.isin(asked, given) & (idf[asked] > 0), np.isin(given, asked) & (idf[given] > 0)
    return np.concatenate([same[0], same[1] + np.int64(2)])
