"""The work of a service: the library's calls, awaited.

Besides its calls an engine has two things for metrics: `waiting`, how many texts wait at the moment, and `on_batch`,
which is called with the kind of work and the number of texts of every run, if it is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from semclass.entailment import EntailmentClassifier, EntailmentLabel
from semclass.errors import InputError, SemclassError
from semclass.ranker import Ranker
from semclass.rerank import Reranker
from semclass.retriever import HybridRetriever
from semclass.service.settings import Settings
from semclass.types import Hit, Passage, PassageLabels, QuestionLabel

Result = TypeVar("Result")


class Overloaded(SemclassError):  # noqa: N818 - states, as clients know them
    """The queue is full.

    Parameters
    ----------
    retry_after
        Seconds after which there is likely to be a place.
    """

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the service is busy; try again in {retry_after:.1f} s")
        self.retry_after = retry_after


class TimedOut(SemclassError):  # noqa: N818 - states, as clients know them
    """The work took longer than it may."""


class Stopping(SemclassError):  # noqa: N818 - states, as clients know them
    """The service stops, and takes no more work."""


class Engine:
    """The models and the index of a service.

    Parameters
    ----------
    ranker
        The models.
    retriever
        The index with its models; None: nothing can be searched.
    settings
        Limits.
    entailment
        The heads that judge pairs; None: pairs are refused.
    """

    def __init__(
        self,
        ranker: Ranker,
        retriever: HybridRetriever | None,
        settings: Settings,
        *,
        entailment: EntailmentClassifier | None = None,
    ) -> None:
        self.ranker = ranker
        self.retriever = retriever
        self.settings = settings
        self.entailment = entailment
        self.on_batch: Callable[[str, int], object] | None = None
        self.waiting = 0
        self._running = False
        self._reranker = Reranker(ranker)

    @property
    def running(self) -> bool:
        """Whether work is taken."""
        return self._running

    async def start(self) -> None:
        """Make ready."""
        self._running = True

    async def stop(self) -> None:
        """Take no more work, and finish what was taken."""
        self._running = False

    async def classify_questions(self, texts: Sequence[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """See :meth:`semclass.questions.QuestionClassifier.predict`."""
        return await self._run(self.ranker.questions.predict, list(texts), min_probability=min_probability)

    async def classify_passages(self, texts: Sequence[str]) -> list[PassageLabels]:
        """See :meth:`semclass.passages.PassageClassifier.predict`."""
        return await self._run(self.ranker.passages.predict, list(texts))

    async def entails(self, pairs: Sequence[tuple[str, str]]) -> list[EntailmentLabel]:
        """See :meth:`semclass.entailment.EntailmentClassifier.predict`."""
        if self.entailment is None:
            raise InputError("there is no head for pairs; serve models with a folder entailment/")
        return await self._run(self.entailment.predict, list(pairs))

    async def rerank(self, question: str, passages: Sequence[Passage], **options: Any) -> list[Hit]:
        """See :meth:`semclass.rerank.Reranker.rerank`."""
        return await self._run(self._reranker.rerank, question, list(passages), **options)

    async def search(self, question: str, **options: Any) -> list[Hit]:
        """See :meth:`semclass.retriever.HybridRetriever.search`."""
        if self.retriever is None:
            raise InputError("the service has no index, so there is nothing to search")
        return await self._run(self.retriever.search, question, **options)

    async def _run(self, call: Callable[..., Result], *arguments: Any, **options: Any) -> Result:
        if not self._running:
            raise Stopping("the service is not ready, or stops")
        return await asyncio.to_thread(call, *arguments, **options)
