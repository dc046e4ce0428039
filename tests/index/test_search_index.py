"""Indices of other kinds, such as one on a server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from semclass import HybridRetriever, InputError, PassageIndex
from semclass.core.types import ragged
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import Dataset
from semclass.scoring import bm25
from semclass.scoring.postings import count_terms

QUESTION = "Who designed the lighthouse?"


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


@pytest.fixture
def elsewhere(retriever, models):
    return HybridRetriever(Elsewhere(retriever.index), models)


@pytest.mark.parametrize(
    "options", [{}, {"method": "match-soft"}, {"fusion": "linear"}, {"fusion": "convex"}, {"fusion": "rrf"}], ids=str
)
def test_a_retriever_searches_an_index_of_another_kind(retriever, elsewhere, options):
    assert elsewhere.search(QUESTION, **options) == retriever.search(QUESTION, **options)


def test_an_index_of_another_kind_is_evaluated(retriever, elsewhere):
    dataset = Dataset(Path("made"), {"q": QUESTION}, {"q": {"lighthouse-3": 1}})
    assert evaluate.rank(dataset, elsewhere) == evaluate.rank(dataset, retriever)


def test_scores_of_every_passage_are_refused(elsewhere):
    (query,) = elsewhere.encode([QUESTION])
    for ask in (lambda: elsewhere.scores(query), elsewhere.untuned, lambda: elsewhere.local_index):
        with pytest.raises(InputError, match="needs every passage, and a Elsewhere returns only the best"):
            ask()


def test_impacts_times_idf_are_the_bm25_scores(retriever, models):
    (query,), index = models.encode([QUESTION]), retriever.index
    (segment,) = index.segments
    found = []
    for first, last in ((0, 12), (12, 30)):  # blocks change nothing
        terms, values = bm25.impacts(segment.postings, first, last, float(segment.postings.lengths.mean()))
        for row in range(last - first):
            here = slice(terms.offsets[row], terms.offsets[row + 1])
            weights = dict(zip(terms.values[here].tolist(), values[here].tolist(), strict=True))
            found.append(sum(index.idf[term] * weights.get(term, 0.0) for term in query.terms.tolist()))
    np.testing.assert_allclose(found, index.lexical_scores(query.terms), atol=1e-5)
    stopwords = count_terms(ragged([np.array([0]), np.array([1])], np.zeros(0)), np.array([0, 1], bool))
    assert bm25.impacts(stopwords, 0, 2, 1.0)[0].lengths().tolist() == [0, 1]
