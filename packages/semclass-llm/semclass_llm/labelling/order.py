"""Chooses texts to label next. They represent many texts, are unlike labelled texts, and leave a head uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_positive, check_texts
from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, Encoder, Encoding, IntArray
from semclass.encoders.batching import classify_in_chunks, quietly
from semclass.heads.texts import TextModel

CONSIDERED = 20_000
"""Most texts that are grouped. If there are more, the least certain texts are used, or the texts that a seed draws."""


def next_to_label(
    texts: Sequence[str],
    number: int,
    *,
    encoder: Encoder,
    head: TextModel | None = None,
    labelled: Sequence[str] = (),
    seed: int = 0,
) -> list[int]:
    """Choose texts to label, most useful texts first.

    Texts are grouped by their vectors. The number of groups is the number of requested labels plus the number of given
    labels. Groups with a labelled text are skipped. From every other group, the text nearest its middle is proposed,
    with the largest group first (Hacohen, Dekel and Weinshall 2022 begin in this way). With a head, a text counts by
    the uncertainty of the head.

    Parameters
    ----------
    texts
        Texts without a label. Texts that are also in `labelled` are not proposed.
    number
        Most texts to propose.
    encoder
        Encoder whose view ``pooled`` gives the vectors that are compared.
    head
        A head that was trained on the labels so far, or None.
    labelled
        Texts that already have a label.
    seed
        Seed of the grouping.

    Returns
    -------
    list of int
        Places of the chosen texts in `texts`.

    Raises
    ------
    InputError, InputTypeError
        If the number is not positive, or a text is empty or not a string.
    MissingExtraError
        If scikit-learn is not installed.
    """
    number = check_positive(number, "number")
    known = dict.fromkeys(check_texts(labelled, "labelled"))
    first: dict[str, int] = {}
    for place, text in enumerate(check_texts(texts)):
        if text not in known:
            first.setdefault(text, place)
    free, places = list(first), list(first.values())
    weight = np.ones(len(free)) if head is None else unsure_of(head.predict_proba(free), head.multi_label)
    if len(free) > CONSIDERED:
        drawn = np.random.default_rng(seed).permutation(len(free))
        kept = np.sort(drawn[np.argsort(-weight[drawn], kind="stable")][:CONSIDERED])
        free, places, weight = [free[row] for row in kept], [places[row] for row in kept], weight[kept]
    if number >= len(free):
        return [places[row] for row in np.argsort(-weight, kind="stable")]
    vectors = _vectors([*free, *known], encoder)
    return [places[row] for row in grouped(vectors, weight, number, seed)]


def unsure_of(probabilities: DoubleArray, multi_label: bool) -> DoubleArray:
    """Return the uncertainty of a head about each text, from 0 to 1, float64 (n,).

    With one label per text, it is 1 minus the lead of the most probable label. With several labels, it is the mean over
    labels of how near each probability is to 0.5.
    """
    if multi_label:
        return np.asarray(1 - np.abs(2 * probabilities - 1).mean(axis=1))
    best = np.sort(probabilities, axis=1)
    return np.asarray(1 - (best[:, -1] - best[:, -2]))


def grouped(vectors: DoubleArray, weight: DoubleArray, number: int, seed: int) -> IntArray:
    """Return the rows of texts to label, best first.

    `vectors` holds the n texts of `weight`, then the labelled texts.
    """
    cluster: Any = import_extra("sklearn.cluster", "label")
    count = len(weight)
    counts = np.maximum(np.append(weight, np.ones(len(vectors) - count)), 1e-3)
    groups = min(number + len(vectors) - count, len(np.unique(vectors, axis=0)))
    found = cluster.KMeans(groups, n_init=1, max_iter=30, random_state=seed).fit(vectors, sample_weight=counts)
    names: npt.NDArray[Any] = found.labels_
    away = np.linalg.norm(vectors - found.cluster_centers_[names], axis=1)
    mass = np.bincount(names[:count], weights=counts[:count], minlength=groups)
    covered = np.isin(np.arange(groups), names[count:])
    chosen = []
    for group in np.lexsort((-mass, covered)):
        rows = np.flatnonzero(names[:count] == group)
        if len(rows):
            chosen.append(rows[np.argmin(away[rows])])
    return np.array(chosen[:number], np.int64)


def _vectors(texts: list[str], encoder: Encoder) -> DoubleArray:
    """Vectors of length 1, float64 (n, dim)."""

    def pooled(_: list[str], encoding: Encoding) -> DoubleArray:
        return encoding.rows("pooled").astype(np.float64)

    vectors, _ = quietly(lambda: classify_in_chunks(encoder, texts, ("pooled",), pooled))
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
