"""The command that uploads an index to Qdrant."""

from __future__ import annotations

import os
from pathlib import Path

import click

import semclass
from semclass.cli import options
from semclass.cli.options import show
from semclass.cli.progress import progress
from semclass.core.checks import counted


@click.command()
@click.argument("folder", type=options.any_path, metavar="DIR")
@click.option("--url", required=True, help="Address of a Qdrant server, e.g. http://localhost:6333.")
@click.option("--collection", required=True, help="Name of the collection to create.")
@click.option("--replace", is_flag=True, help="Remove an existing collection of that name first.")
@click.option(
    "--codes/--no-codes",
    default=True,
    help="Upload the vectors for re-ranking, or leave them out and encode texts at query time.",
)
@options.json_output
def upload(folder: Path, url: str, collection: str, *, replace: bool, codes: bool, as_json: bool) -> None:
    """Upload the index in DIR to a Qdrant server.

    `semclass search` then accepts the address of the collection in place of the folder.
    """
    from semclass_integrations.qdrant import API_KEY_VARIABLE, QdrantIndex

    found = semclass.PassageIndex.load(folder)
    with progress("uploading", len(found)) as step:
        QdrantIndex.upload(
            found,
            url,
            collection,
            codes=codes,
            replace=replace,
            progress=step,
            api_key=os.environ.get(API_KEY_VARIABLE),
        )
    address = f"{url.rstrip('/')}/{collection}"
    text = f"{counted(len(found), 'passage')} uploaded; search them with: semclass search {address} QUESTION"
    show({"index": address, "passages": len(found)}, text, as_json=as_json)
