"""Pair features against a slow, obvious implementation."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass.core.errors import InputError
from semclass.core.types import ragged
from semclass.encoders.words import CONTINUES, ENDING, WordTable
from semclass.index.candidates import Query
from semclass.ranking.features import PAIR_FEATURES, pair_features

VOCABULARY = 12
NOT_TERMS = (0, 1)
STEMS = [0, 1, 2, 3, 4, 4, 6, 7, CONTINUES, CONTINUES, ENDING, 11]
NUMBERS = (7, 9)
WORDS = WordTable.of(np.array([STEMS, [piece in NUMBERS for piece in range(VOCABULARY)]], np.int32))


def candidates(texts, dense):
    return SimpleNamespace(evidence=SimpleNamespace(**texts), dense=dense)


def taken(passages, rows):
    texts = {name: values.take(np.array(rows)) for name, values in vars(passages.evidence).items()}
    return candidates(texts, passages.dense[rows])


def make(seed, token_counts, extra, length, cut, *, dim=4, expected=2):
    """A question of `length` pieces and passages of the given sizes, from few pieces, so that there are matches."""
    rng = np.random.default_rng(seed)

    def vectors(count):
        values = rng.normal(size=(count, dim)).astype(np.float32)
        return values / np.linalg.norm(values, axis=1, keepdims=True)

    idf = rng.uniform(0.1, 8, VOCABULARY).astype(np.float32)
    idf[list(NOT_TERMS)] = 0
    terms = [rng.integers(0, VOCABULARY, count + more) for count, more in zip(token_counts, extra, strict=True)]
    n = len(token_counts)
    question = Query(
        text="",
        pooled=3 * vectors(1)[0],
        probabilities=np.zeros(0),
        tokens=vectors(length),
        weights=(rng.dirichlet(np.ones(length)) if length else np.zeros(0)).astype(np.float32),
        terms=rng.integers(0, VOCABULARY, length + cut),
        need_vector=(3 * vectors(1)[0] if expected else np.zeros(0)).astype(np.float32),
        expects=vectors(expected),
        query_used="",
    )
    empty, excerpts = np.zeros((0, dim), np.float32), [1 + count // 20 for count in token_counts]
    texts = {
        "tokens": ragged([vectors(count) for count in token_counts], empty),
        "excerpts": ragged([vectors(count) for count in excerpts], empty),
        "provides": ragged([vectors(count * bool(expected)) for count in excerpts], empty),
        "pieces": ragged(terms, np.zeros(0, np.int64)),
    }
    passages, own = candidates(texts, rng.uniform(-1, 1, n)), idf[question.terms]
    for array in (question.tokens, question.weights, question.terms, texts["tokens"].values, own):
        array.flags.writeable = False  # the inputs stay unchanged
    return question, passages, WORDS, own


@st.composite
def pairs(draw):
    n = draw(st.integers(1, 5))
    sizes = st.one_of(st.integers(0, 6), st.integers(14, 70))
    counts = draw(st.lists(sizes, min_size=n, max_size=n))
    extra = draw(st.lists(st.sampled_from([0, 0, 0, 1, 20]), min_size=n, max_size=n))
    length, cut = draw(st.integers(0, 7)), draw(st.sampled_from([0, 0, 2]))
    expected = draw(st.sampled_from([2, 2, 0]))
    return make(draw(st.integers(0, 2**32 - 1)), counts, extra, length, cut, expected=expected)


def words_in(terms):
    """Words as tuples of pieces, the first of them by its stem, without endings; and the pieces of each."""
    words = []
    for piece in terms.tolist():
        if STEMS[piece] >= 0 or not words:
            words.append([piece])
        else:
            words[-1].append(piece)
    keys = []
    for pieces in words:
        first, *others = pieces
        kept = [("stem", STEMS[first])] if STEMS[first] >= 0 else [("piece", first)] if STEMS[first] != ENDING else []
        # the place of a piece counts, also behind an ending
        kept += [(place, piece) for place, piece in enumerate(others, 1) if STEMS[piece] != ENDING]
        keys.append(tuple(kept))
    return keys, words


def slow(question, passages, _, idf):
    """All features, by their definitions."""
    evidence, q = passages.evidence, len(question.tokens)
    n = len(evidence.pieces)
    keys, pieces = words_in(question.terms)
    idf = iter(idf.tolist())
    weights = [max(next(idf) for _ in word) for word in pieces]
    total = sum(weights)
    share = [weight / total if total else 0.0 for weight in weights]
    word_of = [k for k, word in enumerate(pieces) for _ in word][:q]
    rarity = [math.log1p(weights[k]) / len(pieces[k]) for k in word_of]
    rarity = [value / sum(rarity) if sum(rarity) else 0.0 for value in rarity]
    s = question.weights.astype(float)
    rows = []
    for p in range(n):
        tokens = evidence.tokens.row(p).astype(float)
        cosine = [[float(question.tokens[i].astype(float) @ token) for token in tokens] for i in range(q)]
        best = [max(row, default=0.0) for row in cosine]
        held = words_in(evidence.pieces.row(p))[0]
        present = [key in held for key in keys]
        row = {
            "dense": passages.dense[p],
            "excerpt": max(evidence.excerpts.row(p) @ question.pooled / np.linalg.norm(question.pooled)),
            "cosine": sum(s[i] * best[i] for i in range(q)),
            "cosine_rarity": sum(rarity[i] * best[i] for i in range(q)),
            "cosine_unmatched": sum(s[i] * best[i] * (not present[word_of[i]]) for i in range(q)),
            "overlap": sum(share[k] * present[k] for k in range(len(keys))),
            "unmatched": sum(weights[k] * (not present[k]) for k in range(len(keys))),
            "numbers": sum(
                weights[k] > 0 and not present[k] and any(piece in NUMBERS for piece in pieces[k])
                for k in range(len(keys))
            ),
            "provided": 0.0,
            "expected": 0.0,
        }
        if len(question.need_vector):
            row["provided"] = max(float(excerpt @ question.need_vector) for excerpt in evidence.provides.row(p))
            nearest = [max((float(vector @ token) for token in tokens), default=0.0) for vector in question.expects]
            row["expected"] = sum(nearest) / len(nearest)
        row["unmet"], row["unmet_rarity"] = q * (1 - row["cosine"]), q * (1 - row["cosine_rarity"])
        row["neighbours"] = row["cosine"]
        if q > 1:
            after = [[*row[1:], 0.0][: len(row)] for row in cosine]  # the cosine with the next token, 0 beyond the end
            means = [[(a + b) / 2 for a, b in zip(cosine[i], after[i + 1], strict=True)] for i in range(q - 1)]
            row["neighbours"] = sum((s[i] + s[i + 1]) / 2 * max(means[i], default=0.0) for i in range(q - 1))
        rows.append(row)
    return np.array([[row[name] for name in PAIR_FEATURES] for row in rows])


@given(pairs())
def test_features_equal_their_definitions(pair):
    features = pair_features(*pair)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, slow(*pair), rtol=1e-4, atol=1e-4)


@given(pairs(), st.data())
def test_rows_follow_their_candidates(pair, data):
    question, passages, *others = pair
    features = pair_features(*pair)
    order = data.draw(st.permutations(range(len(passages.dense))))
    some = order[: data.draw(st.integers(1, len(order)))]
    found = pair_features(question, taken(passages, some), *others)
    np.testing.assert_allclose(found, features[some], rtol=1e-4, atol=1e-4)


def test_vectors_of_another_model_are_refused():
    question, *_ = make(9, [20], [0], 3, 0)
    _, *others = make(9, [20], [0], 3, 0, dim=5)
    with pytest.raises(InputError, match="5 dimensions"):
        pair_features(question, *others)
