from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from semclass.ranking.thesis import class_match
from semclass.scoring.vectors import nth_at_least, top_k


@given(
    arrays(np.float64, st.integers(1, 400), elements=st.sampled_from([-np.inf, 0.0, 0.0, 0.0, 0.5, 1.0, 2.0])),
    st.integers(1, 40),
)
def test_top_k_is_the_beginning_of_a_stable_sort(scores, k):
    assert top_k(scores, k).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=300), st.integers(1, 20))
def test_a_number_that_the_nth_largest_is_not_below(values, n):
    scores = np.array(values, np.float32)
    found = nth_at_least(scores, n)
    assert np.count_nonzero(scores >= found) >= min(n, len(scores))
    assert found == -np.inf or found in scores


@pytest.mark.parametrize(("kind", "expected"), [("hard", [1.0, 0.0, 1.0]), ("soft", [0.60, 0.55, 0.35])])
def test_classes_match_from_a_threshold_on_or_by_probability(kind, expected):
    question, thresholds = np.array([0.2, 0.7, 0.1]), np.array([0.5, 0.5, 0.5])
    passages = np.array([[0.9, 0.6, 0.0], [0.9, 0.4, 0.9], [0.0, 0.5, 0.0]])
    np.testing.assert_allclose(class_match(question, passages, thresholds, kind), expected, atol=1e-12)
