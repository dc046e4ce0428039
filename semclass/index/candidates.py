"""Candidates: an encoded question, and the passages with the best scores, which re-ranking turns into hits.

Vectors and words find passages; learnt words score those that were found. In a small index every passage is scored. In a
large one, fusions (:mod:`semclass.scoring.fusion`) read two lists: the best passages by vectors alone, see
:mod:`semclass.scoring.approximation`, and by BM25 alone. Only the sum of the reference thesis reads no list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import compress
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.core.types import DoubleArray, Explanation, FloatArray, Hit, IntArray, Passage, Ragged
from semclass.heads import sparse
from semclass.index.segment import Segment
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics, attainable
from semclass.scoring.fusion import DEPTH, SPARSE_TOP, fused, pool
from semclass.scoring.vectors import Codebooks, from_quarter_bytes, from_scaled_bytes, nth_at_least, top_k, unit

EXHAUSTIVE_BELOW = 50_000
"""Passages of an index up to which all are scored."""

EXHAUSTIVE_FILTERED = 10_000
"""Passages that match a filter up to which all of them are scored, however large the index is."""

OVERFETCH = 2
"""Passages that reduced vectors find for each passage of the list by vectors.

Of the ten best by vectors alone of 100,000 made passages (``bench/results/growth.md``), a search finds 0.979 for questions
that they answer (squad4) and 0.858 for foreign ones (pubmedqa), from four times as many 0.986 and 0.912; with BM25 all.
"""


NEAR = 4
"""Passages on either side whose words count for a passage, see `AROUND`. From 2 to 10 it is much the same."""

AROUND = 0.75
"""Share of the best BM25 score nearby in that of a passage: words of a question may stand in the text around.

Nearby are passages of the same document and title. nDCG@10 of 18 collections rises by .010 (shares from .6 to 1: .007 to
.010), and falls on none by more than .002; see ``docs/decisions/signals.md``.
"""


@dataclass(frozen=True)
class Query:
    """A question, encoded once."""

    text: str
    pooled: FloatArray  #: the encoder's vector of the whole question, of any length, (dim,); empty if not requested
    probabilities: DoubleArray  #: P(class | question), (n_classes,); empty if not requested
    tokens: FloatArray  #: unit token vectors, (q, token_dim); empty if not requested
    weights: FloatArray  #: weight of each token vector, (q,), >= 0, sums to 1
    terms: npt.NDArray[Any]  #: word-piece ids, (m,), m >= q
    need_vector: FloatArray  #: vector `asks` of :class:`semclass.core.types.Encoding`, (d,); empty if unknown
    expects: FloatArray  #: unit vectors near the token vectors of an answer, (k, token_dim); empty if unknown
    query_used: str  #: the part of the text that was read, see :mod:`semclass.heads.query_focus`
    #: ids of the question's learnt words, and their weights, (n_words, 2); empty if not requested
    sparse: FloatArray = field(default_factory=lambda: np.zeros((0, 2), np.float32))


@dataclass(frozen=True)
class Evidence:
    """The input of re-ranking for n passages. Rows that were not requested are empty."""

    sentences: Ragged  #: vectors of each passage's sentences, at least one, float32 of item shape (dim,)
    provides: Ragged  #: vector `provides` of each sentence, see :class:`semclass.core.types.Encoding`; float32
    tokens: Ragged  #: unit token vectors, one for each of `pieces`; float32
    pieces: Ragged  #: ids of the word pieces that are compared with those of questions


@dataclass(frozen=True)
class Scoring:
    """Scoring of passages before re-ranking, by fused scores of signals."""

    weights: Mapping[str, float]  #: by signal: ``dense``, ``bm25``, ``sparse``
    fusion: str = "linear"  #: one of semclass.scoring.fusion.FUSIONS
    coverage: float = 0.0  #: see `semclass.ranking.methods.COVERAGE`
    around: float = 0.0  #: see `AROUND`

    @property
    def alone(self) -> str | None:
        """The only signal with a weight in a convex combination. None if several have one, or in another fusion."""
        signals = [name for name, weight in self.weights.items() if weight]
        return signals[0] if len(signals) == 1 and self.fusion == "convex" else None

    def parts(
        self,
        signals: Mapping[str, DoubleArray],
        known: Statistics,
        terms: npt.NDArray[np.uint32],
        depth: int | None = None,
    ) -> dict[str, DoubleArray]:
        """Return the weighted summands of the scores of n passages, (n,) each, for a question of some terms."""
        used = {name: signals[name] for name in self.weights}
        full = self.coverage * attainable(known, terms) if self.coverage else 0.0
        return fused(used, self.fusion, self.weights, depth=depth, tops={"bm25": full, "sparse": SPARSE_TOP}).parts


@dataclass(frozen=True)
class Candidates:
    """n passages in their order before re-ranking. Re-ranking fills the fields from `order` on."""

    rows: IntArray  #: row of each passage in its index, or its place in the given list, (n,)
    dense: DoubleArray  #: cosine of the vectors, see :mod:`semclass.scoring.dense`, (n,); NaN if the question has none
    bm25: DoubleArray  #: BM25 score, (n,)
    sparse: DoubleArray  #: inner product of learnt words, (n,); 0 without them
    parts: dict[str, DoubleArray]  #: weighted summands of `score`, each (n,)
    score: DoubleArray  #: passages are ranked by this number, (n,)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes); without columns if not requested
    classes: tuple[str, ...]  #: names of these columns
    thresholds: DoubleArray  #: probability from which a passage has a class, (n_classes,)
    evidence: Evidence  #: input of re-ranking; vectors of sentences have unit length
    passages: tuple[Passage, ...] | None = None  #: the passages; None: the index returns them by `rows`
    order: IntArray | None = None  #: places by `score` after re-ranking, best first, (n,); None: unchanged
    components: Mapping[str, DoubleArray] = field(default_factory=dict)  #: signals of re-ranking, each (n,)
    certainty: str | None = None  #: certainty of the first place, in a word; None if not measured
    answerable: float | None = None  #: P(the first place answers the question); None if not computed
    is_stored: bool = True  #: whether they are passages of an index, and did not come with the question
    language: str | None = None  #: language of the passages, "en" or "other"; None if not tested

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def places(self) -> IntArray:
        """Places, best first, (n,)."""
        return np.arange(len(self)) if self.order is None else self.order


def sum_of(parts: Mapping[str, DoubleArray]) -> DoubleArray:
    """Add the parts of each passage's score in their order."""
    return reduce(np.add, parts.values())


