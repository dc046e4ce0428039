"""Collections of ``sections`` and ``qa`` that no shipped model learnt from, and which of them fit, choose and confirm.

A collection of ``sections`` is one domain: its documents are the passages, with the document's title; questions are the
headings that are questions, or other headings. A document whose title is a query goes without its title. A collection of
``qa`` has some passages for each question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from datasets_io import read_jsonl
from semclass.core import artifacts
from semclass.core.types import Passage

CONFIRM = ("operations", "privacy", "science", "support")
"""Domains of ``sections`` that nothing is fitted to or chosen on: drawn by seed 49 from those new to the encoder."""

CONFIRM_QA = ("multihop", "pira_en")
"""Files of ``qa`` that nothing is fitted to: drawn by seed 50 from those that the encoder does not know."""

FITTED = ("education", "finance", "games", "health", "legal")
"""Domains that the encoder does not learn from: what reads its vectors is fitted to text that it does not know."""

FITTED_QA = ("fetaqa", "nq_paragraphs", "onestopqa", "tatqa")
"""The same of ``qa``."""

TUNED = (
    "biology", "business", "career", "community", "computing", "cooking", "design", "history", "philosophy", "security",
    "society", "software", "statistics", "writing",
)  # fmt: skip
"""Domains that the encoder and the deep head learn from."""

TUNED_QA = ("afriqa_en", "dstc9_faq", "fairytaleqa", "qamr_sentences", "qmsum", "timeqa", "wikitables")
"""The same of ``qa``."""

KINDS = ("question", "heading")
PASSAGES = 1800  # of a collection; documents are added as long as it has fewer, those with questions first
HEADINGS = 400  # of a collection, drawn by chance
LEAST = 20  # questions of a collection at least
GROUPS = 250  # questions of a file of qa


@dataclass(frozen=True)
class Collection:
    """Passages, and by kind the queries with the ids of what answers them."""

    passages: list[Passage]
    queries: dict[str, list[tuple[str, frozenset[str]]]]


def learnt_by(encoder: Path) -> Sequence[str]:
    """Names of what an encoder learnt from; another's learnt from none."""
    ours = (encoder / artifacts.MANIFEST).is_file()
    return artifacts.load_artifact(encoder, "encoder").manifest.get("learnt", ()) if ours else ()


def read_domain(data: Path, domain: str) -> Collection:
    """Read a collection; the same data give the same one."""
    found = {row["id"]: row for row in documents(data) if row["domain"] == domain}
    asked = {kind: by_document(data, kind, found) for kind in KINDS}
    passages: list[Passage] = []
    names: dict[tuple[str, int], str] = {}
    kept = []
    for name, row in sorted(found.items(), key=lambda item: item[0] not in asked["question"]):
        if len(passages) >= PASSAGES:
            break
        kept.append(name)
        hidden = any(query.get("title_is_query") for kind in KINDS for query in asked[kind].get(name, ()))
        title = {"title": row["title"]} if row["title"] and not hidden else {}
        for place, section in enumerate(row["sections"]):
            names[name, place] = str(len(passages))
            passages.append(Passage(str(len(passages)), section["text"], title))
    queries = {}
    for kind in KINDS:
        rows = [query for name in kept for query in asked[kind].get(name, ())]
        if kind == "heading":
            rows = [rows[row] for row in np.sort(np.random.default_rng(0).permutation(len(rows))[:HEADINGS])]
        if len(rows) >= LEAST:
            queries[kind] = [(query["query"], _answers(query, names)) for query in rows]
    return Collection(passages, queries)


def read_groups(data: Path, name: str) -> Iterator[tuple[str, list[str], list[bool]]]:
    """Some questions of a file of ``qa``, each with its passages and which of them answer."""
    rows = read_jsonl(data / "qa" / f"{name}.jsonl.gz")
    for place in np.sort(np.random.default_rng(0).permutation(len(rows))[:GROUPS]):
        texts = [(text, number in rows[place]["answers"]) for number, text in enumerate(rows[place]["passages"])]
        kept = [(text, answers) for text, answers in texts if text.strip()]
        if len(kept) > 1:
            yield rows[place]["question"], [text for text, _ in kept], [answers for _, answers in kept]


@cache
def documents(data: Path) -> list[dict[str, Any]]:
    """Documents of ``sections`` that train; every domain is read from the same files, so they are kept."""
    paths = sorted((data / "sections").glob("documents-*.gz"))
    return [row for path in paths for row in read_jsonl(path) if row["split"] == "train"]


def by_document(data: Path, kind: str, kept: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Queries of a kind by the id of their document, for some documents by id."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in read_jsonl(data / "sections" / f"{kind}s.jsonl.gz"):
        if row["document"] in kept:
            found.setdefault(row["document"], []).append(row)
    return found


def _answers(query: dict[str, Any], names: dict[tuple[str, int], str]) -> frozenset[str]:
    return frozenset(names[query["document"], place] for place in (query["section"], *query.get("also", ())))
