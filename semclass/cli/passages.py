"""Reading the passages of files for an index: options, and the report on skipped files and repeated text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import echo
from semclass.cli.progress import Progress, progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.documents.sources import Skipped
    from semclass.index.passage_encoder import PassageEncoder

LISTED = 10  # files of a kind, and paragraphs of boilerplate, that are listed, at most; a JSON line holds all

KINDS = {
    "skipped": "skipped {} that cannot be read",
    "cut": "truncated {} that can be read only in part",
    "empty": "skipped {} without text",
    "copy": "left out {} with the text of another one; --keep-copies keeps all",
}
"""Kinds of :class:`semclass.documents.sources.Skipped` files, and how a list of them begins."""

_options = options.together(
    click.option(
        "--cut",
        "by",
        type=click.Choice(["paragraph", "window", "section"]),
        help="How to split documents into passages. Default: by paragraph; JSON lines and rows are not split.",
    ),
    click.option(
        "--size",
        type=options.positive,
        help="Maximum words per passage. Default: 100 with --cut window, otherwise no limit.",
    ),
    click.option(
        "--overlap", type=click.IntRange(0), default=0, help="Number of words that consecutive passages share."
    ),
    options.columns,
    options.encoding,
    click.option("--strict", is_flag=True, help="Stop at the first file that cannot be read in full. Default: go on."),
    click.option("--partial", is_flag=True, help="Continue even if most files in the folder cannot be read."),
    click.option(
        "--keep-boilerplate",
        is_flag=True,
        help="Keep text that most files of a folder repeat, such as footers. Default: leave it out (semclass-documents).",
    ),
    click.option(
        "--keep-copies", is_flag=True, help="Keep files with the text of another one. Default: leave them out."
    ),
    options.heads,
    options.json_output,
    options.models,
    options.encoder,
    options.threads,
)


@dataclass
class Reading:
    """The options of a command that reads passages into an index, and what it left out."""

    passage_encoder: Callable[[], PassageEncoder]
    models: Callable[[], semclass.Models]
    heads: dict[str, str]
    threads: int
    chunking: semclass.Chunking
    strict: bool
    partial: bool
    skipped: list[Skipped] = field(default_factory=list)
    boilerplate: list[Any] = field(default_factory=list)

    def check_heads(self, folder: Path) -> None:
        """Refuse heads that are not those of an index."""
        from semclass.index.folder import manifest_or_none
        from semclass.index.passage_encoder import check_heads

        if self.heads and (stored := manifest_or_none(folder)) is not None:
            check_heads(folder, stored.header.heads, self.passage_encoder().head_fingerprints)

    @contextmanager
    def passages(
        self, path: Path, label: str, before: Sequence[str] = ()
    ) -> Iterator[tuple[Iterator[semclass.Passage], Progress]]:
        """Read the passages of a file or folder with progress, and list at the end what was left out, whatever happened.

        It is an error if most files of a folder cannot be read, unless `partial`. `before` holds the keys of boilerplate
        that an earlier run left out.
        """
        try:
            with progress(label, None) as step:
                yield self._read(path, step, before), step
        finally:
            for kind, head in KINDS.items():
                files = [file for file in self.skipped if file.kind == kind]
                _list(head.format(counted(len(files), "file")), list(_reasons(files)))
            repeated = counted(len(self.boilerplate), "paragraph")
            _list(
                f"left out {repeated} that most files of a folder repeat; --keep-boilerplate keeps all",
                [f"in {counted(p.files, 'file')}: {options.shorten(p.text)}" for p in self._by_frequency()],
            )

    def _read(self, path: Path, step: Progress, before: Sequence[str]) -> Iterator[semclass.Passage]:
        from semclass.documents.cutting import named_by_content
        from semclass.documents.readers import iter_passages
        from semclass.documents.sources import find_files, listed

        def skip(document: Skipped) -> None:
            if self.strict and document.kind != "copy":
                raise InputError(document.reason)
            self.skipped.append(document)
            check_lost(source.lost + sum(file.kind == "skipped" for file in self.skipped), " so far")

        def check_lost(lost: int, when: str) -> None:
            if not self.partial and 2 * lost > source.files:
                raise InputError(
                    f"{lost} of {counted(source.files, 'file')} in {path} cannot be read{when}; fix the files, or give "
                    "--partial to index the others"
                )

        source = find_files(path)
        if source.documents and path.is_dir():
            if source.unsupported:
                echo(f"skipped: {' '.join(listed(source.unsupported).split())}", err=True)
            check_lost(source.lost, "")
        if step.bar is not None and self.chunking.by is None:
            step.total = source.count_records()
        passages = iter_passages(
            source,
            self.chunking,
            skipped=skip,
            progress=step.file_read,
            boilerplate=self.boilerplate.append,
            boilerplate_before=before,
        )
        return named_by_content(passages) if path.is_dir() else passages

    def settings(self) -> dict[str, Any]:
        """Return what an index stores for the next sync: the chunking, and the keys of the boilerplate."""
        keys = sorted(paragraph.key for paragraph in self.boilerplate)
        return {**self.chunking.settings(), **({"boilerplate": keys} if keys else {})}

    def record(self) -> dict[str, Any]:
        """Return the fields of a JSON line on what was left out."""
        record: dict[str, Any] = {}
        for file in self.skipped:
            record.setdefault(file.kind, []).append({"document": file.document, "reason": file.reason})
        if self.boilerplate:
            record["boilerplate"] = [{"text": p.text, "files": p.files} for p in self._by_frequency()]
        return record

    def _by_frequency(self) -> list[Any]:
        return sorted(self.boilerplate, key=lambda paragraph: (-paragraph.files, paragraph.text))


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Reading` to a command, which takes it as `reading`."""

    @wraps(command)
    def with_reading(
        *args: Any, heads: Sequence[str], models: Path | None, encoder: str | None, threads: int | None, **keywords: Any
    ) -> Any:
        from semclass.core.tools import available_threads
        from semclass.index.passage_encoder import PassageEncoder

        names = {field.name for field in fields(semclass.Chunking)} & keywords.keys()
        chunking = semclass.Chunking(**{name: keywords.pop(name) for name in names})
        paths = options.read_heads(heads)
        # a thread of its own for each stretch of passages makes better use of processors than several for each text
        given: Any = {"encoder": encoder, "heads": paths, "threads": 1}
        load = cache(lambda: PassageEncoder.load(models, **given)), cache(lambda: semclass.Models.load(models, **given))
        strict, partial = keywords.pop("strict"), keywords.pop("partial")
        reading = Reading(*load, paths, threads or available_threads(), chunking, strict, partial)
        return command(*args, reading=reading, **keywords)

    return _options(with_reading)


def _reasons(files: Sequence[Skipped]) -> Iterator[str]:
    """Name the files that were left out for each reason, the first three."""
    names: dict[str, list[str]] = {}
    for file in files:
        names.setdefault(file.reason, []).append(file.document)
    for reason, named in names.items():
        what = ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        yield reason if named[0] in reason else f"{what}: {reason}"


def _list(head: str, lines: Sequence[str]) -> None:
    for line in [head, *lines[:LISTED]] if lines else ():
        echo(f"{'' if line is head else '  '}{' '.join(line.split())}", err=True)  # a name may hold ends of lines
    if len(lines) > LISTED:
        echo(f"  and {len(lines) - LISTED} more, which --json lists", err=True)
