"""Calls a language model behind an OpenAI-compatible address. ``openai`` makes and retries many calls at a time.

Every reply is kept as soon as it arrives.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from semclass.core.checks import check_positive, check_text
from semclass.core.errors import InputError, SemclassError, import_extra
from semclass_llm.endpoint.bill import Bill
from semclass_llm.endpoint.kept import Kept, Reply

Conversation: TypeAlias = Sequence[Mapping[str, str]]
"""Messages, each with ``role`` and ``content``."""

Parameters: TypeAlias = Mapping[str, Any]

KEY_VARIABLE = "SEMCLASS_ENDPOINT_KEY"
"""Environment variable that holds the key of a service."""

ROOM_TO_THINK = 2048
"""Tokens for models that think before they answer."""

TRIED = 5  # conversations that are tried until one finds out what the service takes
IN_A_ROW = 50  # calls that fail one after the other until the service is given up
LONGEST = 8 << 20  # bytes of a reply
REDIRECTED = ", a redirect, which is not followed: give the address that it leads to"
AHEAD = 16  # calls for each of those made at once that may wait for an earlier one


class EndpointError(SemclassError):
    """A service does not answer."""


@dataclass(frozen=True)
class Endpoint:
    """A language model behind an OpenAI-compatible address, with the settings of its calls.

    Attributes
    ----------
    url, model
        Address, such as ``"http://localhost:8000/v1"``, and the name of the model at the service.
    key
        Key of the service. It is never saved.
    concurrency
        Most calls at a time.
    retries
        How often a failed call is repeated, after growing pauses or the pauses that the service requests.
    timeout
        Seconds after which an attempt fails, counted from the connection to the last byte of the reply. A call ends
        within (`retries` + 1) x `timeout`, plus its pauses.
    cache
        File of JSON lines that keeps the replies, so that you pay for no call twice. If None, replies are not kept.

    Raises
    ------
    InputError
        If the address is not a URL, the model has no name, or a number is not positive.
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
        """The address without user name, password and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def user(content: str) -> Conversation:
    """A conversation of one message."""
    return ({"role": "user", "content": content},)


def replies(
    endpoint: Endpoint,
    conversations: Iterable[Conversation],
    *,
    max_tokens: int,
    parameters: Parameters | None = None,
) -> Iterator[Reply]:
    """Ask a model in several calls at once, and yield its replies in the order of the conversations.

    A failed call also gives a reply. The next run makes the call again.

    Parameters
    ----------
    endpoint
        The language model to ask.
    conversations
        Conversations to send. A generator is read as you take its replies.
    max_tokens
        Most tokens of a reply. Models that think first get :data:`ROOM_TO_THINK`.
    parameters
        The result of :func:`agree`. If None, the call finds out the parameters.

    Raises
    ------
    EndpointError
        If the service takes none of the usual parameters, or 50 calls in a row failed. Earlier replies are kept.
    MissingExtraError
        If openai is not installed.
    """
    with Service(endpoint) as service:
        waiting = iter(conversations)
        first = list(islice(waiting, TRIED))
        if not first:
            return
        asked: dict[int, Reply] = {}
        if parameters is None:
            parameters, place, reply = service.agree(first, max_tokens)
            asked[place] = reply
        yield from _in_order(service, chain(first, waiting), parameters, asked)


class Chat:
    """Asks a model now and then. It opens the service and finds out the parameters only once.

    Threads may share one instance. `bill` counts the calls.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.bill = endpoint, Bill()
        self._opening = threading.Lock()
        self._service: Service | None = None
        self._agreed: dict[int, Parameters] = {}

    def __deepcopy__(self, memo: object) -> Chat:
        return self

    def ask(self, prompts: Sequence[str], *, max_tokens: int) -> list[Reply]:
        """Ask prompts, several at once, and return the replies in their order.

        If no service answers, all calls have failed.
        """
        with self._opening:
            if self._service is None:
                self._service = Service(self.endpoint)
                weakref.finalize(self, self._service.close)
            service = self._service
        conversations, asked = list(map(user, prompts)), {}
        given: list[Reply] = []
        try:
            if conversations and max_tokens not in self._agreed:
                self._agreed[max_tokens], place, reply = service.agree(conversations[:TRIED], max_tokens)
                asked[place] = reply
            for reply in _in_order(service, conversations, self._agreed.get(max_tokens, {}), asked):
                given.append(reply)  # noqa: PERF402 - what was given counts where the service goes away
        except EndpointError as error:
            given += [Reply(None, str(error))] * (len(conversations) - len(given))
        with self._opening:
            for prompt, reply in zip(prompts, given, strict=True):
                self.bill.add(prompt, reply)
        return given


