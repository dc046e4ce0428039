"""Qdrant's Rust core (``qdrant-edge-py``) behind those methods of its client that semclass calls."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

models = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (extra qdrant)").models


class EdgeClient:
    """One shard for each collection, in folders below `folder`."""

    def __init__(self, folder: Path):
        import qdrant_edge

        self.edge, self.folder, self.shards, self.metadata, self.made = qdrant_edge, folder, {}, {}, 0

    def collection_exists(self, name):
        return name in self.shards

    def create_collection(self, name, *, vectors_config, sparse_vectors_config):
        best = self.edge.MultiVectorConfig(comparator=self.edge.MultiVectorComparator.MaxSim)
        dense = {
            key: self.edge.EdgeVectorParams(
                size=value.size,
                distance=self.edge.Distance.Dot,
                multivector_config=None if value.multivector_config is None else best,
            )
            for key, value in vectors_config.items()
        }
        sparse = {key: self.edge.EdgeSparseVectorParams() for key in sparse_vectors_config}
        self.made += 1
        (folder := self.folder / str(self.made)).mkdir(parents=True)
        config = self.edge.EdgeConfig(vectors=dense, sparse_vectors=sparse)
        self.shards[name], self.metadata[name] = self.edge.EdgeShard.create(str(folder), config), {}

    def delete_collection(self, name):
        self.shards.pop(name).close()

    def update_collection(self, name, *, metadata):
        self.metadata[name].update(metadata)

    def get_collection(self, name):
        return SimpleNamespace(config=SimpleNamespace(metadata=self.metadata[name]))

    def upsert(self, name, points, *, wait):
        columns = zip(*points.vectors.values(), strict=True)
        made = [
            self.edge.Point(number, dict(zip(points.vectors, map(self._vector, row), strict=True)), payload)
            for number, row, payload in zip(points.ids, columns, points.payloads, strict=True)
        ]
        self.shards[name].update(self.edge.UpdateOperation.upsert_points(made))

    def delete(self, name, points, *, wait):
        self.shards[name].update(self.edge.UpdateOperation.delete_points(points.points))

    def retrieve(self, name, ids, *, with_payload, with_vectors):
        shown = self.edge.PayloadSelector.Include(with_payload)
        return self.shards[name].retrieve(list(ids), with_payload=shown, with_vector=with_vectors)

    def scroll(self, name, *, limit, offset, with_payload, with_vectors):
        return self.shards[name].scroll(
            self.edge.ScrollRequest(offset=offset, limit=limit, with_payload=with_payload, with_vector=with_vectors)
        )

    def query_batch_points(self, name, requests):
        translated = [
            self.edge.QueryRequest(
                limit=request.limit,
                query=self._query(request.query, request.using),
                prefetches=list(map(self._prefetch, request.prefetch or [])),
                filter=request.filter and edge_filter(request.filter),
                params=request.params and self.edge.SearchParams(exact=request.params.exact),
                with_payload=request.with_payload,
            )
            for request in requests
        ]
        found = self.shards[name].query_batch(self.edge.QueryBatchRequest(translated))
        return [SimpleNamespace(points=points) for points in found]

    def _prefetch(self, item):
        return self.edge.Prefetch(
            limit=item.limit,
            query=self.edge.Query.Nearest(self._vector(item.query), using=item.using),
            prefetches=list(map(self._prefetch, item.prefetch or [])),
            filter=item.filter and edge_filter(item.filter),
            params=item.params and self.edge.SearchParams(exact=item.params.exact),
        )

    def _query(self, query, using):
        if isinstance(query, models.NearestQuery):
            return self.edge.Query.Nearest(self._vector(query.nearest), using=using)
        make = self.edge.Expression
        products = [make.Mult([make.Constant(part.mult[0]), make.Variable(part.mult[1])]) for part in query.formula.sum]
        return self.edge.Formula(make.Sum(products), defaults=query.defaults)

    def _vector(self, value):
        if isinstance(value, models.SparseVector):
            return self.edge.SparseVector(indices=value.indices, values=value.values)
        return value


def edge_filter(condition):
    """Translate a filter that :func:`semclass_integrations.qdrant_filters.to_qdrant` gives."""
    import qdrant_edge as edge

    if isinstance(condition, models.Filter):
        parts = {name: getattr(condition, name) or () for name in ("must", "should", "must_not")}
        return edge.Filter(**{name: list(map(edge_filter, some)) for name, some in parts.items()})
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
