from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.types import Ragged, ragged
from semclass.heads import sparse
from semclass.index import passage_index
from semclass.index.candidates import Query, Scoring
from semclass.index.passage_index import NEAR, PassageIndex, find, largest_nearby
from semclass.index.segment import Part as IndexPart
from semclass.scoring import dense
from semclass.scoring.approximation import reduce_vectors
from semclass.scoring.bm25 import Postings, count_terms
from semclass.scoring.dense import Vectors, shares_of
from semclass.scoring.fusion import pool
from semclass.scoring.vectors import to_quarter_bytes, top_k, unit

DIM, VOCABULARY = 8, 20


@dataclass(frozen=True)
class Part:
    """The parts of a segment that a search reads."""

    vectors: Vectors
    postings: Postings
    sparse: Ragged

    def __len__(self):
        return len(self.vectors)

    @property
    def probabilities(self):
        return np.zeros((len(self), 0), np.float32)


@dataclass(frozen=True)
class Searched(PassageIndex):
    """An index of such parts, whose questions are lists of terms."""

    def terms_of(self, query):
        return query.terms.astype(np.uint32)


def index_of(parts: list[Part]) -> Searched:
    header = dict.fromkeys(("encoder", "head", "codebooks", "sparse", "language"), "")
    return Searched(**header, classes=(), thresholds=(), small=False, heads={}, parts=tuple(map(IndexPart, parts)))


