"""What every classifier of texts does with its head: run it over encoded texts, and name the classes that were chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, Encoding
from semclass.encoders.batching import batches_by_length, steps
from semclass.encoders.onnx_encoder import STATES
from semclass.heads.head import Head
from semclass.heads.inputs import gather

Name = TypeVar("Name")

BATCH = 32
"""Texts per run of a head that reads word-piece states; those of like length together, as padding costs time."""


def classify(head: Head | None, texts: list[str], encoding: Encoding) -> DoubleArray:
    """Class probabilities of encoded texts, float64 of shape (n, n_classes); no columns without a head."""
    if head is None or not texts:
        return np.zeros((len(texts), 0 if head is None else len(head.classes)))
    if STATES not in head.inputs or len(texts) <= BATCH:
        return head.probabilities(gather([head], texts, encoding))
    found = np.zeros((len(texts), len(head.classes)))
    for batch in steps(batches_by_length(encoding.pieces(STATES).lengths(), BATCH)):
        part = Encoding(terms=encoding.terms.take(batch), states=encoding.pieces(STATES).take(batch))
        found[batch] = head.probabilities(gather([head], [texts[row] for row in batch.tolist()], part))
    return found


def labelled(
    texts: Sequence[str], classes: Sequence[Name], probabilities: DoubleArray, chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, tuple[Name, ...], dict[Name, float]]]:
    """Give each text with the names of its chosen classes and all classes' probabilities; arrays are (n, n_classes)."""
    for text, flags, row in zip(texts, chosen.tolist(), probabilities.tolist(), strict=True):
        labels = tuple(name for name, yes in zip(classes, flags, strict=True) if yes)
        yield text, labels, dict(zip(classes, row, strict=True))
