"""Reads judgements of people: which passages answer a question, and which do not."""

from __future__ import annotations

from pathlib import Path

from semclass.core.errors import InputError
from semclass.documents.json_lines import read_json_lines
from semclass.evaluation.dataset import Dataset


def read_judgements(path: str | Path) -> dict[str, dict[str, bool]]:
    """Read JSON lines such as ``{"question": "Who?", "passage": "a.md#3", "right": true}``.

    Returns by question, and by the id of a passage, whether the passage answers. The last judgement of a pair counts. A
    line with ``"right": null`` removes the judgement of the pair.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is malformed. The message names file and line.
    """
    judged: dict[str, dict[str, bool]] = {}
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


def judged_dataset(path: str | Path, *, limit: int | None = None) -> Dataset:
    """Read the questions with a passage that was judged right, the first `limit`. The text of a question is its id."""
    judged = read_judgements(path)
    relevance = {text: {name: 1 for name, right in passages.items() if right} for text, passages in judged.items()}
    relevance = dict([(text, passages) for text, passages in relevance.items() if passages][:limit])
    if not relevance:
        raise InputError(f'{path} judges no passage right; add lines with "right": true, or give --queries and --qrels')
    return Dataset(Path(path).parent, {text: text for text in relevance}, relevance)
