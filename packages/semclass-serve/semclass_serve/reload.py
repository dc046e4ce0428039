"""Keeping up with an index that changes while it is served."""

from __future__ import annotations

import asyncio
import logging

from semclass.core.errors import ChangedFileError
from semclass.index.passage_index import PassageIndex
from semclass.ranking.retriever import HybridRetriever
from semclass_serve.engine import Engine
from semclass_serve.logs import fault_of, log

QUESTION = "Which river is the longest?"
"""Searched before clients are answered, so that none of them waits for what is made on first use."""


async def follow(engine: Engine, seconds: float) -> None:
    """Serve each state of an index in a folder; one on a server, and one in memory, are served as they are."""
    index = None if engine.retriever is None else engine.retriever.index
    fault = ""
    while seconds and isinstance(index, PassageIndex) and index.source is not None:
        await asyncio.sleep(seconds)
        fault = await look(engine, fault)


def is_damaged(engine: Engine) -> bool:
    """Whether files of the index were written into that searches read, so that they fail."""
    index = None if engine.retriever is None else engine.retriever.index
    try:
        if isinstance(index, PassageIndex):
            index.check_files()
    except ChangedFileError:
        return True
    return False


async def look(engine: Engine, known: str = "") -> str:
    """Search the index as its folder holds it now; runs that began go on with the old one.

    That is also done where the bytes of a file are back that was overwritten or cut short. If the folder is damaged, or was
    built again with another encoder, the old one is kept; gives what is wrong, which is logged unless it is known.
    """
    before = engine.searched
    try:
        newer = await asyncio.to_thread(_newer, before)
    except Exception as error:  # noqa: BLE001 - whatever it is, the old index can be searched
        fault = f"the new index cannot be read, so the old index stays in use: {error}".partition("\n")[0]
        if fault != known:
            log(fault, logging.WARNING, **fault_of(error))
        return fault
    if newer is not before:
        engine.retriever = newer
        log("index changed", passages_before=len(before.index), passages=len(newer.index))
    return ""


def _newer(retriever: HybridRetriever) -> HybridRetriever:
    newer = retriever.refresh()
    if newer is not retriever:
        newer.search(QUESTION, method="convex")
    return newer
