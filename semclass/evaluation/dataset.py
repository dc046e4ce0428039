"""Questions and judgements of a BEIR folder."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from semclass.core.errors import InputError
from semclass.documents.readers import read_json_lines


@dataclass(frozen=True)
class Dataset:
    """A BEIR folder's questions and judgements.

    Attributes
    ----------
    folder
        Where it is.
    questions
        Text by question id; only those with a relevant passage.
    relevance
        Relevance by passage id, by question id; only values above 0.
    """

    folder: Path
    questions: Mapping[str, str]
    relevance: Mapping[str, Mapping[str, int]]


def load_dataset(folder: str | Path, *, split: str = "test", limit: int | None = None) -> Dataset:
    """Read the questions and judgements of a BEIR folder.

    Parameters
    ----------
    folder
        Holds ``queries.jsonl`` and ``qrels/<split>.tsv``.
    split
        Which judgements.
    limit
        Take only the first so many questions, in the order of the judgements.

    Returns
    -------
    Dataset
        Questions and judgements.

    Raises
    ------
    InputError
        If a file is missing or a line of it is not what it should be; with file and line.
    """
    folder = Path(folder)
    judgements = folder / "qrels" / f"{split}.tsv"
    for path in (folder / "corpus.jsonl", folder / "queries.jsonl", judgements):
        if not path.is_file():
            raise InputError(f"{path} is missing; a BEIR folder has corpus.jsonl, queries.jsonl and qrels/{split}.tsv")
    return read_dataset(folder / "queries.jsonl", judgements, limit=limit)


def read_dataset(queries: str | Path, qrels: str | Path, *, limit: int | None = None) -> Dataset:
    """Read questions and judgements from two files.

    Parameters
    ----------
    queries
        JSON lines with ``_id`` and ``text``.
    qrels
        Tab-separated question id, passage id and relevance, a whole number; a header in the first line is allowed.
    limit
        Take only the first so many questions, in the order of the judgements.

    Returns
    -------
    Dataset
        Questions and judgements; its folder is that of `queries`.

    Raises
    ------
    InputError
        If a file is missing or a line of it is not what it should be; with file and line.
    """
    queries, qrels = Path(queries), Path(qrels)
    relevance: dict[str, dict[str, int]] = {}
    for question, passage, value in _judgements(qrels):
        if value > 0:
            relevance.setdefault(question, {})[passage] = value
    texts = {}
    for number, record in read_json_lines(queries):
        if "_id" not in record or not isinstance(record.get("text"), str):
            raise InputError(f"{queries}, line {number}: an object with _id and text is wanted")
        texts[str(record["_id"])] = record["text"]
    known = [question for question in relevance if question in texts][:limit]
    if not known:
        raise InputError(f"{qrels} judges no question of {queries}")
    return Dataset(queries.parent, {q: texts[q] for q in known}, {q: relevance[q] for q in known})


def _judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    """Question id, passage id and relevance of each line."""
    try:
        file = path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    with file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        for row in rows:
            try:
                question, passage, value = row[0], row[1], int(row[2])
            except (IndexError, ValueError) as error:
                if rows.line_num == 1:
                    continue  # BEIR's judgements begin with a header
                raise InputError(
                    f"{path}, line {rows.line_num}: query-id, corpus-id and a whole number are wanted, not {row}"
                ) from error
            yield question, passage, value
