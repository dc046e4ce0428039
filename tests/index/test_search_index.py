"""What can be told of an index on Qdrant without its client; the rest is in tests/integrations/test_qdrant.py."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from semclass import HybridRetriever, InputError, MissingExtraError, PassageIndex, QdrantIndex
from semclass.core.types import ragged
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import Dataset
from semclass.integrations.qdrant_collection import point_id
from semclass.scoring import bm25
from semclass.scoring.postings import count_terms

QUESTION = "Who designed the lighthouse?"

POINT = 1288543535859324655
"""Of lighthouse-1: another would be a collection whose passages can no longer be replaced."""


@dataclass(frozen=True)
class Elsewhere:
    """An index of another kind: rows are no places, and passages come with the scores."""

    real: PassageIndex

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __len__(self):
        return len(self.real)

    def candidates(self, query, n, scoring, *, passage_encoder=None, where=None):
        found = self.real.candidates(query, n, scoring, passage_encoder=passage_encoder, where=where)
        return replace(found, rows=found.rows + 10**12, passages=tuple(self.real.passages(found.rows)))

    def passages(self, rows):
        return self.real.passages(rows - 10**12)


@pytest.fixture(scope="module")
def index(models, corpus):
    return PassageIndex.build(corpus, passage_encoder=models.passage_encoder)


def test_a_retriever_searches_any_index_of_that_shape(index, models):
    here, there = HybridRetriever(index, models), HybridRetriever(Elsewhere(index), models)
    for how in ({}, {"method": "match-soft", "fusion": "convex"}):
        assert there.search(QUESTION, **how) == here.search(QUESTION, **how)


def test_an_index_of_another_kind_is_measured_as_well(index, models):
    dataset = Dataset(Path("made"), {"q": QUESTION}, {"q": {"lighthouse-3": 1}})
    here, there = (evaluate.rank(dataset, HybridRetriever(used, models)) for used in (index, Elsewhere(index)))
    assert here == there


def test_what_looks_at_every_passage_says_that_it_cannot(index, models):
    there = HybridRetriever(Elsewhere(index), models)
    (query,) = there.encode([QUESTION])
    for ask in (lambda: there.scores(query), there.untuned, lambda: there.embedded):
        with pytest.raises(InputError, match="looks at every passage, and a Elsewhere gives only the best ones"):
            ask()


def test_impacts_times_idf_are_the_scores(index, models):
    (query,) = models.encode([QUESTION])
    (segment,) = index.segments
    average = float(segment.postings.lengths.mean())
    wanted = index.lexical_scores(query.terms)
    found = []
    for first, last in ((0, 12), (12, 30)):  # blocks change nothing
        terms, values = bm25.impacts(segment.postings, first, last, average)
        for row in range(last - first):
            here = slice(terms.offsets[row], terms.offsets[row + 1])
            assert (np.diff(terms.values[here]) > 0).all()
            weights = dict(zip(terms.values[here].tolist(), values[here].tolist(), strict=True))
            found.append(sum(index.idf[term] * weights.get(term, 0.0) for term in query.terms.tolist()))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_impacts_of_a_passage_without_terms_are_none():
    found = count_terms(
        ragged([np.array([1, 1, 2]), np.array([0]), np.array([2])], np.zeros(0)), np.array([0, 1, 1], bool)
    )
    terms, values = bm25.impacts(found, 0, 3, 4 / 3)
    assert terms.lengths().tolist() == [2, 0, 1]
    assert terms.values.tolist() == [1, 2, 2]
    norm = 1.5 * (0.25 + 0.75 * np.array([3, 3, 1]) / (4 / 3))
    np.testing.assert_allclose(values, np.array([2, 1, 1]) * 2.5 / (np.array([2, 1, 1]) + norm), rtol=1e-6)


def test_numbers_of_points_fit_63_bits_and_stay_the_same():
    assert point_id("lighthouse-1") == point_id("lighthouse-1") == POINT
    numbers = {point_id(str(number)) for number in range(10_000)}
    assert len(numbers) == 10_000
    assert all(0 <= number < 2**63 for number in numbers)


def test_without_the_client_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingExtraError, match=r'pip install "semclass\[qdrant\]"'):
        QdrantIndex.connect("http://localhost:6333", "passages")
