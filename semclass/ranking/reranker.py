"""Re-ranking passages that come from elsewhere: another search engine, a database, a web page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.checks import (
    check_choice,
    check_positive,
    check_probability,
    check_text,
    check_texts,
    check_unique,
    check_weight,
    short,
)
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Encoder, Hit, Passage
from semclass.core.waiting import in_thread
from semclass.encoders.bulk import CHUNK, warn_of_cuts
from semclass.index.passage_encoder import searchable
from semclass.index.records import Candidates, Query, make_hits, sum_of
from semclass.ranking.models import BM25_WEIGHT, RERANKERS, SIGNALS, Ranker, weight_name
from semclass.scoring import bm25
from semclass.scoring.fusion import ALPHA, FUSION, check_fusion, fused
from semclass.scoring.topk import SIMILARITIES, similarity, unit


@dataclass(frozen=True)
class Reranker:
    """Re-ranks passages for a question; many threads may share one.

    Attributes
    ----------
    ranker
        The models.
    """

    ranker: Ranker

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        threads: int = 1,
    ) -> Reranker:
        """Load the models.

        Parameters
        ----------
        models, encoder
            Heads, which must include pair heads, and their encoder, see :meth:`semclass.Ranker.load`.
        threads
            Threads of the encoder.

        Returns
        -------
        Reranker
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        return cls(Ranker.load(models, encoder=encoder, threads=threads))

    def rerank(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        k: int | None = None,
        rerank: str = "learned",
        by: str = "entailment",
        hard: bool = False,
        similarity: str | None = None,
        fusion: str = FUSION,
        bm25_weight: float | None = None,
        alpha: float | None = None,
        rerank_weight: float | None = None,
        explain: bool = False,
    ) -> list[Hit]:
        """Re-rank passages for a question.

        Parameters
        ----------
        question
            A non-empty text.
        passages
            In the order that they came in; ids must be unique. Nothing of them is changed.
        k
            How many to give; all if None or larger than there are.
        rerank, by, hard, rerank_weight
            Method, see :meth:`Ranker.order`. ``"stable"`` starts from the order that the passages came in,
            ``"integrated"`` from the fused scores of vectors and BM25 among them.
        similarity
            How vectors are compared, see :func:`semclass.scoring.topk.similarity`; as where the pair heads were trained
            if None.
        fusion
            How these are fused, over the passages that were handed in, see :meth:`semclass.HybridRetriever.search`.
        bm25_weight
            w of ``"linear"`` fusion; 0.1 if None.
        alpha
            Weight of the vectors in ``"convex"`` fusion; 0.55 if None.
        explain
            Whether hits say what their scores were made of.

        Returns
        -------
        list of Hit
            Best first; ``rank_before`` is the place in `passages`, from 1. Empty for no passages.

        Raises
        ------
        InputError, InputTypeError
            If the question or a passage is empty or of the wrong kind, an id comes twice, an option is not allowed, or the
            heads of the method are not there.
        """
        method = self._method(rerank, by, hard, similarity, fusion, bm25_weight, alpha, rerank_weight, k, explain)
        return self._ranked([check_text(question, "question")], [check_passages(passages, "passages")], method)[0]

    def rerank_many(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Passage]],
        *,
        k: int | None = None,
        rerank: str = "learned",
        by: str = "entailment",
        hard: bool = False,
        similarity: str | None = None,
        fusion: str = FUSION,
        bm25_weight: float | None = None,
        alpha: float | None = None,
        rerank_weight: float | None = None,
        explain: bool = False,
    ) -> list[list[Hit]]:
        """Re-rank the passages of several questions, which are read together.

        Parameters
        ----------
        questions
            n non-empty texts.
        passages
            n sequences, one for each question, each as for :meth:`rerank`. A text that comes again is read once among
            those of :data:`semclass.encoders.bulk.CHUNK` passages.
        k, rerank, by, hard, similarity, fusion, bm25_weight, alpha, rerank_weight, explain
            As for :meth:`rerank`.

        Returns
        -------
        list of list of Hit
            In the order of `questions`. Scores are those of :meth:`rerank` up to 1e-6: the last bit of a mean depends on
            the longest text that is read beside it.

        Raises
        ------
        InputError, InputTypeError
            As for :meth:`rerank`, and if there are not as many sequences of passages as questions.
        """
        method = self._method(rerank, by, hard, similarity, fusion, bm25_weight, alpha, rerank_weight, k, explain)
        texts = check_texts(questions, "questions")
        items = [check_passages(some, f"passages[{row}]") for row, some in enumerate(passages)]
        if len(items) != len(texts):
            raise InputError(
                f"there are {len(texts)} questions and {len(items)} sequences of passages; give one for each question"
            )
        return self._ranked(texts, items, method)

    arerank = in_thread(rerank)
    arerank_many = in_thread(rerank_many)

    def _method(
        self,
        rerank: str,
        by: str,
        hard: bool,
        similarity: str | None,
        fusion: str,
        bm25_weight: float | None,
        alpha: float | None,
        rerank_weight: float | None,
        k: int | None,
        explain: bool,
    ) -> _Method:
        """Check what is the same for all questions."""
        check_choice(rerank, RERANKERS[1:], "rerank")
        check_choice(by, SIGNALS, "by")
        self.ranker.require(rerank=rerank, by=by)
        compared = self.ranker.pairs.similarity if similarity is None else similarity
        check_choice(compared, SIMILARITIES, "similarity")
        self.ranker.check_similarity(compared)
        weight = None if rerank_weight is None else check_weight(rerank_weight, "rerank_weight")
        check_fusion(fusion, bm25_weight=bm25_weight, alpha=alpha)
        fusing = {
            "method": fusion,
            "weight": BM25_WEIGHT if bm25_weight is None else check_weight(bm25_weight, "bm25_weight"),
            "alpha": ALPHA if alpha is None else check_probability(alpha, "alpha"),
        }
        if weight is None and rerank == "integrated":
            weight = self.ranker.weights[weight_name(by, hard=hard, fusion=fusion)]
        order = {"rerank": rerank, "by": by, "hard": hard, "weight": weight}
        return _Method(order, compared, fusing, None if k is None else check_positive(k, "k"), explain)

    def _ranked(self, questions: list[str], passages: list[list[Passage]], method: _Method) -> list[list[Hit]]:
        """Re-rank the passages of questions, all of which are checked."""
        needed = self.ranker.needs(**method.order, explain=method.explain)
        results: list[list[Hit]] = [[] for _ in questions]
        cut: list[int] = []
        read = 0
        for rows in _stretches([len(items) for items in passages]):
            items = [passages[row] for row in rows]
            # a turn for each stretch: whoever waits for one gets it between two
            with self.ranker.turns:
                queries = self.ranker.encode([questions[row] for row in rows], **needed)
                candidates, long = self._candidates(queries, items, method)
                for row, query, some, found in zip(rows, queries, items, candidates, strict=True):
                    results[row] = self._hits(query, some, found, method)
            cut += [read + place for place in long]
            read += sum(map(len, items))
        warn_of_cuts(cut, read, stacklevel=4)
        return results

    def _hits(self, query: Query, passages: list[Passage], candidates: Candidates, method: _Method) -> list[Hit]:
        found = self.ranker.order(query, candidates, **method.order)
        limit = len(passages) if method.k is None else method.k
        explanations = self.ranker.explain(query, candidates, found, limit) if method.explain else None
        return make_hits(passages, candidates, found, self.ranker.passages.classes, limit, explanations)

    def _candidates(
        self, queries: list[Query], passages: list[list[Passage]], method: _Method
    ) -> tuple[list[Candidates], list[int]]:
        """Encode passages, and score them as an index would, with the word statistics of general text.

        Also gives the places, the passages of all questions one after another, of those that are longer than the encoder
        reads.
        """
        places: dict[str, int] = {}
        which = np.array(
            [places.setdefault(searchable(item), len(places)) for items in passages for item in items], np.int64
        )
        evidence, cut = self.ranker.reader.read(list(places))
        pooled = unit(evidence.pooled) if method.similarity == "cosine" else evidence.pooled
        ends = np.cumsum([0, *map(len, passages)])
        found = []
        for query, first, end in zip(queries, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            rows = which[first:end]
            own = evidence.take(rows)
            dense = similarity(pooled[rows], query.pooled, method.similarity)
            lexical = bm25.score_few(own.terms, query.terms, self.ranker.pairs.idf)
            parts = fused(dense, lexical, **method.fusing, kind=None).parts
            found.append(
                Candidates(
                    rows=np.arange(len(rows)),
                    dense=dense,
                    bm25=lexical,
                    match=None,
                    parts=parts,
                    score=sum_of(parts),
                    probabilities=own.probabilities,
                    thresholds=self.ranker.passages.thresholds,
                    tokens=own.tokens,
                    sentences=own.sentences,
                    terms=own.terms,
                    idf=self.ranker.pairs.idf,
                )
            )
        return found, np.flatnonzero(np.isin(which, cut)).tolist() if cut else []


@dataclass(frozen=True)
class _Method:
    """The options of :meth:`Reranker.rerank`, checked: `order` for :meth:`Ranker.order`, `fusing` for `fused`."""

    order: dict[str, Any]
    similarity: str
    fusing: dict[str, Any]
    k: int | None
    explain: bool


def at_least(hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """Hits whose probability of answering the question reaches a threshold; their score where the method has none."""
    return [hit for hit in hits if threshold is None or hit.components.get("answers", hit.score) >= threshold]


def check_passages(passages: Sequence[Passage], name: str) -> list[Passage]:
    """Refuse what is no sequence of passages with texts and with ids of their own."""
    if not isinstance(passages, Iterable) or not all(isinstance(item, Passage) for item in passages):
        raise InputTypeError(f"{name} must be a sequence of semclass.Passage, not {short(passages)}")
    items = list(passages)
    check_unique([item.id for item in items], "passage id")
    for item in items:
        searchable(item)
    return items


def _stretches(counts: Sequence[int]) -> Iterator[list[int]]:
    """Cut questions into stretches of at most `CHUNK` passages, or one question; those without passages are in none."""
    rows: list[int] = []
    total = 0
    for row, count in enumerate(counts):
        if rows and total + count > CHUNK:
            yield rows
            rows, total = [], 0
        if count:
            rows.append(row)
            total += count
    if rows:
        yield rows