def part(n: int, seed: int, *, reduced: bool = False, exact: bool = False, alike: int = 1) -> Part:
    """Passages of two excerpts; `alike` each have the same vectors, and as many the same terms; some vectors are zero."""
    rng = np.random.default_rng(seed)
    different = -(-n // alike)
    found = rng.normal(size=(different, 2, DIM)).astype(np.float32)
    found[0] = 0
    found = unit(found)[rng.permutation(n) // alike].reshape(-1, DIM)
    offsets = np.arange(0, 2 * n + 1, 2)
    shares = shares_of(found, np.ones(2 * n, np.float32), offsets)
    codes, scales = (found, np.ones(2 * n, np.float32)) if exact else to_quarter_bytes(found)
    terms = [rng.zipf(1.5, rng.integers(0, 12)).clip(0, VOCABULARY - 1) for _ in range(different)]
    terms = [terms[place] for place in rng.permutation(n) // alike]
    postings = count_terms(ragged(terms, np.zeros(0, np.int64)))
    index = reduce_vectors(codes, scales) if reduced else None
    vectors = Vectors(Ragged(codes, offsets), scales, shares, index)
    learnt = [rng.choice(VOCABULARY, rng.integers(0, 6), replace=False) for _ in range(n)]
    learnt = [np.array([row, rng.random(len(row))], np.float32).T for row in learnt]
    return Part(vectors, postings, sparse.pack(ragged(learnt, np.zeros((0, 2), np.float32))))


def question(seed: int) -> Query:
    rng = np.random.default_rng(seed)
    none, pooled = np.zeros((0, DIM), np.float32), unit(rng.normal(size=DIM).astype(np.float32))
    return Query(
        text="", pooled=pooled * np.float32(rng.choice([1, 1, 30, 0])), probabilities=np.zeros(0),
        tokens=none, weights=none[:, 0], terms=rng.integers(0, VOCABULARY, rng.integers(0, 6)),
        need_vector=none[:, 0], expects=none, query_used="", sparse=LEARNT,
    )  # fmt: skip


def exhaustive(index: Searched, query: Query, n: int, scoring: Scoring, allowed: np.ndarray | None = None):
    """Rows and scores of the n best passages, by scoring each."""
    dense, lexical = index.scores(query)
    rows, depth = np.arange(len(dense)) if allowed is None else np.flatnonzero(allowed), max(passage_index.DEPTH, n)
    dense, lexical = dense[rows], lexical[rows]
    if scoring.fusion != "linear":
        listed = {"dense": dense, "bm25": lexical}
        own = pool({scoring.alone: listed[scoring.alone]}, depth) if scoring.alone else []
        there = own if len(own) == depth or scoring.alone == "bm25" else pool(listed, depth)
        rows, dense, lexical = rows[there], dense[there], lexical[there]
    signals = {"dense": dense, "bm25": lexical, "sparse": passage_index.sparse_scores(index, query, rows)}
    score = sum(scoring.parts(signals, index.statistics, index.terms_of(query), depth).values())
    best = top_k(score, n)
    return rows[best], score[best]


LEARNT = np.array([np.arange(0, 20, 3), np.linspace(1, 2, 7)], np.float32).T
scorings = st.sampled_from(
    [Scoring({"dense": 1.0, "bm25": weight}) for weight in (0.0, 0.1, 2.0)]
    + [
        Scoring({"dense": dense, "bm25": bm25, "sparse": 1 - dense - bm25}, "convex")
        for dense, bm25 in ((0.0, 1.0), (0.5, 0.25), (1.0, 0.0), (0.5, 0.5))
    ]
    + [Scoring({"dense": 1.0, "bm25": 1.0, "sparse": 1.0}, "rrf")]
)


@pytest.fixture
def quickly_large(monkeypatch):
    """Corpora of some hundred passages are searched as large ones are."""
    monkeypatch.setattr(dense, "LAYOUT_FROM", 64)
    for name, value in {"EXHAUSTIVE_BELOW": 0, "EXHAUSTIVE_FILTERED": 5, "DEPTH": 6}.items():
        monkeypatch.setattr(passage_index, name, value)


SEGMENTS = [part(300, 1), part(3, 2), part(200, 3)]
REDUCED = [part(300, 1, reduced=True), SEGMENTS[1], part(200, 3, reduced=True)]
EVERY_KIND = [
    [part(size, size, exact=exact, alike=alike) for size in (170, 1, 90)]
    for exact in (False, True)
    for alike in (1, 5, 50)
]


@pytest.mark.usefixtures("quickly_large")
class TestLargeCorpora:
    @given(
        st.sampled_from([SEGMENTS, *EVERY_KIND]),
        scorings,
        st.integers(0, 10_000),
        st.integers(1, 40),
        st.sampled_from([None, 0.02, 0.5, 0.97]),
    )
    def test_search_finds_what_exhaustive_scoring_finds(self, parts, scoring, seed, n, share):
        allowed = None if share is None else np.random.default_rng(seed).random(sum(map(len, parts))) < share
        index, query = index_of(parts), question(seed)
        found = find(index, query, n, scoring, allowed)
        rows, score = exhaustive(index, query, n, scoring, allowed)
        np.testing.assert_array_equal(found.rows, rows)
        np.testing.assert_array_equal(sum(found.parts.values()), score)
        np.testing.assert_array_equal(found.dense, index.scores(query)[0][rows])

    @given(scorings, st.integers(0, 10_000))
    def test_reduced_vectors_of_all_dimensions_change_nothing(self, scoring, seed):
        found, wanted = (find(index_of(parts), question(seed), 5, scoring).rows for parts in (REDUCED, SEGMENTS))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("parts", [[part(250, 1)], [part(250, 1, reduced=True), SEGMENTS[1]]])
def test_for_bm25_alone_few_passages_are_compared(monkeypatch, parts):
    compared, scores_at = [], Vectors.scores_at
    monkeypatch.setattr(Vectors, "scores_at", lambda *args: compared.append(len(args[2])) or scores_at(*args))
    index, query = index_of(parts), replace(question(5), terms=np.array([0, 1, 2]))
    scoring = Scoring({"dense": 0.0, "bm25": 1.0}, "convex")
    rows = find(index, query, 10, scoring).rows
    assert sum(compared) == passage_index.DEPTH
    np.testing.assert_array_equal(rows, exhaustive(index, query, 10, scoring)[0])


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1), st.floats(0, 9)), unique_by=lambda row: row[0]).map(
        sorted
    )
)
def test_the_largest_score_nearby_is_that_of_all_pairs(rows):
    places, titles, scores = (
        np.array([row[at] for row in rows], kind) for at, kind in enumerate((int, np.uint64, float))
    )
    wanted = [max(s for place, t, s in rows if abs(place - here) <= NEAR and t == title) for here, title, _ in rows]
    np.testing.assert_array_equal(largest_nearby(places, titles, scores), wanted)
