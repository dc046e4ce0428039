"""Re-ranking passages that come from elsewhere: another search engine, a database, a web page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core.asynchronous import in_thread
from semclass.core.checks import check_positive, check_text, check_texts, check_unique, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Encoder, Hit, Passage, Ragged
from semclass.encoders.batching import CHUNK, warn_truncated
from semclass.index.passage_encoder import parts_of, searchable
from semclass.index.records import Candidates, Query, make_hits, sum_of
from semclass.ranking.language import OTHER, told, warn_of_language
from semclass.ranking.methods import DEFAULT, Method, check_weights, find_method
from semclass.ranking.models import Models
from semclass.scoring import bm25
from semclass.scoring.dense import shares_of
from semclass.scoring.fusion import fused
from semclass.scoring.topk import unit
from semclass.scoring.vectors import Vectors


@dataclass(frozen=True)
class Reranker:
    """Re-ranks passages for a question; many threads may share one.

    Attributes
    ----------
    models
        The models.
    """

    models: Models

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        threads: int = 1,
    ) -> Reranker:
        """Load the models, which must include pair heads.

        Parameters
        ----------
        models, encoder, threads
            As for :meth:`semclass.Models.load`.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        return cls(Models.load(models, encoder=encoder, threads=threads))

    def rerank(
        self,
        question: str,
        passages: Sequence[Passage | str],
        *,
        k: int | None = None,
        method: str = DEFAULT,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> list[Hit]:
        """Re-rank passages for a question.

        Parameters
        ----------
        question
            A non-empty text.
        passages
            In the order that they came in. Plain strings get their places, from 0, as ids; ids must be unique. Nothing of
            them is changed.
        k
            How many to give; all if None or larger than there are.
        method
            A method of :data:`semclass.ranking.methods.RERANKING`. Those with ``"stable"`` in their name start from the
            order that the passages came in, the integrated ones from the fused scores of vectors and BM25 among them.
        fusion
            ``"convex"``, ``"linear"`` or ``"rrf"`` in place of the method's own way to fuse the scores of vectors and of
            BM25, see :mod:`semclass.scoring.fusion`.
        weights
            Weights that take the place of the models' own, by their names, see :meth:`semclass.HybridRetriever.search`.
        explain
            Whether hits say what their scores were made of.

        Returns
        -------
        list of Hit
            Best first; ``index`` is the place in `passages`, from 0, and ``rank_before`` the same from 1. Empty for no
            passages.

        Raises
        ------
        InputError, InputTypeError
            If the question or a passage is empty or of the wrong kind, an id comes twice, an option is not allowed, or the
            heads of the method are not there.
        """
        options = self._options(method, fusion, weights, k, explain)
        return self._ranked([check_text(question, "question")], [check_passages(passages, "passages")], options)[0]

    def rerank_many(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Passage | str]],
        *,
        k: int | None = None,
        method: str = DEFAULT,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> list[list[Hit]]:
        """Re-rank the passages of several questions, which are read together; the hits of each, in their order.

        Parameters
        ----------
        questions
            n non-empty texts.
        passages
            n sequences, one for each question, each as for :meth:`rerank`. A text that comes again is read once among
            those of :data:`semclass.encoders.batching.CHUNK` passages.
        k, method, fusion, weights, explain
            As for :meth:`rerank`. Scores are the same up to 1e-6: the last bits of some depend on the texts that are read
            together.

        Raises
        ------
        InputError, InputTypeError
            As for :meth:`rerank`, and if there are not as many sequences of passages as questions.
        """
        options = self._options(method, fusion, weights, k, explain)
        texts = check_texts(questions, "questions")
        items = [check_passages(some, f"passages[{row}]") for row, some in enumerate(passages)]
        if len(items) != len(texts):
            raise InputError(
                f"there are {len(texts)} questions and {len(items)} sequences of passages; give one for each question"
            )
        return self._ranked(texts, items, options)

    arerank = in_thread(rerank)
    arerank_many = in_thread(rerank_many)

    def _options(
        self, method: str, fusion: str | None, weights: Mapping[str, float] | None, k: int | None, explain: bool
    ) -> _Options:
        """Check what is the same for all questions."""
        how = find_method(method, fusion, reranking=True)
        self.models.require(how)
        own = {**self.models.weights, **check_weights(weights)}
        return _Options(how, own, None if k is None else check_positive(k, "k"), explain)

    def _ranked(self, questions: list[str], passages: list[list[Passage]], options: _Options) -> list[list[Hit]]:
        """Re-rank the passages of questions, all of which are checked."""
        needed = self.models.needs(options.method, explain=options.explain)
        results: list[list[Hit]] = [[] for _ in questions]
        cut: list[int] = []
        read = 0
        for rows in _stretches([len(items) for items in passages]):
            items = [passages[row] for row in rows]
            # a turn for each stretch, so that other threads get theirs in between
            with self.models.turns:
                queries = self.models.encode([questions[row] for row in rows], **needed)
                candidates, long = self._candidates(queries, items, options, needed)
                for row, query, some, found in zip(rows, queries, items, candidates, strict=True):
                    results[row] = self._hits(query, some, found, options)
            cut += [read + place for place in long]
            read += sum(map(len, items))
        warn_truncated(cut, read)
        if any(hits and hits[0].language == OTHER for hits in results):
            warn_of_language()
        return results

    def _hits(self, query: Query, passages: list[Passage], candidates: Candidates, options: _Options) -> list[Hit]:
        ranked = self.models.order(query, candidates, options.method, weights=options.weights, passages=passages)
        limit = len(passages) if options.k is None else options.k
        explanations = self.models.explain(query, ranked, limit, passages) if options.explain else None
        return make_hits(passages, ranked, self.models.passages.classes, limit, explanations, asked=query.asked)

    def _candidates(
        self, queries: list[Query], passages: list[list[Passage]], options: _Options, needed: Mapping[str, bool]
    ) -> tuple[list[Candidates], list[int]]:
        """Encode passages, and score them as an index would, with the word statistics of general text.

        Also gives the places, the passages of all questions one after another, of those with a sentence that is longer than
        the encoder reads.
        """
        places: dict[tuple[str, str], int] = {}
        which = np.array(
            [places.setdefault(parts_of(item)[:2], len(places)) for some in passages for item in some],
            np.int64,
        )
        distinct = [Passage("", text, {"title": title}) for title, text in places]
        evidence, cut = self.models.passage_encoder.read(distinct, **needed)
        method, weights, compared = options.method, options.weights, self.models.pairs.similarity
        offsets = evidence.sentences.offsets
        units = Ragged(unit(evidence.sentences.values), offsets)
        vectors = units.values if compared == "cosine" else evidence.sentences.values
        shares = shares_of(vectors, evidence.words.values, offsets)
        found_vectors = Vectors(Ragged(vectors, offsets), np.ones_like(shares), shares, compared)
        ends = np.cumsum([0, *map(len, passages)])
        found = []
        for query, first, end in zip(queries, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            rows = which[first:end]
            own = evidence.take(rows)
            dense = found_vectors.scores_at(query.pooled, rows)
            lexical = bm25.score_few(own.terms, query.terms, self.models.pairs.idf)
            parts = fused(dense, lexical, method.fusion, weight=weights["bm25"], alpha=weights["alpha"]).parts
            made = Candidates(
                rows=np.arange(len(rows)),
                dense=dense,
                bm25=lexical,
                match=None,
                parts=parts,
                score=sum_of(parts),
                probabilities=own.probabilities,
                thresholds=self.models.passages.thresholds,
                tokens=own.tokens,
                sentences=units.take(rows),
                provides=own.provides,
                terms=own.pieces,
                titles=own.titles,
                idf=self.models.pairs.idf,
            )
            if method.rerank == "evidence" and self.models.language is not None:
                made = told(made, self.models.language)
            found.append(made)
        return found, np.flatnonzero(np.isin(which, cut)).tolist() if cut else []


@dataclass(frozen=True)
class _Options:
    """The checked options of a call."""

    method: Method
    weights: Mapping[str, float]
    k: int | None
    explain: bool


def at_least(hits: Sequence[Hit], threshold: float | None) -> list[Hit]:
    """Hits whose probability of answering the question reaches a threshold; their score where the method has none."""
    return [hit for hit in hits if threshold is None or hit.components.get("answers", hit.score) >= threshold]


def check_passages(passages: Sequence[Passage | str], name: str) -> list[Passage]:
    """Refuse what is no sequence of texts, or of passages with ids of their own; texts become passages."""
    if not isinstance(passages, Iterable) or isinstance(passages, (str, bytes)):
        raise InputTypeError(f"{name} must be a sequence of semclass.Passage or of strings, not {short(passages)}")
    items = []
    for place, item in enumerate(passages):
        if not isinstance(item, (Passage, str)):
            raise InputTypeError(f"{name}[{place}] must be a semclass.Passage or a string, not {short(item)}")
        items.append(Passage(str(place), item) if isinstance(item, str) else item)
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
