"""What heads read of encoded texts, and how they are run over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import STATES
from semclass.core.types import DoubleArray, Encoding, FloatArray, Ragged, padded
from semclass.encoders.batching import STEP, batches_by_length, steps
from semclass.heads.head import Head
from semclass.heads.surface import surface_features

Name = TypeVar("Name")

SURFACE = "surface"  # view of surface_features
PIECES = "pieces"  # view of piece_matrix
PIECES_LENGTH = 32  # its columns; of 10,223 TREC and natural questions 20 are longer

BATCH = 32  # texts per run of a head that reads word-piece states; those of like length together, as padding costs time


def encoder_views(head: Head | None) -> tuple[str, ...]:
    """Names of the views that a head needs of the encoder, sorted."""
    return () if head is None else tuple(sorted({*head.inputs} - {SURFACE, PIECES}))


def gather(head: Head, texts: list[str], encoding: Encoding) -> dict[str, FloatArray]:
    """Collect what a head reads."""
    views: dict[str, FloatArray] = {}
    for name in head.inputs:
        if name == SURFACE:
            views[name] = surface_features(texts)
        elif name == PIECES:
            views[name] = piece_matrix(encoding.terms)
        else:
            views[name] = padded(encoding.pieces(name), step=STEP) if name == STATES else encoding.rows(name)
    return views


def piece_matrix(terms: Ragged) -> FloatArray:
    """Ids of the first word pieces of each text, (n, PIECES_LENGTH), for heads that count n-grams; -1 behind the end."""
    matrix = np.full((len(terms), PIECES_LENGTH), -1, np.float32)
    inside = np.arange(PIECES_LENGTH) < terms.lengths()[:, None]
    places = terms.offsets[:-1, None] + np.arange(PIECES_LENGTH)
    matrix[inside] = terms.values[places[inside]]
    return matrix


def run_head(head: Head | None, texts: list[str], encoding: Encoding) -> DoubleArray:
    """Class probabilities of encoded texts, float64 of shape (n, n_classes); no columns without a head."""
    if head is None or not texts:
        return np.zeros((len(texts), 0 if head is None else len(head.classes)))
    if STATES not in head.inputs or len(texts) <= BATCH:
        return head.probabilities(gather(head, texts, encoding))
    found = np.zeros((len(texts), len(head.classes)))
    for batch in steps(batches_by_length(encoding.pieces(STATES).lengths(), BATCH)):
        part = Encoding(terms=encoding.terms.take(batch), states=encoding.pieces(STATES).take(batch))
        found[batch] = head.probabilities(gather(head, [texts[row] for row in batch.tolist()], part))
    return found


def labelled(
    texts: Sequence[str], classes: Sequence[Name], probabilities: DoubleArray, chosen: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, tuple[Name, ...], dict[Name, float]]]:
    """Give each text with the names of its chosen classes and all classes' probabilities; arrays are (n, n_classes)."""
    for text, flags, row in zip(texts, chosen.tolist(), probabilities.tolist(), strict=True):
        labels = tuple(name for name, yes in zip(classes, flags, strict=True) if yes)
        yield text, labels, dict(zip(classes, row, strict=True))