def _in_order(
    service: Service, conversations: Iterable[Conversation], parameters: Parameters, asked: dict[int, Reply]
) -> Iterator[Reply]:
    calls: deque[Future[Reply]] = deque()
    failed, at_once = 0, service.endpoint.concurrency
    pool = ThreadPoolExecutor(at_once)
    numbered = enumerate(conversations)
    try:
        while True:
            for place, conversation in islice(numbered, AHEAD * at_once - len(calls)):
                call: Future[Reply] = Future()
                if place in asked:
                    call.set_result(asked[place])
                else:
                    call = pool.submit(service.ask, conversation, parameters, at_once)
                calls.append(call)
            if not calls:
                return
            reply = calls.popleft().result()
            failed = failed + 1 if reply.error and not reply.refused else 0
            if failed == IN_A_ROW:
                raise EndpointError(f"{service.endpoint.address} failed {failed} times in a row: {reply.error}")
            yield reply
    finally:
        pool.shutdown(cancel_futures=True)  # whoever stops the run pays for no more calls


def agree(endpoint: Endpoint, conversations: Sequence[Conversation], *, max_tokens: int) -> Parameters:
    """Return the first parameters that the service accepts and that leave the model enough tokens to answer.

    Some services know the limit only by its newer name. Some models think before they answer, and some of these models
    take no temperature. Raises the same errors as :func:`replies`.
    """
    with Service(endpoint) as service:
        return service.agree(conversations[:TRIED], max_tokens)[0]


class Service:
    """A model that is called, and the replies of the model."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.openai = import_extra("openai", "label")
        self.endpoint, self.kept = endpoint, Kept.open(endpoint.cache)
        import_extra("httpx", "label")
        from semclass_llm.endpoint.connection import BoundedClient, Loop

        self.client = self.openai.AsyncOpenAI(
            base_url=endpoint.url,
            api_key=endpoint.key or "none",  # without one the library refuses to begin
            timeout=endpoint.timeout,
            max_retries=endpoint.retries,
            http_client=BoundedClient(endpoint.timeout, LONGEST),
        )
        self.loop = Loop()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.loop.wait_for(self.client.close())
        self.loop.close()

    def ask(self, conversation: Conversation, parameters: Parameters, at_once: int) -> Reply:
        """Make a call and keep its reply, or return the kept reply."""
        said = [self.endpoint.url.rstrip("/"), self.endpoint.model, dict(parameters), list(map(dict, conversation))]
        key = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
        if key in self.kept.replies:
            return self.kept.replies[key]
        started = time.perf_counter()
        try:
            response = self.loop.wait_for(
                self.client.chat.completions.with_raw_response.create(
                    model=self.endpoint.model, messages=list(conversation), **parameters
                )
            )
            reply = _parsed(response.content, time.perf_counter() - started, at_once)
        except self.openai.APIStatusError as error:
            refused, moved = error.status_code in (400, 422), 300 <= error.status_code < 400
            why = f"{type(error).__name__} {error.status_code}{REDIRECTED if moved else ''}"
            return Reply(None, why, refused=refused, at_once=at_once)
        except self.openai.OpenAIError as error:
            return Reply(None, type(error).__name__, at_once=at_once)
        if reply.error is None:
            self.kept.add(key, reply)
        return reply

    def agree(self, conversations: Sequence[Conversation], max_tokens: int) -> tuple[Parameters, int, Reply]:
        """Return parameters, and the place and the reply of the conversation that found them."""
        why = ""
        for place, conversation in enumerate(conversations):
            for parameters in _parameters(max_tokens):
                reply = self.ask(conversation, parameters, 0)
                if reply.text is not None and (reply.finish != "length" or reply.text.strip()):
                    return parameters, place, reply
                why = reply.error or "the model thinks longer than it may write"
                if reply.error and not reply.refused:
                    break
        raise EndpointError(f"{self.endpoint.model} at {self.endpoint.address} gave no answer: {why}")


def _parameters(max_tokens: int) -> list[dict[str, Any]]:
    """Parameters in the order in which they are tried."""
    room = max(max_tokens, ROOM_TO_THINK)
    names = ("max_tokens", "max_completion_tokens")
    warm = [{"temperature": 0, name: tokens} for tokens in (max_tokens, room) for name in names]
    return [*warm, {"max_completion_tokens": room}]


def _parsed(body: bytes, seconds: float, at_once: int) -> Reply:
    if len(body) > LONGEST:
        return Reply(None, f"a reply of more than {LONGEST >> 20} MB", at_once=at_once)
    try:
        data = json.loads(body)
        choice, usage = data["choices"][0], data.get("usage") or {}
        message, finish = choice["message"], str(choice.get("finish_reason"))
        text = message.get("content")
        return Reply(
            text.encode(errors="replace").decode() if isinstance(text, str) else "",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            refused=bool(message.get("refusal")) or finish == "content_filter",
            finish=finish,
            cached_tokens=_count((usage.get("prompt_tokens_details") or {}).get("cached_tokens")) or 0,
            seconds=round(seconds, 4),
            at_once=at_once,
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return Reply(None, "not a chat completion", at_once=at_once)


def _count(tokens: object) -> int | None:
    """Tokens as a service counts them; None for what is no count."""
    return tokens if type(tokens) is int and tokens >= 0 else None
