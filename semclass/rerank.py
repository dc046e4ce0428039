"""Re-ranking passages that come from elsewhere: another search engine, a database, a web page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass import bm25
from semclass.bulk import warn_of_cuts
from semclass.candidates import Candidates, Query, make_hits, sum_of
from semclass.errors import InputTypeError
from semclass.evidence import searchable
from semclass.ranker import BM25_WEIGHT, RERANKERS, SIGNALS, Ranker
from semclass.ranking import SIMILARITIES, similarity, unit
from semclass.types import Encoder, Hit, Passage
from semclass.validation import check_choice, check_positive, check_text, check_unique, check_weight, short
from semclass.waiting import in_thread


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
            Heads, which must include pair heads, and their encoder, see :meth:`semclass.ranker.Ranker.load`.
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
        bm25_weight: float = BM25_WEIGHT,
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
            ``"integrated"`` from dense + w * BM25 among them.
        similarity
            How vectors are compared, see :func:`semclass.ranking.similarity`; as where the pair heads were trained if None.
        bm25_weight
            w.
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
        check_text(question, "question")
        check_choice(rerank, RERANKERS[1:], "rerank")
        check_choice(by, SIGNALS, "by")
        self.ranker.require(rerank=rerank, by=by)
        compared = self.ranker.pairs.similarity if similarity is None else similarity
        check_choice(compared, SIMILARITIES, "similarity")
        self.ranker.check_similarity(compared)
        weight = None if rerank_weight is None else check_weight(rerank_weight, "rerank_weight")
        if isinstance(passages, (str, Passage)) or not all(isinstance(item, Passage) for item in passages):
            raise InputTypeError(f"passages must be a sequence of semclass.Passage, not {short(passages)}")
        items = list(passages)
        check_unique([item.id for item in items], "passage id")
        if not items:
            return []
        limit = len(items) if k is None else check_positive(k, "k")
        with self.ranker.turns:
            (query,) = self.ranker.encode([question])
            candidates = self._candidates(query, items, compared, check_weight(bm25_weight, "bm25_weight"))
            found = self.ranker.order(query, candidates, rerank=rerank, by=by, hard=hard, weight=weight)
            explanations = self.ranker.explain(query, candidates, found, limit) if explain else None
        return make_hits(items, candidates, found, self.ranker.passages.classes, limit, explanations)

    arerank = in_thread(rerank)

    def _candidates(self, query: Query, passages: list[Passage], compared: str, bm25_weight: float) -> Candidates:
        """Encode passages, and score them as an index would, with the word statistics of general text."""
        evidence, cut = self.ranker.reader.read([searchable(passage) for passage in passages])
        warn_of_cuts(cut, len(passages), stacklevel=4)
        pooled = unit(evidence.pooled) if compared == "cosine" else evidence.pooled
        dense = similarity(pooled, query.pooled, compared)
        lexical = bm25.score_few(evidence.terms, query.terms, self.ranker.pairs.idf)
        parts = {"dense": dense, "bm25": bm25_weight * lexical}
        return Candidates(
            rows=np.arange(len(passages)),
            dense=dense,
            bm25=lexical,
            match=None,
            parts=parts,
            score=sum_of(parts),
            probabilities=evidence.probabilities,
            thresholds=self.ranker.passages.thresholds,
            tokens=evidence.tokens,
            sentences=evidence.sentences,
            terms=evidence.terms,
            idf=self.ranker.pairs.idf,
        )
