"""The command that keeps an index in step with a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import read_heads, show
from semclass.cli.output import echo
from semclass.cli.passages import chunking_options, loading, passages_from, reporting, settings
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError, SemclassError, import_extra

if TYPE_CHECKING:
    from semclass.index.passage_encoder import PassageEncoder


@click.command()
@click.argument("folder", type=options.any_path, metavar="DIR")
@click.argument("source", type=options.any_path, metavar="FOLDER")
@click.option("--dry-run", is_flag=True, help="Show the planned changes without making them.")
@click.option(
    "--watch",
    is_flag=True,
    help="Stay, and sync again whenever files change, until Ctrl-C. Needs the extra `watch`.",
)
@chunking_options
@options.heads
@options.json_output
@options.models
@options.encoder
@options.threads
def sync(
    folder: Path,
    source: Path,
    heads: Sequence[str],
    *,
    dry_run: bool,
    watch: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
    **reading: Any,
) -> None:
    """Update the index in DIR to match the files in FOLDER. If there is no index, build one.

    Passages are added, changed and removed, but only new texts are encoded. A passage keeps its id while its text and
    headings stay the same, even if it moves within the document. Documents are split as in the previous run unless you give
    --cut, --size, --overlap, --encoding, --keep-boilerplate or names of columns.
    """
    if not source.is_dir():
        raise InputError(
            f"{source} is not a folder; name a folder of documents, or add single files with `semclass index add`"
        )
    if watch and dry_run:
        raise InputError("a dry run changes nothing, so there is nothing to watch; give --dry-run or --watch")
    passage_encoder = loading(folder, read_heads(heads), models=models, encoder=encoder)

    def once(*, silent: bool = False) -> None:
        _sync(folder, source, passage_encoder, threads, dry_run=dry_run, as_json=as_json, silent=silent, **reading)

    changed = changes(source, folder) if watch else iter(())
    next(changed, None)  # from here on no change is missed
    once()
    if watch:
        echo(f"watching {source}; Ctrl-C ends it", err=True)
    for _ in changed:
        try:
            once(silent=True)
        except SemclassError as error:  # noqa: PERF203 - a sync takes longer than that
            if not source.is_dir():
                raise
            echo(f"error: {error}", err=True)  # the next change may repair it


def changes(source: Path, index: Path) -> Iterator[None]:
    """Yield once a folder is watched, and after each burst of changes in it, except of hidden files and of the index."""
    watchfiles = import_extra("watchfiles", "watch")
    top, own = source.resolve(), index.resolve()

    def counts(_: object, name: str) -> bool:
        path = Path(name)
        hidden = any(part.startswith(".") for part in path.relative_to(top).parts)
        return not hidden and not path.is_relative_to(own)

    started = False
    for found in watchfiles.watch(top, watch_filter=counts, rust_timeout=100, yield_on_timeout=True):
        if found or not started:
            started = True
            yield


def _sync(
    folder: Path,
    source: Path,
    passage_encoder: Callable[[], PassageEncoder],
    threads: int | None,
    *,
    dry_run: bool,
    strict: bool,
    partial: bool,
    as_json: bool,
    silent: bool,
    chunking: semclass.Chunking,
) -> None:
    """Sync once, and tell what was done; if `silent`, only where there was something to do."""
    from semclass.core.cpu import available_threads
    from semclass.index import manifest
    from semclass.index.commit import store_cutting
    from semclass.index.folder import describe
    from semclass.index.sync import find_changes, sync_index

    there = manifest.read_or_none(folder)
    if there is not None and there.cutting is None:
        raise InputError(
            f"the index {folder} was not built from a folder of documents, so a sync would remove all its passages; name "
            "another folder for the index"
        )
    stored = {} if there is None else dict(there.cutting or {})
    before = stored.pop("boilerplate", [])
    if there is not None and chunking == semclass.Chunking():
        chunking = semclass.Chunking(**stored)

    settings_before = {**chunking.settings(), **({"boilerplate": before} if before else {})}
    with reporting() as report, progress("reading", None) as step:
        passages = passages_from(
            source, chunking, report, passage_encoder, step, strict=strict, partial=partial, before=before
        )
        if dry_run:
            index = None if there is None else semclass.PassageIndex.load(folder, verify=False)
            found = find_changes(index, passages)
        else:
            found = sync_index(
                folder,
                passages,
                cutting=settings_before,
                passage_encoder=passage_encoder,
                progress=step,
                workers=threads or available_threads(),
            )
            if (now := settings(chunking, report)) != settings_before:
                store_cutting(folder, now)
    for change in found if dry_run else ():
        counts = ", ".join(
            f"{count} {name}" for name in ("added", "changed", "removed") if (count := getattr(change, name))
        )
        show(vars(change), f"{change.kind:<8} {change.document} ({counts})", as_json=as_json)
    if silent and not found:
        return
    totals = {kind: sum(change.kind == kind for change in found) for kind in ("added", "changed", "removed")}
    record: dict[str, Any] = {"index": str(folder), "documents": totals}
    done = ", ".join(f"{count} {name}" for name, count in totals.items())
    if dry_run:
        show({**record, **report.record()}, f"documents: {done}; nothing was changed", as_json=as_json)
        return
    now = describe(folder)
    record |= {"passages": now["passages"], "segments": len(now["segments"]), **report.record()}
    show(record, f"documents: {done}: {counted(now['passages'], 'passage')} in {folder}", as_json=as_json)
