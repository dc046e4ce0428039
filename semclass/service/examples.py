"""Questions that an index answers, for those who open the page and do not know what to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import ref

from semclass.core.errors import SemclassError
from semclass.evaluation.made_questions import keep_good, sample_passages
from semclass.evaluation.question_headings import is_made, write_from_headings
from semclass.heads.asked import asks
from semclass.index.records import SearchIndex
from semclass.ranking.retriever import HybridRetriever
from semclass.service.engine import Engine

MOST, DRAFTS, PASSAGES = 3, 8, 512
"""Questions that are given; headings of each sort that are tried; passages whose headings are read, at most."""


class Examples:
    """Gives the questions of the index that an engine searches; makes them once for each state of it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._index: Callable[[], SearchIndex | None] = lambda: None
        self._questions: list[str] = []

    async def get(self) -> list[str]:
        """Those that are set, or up to `MOST` made ones; none without an index in a folder, or where none can be made."""
        if self._engine.settings.examples:
            return list(self._engine.settings.examples)
        retriever = self._engine.retriever
        if retriever is None:
            return []
        async with self._turn:  # those who come meanwhile get what the first one waits for
            if self._index() is not retriever.index:
                self._questions = await asyncio.to_thread(make, retriever)
                self._index = ref(retriever.index)
            return self._questions


def make(retriever: HybridRetriever) -> list[str]:
    """Headings whose passage is found first: those that are questions, then titles. None of them is a made sentence."""
    questions: list[str] = []
    try:
        drafts = [draft for draft in write_from_headings(sample_passages(retriever, PASSAGES)) if not is_made(draft.text)]
        for asking in (True, False):
            tried = [draft for draft in drafts if asks(draft.text) is asking][:DRAFTS]
            questions += [made.text for made in keep_good(retriever, tried).kept if made.rank == 1]
            if len(questions) >= MOST:
                break
    except SemclassError:  # an index on a server gives no sample, and models may lack heads
        pass
    return list(dict.fromkeys(questions))[:MOST]
