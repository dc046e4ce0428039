"""Heads at work: what a boost gives is what a search gives, and differences are drawn by document."""

import numpy as np
import pytest

from bench import heads
from semclass import Passage
from semclass.core.types import Hit
from semclass.heads.texts import TextLabels


def hit(name, score, label):
    return Hit(name, name, {"kind": label, "kind_probability": 0.5}, score, 1, 1, {}, (), {})


def test_a_boost_adds_both_probabilities():
    asked = TextLabels("?", ("cause",), {"cause": 0.8, "cure": 0.2})
    hits = [hit("a", 1.0, "cure"), hit("b", 0.8, "cause"), hit("c", 0.8, "cause"), hit("d", 0.1, "cause")]
    (found,) = heads.boosted([hits], [asked], "kind", 1.0)
    assert [each.id for each in found] == ["b", "c", "a", "d"]


def test_what_answers_first_is_worth_most():
    assert heads.ndcg(["a", "b"], frozenset("a")) == 1
    assert heads.ndcg(["b", "a"], frozenset("a")) == pytest.approx(1 / np.log2(3))
    assert heads.ndcg(["b"], frozenset("a")) == 0


def test_a_difference_has_an_interval_over_documents():
    passages = [Passage(str(place), "text", {"title": f"document {place // 5}"}) for place in range(50)]
    part = heads.Sections(passages, ["cause"] * 50, ["?"] * 50)
    base, found = np.zeros((50, 2)), np.repeat(np.arange(10) % 2, 5)[:, None] * np.ones(2)
    row = heads.figures("boost", found, base, part)
    low, high = row["difference_ci"]
    assert (row["ndcg@10"], row["difference"]) == (0.5, 0.5)
    assert 0 < low < 0.3 < 0.7 < high < 1
    assert heads.figures("default", base, base, part)["difference_ci"] == [0, 0]
