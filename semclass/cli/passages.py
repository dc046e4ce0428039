"""Reading the passages of files for an index: options, and the report on skipped files and repeated text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.output import echo
from semclass.cli.progress import Progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.core.types import FloatArray
    from semclass.documents.sources import Skipped
    from semclass.index.passage_encoder import PassageEncoder

LISTED_PARAGRAPHS = 10
"""Paragraphs of boilerplate that are listed, at most; a JSON line holds all."""

LISTED_CHARACTERS = 100
"""Characters of such a paragraph that are shown."""


_chunking_options = options.together(
    click.option(
        "--cut",
        "by",
        type=click.Choice(["paragraph", "window", "section", "meaning"]),
        help="How to split documents into passages. Default: by paragraph; JSON lines and rows are not split.",
    ),
    click.option(
        "--size",
        type=options.positive,
        help="Maximum words per passage. Default: 100 with --cut window or meaning, otherwise no limit.",
    ),
    click.option(
        "--overlap", type=click.IntRange(0), default=0, help="Number of words that consecutive passages share."
    ),
    options.columns,
    options.encoding,
    click.option("--strict", is_flag=True, help="Stop at the first file that cannot be read. Default: skip it."),
    click.option("--partial", is_flag=True, help="Continue even if most files in the folder cannot be read."),
    click.option(
        "--keep-boilerplate",
        is_flag=True,
        help="Keep text that most files of a folder repeat, such as footers. Default: leave it out (semclass-documents).",
    ),
)


def chunking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :func:`passages_from` to a command, which takes the `chunking`, `strict` and `partial`."""

    @wraps(command)
    def with_chunking(*args: Any, **keywords: Any) -> Any:
        names = [field.name for field in fields(semclass.Chunking)]
        chunking = semclass.Chunking(**{name: keywords.pop(name) for name in names if name in keywords})
        return command(*args, chunking=chunking, **keywords)

    return _chunking_options(with_chunking)


@dataclass
class ReadReport:
    """Files that were skipped or read in part, and the boilerplate that was left out."""

    skipped: list[Skipped] = field(default_factory=list)
    boilerplate: list[Any] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the fields of a JSON line."""
        found: dict[str, Any] = {}
        for one in self.skipped:
            kind = "cut" if one.cut else "skipped"
            found.setdefault(kind, []).append({"document": one.document, "reason": one.reason})
        if self.boilerplate:
            found["boilerplate"] = [{"text": one.text, "files": one.files} for one in _most_frequent(self.boilerplate)]
        return found


def passages_from(
    path: Path,
    chunking: semclass.Chunking,
    report: ReadReport,
    passage_encoder: Callable[[], PassageEncoder],
    step: Progress,
    *,
    strict: bool,
    partial: bool,
    before: Sequence[str] = (),
) -> Iterator[semclass.Passage]:
    """Read the passages of a file or folder, and note what is left out.

    Files that will be skipped are listed first; it is an error if they are most of a folder, unless `partial`. The encoder
    is loaded only to cut by meaning. `before` holds the keys of the boilerplate that an earlier run left out.
    """
    from semclass.documents.readers import iter_passages
    from semclass.documents.sources import find_files, listed
    from semclass.encoders.onnx_encoder import for_passages

    def vectors(texts: Sequence[str]) -> FloatArray:
        return for_passages(passage_encoder().encoder).encode(texts, views=("pooled",)).rows("pooled")

    def skip(document: Skipped) -> None:
        report.skipped.append(document)
        check_lost(source.lost + sum(not file.cut for file in report.skipped), " so far")

    def check_lost(lost: int, when: str) -> None:
        if not partial and 2 * lost > source.files:
            raise InputError(
                f"{lost} of {counted(source.files, 'file')} in {path} cannot be read{when}; fix the files, or give "
                "--partial to index the others"
            )

    source = find_files(path)
    if source.documents and path.is_dir():
        if source.unsupported:
            echo(f"skipped: {' '.join(listed(source.unsupported).split())}", err=True)
        check_lost(source.lost, "")
    if step.terminal and chunking.by is None:
        step.total = source.count_records()
    on_skip = None if strict else skip
    return iter_passages(
        source,
        replace(chunking, vectors=vectors),
        skipped=on_skip,
        progress=step.file_read,
        boilerplate=report.boilerplate.append,
        boilerplate_before=before,
    )


@contextmanager
def reporting() -> Iterator[ReadReport]:
    """Yield a report, and list what it holds at the end, whatever happened."""
    report = ReadReport()
    try:
        yield report
    finally:
        _list("skipped {} that cannot be read", [one for one in report.skipped if not one.cut])
        _list("truncated {} that can be read only in part", [one for one in report.skipped if one.cut])
        _list_boilerplate(report.boilerplate)


def _most_frequent(boilerplate: Sequence[Any]) -> list[Any]:
    return sorted(boilerplate, key=lambda one: (-one.files, one.text))


def _list_boilerplate(boilerplate: Sequence[Any]) -> None:
    if boilerplate:
        repeated = counted(len(boilerplate), "paragraph")
        echo(f"left out {repeated} that most files of a folder repeat; --keep-boilerplate keeps all", err=True)
    for one in _most_frequent(boilerplate)[:LISTED_PARAGRAPHS]:
        text = one.text[:LISTED_CHARACTERS] + " ..." * (len(one.text) > LISTED_CHARACTERS)
        echo(f"  in {counted(one.files, 'file')}: {text}", err=True)
    if len(boilerplate) > LISTED_PARAGRAPHS:
        echo(f"  and {len(boilerplate) - LISTED_PARAGRAPHS} more, which --json lists", err=True)


def _list(head: str, documents: Sequence[Skipped]) -> None:
    files: dict[str, list[str]] = {}
    for one in documents:
        files.setdefault(one.reason, []).append(one.document)
    if files:
        echo(head.format(counted(len(documents), "file")), err=True)
    for reason, names in files.items():
        what = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        line = reason if names[0] in reason else f"{what}: {reason}"
        echo(f"  {' '.join(line.split())}", err=True)  # a name may hold ends of lines


def settings(chunking: semclass.Chunking, report: ReadReport) -> dict[str, Any]:
    """Return what an index stores for the next sync: the chunking, and the keys of the boilerplate."""
    keys = sorted(paragraph.key for paragraph in report.boilerplate)
    return {**chunking.settings(), **({"boilerplate": keys} if keys else {})}


def loading(
    folder: Path, heads: Mapping[str, str], *, models: Path | None, encoder: str | None
) -> Callable[[], PassageEncoder]:
    """What loads the models that change an index; heads that are named are compared with those of the index at once."""
    from semclass.index import manifest
    from semclass.index.labels import check_heads

    @cache
    def load() -> PassageEncoder:
        return semclass.Models.load(models, encoder=encoder, heads=heads, threads=1).passage_encoder

    if heads and (there := manifest.read_or_none(folder)) is not None:
        check_heads(folder, there.header["heads"], load().head_fingerprints)
    return load