def summed(
    candidates: Candidates, added: Mapping[str, DoubleArray], components: Mapping[str, DoubleArray]
) -> Candidates:
    """Add some parts to the scores of candidates, and rank by the sums."""
    score = candidates.score + sum_of(added)
    order = np.argsort(-score, kind="stable")
    parts = {**candidates.parts, **added}
    return replace(candidates, order=order, score=score, parts=parts, components=components)


def make_hits(
    query: Query,
    ranked: Candidates,
    passages: Sequence[Passage],
    explanations: Sequence[Explanation] | None = None,
    before: int = 0,
) -> tuple[Hit, ...]:
    """Make hits of the first places of a ranking, which have `passages`, behind `before` other hits."""
    signals = {"dense": ranked.dense, "bm25": ranked.bm25, "sparse": ranked.sparse}
    told = {"dense": bool(len(query.pooled)), "bm25": True, "sparse": bool(len(query.sparse))}
    columns = {**{name: values for name, values in signals.items() if told[name]}, **ranked.components}
    places = ranked.places[: len(passages)]
    shown = np.array([*columns.values()])[:, places].T.tolist()
    classes = ranked.classes[: ranked.probabilities.shape[1]]
    labelled = (ranked.probabilities >= ranked.thresholds[: len(classes)])[places].tolist()
    probabilities, scores = ranked.probabilities[places].tolist(), ranked.score[places].tolist()
    return tuple(
        Hit(
            id=passage.id,
            text=passage.text,
            metadata=passage.metadata,
            score=scores[row],
            rank=before + row + 1,
            rank_before=place + 1,
            components=dict(zip(columns, shown[row], strict=True)),
            labels=tuple(compress(classes, labelled[row])),
            probabilities=dict(zip(classes, probabilities[row], strict=True)),
            explanation=None if explanations is None else explanations[row],
        )
        for row, (place, passage) in enumerate(zip(places.tolist(), passages, strict=True))
    )


class Searched(Protocol):
    """An index in this process, with at least one segment. Rows are numbered through all segments."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments."""

    @property
    def live(self) -> npt.NDArray[np.bool_] | None:
        """Whether the passage of each row is not deleted; None if none is."""

    @property
    def rows(self) -> IntArray:
        """Rows of the passages that are not deleted, ascending."""

    @property
    def statistics(self) -> Statistics:
        """Statistics of the passages that are not deleted."""

    @property
    def language(self) -> str:
        """Language of the stems of words."""

    def within(self, rows: IntArray) -> Iterable[tuple[Segment, IntArray, IntArray]]:
        """Yield each segment that holds some of the rows, with their places in `rows` and their rows there."""

    def terms_of(self, query: Query) -> npt.NDArray[np.uint32]:
        """Return the terms of a question for BM25."""


Signals: TypeAlias = dict[str, DoubleArray]


