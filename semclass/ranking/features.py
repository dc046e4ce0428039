"""Pair features: numbers for the similarity of a question and its candidate passages. A linear head reads them.

The default method adds some of them to the scores of candidates, as evidence.

All candidates of a question are described in one pass. Notation in the formulas of :data:`FEATURES`:

* i runs over the q word pieces of the question that have token vectors, j over the token vectors of the passage; c_ij is
  their cosine, and m_i = max_j c_ij, or 0 if the passage has none;
* s_i is the share of piece i in the question by the weights of the encoder (:attr:`Query.weights`), and u_i is its share
  by rarity: ln(1 + w) of its word, divided among the word's pieces, scaled to sum 1;
* e runs over the vectors that the question expects of an answer, see :attr:`Query.expects`;
* k runs over the words of the question (see :mod:`semclass.encoders.words`); w_k is the largest inverse document
  frequency (idf) of its pieces, 0 if it is not a term; v_k = w_k / sum(w); [k in p] is 1 if the passage has the word,
  else 0.

Sums of m_i are the late interaction of Khattab & Zaharia (2020, ColBERT), with weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError, InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray, Ragged
from semclass.encoders.words import WordTable, words_of
from semclass.heads.head import Head
from semclass.index.candidates import Candidates, Query, sum_of
from semclass.scoring.vectors import float_products, unit

FEATURES: Mapping[str, str] = {
    "dense": "cosine of the vectors",
    "excerpt": "largest cosine of the question's vector with that of an excerpt; 0 if none",
    "cosine": "sum_i s_i m_i",
    "cosine_rarity": "sum_i u_i m_i",
    "cosine_unmatched": "sum_i s_i m_i (1 - [k in p]), where k is the word of piece i",
    # words in the question's order; c is 0 beyond the passage's end
    "neighbours": "sum_i<q (s_i + s_i+1) / 2 max_j (c_i,j + c_i+1,j+1) / 2; `cosine` if q = 1",
    "unmet": "q (1 - cosine): unmatched part of the question, in word pieces",
    "unmet_rarity": "q (1 - cosine_rarity)",
    "overlap": "sum_k v_k [k in p]",
    "unmatched": "sum_k w_k (1 - [k in p]), in units of idf",
    "numbers": "number of the question's words with a digit that the passage lacks",
    # high where an excerpt gives what is asked, low where it only resembles the question; 0 where the encoder cannot tell
    "provided": "largest product of the question's need vector with `provides` of an excerpt",
    "expected": "mean_e max_j <e, token vector j>",
}
"""The columns of :func:`pair_features`, in order: name and formula."""

PAIR_FEATURES = tuple(FEATURES)  #: names of the columns
COLUMN: Mapping[str, int] = {name: place for place, name in enumerate(PAIR_FEATURES)}  #: place of each column


NEIGHBOURS = 0.7
"""Weight of the pair feature ``neighbours`` beside a convex combination. With the other features, fitted together, domains
left out gain no more: ``docs/decisions/signals.md``.
"""

OF_SHORT: Mapping[str, float] = {"cosine": 1.3, "provided": 0.08, "overlap": -0.7, "numbers": -0.3}
"""Weights for short passages that come with a question. An answer has the requested content, an echo only words."""

STORED_SHARE = 0.1
"""Share of `OF_SHORT` for passages of an index, few of which are echoes of a question."""

SHORT = 20.0
"""Mean number of word pieces up to which candidates are short, such as sentences or answers to frequent questions.

