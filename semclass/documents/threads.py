"""Threads of messages: which messages belong together, and in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone

from semclass.documents.records import Record

_REPLY = re.compile(r"\s*(?:(?:re|aw|antw|sv|fwd?|wg)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_NO_DATE = datetime.min.replace(tzinfo=timezone.utc)


def in_threads(messages: Sequence[tuple[str, Record]]) -> list[list[tuple[str, Record]]]:
    """Group messages, which come with the names of their files, by thread; each thread is in the order of time.

    Messages belong together if one names another, or both name a third. A reply that names none belongs to the last
    message before it with its subject. A message that is there twice counts once.
    """
    threads = list(range(len(messages)))  # of each message another one of its thread, or itself
    by_id: dict[str, int] = {}
    by_subject: dict[str, int] = {}

    def first(place: int) -> int:
        while threads[place] != place:
            threads[place] = place = threads[threads[place]]
        return place

    in_time = sorted(range(len(messages)), key=lambda place: _time(messages[place][1]))
    for place in in_time:
        own, *others = messages[place][1].links or ("",)
        for name in filter(None, (own, *others)):
            threads[first(place)] = first(by_id.setdefault(name, place))
        title = str(messages[place][1].metadata.get("title", "")).casefold()
        subject = _REPLY.sub("", title, count=1) if _REPLY.match(title) else title
        if subject != title and not others:
            threads[first(place)] = first(by_subject.get(subject, place))
        if subject:
            by_subject[subject] = place
    found: dict[int, list[tuple[str, Record]]] = {first(place): [] for place in range(len(messages))}
    seen = set[tuple[str, str]]()
    for place in in_time:
        own, text = (messages[place][1].links or ("",))[0], messages[place][1].text
        if not own or (own, text) not in seen:
            found[first(place)].append(messages[place])
        seen.add((own, text))
    return [thread for thread in found.values() if thread]


def _time(message: Record) -> datetime:
    """When a message was sent, in UTC where it does not say; the first of all times for one without a date."""
    date = message.metadata.get("date")
    time = datetime.fromisoformat(date) if isinstance(date, str) else _NO_DATE
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
