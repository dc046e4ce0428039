from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semclass import InputError, Passage
from semclass_documents.duplicates import mark_duplicates, shingles

WORDS = ["lamp", "keeper", "dusk", "fog", "sea", "ship", "oil", "stone", "tower", "winter", "storm", "bridge"]


def made(random, length=80):
    return " ".join(random.choice(WORDS) + random.choice(list("abcdefghijklmnopqrstuvwxyz")) for _ in range(length))


def changed(random, text, words):
    parts = text.split()
    for place in random.choice(len(parts), words, replace=False):
        parts[place] = "other"
    return " ".join(parts)


def marks(texts, **options):
    passages = [Passage(str(number), text) for number, text in enumerate(texts)]
    return [passage.metadata.get("duplicate_of") for passage in mark_duplicates(passages, **options)]


def resemblance(first, second):
    one, other = shingles(first).runs, shingles(second).runs
    return len(one & other) / len(one | other)


def test_a_near_duplicate_is_marked_with_the_earliest():
    random = np.random.default_rng(0)
    text = made(random)
    near, far = changed(random, text, 1), changed(random, text, 9)
    assert marks([text, made(random), near, far, text.upper(), "Yes.", "No.", "Yes!"]) == [
        None, None, "0", None, "0", None, None, "5",
    ]  # fmt: skip


def test_reports_of_two_years_are_no_duplicates():
    text = made(np.random.default_rng(2), 200)
    assert resemblance(f"{text} 1874.", f"{text} 1875.") > 0.98
    assert marks([f"{text} 1874.", f"{text} 1875.", f"{text} in 1874."]) == [None, None, "0"]


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.sampled_from([0.8, 0.9, 1.0]))
def test_marks_are_exact_and_nearly_complete(seed, threshold):
    random = np.random.default_rng(seed)
    texts = [made(random, int(length)) for length in random.integers(20, 120, 60)]
    near = [changed(random, text, int(random.integers(0, 6))) for text in texts]
    found = marks(texts + near, threshold=threshold)[len(texts) :]
    exact = [resemblance(*pair) for pair in zip(texts, near, strict=True)]
    wanted = [str(number) if value >= threshold else None for number, value in enumerate(exact)]
    assert all(mark in (None, want) for mark, want in zip(found, wanted, strict=True))
    assert sum(mark != want for mark, want in zip(found, wanted, strict=True)) <= 6


@pytest.mark.parametrize("threshold", [0, -1, 1.5])
def test_a_threshold_is_a_share(threshold):
    with pytest.raises(InputError, match=f"threshold is {threshold}"):
        mark_duplicates([], threshold=threshold)
