"""Keeps a large index in Qdrant: the server finds candidates, and this process ranks them.

A passage is a point with four vectors. ``mean`` and ``excerpts`` (a multi-vector, of which the best excerpt counts)
are compared by inner product. ``bm25`` and ``sparse`` (learnt words) are sparse vectors. The weights of ``bm25`` are
multiplied by inverse document frequencies. The payload of a point contains the passage, and the bytes from which
scores are computed. The metadata of the collection contain the record of the index with the statistics for BM25. The
average length of passages is not updated after the upload, because all sparse vectors depend on it. If passages become
much longer or shorter, upload them again.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from semclass import ArtifactError, InputError, Models, Passage, PassageIndex
from semclass.plugins import RemoteIndex, StoredRow, Wanted, check_text, check_texts, import_extra, stored_rows
from semclass_integrations.qdrant_filters import point_id, requests, to_qdrant

API_KEY_VARIABLE = "SEMCLASS_QDRANT_API_KEY"
"""Environment variable with the key of a Qdrant server. Other users could read the key on a command line."""

OVERFETCH = 4
"""Factor for the passages that the server finds by mean vectors and by best excerpts, to find the best by both."""

BATCH = 32  # points of a request: a server takes 32 MB by default, and the vectors of a long passage may be 0.7 MB
PAGE = 2048  # points of a request without vectors of excerpts

_RECORD = "semclass"  # key of the collection's metadata
_REMEDY = "upload the index again with replace=True (semclass upload --replace)"


@dataclass(frozen=True)
class QdrantIndex(RemoteIndex):
    """Passages in a collection of Qdrant. :class:`semclass.HybridRetriever` searches it like an index in a folder.

    Every method that calls the server raises an ``ArtifactError`` if the server does not answer.

    Attributes
    ----------
    client, collection
        A ``qdrant_client.QdrantClient``, and the name of the collection.
    exact
        Whether the server compares every vector. If false, it uses its HNSW graph.
    """

    client: Any
    collection: str
    exact: bool = True
    kind = "qdrant"

    @classmethod
    def connect(cls, client: Any, collection: str, *, exact: bool = True) -> QdrantIndex:
        """Open a collection that :meth:`upload` filled.

        Parameters
        ----------
        client, collection, exact
            See the attributes.

        Raises
        ------
        ArtifactError
            If the collection does not exist, is incomplete, or has another version of the format.
        """
        if not _request(client, "collection_exists", collection):
            raise ArtifactError(f"collection {collection!r} does not exist; upload an index (semclass upload)")
        return cls(client, collection, exact, **_read_record(client, collection))

    @classmethod
    def upload(
        cls,
        index: PassageIndex,
        client: Any,
        collection: str,
        *,
        replace: bool = False,
        progress: Callable[[int], object] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> QdrantIndex:
        """Upload an index as a collection. Other processes can open it when the upload is complete.

        Parameters
        ----------
        client, collection
            See the attributes.
        replace
            Whether to remove an existing collection of the same name first.
        progress
            Function that is called with the number of passages of each request.
        settings
            Arguments of ``QdrantClient.create_collection``, such as ``shard_number``, ``hnsw_config``, ``on_disk_payload``.

        Raises
        ------
        InputError
            If the index is empty, or the collection exists and `replace` is not set.
        """
        check_text(collection, "collection")
        rows = stored_rows(index)
        first = next(rows, None)
        if first is None:
            raise InputError("the index holds no passages; add some before you upload it")
        if _request(client, "collection_exists", collection):
            if not replace:
                raise InputError(
                    f"collection {collection!r} exists already; name another, or set replace=True (--replace)"
                )
            _request(client, "delete_collection", collection)
        models, size = requests(), len(first.mean)
        best = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        product = models.Distance.DOT
        vectors = {
            "mean": models.VectorParams(size=size, distance=product),
            "excerpts": models.VectorParams(size=size, distance=product, multivector_config=best),
        }
        sparse = {"bm25": models.SparseVectorParams(), "sparse": models.SparseVectorParams()}
        chosen = {"vectors_config": vectors, "sparse_vectors_config": sparse, **(settings or {})}
        _request(client, "create_collection", collection, **chosen)
        made = cls(client, collection, **RemoteIndex.fields_of(index))
        made._send(chain([first], rows), progress)
        return made._described()

    def find(self, wanted: Wanted) -> list[tuple[Passage, bytes]]:
        """Find candidates by vectors and by words in one request, see :meth:`semclass.index.remote.RemoteIndex.find`."""
        models, depth, vector = requests(), wanted.depth, wanted.vector.tolist()
        where = None if wanted.where is None else to_qdrant(wanted.where)
        params = models.SearchParams(exact=True) if self.exact else None
        routes: dict[str, Any] = {"mean": vector, "excerpts": [vector]}
        weights, names = (wanted.mean_weight, 1 - wanted.mean_weight), ("$score[0]", "$score[1]")

        def prefetch(limit: int, **options: Any) -> list[Any]:
            return [models.Prefetch(query=v, using=u, limit=limit, params=params, **options) for u, v in routes.items()]

        # both routes score what either finds: what a flat prefetch lacks would count as 0
        near = prefetch(2 * OVERFETCH * depth, prefetch=prefetch(OVERFETCH * depth, filter=where))
        products = [models.MultExpression(mult=[weight, name]) for weight, name in zip(weights, names, strict=True)]
        total = models.FormulaQuery(formula=models.SumExpression(sum=products), defaults=dict.fromkeys(names, 0.0))
        lists = [models.QueryRequest(prefetch=near, query=total, limit=depth, with_payload=True)] if vector else []
        if wanted.terms:
            sparse = models.SparseVector(indices=list(wanted.terms), values=list(wanted.terms.values()))
            query = models.NearestQuery(nearest=sparse)
            words = {"using": "bm25", "filter": where, "limit": depth, "params": params, "with_payload": True}
            lists.append(models.QueryRequest(query=query, **words))
        responses = self._request("query_batch_points", lists)
        payloads = {point.id: point.payload for response in responses for point in response.points}
        return [
            (Passage(payload["_id"], payload["text"], payload["metadata"]), base64.b64decode(payload["packed"]))
            for payload in payloads.values()
        ]

    def add(self, passages: Iterable[Passage], *, models: Models | None = None) -> QdrantIndex:
        """Add passages, and return the changed collection. A passage with an existing id replaces the old passage.

        The statistics in the collection are updated at the end. Objects that were opened earlier keep the old statistics.
        Only one process at a time may change a collection. If several processes changed it, or a process was stopped,
        call :meth:`refresh_statistics`.

        Parameters
        ----------
        passages
            At least one passage. See :meth:`semclass.PassageIndex.build`.
        models
            The models that built the index. Other models raise an ``InputError``. Defaults to the shipped models.
        """
        encoder = (Models.load() if models is None else models).passage_encoder
        more = PassageIndex.build(passages, passage_encoder=encoder, small=self.small, language=self.language)
        for name, value in RemoteIndex.fields_of(more).items():
            if name in ("encoder", "classes", "codebooks", "sparse", "heads", "types") and value != getattr(self, name):
                raise InputError(
                    f"collection {self.collection!r} was built with {name} {getattr(self, name)}, but the models have "
                    f"{value}; load the models that built it"
                )
        rows = list(stored_rows(more, self.statistics.average))
        old = self._terms_of([row.passage.id for row in rows])
        self._send(rows)
        return self._changed(more, old)

    def delete(self, ids: Iterable[str]) -> QdrantIndex:
        """Delete passages by id, and return the changed collection. :meth:`add` describes how statistics change.

        Raises
        ------
        InputError, InputTypeError
            If an id is unknown. The call then deletes nothing.
        """
        names = check_texts(ids, "ids")
        old = self._terms_of(names)
        if missing := [name for name in names if point_id(name) not in old]:
            raise InputError(f"collection {self.collection!r} has no passage {missing[0]!r}; correct the id")
        self._request("delete", requests().PointIdsList(points=list(old)), wait=True)
        return self._changed(None, old)

    def refresh_statistics(self) -> QdrantIndex:
        """Count passages and document frequencies again over all points, and store them in the collection."""
        counts, passages, offset = Counter[int](), 0, None
        while True:
            points, offset = self._request(
                "scroll", limit=PAGE, offset=offset, with_payload=False, with_vectors=["bm25"]
            )
            for point in points:
                counts.update(_terms(point).tolist())
            passages += len(points)
            if offset is None:
                return self._described(passages, counts)

    def _request(self, name: str, *args: Any, **options: Any) -> Any:
        return _request(self.client, name, self.collection, *args, **options)

    def _send(self, rows: Iterable[StoredRow], progress: Callable[[int], object] | None = None) -> None:
        """Upsert rows, a batch at a time."""
        remaining = iter(rows)
        while some := list(islice(remaining, BATCH)):
            self._request("upsert", _points(some), wait=True)
            if progress is not None:
                progress(len(some))

    def _terms_of(self, names: Sequence[str]) -> dict[int, npt.NDArray[Any]]:
        """Return the terms of the existing passages with these ids, by point."""
        numbers, terms = {point_id(name): name for name in names}, {}
        for start in range(0, len(numbers), PAGE):
            some = list(numbers)[start : start + PAGE]
            for point in self._request("retrieve", some, with_payload=["_id"], with_vectors=["bm25"]):
                if point.payload["_id"] != numbers[point.id]:
                    raise InputError(
                        f"the ids {numbers[point.id]!r} and {point.payload['_id']!r} have the same hash; change one"
                    )
                terms[point.id] = _terms(point)
        return terms

    def _changed(self, more: PassageIndex | None, old: Mapping[int, npt.NDArray[Any]]) -> QdrantIndex:
        """Return the statistics with the passages of `more` added, and those with terms in `old` removed."""
        # the collection may have been changed since it was opened
        now = _read_record(self.client, self.collection)["statistics"]
        counts = Counter(dict(zip(*(values.tolist() for values in now.table()), strict=True)))
        if more is not None:
            counts.update(dict(zip(*(values.tolist() for values in more.statistics.table()), strict=True)))
        for terms in old.values():
            counts.subtract(terms.tolist())
        # concurrent changes may have been counted wrongly, but no number is below 0
        return self._described(max(now.passages + (0 if more is None else len(more)) - len(old), 0), counts)

    def _described(self, passages: int | None = None, counts: Mapping[int, int] | None = None) -> QdrantIndex:
        """Return the index with other statistics, and store them in the metadata of the collection."""
        changed = self
        if passages is not None and counts is not None:
            there = sorted(term for term, count in counts.items() if count > 0)
            frequencies = np.array([counts[term] for term in there], np.int64)
            changed = cast("QdrantIndex", self.recounted(passages, np.array(there, np.int64), frequencies))
        self._request("update_collection", metadata={_RECORD: changed.record()})
        return changed


def open_index(place: str, models: Models) -> QdrantIndex:
    """Open a collection by its address, such as ``http://localhost:6333/passages``."""
    url, _, collection = place.rstrip("/").rpartition("/")
    if url.endswith(":/"):
        raise InputError(f"{place} has no collection name; add one to the address, e.g. {url}/{collection}/passages")
    return QdrantIndex.connect(client_of(url), collection)


