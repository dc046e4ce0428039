"""An index in Qdrant, for corpora that outgrow one machine.

The server finds candidates, and this process re-ranks them.

A passage is a point with vectors that are compared by inner product. ``mean`` is the mean of its sentences.
``sentences`` is a multi-vector, of which the best sentence counts. ``bm25`` is a sparse vector with tf * (k1 + 1) / (tf
+ k1 * (1 - b + b * |d| / avgdl)) for each word piece, which is multiplied with a question's inverse document
frequencies. ``classes`` holds P(class | passage), followed by the labels as 0 and 1. The statistics of the corpus (N,
document frequencies) are in the metadata of the collection, and ``add`` and ``delete`` update them. The average length
stays that of the upload, because every sparse vector depends on it. Upload the corpus again if its passages become much
longer or shorter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from semclass.core.checks import check_positive, check_text, check_texts, check_unique
from semclass.core.errors import ArtifactError, InputError
from semclass.core.types import IntArray, Passage
from semclass.index import filters
from semclass.index.labels import check_heads
from semclass.index.passage_encoder import PassageEncoder, no_evidence
from semclass.index.passage_index import PassageIndex
from semclass.index.records import Candidates, Query, Scoring
from semclass.ranking.models import Models
from semclass.scoring import fusion
from semclass.scoring.bm25 import Statistics
from semclass.scoring.quantisation import COMPONENTS
from semclass_integrations import qdrant_collection as stored
from semclass_integrations.qdrant_search import Search, read_evidence, routes_of, score, take, to_qdrant


@dataclass(frozen=True)
class QdrantIndex(stored.ServedIndex):
    """Passages in a collection of Qdrant. :class:`semclass.HybridRetriever` searches the collection like a local index.

    Attributes
    ----------
    client, collection
        A ``qdrant_client.QdrantClient``, and the name of the collection.
    encoder, classes, thresholds, small, codebooks, heads, tuned
        The attributes of the uploaded :class:`semclass.PassageIndex`. `small` is true after an upload without codes.
    statistics
        N and document frequencies for BM25, as they were when this object opened or last changed the collection.
    depth
        How many of the best passages by vectors, and how many of the best by BM25, get all scores. This is at least the
        number of hits of a search. A passage behind this place in both rankings is not found, even if its sum is high.
    exact
        Whether to search vectors exhaustively. If false, the server uses its HNSW graph.
    """

    client: Any
    collection: str
    depth: int = 200
    exact: bool = True
    kind = "qdrant"

    def check_passage_encoder(self, passage_encoder: PassageEncoder) -> None:
        """Do nothing. The server returns codes, and refuses vectors of another length."""

    @property
    def _server(self) -> stored.Server:
        return stored.Server(self.client)

    @classmethod
    def connect(
        cls, client: Any, collection: str, *, depth: int = 200, exact: bool = True, **options: Any
    ) -> QdrantIndex:
        """Open a collection that :meth:`upload` filled.

        Parameters
        ----------
        client
            Address of a server, such as ``"http://localhost:6333"``, or a ``qdrant_client.QdrantClient``.
        collection, depth, exact
            See the attributes.
        **options
            Further arguments of ``QdrantClient``, such as ``api_key``.

        Raises
        ------
        ArtifactError
            If the server does not answer, or the collection does not exist, is incomplete, or has another protocol.
        """
        client = stored.open_client(client, options)
        if not stored.Server(client).collection_exists(collection):
            raise ArtifactError(f"collection {collection!r} does not exist; upload an index (semclass index upload)")
        record = stored.read_record(stored.Server(client), collection)
        return cls(client, collection, depth=check_positive(depth, "depth"), exact=exact, **record)

    @classmethod
    def upload(
        cls,
        index: PassageIndex,
        client: Any,
        collection: str,
        *,
        codes: bool = True,
        replace: bool = False,
        progress: Callable[[int], object] | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> QdrantIndex:
        """Upload an index as a collection. Others can open the collection when the upload is complete.

        Parameters
        ----------
        client, **options
            See :meth:`connect`.
        codes
            Whether to store the codes of tokens and sentences. If false, re-ranking encodes the candidates again.
        replace
            Whether to remove an existing collection of the same name first.
        progress
            Function that is called with the number of passages of each request.
        settings
            Arguments of ``QdrantClient.create_collection``, such as ``shard_number``, ``hnsw_config``, ``on_disk_payload``.

        Raises
        ------
        ArtifactError, InputError
            If the server does not answer, or the collection exists and `replace` is not set.
        """
        check_text(collection, "collection")
        client = stored.open_client(client, options)
        if stored.Server(client).collection_exists(collection):
            if not replace:
                raise InputError(
                    f"collection {collection!r} exists already; name another, or set replace=True (--replace)"
                )
            stored.Server(client).delete_collection(collection)
        copied = {one.name: getattr(index, one.name) for one in fields(stored.ServedIndex)}
        made = cls(client, collection, **copied | ({} if codes else {"small": True, "codebooks": ""}))
        models = stored.client_models()
        sentences = index.segments[0].sentences.values
        columns = sentences.shape[1] * (COMPONENTS if sentences.dtype == np.uint8 else 1)
        dims = dict.fromkeys(("mean", "sentences"), columns)
        dims |= {"classes": 2 * len(made.classes)} if made.classes else {}
        best = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
        made._server.create_collection(
            collection,
            vectors_config={
                name: models.VectorParams(
                    size=size,
                    distance=models.Distance.DOT,
                    multivector_config=best if name == "sentences" else None,
                )
                for name, size in dims.items()
            },
            sparse_vectors_config={"bm25": models.SparseVectorParams()},
            **(settings or {}),
        )
        made._send(index, progress)
        return made._described(index.statistics)

    def _send(self, index: PassageIndex, progress: Callable[[int], object] | None = None) -> None:
        """Upsert every passage of an index."""
        for points in stored.batches(index, self.statistics.average, codes=not self.small):
            self._server.upsert(self.collection, points, wait=True)
            if progress is not None:
                progress(len(points.ids))

    def _described(self, statistics: Statistics) -> QdrantIndex:
        """The same with other statistics, which are written down with all that :meth:`connect` reads."""
        changed = replace(self, statistics=statistics)
        stored.write_record(self._server, self.collection, changed)
        return changed

    def add(self, passages: Iterable[Passage], *, passage_encoder: PassageEncoder | None = None) -> QdrantIndex:
        """Add passages, and return the changed collection. A passage with an existing id replaces the old passage.

        The statistics in the collection are updated at the end. Objects that were opened earlier keep the old
        statistics. Only one process at a time may change a collection. If several processes changed it, or a process
        was stopped, call :meth:`refresh_statistics`.

        Parameters
        ----------
        passages
            At least one passage. See :meth:`semclass.PassageIndex.build`.
        passage_encoder
            The models that built the index. Other models raise an ``InputError``. Defaults to the shipped models.
        """
        passage_encoder = PassageEncoder.load() if passage_encoder is None else passage_encoder
        if passage_encoder.encoder.fingerprint != self.encoder:
            raise InputError("the collection was built with another encoder; load the models that built it")
        check_heads(f"collection {self.collection!r}", self.heads, passage_encoder.head_fingerprints)
        more = PassageIndex.build(passages, passage_encoder=passage_encoder, small=self.small)
        if (more.classes, more.codebooks) != (self.classes, self.codebooks):
            raise InputError("models and collection differ in classes or codebooks; load the models that built it")
        names = [passage.id for passage in more.passages(np.arange(len(more)))]
        old = stored.terms_by_point(self._server, self.collection, names)
        self._send(more)
        return self._changed(len(more), more.statistics.document_frequencies, old)

    def delete(self, ids: Iterable[str]) -> QdrantIndex:
        """Delete passages by their ids, and return the changed collection.

        Only one process at a time may change a collection, see :meth:`add`.

        Raises
        ------
        InputError, InputTypeError
            If an id is unknown or comes twice. The call then deletes nothing.
        """
        names = check_texts(ids, "ids")
        check_unique(names)
        old = stored.terms_by_point(self._server, self.collection, names)
        if missing := [name for name in names if stored.point_id(name) not in old]:
            raise InputError(f"collection {self.collection!r} has no passage {missing[0]!r}; correct the id")
        self._server.delete(self.collection, stored.client_models().PointIdsList(points=list(old)), wait=True)
        return self._changed(0, 0, old)

    def _changed(self, more: int, frequencies: IntArray | int, old: Mapping[int, IntArray]) -> QdrantIndex:
        """The same with `more` passages of some document frequencies, and without those whose terms are in `old`."""
        # the collection may have been changed since this was opened
        now = stored.read_record(self._server, self.collection)["statistics"]
        # concurrent changes may have been counted wrongly, but no number is below 0
        counts = now.document_frequencies + frequencies - stored.count_terms(old, len(now.is_term))
        passages = max(now.passages + more - len(old), 0)
        return self._described(replace(now, passages=passages, document_frequencies=np.maximum(counts, 0)))

    def refresh_statistics(self) -> QdrantIndex:
        """Count N and document frequencies again over all points, and store them in the collection."""
        size = len(self.statistics.is_term)
        counts, n, offset = np.zeros(size, np.int64), 0, None
        while True:
            points, offset = self._server.scroll(
                self.collection, limit=stored.PAGE, offset=offset, with_payload=False, with_vectors=["bm25"]
            )
            counts += stored.count_terms({point.id: stored.terms_of(point) for point in points}, size)
            n += len(points)
            if offset is None:
                return self._described(replace(self.statistics, passages=n, document_frequencies=counts))

    def passages(self, rows: IntArray) -> list[Passage]:
        """Return passages by their points, int64 of shape (m,). Raises an InputError if a point no longer exists."""
        points = self._server.retrieve(self.collection, rows.tolist(), with_payload=list(stored.SHOWN))
        found = {point.id: stored.passage_of(point.payload) for point in points}
        if missing := [row for row in rows.tolist() if row not in found]:
            raise InputError(f"collection {self.collection!r} has no point {missing[0]}; it may have been deleted")
        return [found[row] for row in rows.tolist()]

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        passage_encoder: PassageEncoder | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Let the server score passages, and return the best. Passages with equal scores are in the order of their ids.

        The arguments are the same as in :meth:`semclass.PassageIndex.candidates`.
        """
        routes = routes_of(query, scoring, self.idf)
        payload = stored.SHOWN if passage_encoder is None or self.small else stored.SHOWN + stored.CODES
        vectors = ["classes"] if self.classes else False
        requests = Search(self._server, self.collection, self.exact, list(payload), vectors)
        chosen = None if where is None else to_qdrant(filters.parse(where))
        depth, linear = max(fusion.DEPTH, n), scoring.fusion == "linear"
        found = (
            requests.best(routes, max(self.depth, n), chosen, n) if linear else requests.lists(routes, depth, chosen)
        )
        read = requests.components([point.id for point in found], routes)
        # a passage that another process deleted between the two requests is left out
        points = [point for point in found if point.id in read["dense"]]
        fields = score(points, read, query, scoring, self.thresholds, None if linear else depth)
        order = np.lexsort((np.array([point.payload["_id"] for point in points], str), -fields["score"]))[:n]
        points = [points[place] for place in order]
        if not linear:
            points, kept = requests.read(points)
            order = order[kept]
        passages = tuple(stored.passage_of(point.payload) for point in points)
        evidence = no_evidence(len(points))
        if passage_encoder is not None and points:
            evidence = read_evidence(points, passages, passage_encoder, small=self.small)
        return Candidates(
            rows=np.array([point.id for point in points], np.int64),
            thresholds=self.thresholds,
            idf=self.idf,
            passages=passages,
            evidence=evidence,
            **{name: take(values, order) for name, values in fields.items()},
        )


API_KEY_VARIABLE = "SEMCLASS_QDRANT_API_KEY"
"""Environment variable that holds the key of a Qdrant server: command lines are visible to everybody."""


def open_index(place: str, models: Models) -> QdrantIndex:
    """Open a collection by its address, such as ``http://localhost:6333/passages``."""
    url, _, collection = place.rstrip("/").rpartition("/")
    if url.endswith(":/"):
        raise InputError(f"{place} has no collection name; add one to the address, e.g. {url}/{collection}/passages")
    return QdrantIndex.connect(url, collection, api_key=os.environ.get(API_KEY_VARIABLE))
