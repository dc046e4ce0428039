"""Calls the models and the index of a service asynchronously, so that small requests share a run of the encoder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from semclass import (
    ArtifactError,
    EntailmentClassifier,
    EntailmentLabel,
    HybridRetriever,
    Label,
    Models,
    Passage,
    PassageIndex,
    QuestionLabel,
    Reranker,
    SearchResult,
    TextModel,
)
from semclass.plugins import available_threads, classify_all
from semclass_serve.errors import ServiceError, without_heads
from semclass_serve.limits import Settings
from semclass_serve.queue import Kind, Queue

SEARCH, CANDIDATE, EXPLAINED = 200, 4, 13
"""Cost in characters of a search, of a candidate and of an explained hit.

Measured with one thread: a character takes 20 µs, a search 7 ms, a candidate 0.16 ms and an explained hit 0.50 ms.
"""

CANDIDATES = 50  #: of the default method
COMPARED = 640
"""Characters of a question that double the cost of a candidate: each word piece is compared with the whole passage."""

TEXT, WINDOW = 16, 1250
"""Characters that a text costs in addition to its own, and the most characters of one window of the encoder."""

QUESTION, QUESTION_CHARACTERS = 7, 5000
"""Cost of a character of a question, and the most characters that are read of a question of several sentences."""

SENTENCES = 1600  #: cost of comparing the sentences of the first hits
WARM_UP = "Which river is the longest?"
"""First question to search at the start, so that no client waits for the first use of a model."""


class Engine(Queue):
    """The models and the index of a service.

    Set the encoder of the models to one thread, because two parallel runs are faster than one run with two threads.
    You can replace `retriever` at any time. Without `retriever`, the engine refuses searches; without `entailment`,
    pairs; and without `scope`, requests with ``in_scope``. By default, there is a worker for each available processor.
    """

    def __init__(
        self,
        models: Models,
        retriever: HybridRetriever | None,
        settings: Settings,
        *,
        entailment: EntailmentClassifier | None = None,
        scope: TextModel | None = None,
        workers: int | None = None,
    ) -> None:
        super().__init__(settings, workers or available_threads())
        self.models = models
        self.retriever = retriever
        self.entailment = entailment
        self.scope = scope
        self._reranker = Reranker(models)
        self.cache = self._reranker.cache

    @property
    def searched(self) -> HybridRetriever:
        """The retriever. Raises a ServiceError of status 404 if there is no index."""
        if self.retriever is None:
            message = "this service has no index, so there is nothing to search; start it with semclass serve INDEX"
            raise ServiceError(404, "no_index", message)
        return self.retriever

    @property
    def local_index(self) -> PassageIndex | None:
        """The index, if there is one and it is not on a server."""
        index = None if self.retriever is None else self.retriever.index
        return index if isinstance(index, PassageIndex) else None

    async def classify_questions(self, texts: Sequence[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """See :meth:`semclass.QuestionClassifier.classify`."""
        if not self.models.has_classes:
            raise without_heads("class heads, so nothing can be classified; serve models with class heads")
        classify = self.models.questions.classify

        def call(batch: list[str]) -> list[QuestionLabel]:
            return classify(batch, min_probability=min_probability)

        # the head compares all word pieces of a question with one another
        read = [min(len(text), WINDOW) for text in texts]
        costs = [TEXT + length + 3 * length * length // WINDOW for length in read]
        return await self.do(Kind("questions", repr(min_probability), call), zip(texts, costs, strict=True))

    async def in_scope(self, texts: Sequence[str]) -> list[float]:
        """See :meth:`semclass.TextModel.predict_proba`."""
        if self.scope is None:
            raise without_heads("head for in_scope; serve models with a folder in_scope/")
        predict = self.scope.predict_proba
        kind = Kind("scope", "", lambda batch: predict(batch)[:, 0].tolist())
        return await self.do(kind, _text_costs(texts))

    async def classify_passages(self, texts: Sequence[str]) -> list[Label]:
        """See :meth:`semclass.PassageClassifier.classify`."""
        if not self.models.has_classes:
            raise without_heads("class heads, so nothing can be classified; serve models with class heads")
        return await self.do(Kind("passages", "", self.models.passages.classify), _text_costs(texts))

    async def classify_texts(
        self, texts: Sequence[str], heads: Sequence[str] | None, *, min_probability: float | None = None
    ) -> list[dict[str, Label]]:
        """Classify texts by your own heads, which are selected by name. All heads share one encoding of the texts."""
        known = self.models.heads
        unknown = [name for name in heads or () if name not in known]
        if unknown or not known:
            names = f"the heads are {', '.join(known)}" if known else "start it with semclass serve --head NAME=DIR"
            raise ServiceError(404, "no_head", f"the service has no head {unknown[0]!r}; {names}" if unknown else names)
        used = {name: known[name] for name in heads or known}

        def call(batch: list[str]) -> list[dict[str, Label]]:
            labels = classify_all(used, batch, min_probability=min_probability)
            return [dict(zip(labels, row, strict=True)) for row in zip(*labels.values(), strict=True)]

        return await self.do(Kind("texts", repr((tuple(used), min_probability)), call), _text_costs(texts))

    async def entails(self, pairs: Sequence[tuple[str, str]]) -> list[EntailmentLabel]:
        """See :meth:`semclass.EntailmentClassifier.classify`."""
        if self.entailment is None:
            raise without_heads("entailment head, so no pair can be judged; serve models with one")
        items = [(pair, _question_cost(pair[0]) + min(len(pair[1]), WINDOW) + TEXT) for pair in pairs]
        return await self.do(Kind("pairs", "", self.entailment.classify), items)

    async def rerank(self, question: str, passages: Sequence[Passage], **options: Any) -> SearchResult:
        """See :meth:`semclass.Reranker.rerank`."""
        if self.models.pair_heads is None:
            raise without_heads("pair heads, so nothing can be re-ranked; serve models with a folder pairs/")

        def call(batch: list[tuple[str, list[Passage]]]) -> list[SearchResult]:
            return self._reranker.rerank_many([item[0] for item in batch], [item[1] for item in batch], **options)

        cost = _question_cost(question) + sum(len(passage.text) + TEXT for passage in passages)
        cost += EXPLAINED * len(passages) if options.get("explain") else 0
        item = (question, list(passages))
        result: SearchResult = (await self.do(Kind("rerank", repr(sorted(options.items())), call), [(item, cost)]))[0]
        return result

    async def search(self, question: str, k: int = 10, **options: Any) -> SearchResult:
        """See :meth:`semclass.HybridRetriever.search`."""

        def call(batch: list[str]) -> list[SearchResult]:
            # the index at the beginning of the run
            return self.searched.search_many(batch, k, **options)

        kind, cost = Kind("search", f"{k} {sorted(options.items())}", call), _search_cost(question, k, options)
        result: SearchResult = (await self.do(kind, [(question, cost)]))[0]
        return result

    async def ask(self, question: str, k: int, where: Any) -> Any:
        """See :meth:`semclass.HybridRetriever.ask`."""

        def call(batch: list[str]) -> list[Any]:
            return [self.searched.ask(text, k, where=where) for text in batch]

        cost = _search_cost(question, k, {}) + SENTENCES
        return (await self.do(Kind("ask", f"{k} {where!r}", call), [(question, cost)]))[0]

    async def warm_up(self) -> None:
        """Run each kind of work once, so that no client waits for the first use of a model."""
        texts = [WARM_UP]
        if self.models.has_classes:
            await self.classify_questions(texts)
            await self.classify_passages(texts)
        if self.models.heads:
            await self.classify_texts(texts, None)
        if self.entailment is not None:
            await self.entails([(WARM_UP, WARM_UP)])
        if self.models.pair_heads is not None:
            await self.rerank(WARM_UP, [Passage("0", WARM_UP)])
        if self.retriever is not None:
            await self.search(WARM_UP)

    # -- an index that changes while it is served ----------------------------------------------------------------------

    def check_index(self) -> None:
        """Raise an ArtifactError if a file of the index was overwritten or truncated, so that searches fail."""
        if self.local_index is not None:
            self.local_index.check_files()

    async def follow_index(self, log: Callable[..., None]) -> None:
        """Switch to each new version of an index in a folder. Running work finishes with the old version.

        If the new version is damaged or has another encoder, the old version stays in use, and the log has the reason.
        """
        fault = ""
        while self.settings.refresh_seconds and self.local_index is not None and self.local_index.folder is not None:
            await asyncio.sleep(self.settings.refresh_seconds)
            before = self.searched
            try:
                newer = await asyncio.to_thread(_refreshed, before)
            except Exception as error:  # noqa: BLE001 - the old index can be searched, whatever the error is
                message = f"the new index cannot be read, so the old index stays in use: {error}".partition("\n")[0]
                if message != fault:
                    log(message, logging.WARNING, exception=type(error).__name__)
                fault = message
                continue
            fault = ""
            if newer is not before:
                self.retriever = newer
                log("index changed", passages_before=len(before.index), passages=len(newer.index))


def _refreshed(retriever: HybridRetriever) -> HybridRetriever:
    newer = retriever.refresh()
    if newer is not retriever:
        newer.search(WARM_UP, method="convex")
    return newer


def load_beside(load: Callable[..., Any], models: Any, encoder: Any, log: Callable[..., None]) -> Any:
    """Load a classifier from the folder of the models; None if the folder has none for this encoder."""
    try:
        return load(models, encoder=encoder)
    except ArtifactError as error:
        log("a head is not served", reason=str(error))
        return None


def _text_costs(texts: Sequence[str]) -> list[tuple[str, int]]:
    return [(text, len(text) + TEXT) for text in texts]


def _question_cost(question: str) -> int:
    """Return the cost of a question. Its sentences are encoded separately, and again together with related sentences."""
    return QUESTION * min(len(question), QUESTION_CHARACTERS) + TEXT + len(question) // 32


def _search_cost(question: str, k: int, options: dict[str, Any]) -> int:
    candidates = max(k, options.get("candidates") or CANDIDATES) * (1 + min(len(question), WINDOW) / COMPARED)
    explained = EXPLAINED * k if options.get("explain") else 0
    return SEARCH + round(CANDIDATE * candidates) + explained + _question_cost(question)
