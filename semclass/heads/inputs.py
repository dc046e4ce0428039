"""The inputs of heads: views that the encoder gives, and views that are read off the text or its word pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semclass.core.types import Encoding, FloatArray, Ragged, padded
from semclass.encoders.onnx_encoder import STATES
from semclass.heads.head import Head
from semclass.heads.surface import surface_features

SURFACE = "surface"
"""View of :func:`semclass.heads.surface.surface_features`."""

PIECES = "pieces"
"""View of :func:`piece_matrix`."""

PIECES_LENGTH = 32
"""Columns of the view ``pieces``; of 10,223 TREC and natural questions 20 are longer."""


def encoder_views(heads: Sequence[Head]) -> tuple[str, ...]:
    """Names of the views that heads need of the encoder, sorted."""
    return tuple(sorted({name for head in heads for name in head.inputs} - {SURFACE, PIECES}))


def gather(heads: Sequence[Head], texts: list[str], encoding: Encoding) -> dict[str, FloatArray]:
    """Collect what heads read."""
    views: dict[str, FloatArray] = {}
    for name in encoder_views(heads):
        views[name] = padded(encoding.pieces(name)) if name == STATES else encoding.rows(name)
    if any(SURFACE in head.inputs for head in heads):
        views[SURFACE] = surface_features(texts)
    if any(PIECES in head.inputs for head in heads):
        views[PIECES] = piece_matrix(encoding.terms)
    return views


def piece_matrix(terms: Ragged) -> FloatArray:
    """Give the first word pieces of each text as a matrix, for heads that count n-grams of them."""
    matrix = np.full((len(terms), PIECES_LENGTH), -1, np.float32)
    inside = np.arange(PIECES_LENGTH) < terms.lengths()[:, None]
    places = terms.offsets[:-1, None] + np.arange(PIECES_LENGTH)
    matrix[inside] = terms.values[places[inside]]
    return matrix
