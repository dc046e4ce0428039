"""The commands that build, change and check an index. They read passages, and list the files that they left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from dataclasses import replace as replace_fields
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import Progress, echo, progress, show, show_weights
from semclass.core import plugins
from semclass.core.checks import counted
from semclass.core.errors import InputError

if TYPE_CHECKING:
    from semclass.documents.readers import Skipped
    from semclass.index.passage_encoder import PassageEncoder

LISTED = 10  # files of a kind, and paragraphs of boilerplate, that are listed, at most; a JSON line holds all

KINDS = {
    "skipped": "skipped {} that cannot be read",
    "cut": "truncated {} that can be read only in part",
    "empty": "skipped {} without text",
    "copy": "left out {} with the same text as another; --keep-copies keeps all",
}
"""First words of the list of each kind of :class:`semclass.documents.readers.Skipped` files."""

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
        "--keep-copies", is_flag=True, help="Keep files with the same text as another file. Default: leave them out."
    ),
    options.heads,
    options.json_output,
    options.models,
    options.encoder,
    options.threads,
)


@dataclass
class Reading:
    """The options of a command that reads passages into an index, and the files that it left out."""

    passage_encoder: Callable[[], PassageEncoder]
    heads: dict[str, str]
    threads: int
    chunking: semclass.Chunking
    strict: bool
    partial: bool
    skipped: list[Skipped] = field(default_factory=list)
    boilerplate: list[Any] = field(default_factory=list)

    def check_heads(self, folder: Path) -> None:
        """Refuse heads that differ from the heads of an index."""
        from semclass.index.folder import manifest_or_none
        from semclass.index.passage_encoder import check_heads

        if self.heads and (stored := manifest_or_none(folder)) is not None:
            check_heads(folder, stored.header.heads, self.passage_encoder().head_fingerprints)

    @contextmanager
    def passages(
        self, path: Path, label: str, before: Sequence[str] = ()
    ) -> Iterator[tuple[Iterator[semclass.Passage], Progress]]:
        """Read passages of a file or folder with progress. At the end, even after an error, list files that were left out.

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
        from semclass.documents.chunking import named_by_content
        from semclass.documents.readers import find_files, iter_passages, listed

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
        """Return the settings that an index stores for the next sync: the chunking, and the keys of the boilerplate."""
        keys = sorted(paragraph.key for paragraph in self.boilerplate)
        return {**self.chunking.settings(), **({"boilerplate": keys} if keys else {})}

    def record(self) -> dict[str, Any]:
        """Return the fields of a JSON line that list the files that were left out."""
        record: dict[str, Any] = {}
        for file in self.skipped:
            record.setdefault(file.kind, []).append({"document": file.document, "reason": file.reason})
        if self.boilerplate:
            record["boilerplate"] = [{"text": p.text, "files": p.files} for p in self._by_frequency()]
        return record

    def _by_frequency(self) -> list[Any]:
        return sorted(self.boilerplate, key=lambda paragraph: (-paragraph.files, paragraph.text))


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Reading` to a command, which gets it as the argument `reading`."""

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
        load = cache(lambda: PassageEncoder.load(models, encoder=encoder, heads=paths, threads=1))
        strict, partial = keywords.pop("strict"), keywords.pop("partial")
        reading = Reading(load, paths, threads or available_threads(), chunking, strict, partial)
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
        echo(f"  and {len(lines) - LISTED} more; --json lists all", err=True)


_folder = click.argument("folder", type=options.any_path, metavar="DIR")
_source = click.argument("source", type=options.InputPath())


@click.group()
def index() -> None:
    """Build, change, check and inspect an index."""


@index.command()
@_source
@click.option("--out", type=options.any_path, required=True, help="Folder to write the index to.")
@click.option("--replace", is_flag=True, help="Replace an existing index when the new one is complete.")
@click.option(
    "--small", is_flag=True, help="Store no vectors of words. Each search then encodes the texts that it re-ranks."
)
@click.option("--language", metavar="NAME", help="Language of the texts, such as german. [default: detected]")
@click.option(
    "--mark-duplicates",
    is_flag=True,
    help="Mark near-duplicates: their field `duplicate_of` holds the id of the earlier passage (semclass-documents).",
)
@reading_options
def build(
    source: Path,
    out: Path,
    *,
    replace: bool,
    small: bool,
    language: str | None,
    mark_duplicates: bool,
    as_json: bool,
    reading: Reading,
) -> None:
    """Build an index from SOURCE.

    SOURCE is a document, a folder of documents, JSON lines (- for standard input), or a BEIR folder. In a list of records,
    such as a CSV file of tickets, each row is one passage, and its columns are metadata. To resume an interrupted build,
    run the same command again. An existing index is replaced only with --replace, and only when the new index is complete.
    """
    from semclass.index.folder import check_target, store
    from semclass.index.writer import build_index

    check_target(out, replace=replace)
    with reading.passages(source, "indexing") as (passages, step):
        built = build_index(
            out,
            _marked(passages) if mark_duplicates else passages,
            passage_encoder=reading.passage_encoder(),
            small=small,
            language=language,
            progress=step,
            workers=reading.threads,
            replace=replace,
            cutting=reading.chunking.settings() if source.is_dir() else None,
        )
        if reading.boilerplate:
            store(out, cutting=reading.settings())
    record = {"index": str(out), "passages": len(built), "encoder": built.encoder, "classes": list(built.classes)}
    classes = " ".join(built.classes) or "none"
    text = f"{counted(len(built), 'passage')} indexed in {out} (encoder {built.encoder[:12]}, classes {classes})"
    show({**record, **reading.record()}, text, as_json=as_json)


@index.command()
@_folder
@_source
@click.option("--update", is_flag=True, help="Replace passages whose ids are already in the index; add the others.")
@reading_options
def add(folder: Path, source: Path, *, update: bool, as_json: bool, reading: Reading) -> None:
    """Add passages from SOURCE to the index in DIR.

    SOURCE is read as in `index build`. If one passage is invalid, no passage is added.
    """
    reading.check_heads(folder)
    with reading.passages(source, "indexing") as (passages, step):
        report = semclass.change_index(
            folder,
            add=passages,
            existing="replace" if update else "refuse",
            passage_encoder=reading.passage_encoder,
            progress=step,
            workers=reading.threads,
        )
    counts = {"added": report.added, **({"changed": report.changed} if update else {})}
    _show_change(folder, report, counts, reading.record(), as_json=as_json)


def _marked(passages: Iterable[semclass.Passage]) -> Iterator[semclass.Passage]:
    """Mark near-duplicates of earlier passages, and tell at the end of the command how many there are."""
    mark, total, marked = plugins.find(plugins.STEPS, "duplicates"), 0, 0

    def tell() -> None:
        echo(f"{marked} of {counted(total, 'passage')} marked as near-duplicates", err=True)

    for passage in mark(passages):
        total += 1
        marked += "duplicate_of" in passage.metadata
        yield passage
    click.get_current_context().call_on_close(tell)


@index.command()
@_folder
@click.argument("source", type=options.any_path, metavar="FOLDER")
@click.option("--dry-run", is_flag=True, help="Show the planned changes without making them.")
@click.option("--yes", is_flag=True, help="Remove documents without asking, even if most of them are gone.")
@reading_options
def sync(folder: Path, source: Path, *, dry_run: bool, yes: bool, as_json: bool, reading: Reading) -> None:
    """Update the index in DIR to match the files in FOLDER. If there is no index, build one.

    Passages are added, changed and removed, but only new texts are encoded. A passage keeps its id while its text and
    headings stay the same, even if it moves within the document. Documents are split as in the previous run unless you give
    --cut, --size, --overlap, --encoding, --keep-boilerplate, --keep-copies or names of columns.
    """
    from semclass.index.folder import describe, manifest_or_none, store
    from semclass.index.writer import find_changes, sync_index

    if not source.is_dir():
        raise InputError(
            f"{source} is not a folder; name a folder of documents, or add single files with `semclass index add`"
        )
    reading.check_heads(folder)

    def check_removed(removed: int, total: int) -> None:
        if removed > 1 and 2 * removed > total:
            gone = f"{removed} of {total} documents of the index {folder} are not in {source}"
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise InputError(f"{gone}, so nothing was removed; name the right folder, or give --yes to remove them")
            click.confirm(f"{gone}. Remove them?", abort=True, err=True)

    there = manifest_or_none(folder)
    if there is not None and there.cutting is None:
        raise InputError(
            f"the index {folder} was not built from a folder of documents, so a sync would remove all its passages; name "
            "another folder for the index"
        )
    stored = {} if there is None else dict(there.cutting or {})
    before = stored.pop("boilerplate", [])
    same = there is not None and reading.chunking == semclass.Chunking()
    reading = replace_fields(reading, chunking=semclass.Chunking(**stored) if same else reading.chunking)
    settings_before = {**reading.settings(), **({"boilerplate": before} if before else {})}
    with reading.passages(source, "reading", before) as (passages, step):
        if dry_run:
            index = None if there is None else semclass.PassageIndex.load(folder, verify=False)
            changes = find_changes(index, passages)
        else:
            changes = sync_index(
                folder,
                passages,
                cutting=settings_before,
                passage_encoder=reading.passage_encoder,
                progress=step,
                workers=reading.threads,
                before_removing=None if yes else check_removed,
            )
            if reading.settings() != settings_before:
                store(folder, cutting=reading.settings())
    kinds = ("added", "changed", "removed")
    for change in changes if dry_run else ():
        counts = ", ".join(f"{count} {kind}" for kind in kinds if (count := getattr(change, kind)))
        show(vars(change), f"{change.kind:<8} {change.document} ({counts})", as_json=as_json)
    totals = {kind: sum(change.kind == kind for change in changes) for kind in kinds}
    record: dict[str, Any] = {"index": str(folder), "documents": totals, **reading.record()}
    text = f"documents: {', '.join(f'{count} {kind}' for kind, count in totals.items())}"
    if dry_run:
        show(record, f"{text}; nothing was changed", as_json=as_json)
        return
    now = describe(folder)
    record |= {"passages": now["passages"], "segments": len(now["segments"])}
    show(record, f"{text}: {counted(now['passages'], 'passage')} in {folder}", as_json=as_json)


@index.command()
@_folder
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--file", type=options.InputPath(), help="File with one id per line. Use - for standard input.")
@options.where
@click.option("--ignore-missing", is_flag=True, help="Ignore ids that the index does not contain.")
@options.json_output
def delete(
    folder: Path, ids: Sequence[str], file: Path | None, *, where: Sequence[str], ignore_missing: bool, as_json: bool
) -> None:
    """Remove passages from the index in DIR, by id or by filter."""
    from semclass.documents.decoding import read_lines
    from semclass.index.filters import read_terms

    if (bool(ids), file is not None, bool(where)).count(True) != 1:
        raise InputError("give exactly one of: ids as arguments, ids with --file F, or a filter with --where")
    given = list(ids) if file is None else [line for _, line in read_lines(file) if line.strip()]
    delete: Iterable[str] | Mapping[str, Any] = given
    if where:
        delete = read_terms(where, semclass.PassageIndex.load(folder, verify=False, mmap=True).fields)
    report = semclass.change_index(folder, delete=delete, missing="ignore" if ignore_missing else "refuse")
    _show_change(folder, report, {"removed": report.deleted}, {}, as_json=as_json)


@index.command()
@_folder
@options.json_output
def info(folder: Path, *, as_json: bool) -> None:
    """Show the contents of the index in DIR: number of passages, size, and tuned weights."""
    from semclass.index.folder import describe

    contents = describe(folder)
    total, tuned = sum(contents["bytes"].values()), contents["tuned"]
    each = f", {total / contents['passages']:.0f} bytes each" if contents["passages"] else ""
    classes = " ".join(contents["classes"]) or "none"
    lines = [
        f"{counted(contents['passages'], 'passage')}, {total / 1e6:.1f} MB{each}",
        f"{'small, ' * contents['small']}encoder {contents['encoder']}, classes {classes}",
    ]
    if heads := ", ".join(f"{name} ({mark})" for name, mark in contents["heads"].items()):
        lines.append(f"labelled by the heads {heads}")
    if len(contents["segments"]) > 1 or contents["removed"]:
        removed = counted(contents["removed"], "removed passage")
        segments = counted(len(contents["segments"]), "segment")
        lines.append(f"{segments}, {removed} still stored; remove them with `semclass index compact`")
    if contents["unfinished"]:
        size = f"an incomplete build takes {contents['unfinished'] / 1e6:.1f} MB more"
        lines.append(f"{size}; `semclass index build --replace` resumes it")
    if "method" in tuned:
        lines.append(f"default method: {tuned['method']}")
    lines.append(f"weights: {show_weights(tuned.get('weights', {})) or 'the defaults'}")
    if tuned.get("weights"):
        found_on = tuned.get("found_on", {})
        lines.append(f"tuned on {found_on.get('questions', '?')} questions, {found_on.get('date', 'date unknown')}")
    if "answerable" in tuned:
        lines.append(f"probably no answer below answerable {tuned['answerable']['from']:.2f}")
    show({"index": str(folder), **contents}, "\n".join(lines), as_json=as_json)


@index.command()
@_folder
@options.json_output
def verify(folder: Path, *, as_json: bool) -> None:
    """Check the index in DIR for damage: SHA-256 of every file, array shapes, ids and statistics.

    The check stops at the first damaged file and names it.
    """
    from semclass.index.folder import describe
    from semclass.index.verify import verify as check

    contents = describe(folder)
    with progress("verifying", contents["passages"] + contents["removed"]) as step:
        result = check(folder, progress=step)
    passages, segments = counted(result["passages"], "passage"), counted(result["segments"], "segment")
    text = f"{passages} in {segments}: {', '.join(result['checks'])} are right"
    show({"index": str(folder), **result}, text, as_json=as_json)


@index.command()
@_folder
@options.json_output
def compact(folder: Path, *, as_json: bool) -> None:
    """Merge the segments of the index in DIR and free the space of removed passages.

    No passage is encoded again.
    """
    report = semclass.change_index(folder, compact=True)
    _show_change(folder, report, {}, {}, as_json=as_json)


def _show_change(
    folder: Path, report: semclass.Report, counts: Mapping[str, int], left_out: Mapping[str, Any], *, as_json: bool
) -> None:
    done = ", ".join(f"{count} {name}" for name, count in counts.items())
    now = f"{counted(report.passages, 'passage')} in {counted(report.segments, 'segment')}"
    fields = {"index": str(folder), **counts, "passages": report.passages, "segments": report.segments}
    show({**fields, **left_out}, f"{done}: {now}" if done else now, as_json=as_json)
