"""Scores of learnt words from three bytes a term."""

from __future__ import annotations

import numpy as np

from semclass.core.types import ragged
from semclass.scoring.sparse import SparseVectors, no_sparse, pack, scores


def vectors(*rows):
    terms, weights = ([np.array([item[place] for item in row], kind) for row in rows]
                      for place, kind in ((0, np.uint16), (1, np.float32)))  # fmt: skip
    return SparseVectors(ragged(terms, np.zeros(0, np.uint16)), ragged(weights, np.zeros(0, np.float32)))


def test_scores_are_inner_products_to_a_byte():
    passages = vectors([(7, 2.0), (30_000, 1.0)], [], [(30_000, 4.0)])
    question = vectors([(30_000, 1.5), (9, 3.0)])
    packed = pack(passages.terms, passages.weights)
    assert packed.values.shape == (3, 3)
    np.testing.assert_allclose(scores(question, packed), [1.5, 0, 6], atol=1.5 * 4 / 255 / 2)
    np.testing.assert_array_equal(scores(question, packed.take(np.array([2, 0]))), scores(question, packed)[[2, 0]])


def test_a_small_weight_is_not_lost_and_nothing_scores_nothing():
    packed = pack(*vars(vectors([(1, 0.001)])).values())
    assert scores(vectors([(1, 1.0)]), packed)[0] > 0
    assert scores(no_sparse(1), packed).tolist() == [0]
    assert scores(vectors([(1, 1.0)]), pack(*vars(no_sparse(2)).values())).tolist() == [0, 0]