The weights of longer ones are smaller in proportion.
"""

_GROUPS = {"meaning": ("neighbours", "cosine"), "answers": ("provided",), "words": ("overlap", "numbers")}


def pair_features(query: Query, candidates: Candidates, words: WordTable, idf: FloatArray) -> FloatArray:
    """Describe n candidates of a question, float32 of shape (n, n_features). See :data:`FEATURES`.

    `idf` is the inverse document frequency of the question's word pieces, (m,).
    """
    n, provides = len(candidates.evidence.pieces), candidates.evidence.provides
    if not n:
        return np.zeros((0, len(PAIR_FEATURES)), np.float32)
    tells = len(query.need_vector) and len(provides.values)
    starts, present = _compared_words(query, candidates, words)
    word = np.searchsorted(starts, np.arange(len(query.tokens)), side="right") - 1
    best, semantic = _semantic(query, candidates.evidence.tokens, present[word])
    question = _weighed(query, starts, idf, words)
    rare = _summed(question.rarity, best)
    columns = {
        "dense": candidates.dense,
        "excerpt": _best_product(unit(query.pooled), candidates.evidence.excerpts),
        **semantic,
        "cosine_rarity": rare,
        "unmet_rarity": len(query.tokens) * (1 - rare),
        **_lexical(question, present),
        "provided": _best_product(query.need_vector, provides) if tells else np.zeros(n),
    }
    return np.ascontiguousarray(np.array([columns[name] for name in PAIR_FEATURES], np.float32).T)


class _QuestionWords(NamedTuple):
    """The words of a question."""

    weights: FloatArray  #: largest idf of the pieces of each, (words,)
    numbers: npt.NDArray[Any]  #: whether it is a term with a digit, (words,)
    rarity: npt.NDArray[Any]  #: share by rarity of each piece that has a token vector, (q,)


def _compared_words(query: Query, candidates: Candidates, table: WordTable) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Find the first pieces of the question's words, (words,), and whether each of n passages has them, (words, n)."""
    terms, m, passages = query.terms, len(query.terms), candidates.evidence.pieces
    # one pass over all texts, the question first
    pieces = np.concatenate([terms, passages.values], dtype=np.int64, casting="unsafe")
    words, starts = words_of(Ragged(pieces, np.append(0, passages.offsets + m)), table)
    count = int(words.offsets[1])
    question, values, offsets = words.values[:count], words.values[count:], words.offsets[1:] - count
    present = np.zeros((count, len(passages)), np.bool_)
    # matches are few, so that working on their places is cheaper than on the whole table
    row, column = np.divmod(np.flatnonzero(question[:, None] == values[None, :]), max(len(values), 1))
    present[row, np.searchsorted(offsets, column, side="right") - 1] = True
    return starts[:count], present


def _weighed(query: Query, starts: IntArray, idf: FloatArray, table: WordTable) -> _QuestionWords:
    terms, nothing = query.terms, np.zeros(0, np.float32)
    if not len(starts):
        return _QuestionWords(nothing, nothing, nothing)
    weights = np.maximum.reduceat(idf, starts)
    numbers = np.maximum.reduceat(table.digits[terms], starts) & (weights > 0)
    word = np.searchsorted(starts, np.arange(len(terms)), side="right") - 1
    rarity = (np.log1p(weights) / np.bincount(word))[word[: len(query.tokens)]]
    return _QuestionWords(weights, numbers, rarity / max(rarity.sum(), 1e-6))


def _lexical(question: _QuestionWords, present: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[Any]]:
    """Features of equal words, `present` in a passage."""
    there, total = present.astype(np.float32), question.weights.sum()
    rows = np.array([question.weights / max(total, 1e-6), question.numbers], np.float32)
    overlap, numbers = (_summed(row, there) for row in rows)
    return {"overlap": overlap, "unmatched": total * (1 - overlap), "numbers": question.numbers.sum() - numbers}


def _semantic(
    query: Query, passages: Ragged, present: npt.NDArray[np.bool_]
) -> tuple[FloatArray, dict[str, npt.NDArray[Any]]]:
    """Features of token vectors, and m_i, (q, n); `present` is of that shape."""
    q, share = len(query.tokens), query.weights
    if passages.values.shape[1] != query.tokens.shape[1]:
        raise InputError(
            f"token vectors have {passages.values.shape[1]} dimensions for the passages and {query.tokens.shape[1]} "
            "for the question; encode both with the same encoder"
        )
    # one product for what the question says and what it expects
    cosines = float_products(np.concatenate([query.tokens, query.expects]), passages.values)
    largest = _largest(cosines, passages)
    best, expected = largest[:q], largest[q:]
    cosine = _summed(share, best)
    columns = {
        "cosine": cosine,
        "cosine_unmatched": _summed(share, best * ~present),
        "unmet": q * (1 - cosine),
        "neighbours": cosine,
        "expected": expected.sum(axis=0) / max(len(expected), 1),
    }
    if q > 1:
        pairs = np.empty((q - 1, cosines.shape[1]), np.float32)
        np.add(cosines[: q - 1, :-1], cosines[1:q, 1:], out=pairs[:, :-1])
        lasts = passages.offsets[1:][passages.lengths() > 0] - 1
        pairs[:, lasts] = cosines[: q - 1, lasts]
        columns["neighbours"] = _summed(share[:-1] + share[1:], _largest(pairs, passages)) / 4
    return best, columns


