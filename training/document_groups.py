"""Questions and headings over the passages of one document: what tuning learns from besides ``answer_groups.py``.

- ``sections NAME``: headings and the text below them, among other sections of the same document, a domain each;
- ``qa NAME``: questions, each with passages of one document, a file of ``qa`` each.

``section_sets.py`` says which domains and files are learnt from; those of `FITTED` and `FITTED_QA` are measured on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from answer_groups import Group, sentences
from datasets_io import read_jsonl
from section_sets import FITTED, FITTED_QA, KINDS, TUNED, TUNED_QA, by_document, documents

SIBLINGS = 6  # other passages of the same document
SENTENCES = 8  # read of a passage at most
MOST = 3000  # questions of a file of qa at most: those of some are many and formulaic
RIGHT = 2  # answers of a question at most
OFTEN = 3  # times that a heading which is a question comes, as there are many more of the others


def read_groups(data: Path, seed: int) -> list[Group]:
    """Read all that is learnt from, domain after domain, each in the order of its documents."""
    rng = np.random.default_rng([seed, 2])
    found = [group for name in (*TUNED, *FITTED) for group in _sections(data, name, rng)]
    found += [group for name in (*TUNED_QA, *FITTED_QA) for group in _qa(data, name, rng)]
    return [group for group in found if group.question.strip() and all(group.passages)]


def measured_on(domain: str) -> bool:
    """Whether a domain of groups is one that is only measured on."""
    return domain.removeprefix("sections ") in FITTED or domain.removeprefix("qa ") in FITTED_QA


def _sections(data: Path, domain: str, rng: np.random.Generator) -> Iterator[Group]:
    kept = {row["id"]: row for row in documents(data) if row["domain"] == domain}
    asked = {kind: by_document(data, kind, kept) for kind in KINDS}
    texts = {name: [sentences(section["text"], SENTENCES) for section in row["sections"]] for name, row in kept.items()}
    names = list(kept)
    for place, name in enumerate(names):
        # of the documents before and after, for documents with few of their own
        near = [names[other] for other in (place - 1, place + 1) if 0 <= other < len(names)]
        beside = [passage for other in near for passage in texts[other][:SIBLINGS]]
        for kind, times in zip(KINDS, (OFTEN, 1), strict=True):
            for query in asked[kind].get(name, ()):
                right = {query["section"], *query.get("also", ())}
                for _ in range(times):
                    yield _drawn(
                        f"sections {domain}", query["query"], texts[name], query["section"], right, beside, rng
                    )


def _drawn(
    domain: str,
    question: str,
    own: Sequence[tuple[str, ...]],
    answer: int,
    right: set[int],
    beside: Sequence[tuple[str, ...]],
    rng: np.random.Generator,
) -> Group:
    """The passage that answers, and some others of its document, the nearest ones more often."""
    others = [place for place in range(len(own)) if place not in right and own[place]]
    near = np.exp(-np.abs(np.array(others) - answer) / SIBLINGS) + 0.1
    count = min(len(others), SIBLINGS)
    drawn = rng.choice(len(others), count, replace=False, p=near / near.sum()).tolist() if count else []
    wrong = [own[others[at]] for at in drawn]
    wrong += [beside[at] for at in rng.permutation(len(beside))[: SIBLINGS - count].tolist() if beside[at]]
    return Group(domain, question, (own[answer], *wrong), frozenset([0]))


def _qa(data: Path, name: str, rng: np.random.Generator) -> Iterator[Group]:
    rows: list[dict[str, Any]] = list(read_jsonl(data / "qa" / f"{name}.jsonl.gz"))
    read: dict[str, tuple[str, ...]] = {}
    for at in np.sort(rng.permutation(len(rows))[:MOST]).tolist():
        row = rows[at]
        parts = [read.setdefault(text, sentences(text, SENTENCES)) for text in row["passages"]]
        right = [place for place in row["answers"] if parts[place]]
        if not right or len(right) == len(parts):
            continue
        right = [right[place] for place in rng.permutation(len(right))[:RIGHT].tolist()]
        others = [place for place in range(len(parts)) if parts[place] and place not in row["answers"]]
        wrong = [others[place] for place in rng.permutation(len(others))[:SIBLINGS].tolist()]
        passages = tuple(parts[place] for place in (*right, *wrong))
        yield Group(f"qa {name}", row["question"], passages, frozenset(range(len(right))))
