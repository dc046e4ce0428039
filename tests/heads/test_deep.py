"""Reading a question and a text together."""

from __future__ import annotations

import numpy as np
import pytest
from world import MODELS

from semclass.heads.entailment import MAX_PIECES, DeepHead, pairs_of

QUESTION = "When was the stone bridge built?"
TEXTS = ["Masons finished the crossing of the river in 1874.", "The stone bridge was built from granite blocks."]


@pytest.fixture(scope="module")
def head(models):
    return DeepHead.load(MODELS / "deep", models.encoder)


def test_of_a_long_question_the_end_is_read(models):
    long = " ".join(["before"] * 200) + " who built it?"
    ((states, marks),) = pairs_of(models.encoder, [long], [["Ada built it."]])
    assert len(states) == len(marks) <= MAX_PIECES + 10
    assert (marks == 1).sum() >= 2  # "built" and "it", though they stand at the end


def test_pairs_are_judged_one_by_one(head):
    pairs = [(QUESTION, TEXTS[:1]), (QUESTION, TEXTS), ("Who?", ["A ferry."])]
    together = head.read(*zip(*pairs, strict=True))
    alone = [head.read([question], [sentences])[0] for question, sentences in pairs]
    np.testing.assert_allclose(together, alone, atol=0.05)
