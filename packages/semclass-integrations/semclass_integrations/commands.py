"""The command that uploads an index to Qdrant."""

from __future__ import annotations

import json
from pathlib import Path

import click

from semclass import PassageIndex
from semclass.plugins import counted, echo, json_output, progress


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--url", required=True, help="Address of a Qdrant server, e.g. http://localhost:6333.")
@click.option("--collection", required=True, help="Name of the collection to create.")
@click.option("--replace", is_flag=True, help="Remove an existing collection of the same name first.")
@json_output
def upload(folder: Path, url: str, collection: str, *, replace: bool, as_json: bool) -> None:
    """Upload the index in DIR to a Qdrant server.

    `semclass search` then accepts the address of the collection in place of the folder.
    """
    from semclass_integrations.qdrant import QdrantIndex, client_of

    index = PassageIndex.load(folder)
    with progress("uploading", len(index)) as step:
        QdrantIndex.upload(index, client_of(url), collection, replace=replace, progress=step)
    address = f"{url.rstrip('/')}/{collection}"
    text = f"{counted(len(index), 'passage')} uploaded; search them with: semclass search {address} QUESTION"
    echo(json.dumps({"index": address, "passages": len(index)}) if as_json else text)
