"""The log and the counters of the service, both without a user's text.

The log has one JSON object per line. The labels of counters are known routes, statuses and kinds of work, so that
clients cannot create more time series.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

import semclass
from semclass import TruncationWarning
from semclass_serve.engine import Engine
from semclass_serve.queue import WORKER

LOGGER = logging.getLogger("semclass_serve")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_GAUGES: dict[str, tuple[str, Callable[[Engine], float]]] = {
    "queue_items": ("Items that wait for a run.", lambda engine: engine.waiting),
    "index_passages": ("Passages of the index.", lambda engine: len(engine.retriever.index) if engine.retriever else 0),
    "cache_hits": ("Passages to re-rank that were encoded before.", lambda engine: engine.cache.usage.hits),
    "cache_misses": ("Passages to re-rank that were encoded.", lambda engine: engine.cache.usage.misses),
    "cache_bytes": ("Memory of encoded passages.", lambda engine: engine.cache.usage.bytes),
}
_ITEMS = (1, 2, 4, 8, 16, 32, 64)


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON, without the message of an exception, which may quote a user's text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        # asyncio shows whole exceptions below its first line
        event = record.getMessage().partition("\n")[0]
        line = {"time": when, "level": record.levelname.lower(), "event": event, **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[1] is not None:
            line |= fault_fields(record.exc_info[1])
        return json.dumps(line)


def fault_fields(error: BaseException) -> dict[str, Any]:
    """Return the type of an exception, its traceback, innermost place last, and the damaged file if there is one."""
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    path = getattr(error, "path", None)
    return {"exception": type(error).__name__, "trace": frames, **({"file": str(path)} if path else {})}


def configure() -> None:
    """Write all logs and warnings to standard error, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    LOGGER.setLevel(logging.INFO)
    # uvicorn warns of each malformed request, and clients could fill the log
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Log a warning, without the message if a worker issued it, because it may quote the text of a request."""
    if not issubclass(category, TruncationWarning):
        of_request = threading.current_thread().name.startswith(WORKER)
        event = "a request caused a warning" if of_request else str(message)
        log(event, logging.WARNING, kind=category.__name__)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with fields."""
    LOGGER.log(level, event, extra={"fields": fields})


class Metrics:
    """Counters of requests and of an engine's runs, in a separate registry."""

    def __init__(self, engine: Engine) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter("semclass_requests", "Answered requests.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "semclass_request_seconds", "Time of a request.", ["route"], registry=registry, buckets=_SECONDS
        )
        runs = Histogram("semclass_batch_items", "Items of a run.", ["kind"], registry=registry, buckets=_ITEMS)
        for name, (text, value) in _GAUGES.items():
            gauge = Gauge(f"semclass_{name}", text, registry=registry)
            gauge.set_function(partial(value, engine))
        self.open = Gauge("semclass_requests_open", "Requests that are being answered.", registry=registry)
        Info("semclass", "The service.", registry=registry).info({"version": semclass.__version__})
        ProcessCollector(registry=registry)
        engine.on_run = lambda kind, items: runs.labels(kind).observe(items)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
