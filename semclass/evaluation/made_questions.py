"""Makes questions with known answers from the passages of an index, and filters them by the shipped heads.

A question is kept if a default search finds its passage, and the pair head judges that the passage answers it (round-trip
consistency, Alberti et al. 2019). Dropped questions are counted by reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.encoders.batching import CHUNK
from semclass.heads.asked import asks
from semclass.index.records import Query
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.order import reorder
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring.topk import unit

FOUND = 10
"""Number of first places of a default search among which a question's passage must be."""

ALIKE = 0.95
"""Cosine of the vectors of two questions from which both count as the same question."""

MOST = 0.5
"""Greatest share of a passage's words that a question may hold. A question with more words is the passage itself."""

_WORD = re.compile(r"\w+")
_SOURCE = re.compile(
    r"\b(?:the|this|given|above|provided)\s+(?:passage|text|excerpt|document|article|paragraph|section|snippet|context)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Draft:
    """A question to a passage that is not yet checked."""

    text: str
    passage: str  #: id of the passage


@dataclass(frozen=True)
class MadeQuestion:
    """A question that passed all checks."""

    text: str
    passage: str  #: id of the passage
    label: str  #: class of the answer; empty without class heads, or if the text asks nothing
    rank: int  #: place of the passage in a default search, from 1


@dataclass(frozen=True)
class MadeQuestions:
    """The kept questions, and the number of dropped questions by reason.

    The reasons, in the order of checking, are ``"speaks of the passage"``, ``"passage itself"``, ``"repeated"``, ``"not
    found"`` and ``"not answered"``.
    """

    kept: tuple[MadeQuestion, ...]
    dropped: Mapping[str, int]

    def counts(self) -> dict[str, int]:
        """Return the number of kept questions, and the number of dropped questions by reason."""
        return {"kept": len(self.kept), **self.dropped}


def sample_passages(retriever: HybridRetriever, count: int, *, seed: int = 0) -> list[Passage]:
    """Draw random passages of an index, in its order. Passages marked as duplicates are left out."""
    rows = np.random.default_rng(seed).permutation(retriever.local_index.rows)[:count]
    passages = retriever.local_index.passages(np.sort(rows))
    return [passage for passage in passages if not passage.metadata.get("duplicate_of")]


def keep_good(
    retriever: HybridRetriever,
    drafts: Sequence[Draft],
    *,
    found: int = FOUND,
    progress: Callable[[int], object] = lambda _: None,
) -> MadeQuestions:
    """Keep the questions whose passage is found and answers the question.

    Parameters
    ----------
    retriever
        Retriever over the index of the passages. Without pair heads, it searches by ``"convex"``, and does not judge
        whether a passage answers a question.
    drafts
        Questions with the ids of their passages in the index.
    found
        Number of first places of the search among which the passage must be.
    progress
        Function that is called with the number of questions done.

    Raises
    ------
    InputError
        If a passage is not in the index.
    """
    rows = retriever.local_index.find([draft.passage for draft in drafts])
    if len(rows) and rows.min() < 0:
        raise InputError(f"passage {drafts[int(rows.argmin())].passage!r} is not in the index")
    dropped: Counter[str] = Counter()
    kept: list[MadeQuestion] = []
    seen = np.zeros((len(drafts), retriever.models.encoder.views["pooled"]), np.float32)
    for draft, row, query in zip(drafts, rows.tolist(), _queries(retriever, drafts), strict=True):
        progress(1)
        passage = retriever.local_index.passage(row)
        vector = unit(query.pooled[None])[0]
        rank, answers = 0, True
        reason = _useless(draft.text, passage)
        if reason is None and float((seen[: len(kept)] @ vector).max(initial=0)) >= ALIKE:
            reason = "repeated"
        if reason is None:
            rank, answers = _search(retriever, query, row)
            reason = "not found" if not 0 < rank <= found else None if answers else "not answered"
        if reason is not None:
            dropped[reason] += 1
            continue
        seen[len(kept)] = vector
        classes = retriever.models.questions.classes if retriever.models.has_classes and asks(draft.text) else ()
        label = classes[int(query.probabilities.argmax())] if classes else ""
        kept.append(MadeQuestion(draft.text, draft.passage, label, rank))
    return MadeQuestions(tuple(kept), dict(dropped))


def _queries(retriever: HybridRetriever, drafts: Sequence[Draft]) -> Iterator[Query]:
    for start in range(0, len(drafts), CHUNK):
        yield from retriever.encode([draft.text for draft in drafts[start : start + CHUNK]])


def _useless(question: str, passage: Passage) -> str | None:
    """Why a question is none that a person would ask: it names the passage as such, or holds most of its words."""
    if _SOURCE.search(question):
        return "speaks of the passage"
    words = set(_WORD.findall(passage.text.casefold()))
    repeated = words.intersection(_WORD.findall(question.casefold()))
    return "passage itself" if not words or len(repeated) > MOST * len(words) else None


def _search(retriever: HybridRetriever, query: Query, row: int) -> tuple[int, bool]:
    """Place of a passage, from 1, 0 for not found; and whether the head says that it answers."""
    pairs = retriever.models.pair_heads
    how = METHODS[DEFAULT if pairs is not None else "convex"]
    found = retriever.candidates(query, METHODS[DEFAULT].candidates, how, evidence=pairs is not None)
    ranked = reorder(retriever.models, query, found, how)
    places = np.flatnonzero(ranked.rows[ranked.places] == row)
    if not len(places):
        return 0, False
    if pairs is None:
        return int(places[0]) + 1, True
    answers = ranked.components["relevance"][ranked.places[places[0]]]
    return int(places[0]) + 1, bool(answers >= pairs.entailment.thresholds[0])


def write_questions(folder: Path, made: MadeQuestions, about: Mapping[str, Any]) -> None:
    """Write ``queries.jsonl``, ``qrels/test.tsv`` and ``made.json``.

    ``made.json`` holds the numbers of kept and dropped questions.
    """
    if not made.kept:
        raise InputError(f"no question was kept; reasons: {made.counts()}; draw more passages (--passages)")
    queries, judgements = [], ["query-id\tcorpus-id\tscore\n"]
    for number, question in enumerate(made.kept, 1):
        name = f"made{number}"
        queries.append({"_id": name, "text": question.text, "metadata": {"label": question.label}})
        judgements.append(f"{name}\t{question.passage}\t1\n")
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    record = {**about, "questions": len(made.kept), "counts": made.counts()}
    artifacts.write_atomic(folder / "queries.jsonl", artifacts.dump_json_lines(queries))
    artifacts.write_atomic(folder / "qrels" / "test.tsv", "".join(judgements).encode())
    artifacts.write_atomic(folder / "made.json", artifacts.dump_json(record))
