from __future__ import annotations

import numpy as np
import pytest

from semclass.core.types import IntArray, Ragged, offsets_of
from semclass.scoring import approximation
from semclass.scoring.approximation import Approximation
from semclass.scoring.dense import shares_of
from semclass.scoring.quantisation import to_quarter_bytes
from semclass.scoring.reduction import reduce_vectors
from semclass.scoring.topk import unit
from semclass.scoring.vectors import Vectors

DIM = 32


def made(counts: IntArray) -> Vectors:
    """Passages of so many sentences."""
    rng, offsets = np.random.default_rng(0), offsets_of(counts)
    found = unit(rng.normal(size=(offsets[-1], DIM)).astype(np.float32))
    shares = shares_of(found, rng.integers(1, 40, len(found)).astype(np.float32), offsets)
    codes, scales = to_quarter_bytes(found)
    return Vectors(Ragged(codes, offsets), scales, shares)


@pytest.mark.parametrize("wide", [4, 30, 10_000])
@pytest.mark.parametrize("counts", [np.array([1]), np.array([7, 1, 2, 1, 7, 40]), np.arange(200) % 5 + 1])
def test_scores_are_nearly_those_of_all_dimensions(monkeypatch, wide, counts):
    monkeypatch.setattr(approximation, "WIDE", wide)  # a passage of more sentences has a product of its own
    found = made(counts)
    question = unit(np.random.default_rng(9).normal(size=DIM).astype(np.float32))
    near = Approximation.of(reduce_vectors(found.sentences.values, found.scales), found.shares, found.sentences.offsets)
    assert sorted(near.rows.tolist()) == list(range(len(counts)))
    np.testing.assert_allclose(near.scores(question), found.scores(question)[near.rows], atol=0.1)
