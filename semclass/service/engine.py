"""The work of a service: the library's calls, awaited, with many small requests in one run of the encoder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from math import ceil
from typing import Any

from semclass.core.checks import check_positive, check_text, check_texts
from semclass.core.cpu import available_threads
from semclass.core.errors import InputError, SemclassError
from semclass.core.types import Hit, Passage, PassageLabels, QuestionLabel
from semclass.heads.entailment import EntailmentClassifier, EntailmentLabel, check_pairs
from semclass.index.passage_encoder import searchable
from semclass.index.passage_index import PassageIndex
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.models import Models
from semclass.ranking.reranker import Reranker, check_passages
from semclass.ranking.retriever import HybridRetriever
from semclass.service.jobs import Job, Kind
from semclass.service.queue import Queue
from semclass.service.settings import Settings

SEARCH, CANDIDATES_OF_TEXT, EXPLAINED_OF_TEXT = 3, 16, 10
"""What a search costs, in texts that are classified: itself, and one for so many candidates, and hits that are explained.

Measured with one thread: 2.8 ms a short question; a search 7 ms, and 0.16 ms a candidate and 0.30 ms an explained hit.
"""

SEARCHED_TEXT = 64
"""Characters of each of these texts."""

HITS = 10
"""Hits of a search that says nothing of them, as :meth:`semclass.ranking.retriever.HybridRetriever.search` has it."""

SHORT, WINDOW, WINDOWS = 16, 1250, 20_000
"""What is read of a text, in characters: so many more than it has, and at most so many where the encoder reads one window
of it, or as many as it ever reads (:data:`semclass.encoders.onnx_encoder.MAX_WINDOWS`).

