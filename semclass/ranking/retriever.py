"""The hybrid retriever: vectors and BM25 fused over a whole index, then re-ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.asynchronous import in_thread
from semclass.core.checks import check_positive, check_text, check_texts
from semclass.core.errors import EncoderMismatchError, InputError
from semclass.core.files import REMEDY
from semclass.core.types import DoubleArray, Encoder, FloatArray, Hit, IntArray
from semclass.heads.texts import TextModel, classify_all
from semclass.index.passage_index import PassageIndex
from semclass.index.records import FOLDER, Candidates, Query, Scoring, SearchIndex, make_hits
from semclass.ranking.boost import boosted, read_boost
from semclass.ranking.language import BY_WORDS, OTHER, warn_of_language
from semclass.ranking.methods import DEFAULT, DOCUMENT, METHODS, Method, check_weights, find_method, weight_of
from semclass.ranking.models import Models
from semclass.ranking.rewritten import search_rewritten
from semclass.rewriting.transform import QueryTransform, rewritten
from semclass.scoring.fusion import DEPTH
from semclass.scoring.topk import unit

FEW = 20
"""Passages that general text counts as in how rare words are: in an index of ten, those of a question are in most of them.

With ten passages as an index, five of which only resemble the answer, the answer is first in 24 % by the index's own idf,
and in 42 % by that of general text; of 232 to 11,429 passages their own is better, by 0.5 to 1.0 points of nDCG@10.
"""


@dataclass(frozen=True)
class HybridRetriever:
    """An index and the models that search it; many threads may share one.

    Attributes
    ----------
    index
        The passages: a :class:`semclass.PassageIndex`, or a :class:`semclass.QdrantIndex` that a server keeps.
    models
        The models; their encoder must be the one that made the index.
    """

    index: SearchIndex
    models: Models

    def __post_init__(self) -> None:
        """Refuse an index that another encoder or other class heads made, or whose scores the pair heads do not know."""
        if self.index.encoder != self.models.encoder.fingerprint:
            raise EncoderMismatchError(
                f"the index was made with encoder {self.index.encoder}, but questions would be encoded with "
                f"{self.models.encoder.fingerprint}; name the encoder that made it (--encoder), or {REMEDY}"
            )
        books = self.models.passage_encoder.codebooks
        if self.index.codebooks not in ("", "" if books is None else books.fingerprint):
            raise EncoderMismatchError(
                f"the index was written with codebooks {self.index.codebooks}, and the models have "
                f"{'none' if books is None else books.fingerprint}; {REMEDY}"
            )
        if self.index.classes != self.models.passages.classes:
            mine, theirs = (
                " ".join(classes) or "none" for classes in (self.index.classes, self.models.passages.classes)
            )
            raise InputError(
                f"the classes of the index are {mine}, those of the models {theirs}: build the index with the models that "
                "it is searched with (--models)"
            )
        self.models.check_similarity(self.index.similarity)
        self.index.check_passage_encoder(self.models.passage_encoder)

    @classmethod
    def load(
        cls,
        index: str | Path,
        *,
        models: str | Path | None = None,
        encoder: Encoder | str | Path | None = None,
        heads: Mapping[str, TextModel | str | Path] | None = None,
        threads: int = 1,
        verify: bool = True,
    ) -> HybridRetriever:
        """Open an index and load the models.

        Parameters
        ----------
        index
            Folder of the index.
        models, encoder, heads, threads
            As for :meth:`semclass.Models.load`; the encoder is the one that the index was built with.
        verify
            Whether to compare every file of the index with its SHA-256.

        Raises
        ------
        ArtifactError
            If the index or a model is damaged, or was made with another encoder.
        """
        loaded = Models.load(models, encoder=encoder, heads=heads, threads=threads)
        return cls(PassageIndex.load(index, encoder=loaded.encoder.fingerprint, verify=verify), loaded)

    @property
    def weights(self) -> dict[str, float]:
        """Weights that hold where a caller gives none: of the models, or what ``semclass tune`` stored in the index.

        ``bm25`` is w, ``alpha`` that of convex fusion; the others come from the pair heads, and are absent without them.
        """
        return {**self.models.weights, **self.index.tuned.get("weights", {})}

    @property
    def embedded(self) -> PassageIndex:
        """The index, for what looks at every passage; an InputError if a server keeps it."""
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
        method: str = DEFAULT,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int | None = None,
        where: Mapping[str, Any] | None = None,
        boost: Mapping[str, float] | Sequence[str] | None = None,
        explain: bool = False,
        rewrite: QueryTransform | None = None,
        history: Sequence[str] = (),
    ) -> list[Hit]:
        """Find the passages that answer a question.

        Parameters
        ----------
        question
            A non-empty text.
        k
            How many passages to give; fewer if the index holds fewer.
        method
            One of :data:`semclass.ranking.methods.METHODS`; ``"default"`` is the best that is known.
        fusion
            ``"convex"``, ``"linear"`` or ``"rrf"`` in place of the method's own way to fuse the scores of vectors and of
            BM25, see :mod:`semclass.scoring.fusion`.
        weights
            Weights that take the place of those in :attr:`weights`, by their names; those that the method does not read
            change nothing. ``alpha`` is from 0 to 1, the others are at least 0. ``document``, 0 if not given, is that of
            the scores of the first passage of the same document, for chunks that do not say what they belong to.
        candidates
            How many passages are re-ranked; None: as many as the method names. If `k` is more, the others follow in the
            order before, so that what comes first does not depend on `k`.
        where
            A filter over the metadata, such as ``{"page": {"$gte": 3}}``, see :mod:`semclass.index.filters`. It applies
            before anything is ranked: `k` passages that match are given, if there are so many.
        boost
            Names of heads, of `models` and of the index, whose label of the question a passage should bear, or their
            weights by name: see ``semclass.ranking.boost``.
        explain
            Whether hits say what their scores were made of, see :class:`semclass.Explanation`.
        rewrite
            What the question is rewritten by before the search, such as a :class:`semclass.rewriting.rewriter.Rewriter`,
            see :func:`semclass.ranking.rewritten.search_rewritten`.
        history
            What was said before, question and answer in turn, oldest first; `rewrite` reads it.

        Returns
        -------
        list of Hit
            Best first.

        Raises
        ------
        InputError, InputTypeError
            If the question is empty or not a string, an option is not allowed, or the heads of the method are not there.
        """
        check_text(question, "question")
        return self.search_many(
            [question],
            k,
            method=method,
            fusion=fusion,
            weights=weights,
            candidates=candidates,
            where=where,
            boost=boost,
            explain=explain,
            rewrite=rewrite,
            history=history,
        )[0]

    def search_many(
        self,
        questions: Sequence[str],
        k: int = 10,
        *,
        method: str = DEFAULT,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int | None = None,
        where: Mapping[str, Any] | None = None,
        boost: Mapping[str, float] | Sequence[str] | None = None,
        explain: bool = False,
        rewrite: QueryTransform | None = None,
        history: Sequence[str] = (),
    ) -> list[list[Hit]]:
        """Search for several questions, which are encoded together; the hits of each, in their order.

        Options and errors are those of :meth:`search`.
        """
        texts = check_texts(questions, "questions")
        limit = check_positive(k, "k")
        if rewrite is not None:
            options: dict[str, Any] = {"method": method, "fusion": fusion, "weights": weights, "candidates": candidates}
            options |= {"where": where, "boost": boost, "explain": explain}
            return [search_rewritten(self, rewritten(rewrite, text, history), limit, **options) for text in texts]
        if history:
            raise InputError("history is read by what rewrites the question; give rewrite, too")
        return self._search(texts, None, limit, method, fusion, weights, candidates, where, boost, explain)

    def search_by_texts(
        self,
        question: str,
        texts: Sequence[str],
        k: int = 10,
        *,
        method: str = DEFAULT,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        candidates: int | None = None,
        where: Mapping[str, Any] | None = None,
        boost: Mapping[str, float] | Sequence[str] | None = None,
        explain: bool = False,
    ) -> list[Hit]:
        """Search with the mean vector of some texts, such as imagined answers, in place of the question's (HyDE).

        All else goes by the question: BM25, and the evidence by which candidates are re-ranked. For options and errors see
        :meth:`search`.
        """
        asked = [check_text(question, "question")]
        given = check_texts(texts, "texts")
        # they are answers, of which all is read
        vectors = unit(self.models.encoder.encode(given).rows("pooled"))
        mean = np.asarray(np.mean(vectors, axis=0), np.float32)
        limit = check_positive(k, "k")
        return self._search(asked, mean, limit, method, fusion, weights, candidates, where, boost, explain)[0]

    def _search(
        self,
        texts: list[str],
        vector: FloatArray | None,
        limit: int,
        method: str,
        fusion: str | None,
        weights: Mapping[str, float] | None,
        candidates: int | None,
        where: Mapping[str, Any] | None,
        boost: Mapping[str, float] | Sequence[str] | None,
        explain: bool,
    ) -> list[list[Hit]]:
        """Search for questions that are checked, perhaps with another vector in place of theirs."""
        how, own = find_method(method, fusion), self.used(weights)
        wanted = how.candidates if candidates is None else check_positive(candidates, "candidates")
        gains = read_boost(boost, self.models.heads, self.index, how)
        depth = min(limit, DEPTH) if how.rerank is None and not gains else wanted
        self.models.require(how)
        # what the method does not look at is read neither of the question nor of the passages
        needed = self.models.needs(how, explain=explain)
        results, languages = [], set()
        # waiting for a server must not keep others from working
        with self.models.turns if self.index.kind == FOLDER else nullcontext():
            labels = classify_all({name: self.models.heads[name] for name in gains}, texts)
            for row, query in enumerate(self.models.encode(texts, **needed)):
                near = query if vector is None else replace(query, pooled=vector)
                found = self.candidates(near, depth, how, weights=own, evidence=needed["tokens"], where=where)
                passages = self.index.passages(found.rows) if found.passages is None else found.passages
                ranked = self.models.order(query, found, how, weights=own, passages=passages)
                if gains:
                    ranked = boosted(ranked, passages, {name: labels[name][row] for name in gains}, gains)
                languages.add(ranked.language)
                explanations = self.models.explain(query, ranked, limit, passages) if explain else None
                asked, told = query.asked, ranked.answerable
                hits = make_hits(
                    passages, ranked, self.index.classes, limit, explanations, asked=asked, answerable=told
                )
                if len(ranked) == depth < limit:
                    hits += self._rest(near, ranked, limit, how, own, where, needed["tokens"], explain=explain)
                results.append(hits)
        if OTHER in languages:
            warn_of_language()
        return results

    def _rest(
        self,
        query: Query,
        first: Candidates,
        limit: int,
        method: Method,
        weights: Mapping[str, float],
        where: Mapping[str, Any] | None,
        evidence: bool,
        *,
        explain: bool,
    ) -> list[Hit]:
        """The hits behind the first ones, in the order before re-ranking, with scores below theirs."""
        found = self.candidates(query, limit, method, weights=weights, evidence=evidence, where=where)
        places = np.flatnonzero(~np.isin(found.rows, first.rows))
        if not len(places):
            return []
        below = min(0.0, float(first.score.min() - found.score[places[0]]))
        parts = {**found.parts, "below": np.full(len(found), below)} if below else found.parts
        rest = replace(found, order=places, score=found.score + below, parts=parts)
        passages = self.index.passages(found.rows) if found.passages is None else found.passages
        room = limit - len(first)
        explanations = self.models.explain(query, rest, room, passages) if explain else None
        return make_hits(
            passages,
            rest,
            self.index.classes,
            room,
            explanations,
            asked=query.asked,
            answerable=first.answerable,
            before=len(first),
        )

    asearch = in_thread(search)
    asearch_many = in_thread(search_many)

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """Encode and classify questions; see :meth:`semclass.Models.encode`."""
        return self.models.encode(questions)

    def scores(self, query: Query) -> tuple[DoubleArray, DoubleArray]:
        """Similarity and BM25 score of every passage, each float64 of shape (len(index),); needs an embedded index."""
        return self.embedded.scores(query)

    def candidates(
        self,
        query: Query,
        n: int,
        method: Method = METHODS[DEFAULT],
        *,
        weights: Mapping[str, float] | None = None,
        evidence: bool = True,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Give the n best passages by the scores that a method re-ranks, best first.

        Parameters
        ----------
        query
            The question.
        n
            How many; fewer if the index holds fewer.
        method
            Its fusion and class match count.
        weights
            Of fusion and class match; those of :attr:`weights` if None.
        evidence
            Whether token vectors, sentence vectors and terms are read, too; without them their rows are empty.
        where
            As for :meth:`search`.
        """
        query.check(classes=method.match is not None and self.models.has_classes)
        passage_encoder = self.models.passage_encoder if evidence else None
        found = self.index.candidates(
            query, n, self._scoring(method, weights), passage_encoder=passage_encoder, where=where
        )
        if self.models.pair_heads is None:
            return found
        if method.rerank == "evidence" and evidence and self.models.language is not None:
            found = self._in_language(query, n, found, weights, where, self.models.language.language(found))
        share = np.float32(len(self.index) / (len(self.index) + FEW))
        general = self.models.pair_heads.idf
        return replace(found, idf=general + share * (found.idf - general))

    def _in_language(
        self,
        query: Query,
        n: int,
        found: Candidates,
        weights: Mapping[str, float] | None,
        where: Mapping[str, Any] | None,
        language: str,
    ) -> Candidates:
        """Candidates with their language, found by words if the models do not read it."""
        if language != OTHER:
            return replace(found, language=language)
        if self.index.tuned:
            return found  # weights that were tuned on this very index know better
        by_words = self._scoring(BY_WORDS, weights)
        passage_encoder = self.models.passage_encoder
        again = self.index.candidates(query, n, by_words, passage_encoder=passage_encoder, where=where)
        return replace(again, language=language)

    def retrieve(self, query: Query, n: int, method: Method, *, weights: Mapping[str, float] | None = None) -> IntArray:
        """Rows of the passages that :meth:`candidates` gives, int64 of shape (n,)."""
        return self.index.candidates(query, n, self._scoring(method, weights)).rows

    def used(self, weights: Mapping[str, float] | None) -> dict[str, float]:
        """Weights of a search: those of :attr:`weights`, with the given ones in their place."""
        return {**self.weights, **check_weights(weights)}

    def _scoring(self, method: Method, weights: Mapping[str, float] | None) -> Scoring:
        used = self.weights if weights is None else weights
        alpha = used["alpha"] if method.alpha is None else method.alpha
        if method.match is None:
            both = method.fusion == "convex" and method.alpha is None
            document = used.get(DOCUMENT, 0.0) if both else 0.0
            return Scoring(used["bm25"], fusion=method.fusion, alpha=alpha, document=document)
        self.models.require(method)
        return Scoring(used["bm25"], method.match, weight_of(used, f"match_{method.match}"), method.fusion, alpha)
