"""Makes questions with known answers from the headings of passages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semclass.core.types import Passage
from semclass.heads.query_focus import is_question
from semclass.index.passage_encoder import title_of
from semclass.ranking.retriever import HybridRetriever

MAX_HEADING_WORDS = 24
"""Most words of a heading. A longer heading is a sentence of the text."""

_HOW_TO = "How do I go about "

_LETTERS = re.compile(r"[^\W\d_]{3,}")
_NUMBERED = re.compile(
    r"^(?:(?:(?:appendix|chapter|part|section)\s|§+)\s*(?:\d[\d.]*|[ivxlc]+|[a-z])(?:\s*[.:)–—-]\s*|\s+)"
    r"|\d+(?:\.\d+)*\s*[.:)]\s+|[ivx]+[.)]\s+|\d+(?:\.\d+)+\s+(?-i:(?=[^\W\d_a-z])))(?=\S)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Draft:
    """A question to a passage that is not yet checked."""

    text: str
    passage: str  #: id of the passage


def sample_passages(retriever: HybridRetriever, count: int, *, seed: int = 0) -> list[Passage]:
    """Draw random passages of an index, in its order. Passages marked as duplicates are left out."""
    rows = np.random.default_rng(seed).permutation(retriever.local_index.rows)[:count]
    passages = retriever.local_index.passages(np.sort(rows))
    return [passage for passage in passages if not passage.metadata.get("duplicate_of")]


def write_from_headings(passages: Iterable[Passage]) -> Iterator[Draft]:
    """Write a question to each passage with a heading.

    The question is the heading, reworded if it describes how to do something.
    """
    for passage in passages:
        if heading := _heading(passage):
            yield Draft(_question(heading), passage.id)


def is_made(question: str) -> bool:
    """Whether a question was made of a heading that nobody would ask, such as "Activating the pump"."""
    return question.startswith(_HOW_TO)


def _heading(passage: Passage) -> str:
    """Title or innermost heading of a passage, after the one above it if it is a single word; empty if it is no words."""
    headings = passage.metadata.get("headings")
    title = _unnumbered(title_of(passage))
    if isinstance(headings, list) and title and not passage.metadata.get("title"):
        names = [_unnumbered(heading) for heading in headings if isinstance(heading, str) and heading.strip()]
        title = ": ".join(names[-1 - (len(names[-1].split()) == 1) :])
    return title if len(_LETTERS.findall(title)) > 1 and len(title.split()) <= MAX_HEADING_WORDS else ""


def _unnumbered(heading: str) -> str:
    """A heading without its number, which nobody asks for."""
    return _NUMBERED.sub("", heading.strip())


def _question(heading: str) -> str:
    plain = heading.rstrip(" .:")
    first, _, rest = plain.partition(" ")
    if first.lower() == "how" and rest.lower().startswith("to "):
        return f"How do I {rest[3:]}?"
    if first.lower() != "how" and is_question(heading):
        return heading
    if first.lower().endswith("ing") and len(first) > 5 and rest:
        return f"{_HOW_TO}{first[0].lower()}{plain[1:]}?"
    return plain
