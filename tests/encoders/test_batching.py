"""Batches: rows of like length, few enough for the cache."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semclass.encoders.batching import PIECES, batches_by_length


def test_batches_are_cut_by_number_and_by_word_pieces():
    lengths = np.array([125, 3, 125, 3, 125, 3])
    assert [batch.tolist() for batch in batches_by_length(lengths, 2)] == [[1, 3], [5, 0], [2, 4]]
    assert batches_by_length(np.zeros(0, np.int64), 8) == []


@given(st.lists(st.integers(0, 3000), max_size=60), st.integers(1, 40))
def test_every_row_is_in_one_batch(lengths, size):
    batches = batches_by_length(np.array(lengths, np.int64), size)
    assert sorted(place for batch in batches for place in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= size
        assert len(batch) == 1 or len(batch) * max(lengths[place] for place in batch) <= PIECES
