"""Small indices with questions, of many kinds of documents: what ``train_answerable.py`` learns from.

A kind is a pool of documents, each with its passages and some questions, and the passages that answer them. An index is
one document and as many others of its kind as make it 10 to 1,000 passages large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets_io import read_jsonl
from labels import FOLDER
from pair_domains import read_domains
from section_sets import by_document, documents
from semclass.core.types import Passage
from semclass.index.passage_index import PassageIndex
from semclass.ranking.models import Models
from semclass.ranking.retriever import HybridRetriever
from semclass.scoring.postings import count_deleted

LEAST, MOST = 10, 1000  # passages of an index
LONGEST = 40  # passages of a document
SECTIONS = 95  # documents of sections
ASKED = 10  # questions of some written passages
QA = {
    "onestopqa": (30, 4), "fairytaleqa": (40, 6), "dstc9_faq": (40, 5), "timeqa": (30, 3),
    "pira_en": (40, 3), "tatqa": (50, 3), "afriqa_en": (150, 1),
}  # fmt: skip
"""Files of ``qa``, without those that confirm: how many documents of each, and questions of a document."""


@dataclass
class Document:
    """Passages with titles, and questions with the places of what answers them; others may, and are left out with them."""

    passages: list[tuple[str, str]] = field(default_factory=list)
    questions: list[tuple[str, list[int], list[int]]] = field(default_factory=list)


def read_kinds(data: Path, domains: Sequence[str], rng: np.random.Generator) -> dict[str, list[Document]]:
    """Documents by kind, those of ``sections`` of some domains."""
    found = {name: _qa(data / "qa" / f"{name}.jsonl.gz", *counts, rng) for name, counts in QA.items()}
    found |= {"sections": _sections(data, domains, rng), "medquad": _medquad(data, rng), "contrast": _contrast(rng)}
    written = next(domain for domain in read_domains(data, 0) if domain.name == "written")
    documents = [Document() for _ in range(0, len(written.passages), 14)]
    for number, text in enumerate(written.passages):
        documents[number // 14].passages.append((text, ""))
    for question, (answer, *_) in zip(written.questions, map(sorted, written.answers), strict=True):
        if len(documents[answer // 14].questions) < ASKED:
            documents[answer // 14].questions.append((question, [answer % 14], []))
    return {**found, "written": documents}


def _drawn(items: list[Any], count: int, rng: np.random.Generator) -> list[Any]:
    return [items[place] for place in rng.permutation(len(items))[:count].tolist()]


def _qa(path: Path, count: int, questions: int, rng: np.random.Generator) -> list[Document]:
    documents: dict[Any, tuple[dict[str, int], list[tuple[str, list[int], list[int]]]]] = {}
    for row in read_jsonl(path):
        places, asked = documents.setdefault(row.get("title") or tuple(row["passages"]), ({}, []))
        known = [places.setdefault(text, len(places)) for text in row["passages"]]
        asked.append((row["question"], sorted({known[answer] for answer in row["answers"]}), []))
    return [
        Document(
            [(text, "") for text in list(places)[:LONGEST]],
            [one for one in _drawn(asked, len(asked), rng) if max(one[1]) < LONGEST][:questions],
        )
        for places, asked in _drawn(list(documents.values()), count, rng)
    ]


def _sections(data: Path, domains: Sequence[str], rng: np.random.Generator) -> list[Document]:
    """Documents with headings that are questions, some of each domain; the heading is taken away from the answer."""
    read = {row["id"]: row for row in documents(data) if row["domain"] in domains}
    asked = by_document(data, "question", read)
    by_domain: dict[str, list[str]] = {}
    for name in sorted(asked):
        by_domain.setdefault(read[name]["domain"], []).append(name)
    found = []
    each = SECTIONS // len(domains)
    for name in (one for names in by_domain.values() for one in _drawn(names, each, rng)):
        rows = _drawn(asked[name], 3, rng)
        needed = {place for row in rows for place in (row["section"], *row.get("also", ()))}
        start = max(0, min(needed) - 6)
        kept = sorted(needed.union(range(start, min(start + 20, len(read[name]["sections"])))))
        hidden = {row["query"] for row in rows}
        title = "" if any(row.get("title_is_query") for row in rows) else read[name]["title"]
        document = Document()
        for section in (read[name]["sections"][place] for place in kept):
            path = [title, *(heading for heading in section["path"] if heading not in hidden)]
            document.passages.append((section["text"], " > ".join(filter(None, path))))
        for row in rows:
            also = [kept.index(place) for place in row.get("also", ())]
            document.questions.append((row["query"], [kept.index(row["section"])], also))
        found.append(document)
    return found


def _medquad(data: Path, rng: np.random.Generator, count: int = 50) -> list[Document]:
    found = []
    for row in _drawn(list(read_jsonl(data / "medquad" / "documents.jsonl.gz")), count, rng):
        parts = [part for part in row["sections"] if part["answer"]][:10]
        questions = [(part["question"], [place], []) for place, part in enumerate(parts[:4])]
        found.append(Document([(part["answer"][:900], "") for part in parts], questions))
    return found


def _contrast(rng: np.random.Generator, count: int = 60) -> list[Document]:
    """Five answers of a domain, each with two texts that resemble it."""
    domains: dict[str, list[dict[str, Any]]] = {}
    for row in read_jsonl(FOLDER / "contrast.jsonl.gz"):
        domains.setdefault(row["domain"], []).append(row)
    found = []
    for rows in _drawn(list(domains.values()), count, rng):
        document = Document()
        for row in _drawn(rows, 5, rng):
            way = ("other_words", "passage", "same_words")[rng.choice(3, p=[0.4, 0.45, 0.15])]
            document.questions.append((row["question"], [len(document.passages)], []))
            document.passages.append((row["answers"][way], ""))
            rivals = _drawn(["mention", "wrong_type", "near", "unknown"], 2, rng)
            document.passages += [(row["distractors"][rival], "") for rival in rivals]
        found.append(document)
    return found


def indices(
    documents: list[Document], models: Models, rng: np.random.Generator
) -> Iterator[tuple[HybridRetriever, list[tuple[str, list[str]]]]]:
    """A small index around each document that is asked about, and the questions with the ids of what may answer them."""
    starts = np.cumsum([0, *(len(document.passages) for document in documents)]).tolist()
    texts = [part for document in documents for part in document.passages]
    passages = [Passage(str(row), text, {"title": title} if title else {}) for row, (text, title) in enumerate(texts)]
    whole = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    for number, document in enumerate(documents):
        if not document.questions:
            continue
        size = int(np.exp(rng.uniform(np.log(LEAST), np.log(MOST))))
        kept = np.zeros(len(texts), np.bool_)
        for other in [number, *rng.permutation(len(documents)).tolist()]:
            if kept.sum() < size:
                kept[starts[other] : starts[other + 1]] = True
        removed = np.flatnonzero(~kept)
        deleted = count_deleted(whole.segments[0].postings, removed) if len(removed) else None
        index = replace(whole, deleted=(deleted,))
        start = starts[number]
        asked = [(text, [str(start + place) for place in (*some, *also)]) for text, some, also in document.questions]
        yield HybridRetriever(index, models), asked
