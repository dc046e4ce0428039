"""A retriever that rewrites each question before the search, into other questions or into imagined answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from semclass.core.checks import check_positive, check_text
from semclass.core.tools import in_thread
from semclass.core.types import Hit
from semclass.ranking.language import OTHER
from semclass.ranking.options import SearchKeywords, SearchOptions
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import USUAL, HybridRetriever
from semclass.scoring.fusion import RRF_K
from semclass_llm.rewriting.transform import QueryTransform, Rewritten, rewritten

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing has it from Python 3.11 on


@dataclass(frozen=True)
class RewritingRetriever:
    """A retriever that rewrites questions first. Threads may share one instance.

    Attributes
    ----------
    retriever
        The retriever that searches.
    rewrite
        Rewrites a question, such as a :class:`semclass_llm.rewriting.rewriter.Rewriter`.
    """

    retriever: HybridRetriever
    rewrite: QueryTransform

    def search(
        self,
        question: str,
        k: int = 10,
        options: SearchOptions = USUAL,
        *,
        history: Sequence[str] = (),
        **keywords: Unpack[SearchKeywords],
    ) -> SearchResult:
        """Rewrite a question, and search for the result with :func:`semclass_llm.rewriting.retriever.search_rewritten`.

        `history` is the conversation before the question, with questions and answers in turn, oldest first. The other
        parameters and the errors are the same as in :meth:`semclass.HybridRetriever.search`.
        """
        found = rewritten(self.rewrite, check_text(question, "question"), history)
        return search_rewritten(self.retriever, found, k, options, **keywords)

    asearch = in_thread(search)


def search_rewritten(
    retriever: HybridRetriever,
    rewritten: Rewritten,
    k: int = 10,
    options: SearchOptions = USUAL,
    **keywords: Unpack[SearchKeywords],
) -> SearchResult:
    """Search for a rewritten question.

    Parameters
    ----------
    retriever
        Index and models.
    rewritten
        The rewritten question.
    k, options, keywords
        See :meth:`semclass.HybridRetriever.search`.

    Returns
    -------
    SearchResult
        The hits, best first. With several questions, each question returns a ranking of as many passages as it
        re-ranks. These rankings are pooled, see :func:`pool_hits`. ``query_used`` holds the questions, one per line.
    """
    limit, chosen = check_positive(k, "k"), replace(options, **keywords)
    question, *others = rewritten.questions
    if rewritten.passages:
        return retriever.search_by_texts(question, [question, *rewritten.passages], limit, chosen)
    if not others:
        return retriever.search(question, limit, chosen)
    depth = max(limit, chosen.candidates or chosen.how.candidates)
    results = retriever.search_many(rewritten.questions, depth, chosen)
    probabilities = [result.answerable for result in results if result.answerable is not None]
    foreign = any(result.language == OTHER for result in results)
    return SearchResult(
        tuple(pool_hits(results, limit)),
        query_used="\n".join(rewritten.questions),
        answerable=max(probabilities, default=None),
        language=OTHER if foreign else results[0].language,
    )


def pool_hits(rankings: Sequence[Sequence[Hit]], k: int) -> list[Hit]:
    """Return the k best passages of several rankings, by their best rank. The score is 1 / (60 + rank).

    So the first passages of all rankings come first. Equal ranks keep the order of rankings. The sum of these scores,
    reciprocal rank fusion, was worse in all measurements, and far worse for different questions, see
    ``bench/results/rewriting.md``.
    """
    best: dict[str, Hit] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        if hit.id not in best or hit.rank < best[hit.id].rank:
            best[hit.id] = hit
    found = sorted(best.values(), key=lambda hit: hit.rank)[:k]
    return [replace(hit, score=1 / (RRF_K + hit.rank), rank=rank) for rank, hit in enumerate(found, 1)]
