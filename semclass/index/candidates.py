"""An encoded question, and its candidates: the passages with the best scores. Re-ranking turns them into hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import ArtifactError
from semclass.core.files import REMEDY
from semclass.core.types import DoubleArray, Explanation, FloatArray, Hit, IntArray, Passage, Ragged
from semclass.scoring.bm25 import Statistics, attainable
from semclass.scoring.fusion import SPARSE_TOP, fused
from semclass.scoring.vectors import Codebooks, from_quarter_bytes, from_scaled_bytes, unit

AROUND = 0.75
"""Weight of the best nearby BM25 score in a passage's BM25 score. The text around it may have words of the question.

Nearby passages have the same document and title. On 18 collections, nDCG@10 rises by .010 (with weights from .6 to 1, by
.007 to .010), and falls by more than .002 on none; see ``docs/decisions/signals.md``.
"""


@dataclass(frozen=True)
class Query:
    """A question, encoded once."""

    text: str
    pooled: FloatArray  #: the encoder's vector of the whole question, of any norm, (dim,); empty if not requested
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

    excerpts: Ragged  #: vectors of each passage's excerpts, at least one, float32 of item shape (dim,)
    provides: Ragged  #: vector `provides` of each excerpt, see :class:`semclass.core.types.Encoding`; float32
    tokens: Ragged  #: unit token vectors, one for each of `pieces`; float32
    pieces: Ragged  #: ids of the word pieces that are compared with those of questions


@dataclass(frozen=True)
class Scoring:
    """Scoring of passages before re-ranking, by fused scores of signals."""

    weights: Mapping[str, float]  #: weights by signal: ``dense``, ``bm25``, ``sparse``
    fusion: str = "linear"  #: one of semclass.scoring.fusion.FUSIONS
    coverage: float = 0.0  #: see `semclass.ranking.methods.COVERAGE`
    around: float = 0.0  #: see `AROUND`

    @property
    def alone(self) -> str | None:
        """The only signal with a weight in a convex combination. None with several signals, or in another fusion."""
        signals = [name for name, weight in self.weights.items() if weight]
        return signals[0] if len(signals) == 1 and self.fusion == "convex" else None

    def parts(
        self,
        signals: Mapping[str, DoubleArray],
        known: Statistics,
        terms: npt.NDArray[np.uint32],
        depth: int | None = None,
    ) -> dict[str, DoubleArray]:
        """Return the weighted summands of the scores of n passages, (n,) each, for a question with the given terms."""
        used = {name: signals[name] for name in self.weights}
        full = self.coverage * attainable(known, terms) if self.coverage else 0.0
        return fused(used, self.fusion, self.weights, depth=depth, tops={"bm25": full, "sparse": SPARSE_TOP})


@dataclass(frozen=True)
class Candidates:
    """n passages in their order before re-ranking. Re-ranking changes `order`, and fills the fields after it."""

    rows: IntArray  #: row of each passage in its index, or its place in the given list, (n,)
    dense: DoubleArray  #: cosine of the vectors, see :mod:`semclass.scoring.dense`, (n,); NaN if the question has none
    bm25: DoubleArray  #: BM25 score, (n,)
    sparse: DoubleArray  #: inner product of learnt words, (n,); 0 without them
    parts: dict[str, DoubleArray]  #: weighted summands of `score`, each (n,)
    score: DoubleArray  #: passages are ranked by this number, (n,)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes); without columns if not requested
    classes: tuple[str, ...]  #: names of these columns
    thresholds: DoubleArray  #: probability from which a passage has a class, (n_classes,)
    evidence: Evidence  #: input of re-ranking; vectors of excerpts have unit length
    order: IntArray  #: places by `score`, best first, (n,); before re-ranking, 0 to n - 1
    passages: tuple[Passage, ...] | None = None  #: the passages; None: the index returns them by `rows`
    components: Mapping[str, DoubleArray] = field(default_factory=dict)  #: signals of re-ranking, each (n,)
    certainty: str | None = None  #: certainty of the first place, in a word; None if not measured
    answerable: float | None = None  #: P(the first place answers the question); None if not computed
    is_stored: bool = True  #: True for passages of an index, False for passages that came with the question
    language: str | None = None  #: language of the passages, "en" or "other"; None if not tested

    def __len__(self) -> int:
        return len(self.rows)


def sum_of(parts: Mapping[str, DoubleArray]) -> DoubleArray:
    """Add the parts of each passage's score in their order."""
    return reduce(np.add, parts.values())


def summed(
    candidates: Candidates, added: Mapping[str, DoubleArray], components: Mapping[str, DoubleArray]
) -> Candidates:
    """Add parts to the scores of candidates, and rank by the sums."""
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
    """Turn the first places of a ranking, which hold `passages`, into hits. `before` is the number of hits before them."""
    signals = {"dense": ranked.dense, "bm25": ranked.bm25, "sparse": ranked.sparse}
    told = {"dense": bool(len(query.pooled)), "bm25": True, "sparse": bool(len(query.sparse))}
    columns = {**{name: values for name, values in signals.items() if told[name]}, **ranked.components}
    places = ranked.order[: len(passages)]
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


def no_rows(n: int) -> Ragged:
    """Return n empty rows."""
    return Ragged(np.zeros((0, 0), np.float32), np.zeros(n + 1, np.int64))


def decode(stored: Mapping[str, Ragged], books: Codebooks | None) -> Evidence:
    """Decode stored vectors. Except for the view ``provides``, they get unit length, because cosines are needed."""
    codes, vectors, pieces = stored["tokens"].values, stored["excerpts"].values, stored["pieces"]
    tokens = codes.astype(np.float32) if books is None else books.decode(codes, pieces.values)
    excerpts = vectors if vectors.dtype == np.float32 else from_quarter_bytes(vectors).astype(np.float32)
    provided = stored["provides"].values
    if provided.shape[1] and provided.dtype != np.float32:
        with np.errstate(over="ignore", invalid="ignore"):  # scales may be any bytes
            provided = from_scaled_bytes(provided)
    if not np.isfinite(provided).all():
        raise ArtifactError(f"provides.npy of the index holds NaN or infinity; {REMEDY}")
    return Evidence(
        tokens=Ragged(unit(tokens), pieces.offsets),
        excerpts=Ragged(unit(excerpts), stored["excerpts"].offsets),
        provides=Ragged(provided, stored["provides"].offsets) if provided.shape[1] else no_rows(len(pieces)),
        pieces=pieces,
    )
