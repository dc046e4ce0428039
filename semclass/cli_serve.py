"""``semclass serve``: the HTTP service."""

from __future__ import annotations

from pathlib import Path

import click

from semclass.cli_options import take_api_key, take_encoder, take_models, take_threads
from semclass.errors import import_extra


@click.command()
@click.argument("place", metavar="[INDEX]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0: any free one.")
@take_api_key
@take_models
@take_encoder
@take_threads
def serve(
    place: str | None,
    host: str,
    port: int,
    api_key: str | None,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
) -> None:
    """Serve classification, search and re-ranking over HTTP, and a page at /.

    INDEX is a folder, or the address of a collection on a Qdrant server. Without it there is nothing to search:
    classification and re-ranking are served alone.
    """
    for module in ("fastapi", "prometheus_client", "uvicorn"):
        import_extra(module, "serve")
    import uvicorn

    import semclass
    from semclass.service.app import create_app
    from semclass.service.engine import Engine
    from semclass.service.settings import Settings

    ranker = semclass.Ranker.load(models, encoder=encoder, threads=threads or 1)
    settings = Settings()
    retriever = None if place is None else semclass.HybridRetriever(semclass.PassageIndex.load(place), ranker)
    uvicorn.run(create_app(Engine(ranker, retriever, settings), settings), host=host, port=port)
