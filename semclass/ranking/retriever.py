"""The hybrid retriever. It fuses vectors and BM25 over a whole index, and re-ranks the best passages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from semclass.core.checks import check_choice, check_positive, check_text, check_texts, counted
from semclass.core.errors import InputError, SkippedWarning, warn
from semclass.core.types import Encoder, FloatArray, Hit, IntArray, Passage, SearchResult
from semclass.documents.readers import Skipped, iter_passages
from semclass.encoders.batching import concurrency_limit
from semclass.heads.texts import TextModel, classify_all
from semclass.index.candidates import Candidates, Query, make_hits
from semclass.index.passage_encoder import check_models, check_types
from semclass.index.passage_index import PassageIndex
from semclass.index.remote import RemoteIndex, SearchIndex
from semclass.ranking import boost
from semclass.ranking.ask import MAX_SENTENCES, READ_HITS, Answer, answer_from
from semclass.ranking.explain import explain, question_idf
from semclass.ranking.methods import BY_WORDS, DEFAULT, METHODS, Method, method_for
from semclass.ranking.models import OTHER, Models, warn_of_language
from semclass.ranking.options import SearchKeywords, SearchOptions
from semclass.ranking.reranker import as_passages
from semclass.scoring.fusion import DEPTH
from semclass.scoring.vectors import unit

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing has it from Python 3.11 on

DEFAULT_OPTIONS = SearchOptions()


@dataclass(frozen=True)
class HybridRetriever:
    """Searches an index with models. Threads may share one instance.

    All methods that search raise an ``InputError`` or ``InputTypeError`` if a text is empty or not a string, an option is
    not allowed, or the models lack the heads of the method. Loading raises an ``ArtifactError`` if the index or a model is
    damaged or was made for another encoder.

    Attributes
    ----------
    index
        A :class:`semclass.PassageIndex`, or an index in another engine, see :mod:`semclass.index.remote`.
    models
        The models, with the encoder that built the index.
    """

    index: SearchIndex
    models: Models

    def __post_init__(self) -> None:
        """Refuse models that did not build the index."""
        check_models(self.index, self.models.passage_encoder, "the index")
        check_types(self.index.types, self.models.passage_encoder, small=self.index.small)

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
            See :meth:`semclass.Models.load`. The encoder must be the one that built the index.
        verify
            Whether to compare every file of the index with its SHA-256.
        """
        loaded = Models.load(models, encoder=encoder, heads=heads, threads=threads)
        return cls(PassageIndex.load(index, verify=verify), loaded)

    @classmethod
    def from_passages(
        cls, passages: Iterable[Passage | str], *, models: Models | str | Path | None = None
    ) -> HybridRetriever:
        """Index passages in memory.

        Parameters
        ----------
        passages
            At least one passage. Plain strings get their places, from 0, as ids. Ids must be unique.
        models
            The models, or a folder or name for :meth:`semclass.Models.load`. Defaults to the shipped models.
        """
        loaded = models if isinstance(models, Models) else Models.load(models)
        return cls(PassageIndex.build(as_passages(passages), passage_encoder=loaded.passage_encoder), loaded)

    @classmethod
    def from_folder(cls, folder: str | Path, *, models: Models | str | Path | None = None) -> HybridRetriever:
        """Read a folder of documents and index their passages in memory. Use ``semclass index build`` to save an index.

        Parameters
        ----------
        folder
            A folder for :func:`semclass.documents.readers.iter_passages`. Files that cannot be read are skipped with a
            :class:`semclass.SkippedWarning`. Text that most files repeat is left out.
        models
            See :meth:`from_passages`.
        """
        skipped: list[Skipped] = []
        retriever = cls.from_passages(iter_passages(folder, skipped=skipped.append), models=models)
        if skipped := [file for file in skipped if file.kind != "copy"]:
            warn(
                SkippedWarning(
                    f"{counted(len(skipped), 'file')} of {folder} cannot be read in full; the first is "
                    f"{skipped[0].document}: {skipped[0].reason}"
                )
            )
        return retriever

    @property
    def weights(self) -> dict[str, float]:
        """Default weights of a search: those of the models, or those that ``semclass tune`` stored in the index."""
        return {**self.models.weights, **self.index.tuned.get("weights", {})}

    @property
    def method(self) -> str:
        """Default method of a search: ``"default"``, or the method that ``semclass tune --method`` stored in the index."""
        name: str = self.index.tuned.get("method", DEFAULT)
        check_choice(name, tuple(METHODS), "the method of the index")
        return name

    @property
    def answerable_from(self) -> float | None:
        """Threshold of ``answerable`` that ``semclass calibrate`` stored in the index, or None."""
        threshold: float | None = self.index.tuned.get("answerable", {}).get("from")
        return threshold

    @property
    def local_index(self) -> PassageIndex:
        """The index, if all its passages can be read here. Raises an InputError if the index is on a server."""
        if not isinstance(self.index, PassageIndex):
            raise InputError(
                f"this needs every passage, and a {type(self.index).__name__} returns only the best; use the local index "
                "from which the collection was uploaded, and upload it again"
            )
        return self.index

    def refresh(self) -> HybridRetriever:
        """Return a retriever over the current state of the index folder, with the same models."""
        newer = self.local_index.refresh()
        return self if newer is self.index else replace(self, index=newer)

    def search(
        self,
        question: str,
        k: int = 10,
        options: SearchOptions = DEFAULT_OPTIONS,
        **keywords: Unpack[SearchKeywords],
    ) -> SearchResult:
        """Find the passages that answer a question, best first.

        Parameters
        ----------
        question
            A non-empty text.
        k
            Most passages to return. An index may hold fewer.
        options
            Options of the search.
        **keywords
            Attributes of :class:`semclass.SearchOptions`, such as ``method="convex"``. They replace the attributes of
            `options`.

        """
        return self._search([check_text(question, "question")], k, options, keywords)[0]

    def search_many(
        self,
        questions: Sequence[str],
        k: int = 10,
        options: SearchOptions = DEFAULT_OPTIONS,
        **keywords: Unpack[SearchKeywords],
    ) -> list[SearchResult]:
        """Search for several questions, and return one result per question, in the same order. Encodes them together."""
        return self._search(check_texts(questions, "questions"), k, options, keywords)

    def ask(
        self,
        question: str,
        k: int = MAX_SENTENCES,
        options: SearchOptions = DEFAULT_OPTIONS,
        **keywords: Unpack[SearchKeywords],
    ) -> Answer:
        """Find at most `k` sentences that answer a question, at most three per passage. Needs no language model."""
        limit = check_positive(k, "k")
        result = self.search(question, READ_HITS, options, **keywords)
        return answer_from(self.models, question, result, limit, self.answerable_from)

    def _search(
        self, questions: list[str], k: int, options: SearchOptions, keywords: SearchKeywords
    ) -> list[SearchResult]:
        """Search for questions that are checked."""
        check_positive(k, "k")
        options = replace(options, **keywords) if keywords else options
        models, method = self.models, method_for(self.models, options.method or self.method)
        weights = {**self.weights, **(options.weights or {})}
        gains = boost.read_boost(options.boost, models.heads, self.index, method) if options.boost else {}
        depth = min(k, DEPTH)
        if method.candidates or gains:
            depth = options.candidates or method.candidates or boost.CANDIDATES
        needed = method.needs.encoded(options.explain)
        read: dict[str, Any] = {"weights": weights, "evidence": needed["tokens"], "where": options.where}
        results = []
        # waiting for a server must not keep others from working
        with nullcontext() if isinstance(self.index, RemoteIndex) else concurrency_limit():
            labels = classify_all({name: models.heads[name] for name in gains}, questions) if gains else {}
            if options.texts is not None:
                vectors = unit(models.encoder.encode(check_texts(options.texts, "texts")).rows("pooled"))
            for row, query in enumerate(models.encode(questions, **needed)):
                near = query if options.texts is None else replace(query, pooled=vectors.mean(axis=0))
                found = self.candidates(near, depth, method, **read)
                ranked = method.order(models, query, found, weights)
                idf = question_idf(query, self.index, models) if options.explain else None
                if ranked.language == OTHER:
                    found = self.candidates(near, depth, method, **{**read, "weights": {**weights, **BY_WORDS}})
                    ranked = method.order(models, query, found, weights)
                if gains:
                    whole = tuple(self._passages(ranked, np.arange(len(ranked))))
                    asked = {name: labels[name][row] for name in gains}
                    ranked = replace(boost.boosted(ranked, whole, asked, gains), passages=whole)
                hits = self._hits(query, ranked, k, idf)
                if len(ranked) == depth < k:
                    rest = _behind(ranked, self.candidates(near, k, method, **read))
                    hits += self._hits(query, rest, k - depth, idf, depth)
                result = SearchResult(hits, query.query_used, ranked.certainty, ranked.answerable, ranked.language)
                results.append(result)
        if any(result.language == OTHER for result in results):
            warn_of_language()
        return results

    def _hits(
        self, query: Query, ranked: Candidates, k: int, idf: FloatArray | None, before: int = 0
    ) -> tuple[Hit, ...]:
        """Make the first k hits of a ranking; with the `idf` of the question's word pieces, (m,), explain them."""
        passages = self._passages(ranked, ranked.order[:k])
        explanations = None if idf is None else explain(self.models, query, ranked, passages, idf)
        return make_hits(query, ranked, passages, explanations, before)

    def _passages(self, found: Candidates, places: IntArray) -> Sequence[Passage]:
        """Return the passages at some places of candidates."""
        if found.passages is None:
            return self.local_index.passages(found.rows[places])
        return [found.passages[place] for place in places.tolist()]

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
        """Return the n best passages, or fewer, by a method's scores before re-ranking, best first.

        `weights` replace those in :attr:`weights`. Without `evidence`, the rows of token vectors, excerpt vectors and
        terms are empty. `where` is a filter, see :class:`semclass.SearchOptions`.
        """
        used = {**self.weights, **(weights or {})}
        passage_encoder = self.models.passage_encoder if evidence else None
        return self.index.candidates(query, n, method.scoring(used), passage_encoder=passage_encoder, where=where)


def _behind(first: Candidates, found: Candidates) -> Candidates:
    """Rank found passages behind the first ones, in their order before re-ranking, with scores below theirs."""
    places = np.flatnonzero(~np.isin(found.rows, first.rows))
    below = min(0.0, float(first.score.min() - found.score[places[0]])) if len(places) else 0.0
    parts = {**found.parts, "below": np.full(len(found), below)} if below else found.parts
    return replace(found, order=places, score=found.score + below, parts=parts)
