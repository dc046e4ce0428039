"""The commands ``semclass serve`` and ``semclass mcp``."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import click
import uvicorn
from fastapi import FastAPI

from semclass import EntailmentClassifier, InputError, Models, TextModel, plugins
from semclass.plugins import import_extra, open_retriever
from semclass_serve import observe
from semclass_serve.app import create_app
from semclass_serve.engine import Engine, load_beside
from semclass_serve.limits import LOOPBACK_NAMES, Settings, is_loopback, read_keys

HEAD_BYTES, IDLE_SECONDS, CONNECTIONS = 32 * 1024, 15, 900
"""Most bytes of a request's line and headers, seconds that an idle connection stays open, and most open connections.
Systems usually allow 1,024 open files. A proxy should handle slow clients and floods of connections.
"""

Command = TypeVar("Command", bound=Callable[..., Any])

any_path = click.Path(path_type=Path)
positive = click.IntRange(1)
seconds = click.FloatRange(0, min_open=True)


def _limit(option: str, name: str, kind: click.ParamType[Any], help_text: str) -> Callable[[Command], Command]:
    """Make the option of a limit, with its default in the settings."""
    return click.option(option, name, type=kind, default=getattr(Settings, name), show_default=True, help=help_text)


@click.command()
@click.argument("place", metavar="[INDEX]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port. 0: any free port.")
@click.option("--api-key-file", type=any_path, help="File with one API key per line. Every request must send a key.")
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Host name that requests may use. *: any name. Repeatable."
)
@_limit("--max-body", "max_body", positive, "Maximum bytes per request.")
@_limit("--max-texts", "max_texts", positive, "Maximum texts per request.")
@_limit("--max-characters", "max_characters", positive, "Maximum characters per text.")
@_limit("--max-requests", "max_requests", positive, "Maximum simultaneous requests. Further requests get status 429.")
@_limit("--timeout", "request_seconds", seconds, "Maximum seconds per request.")
@_limit("--stop-timeout", "stop_seconds", seconds, "Maximum seconds to wait for open requests when stopping.")
@_limit(
    "--refresh", "refresh_seconds", click.FloatRange(0), "Seconds between checks for a changed index. 0: no checks."
)
@click.option(
    "--documents",
    metavar="FOLDER|URL",
    help="Folder that was indexed: hits link to its documents, which are served read-only. Or an address with metadata "
    "fields in braces, e.g. https://wiki.example.org/{document}.",
)
@click.option(
    "--judgements",
    type=any_path,
    metavar="FILE",
    help="File to append judgements to; the page then asks for judgements.",
)
@click.option("--head", "heads", multiple=True, metavar="NAME=DIR", help="Trained head to serve. Repeatable.")
@plugins.models
@plugins.encoder
@plugins.threads
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
    observe.configure()
    warnings.showwarning = observe.show_warning
    settings = Settings(
        keys=() if api_key_file is None else read_keys(api_key_file),
        hosts=_hosts(host, allow_host),
        documents=Path(documents) if documents and "://" not in documents else documents,
        **limits,
    )
    if isinstance(settings.documents, Path) and (place is None or not Path(place).is_dir()):
        raise InputError("--documents FOLDER needs an index in a folder as INDEX; for other indices give an address")
    if settings.judgements is not None and place is None:
        raise InputError("--judgements needs an INDEX: judgements are about its passages")
    if not (settings.keys or is_loopback(host)):
        observe.log(
            "without keys, anyone could use the service; set --api-key-file, or listen on 127.0.0.1", logging.WARNING
        )
    with bind(host, port) as listener:
        # runs side by side with a thread each are faster than one with as many threads
        loaded = Models.load(models, encoder=encoder, heads=plugins.read_heads(heads), threads=1)
        engine = Engine(
            loaded,
            None if place is None else open_retriever(place, loaded),
            settings,
            entailment=load_beside(EntailmentClassifier.load, models, loaded.encoder, observe.log),
            scope=load_beside(TextModel.load, "in_scope", loaded.encoder, observe.log),
            workers=threads,
        )
        run(create_app(engine), settings, listener)


@click.command()
@click.argument("place", metavar="INDEX")
@plugins.models
@plugins.encoder
def mcp(place: str, models: Path | None, encoder: str | None) -> None:
    """Serve INDEX to an AI assistant over the Model Context Protocol (standard input and output).

    INDEX is a folder, or the address of a collection on a Qdrant server. The server offers the tools search, ask and
    classify.
    """
    from semclass_serve.mcp_server import make_server

    import_extra("mcp", "mcp")  # before models are loaded
    make_server(open_retriever(place, Models.load(models, encoder=encoder))).run()


def bind(host: str, port: int) -> socket.socket:
    """Reserve a port. Connections are refused until the service is ready. Raises an InputError if the port is not free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends without delay (TCP_NODELAY) only if a socket names its protocol: else each answer takes 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would let others take the port, too
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host}, port {port}: {error}; choose another --host or --port") from error
    return listener


class _Server(uvicorn.Server):
    """A server that logs its address when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and listen."""
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            observe.log("serving", host=host, port=port, url=f"http://{name}:{port}/")


def run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT. Then finish open requests within the time limit for a stop."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=ceil(settings.stop_seconds),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    # uvicorn raises the signal again when it has stopped; but a stop on request is a success
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    _Server(config).run([listener])
    observe.log("stopped")


def _hosts(host: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the host names that requests may use. An empty result allows any name."""
    if "*" in allowed:
        return ()
    return (*allowed, *(LOOPBACK_NAMES if allowed or is_loopback(host) else ()))
