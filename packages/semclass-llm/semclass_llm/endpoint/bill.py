"""Counts the cost of the calls of a language model, and the calls that gave no answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semclass.core.checks import counted
from semclass_llm.endpoint.kept import Reply

FAILED, REFUSED, NONSENSE = "failed", "refused", "nonsense"
"""Reasons why a call gave no answer: it failed, the service or the model refused, or the answer cannot be read."""

_CHARACTERS = 4  # of a token, roughly, where the service counts none


@dataclass
class Bill:
    """Calls, tokens and seconds so far. Replies from the cache count as calls, and as `cached`."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    refused: int = 0
    nonsense: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0  #: sum over all calls
    counted: bool = True  #: whether the service counted all tokens; else four characters count as a token

    def add(self, prompt: str, reply: Reply) -> str:
        """Count a call. Returns `REFUSED` or `FAILED`, or an empty string if there is an answer to read."""
        self.calls += 1
        self.cached += reply.cached
        self.refused += reply.refused
        self.failed += reply.error is not None and not reply.refused
        if reply.text is not None:
            self.counted = self.counted and reply.prompt_tokens is not None and reply.completion_tokens is not None
            self.prompt_tokens += reply.prompt_tokens or len(prompt) // _CHARACTERS
            self.answer_tokens += reply.completion_tokens or len(reply.text) // _CHARACTERS
            self.seconds += reply.seconds
        return REFUSED if reply.refused else FAILED if reply.error is not None else ""

    @property
    def counted_by(self) -> str:
        """How the tokens were counted: ``"the service"`` or ``"characters"``."""
        return "the service" if self.counted else "characters"

    def usd(self, prices: tuple[float, float]) -> float:
        """Return the price of the tokens; `prices` are USD for a million tokens of prompts and of answers."""
        return (self.prompt_tokens * prices[0] + self.answer_tokens * prices[1]) / 1e6

    def figures(self) -> dict[str, Any]:
        """Return all figures in JSON types."""
        counts = {name: value for name, value in vars(self).items() if name not in ("seconds", "counted")}
        return {**counts, "tokens_counted_by": self.counted_by, "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        """Describe the cost in one line."""
        return (
            f"{counted(self.calls, 'call')}{f', {self.cached} of them kept' if self.cached else ''}, "
            f"{self.prompt_tokens} tokens of prompts and {self.answer_tokens} of answers (by {self.counted_by}), "
            f"{self.seconds:.1f} s"
        )
