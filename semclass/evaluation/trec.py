"""Reads and writes rankings as TREC run files, with a line ``question Q0 passage rank score tag`` for each passage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from pathlib import Path

from semclass.core.artifacts import write_atomic
from semclass.core.errors import InputError
from semclass.documents.decoding import read_lines
from semclass.evaluation.dataset import Dataset

SUFFIX = ".trec"
"""Ending of the run files that semclass writes."""


def write_run(path: str | Path, questions: Iterable[str], ranking: Sequence[Sequence[str]], tag: str) -> None:
    """Write a run file from each question's passages, best first. An older file is replaced.

    Evaluation tools sort by score and ignore the rank, and a method's own scores may tie. So the file holds scores made
    from the places: the best of a question's n passages has the score n, and the last has 1.
    """
    lines = []
    for question, passages in zip(questions, ranking, strict=True):
        for place, passage in enumerate(passages, 1):
            for name in (question, passage, tag):
                if name.split() != [name]:
                    raise InputError(f"the id {name!r} is empty or has white space, which a run file does not allow")
            lines.append(f"{question} Q0 {passage} {place} {len(passages) + 1 - place} {tag}\n")
    write_atomic(Path(path), "".join(lines).encode())


def read_run(path: str | Path, dataset: Dataset) -> list[list[str]]:
    """Read a run file of any system.

    The passages of each question are sorted by falling score, then rising rank, then id.

    Questions that the data set does not hold are ignored. A question that the file does not hold has no passages.
    """
    path = Path(path)
    found: dict[str, dict[str, tuple[float, int, str]]] = {question: {} for question in dataset.questions}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            question, _, passage, rank, score, _ = line.split()
            key = (-float(score), int(rank), passage)
            if isnan(key[0]):
                raise ValueError
        except ValueError as error:
            raise InputError(
                f"{path}, line {number} must be `question Q0 passage rank score tag`, not {line[:80]!r}"
            ) from error
        if passage in found.get(question, ()):
            raise InputError(f"{path}, line {number}: passage {passage!r} occurs twice for question {question!r}")
        if question in found:
            found[question][passage] = key
    if not any(found.values()):
        raise InputError(f"{path} ranks no passages for questions of {dataset.folder}; compare the question ids")
    return [sorted(passages, key=lambda name: passages[name]) for passages in found.values()]
