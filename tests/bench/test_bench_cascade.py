"""The benchmark's cascade: what is right by share sent, on numbers that can be checked by hand."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import cascade

HEAD, MODEL = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 1.0])
SURE = np.array([0.9, 0.2, 0.8, 0.1])


def test_the_least_sure_items_are_sent():
    assert cascade.first(SURE, 0.5).tolist() == [0, 1, 0, 1]
    assert [cascade.right(HEAD, MODEL, SURE, share) for share in (0, 0.25, 0.5, 1)] == [0.5, 0.75, 1.0, 0.75]
