"""Replies that were paid for, kept at once in a file of JSON lines, so that a run that was killed goes on."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from semclass.core import artifacts
from semclass.core.checks import short
from semclass.core.errors import ArtifactError

REMEDY = "delete the file to repeat all calls"


@dataclass(frozen=True)
class Reply:
    """What a model said to a conversation, or why it said nothing.

    Attributes
    ----------
    text
        What it said, empty where it said nothing; None if the call failed.
    error
        Why the call failed, after all retries; None if it did not.
    prompt_tokens, completion_tokens
        As the service counts them; None where it does not.
    cached
        Whether the reply was read from the cache, and so cost nothing.
    refused
        Whether the service refused to answer: by its filter, by the model's own word, or as a request it does not take.
    finish
        Why the text ends, as the service names it, such as ``"stop"`` and ``"length"``.
    cached_tokens
        Tokens of the prompt that the service had kept from calls before.
    seconds
        Time of the call, retries included.
    at_once
        How many calls were made at the same time; 0 for the one that finds out which parameters are taken.
    """

    text: str | None
    error: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached: bool = False
    refused: bool = False
    finish: str = ""
    cached_tokens: int = 0
    seconds: float = 0.0
    at_once: int = 0


@dataclass(frozen=True)
class Kept:
    """Replies by what was asked; of failed calls none is kept."""

    path: Path | None
    replies: dict[str, Reply]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path | None) -> Kept:
        """Read a file of replies, or begin one; a last line that was cut short is dropped."""
        replies: dict[str, Reply] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes() if path.is_file() else b""
            whole = data.rfind(b"\n") + 1
            for line in filter(bytes.strip, data[:whole].splitlines()):
                record = artifacts.parse_json(line, path, REMEDY)
                try:
                    key = record.pop("key")
                    replies[key] = Reply(**record, cached=True)
                except (KeyError, TypeError):
                    raise ArtifactError(
                        f"{path} has a line that is not a reply of a language model: {short(line)}; {REMEDY}"
                    ) from None
            if whole < len(data):
                os.truncate(path, whole)
        return cls(path, replies)

    def add(self, key: str, reply: Reply) -> None:
        """Keep a reply; where there is no file, nothing is kept."""
        if self.path is not None:
            record = asdict(reply)
            del record["cached"]
            line = json.dumps({"key": key, **record})
            with self.lock, self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                self.replies[key] = replace(reply, cached=True)
