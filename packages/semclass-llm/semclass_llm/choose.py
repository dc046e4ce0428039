"""Chooses texts to label next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import Encoder, TextModel
from semclass.plugins import check_positive, check_texts

MAX_GROUPED = 20_000

Array = npt.NDArray[np.float64]


def choose_texts(
    texts: Sequence[str],
    number: int,
    *,
    encoder: Encoder,
    head: TextModel | None = None,
    labelled: Sequence[str] = (),
    seed: int = 0,
) -> list[int]:
    """Choose texts to label, most useful texts first, and return their places.

    Texts are grouped by their vectors. The number of groups is `number` plus the number of labelled texts. From every
    group without a labelled text, the text nearest the middle is proposed, starting with the largest group (as in the
    first step of Hacohen, Dekel and Weinshall 2022). With a head, the weight of a text is the uncertainty of the head.

    Parameters
    ----------
    texts, labelled
        Texts to choose from, and texts that already have labels.
    number
        Most texts to propose.
    encoder
        Encoder whose view ``pooled`` is the vector of a text.
    head
        A head that was trained on the existing labels, or None.
    seed
        Seed of the grouping.
    """
    number = check_positive(number, "number")
    known = dict.fromkeys(check_texts(labelled, "labelled"))
    first: dict[str, int] = {}
    for place, text in enumerate(check_texts(texts)):
        if text not in known:
            first.setdefault(text, place)
    free, places = list(first), np.array(list(first.values()), np.int64)
    weight = np.ones(len(free)) if head is None else _uncertainty(head.predict_proba(free), head.multi_label)
    if len(free) > MAX_GROUPED:  # the least certain texts are used, or the texts that the seed draws
        drawn = np.random.default_rng(seed).permutation(len(free))
        rows = np.sort(drawn[np.argsort(-weight[drawn], kind="stable")][:MAX_GROUPED])
        free, places, weight = [free[row] for row in rows], places[rows], weight[rows]
    if number >= len(free):
        order: npt.NDArray[np.int64] = np.argsort(-weight, kind="stable")
    else:
        order = _middles(_vectors([*free, *known], encoder), weight, number, seed)
    return [int(place) for place in places[order]]


def _uncertainty(probabilities: Array, multi_label: bool) -> Array:
    """Return the uncertainty of a head about each text, in [0, 1]: from the lead of the best label, or distances to 0.5."""
    if multi_label:
        return np.asarray(1 - np.abs(2 * probabilities - 1).mean(axis=1))
    best = np.sort(probabilities, axis=1)
    return np.asarray(1 - (best[:, -1] - best[:, -2]))


def _middles(vectors: Array, weight: Array, number: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the rows of the texts to label, best first. `vectors` has the texts of `weight`, then the labelled texts."""
    from sklearn.cluster import KMeans

    count = len(weight)
    mass = np.maximum(np.append(weight, np.ones(len(vectors) - count)), 1e-3)
    groups = min(number + len(vectors) - count, len(np.unique(vectors, axis=0)))
    fitted: Any = KMeans(groups, n_init=1, max_iter=30, random_state=seed).fit(vectors, sample_weight=mass)
    group = fitted.labels_
    away = np.linalg.norm(vectors - fitted.cluster_centers_[group], axis=1)
    total = np.bincount(group[:count], weights=mass[:count], minlength=groups)
    labelled = np.isin(np.arange(groups), group[count:])
    members = (np.flatnonzero(group[:count] == name) for name in np.lexsort((-total, labelled)))
    return np.array([rows[np.argmin(away[rows])] for rows in members if len(rows)][:number], np.int64)


def _vectors(texts: list[str], encoder: Encoder) -> Array:
    """Vectors of length 1, float64 (n, dim)."""
    vectors = encoder.encode(texts).rows("pooled").astype(np.float64)
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
