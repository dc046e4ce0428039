"""The result of a search or a re-ranking: hits, and statements about the whole ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import overload

import numpy as np

from semclass.core.types import Explanation, Hit, Passage
from semclass.index.records import Candidates


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first, and statements about the whole ranking.

    You can iterate over it, index it and take its length, as with a tuple of hits.

    Attributes
    ----------
    hits
        The hits, best first. The tuple may be empty.
    query_used
        The part of the question that the search read. Of several sentences, it holds the sentences that ask and the
        sentences that belong to the question. After rewriting, it holds the rewritten questions, one per line.
    certainty
        How certain the default method is of the first hit: ``"strong"``, ``"likely"`` or ``"weak"``, see
        ``semclass/ranking/certainty.py``. None if the certainty was not measured.
    answerable
        Probability that the index answers the question at all, or 0 if the search found no passage. None after
        re-ranking passages of another engine, and with methods other than ``default`` and ``deep``.
    language
        Language of the passages: ``"en"``, or ``"other"`` for a language that the models do not read. Passages in such
        a language are ranked by words, and less by vectors. None with methods other than ``default`` and ``deep``, and
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
    passages: Sequence[Passage],
    found: Candidates,
    classes: Sequence[str],
    k: int,
    explanations: Sequence[Explanation] | None = None,
    *,
    before: int = 0,
) -> tuple[Hit, ...]:
    """Make the first k hits of a ranking of `passages`, behind `before` other hits.

    `explanations` explain the first k.
    """
    columns = {"dense": found.dense, "bm25": found.bm25, **found.components}
    if found.match is not None:
        columns.setdefault("match", found.match)
    places = found.places[:k]
    signals = np.array([*columns.values()])[:, places].T.tolist()
    classes = classes[: found.probabilities.shape[1]]
    labelled = (found.probabilities >= found.thresholds[: len(classes)])[places].tolist()
    probabilities, scores = found.probabilities[places].tolist(), found.score[places].tolist()
    return tuple(
        Hit(
            id=passages[place].id,
            text=passages[place].text,
            metadata=passages[place].metadata,
            score=scores[row],
            rank=before + row + 1,
            rank_before=place + 1,
            components=dict(zip(columns, signals[row], strict=True)),
            labels=tuple(compress(classes, labelled[row])),
            probabilities=dict(zip(classes, probabilities[row], strict=True)),
            explanation=None if explanations is None else explanations[row],
        )
        for row, place in enumerate(places.tolist())
    )
