"""Keeps paid replies at once in a file of JSON lines, so that you can resume a killed run."""

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
    """The reply of a model to a conversation, or the reason why there is none.

    Attributes
    ----------
    text
        The text of the reply. Empty if the model said nothing, and None if the call failed.
    error
        Why the call failed, after all retries. None if it succeeded.
    prompt_tokens, completion_tokens
        The counts of the service. None if it does not count.
    cached
        Whether the reply was read from the cache, and so cost nothing.
    refused
        Whether the service refused to answer. Its filter, the model itself, or the service may refuse.
    finish
        Why the text ends, in the words of the service, such as ``"stop"`` and ``"length"``.
    cached_tokens
        Tokens of the prompt that the service kept from earlier calls.
    seconds
        Time of the call, including retries.
    at_once
        How many calls were made at the same time. 0 for the call that finds out which parameters the service takes.
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

    @property
    def said(self) -> str | None:
        """The text. None if the call failed or was refused."""
        return None if self.refused or self.error is not None else self.text


@dataclass(frozen=True)
class Kept:
    """Replies by conversation. Replies of failed calls are not kept."""

    path: Path | None
    replies: dict[str, Reply]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path | None) -> Kept:
        """Read a file of replies, or begin a new file. An incomplete last line is dropped."""
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
        """Keep a reply. Without a file, nothing is kept."""
        if self.path is not None:
            record = asdict(reply)
            del record["cached"]
            line = json.dumps({"key": key, **record})
            with self.lock, self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                self.replies[key] = replace(reply, cached=True)