def client_of(url: str) -> Any:
    """Make a client of a server, with the key of the environment."""
    make = import_extra("qdrant_client", "qdrant", "semclass-integrations").QdrantClient
    return make(url=url, api_key=os.environ.get(API_KEY_VARIABLE))


def _request(client: Any, name: str, collection: str, *args: Any, **options: Any) -> Any:
    """Call a method of the client. Errors of the server and of the network become an ArtifactError."""
    over_http = import_extra("qdrant_client.http.exceptions", "qdrant", "semclass-integrations").ApiException
    over_grpc = import_extra("grpc", "qdrant", "semclass-integrations").RpcError
    try:
        return getattr(client, name)(collection, *args, **options)
    except (over_http, over_grpc) as error:
        init = getattr(client, "init_options", {})
        address = str(init.get("url") or init.get("host") or "").rpartition("@")[2]  # without a password
        raise ArtifactError(
            f"the Qdrant server {address} failed at {name}: {error}; check the address and that the server runs, or "
            "give it more time (timeout=, in seconds, of QdrantClient)"
        ) from error


def _read_record(client: Any, collection: str) -> dict[str, Any]:
    """Read the attributes of an index from the metadata of a collection."""
    metadata = _request(client, "get_collection", collection).config.metadata or {}
    if _RECORD not in metadata:
        raise ArtifactError(f"collection {collection!r} contains no complete index of semclass; {_REMEDY}")
    return RemoteIndex.read(metadata[_RECORD], f"collection {collection!r}")


def _terms(point: Any) -> npt.NDArray[Any]:
    """Return the term ids of a point."""
    sparse = (point.vector or {}).get("bm25")
    return np.array([] if sparse is None else sparse.indices, np.int64)


def _points(rows: Sequence[StoredRow]) -> Any:
    """Make the points of rows."""
    models = requests()
    return models.Batch(
        ids=[point_id(row.passage.id) for row in rows],
        vectors={
            "mean": [row.mean.tolist() for row in rows],
            "excerpts": [row.excerpts.tolist() for row in rows],
            "bm25": [models.SparseVector(indices=row.terms.tolist(), values=row.impacts.tolist()) for row in rows],
            "sparse": [models.SparseVector(indices=[*row.learnt], values=[*row.learnt.values()]) for row in rows],
        },
        payloads=[
            {
                "_id": row.passage.id,
                "text": row.passage.text,
                "metadata": dict(row.passage.metadata),
                "packed": base64.b64encode(row.packed).decode(),
            }
            for row in rows
        ],
    )
