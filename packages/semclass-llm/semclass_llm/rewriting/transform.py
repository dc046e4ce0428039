"""Defines the results of rewriting a question before a search: other questions, or imagined answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from semclass.core.checks import check_text, check_texts
from semclass.core.errors import InputError, warn
from semclass_llm.endpoint.bill import Bill


class RewriteWarning(UserWarning):
    """A question is searched without rewriting, because rewriting failed. The message holds the reason."""


@dataclass(frozen=True)
class Rewritten:
    """The questions or texts that a search uses in place of a question.

    Attributes
    ----------
    asked
        The original question.
    questions
        The questions to search for, at least one. Each question finds and re-ranks its own passages, and a passage
        counts by its best rank. If the only question is `asked`, the search is the same as without rewriting.
    passages
        Imagined answers. The mean vector of the question and these texts replaces the vector of the question, see
        :meth:`semclass.HybridRetriever.search_by_texts`. They are allowed only with one question.
    why
        Reason for not rewriting the question: ``"failed"``, ``"refused"`` or ``"nonsense"``. Empty if the question was
        rewritten.
    said
        The model's answer, shortened, or the error of the call, if the question was not rewritten.
    cost
        Calls and tokens that the rewriting took.
    """

    asked: str
    questions: tuple[str, ...]
    passages: tuple[str, ...] = ()
    why: str = ""
    said: str = ""
    cost: Bill = field(default_factory=Bill)

    def __post_init__(self) -> None:
        for name in ("questions", "passages"):
            object.__setattr__(self, name, tuple(check_texts(getattr(self, name), name)))
        if not self.questions or (self.passages and len(self.questions) > 1):
            raise InputError(
                f"there are {len(self.questions)} questions and {len(self.passages)} passages; give one question, or "
                "several without passages"
            )


class QueryTransform(Protocol):
    """Interface of functions that rewrite a question before a search."""

    def __call__(self, question: str, history: Sequence[str] = ()) -> Rewritten:
        """Rewrite a question; `history` is the conversation before it, questions and answers in turn, oldest first."""


def rewritten(transform: QueryTransform, question: str, history: Sequence[str] = ()) -> Rewritten:
    """Rewrite a question, and warn with a :class:`RewriteWarning` if this fails."""
    found = transform(check_text(question, "question"), check_texts(history, "history"))
    if found.why:
        warn(RewriteWarning(f"{found.asked!r} is searched without rewriting ({found.why}): {found.said}"))
    return found
