"""Passages of one article share a fold: what was learnt from one of them says little about how well another is told."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

import train_passages as training
from articles import article_groups
from label_sources import passage_articles

BRIDGE = ["the bridge spans the river with iron arches", "iron arches of the bridge rust above the river"]
BEES = ["bees carry nectar and wax to the hive", "a hive of bees makes wax and honey"]
OTHERS = [f"word{letter * 4} stands{letter * 3} alone{letter * 5}" for letter in "cdfghjklmnpqrtvwxz"]


def test_passages_with_like_words_are_of_one_article():
    first, second, third, fourth = article_groups([BRIDGE[0], BEES[0], BRIDGE[1], BEES[1], *OTHERS], {})[:4]
    assert first == third
    assert second == fourth
    assert first != second


def test_an_article_that_is_known_stays_together_whatever_its_words():
    texts = [*BRIDGE, *BEES, *OTHERS]
    found = article_groups(texts, {BRIDGE[0]: "one", texts[-1]: "one"})
    assert found[0] == found[-1]
    assert found[0] != found[2]


@pytest.fixture(scope="module")
def corpus(data_folder):
    """The labelled passages."""
    return training.read_corpus(data_folder)


@pytest.mark.parametrize("seed", [0, 1])
def test_no_article_is_in_two_folds(corpus, seed):
    folds = training.gold_folds(corpus, "gold+read", seed)
    assert sorted(np.concatenate([scored for _, scored in folds])) == np.flatnonzero(corpus.sources == "gold").tolist()
    for rows, scored in folds:
        assert not set(corpus.articles[rows]) & set(corpus.articles[scored])
        truth = (corpus.labels[rows, 5] == 1).astype(int)
        for fit, held_out in training.inner_folds(truth, corpus.articles[rows], seed):
            assert not set(corpus.articles[rows[fit]]) & set(corpus.articles[rows[held_out]])


def test_articles_that_the_originals_tell_are_whole(corpus, data_folder):
    known = passage_articles(data_folder)
    groups = {}
    for text, group in zip(corpus.texts, corpus.articles.tolist(), strict=True):
        groups.setdefault(known.get(text, text), set()).add(group)
    assert {len(found) for found in groups.values()} == {1}
    assert sum(text in known for text in corpus.texts) == (corpus.sources != "gold").sum()


def test_two_chunks_of_one_encyclopaedia_article_are_together(corpus):
    places = {
        start: next(row for row, text in enumerate(corpus.texts) if text.startswith(start))
        for start in (
            "On January 20, 2017, Cohn took office",
            "Under the Trump administration, Cohn was cited",
            "ASOS plc",
            "In 2013, ASOS opened",
        )
    }
    one, two, three, four = corpus.articles[list(places.values())]
    assert one == two
    assert three == four
    assert one != three
