"""Qdrant's Rust core (``qdrant-edge-py``) behind those methods of its client that semclass calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from semclass.core.errors import import_extra


class EdgeClient:
    """One shard for each collection, in folders below `folder`."""

    def __init__(self, folder: str | Path) -> None:
        self.engine: Any = import_extra("qdrant_edge", "bench")
        self.models: Any = import_extra("qdrant_client.models", "qdrant")
        self.folder = Path(folder)
        self.shards: dict[str, Any] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        self.made = 0

    def collection_exists(self, name: str) -> bool:
        return name in self.shards

    def create_collection(
        self, name: str, *, vectors_config: dict[str, Any], sparse_vectors_config: dict[str, Any]
    ) -> None:
        dense = {
            key: self.engine.EdgeVectorParams(
                size=value.size,
                distance=self.engine.Distance.Dot,
                multivector_config=None
                if value.multivector_config is None
                else self.engine.MultiVectorConfig(comparator=self.engine.MultiVectorComparator.MaxSim),
            )
            for key, value in vectors_config.items()
        }
        sparse = {key: self.engine.EdgeSparseVectorParams() for key in sparse_vectors_config}
        self.made += 1
        folder = self.folder / str(self.made)
        folder.mkdir(parents=True)
        config = self.engine.EdgeConfig(vectors=dense, sparse_vectors=sparse)
        self.shards[name] = self.engine.EdgeShard.create(str(folder), config)
        self.metadata[name] = {}

    def delete_collection(self, name: str) -> None:
        self.shards.pop(name).close()
        del self.metadata[name]

    def update_collection(self, name: str, *, metadata: dict[str, Any]) -> None:
        self.metadata[name].update(metadata)

    def get_collection(self, name: str) -> Any:
        return SimpleNamespace(config=SimpleNamespace(metadata=self.metadata[name]))

    def upsert(self, name: str, points: Any, *, wait: bool) -> None:
        assert wait
        names = list(points.vectors)
        columns = zip(*(points.vectors[key] for key in names), strict=True)
        made = [
            self.engine.Point(
                number, {key: self._vector(value) for key, value in zip(names, row, strict=True)}, payload
            )
            for number, row, payload in zip(points.ids, columns, points.payloads, strict=True)
        ]
        self.shards[name].update(self.engine.UpdateOperation.upsert_points(made))

    def delete(self, name: str, points: Any, *, wait: bool) -> None:
        assert wait
        self.shards[name].update(self.engine.UpdateOperation.delete_points(points.points))

    def retrieve(
        self, name: str, ids: Sequence[int], *, with_payload: Any = True, with_vectors: Any = False
    ) -> list[Any]:
        return self.shards[name].retrieve(list(ids), with_payload=self._payload(with_payload), with_vector=with_vectors)

    def scroll(
        self, name: str, *, limit: int, offset: int | None, with_payload: Any, with_vectors: Any
    ) -> tuple[list[Any], int | None]:
        request = self.engine.ScrollRequest(
            offset=offset, limit=limit, with_payload=self._payload(with_payload), with_vector=with_vectors
        )
        points, following = self.shards[name].scroll(request)
        return points, following

    def query_points(
        self,
        name: str,
        *,
        prefetch: Sequence[Any],
        query: Any,
        limit: int,
        with_payload: Any,
        with_vectors: Any,
    ) -> Any:
        request = self.engine.QueryRequest(
            limit=limit,
            query=self.engine.Formula(self._expression(query.formula), defaults=query.defaults),
            prefetches=[self._prefetch(item) for item in prefetch],
            with_payload=self._payload(with_payload),
            with_vector=with_vectors,
        )
        return SimpleNamespace(points=self.shards[name].query(request))

    def query_batch_points(self, name: str, requests: Sequence[Any]) -> list[Any]:
        translated = [
            self.engine.QueryRequest(
                limit=request.limit,
                query=self.engine.Query.Nearest(self._vector(request.query.nearest), using=request.using),
                filter=None if request.filter is None else edge_filter(request.filter),
                params=self._params(request.params),
                with_payload=self._payload(request.with_payload or False),
                with_vector=request.with_vector or False,
            )
            for request in requests
        ]
        found = self.shards[name].query_batch(self.engine.QueryBatchRequest(translated))
        return [SimpleNamespace(points=points) for points in found]

    def _prefetch(self, item: Any) -> Any:
        nested = item.prefetch or []
        return self.engine.Prefetch(
            limit=item.limit,
            query=self.engine.Query.Nearest(self._vector(item.query), using=item.using),
            prefetches=[self._prefetch(inner) for inner in nested],
            filter=None if item.filter is None else edge_filter(item.filter),
            params=self._params(item.params),
        )

    def _vector(self, value: Any) -> Any:
        if isinstance(value, self.models.SparseVector):
            return self.engine.SparseVector(indices=value.indices, values=value.values)
        return value

    def _params(self, params: Any) -> Any:
        return None if params is None else self.engine.SearchParams(exact=bool(params.exact))

    def _payload(self, wanted: Any) -> Any:
        return self.engine.PayloadSelector.Include(wanted) if isinstance(wanted, list) else wanted

    def _expression(self, value: Any) -> Any:
        made = self.engine.Expression
        if isinstance(value, str):
            return made.Variable(value)
        if isinstance(value, (int, float)):
            return made.Constant(float(value))
        if isinstance(value, self.models.SumExpression):
            return made.Sum([self._expression(item) for item in value.sum])
        return made.Mult([self._expression(item) for item in value.mult])


def edge_filter(condition: Any) -> Any:
    """Translate what :func:`semclass_integrations.qdrant_search.to_qdrant` gives."""
    edge: Any = import_extra("qdrant_edge", "bench")
    models: Any = import_extra("qdrant_client.models", "qdrant")
    if isinstance(condition, models.Filter):
        parts = {name: getattr(condition, name) or () for name in ("must", "should", "must_not")}
        return edge.Filter(**{name: [edge_filter(part) for part in found] for name, found in parts.items()})
    if isinstance(condition, models.HasIdCondition):
        return edge.HasIdCondition(set(condition.has_id))
    if isinstance(condition, models.IsEmptyCondition):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if isinstance(condition.match, models.MatchAny):
        return edge.FieldCondition(condition.key, match=edge.MatchAny(condition.match.any))
    if isinstance(condition.match, models.MatchValue):
        raise NotImplementedError("qdrant-edge-py 0.9 takes true for 1")
    ends = {name: end for name, end in condition.range.model_dump().items() if end is not None}
    if isinstance(condition.range, models.DatetimeRange):
        texts = {name: end.isoformat() for name, end in ends.items()}
        return edge.FieldCondition(condition.key, range=edge.RangeDateTime(**texts))
    return edge.FieldCondition(condition.key, range=edge.RangeFloat(**ends))
