"""Calls of a language model behind an OpenAI-compatible endpoint: retried by ``openai``, counted, and kept at once."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
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
temperature. Which were used stands in the results.
"""

PATIENCE = 16  # calls that may fail one after another before no more are made


NOT_ASKED = "not asked, for too many calls before had failed"


class CallError(SemclassError):
    """A call gave no answer."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


@dataclass(frozen=True)
class Answer:
    """What a call gave."""

    text: str
    finish: str
    prompt_tokens: int | None
    answer_tokens: int | None
    cached_tokens: int
    began: float
    seconds: float
    at_once: int


class Answers:
    """Answers kept in a file of JSON lines, one for each; a line that was cut short counts as not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        kept = path.read_bytes() if path.is_file() else b""
        self._known = dict(filter(None, map(_record, kept.splitlines())))
        if kept and not kept.endswith(b"\n"):  # whoever was stopped in the middle of a line left it without an end
            self._write(b"\n")

    def _write(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(line)

    def get(self, key: str) -> Answer | None:
        """The answer to a call, or None."""
        return self._known.get(key)

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer, in the file at once."""
        line = json.dumps({"key": key, **asdict(answer)}) + "\n"
        with self._lock:
            self._known[key] = answer
            self._write(line.encode())


def _record(line: bytes) -> tuple[str, Answer] | None:
    try:
        record = json.loads(line)
        return str(record["key"]), Answer(**{field.name: record[field.name] for field in fields(Answer)})
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class Service:
    """A model behind an endpoint, and what it has answered."""

    client: Any
    endpoint: str
    model: str
    answers: Answers

    def key(self, prompt: str, parameters: dict[str, Any]) -> str:
        """SHA-256 of all that an answer depends on."""
        said = json.dumps([self.endpoint, self.model, parameters, prompt], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    def known(self, prompt: str, parameters: dict[str, Any]) -> Answer | None:
        """The answer that is kept, or None."""
        return self.answers.get(self.key(prompt, parameters))

    def ask(self, prompt: str, parameters: dict[str, Any], at_once: int) -> Answer:
        """Make a call, and keep its answer."""
        began, started = time.time(), time.perf_counter()
        body = self._body(prompt, parameters)
        answer = _parsed(body, began, time.perf_counter() - started, at_once)
        self.answers.add(self.key(prompt, parameters), answer)
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


def _parsed(body: str, began: float, seconds: float, at_once: int) -> Answer:
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = choice["message"].get("content")
        return Answer(
            text=text if isinstance(text, str) else "",  # nothing said, or refused: no label, but an answer
            finish=str(choice.get("finish_reason")),
            prompt_tokens=_count(usage.get("prompt_tokens")),
            answer_tokens=_count(usage.get("completion_tokens")),
            cached_tokens=_count((usage.get("prompt_tokens_details") or {}).get("cached_tokens")) or 0,
            began=round(began, 3),
            seconds=round(seconds, 4),
            at_once=at_once,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise CallError("not a chat completion") from None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def agree(service: Service, prompt: str) -> dict[str, Any]:
    """The first of `PARAMETERS` with which the service answers."""
    why = None
    for parameters in PARAMETERS:
        why = _refusal(service, prompt, parameters)
        if why is None:
            return parameters
    raise CallError(f"with no parameters: {why}")


def _refusal(service: Service, prompt: str, parameters: dict[str, Any]) -> str | None:
    """Why parameters will not do, or None if they do."""
    try:
        answer = service.known(prompt, parameters) or service.ask(prompt, parameters, 0)
    except CallError as error:
        if error.refused:
            return str(error)
        raise
    cut_short = answer.finish == "length" and not answer.text.strip()
    return "the model thinks longer than it may write" if cut_short else None


def ask_all(
    service: Service, calls: Sequence[str], parameters: dict[str, Any], *, alone: int, concurrency: int
) -> list[Answer | CallError]:
    """Ask everything: the last `alone` calls one at a time, then `concurrency` of the others at once."""
    in_a_row = 0

    def one(prompt: str, at_once: int) -> Answer | CallError:
        nonlocal in_a_row
        known = service.known(prompt, parameters)
        if known is not None:
            return known
        if in_a_row >= PATIENCE:
            return CallError(NOT_ASKED)
        try:
            answer = service.ask(prompt, parameters, at_once)
        except CallError as error:
            in_a_row += 1
            return error
        in_a_row = 0
        return answer

    together = len(calls) - alone
    last = [one(prompt, 1) for prompt in calls[together:]]
    pool = ThreadPoolExecutor(concurrency)
    try:
        return [*pool.map(lambda prompt: one(prompt, concurrency), calls[:together]), *last]
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops the run pays for no more calls
