"""The result of a search or a re-ranking: hits, and statements about the whole ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import overload

import numpy as np

from semclass.core.types import FloatArray, Hit, Passage
from semclass.index.candidates import Candidates, Query
from semclass.ranking.explain import explain
from semclass.ranking.models import Models


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first, and statements about the whole ranking.

    It is a sequence of hits.

    Attributes
    ----------
    hits
        The hits, best first. The tuple may be empty.
    query_used
        The part of the question that the search read: of several sentences, those that ask and those that belong to the
        question. After rewriting, it holds the rewritten questions, one per line.
    certainty
        How certain ``default`` is of the first hit: ``"strong"``, ``"likely"`` or ``"weak"``, see
        ``semclass/ranking/statements.py``. None with other methods, and for fewer than two passages.
    answerable
        Probability that the passages answer the question at all: that the first hit of ``default`` does, by the
        entailment head. 0 if there is no passage. None with methods other than ``default``.
    language
        Language of the passages: ``"en"``, or ``"other"`` for a language that the models do not read. Passages in such
        a language are ranked by words, and less by vectors. None with methods other than ``default``, and
        with an encoder of your own.
    """

    hits: tuple[Hit, ...]
    query_used: str
    certainty: str | None = None
    answerable: float | None = None
    language: str | None = None

    def __len__(self) -> int:
        """Count the hits."""
        return len(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        """Return the hit at a place, from 0, or the hits of a slice."""
        return self.hits[place]


def make_hits(
    models: Models,
    query: Query,
    ranked: Candidates,
    passages: Sequence[Passage],
    idf: FloatArray | None,
    before: int = 0,
) -> tuple[Hit, ...]:
    """Make hits of the first places of a ranking, which have `passages`, behind `before` other hits.

    With the `idf` of the question's word pieces, (m,), they come with explanations.
    """
    signals = {"dense": ranked.dense, "bm25": ranked.bm25, "sparse": ranked.sparse}
    told = {"dense": bool(len(query.pooled)), "bm25": True, "sparse": bool(len(query.sparse))}
    columns = {**{name: values for name, values in signals.items() if told[name]}, **ranked.components}
    places = ranked.places[: len(passages)]
    explanations = [None] * len(places) if idf is None else explain(models, query, ranked, places, passages, idf)
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
            explanation=explanations[row],
        )
        for row, (place, passage) in enumerate(zip(places.tolist(), passages, strict=True))
    )
