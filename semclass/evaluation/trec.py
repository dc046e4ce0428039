"""Rankings as TREC run files, which every retrieval system can write and every evaluation tool can read.

A line is ``question Q0 passage rank score tag``, separated by white space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from semclass.core.artifacts import write_atomic
from semclass.core.errors import InputError
from semclass.evaluation.dataset import Dataset

SUFFIX = ".trec"
"""Ending of the run files that semclass writes."""


def write_run(path: str | Path, questions: Iterable[str], ranking: Sequence[Sequence[str]], tag: str) -> None:
    """Write a run file.

    Evaluation tools sort by score and ignore the rank, so scores are made from the places: the best of a question's n
    passages has n, the last 1. A method's own scores may tie, or differ in meaning between what was re-ranked and what
    was not.

    Parameters
    ----------
    path
        The file; an older one is replaced.
    questions
        n ids.
    ranking
        For each question, passage ids, best first.
    tag
        Name of the method.

    Raises
    ------
    InputError
        If an id or the tag is empty or holds white space, which the format cannot express.
    ArtifactError
        If the file cannot be written.
    """
    ids = list(questions)
    for name in (tag, *ids, *(passage for passages in ranking for passage in passages)):
        if len(name.split()) != 1 or name != name.strip():
            raise InputError(f"the id {name!r} is empty or holds white space, which a TREC run file cannot express")
    lines = [
        f"{question} Q0 {passage} {place} {len(passages) + 1 - place} {tag}\n"
        for question, passages in zip(ids, ranking, strict=True)
        for place, passage in enumerate(passages, 1)
    ]
    write_atomic(Path(path), "".join(lines).encode())


def read_run(path: str | Path, dataset: Dataset) -> list[list[str]]:
    """Read a run file that any system wrote.

    Parameters
    ----------
    path
        The file.
    dataset
        Its questions are wanted; others in the file are passed over.

    Returns
    -------
    list of list of str
        For each question of the data set, passage ids by falling score, then rising rank, then id. Empty for a question
        that the file does not hold.

    Raises
    ------
    InputError
        If the file cannot be read, a line is not of the format, a passage comes twice for a question, or no question of the
        data set is in it; with file and line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found: dict[str, dict[str, tuple[float, int, str]]] = {question: {} for question in dataset.questions}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            question, _, passage, rank, score, _ = line.split()
            key = (-float(score), int(rank), passage)
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}: a line of a run is `question Q0 passage rank score tag`, not {line[:80]!r}"
            ) from error
        if key[0] != key[0]:
            raise InputError(f"{path}, line {number}: the score is not a number")
        if question not in found:
            continue
        if passage in found[question]:
            raise InputError(f"{path}, line {number}: passage {passage!r} comes twice for question {question!r}")
        found[question][passage] = key
    if not any(found.values()):
        raise InputError(f"{path} ranks passages for no question of {dataset.folder}; are the question ids the same?")
    return [sorted(passages, key=lambda name: passages[name]) for passages in found.values()]
