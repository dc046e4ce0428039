"""What the service counts, for Prometheus.

Labels are known routes, statuses, and kinds of work, none of them from a request: clients cannot make more time series.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

import semclass
from semclass_serve.engine import Engine

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counters of requests and of an engine's runs, on a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = registry = CollectorRegistry()
        self._requests = Counter("semclass_requests", "Answered requests.", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "semclass_request_seconds", "Time of a request.", ["route"], registry=registry, buckets=_SECONDS
        )
        self._texts = Counter("semclass_texts", "Texts of requests.", ["route"], registry=registry)
        self._batches = Histogram(
            "semclass_batch_texts", "Texts that shared a run.", ["kind"], registry=registry, buckets=_TEXTS
        )
        waiting = Gauge("semclass_queue_texts", "Texts that wait for a run.", registry=registry)
        waiting.set_function(lambda: engine.waiting)
        passages = Gauge("semclass_index_passages", "Passages of the index.", registry=registry)
        passages.set_function(lambda: 0 if engine.retriever is None else len(engine.retriever.index))
        self.open = Gauge("semclass_requests_open", "Requests that are being answered.", registry=registry)
        Info("semclass", "The service.", registry=registry).info({"version": semclass.__version__})
        ProcessCollector(registry=registry)
        engine.on_batch = lambda kind, texts: self._batches.labels(kind).observe(texts)

    def request(self, route: str, status: int, seconds: float, texts: int) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if texts:
            self._texts.labels(route).inc(texts)
