"""``semclass serve``: the HTTP service."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from semclass.cli import options
from semclass.core.errors import EncoderMismatchError, InputError, import_extra
from semclass_serve.settings import Settings

if TYPE_CHECKING:
    from semclass.core.types import Encoder
    from semclass.ranking.models import Models

_Kind = TypeVar("_Kind", covariant=True)


class _Loads(Protocol[_Kind]):
    def load(self, models: Path, *, encoder: Encoder, threads: int) -> _Kind: ...


_SECONDS = click.FloatRange(0, min_open=True)


def _limit(
    option: str, name: str, kind: click.ParamType[Any], help_text: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make the option of a limit, with the default of the settings."""
    return click.option(option, name, type=kind, default=getattr(Settings, name), show_default=True, help=help_text)


@click.command()
@click.argument("place", metavar="[INDEX]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on. 0: any free port.",
)
@click.option(
    "--api-key-file",
    type=options.any_path,
    help="File with one API key per line. Every request must send one of these keys.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Host name that requests may use. *: any name. Repeatable.",
)
@_limit("--max-body", "max_body", options.positive, "Maximum bytes per request.")
@_limit("--max-texts", "max_texts", options.positive, "Maximum texts per request.")
@_limit("--max-characters", "max_characters", options.positive, "Maximum characters per text.")
@_limit(
    "--max-requests",
    "max_requests",
    options.positive,
    "Maximum simultaneous requests. Further requests get status 429.",
)
@_limit("--timeout", "request_seconds", _SECONDS, "Maximum seconds per response.")
@_limit(
    "--drain",
    "drain_seconds",
    click.FloatRange(0),
    "Seconds to keep serving after a stop signal, while /ready already fails.",
)
@_limit("--stop-timeout", "stop_seconds", _SECONDS, "Maximum seconds to wait for open requests when stopping.")
@_limit(
    "--refresh", "refresh_seconds", click.FloatRange(0), "Seconds between checks for a changed index. 0: no checks."
)
@click.option(
    "--documents",
    metavar="FOLDER|URL",
    help="Folder that was indexed: hits link to its documents, which are served read-only. Or an address with metadata "
    "fields in braces, e.g. https://wiki.example.org/{document}.",
)
@options.heads
@options.models
@options.encoder
@options.threads
def serve(
    place: str | None,
    heads: Sequence[str],
    host: str,
    port: int,
    api_key_file: Path | None,
    allow_host: tuple[str, ...],
    documents: str | None,
    models: Path | None,
    encoder: str | None,
    threads: int | None,
    **limits: Any,
) -> None:
    """Serve classification, search and re-ranking over HTTP, with a search page at /.

    INDEX is a folder, or the address of a collection on a Qdrant server, e.g. http://localhost:6333/passages. Without
    INDEX, the service offers only classification and re-ranking.
    """
    for module in ("fastapi", "prometheus_client", "uvicorn"):
        import_extra(module, "serve")
    from semclass.core.cpu import available_threads
    from semclass.heads.entailment import EntailmentClassifier
    from semclass.heads.in_scope import ScopeClassifier
    from semclass.ranking.models import Models
    from semclass_serve import access, logs, server
    from semclass_serve.app import create_app
    from semclass_serve.engine import Engine

    logs.configure()
    warnings.showwarning = logs.show_warning
    settings = Settings(
        keys=() if api_key_file is None else access.read_keys(api_key_file),
        hosts=_hosts(host, allow_host),
        documents=Path(documents) if documents and "://" not in documents else documents,
        **limits,
    )
    if isinstance(settings.documents, Path) and (place is None or not Path(place).is_dir()):
        raise InputError("--documents FOLDER needs an index in a folder as INDEX; for other indices give an address")
    if not (settings.keys or access.is_loopback(host)):
        logs.log(
            "the service accepts requests from anyone; give --api-key-file, or listen on 127.0.0.1", logging.WARNING
        )
    # runs side by side with a thread each are faster than one with as many threads
    workers = threads or available_threads()
    with server.bind(host, port) as listener:
        loaded = Models.load(models, encoder=encoder, heads=options.read_heads(heads), threads=1)
        retriever = None if place is None else options.open_retriever(place, loaded)
        engine = Engine(
            loaded,
            retriever,
            settings,
            entailment=_beside(EntailmentClassifier, "entailment", models, loaded),
            scope=_beside(ScopeClassifier, "in_scope", models, loaded),
            workers=workers,
        )
        server.run(create_app(engine, settings), settings, listener)


@click.command()
@click.argument("place", metavar="INDEX")
@options.models
@options.encoder
def mcp(place: str, models: Path | None, encoder: str | None) -> None:
    """Serve INDEX to an AI assistant over the Model Context Protocol (standard input and output).

    INDEX is a folder, or the address of a collection on a Qdrant server. The server offers the tools search, ask,
    context and classify.
    """
    from semclass.ranking.models import Models
    from semclass_serve.mcp_server import make_server

    import_extra("mcp", "mcp")  # before models are loaded
    make_server(options.open_retriever(place, Models.load(models, encoder=encoder))).run()


def _hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Names that requests may give the service; none: any."""
    from semclass_serve.access import LOOPBACK_NAMES, is_loopback

    if "*" in allowed:
        return ()
    return (*allowed, *(LOOPBACK_NAMES if allowed or is_loopback(host) else ()))


def _beside(kind: _Loads[_Kind], folder: str, models: Path | None, loaded: Models) -> _Kind | None:
    """A classifier beside the models that rank; None where there is none for this encoder."""
    from semclass.core.artifacts import models_folder

    root = models_folder(models)
    if not (root / folder).exists():
        return None
    try:
        return kind.load(root, encoder=loaded.encoder, threads=1)
    except EncoderMismatchError:
        return None
