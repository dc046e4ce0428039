"""Reads judgements of people: which passages answer a question, and which do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

import numpy as np

from semclass.core.errors import InputError
from semclass.documents.json_lines import read_json_lines
from semclass.evaluation.dataset import Dataset
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import READ_PASSAGES

Judgements: TypeAlias = dict[str, dict[str, bool]]
"""By question, and by the id of a passage, whether the passage answers."""

_DIGEST = re.compile(r"#[0-9a-f]{10}(?:-[0-9]{1,9})?$")


def read_judgements(path: str | Path) -> Judgements:
    """Read JSON lines such as ``{"question": "Who?", "passage": "a.md#3", "right": true}``.

    Returns by question, and by the id of a passage, whether the passage answers. The last judgement of a pair counts. A
    line with ``"right": null`` removes the judgement of the pair.

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
    """Name passages whose file was renamed by their new ids: what follows the file's name is a digest of the content."""
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


def judged_dataset(path: str | Path, *, limit: int | None = None, index: PassageIndex | None = None) -> Dataset:
    """Read the questions with a passage that was judged right, the first `limit`. The text of a question is its id.

    With an index, judgements of passages whose file was renamed count for their new ids.
    """
    judged = read_judgements(path)
    judged = judged if index is None else followed(judged, index)
    relevance = {text: {name: 1 for name, right in passages.items() if right} for text, passages in judged.items()}
    relevance = dict([(text, passages) for text, passages in relevance.items() if passages][:limit])
    if not relevance:
        raise InputError(f'{path} judges no passage right; add lines with "right": true, or give --queries and --qrels')
    return Dataset(Path(path).parent, {text: text for text in relevance}, relevance)
