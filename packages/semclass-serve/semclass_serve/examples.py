"""Questions that an index answers, for those who open the page and do not know what to ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from weakref import ref

from semclass.core.errors import SemclassError
from semclass.core.types import Hit, Passage
from semclass.evaluation.question_headings import is_made, sample_passages, write_from_headings
from semclass.heads.query_focus import is_question
from semclass.index.records import SearchIndex
from semclass.ranking.retriever import HybridRetriever
from semclass_serve.engine import Engine

MOST, DRAFTS, PASSAGES = 3, 8, 512
"""Questions that are given; headings of each sort that are tried; passages whose headings are read, at most."""

_TITLE = re.compile(r"[^\W\d_a-z][^@/\\_=<>{}()|]*\w{3}")
"""A heading in words that ends with one, and not the name of a function, an address or a formula."""

_MARKS = ("?", "\u061f", "\uff1f")
"""Question marks: Latin, Arabic, Chinese."""


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
    """Headings that a search finds: those that are questions, then titles, but none such as "Activating the pump"."""
    try:
        passages = {passage.id: passage for passage in sample_passages(retriever, PASSAGES)}
    except SemclassError:  # an index on a server gives no sample
        return []
    drafts = {draft.text: passages[draft.passage] for draft in write_from_headings(passages.values())}
    texts = [text for text in drafts if not is_made(text)]
    questions: list[str] = []
    for asking in (True, False):
        sort = [text for text in texts if text.endswith(_MARKS) is asking]
        tried = [text for text in sort if asking or (_TITLE.fullmatch(text) and not is_question(text))]
        for text in tried[:: len(tried) // DRAFTS + 1]:  # from all over the index
            found = retriever.search(text, 1)
            if found.certainty != "weak" and _headings(found[0]) == _headings(drafts[text]):
                questions.append(text)
            if len(questions) == MOST:
                return questions
    return questions


def _headings(passage: Passage | Hit) -> Any:
    return passage.metadata.get("headings") or passage.metadata.get("title")
