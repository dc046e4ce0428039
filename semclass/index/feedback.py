"""Judgements of people about the hits of an index: which passages are right for a question, and which are wrong.

They stand beside the index, in a file of JSON lines to which lines are only ever added. The manifest does not name the
file, so changes of the index leave it as it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path

from semclass.core import artifacts
from semclass.core.checks import check_text, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError
from semclass.index.passage_index import PassageIndex

FEEDBACK = "feedback.jsonl"

MOST = 64 << 20
"""Most bytes of the file: whoever reaches a service may add to it."""


@dataclass(frozen=True)
class Judgement:
    """A judgement about one passage.

    Attributes
    ----------
    question
        The question as it was asked.
    passage
        Id of the passage.
    right
        Whether the passage answers the question. None withdraws earlier judgements of the same pair.
    when
        Date and time of the judgement, UTC, in ISO 8601.
    """

    question: str
    passage: str
    right: bool | None
    when: str


def add_judgement(index: PassageIndex, question: str, passage: str, right: bool | None) -> Judgement:
    """Store a judgement beside an index. Processes and threads may do so at the same time.

    Parameters
    ----------
    index
        An index that was loaded from a folder.
    question
        The question.
    passage
        Id of a passage of the index.
    right
        Whether the passage answers the question. None withdraws the judgement of this pair, also of a passage that the
        index no longer has.

    Raises
    ------
    InputError, InputTypeError
        If the index is in memory only, has no such passage, or an argument is not allowed.
    ArtifactError
        If the file cannot be written, or is full.
    """
    made = Judgement(
        " ".join(check_text(question, "question").split()),
        check_text(passage, "passage"),
        right,
        datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    if index.source is None:
        raise InputError("this index is in memory only; save it, and load it from its folder to judge its hits")
    if not (right is None or isinstance(right, bool)):
        raise InputTypeError(f"right must be True, False or None, not {short(right)}")
    if right is not None and index.find([passage])[0] < 0:
        raise InputError(f"passage {short(passage)} is not in the index; give the id of a hit")
    _append(index.source.folder / FEEDBACK, artifacts.dump_json_lines([asdict(made)]))
    return made


def read_judgements(folder: str | Path) -> list[Judgement]:
    """Read the judgements beside an index, the oldest first: of each question and passage the last one.

    Withdrawn judgements are left out. There may be none.

    Raises
    ------
    ArtifactError
        If a line is not a judgement. An incomplete last line is left out.
    """
    path = Path(folder) / FEEDBACK
    if not path.exists():
        return []
    remedy = "correct or delete the line"
    data = artifacts.read_file(path, None, remedy)
    found: dict[tuple[str, str], Judgement] = {}
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        if not line.strip():
            continue
        record = artifacts.parse_json(line, Path(f"{path}, line {number}"), remedy)
        question, passage, right, when = (record.get(field.name) for field in fields(Judgement))
        valid = isinstance(when, str) and (right is None or isinstance(right, bool))
        if not (valid and isinstance(question, str) and isinstance(passage, str)):
            raise ArtifactError(f"{path}, line {number} is not a judgement: {short(line)}; {remedy}")
        found.pop((question, passage), None)
        found[question, passage] = Judgement(question, passage, right, str(when))
    return [judgement for judgement in found.values() if judgement.right is not None]


def by_question(judgements: Sequence[Judgement]) -> dict[str, dict[str, bool]]:
    """Return what is right, by question and by id of the passage, in the order of the judgements."""
    found: dict[str, dict[str, bool]] = {}
    for judgement in judgements:
        found.setdefault(judgement.question, {})[judgement.passage] = bool(judgement.right)
    return found


def _append(path: Path, line: bytes) -> None:
    """Add a line in one write, which no other writer can divide; what a crash left of a line is ended before."""
    try:
        with path.open("ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size + len(line) > MOST:
                raise ArtifactError(f"{path} is full ({MOST >> 20} MB); export its judgements, and remove it")
            if size:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            os.fsync(file.fileno())
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be written: {error.strerror or error}; make the folder of the index writable"
        ) from error
