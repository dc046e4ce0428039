"""Reading the passages of files for an index: the options of it, and what is said of files that are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import COLUMNS
from semclass.cli.output import echo
from semclass.cli.progress import Progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.core.types import FloatArray
    from semclass.documents.boilerplate import Boilerplate
    from semclass.documents.sources import Skipped
    from semclass.index.passage_encoder import PassageEncoder

LISTED = 10
"""Paragraphs of boilerplate that are listed, at most; a JSON line holds all."""

SHOWN = 100
"""Characters of such a paragraph that are shown."""


cutting_options = options.together(
    click.option(
        "--cut",
        "by",
        type=click.Choice(["paragraph", "sentence", "window", "section", "meaning"]),
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
        help="Keep text that most files of a folder repeat, such as footers. Default: leave it out and list it.",
    ),
)
"""Options of :func:`passages_from`."""


@dataclass
class Told:
    """What a command says at its end of the files that it read."""

    skipped: list[Skipped] = field(default_factory=list)
    boilerplate: list[Boilerplate] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """What stands for the boilerplate."""
        return [one.key for one in self.boilerplate]

    def record(self) -> dict[str, Any]:
        """What a JSON line says of it."""
        found: dict[str, Any] = {}
        for one in self.skipped:
            kind = "cut" if one.cut else "skipped"
            found.setdefault(kind, []).append({"document": one.document, "reason": one.reason})
        if self.boilerplate:
            found["boilerplate"] = [{"text": one.text, "files": one.files} for one in _most_frequent(self.boilerplate)]
        return found


def passages_from(
    path: Path,
    told: Told,
    passage_encoder: Callable[[], PassageEncoder],
    step: Progress,
    *,
    strict: bool,
    partial: bool,
    before: Sequence[str] = (),
    **cutting: Any,
) -> Iterator[semclass.Passage]:
    """Read the passages of a file or folder; note what is left out, and tell the progress what was read, of how much.

    What will be skipped is told first; it is an error if that is most of a folder, unless `partial`. The encoder is needed
    where passages are cut by meaning. `before` holds the keys of the boilerplate that is left out already.
    """
    from semclass.documents.readers import iter_passages
    from semclass.documents.sources import find_files
    from semclass.encoders.onnx_encoder import for_passages

    def vectors(texts: Sequence[str]) -> FloatArray:
        return for_passages(passage_encoder().encoder).encode(texts, views=("pooled",)).rows("pooled")

    def skip(document: Skipped) -> None:
        told.skipped.append(document)
        check_lost(source.lost - sum(source.lacking.values()) + sum(not one.cut for one in told.skipped), " so far")

    def check_lost(lost: int, when: str) -> None:
        if not partial and 2 * lost > source.files:
            raise InputError(
                f"{lost} of {counted(source.files, 'file')} in {path} cannot be read{when}; fix the files, or give "
                "--partial to index the others"
            )

    source = find_files(path)
    if source.documents and path.is_dir():
        for note in source.notes():
            echo(f"skipped: {' '.join(note.split())}", err=True)
        check_lost(source.lost, "")
    if step.terminal and cutting["by"] is None:
        step.total = source.count_records()
    on_skip = None if strict else skip
    passages = iter_passages(
        source,
        **cutting,
        vectors=vectors,
        skipped=on_skip,
        progress=step.file_read,
        boilerplate=told.boilerplate.append,
        boilerplate_before=before,
    )
    return step.reading(passages)


@contextmanager
def telling() -> Iterator[Told]:
    """Give what notes files that cannot be read whole, and boilerplate; at the end they are listed, whatever happened."""
    told = Told()
    try:
        yield told
    finally:
        _list("skipped {} that cannot be read", [one for one in told.skipped if not one.cut])
        _list("truncated {} that can be read only in part", [one for one in told.skipped if one.cut])
        _list_boilerplate(told.boilerplate)


def _most_frequent(boilerplate: Sequence[Boilerplate]) -> list[Boilerplate]:
    return sorted(boilerplate, key=lambda one: (-one.files, one.text))


def _list_boilerplate(boilerplate: Sequence[Boilerplate]) -> None:
    if boilerplate:
        repeated = counted(len(boilerplate), "paragraph")
        echo(f"left out {repeated} that most files of a folder repeat; --keep-boilerplate keeps all", err=True)
    for one in _most_frequent(boilerplate)[:LISTED]:
        echo(f"  in {counted(one.files, 'file')}: {one.text[:SHOWN]}{' ...' * (len(one.text) > SHOWN)}", err=True)
    if len(boilerplate) > LISTED:
        echo(f"  and {len(boilerplate) - LISTED} more, which --json lists", err=True)


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


def kept(cutting: Mapping[str, Any], boilerplate: Sequence[str] = ()) -> dict[str, Any]:
    """How documents are cut, as an index keeps it: columns only if they are named, and what concerns boilerplate if any."""
    found = {name: cutting[name] for name in ("by", "size", "overlap", "encoding")}
    found |= {name: cutting[name] for name in COLUMNS if cutting.get(name) is not None}
    found |= {"keep_boilerplate": True} if cutting.get("keep_boilerplate") else {}
    return found | ({"boilerplate": sorted(boilerplate)} if boilerplate else {})


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
