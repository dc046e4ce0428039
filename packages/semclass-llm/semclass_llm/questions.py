"""Lets a language model write questions with known answers from passages, and keeps the good ones.

A question is kept if a search finds its passage, and the head for pairs judges that the passage answers it (round-trip
consistency, Alberti et al. 2019). Dropped questions are counted by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from semclass import HybridRetriever, Passage
from semclass.plugins import searchable
from semclass_llm.endpoint import Chat
from semclass_llm.quoting import GUARD, quoted
from semclass_llm.reading import questions_of

MAX_CHARACTERS = 4_000  # most characters of a passage in a prompt
MAX_TOKENS = 60  # most tokens of a question
FIRST_HITS = 10  # number of first hits among which a question's passage must be
MAX_OVERLAP = 0.5
"""Greatest share of a passage's words that a question may hold. A question with more words is the passage itself."""

PROMPT = """Below is a passage from a collection that people search. Write {count} different questions that somebody who \
has not seen the passage could ask, and that it answers.
- Each must be clear without the passage: name what it is about, and do not speak of "the passage" or "the text".
- Use your own words rather than those of the passage, and do not put the answer into the question.
- Write each question in a line of its own, in the language of the passage, and nothing else.
- {guard}

Passage:
{passage}"""

_WORD = re.compile(r"\w+")
_SOURCE = re.compile(
    r"\b(?:the|this|given|above|provided)\s+(?:passage|text|excerpt|document|article|paragraph|section|snippet|context)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WrittenQuestion:
    """A question, and the passage that answers it."""

    text: str
    passage: Passage


def write_questions(passages: Sequence[Passage], chat: Chat, count: int = 2) -> list[WrittenQuestion]:
    """Let a language model write at most `count` questions to each passage.

    A prompt holds the first 4,000 characters of a passage. ``chat.bill`` counts the calls, and those without a question.
    """
    prompts = (
        PROMPT.format(count=count, guard=GUARD, passage=quoted(searchable(passage), MAX_CHARACTERS))
        for passage in passages
    )
    questions: list[WrittenQuestion] = []
    for passage, reply in zip(passages, chat.ask(prompts, max_tokens=MAX_TOKENS * count), strict=True):
        if not reply.why:
            texts = questions_of(reply.text or "")[:count]
            chat.bill.unreadable += not texts
            questions += [WrittenQuestion(text, passage) for text in texts]
    return questions


def keep_good(
    retriever: HybridRetriever, questions: Iterable[WrittenQuestion], *, first: int = FIRST_HITS
) -> tuple[list[WrittenQuestion], Counter[str]]:
    """Keep the questions whose passage is found and answers the question.

    Parameters
    ----------
    retriever
        Retriever over the index of the passages. Without a head for pairs, it does not judge whether a passage answers.
    questions
        Questions and their passages.
    first
        Number of first hits among which the passage must be.

    Returns
    -------
    kept, dropped
        The good questions, and the number of the others by reason, such as ``"not found"`` and ``"not answered"``.
    """
    kept: list[WrittenQuestion] = []
    dropped: Counter[str] = Counter()
    seen: set[tuple[str, ...]] = set()
    pairs = retriever.models.pair_heads
    needed = 0.0 if pairs is None else float(pairs.entailment.thresholds[0])
    for question in questions:
        words = tuple(_WORD.findall(question.text.casefold()))
        reason = _useless(question) or ("repeated" if words in seen else "")
        seen.add(words)
        if reason:
            dropped[reason] += 1
            continue
        hits = retriever.search(question.text, first)
        hit = next((hit for hit in hits if hit.id == question.passage.id), None)
        if hit is None:
            dropped["not found"] += 1
        elif hit.components.get("relevance", 1.0) < needed:
            dropped["not answered"] += 1
        else:
            kept.append(question)
    return kept, dropped


def _useless(question: WrittenQuestion) -> str:
    """Why nobody would ask a question: it names the passage as such, or holds most of its words."""
    if _SOURCE.search(question.text):
        return "speaks of the passage"
    words = set(_WORD.findall(question.passage.text.casefold()))
    repeated = words.intersection(_WORD.findall(question.text.casefold()))
    return "passage itself" if not words or len(repeated) > MAX_OVERLAP * len(words) else ""
