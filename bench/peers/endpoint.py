"""Calls of a language model behind an OpenAI-compatible endpoint: retried by ``openai``, and kept at once."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semclass.core.errors import SemclassError, import_extra

PARAMETERS: tuple[dict[str, Any], ...] = (
    {"temperature": 0, "max_tokens": 16},
    {"temperature": 0, "max_completion_tokens": 16},
    {"temperature": 0, "max_tokens": 2048},
    {"temperature": 0, "max_completion_tokens": 2048},
    {"max_completion_tokens": 2048},
)
"""Parameters of a call; the first that the service takes, and that leave the model room to say something, are used.

Some services know the limit by its newer name only, some models think before they answer, and some of those take no
temperature.
"""


class CallError(SemclassError):
    """A call gave no answer."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused  # the service does not take the parameters


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    text: str
    finish: str
    prompt_tokens: int | None
    answer_tokens: int | None
    cached_tokens: int
    seconds: float
    at_once: int


class Service:
    """A model behind an endpoint, and what it has answered: a file of JSON lines, one for each answer."""

    def __init__(self, client: Any, endpoint: str, model: str, path: Path) -> None:
        self.client, self.endpoint, self.model, self.path = client, endpoint, model, path
        self.lock, self.known = threading.Lock(), {}
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = path.read_bytes() if path.is_file() else b""
        for line in kept.splitlines(keepends=True):
            if line.endswith(b"\n") and line.strip():  # the last line may have been cut short
                record = json.loads(line)
                key = record.pop("key")
                self.known[key] = Answer(**record)
        path.write_bytes(kept[: kept.rfind(b"\n") + 1])

    def key(self, prompt: str, parameters: dict[str, Any]) -> str:
        """SHA-256 of all that an answer depends on."""
        said = json.dumps([self.endpoint, self.model, parameters, prompt], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    def ask(self, prompt: str, parameters: dict[str, Any], at_once: int) -> Answer:
        """Make a call and keep its answer, or give the answer that is kept."""
        key = self.key(prompt, parameters)
        if key in self.known:
            return self.known[key]
        started = time.perf_counter()
        body = self._body(prompt, parameters)
        answer = _parsed(body, time.perf_counter() - started, at_once)
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            self.known[key] = answer
            file.write(json.dumps({"key": key, **asdict(answer)}) + "\n")
        return answer

    def _body(self, prompt: str, parameters: dict[str, Any]) -> str:
        openai = import_extra("openai", "bench")
        try:
            response = self.client.chat.completions.with_raw_response.create(
                model=self.model, messages=[{"role": "user", "content": prompt}], **parameters
            )
            return str(response.text)
        except openai.APIStatusError as error:
            kind = f"{type(error).__name__} {error.status_code}"
            raise CallError(kind, refused=error.status_code in (400, 422)) from None
        except openai.OpenAIError as error:
            raise CallError(type(error).__name__) from None


def _parsed(body: str, seconds: float, at_once: int) -> Answer:
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = choice["message"].get("content")
        return Answer(
            text=text if isinstance(text, str) else "",  # nothing said, or refused: no label, but an answer
            finish=str(choice.get("finish_reason")),
            prompt_tokens=usage.get("prompt_tokens"),
            answer_tokens=usage.get("completion_tokens"),
            cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
            seconds=round(seconds, 4),
            at_once=at_once,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise CallError("not a chat completion") from None


def agree(service: Service, prompt: str) -> dict[str, Any]:
    """The first of `PARAMETERS` with which the service answers."""
    why = ""
    for parameters in PARAMETERS:
        try:
            answer = service.ask(prompt, parameters, 0)
        except CallError as error:
            if not error.refused:
                raise
            why = str(error)
            continue
        if answer.finish != "length" or answer.text.strip():
            return parameters
        why = "the model thinks longer than it may write"
    raise CallError(f"with no parameters: {why}")


def ask_all(
    service: Service, calls: Sequence[str], parameters: dict[str, Any], *, alone: int, concurrency: int
) -> list[Answer | CallError]:
    """Make all calls: the last `alone` one at a time, then `concurrency` of the others at once."""

    def one(prompt: str, at_once: int) -> Answer | CallError:
        try:
            return service.ask(prompt, parameters, at_once)
        except CallError as error:
            return error

    together = len(calls) - alone
    last = [one(prompt, 1) for prompt in calls[together:]]
    pool = ThreadPoolExecutor(concurrency)
    try:
        return [*pool.map(lambda prompt: one(prompt, concurrency), calls[:together]), *last]
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops the run pays for no more calls
