"""The command that keeps an index in step with a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import semclass
from semclass.cli import options
from semclass.cli.options import COLUMNS, read_heads, show
from semclass.cli.passages import cutting_options, kept, loading, passages_from, telling
from semclass.cli.progress import progress
from semclass.core.checks import counted
from semclass.core.errors import InputError

_NOTHING = {
    "by": None,
    "size": None,
    "overlap": 0,
    "encoding": None,
    "keep_boilerplate": False,
    **dict.fromkeys(COLUMNS),
}
"""The options of cutting where none is given."""


@click.command()
@click.argument("folder", type=options.any_path, metavar="DIR")
@click.argument("source", type=options.any_path, metavar="FOLDER")
@click.option("--dry-run", is_flag=True, help="Show the planned changes without making them.")
@cutting_options
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
    strict: bool,
    partial: bool,
    as_json: bool,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
    **cutting: Any,
) -> None:
    """Update the index in DIR to match the files in FOLDER. If there is no index, build one.

    Passages are added, changed and removed, but only new texts are encoded. A passage keeps its id while its text and
    headings stay the same, even if it moves within the document. Documents are split as in the previous run unless you give
    --cut, --size, --overlap, --encoding, --keep-boilerplate or names of columns.
    """
    from semclass.core.cpu import available_threads
    from semclass.index import manifest
    from semclass.index.commit import describe, store_cutting
    from semclass.index.sync import find_changes, sync_index

    if not source.is_dir():
        raise InputError(
            f"{source} is not a folder; name a folder of documents, or add single files with `semclass index add`"
        )
    there = manifest.read_or_none(folder)
    if there is not None and there.cutting is None:
        raise InputError(
            f"the index {folder} was not built from a folder of documents, so a sync would remove all its passages; name "
            "another folder for the index"
        )
    stored = {} if there is None else dict(there.cutting or {})
    before = stored.pop("boilerplate", [])
    if there is not None and cutting == _NOTHING:
        cutting = stored

    passage_encoder = loading(folder, read_heads(heads), models=models, encoder=encoder)
    with telling() as told, progress("reading", None) as step:
        passages = passages_from(
            source, told, passage_encoder, step, strict=strict, partial=partial, before=before, **cutting
        )
        if dry_run:
            index = None if there is None else semclass.PassageIndex.load(folder, verify=False)
            changes = find_changes(index, passages)
        else:
            changes = sync_index(
                folder,
                passages,
                cutting=kept(cutting, before),
                passage_encoder=passage_encoder,
                progress=step,
                workers=threads or available_threads(),
            )
            if kept(cutting, told.keys) != kept(cutting, before):
                store_cutting(folder, kept(cutting, told.keys))
    for change in changes if dry_run else ():
        counts = ", ".join(
            f"{count} {name}" for name in ("added", "changed", "removed") if (count := getattr(change, name))
        )
        show(vars(change), f"{change.kind:<8} {change.document} ({counts})", as_json=as_json)
    totals = {kind: sum(change.kind == kind for change in changes) for kind in ("added", "changed", "removed")}
    record: dict[str, Any] = {"index": str(folder), "documents": totals}
    done = ", ".join(f"{count} {name}" for name, count in totals.items())
    if dry_run:
        show({**record, **told.record()}, f"documents: {done}; nothing was changed", as_json=as_json)
        return
    found = describe(folder)
    record |= {"passages": found["passages"], "segments": len(found["segments"]), **told.record()}
    show(record, f"documents: {done}: {counted(found['passages'], 'passage')} in {folder}", as_json=as_json)
