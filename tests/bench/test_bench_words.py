"""Bounds of the words for first places: applied to many as to one, and chosen by what is wanted."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from bench import words
from semclass.ranking.certainty import BOUNDS, CERTAINTIES, certainty


def made(seed=0, n=200):
    rng = np.random.default_rng(seed)
    first = {key: rng.uniform(*span, n) for key, span in {"lead": (0, 1), "behind": (-4, 4), "near": (0, 1)}.items()}
    return {**first, "relevance": rng.uniform(0, 0.3, n), "right": rng.uniform(size=n) < first["lead"]}


def test_many_are_called_what_each_one_is_called():
    first = made()
    masks = words.masks(first, BOUNDS)
    said = np.array([*masks.values()]).T
    for row in range(len(said)):
        one = {key: first[key][row] for key in ("lead", "behind", "near", "relevance")}
        assert said[row].tolist() == [certainty(one) == word for word in CERTAINTIES]
    assert said.any(axis=0).all()