def find(
    index: Searched, query: Query, n: int, scoring: Scoring, allowed: npt.NDArray[np.bool_] | None = None
) -> tuple[IntArray, Signals, Signals]:
    """Rows of the passages with the n best scores, best first, or fewer; equal scores in the order of the rows.

    Also returns their signals ``dense``, ``bm25`` and ``sparse``, and the parts of their scores. `allowed` says
    which rows may be found; None: all.
    """
    total, depth = sum(map(len, index.segments)), max(DEPTH, n)
    number = total if allowed is None else int(np.count_nonzero(allowed))
    if scoring.alone == "bm25":
        rows, dense, lexical, _ = _best_of_bm25(index, query, depth, allowed, np.zeros(0, np.int64), np.zeros(0))
    elif scoring.fusion != "linear" and total > EXHAUSTIVE_BELOW and number > max(EXHAUSTIVE_FILTERED, n):
        rows, dense, lexical = _lists(index, query, scoring, depth, allowed)
    else:
        rows = np.arange(total) if allowed is None else np.flatnonzero(allowed)
        dense, lexical = _dense(index, query, rows), _lexical(index, query, rows)
    if scoring.fusion != "linear":
        places = _pooled(scoring, {"dense": dense, "bm25": lexical}, depth)
        rows, dense, lexical = rows[places], dense[places], lexical[places]
    nearby = lexical
    if scoring.around and len(rows):
        places = rows if index.live is None else np.searchsorted(index.rows, rows)
        share = scoring.around * min(1.0, len(rows) / DEPTH)  # in a small index, everything is nearby
        nearby = (1 - share) * lexical + share * largest_nearby(places, _titles(index, rows), lexical)
    signals, parts = _fused(index, query, rows, scoring, dense, lexical, nearby, depth)
    best = top_k(sum_of(parts), n)
    found, added = ({name: values[best] for name, values in some.items()} for some in (signals, parts))
    return rows[best], found, added


def score(index: Searched, query: Query, rows: IntArray, scoring: Scoring) -> tuple[Signals, Signals]:
    """Signals of some passages, whose rows rise, and the parts of their scores among these alone."""
    lexical = _lexical(index, query, rows)
    return _fused(index, query, rows, scoring, _dense(index, query, rows), lexical, lexical, len(rows))


def _titles(index: Searched, rows: IntArray) -> npt.NDArray[np.uint64]:
    titles = np.empty(len(rows), np.uint64)
    for part, here, local in index.within(rows):
        titles[here] = part.title_hashes[local]
    return titles


def largest_nearby(places: IntArray, titles: npt.NDArray[np.uint64], scores: DoubleArray) -> DoubleArray:
    """Largest score of each of n passages and those of its title at most `NEAR` places away, which ascend, (n,)."""
    largest: DoubleArray = scores.copy()
    for step in range(1, NEAR + 1):
        near = (places[step:] - places[:-step] <= NEAR) & (titles[step:] == titles[:-step])
        np.maximum(largest[step:], scores[:-step], out=largest[step:], where=near)
        np.maximum(largest[:-step], scores[step:], out=largest[:-step], where=near)
    return largest


def _fused(
    index: Searched,
    query: Query,
    rows: IntArray,
    scoring: Scoring,
    dense: DoubleArray,
    lexical: DoubleArray,
    nearby: DoubleArray,
    depth: int,
) -> tuple[Signals, Signals]:
    signals = {"dense": dense, "bm25": lexical, "sparse": np.zeros(len(rows))}
    if scoring.weights.get("sparse"):
        signals["sparse"] = sparse_scores(index, query, rows)
    terms = index.terms_of(query) if scoring.coverage else np.zeros(0, np.uint32)
    return signals, scoring.parts({**signals, "bm25": nearby}, index.statistics, terms, depth)


def _pooled(scoring: Scoring, listed: Signals, depth: int) -> IntArray:
    """Places of the passages in the lists that a fusion reads."""
    if scoring.alone is not None and len(own := pool({scoring.alone: listed[scoring.alone]}, depth)) >= depth:
        return own
    return pool({name: values for name, values in listed.items() if not np.isnan(values).any()}, depth)


def _lists(
    index: Searched, query: Query, scoring: Scoring, depth: int, allowed: npt.NDArray[np.bool_] | None
) -> tuple[IntArray, DoubleArray, DoubleArray]:
    """Find the `depth` best passages by vectors alone and by BM25 alone, as far as both lists have a weight."""
    rows, dense = _similar(index, query, depth, allowed)
    if scoring.alone == "dense" and len(rows) >= depth:
        return rows, dense, _lexical(index, query, rows)
    best, similar, lexical, only = _best_of_bm25(index, query, depth, allowed, rows, dense)
    order = np.argsort(joined := np.concatenate([best, rows[only]]))
    lexical = np.concatenate([lexical, _lexical(index, query, rows[only])])
    return joined[order], np.concatenate([similar, dense[only]])[order], lexical[order]


