"""Work that waits for a worker, and how a worker does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from semclass.core.errors import InputError, InputTypeError
from semclass.encoders.batching import watched
from semclass.service.pace import Clock, Taken

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Kind:
    """Work that may share a run.

    Attributes
    ----------
    name
        What it is, for metrics.
    options
        Stands for its options; only the same share a run.
    call
        Takes the items of several requests one after another, and gives a result for each.
    away
        Whether it mostly waits for a server; such runs have threads of their own.
    """

    name: str
    options: str
    call: Call = field(compare=False)
    away: bool = False


@dataclass(eq=False)
class Job:
    """Items of a request that are done in one run.

    Attributes
    ----------
    kind
        The work.
    items
        What is handed to the kind's call.
    texts, characters
        How much that is; what costs more than encoding is counted as texts, too.
    cost
        Characters that are read.
    large
        Whether the request is more than a run.
    done
        Gets the results; whoever waits for them may give up.
    rest
        Parts of the same request that are not in a queue yet.
    waits
        Whether it is counted as waiting: it was taken, did not begin, and was not given up.
    number
        Rises with the time of arrival.
    arrived
        That time, by the loop's clock, s.
    """

    kind: Kind
    items: list[Any]
    texts: int
    characters: int
    cost: int
    large: bool
    done: asyncio.Future[list[Any]]
    rest: Iterator[Job] = field(default_factory=lambda: iter(()))
    waits: bool = True
    number: int = 0
    arrived: float = 0.0


@dataclass(eq=False)
class Run:
    """Jobs that are done together.

    Attributes
    ----------
    batch
        The jobs.
    long
        Whether it is more than a run should be, and cannot be cut.
    ends
        When it is likely to, by the loop's clock, s.
    """

    batch: list[Job]
    long: bool
    ends: float

    @property
    def kind(self) -> Kind:
        """The work."""
        return self.batch[0].kind

    @property
    def large(self) -> bool:
        """Whether its jobs are parts of large requests."""
        return self.batch[0].large

    @property
    def cost(self) -> int:
        """Characters that are read."""
        return sum(job.cost for job in self.batch)


class _Unwanted(Exception):  # noqa: N818 - a state, which never leaves this module
    """Nobody waits for a run any more."""


def work(call: Call, batch: list[Job]) -> tuple[Taken, list[Any]]:
    """Do the items of several jobs, as long as anybody waits for one; gives what it took, and what :func:`_run` gives."""

    def between() -> None:
        if all(job.done.done() for job in batch):
            raise _Unwanted

    clock = Clock()
    with watched(between):
        found = _run(call, batch)
    return clock.taken(whole=not any(isinstance(results, Exception) for results in found)), found


def _run(call: Call, batch: list[Job]) -> list[Any]:
    """Do the items of several jobs in one call; gives, for each job, its results or an exception.

    One job whose input is refused must not fail the others: then each is done by itself, if it is still waited for. Any
    other error is of all: models and indexes that fail for one fail for the next.
    """
    try:
        results = iter(call([item for job in batch for item in job.items]))
        return [list(islice(results, len(job.items))) for job in batch]
    except (InputError, InputTypeError) as error:
        alone = len(batch) == 1
        return [error] if alone else [None if job.done.done() else _run(call, [job])[0] for job in batch]
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
        return [error] * len(batch)