Measured with one thread: 20 µs a character of 50 to 20,000, in texts of 50 characters 26 µs.
"""


class NoIndexError(SemclassError):
    """The service was started without an index."""


class Engine(Queue):
    """The models and the index of a service; all methods belong to one event loop.

    Parameters
    ----------
    models
        The models. Their encoder should have one thread: two runs side by side are faster than one with two threads.
    retriever
        The index with its models; None: nothing can be searched. The attribute may be set to another one at any time; runs
        that have begun keep theirs.
    settings
        Limits.
    entailment
        The heads that judge pairs; None: pairs are refused.
    workers
        Threads that run the models; as many as there are processors for the encoder's threads if None.

    Attributes
    ----------
    pace
        How long work takes.
    on_batch
        Called with the kind of work and the number of texts when a run begins, if it is set.
    """

    def __init__(
        self,
        models: Models,
        retriever: HybridRetriever | None,
        settings: Settings,
        *,
        entailment: EntailmentClassifier | None = None,
        workers: int | None = None,
    ) -> None:
        super().__init__(settings, _workers_for(models) if workers is None else check_positive(workers, "workers"))
        self.models = models
        self.retriever = retriever
        self.entailment = entailment
        self._reranker = Reranker(models)

    @property
    def searched(self) -> HybridRetriever:
        """What is searched."""
        if self.retriever is None:
            raise NoIndexError(
                "this service has no index, so there is nothing to search; start it with semclass serve INDEX"
            )
        return self.retriever

    async def classify_questions(self, texts: Sequence[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """See :meth:`semclass.heads.questions.QuestionClassifier.predict`."""
        items, predict = check_texts(texts, "questions"), self.models.questions.predict
        kind = Kind("questions", repr(min_probability), lambda some: predict(some, min_probability=min_probability))
        return await self._in_parts(kind, [(item, len(item), _read(item, WINDOW)) for item in items], 1)

    async def classify_passages(self, texts: Sequence[str]) -> list[PassageLabels]:
        """See :meth:`semclass.heads.passages.PassageClassifier.predict`."""
        items = check_texts(texts, "passages")
        kind = Kind("passages", "", self.models.passages.predict)
        return await self._in_parts(kind, [(item, len(item), _read(item, WINDOWS)) for item in items], 1)

    async def entails(self, pairs: Sequence[tuple[str, str]]) -> list[EntailmentLabel]:
        """See :meth:`semclass.heads.entailment.EntailmentClassifier.predict`."""
        if self.entailment is None:
            raise InputError("there is no head for pairs; serve models with a folder entailment/")
        items = check_pairs(pairs)
        kind = Kind("pairs", "", self.entailment.predict)
        sized = [(item, sum(map(len, item)), sum(_read(text, WINDOW) for text in item)) for item in items]
        return await self._in_parts(kind, sized, 2)

    async def rerank(self, question: str, passages: Sequence[Passage], **options: Any) -> list[Hit]:
        """See :meth:`semclass.ranking.reranker.Reranker.rerank`."""
        item = (check_text(question, "question"), check_passages(passages, "passages"))

        def call(some: list[tuple[str, list[Passage]]]) -> list[list[Hit]]:
            return self._reranker.rerank_many([asked for asked, _ in some], [given for _, given in some], **options)

        shown = len(item[1]) if options.get("k") is None else min(options["k"], len(item[1]))
        texts = 1 + len(item[1]) + _explained(shown, options)
        lengths = [len(searchable(passage)) for passage in item[1]]
        # as a whole, and sentence by sentence
        cost = _read(question, WINDOW) + sum(length + min(length, WINDOWS) + SHORT for length in lengths)
        kind = Kind("rerank", _digest(options), call)
        hits: list[Hit] = await self._alone(kind, item, texts, len(question) + sum(lengths), cost)
        return hits

    async def search(self, question: str, **options: Any) -> list[Hit]:
        """See :meth:`semclass.ranking.retriever.HybridRetriever.search`."""

        def call(some: list[str]) -> list[list[Hit]]:
            # that of when the run begins: those who waited find what is new
            return self.searched.search_many(some, **options)

        away = not isinstance(self.searched.index, PassageIndex)
        kind = Kind("search", _digest(options), call, away)
        limit = options.get("k", HITS)
        candidates = options.get("candidates") or METHODS[options.get("method", DEFAULT)].candidates
        texts = SEARCH + ceil(max(limit, candidates) / CANDIDATES_OF_TEXT)
        texts += _explained(limit, options)
        cost = texts * SEARCHED_TEXT
        hits: list[Hit] = await self._alone(kind, check_text(question, "question"), texts, len(question), cost)
        return hits

    async def _alone(self, kind: Kind, item: Any, texts: int, characters: int, cost: int) -> Any:
        """Do one item, which cannot be cut."""
        large = not self.fits(texts, cost)
        job = Job(kind, [item], texts, characters, cost, large, asyncio.get_running_loop().create_future())
        return (await self.do([job]))[0]

    async def _in_parts(self, kind: Kind, items: list[tuple[Any, int, int]], each: int) -> list[Any]:
        """Do items of `each` texts, some characters and some cost, as many in a run as fit into it."""
        loop = asyncio.get_running_loop()
        parts: list[list[tuple[Any, int, int]]] = []
        total = 0
        for item in items:
            total += item[2]
            if not parts or not self.fits(each * (len(parts[-1]) + 1), total):
                parts.append([])
                total = item[2]
            parts[-1].append(item)
        large = len(parts) > 1 or not self.fits(0, total)
        jobs = []
        for part in parts:
            own, lengths, costs = (list(column) for column in zip(*part, strict=True))
            size = each * len(own)
            jobs.append(Job(kind, own, size, sum(lengths), sum(costs), large, loop.create_future()))
        return await self.do(jobs)


def _read(text: str, most: int) -> int:
    """Characters that are read of a text, about."""
    return min(len(text), most) + SHORT


def _explained(hits: int, options: dict[str, Any]) -> int:
    """Texts that explanations of some hits cost, if there are any."""
    return ceil(hits / EXPLAINED_OF_TEXT) if options.get("explain") else 0


def _digest(options: dict[str, Any]) -> str:
    """Digest of options: equal for those that may share a run, and short for a filter of any length."""
    return blake2b(repr(sorted(options.items())).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


def _workers_for(models: Models) -> int:
    return max(available_threads() // int(getattr(models.encoder, "threads", 1)), 1)
