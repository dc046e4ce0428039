"""Reads questions with known answers from a BEIR folder or a file of judgements, and writes TREC run files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from semclass.core.artifacts import write_atomic
from semclass.core.errors import InputError
from semclass.documents.decoding import read_lines
from semclass.documents.records import read_json_lines
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import READ_PASSAGES

Judgements: TypeAlias = dict[str, dict[str, bool]]
"""For each question, the ids of judged passages, and whether each passage answers the question."""

_DIGEST = re.compile(r"#[0-9a-f]{10}(?:-[0-9]{1,9})?$")

SUFFIX = ".trec"
"""Ending of the run files that semclass writes."""


@dataclass(frozen=True)
class Dataset:
    """The questions of a data set with a relevant passage, and their judgements."""

    folder: Path  #: folder of the questions
    questions: Mapping[str, str]  #: texts by id
    relevance: Mapping[str, Mapping[str, int]]  #: by question id: relevance, above 0, by passage id


def load_dataset(folder: str | Path, *, split: str = "test", limit: int | None = None, corpus: bool = True) -> Dataset:
    """Read the questions and judgements of a BEIR folder.

    The folder has ``queries.jsonl``, JSON lines with ``_id`` and ``text``, and ``qrels/<split>.tsv``. A line of the latter
    has a question id, a passage id and a relevance (a whole number); a header is allowed. If `corpus` is true, the folder
    must also have ``corpus.jsonl``. `limit` is the maximum number of questions to read, in the order of the judgements.

    Raises
    ------
    InputError
        If a file is missing or a line is malformed. The message names file and line.
    """
    folder = Path(folder)
    queries, qrels = folder / "queries.jsonl", folder / "qrels" / f"{split}.tsv"
    for path in (*((folder / "corpus.jsonl",) if corpus else ()), queries, qrels):
        if not path.is_file():
            raise InputError(f"{path} is missing; a BEIR folder has corpus.jsonl, queries.jsonl and qrels/{split}.tsv")
    relevance: dict[str, dict[str, int]] = {}
    for number, line in read_lines(qrels):
        try:
            question, passage, text = line.split("\t")[:3]
            value = int(text)
        except ValueError as error:
            if number == 1:
                continue  # BEIR's judgements begin with a header
            raise InputError(
                f"{qrels}, line {number} must hold query-id, corpus-id and a whole number, not {line[:80]!r}"
            ) from error
        if value > 0:
            relevance.setdefault(question, {})[passage] = value
    texts = {}
    for number, record in read_json_lines(queries):
        if "_id" not in record or not isinstance(record.get("text"), str):
            raise InputError(f"{queries}, line {number} must hold an object with _id and text")
        texts[str(record["_id"])] = record["text"]
    known = [question for question in relevance if question in texts][:limit]
    if not known:
        raise InputError(f"{qrels} judges no question of {queries}; compare the question ids")
    return Dataset(folder, {q: texts[q] for q in known}, {q: relevance[q] for q in known})


def write_run(path: str | Path, questions: Iterable[str], ranking: Sequence[Sequence[str]], tag: str) -> None:
    """Write a TREC run file, with lines ``question Q0 passage rank score tag``, in place of an older file.

    `ranking` holds the passages of each question, best first. Tools sort by score, and a method's scores may tie. So the
    written scores are places: the best of n passages has n.
    """
    lines = []
    for question, passages in zip(questions, ranking, strict=True):
        for place, passage in enumerate(passages, 1):
            for name in (question, passage, tag):
                if name.split() != [name]:
                    raise InputError(f"the id {name!r} is empty or has white space, which a run file does not allow")
            lines.append(f"{question} Q0 {passage} {place} {len(passages) + 1 - place} {tag}\n")
    write_atomic(Path(path), "".join(lines).encode())


def read_judgements(path: str | Path) -> Judgements:
    """Read JSON lines such as ``{"question": "Who?", "passage": "a.md#3", "right": true}``.

    Returns :data:`Judgements`. If a pair of question and passage is judged twice, the last judgement counts. A line with
    ``"right": null`` removes the judgement of its pair.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is malformed. The message names file and line.
    """
    judged: Judgements = {}
    for number, record in read_json_lines(Path(path)):
        question, passage, right = (record.get(name) for name in ("question", "passage", "right"))
        if not (isinstance(question, str) and isinstance(passage, str) and isinstance(right, bool | None)):
            raise InputError(
                f'{path}, line {number} must hold an object with the texts question and passage, and "right": true or false'
            )
        judged.setdefault(question, {}).pop(passage, None)
        if right is not None:
            judged[question][passage] = right
    return {question: passages for question, passages in judged.items() if passages}


def followed(judged: Judgements, index: PassageIndex) -> Judgements:
    """Give judged passages of renamed files their new ids. They are found by the digest of the content in the id."""
    names = [name for passages in judged.values() for name in passages]
    lost = {names[place]: _DIGEST.search(names[place]) for place in np.flatnonzero(index.find(names) < 0)}
    ends = {end[0]: list[str]() for end in lost.values() if end}
    for begin in range(0, len(index.rows) if ends else 0, READ_PASSAGES):
        for passage in index.passages(index.rows[begin : begin + READ_PASSAGES]):
            if (end := _DIGEST.search(passage.id)) and end[0] in ends:
                ends[end[0]].append(passage.id)
    moved = {name: ends[end[0]][0] for name, end in lost.items() if end and len(ends[end[0]]) == 1}
    return {
        question: {moved.get(name, name): right for name, right in passages.items()}
        for question, passages in judged.items()
    }


def judged_dataset(path: str | Path, index: PassageIndex | None = None) -> Dataset:
    """Read questions with a passage judged right, and follow passages renamed in `index`. A question's text is its id."""
    judged = read_judgements(path)
    judged = judged if index is None else followed(judged, index)
    relevance = {text: {name: 1 for name, right in passages.items() if right} for text, passages in judged.items()}
    relevance = {text: passages for text, passages in relevance.items() if passages}
    if not relevance:
        raise InputError(f'{path} judges no passage right; add lines with "right": true')
    return Dataset(Path(path).parent, {text: text for text in relevance}, relevance)
