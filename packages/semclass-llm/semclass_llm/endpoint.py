"""Calls a language model over an OpenAI-compatible API, counts the cost, and keeps replies on disk."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from semclass import ArtifactError, InputError, SemclassError
from semclass.plugins import check_positive, check_text, counted, short

Item = TypeVar("Item")
Result = TypeVar("Result")

KEY_VARIABLE = "SEMCLASS_ENDPOINT_KEY"  # environment variable that holds the key of a service
THINKING_TOKENS = 2048  # for models that think before they answer
PROBES = 5  # prompts that are tried until one finds out which parameters the service takes
FAILURES_IN_A_ROW = 50  # until the service is given up
QUEUED_PER_CALL = 16  # prompts, for each call at a time, that may wait for the reply to an earlier one

FAILED, REFUSED, UNREADABLE = "failed", "refused", "unreadable"
"""Reasons why a call gave no answer: it failed, the service or the model refused, or the answer cannot be read."""


class EndpointError(SemclassError):
    """A service does not answer."""


@dataclass(frozen=True)
class Endpoint:
    """A language model with an OpenAI-compatible API, and the settings of calls.

    Raises an InputError if the address is not a URL, the model has no name, or a number is not positive.

    Attributes
    ----------
    url, model
        Address, such as ``"http://localhost:8000/v1"``, and name of the model at this address.
    key
        Key of the service. It is never saved.
    concurrency
        Maximum calls at a time.
    retries
        How often a failed call is repeated, after growing pauses or the pauses that the service requests.
    timeout
        Seconds after which an attempt fails.
    cache
        File of JSON lines that keeps the replies, so that you never pay twice for a call. If None, replies are not kept.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    concurrency: int = 8
    retries: int = 5
    timeout: float = 60.0
    cache: Path | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InputError(f"{self.address!r} is not a URL; write e.g. http://localhost:8000/v1")
        check_text(self.model, "model")
        check_positive(self.concurrency, "concurrency")
        if not (self.retries >= 0 and self.timeout > 0):
            raise InputError(
                f"retries are {self.retries}, timeout is {self.timeout}; retries must be at least 0, timeout above 0"
            )

    @property
    def address(self) -> str:
        """The URL without user name, password and query, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True)
class Reply:
    """The reply of a model to a prompt, or the error of the call."""

    text: str | None  #: empty if the reply is empty, None if the call failed
    error: str | None = None  #: why the call failed, after all retries
    refused: bool = False  #: whether the service, its filter or the model refused to answer
    finish: str = ""  #: reason of the service for the end of the text, such as "stop" or "length"
    prompt_tokens: int | None = None  #: count of the service, or None
    answer_tokens: int | None = None
    seconds: float = 0.0  #: time of the call, with its retries
    cached: bool = False  #: whether the reply was read from the cache, and so cost nothing

    @property
    def why(self) -> str:
        """Reason for a missing answer: ``"refused"`` or ``"failed"``, empty if there is an answer."""
        return REFUSED if self.refused else FAILED if self.error is not None else ""


@dataclass
class Bill:
    """Calls, tokens and seconds so far. Replies from the cache count as calls, and as `cached`."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    refused: int = 0
    unreadable: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0  #: sum over all calls
    estimated: bool = False  #: whether some tokens are estimated as four characters each

    def add(self, prompt: str, reply: Reply) -> None:
        """Count a call."""
        self.calls += 1
        self.cached += reply.cached
        self.refused += reply.why == REFUSED
        self.failed += reply.why == FAILED
        if reply.text is not None:
            self.estimated |= reply.prompt_tokens is None or reply.answer_tokens is None
            self.prompt_tokens += reply.prompt_tokens or len(prompt) // 4
            self.answer_tokens += reply.answer_tokens or len(reply.text) // 4
            self.seconds += reply.seconds

    def scaled(self, share: float) -> Bill:
        """Return the bill of `share` times as many calls."""
        values: dict[str, Any] = {
            name: round(share * value) for name, value in vars(self).items() if type(value) is int
        }
        return replace(self, **values, seconds=share * self.seconds)

    def usd(self, prices: tuple[float, float]) -> float:
        """Return the price of the tokens; `prices` are USD for a million tokens of prompts and of answers."""
        return (self.prompt_tokens * prices[0] + self.answer_tokens * prices[1]) / 1e6

    def __str__(self) -> str:
        """Describe the cost in one line."""
        cached = f", {self.cached} of them cached" if self.cached else ""
        by = "4 characters each" if self.estimated else "counted by the service"
        return (
            f"{counted(self.calls, 'call')}{cached}, {self.prompt_tokens} tokens of prompts and {self.answer_tokens} of "
            f"answers ({by}), {self.seconds:.1f} s"
        )


