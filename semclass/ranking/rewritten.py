"""Searching by what a question was rewritten as: several questions, or texts that stand in for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semclass.core.checks import check_positive
from semclass.core.types import Hit
from semclass.ranking.methods import DEFAULT, find_method
from semclass.rewriting.transform import Rewritten
from semclass.scoring.fusion import RRF_K

if TYPE_CHECKING:
    from semclass.ranking.retriever import HybridRetriever


def search_rewritten(retriever: HybridRetriever, rewritten: Rewritten, k: int = 10, **options: Any) -> list[Hit]:
    """Search for what a question was rewritten as.

    Parameters
    ----------
    retriever
        Index and models.
    rewritten
        What is searched for.
    k, options
        As for :meth:`semclass.HybridRetriever.search`.

    Returns
    -------
    list of Hit
        Best first. Of several questions, each gives as long a ranking as it re-ranks, and these are pooled, see
        :func:`pool_hits`; all but the score is of the question that ranks a passage best, ``asked``.
    """
    question, *others = rewritten.questions
    if not others:
        if rewritten.passages:
            hits = retriever.search_by_texts(question, [question, *rewritten.passages], k, **options)
        else:
            hits = retriever.search(question, k, **options)
        return _named(hits, question, rewritten)
    limit, how = check_positive(k, "k"), find_method(options.get("method", DEFAULT), options.get("fusion"))
    given = options.get("candidates")
    depth = max(limit, how.candidates if given is None else check_positive(given, "candidates"))
    rankings = retriever.search_many(rewritten.questions, depth, **options)
    named = [_named(hits, text, rewritten) for hits, text in zip(rankings, rewritten.questions, strict=True)]
    return pool_hits(named, limit)


def pool_hits(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """The k best of several rankings: a passage counts by its best rank, and scores 1 / (60 + rank); the earlier of equals.

    So the first of each ranking come first. The sum of these scores, reciprocal rank fusion, was worse wherever both were
    measured, by far for questions that ask different things: ``python -m bench language_model``.
    """
    best: dict[str, Hit] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        if hit.id not in best or hit.rank < best[hit.id].rank:
            best[hit.id] = hit
    found = sorted(best.values(), key=lambda hit: hit.rank)[:k]
    return [replace(hit, score=1 / (RRF_K + hit.rank), rank=rank) for rank, hit in enumerate(found, 1)]


def _named(hits: list[Hit], question: str, rewritten: Rewritten) -> list[Hit]:
    """Hits that say which question they are hits of, if it is another than the one that was asked."""
    return hits if question == rewritten.asked else [replace(hit, asked=hit.asked or question) for hit in hits]
