"""The command that keeps an index in step with a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import show
from semclass.cli.output import echo
from semclass.cli.passages import Reading, reading_options
from semclass.core.checks import counted
from semclass.core.errors import InputError, SemclassError, import_extra


@click.command()
@click.argument("folder", type=options.any_path, metavar="DIR")
@click.argument("source", type=options.any_path, metavar="FOLDER")
@click.option("--dry-run", is_flag=True, help="Show the planned changes without making them.")
@click.option(
    "--watch", is_flag=True, help="Stay, and sync again whenever files change, until Ctrl-C. Needs the extra `watch`."
)
@reading_options
def sync(folder: Path, source: Path, *, dry_run: bool, watch: bool, as_json: bool, reading: Reading) -> None:
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
    reading.check_heads(folder)
    changed = watched(source, folder) if watch else iter(())
    next(changed, None)  # from here on no change is missed
    _sync(folder, source, reading, dry_run=dry_run, as_json=as_json)
    if watch:
        echo(f"watching {source}; Ctrl-C ends it", err=True)
    for _ in changed:
        try:
            _sync(folder, source, reading, as_json=as_json, silent=True)
        except SemclassError as error:  # noqa: PERF203 - a sync takes longer than that
            if not source.is_dir():
                raise
            echo(f"error: {error}", err=True)  # the next change may repair it


def watched(source: Path, index: Path) -> Iterator[None]:
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
    folder: Path, source: Path, reading: Reading, *, as_json: bool, dry_run: bool = False, silent: bool = False
) -> None:
    """Sync once, and tell what was done; if `silent`, only where there was something to do."""
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
    same = there is not None and reading.chunking == semclass.Chunking()
    reading = reading.again(semclass.Chunking(**stored) if same else reading.chunking)
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
            )
            if reading.settings() != settings_before:
                store_cutting(folder, reading.settings())
    kinds = ("added", "changed", "removed")
    for change in changes if dry_run else ():
        counts = ", ".join(f"{count} {kind}" for kind in kinds if (count := getattr(change, kind)))
        show(vars(change), f"{change.kind:<8} {change.document} ({counts})", as_json=as_json)
    if silent and not changes:
        return
    totals = {kind: sum(change.kind == kind for change in changes) for kind in kinds}
    record: dict[str, Any] = {"index": str(folder), "documents": totals, **reading.record()}
    text = f"documents: {', '.join(f'{count} {kind}' for kind, count in totals.items())}"
    if dry_run:
        show(record, f"{text}; nothing was changed", as_json=as_json)
        return
    now = describe(folder)
    record |= {"passages": now["passages"], "segments": len(now["segments"])}
    show(record, f"{text}: {counted(now['passages'], 'passage')} in {folder}", as_json=as_json)
