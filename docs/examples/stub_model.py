"""A stand-in for a language model: an OpenAI-compatible server on this machine that answers by rule.

It knows the prompts of semclass by their first word, and does with a few string operations what a model would do well.
Start it with ``python stub_model.py --port 8123``.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORD = re.compile(r"\w+")
ASKING = r"(?:who|what|when|where|which|why|how)\b"


def subquestions(prompt: str) -> str:
    """Give the parts of the question, as a list."""
    return "\n".join(f"{number}. {part}" for number, part in enumerate(_parts(_field(prompt, "Question")), 1))


def hyde(prompt: str) -> str:
    """State what the question asks, as an encyclopedia would begin to."""
    question = _field(prompt, "Question").rstrip("? ")
    about = re.sub(rf"^{ASKING}\s+", "", question, flags=re.IGNORECASE)
    return f"This is known of it: {about}. The records tell {question[:1].lower()}{question[1:]}."


def label(prompt: str) -> str:
    """Name the label that shares most words with the text, or rather beginnings of words; the first of equals."""
    text = {word[:4] for word in _words(_field(prompt, "Text"))}
    labels = [line[2:] for line in prompt.splitlines() if line.startswith("- ")]
    best = max(labels, key=lambda line: len(text & {word[:4] for word in _words(line)}))
    return best.partition(":")[0]


def standalone(prompt: str) -> str:
    """Put what the conversation is about in the place of "it"."""
    about = re.search(r"\bthe \w+\b", _field(prompt, "Conversation"))
    return re.sub(r"\bit\b", about[0], _field(prompt, "Question")) if about else _field(prompt, "Question")


def judge(prompt: str) -> str:
    """Say yes where the last passage has half of the question's words, and a number if one is asked for."""
    asked = "\n" + prompt.rpartition("\n\n")[2]
    question, passage = _field(asked, "Question"), _field(asked, "Passage")
    counting = re.match(r"when|how (?!do|can|is|are|was|were)", question, re.IGNORECASE)
    shared = len(_words(question) & _words(passage)) >= len(_words(question)) / 2
    return "yes" if shared and (not counting or re.search(r"\d", passage)) else "no"


RULES: dict[str, Callable[[str], str]] = {
    "Which": label,
    "Rewrite": standalone,
    "Split": subquestions,
    "Imagine": hyde,
    "Does": judge,
}
"""The rule for each prompt, by its first word."""


def reply(prompt: str) -> str:
    """Answer a prompt; one that is not known is told so."""
    task = WORD.match(prompt.lstrip())
    rule = RULES.get(task[0] if task else "")
    return rule(prompt) if rule else "I am a stub: I know " + ", ".join(RULES) + "."


@contextmanager
def stub_model(port: int = 0) -> Iterator[str]:
    """Serve the stub in a thread, for as long as the block runs.

    Parameters
    ----------
    port
        On 127.0.0.1; a free one if 0.

    Yields
    ------
    str
        The base URL, such as ``http://127.0.0.1:8123/v1``.
    """
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._send(
                {"object": "list", "data": [{"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}]}
            )
        elif self.path == "/ready":
            self._send({})
        else:
            self._send({"error": {"message": f"there is no {self.path}", "type": "not_found"}}, 404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._send({"error": {"message": f"there is no {self.path}", "type": "not_found"}}, 404)
            return
        try:
            prompt = _last_text(json.loads(body)["messages"])
        except (ValueError, KeyError, TypeError, IndexError) as error:
            self._send({"error": {"message": f"not a chat request: {error}", "type": "invalid_request_error"}}, 400)
            return
        text = reply(prompt)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        sizes = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
        usage = {**sizes, "total_tokens": sum(sizes.values())}
        self._send({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method that it replaces
        """Keep quiet."""

    def _send(self, answer: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


_HEAD = {"id": "chatcmpl-stub", "created": 0, "model": "stub"}


def _last_text(messages: list[dict[str, Any]]) -> str:
    """The text of the last message, which may come in parts."""
    content = messages[-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _field(prompt: str, name: str) -> str:
    """The text behind a name in a prompt, up to the next name that follows an empty line."""
    _, _, rest = prompt.partition(f"\n{name}:")
    return re.split(r"\n\n(?=(?:Passage|Question):)|\n(?:Passage|Label|Rewritten|Parts|Answer):", rest)[0].strip()


def _parts(question: str) -> list[str]:
    """Cut where a question word follows "and"; "it" and "they" become what the first part is about."""
    first, *others = re.split(rf",?\s+and\s+(?={ASKING})", question, flags=re.IGNORECASE)
    about = re.search(r"\bthe \w+\b", first)
    named = [re.sub(r"\b(?:it|they)\b", about[0], part) if about else part for part in others]
    return [_question(part) for part in [first, *named]]


def _words(text: str) -> set[str]:
    return {word for word in map(str.lower, WORD.findall(text)) if len(word) > 2}


def _question(text: str) -> str:
    """Begin with a capital, and end with one question mark."""
    text = text.strip().rstrip("?.! ")
    return f"{text[:1].upper()}{text[1:]}?"


if __name__ == "__main__":
    with stub_model(int(sys.argv[-1]) if sys.argv[1:] else 8123) as address:
        print(f"answering by rule at {address}; stop with Ctrl-C")
        threading.Event().wait()