class Chat:
    """Calls the model of an endpoint. Threads may share one instance. It connects at the first call.

    `bill` counts the calls of all threads. ``parameters`` stores parameters that the service accepts, by `max_tokens`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.bill = endpoint, Bill()
        self.parameters: dict[int, Mapping[str, Any]] = {}
        self._lock = threading.Lock()
        self._service: _Service | None = None

    def __deepcopy__(self, memo: object) -> Chat:
        return self

    def ask(self, prompts: Iterable[str], *, max_tokens: int) -> Iterator[Reply]:
        """Send prompts in parallel calls, and yield the replies in the order of the prompts.

        A failed call also yields a reply. If the service does not answer, or 50 calls in a row fail, no more calls are
        made, and all other replies are failures. Models that think before they answer get more than `max_tokens`.
        """
        waiting = iter(prompts)
        probes = list(islice(waiting, PROBES))
        if not probes:
            return
        with self._lock:
            service = self._service = self._service or _Service(self.endpoint)
        early: dict[int, Reply] = {}
        lost, failed = "", 0
        try:
            if max_tokens not in self.parameters:
                self.parameters[max_tokens], place, early[place] = service.find_parameters(probes, max_tokens)
        except EndpointError as error:
            lost = str(error)

        def call(item: tuple[int, str]) -> tuple[str, Reply]:
            place, prompt = item
            if place in early or lost:
                return prompt, early.get(place) or Reply(None, lost)
            return prompt, service.ask(prompt, self.parameters[max_tokens])

        for prompt, reply in _in_order(call, enumerate(chain(probes, waiting)), self.endpoint.concurrency):
            failed = failed + 1 if reply.why == FAILED else 0
            if failed == FAILURES_IN_A_ROW and not lost:
                lost = f"{self.endpoint.address} failed {failed} times in a row: {reply.error}"
            with self._lock:
                self.bill.add(prompt, reply)
            yield reply


def _in_order(call: Callable[[Item], Result], items: Iterable[Item], concurrency: int) -> Iterator[Result]:
    """Call a function in several threads, and yield the results in the order of the items."""
    calls: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(concurrency)
    try:
        for item in items:
            calls.append(pool.submit(call, item))
            if len(calls) == QUEUED_PER_CALL * concurrency:
                yield calls.popleft().result()
        while calls:
            yield calls.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops the run pays for no more calls


class _Service:
    """An open connection, and the kept replies."""

    def __init__(self, endpoint: Endpoint) -> None:
        import openai  # takes a while

        self.openai, self.endpoint, self.replies = openai, endpoint, _read_cache(endpoint.cache)
        # a redirect is not followed, so prompts and keys go to the given address alone
        http: Any = openai.DefaultHttpxClient(timeout=endpoint.timeout, follow_redirects=False)
        weakref.finalize(self, http.close)
        self.client = openai.OpenAI(
            base_url=endpoint.url,
            api_key=endpoint.key or "none",  # without one the library refuses to begin
            timeout=endpoint.timeout,
            max_retries=endpoint.retries,
            http_client=http,
        )
        self.lock = threading.Lock()

    def ask(self, prompt: str, parameters: Mapping[str, Any]) -> Reply:
        """Make a call and keep its reply, or return the kept reply. Replies of failed calls are not kept."""
        messages = [{"role": "user", "content": prompt}]
        identity = [self.endpoint.url.rstrip("/"), self.endpoint.model, dict(parameters), messages]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        if key in self.replies:
            return self.replies[key]
        started = time.perf_counter()
        create: Any = self.client.chat.completions.with_raw_response.create
        try:
            response = create(model=self.endpoint.model, messages=messages, **parameters)
        except self.openai.APIStatusError as error:
            moved = ", a redirect, which is not followed: give the address that it leads to"
            why = f"{type(error).__name__} {error.status_code}{moved if 300 <= error.status_code < 400 else ''}"
            return Reply(None, why, refused=error.status_code in (400, 422))
        except self.openai.OpenAIError as error:
            return Reply(None, type(error).__name__)
        reply = _parse(response.content, time.perf_counter() - started)
        if reply.error is None and self.endpoint.cache is not None:
            line = json.dumps(
                {"key": key, **{name: value for name, value in asdict(reply).items() if name != "cached"}}
            )
            with self.lock, self.endpoint.cache.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                self.replies[key] = replace(reply, cached=True)
        return reply

    def find_parameters(self, prompts: Sequence[str], max_tokens: int) -> tuple[Mapping[str, Any], int, Reply]:
        """Return the first parameters with enough tokens to answer, and the place and reply of the prompt."""
        # some services know the limit by its newer name alone, and some models that think take no temperature
        names, room = ("max_tokens", "max_completion_tokens"), max(max_tokens, THINKING_TOKENS)
        choices = [{"temperature": 0, name: tokens} for tokens in (max_tokens, room) for name in names]
        why = ""
        for place, prompt in enumerate(prompts):
            for parameters in [*choices, {"max_completion_tokens": room}]:
                reply = self.ask(prompt, parameters)
                if reply.text is not None and (reply.finish != "length" or reply.text.strip()):
                    return parameters, place, reply
                why = reply.error or "the model used all its tokens for thinking; choose another model"
                if reply.why == FAILED:
                    break
        raise EndpointError(f"{self.endpoint.model} at {self.endpoint.address} gave no answer: {why}")


def _read_cache(path: Path | None) -> dict[str, Reply]:
    """Read a file of replies. An incomplete last line is dropped."""
    replies: dict[str, Reply] = {}
    if path is None:
        return replies
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes() if path.is_file() else b""
    whole = data.rfind(b"\n") + 1
    line = b""
    try:
        for line in filter(bytes.strip, data[:whole].splitlines()):
            record = json.loads(line)
            key = record.pop("key")
            replies[key] = Reply(**record, cached=True)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ArtifactError(
            f"{path} has a line that is not a reply of a language model: {short(line)}; delete the file to repeat all calls"
        ) from None
    if whole < len(data):
        os.truncate(path, whole)
    return replies


def _parse(body: bytes, seconds: float) -> Reply:
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        message, finish = choice["message"], str(choice.get("finish_reason"))
        text = message.get("content")
        counts = (usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
        prompt, answer = (count if type(count) is int and count >= 0 else None for count in counts)
        text = text.encode(errors="replace").decode() if isinstance(text, str) else ""
        refused = bool(message.get("refusal")) or finish == "content_filter"
        return Reply(text, None, refused, finish, prompt, answer, round(seconds, 4))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Reply(None, "not a chat completion")
