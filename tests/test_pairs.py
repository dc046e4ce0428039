"""Pair features against a slow, obvious implementation, and what must not change them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.errors import InputError
from semclass.pairs import CANDIDATE_FEATURES, PAIR_FEATURES, TEXT_FEATURES, pair_features
from semclass.types import Ragged, ragged

VOCABULARY = 12
NOT_TERMS = (0, 1)


@dataclass(frozen=True)
class Question:
    tokens: np.ndarray
    terms: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True)
class Passages:
    tokens: Ragged
    terms: Ragged
    idf: np.ndarray
    dense: np.ndarray
    bm25: np.ndarray
    probabilities: np.ndarray

    def take(self, rows) -> Passages:
        rows = np.asarray(rows, np.int64)
        return Passages(
            self.tokens.take(rows),
            self.terms.take(rows),
            self.idf,
            self.dense[rows],
            self.bm25[rows],
            self.probabilities[rows],
        )


def make(seed, token_counts, extra, asked, cut, *, dim=4, classes=3):
    """A question of `asked` pieces and passages of the given sizes, from few pieces, so that there are matches."""
    rng = np.random.default_rng(seed)

    def vectors(count):
        values = rng.normal(size=(count, dim)).astype(np.float32)
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    idf = rng.uniform(0.1, 8, VOCABULARY).astype(np.float32)
    idf[list(NOT_TERMS)] = 0
    terms = [rng.integers(0, VOCABULARY, count + more) for count, more in zip(token_counts, extra, strict=True)]
    n = len(token_counts)
    question = Question(vectors(asked), rng.integers(0, VOCABULARY, asked + cut), rng.dirichlet(np.ones(classes)))
    passages = Passages(
        ragged([vectors(count) for count in token_counts], np.zeros((0, dim), np.float32)),
        ragged(terms, np.zeros(0, np.int64)),
        idf,
        rng.uniform(-1, 1, n),
        rng.uniform(0, 30, n),
        rng.uniform(size=(n, classes)).astype(np.float32),
    )
    return question, passages


@st.composite
def pairs(draw):
    n = draw(st.integers(1, 5))
    sizes = st.one_of(st.integers(0, 6), st.integers(14, 70))
    counts = draw(st.lists(sizes, min_size=n, max_size=n))
    extra = draw(st.lists(st.sampled_from([0, 0, 0, 1, 20]), min_size=n, max_size=n))
    asked, cut = draw(st.integers(1, 7)), draw(st.sampled_from([0, 0, 2]))
    return make(draw(st.integers(0, 2**32 - 1)), counts, extra, asked, cut)


def windows(length, blocks):
    """Places of each window of so many blocks of 16, one beginning at every block."""
    return [range(start, min(start + 16 * blocks, length)) for start in range(0, length, 16)]


def slow_row(question, passages, p):
    """Features from the two texts alone, one loop per sum, and m_i and [i in p] for those of the candidates."""
    tokens, terms = passages.tokens.row(p).astype(float), passages.terms.row(p)
    weights = [float(passages.idf[term]) for term in question.terms]
    total = sum(weights)
    share = [weight / total if total else 0.0 for weight in weights]
    q, m = len(question.tokens), len(question.terms)
    own = sum(weights[:q])
    token_share = [weight / own if own else 0.0 for weight in weights[:q]]
    cosine = [[float(question.tokens[i].astype(float) @ tokens[j]) for j in range(len(tokens))] for i in range(q)]
    present = [question.terms[i] in terms for i in range(m)]
    best = [max(row, default=0.0) for row in cosine]

    def late(blocks, shares):
        found = windows(len(tokens), blocks)
        return max((sum(shares[i] * max(cosine[i][j] for j in w) for i in range(q)) for w in found), default=0.0)

    def overlap(blocks):
        found = windows(len(terms), blocks)
        return max(
            (sum(share[i] * (question.terms[i] in terms[list(w)]) for i in range(m)) for w in found), default=0.0
        )

    even = [1 / q] * q
    follows = [
        any(question.terms[i] == terms[j] and question.terms[i + 1] == terms[j + 1] for j in range(len(terms) - 1))
        for i in range(m - 1)
    ]
    direction = question.tokens.astype(float).sum(axis=0)
    direction /= np.linalg.norm(direction)
    missing = [weights[i] * (not present[i]) for i in range(m)]
    row = {
        "cosine": sum(token_share[i] * best[i] for i in range(q)),
        "cosine_16": late(1, token_share),
        "cosine_32": late(2, token_share),
        "cosine_64": late(4, token_share),
        "cosine_even": sum(best) / q,
        "cosine_even_32": late(2, even),
        "cosine_unmatched": sum(token_share[i] * best[i] * (not present[i]) for i in range(q)),
        "overlap": sum(share[i] * present[i] for i in range(m)),
        "overlap_32": overlap(2),
        "overlap_64": overlap(4),
        "unmatched": sum(missing),
        "unmatched_max": max(missing),
        "phrase": sum(min(share[i], share[i + 1]) * follows[i] for i in range(m - 1)),
        "phrase_even": sum(follows) / m,
        "mean_32": max(
            (sum(float(tokens[j] @ direction) for j in window) / len(window) for window in windows(len(tokens), 2)),
            default=0.0,
        ),
        "peak": max(
            (sum(token_share[i] * max(cosine[i][j], 0) for i in range(q)) for j in range(len(tokens))), default=0.0
        ),
        "dense": passages.dense[p],
        "match": float(sum(a * b for a, b in zip(question.probabilities, passages.probabilities[p], strict=True))),
    }
    return row, best, present, token_share, share


def slow(question, passages):
    """All features, by their definitions."""
    n = len(passages.terms)
    parts = [slow_row(question, passages, p) for p in range(n)]
    rows = [part[0] for part in parts]
    token_share, share = parts[0][3], parts[0][4]
    for name, floor in (
        ("dense", 0.01),
        ("bm25", 0.1),
        ("cosine", 0.01),
        ("cosine_32", 0.01),
        ("cosine_even", 0.01),
        ("overlap", 0.01),
        ("match", 0.01),
    ):
        values = list(passages.bm25) if name == "bm25" else [row[name] for row in rows]
        mean = sum(values) / n
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / n)
        for row, value in zip(rows, values, strict=True):
            row[f"{name}_z"] = (value - mean) / (deviation + floor)
    for p, (row, best, present, _, _) in enumerate(parts):
        row["dense_gap"] = passages.dense[p] - max(passages.dense)
        row["bm25_gap"] = (passages.bm25[p] - max(passages.bm25)) / 10
        row["overlap_rare"] = sum(
            share[i] * present[i] * (1 - sum(part[2][i] for part in parts) / n) for i in range(len(share))
        )
        row["advantage"] = sum(
            token_share[i] * max(best[i] - sum(part[1][i] for part in parts) / n, 0) for i in range(len(token_share))
        )
        row["vote"] = sum(
            token_share[i] * math.exp(10 * best[i]) / sum(math.exp(10 * part[1][i]) for part in parts)
            for i in range(len(token_share))
        )
    return np.array([[row[name] for name in PAIR_FEATURES] for row in rows])


@given(pairs())
def test_equals_the_definitions(pair):
    question, passages = pair
    features = pair_features(question, passages)
    assert features.dtype == np.float32
    # z-scores divide by a standard deviation of at least 0.01, which makes float32 cosines 100 times less exact
    np.testing.assert_allclose(features, slow(question, passages), rtol=1e-4, atol=2e-4)


@given(pairs(), st.randoms(use_true_random=False))
def test_order_of_candidates_orders_the_rows(pair, random):
    question, passages = pair
    order = list(range(len(passages.terms)))
    random.shuffle(order)
    expected = pair_features(question, passages)[order]
    np.testing.assert_allclose(pair_features(question, passages.take(order)), expected, rtol=1e-4, atol=1e-4)


@given(pairs())
def test_equal_candidates_have_equal_rows(pair):
    question, passages = pair
    twice = passages.take([*range(len(passages.terms)), 0])
    features = pair_features(question, twice)
    np.testing.assert_allclose(features[-1], features[0], rtol=1e-4, atol=1e-4)


@given(pairs())
def test_text_features_do_not_depend_on_other_candidates(pair):
    question, passages = pair
    together = pair_features(question, passages)[:, : len(TEXT_FEATURES)]
    for p in range(len(passages.terms)):
        alone = pair_features(question, passages.take([p]))[0, : len(TEXT_FEATURES)]
        np.testing.assert_allclose(alone, together[p], rtol=1e-4, atol=1e-4)


@given(pairs())
def test_int8_vectors_are_taken_as_what_they_stand_for(pair):
    question, passages = pair
    whole = Ragged(np.rint(passages.tokens.values * 127).astype(np.int8), passages.tokens.offsets)
    parts = Ragged(whole.values.astype(np.float32) / 127, whole.offsets)
    np.testing.assert_allclose(
        pair_features(question, replace(passages, tokens=whole)),
        pair_features(question, replace(passages, tokens=parts)),
        rtol=1e-3,
        atol=1e-3,
    )


@given(pairs())
def test_shares_stay_in_their_range(pair):
    features = pair_features(*pair)
    assert np.isfinite(features).all()
    for name in ("overlap", "overlap_32", "overlap_64", "overlap_rare", "phrase", "phrase_even", "vote"):
        column = features[:, PAIR_FEATURES.index(name)]
        assert ((column >= 0) & (column <= 1 + 1e-5)).all(), name
    for name in ("dense_gap", "bm25_gap"):
        assert (features[:, PAIR_FEATURES.index(name)] <= 0).all(), name


def column(features, name):
    return features[:, PAIR_FEATURES.index(name)]


def test_one_candidate_has_nobody_to_compare_with():
    features = pair_features(*make(0, [20], [0], 5, 0))
    for name in CANDIDATE_FEATURES:
        if name not in {"vote", "overlap_rare"}:
            assert column(features, name)[0] == pytest.approx(0, abs=1e-6), name
    assert column(features, "vote")[0] == pytest.approx(1)


def test_no_shared_terms():
    question, passages = make(1, [20, 3], [0, 0], 5, 0)
    question = replace(question, terms=np.full(5, 5))
    passages = replace(passages, terms=Ragged(np.full(23, 6), passages.terms.offsets))
    features = pair_features(question, passages)
    for name in ("overlap", "overlap_32", "phrase", "phrase_even", "overlap_rare"):
        assert (column(features, name) == 0).all()
    np.testing.assert_allclose(column(features, "unmatched"), 5 * passages.idf[5], rtol=1e-6)
    np.testing.assert_allclose(column(features, "cosine_unmatched"), column(features, "cosine"), rtol=1e-6)


def test_a_passage_without_tokens_has_no_cosines():
    features = pair_features(*make(2, [0, 20, 0], [3, 0, 0], 5, 0))
    assert np.isfinite(features).all()
    for name in ("cosine", "cosine_16", "cosine_64", "mean_32", "peak"):
        assert column(features, name)[0] == column(features, name)[2] == 0


def test_only_passages_without_tokens():
    features = pair_features(*make(3, [0, 0], [0, 0], 3, 0))
    assert features.shape == (2, len(PAIR_FEATURES))
    assert np.isfinite(features).all()


def test_a_passage_of_one_token():
    question, passages = make(4, [1, 20], [0, 0], 5, 0)
    features = pair_features(question, passages)
    np.testing.assert_allclose(column(features, "cosine")[0], column(features, "cosine_16")[0], rtol=1e-6)
    np.testing.assert_allclose(features, slow(question, passages), rtol=1e-4, atol=2e-4)


def test_neighbours_in_different_passages_are_no_phrase():
    question, passages = make(5, [1, 1], [0, 0], 2, 0)
    question = replace(question, terms=np.array([4, 5]))
    passages = replace(passages, terms=Ragged(np.array([4, 5]), passages.terms.offsets))
    assert (column(pair_features(question, passages), "phrase_even") == 0).all()


def test_a_question_without_terms():
    question, passages = make(6, [20, 5], [0, 0], 3, 0)
    features = pair_features(replace(question, terms=np.zeros(3, np.int64)), passages)
    assert np.isfinite(features).all()
    assert (column(features, "cosine") == 0).all()
    assert (column(features, "cosine_even") != 0).all()


def test_a_question_without_tokens():
    features = pair_features(*make(11, [20, 5], [0, 0], 0, 0))
    assert np.isfinite(features).all()


def test_no_classes():
    question, passages = make(7, [20, 5], [0, 0], 3, 0)
    features = pair_features(
        replace(question, probabilities=np.zeros(0)), replace(passages, probabilities=np.zeros((2, 0), np.float32))
    )
    assert (column(features, "match") == 0).all()
    assert (column(features, "match_z") == 0).all()


def test_no_candidates():
    question, passages = make(8, [20], [0], 3, 0)
    assert pair_features(question, passages.take([])).shape == (0, len(PAIR_FEATURES))


def test_vectors_of_another_encoder_are_refused():
    question, _ = make(9, [20], [0], 3, 0)
    _, passages = make(9, [20], [0], 3, 0, dim=5)
    with pytest.raises(InputError, match="5 dimensions"):
        pair_features(question, passages)


def test_what_is_handed_in_stays_unchanged():
    question, passages = make(10, [20, 40], [0, 0], 5, 1)
    ours = (passages.tokens.values, passages.terms.values, passages.idf, passages.dense, passages.bm25)
    for array in (question.tokens, question.terms, question.probabilities, *ours):
        array.flags.writeable = False
    pair_features(question, passages)
