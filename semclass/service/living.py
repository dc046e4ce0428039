"""Keeping up with an index that changes while it is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from semclass.index.passage_index import PassageIndex
from semclass.ranking.retriever import HybridRetriever
from semclass.service.engine import Engine
from semclass.service.logs import fault_of, tell

QUESTION = "Which river is the longest?"
"""What is asked before clients are answered, so that none of them waits for what is made on first use."""


def may_change(retriever: HybridRetriever | None) -> bool:
    """Whether there is an index in a folder; one on a server is always as it is there."""
    return retriever is not None and isinstance(retriever.index, PassageIndex) and retriever.index.source is not None


async def follow(engine: Engine, pause: Callable[[], Awaitable[object]]) -> None:
    """Serve each state of the index, until this is cancelled."""
    told = ""
    while True:
        await pause()
        told = await look(engine, told)


async def look(engine: Engine, told: str = "") -> str:
    """Search the index as its folder holds it now, if it was changed; runs that began go on with the old one.

    One that cannot be served, as it is damaged or was built again with another encoder, is told of in the log once, and the
    one that there was is kept.
    """
    before = engine.retriever
    if before is None:
        return ""
    try:
        newer = await asyncio.to_thread(_newer, before)
    except Exception as error:  # noqa: BLE001 - whatever it is, the index that there was can be searched
        wrong = f"the index cannot be read as it is now; the one before is kept: {error}".partition("\n")[0]
        if wrong != told:
            tell(wrong, logging.WARNING, **fault_of(error))
        return wrong
    if newer is not before:
        engine.retriever = newer
        tell("index changed", passages_before=len(before.index), passages=len(newer.index))
    return ""


def _newer(retriever: HybridRetriever) -> HybridRetriever:
    newer = retriever.refresh()
    if newer is not retriever:
        newer.search(QUESTION, method="convex")
    return newer