def _best_of_bm25(
    index: Searched,
    query: Query,
    depth: int,
    allowed: npt.NDArray[np.bool_] | None,
    rows: IntArray,
    dense: DoubleArray,
) -> tuple[IntArray, DoubleArray, DoubleArray, npt.NDArray[np.bool_]]:
    """Find the best passages by BM25 alone: rows, ascending, with both scores.

    Also returns which of `rows`, whose dense scores are known, are not among them.
    """
    postings = [part.postings for part in index.segments]
    lexical, scores = bm25.best(postings, index.statistics, index.terms_of(query), depth, allowed)
    lexical, scores = lexical[order := np.argsort(lexical)], scores[order]
    here, there = np.intersect1d(lexical, rows, assume_unique=True, return_indices=True)[1:]
    similarity, new, only = np.empty(len(lexical)), np.ones(len(lexical), np.bool_), np.ones(len(rows), np.bool_)
    new[here], only[there], similarity[here] = False, False, dense[there]
    similarity[new] = _dense(index, query, lexical[new])
    return lexical, similarity, scores.astype(np.float64), only


def _similar(
    index: Searched, query: Query, depth: int, allowed: npt.NDArray[np.bool_] | None
) -> tuple[IntArray, DoubleArray]:
    """Find the passages that are best by vectors alone, ascending, and their similarity."""
    found, values, first = [], [], 0
    for part in index.segments:
        here = None if allowed is None else allowed[first : first + len(part)]
        if part.vectors.reduced is None:
            scores, rows = part.vectors.scores(query.pooled), np.arange(len(part))
            if here is not None:
                scores[~here] = -np.inf
        else:
            rows = part.vectors.nearest(query.pooled, OVERFETCH * depth, here)
            scores = part.vectors.scores_at(query.pooled, rows)
        chosen = np.flatnonzero(scores >= max(float(nth_at_least(scores, depth)), np.finfo(np.float64).min))
        found.append(rows[chosen] + first)
        values.append(scores[chosen])
        first += len(part)
    return np.concatenate(found), np.concatenate(values)


def _dense(index: Searched, query: Query, rows: IntArray) -> DoubleArray:
    scores = np.full(len(rows), np.nan)
    for part, here, local in index.within(rows) if len(query.pooled) else ():
        scores[here] = part.vectors.scores_at(query.pooled, local)
    return scores


def _lexical(index: Searched, query: Query, rows: IntArray) -> DoubleArray:
    postings = [part.postings for part in index.segments]
    return bm25.scores_at(postings, index.statistics, index.terms_of(query), rows).astype(np.float64)


def sparse_scores(index: Searched, query: Query, rows: IntArray) -> DoubleArray:
    """Score some rows by learnt words, float64 of shape (m,)."""
    scores = np.zeros(len(rows))
    for part, here, local in index.within(rows) if len(query.sparse) else ():
        scores[here] = sparse.scores(query.sparse, part.sparse.take(local))
    return scores


def no_rows(n: int) -> Ragged:
    """Return n empty rows."""
    return Ragged(np.zeros((0, 0), np.float32), np.zeros(n + 1, np.int64))


def no_evidence(n: int) -> Evidence:
    """Return evidence of n passages with empty rows."""
    return Evidence(no_rows(n), no_rows(n), no_rows(n), no_rows(n))


def decode(stored: Mapping[str, Ragged], books: Codebooks | None) -> Evidence:
    """Decode stored vectors. They get unit length, because cosines are needed, except the view ``provides``."""
    codes, vectors, pieces = stored["tokens"].values, stored["sentences"].values, stored["pieces"]
    tokens = codes.astype(np.float32) if books is None else books.decode(codes, pieces.values)
    sentences = vectors if vectors.dtype == np.float32 else from_quarter_bytes(vectors).astype(np.float32)
    provided = stored["provides"].values
    if provided.shape[1] and provided.dtype != np.float32:
        with np.errstate(over="ignore", invalid="ignore"):  # scales may be any bytes
            provided = from_scaled_bytes(provided)
    if not np.isfinite(provided).all():
        raise ArtifactError(f"provides.npy of the index holds NaN or infinity; {REMEDY}")
    return Evidence(
        tokens=Ragged(unit(tokens), pieces.offsets),
        sentences=Ragged(unit(sentences), stored["sentences"].offsets),
        provides=Ragged(provided, stored["provides"].offsets) if provided.shape[1] else no_rows(len(pieces)),
        pieces=pieces,
    )
