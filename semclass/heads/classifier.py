"""Shared by all classifiers: how heads run over encoded texts, and how probabilities become labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import STATES
from semclass.core.types import ClassName, DoubleArray, Encoding, FloatArray, Label, padded
from semclass.encoders.batching import STEP, batches_by_length, steps
from semclass.heads.head import Head
from semclass.heads.surface import surface_features

SURFACE = "surface"  # view of surface_features
BATCH = 32  # texts per run of a head that reads word-piece states; those of like length together, as padding costs time


def encoder_views(head: Head | None) -> tuple[str, ...]:
    """Names of the views that a head needs of the encoder, sorted."""
    return () if head is None else tuple(sorted({*head.inputs} - {SURFACE}))


def gather(head: Head, texts: list[str], encoding: Encoding) -> dict[str, FloatArray]:
    """Collect what a head reads."""
    views: dict[str, FloatArray] = {}
    for name in head.inputs:
        if name == SURFACE:
            views[name] = surface_features(texts)
        else:
            views[name] = padded(encoding.pieces(name), step=STEP) if name == STATES else encoding.rows(name)
    return views


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


def decide(probabilities: DoubleArray, thresholds: float | DoubleArray, *, multi_label: bool) -> npt.NDArray[np.bool_]:
    """Choose all classes that reach their threshold, or only the most probable of them, bool (n, n_classes)."""
    chosen: npt.NDArray[np.bool_] = probabilities >= thresholds
    if not multi_label:
        chosen &= np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None]
    return chosen


def labelled(
    texts: Sequence[str], classes: Sequence[ClassName], probabilities: DoubleArray, chosen: npt.NDArray[np.bool_]
) -> list[Label]:
    """Give each text the names of its chosen classes and the probabilities of all classes; arrays are (n, n_classes)."""
    return [
        Label(
            text,
            tuple(name for name, yes in zip(classes, flags, strict=True) if yes),
            dict(zip(classes, row, strict=True)),
        )
        for text, flags, row in zip(texts, chosen.tolist(), probabilities.tolist(), strict=True)
    ]
