"""Passages of one article share a fold: what was learnt from one of them says little about how well another is told."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

import train_passages as training
from labels import article_groups

BRIDGE = ["the bridge spans the river with iron arches", "iron arches of the bridge rust above the river"]
BEES = ["bees carry nectar and wax to the hive", "a hive of bees makes wax and honey"]
OTHERS = [f"word{letter * 4} stands{letter * 3} alone{letter * 5}" for letter in "cdfghjklmnpqrtvwxz"]


def test_like_passages_are_of_one_article():
    texts = [*BRIDGE, *BEES, *OTHERS]
    bridge, again, bees, more, *_, last = article_groups(texts, {})
    assert (bridge, bees) == (again, more)
    assert len({bridge, bees, last}) == 3
    known = article_groups(texts, {BRIDGE[0]: "one", texts[-1]: "one"})
    assert known[0] == known[-1] != known[2]


@pytest.fixture(scope="module")
def corpus(data_folder):
    """The labelled passages."""
    return training.read_corpus(data_folder)


def test_no_article_is_in_two_folds(corpus):
    folds = training.gold_folds(corpus, 0)
    assert sorted(np.concatenate([scored for _, scored in folds])) == np.flatnonzero(corpus.sources == "gold").tolist()
    for rows, scored in folds:
        assert not set(corpus.articles[rows]) & set(corpus.articles[scored])
        truth = (corpus.labels[rows, 5] == 1).astype(int)
        for fit, held_out in training.inner_folds(truth, corpus.articles[rows], 0):
            assert not set(corpus.articles[rows[fit]]) & set(corpus.articles[rows[held_out]])