def _summed(weights: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weighted sum of rows, (q,) and (q, n) to (n,): of equal columns to the last bit the same, as no matrix product is."""
    return np.asarray((weights[:, None] * rows).sum(axis=0))


def _best_product(vector: FloatArray, rows: Ragged) -> FloatArray:
    """Largest inner product of a vector with each row's items, 0 for rows without, (n,)."""
    return _largest(np.einsum("ij,j->i", rows.values, vector), rows)


def _largest(values: FloatArray, rows: Ragged) -> FloatArray:
    """Largest value of each row's items, 0 for rows without; from shape (..., total) to (..., n)."""
    lengths = rows.lengths()
    if lengths.all():
        return np.asarray(np.maximum.reduceat(values, rows.offsets[:-1], axis=-1))
    largest = np.zeros((*values.shape[:-1], len(rows)), np.float32)
    there = np.flatnonzero(lengths)
    if len(there):
        largest[..., there] = np.maximum.reduceat(values, rows.offsets[there], axis=-1)
    return largest


def evidence_of(features: FloatArray, candidates: Candidates) -> dict[str, DoubleArray]:
    """Return the summand of each kind of evidence in the scores of n candidates, from their pair features, each (n,)."""
    lengths = candidates.evidence.pieces.lengths()
    short = min(1.0, SHORT / max(float(lengths.mean()), 1.0)) if len(lengths) else 1.0
    share = short * (STORED_SHARE if candidates.is_stored else 1.0)
    weights = {"neighbours": NEIGHBOURS, **{name: share * weight for name, weight in OF_SHORT.items()}}
    return {
        group: sum_of({name: weights[name] * features[:, COLUMN[name]].astype(np.float64) for name in names})
        for group, names in _GROUPS.items()
    }


@dataclass(frozen=True)
class PairModel:
    """The pair head, its word statistics of general text, and the weights of evidence."""

    entailment: Head  #: P(passage answers question) from the two texts alone, which can be compared between questions
    #: inverse document frequency of word pieces in general text, float32 (vocabulary,), for passages of no index
    idf: FloatArray
    words: WordTable  #: makes words of word pieces
    #: ``evidence``: 1; ``entailment`` and ``class``: weights of the integrated methods, fitted to training questions
    weights: Mapping[str, float]

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str) -> PairModel:
        """Load the head in ``folder/entailment``."""
        head = Head.load(Path(folder) / "entailment", encoder=encoder_fingerprint, features=PAIR_FEATURES)
        idf = head.artifact.array("idf.npy", (None,))
        words = WordTable.of(head.artifact.array("words.npy", (2, None)))
        if len(words.keys) != len(idf):
            raise ArtifactError(
                f"{head.artifact.folder}: words.npy has {len(words.keys)} rows, idf.npy {len(idf)}; train it again"
            )
        weights = {str(name): float(value) for name, value in head.artifact.field("weights").items()}
        return cls(head, idf, words, {**weights, "evidence": 1.0})

    def features(self, query: Query, candidates: Candidates) -> FloatArray:
        """Return the pair features of n candidates, (n, n_features). Words are weighted as in general text."""
        return pair_features(query, candidates, self.words, self.idf[query.terms])

    def relevance(self, features: FloatArray) -> DoubleArray:
        """Return P(passage answers question), (n,). It depends only on the two texts, and not on an index."""
        return self.entailment.probabilities({"pairs": features})[:, 0]
