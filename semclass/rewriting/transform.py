"""What a question becomes before it is searched for: other questions, or passages that stand in for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from semclass.core.checks import check_text, check_texts
from semclass.core.errors import InputError, warn
from semclass.endpoint.bill import Bill


class RewriteWarning(UserWarning):
    """A question is searched as it was asked, as nothing came of rewriting it; the message says why."""


@dataclass(frozen=True)
class Rewritten:
    """What is searched for in place of a question.

    Attributes
    ----------
    asked
        The question as it was asked.
    questions
        The questions that are searched for, at least one: each finds and re-ranks its own passages, and a passage counts
        by its best rank. Of one that is `asked`, the search is as without rewriting.
    passages
        Texts such as might answer the question: the mean vector of the question and these stands in for that of the
        question, see :meth:`semclass.HybridRetriever.search_by_texts`. Only where there is one question.
    why
        Why the question is searched as it was asked: ``"failed"``, ``"refused"`` or ``"nonsense"``; empty if it is not.
    said
        What the model said instead, shortened, or the error of the call.
    cost
        Calls and tokens that it took.
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
    """Rewrites a question before a search; any function that does so is one."""

    def __call__(self, question: str, history: Sequence[str] = ()) -> Rewritten:
        """Give what is searched for; `history` is what was said before, question and answer in turn, oldest first."""


def rewritten(transform: QueryTransform, question: str, history: Sequence[str] = ()) -> Rewritten:
    """Rewrite a question, and warn with a :class:`RewriteWarning` where nothing came of it."""
    found = transform(check_text(question, "question"), check_texts(history, "history"))
    if found.why:
        warn(RewriteWarning(f"{found.asked!r} is searched without rewriting ({found.why}): {found.said}"))
    return found
