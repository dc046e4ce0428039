"""The hybrid retriever: vectors and BM25 fused over a whole index, then re-ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semclass.core.checks import check_choice, check_positive, check_probability, check_text, check_texts, check_weight
from semclass.core.errors import EncoderMismatchError, InputError
from semclass.core.types import DoubleArray, Encoder, Hit, IntArray
from semclass.core.waiting import in_thread
from semclass.index.passage_index import PassageIndex
from semclass.index.records import Candidates, Order, Query, Scoring, SearchIndex, make_hits
from semclass.index.store import REMEDY
from semclass.ranking.models import BM25_WEIGHT, MATCHES, RERANKERS, SIGNALS, Ranker, weight_name
from semclass.scoring.fusion import ALPHA, FUSION, check_fusion

CANDIDATES = 50
"""Passages that are re-ranked by default: fewer cost nDCG@10, ``python -m bench defaults``."""


@dataclass(frozen=True)
class HybridRetriever:
    """An index and the models that search it; many threads may share one.

    Attributes
    ----------
    index
        The passages: a :class:`semclass.PassageIndex`, or a :class:`semclass.QdrantIndex` that a server keeps.
    ranker
        The models; their encoder must be the one that made the index.
    """

    index: SearchIndex
    ranker: Ranker

    def __post_init__(self) -> None:
        """Refuse an index that another encoder or other class heads made, or whose scores the pair heads do not know."""
        if self.index.encoder != self.ranker.encoder.fingerprint:
            raise EncoderMismatchError(
                f"the index was made with encoder {self.index.encoder}, but questions would be encoded with "
                f"{self.ranker.encoder.fingerprint}; name the encoder that made it (--encoder), or {REMEDY}"
            )
        books = self.ranker.reader.codebooks
        if self.index.codebooks not in ("", "" if books is None else books.fingerprint):
            raise EncoderMismatchError(
                f"the index was written with codebooks {self.index.codebooks}, and the models have "
                f"{'none' if books is None else books.fingerprint}; {REMEDY}"
            )
        if self.index.interaction != self.ranker.reader.interaction:
            raise EncoderMismatchError(
                f"the index holds token vectors of {self.index.interaction}, but questions would have those of "
                f"{self.ranker.reader.interaction}; {REMEDY}"
            )
        if self.index.classes != self.ranker.passages.classes:
            mine, theirs = (
                " ".join(classes) or "none" for classes in (self.index.classes, self.ranker.passages.classes)
            )
            raise InputError(
                f"the classes of the index are {mine}, those of the models {theirs}: build the index with the models that "
                "it is searched with (--models)"
            )
        self.ranker.check_similarity(self.index.similarity)
        if isinstance(self.index, PassageIndex):
            self.index.check_reader(self.ranker.reader)

    @classmethod
    def load(
        cls,
        index: str | Path,
        *,
        models: str | Path | None = None,
        encoder: Encoder | str | Path | None = None,
        threads: int = 1,
        verify: bool = True,
    ) -> HybridRetriever:
        """Open an index and load the models.

        Parameters
        ----------
        index
            Folder of the index.
        models, encoder
            Heads, and the encoder that the index was built with, see :meth:`semclass.Ranker.load`.
        threads
            Threads of the encoder.
        verify
            Whether to compare every file of the index with its SHA-256.

        Returns
        -------
        HybridRetriever
            Ready to search.

        Raises
        ------
        ArtifactError
            If the index or a model is damaged, or was made with another encoder.
        """
        ranker = Ranker.load(models, encoder=encoder, threads=threads)
        return cls(PassageIndex.load(index, encoder=ranker.encoder.fingerprint, verify=verify), ranker)

    @property
    def weights(self) -> dict[str, float]:
        """Weights that hold where a caller gives none.

        ``bm25`` is w, ``alpha`` that of convex fusion; the others are those of :attr:`semclass.Ranker.weights`, and
        absent without pair heads. What ``semclass tune`` stored in the index comes first, then what was found on the
        models' training questions.
        """
        found = self.ranker.weights if self.ranker.pair_heads else {}
        return {"bm25": BM25_WEIGHT, "alpha": ALPHA, **found, **self.index.tuned.get("weights", {})}

    @property
    def embedded(self) -> PassageIndex:
        """The index, for what looks at every passage.

        Raises
        ------
        InputError
            If a server keeps the index.
        """
        if not isinstance(self.index, PassageIndex):
            raise InputError(
                f"this looks at every passage, and a {type(self.index).__name__} gives only the best ones; do it with the "
                "index that was built here, and upload that one again"
            )
        return self.index

    def untuned(self) -> HybridRetriever:
        """The same without the weights that the index stores; needs an embedded index."""
        return replace(self, index=replace(self.embedded, tuned={}))

    def refresh(self) -> HybridRetriever:
        """Give a retriever over the index as its folder holds it now, with the same models; this one stays as it is.

        Raises
        ------
        InputError
            If the index was not loaded from a folder, or was built again with other classes.
        ArtifactError
            If the index is damaged, or was built again with another encoder.
        """
        newer = self.embedded.refresh()
        return self if newer is self.index else replace(self, index=newer)

    def search(
        self,
        question: str,
        k: int = 10,
        *,
        match: str | None = None,
        rerank: str | None = "integrated",
        by: str = "entailment",
        hard: bool = False,
        bm25_weight: float | None = None,
        match_weight: float | None = None,
        rerank_weight: float | None = None,
        candidates: int = CANDIDATES,
        explain: bool = False,
        where: Mapping[str, Any] | None = None,
        fusion: str = FUSION,
        alpha: float | None = None,
    ) -> list[Hit]:
        """Find the passages that answer a question.

        Parameters
        ----------
        question
            A non-empty text.
        k
            How many passages to give; fewer if the index holds fewer.
        match
            Class match in the score: ``"soft"``, ``"hard"`` or None, see :func:`semclass.scoring.topk.class_match`.
        rerank, by, hard, rerank_weight
            Method of re-ranking and its weight, see :meth:`semclass.Ranker.order`.
        bm25_weight
            w of ``"linear"`` fusion, at least 0.
        match_weight
            lambda, at least 0. Each weight is that of :attr:`weights` if None.
        candidates
            How many passages are re-ranked; at least `k` are.
        explain
            Whether hits say what their scores were made of, see :class:`semclass.Explanation`.
        where
            A filter over the metadata, such as ``{"page": {"$gte": 3}}``, see :mod:`semclass.index.filters`. It applies
            before anything is ranked: `k` passages that match are given, if there are so many.
        fusion
            How the scores of vectors and of BM25 become one, before class match and re-ranking: ``"convex"``, a
            weighted mean of both on one scale; ``"linear"``, dense + w * BM25, as the reference system; or ``"rrf"``, a sum
            over their ranks; see :mod:`semclass.scoring.fusion`. Weights are known for the first two; for ``"rrf"``, choose
            `match_weight` and `rerank_weight`.
        alpha
            Weight of the vectors in ``"convex"`` fusion, from 0 to 1; that of :attr:`weights` if None.

        Returns
        -------
        list of Hit
            Best first.

        Raises
        ------
        InputError, InputTypeError
            If the question is empty or not a string, or an option is not allowed.
        """
        check_text(question, "question")
        return self.search_many(
            [question],
            k,
            match=match,
            rerank=rerank,
            by=by,
            hard=hard,
            bm25_weight=bm25_weight,
            match_weight=match_weight,
            rerank_weight=rerank_weight,
            candidates=candidates,
            explain=explain,
            where=where,
            fusion=fusion,
            alpha=alpha,
        )[0]

    def search_many(
        self,
        questions: Sequence[str],
        k: int = 10,
        *,
        match: str | None = None,
        rerank: str | None = "integrated",
        by: str = "entailment",
        hard: bool = False,
        bm25_weight: float | None = None,
        match_weight: float | None = None,
        rerank_weight: float | None = None,
        candidates: int = CANDIDATES,
        explain: bool = False,
        where: Mapping[str, Any] | None = None,
        fusion: str = FUSION,
        alpha: float | None = None,
    ) -> list[list[Hit]]:
        """Search for several questions, which are encoded together.

        Parameters
        ----------
        questions
            n non-empty texts.
        k, match, rerank, by, hard, bm25_weight, match_weight, rerank_weight, candidates, explain, where, fusion, alpha
            As for :meth:`search`.

        Returns
        -------
        list of list of Hit
            In the order of `questions`.

        Raises
        ------
        InputError, InputTypeError
            If a question is empty or not a string, or an option is not allowed.
        """
        texts = check_texts(questions, "questions")
        limit = check_positive(k, "k")
        check_choice(rerank, RERANKERS, "rerank")
        check_choice(by, SIGNALS, "by")
        weight = None if rerank_weight is None else check_weight(rerank_weight, "rerank_weight")
        depth = max(limit, check_positive(candidates, "candidates")) if rerank is not None else limit
        # what nothing looks into is not read, neither of the question nor of the passages
        needed = self.ranker.needs(rerank=rerank, by=by, hard=hard, match=match, explain=explain)
        results = []
        # what a server answers is waited for without holding up others
        with self.ranker.turns if isinstance(self.index, PassageIndex) else nullcontext():
            for query in self.ranker.encode(texts, **needed):
                found = self.candidates(
                    query,
                    depth,
                    match=match,
                    bm25_weight=bm25_weight,
                    match_weight=match_weight,
                    evidence=needed["tokens"],
                    where=where,
                    fusion=fusion,
                    alpha=alpha,
                )
                order = self.order(query, found, rerank=rerank, by=by, hard=hard, weight=weight, fusion=fusion)
                passages = self.index.passages(found.rows) if found.passages is None else found.passages
                explanations = self.ranker.explain(query, found, order, limit) if explain else None
                results.append(make_hits(passages, found, order, self.index.classes, limit, explanations))
        return results

    asearch = in_thread(search)
    asearch_many = in_thread(search_many)

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """Encode and classify questions; see :meth:`semclass.Ranker.encode`."""
        return self.ranker.encode(questions)

    def scores(self, query: Query) -> tuple[DoubleArray, DoubleArray]:
        """Similarity and BM25 score of every passage, each float64 of shape (len(index),); needs an embedded index."""
        return self.embedded.scores(query)

    def candidates(
        self,
        query: Query,
        n: int,
        *,
        match: str | None = None,
        bm25_weight: float | None = None,
        match_weight: float | None = None,
        evidence: bool = True,
        where: Mapping[str, Any] | None = None,
        fusion: str = FUSION,
        alpha: float | None = None,
    ) -> Candidates:
        """Score every passage and give the n best.

        Parameters
        ----------
        query
            The question.
        n
            How many; fewer if the index holds fewer.
        match, bm25_weight, match_weight
            As for :meth:`search`.
        evidence
            Whether token vectors, sentence vectors and terms are wanted; without them their rows are empty.
        where, fusion, alpha
            As for :meth:`search`.

        Returns
        -------
        Candidates
            Best first, with everything that re-ranking needs.

        Raises
        ------
        InputError, InputTypeError
            If an option is not allowed.
        """
        query.check(classes=match is not None and self.ranker.has_classes)
        reader = self.ranker.reader if evidence else None
        scoring = self.scoring(match, bm25_weight, match_weight, fusion=fusion, alpha=alpha)
        return self.index.candidates(query, n, scoring, reader=reader, where=where)

    def retrieve(
        self,
        query: Query,
        n: int,
        *,
        match: str | None = None,
        bm25_weight: float | None = None,
        match_weight: float | None = None,
        where: Mapping[str, Any] | None = None,
        fusion: str = FUSION,
        alpha: float | None = None,
    ) -> IntArray:
        """Places in the index of the passages that :meth:`candidates` gives, without what re-ranking needs; (n,)."""
        scoring = self.scoring(match, bm25_weight, match_weight, fusion=fusion, alpha=alpha)
        return self.index.candidates(query, n, scoring, where=where).rows

    def scoring(
        self,
        match: str | None = None,
        bm25_weight: float | None = None,
        match_weight: float | None = None,
        *,
        fusion: str = FUSION,
        alpha: float | None = None,
    ) -> Scoring:
        """How passages are scored with these options; a weight that is None is that of :attr:`weights`.

        Raises
        ------
        InputError, InputTypeError
            If an option is not allowed.
        """
        check_choice(match, MATCHES, "match")
        weight, share = self._fusing(fusion, bm25_weight, alpha)
        if match is None:
            if match_weight is not None:
                raise InputError("match_weight is given without match; name match='soft' or match='hard'")
            return Scoring(weight, fusion=fusion, alpha=share)
        self.ranker.require(rerank=None, match=match)
        return Scoring(weight, match, self._weight(f"match_{match}", match_weight, "match_weight"), fusion, share)

    def _fusing(self, fusion: str, bm25_weight: float | None, alpha: float | None) -> tuple[float, float]:
        """Give w and alpha, of which `fusion` needs one at most."""
        check_fusion(fusion, bm25_weight=bm25_weight, alpha=alpha)
        share = self.weights["alpha"] if alpha is None else check_probability(alpha, "alpha")
        return self._weight("bm25", bm25_weight, "bm25_weight"), share

    def order(self, query: Query, candidates: Candidates, *, fusion: str = FUSION, **method: Any) -> Order:
        """Order candidates by one of the methods; see :meth:`semclass.Ranker.order`.

        A weight that is not given is that of :attr:`weights` for candidates that were fused so.
        """
        if method.get("rerank") == "integrated" and method.get("weight") is None:
            self.ranker.require(**method)
            signal = weight_name(method.get("by", "entailment"), hard=method.get("hard", False), fusion=fusion)
            method["weight"] = self._weight(signal, None, "rerank_weight")
        return self.ranker.order(query, candidates, **method)

    def _weight(self, name: str, given: float | None, option: str) -> float:
        """The weight that a caller gives, or the one that holds otherwise."""
        if given is not None:
            return check_weight(given, option)
        if name not in (weights := self.weights):
            raise InputError(
                f"no weight is known for {name!r}, as there are no pair heads that bring one; give {option}"
            )
        return weights[name]
