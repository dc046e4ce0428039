"""The inputs of heads: views that the encoder gives, and views that are read off the text or its word pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.heads import Head
from semclass.surface import surface_features
from semclass.types import Encoding, FloatArray, Ragged

SURFACE = "surface"
"""View of :func:`semclass.surface.surface_features`."""

PIECES = "pieces"
"""View of :func:`piece_matrix`."""

STATES = "states"
"""View of the encoder with the states of each word piece: heads read it as (n, length, hidden), padded with zeros."""

PIECES_LENGTH = 32
"""Columns of the view ``pieces``; of 10,223 TREC and natural questions 20 are longer."""


def encoder_views(heads: Sequence[Head]) -> tuple[str, ...]:
    """Names of the views that heads need of the encoder, sorted."""
    return tuple(sorted({name for head in heads for name in head.inputs} - {SURFACE, PIECES}))


def gather(heads: Sequence[Head], texts: list[str], encoding: Encoding) -> dict[str, FloatArray]:
    """Collect what heads read.

    Parameters
    ----------
    heads
        The heads that will run.
    texts
        n texts.
    encoding
        Theirs.

    Returns
    -------
    dict
        float32 (n, dim) by view name; (n, length, dim) for ``states``.

    Raises
    ------
    InputError
        If the encoding lacks a view.
    """
    views: dict[str, FloatArray] = {}
    for name in encoder_views(heads):
        views[name] = padded(encoding.pieces(name)) if name == STATES else encoding.rows(name)
    if any(SURFACE in head.inputs for head in heads):
        views[SURFACE] = surface_features(texts)
    if any(PIECES in head.inputs for head in heads):
        views[PIECES] = piece_matrix(encoding.terms)
    return views


def padded(
    rows: Ragged, *, fill: float = 0.0, shortest: int = 0, dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """Give ragged rows as one array.

    Parameters
    ----------
    rows
        Ragged of any item shape, n rows.
    fill
        What stands behind the end of a row.
    shortest
        Places that the array has at least.
    dtype
        Of the array.

    Returns
    -------
    ndarray
        Of shape ``(n, longest, *item shape)``.
    """
    lengths = rows.lengths()
    inside = np.arange(lengths.max(initial=shortest)) < lengths[:, None]
    matrix = np.full((*inside.shape, *rows.values.shape[1:]), fill, dtype)
    matrix[inside] = rows.values
    return matrix


def piece_matrix(terms: Ragged) -> FloatArray:
    """Give the first word pieces of each text as a matrix, for heads that count n-grams of them.

    Parameters
    ----------
    terms
        Ragged word-piece ids of n texts.

    Returns
    -------
    ndarray
        float32 of shape (n, PIECES_LENGTH), ids, which float32 holds exactly below 2**24; -1 behind the end of a text.
    """
    matrix = np.full((len(terms), PIECES_LENGTH), -1, np.float32)
    inside = np.arange(PIECES_LENGTH) < terms.lengths()[:, None]
    places = terms.offsets[:-1, None] + np.arange(PIECES_LENGTH)
    matrix[inside] = terms.values[places[inside]]
    return matrix
