"""An index that Qdrant keeps, for corpora that outgrow one machine: the server finds candidates, re-ranking is done here.

A passage is a point with three vectors: ``dense``; ``bm25``, sparse, by word piece tf * (k1 + 1) / (tf + k1 * (1 - b + b *
|d| / avgdl)); and ``classes``, P(class | passage) and then the labels of 0 and 1. All are compared by inner product:
inverse document frequencies are the values of a question's sparse vector, its class probabilities (or its most probable
class alone) those of its class vector. So one request has the server compute

    dense + w * BM25 + lambda * match,

as a linear formula of raw scores, which means the same on one shard and on many. Candidates are the union of the best by
vector and the best by BM25, and every route scores all of them. A second request reads the components of the n best back,
from which the score is summed here; the engine's own number, in float32, decides only which passages these are. Of other
fusions the server gives the two lists and the scores of all that is in either; they are fused here, and a third request
reads the n best.

The statistics of the corpus (N, document frequencies) live in the metadata of the collection. They follow each
:meth:`QdrantIndex.add` and :meth:`QdrantIndex.delete`. The average length in the sparse vectors stays that of the upload,
for every vector holds it: a corpus whose passages grow much longer or shorter is better uploaded anew.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.checks import check_positive, check_text, check_texts, check_unique
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage, Ragged
from semclass.index import filters
from semclass.index.ingest import decoded
from semclass.index.passage_encoder import PassageReader, searchable
from semclass.index.passage_index import PassageIndex
from semclass.index.records import Candidates, Query, Scoring, no_evidence, sum_of
from semclass.index.segment import Segment
from semclass.integrations.qdrant_filters import to_qdrant
from semclass.scoring import bm25, fusion
from semclass.scoring.bm25 import Statistics
from semclass.scoring.quantisation import Codebook, from_int8
from semclass.scoring.topk import class_match, unit

DEPTH = 200
"""Best passages of each route that are scored by all routes, by default."""

BATCH = 256
"""Points of a request while uploading, at most."""

REQUEST = 8_000_000
"""Bytes of a request while uploading, of more points than one: a server takes 32 MB by default."""

NUMBER = 24
"""Bytes of a number in JSON, at most."""

BLOCK = 8192
"""Passages whose terms are gathered at a time: each time, all postings are looked through once."""

PAGE = 2048
"""Points of a request while statistics are counted."""

RECORD = "semclass"
"""Key of the collection's metadata below which the index describes itself."""

KIND = "qdrant-index"

_FIELDS = (
    *("encoder", "interaction", "classes", "thresholds", "similarity", "form", "codebooks"),
    *("passages", "average_length", "frequencies", "tuned"),
)

_REMEDY = "upload the index again with replace=True (semclass index upload --replace)"

_SHOWN = ("_id", "text", "metadata")
_CODES = ("tokens", "sentences", "terms")


class _Route(NamedTuple):
    """One way to score a passage: the vector that is compared, what with, and the weight of the result."""

    using: str
    vector: Any
    weight: float


@dataclass(frozen=True)
class QdrantIndex:
    """Passages in a collection of Qdrant; searched through :class:`semclass.HybridRetriever`, as one that was built here.

    Attributes
    ----------
    client
        A ``qdrant_client.QdrantClient``.
    collection
        Name of the collection.
    encoder, interaction, classes, thresholds, similarity, form, codebooks, tuned
        As of the :class:`semclass.PassageIndex` that was uploaded. The form is ``"lean"`` where the codes stayed behind.
    statistics
        What BM25 has to know of all passages, as the collection said when it was opened or last changed here; but the
        average length is that of the upload, which all sparse vectors were made with.
    depth
        How many of the best by vector, and as many by BM25, are scored by all routes; at least as many as are asked for. A
        passage that is behind this place by both is not found, whatever the sum.
    exact
        Whether vectors are searched in full; if not, through the HNSW graph that a server builds.
    """

    client: Any
    collection: str
    encoder: str
    interaction: str
    classes: tuple[str, ...]
    thresholds: DoubleArray
    similarity: str
    form: str
    codebooks: str
    statistics: Statistics
    tuned: Mapping[str, Any] = field(default_factory=dict)
    depth: int = DEPTH
    exact: bool = True

    def __len__(self) -> int:
        """Count the passages."""
        return self.statistics.passages

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for pieces that are no terms."""
        return self.statistics.idf

    @property
    def _server(self) -> _Server:
        return _Server(self.client)

    # -- opening and filling -------------------------------------------------------------------------------------------

    @classmethod
    def connect(
        cls, client: Any, collection: str, *, depth: int = DEPTH, exact: bool = True, **options: Any
    ) -> QdrantIndex:
        """Open a collection that :meth:`upload` filled.

        Parameters
        ----------
        client
            Address of a server, such as ``"http://localhost:6333"``, or a ``qdrant_client.QdrantClient``.
        collection
            Its name.
        depth, exact
            See the attributes.
        **options
            For ``QdrantClient`` beside the address, such as ``api_key``.

        Returns
        -------
        QdrantIndex
            Ready to be searched.

        Raises
        ------
        ArtifactError
            If the server does not answer, or the collection is not there, not complete, or of another protocol.
        MissingExtraError
            If the extra ``qdrant`` is not installed.
        """
        client = _open(client, options)
        if not _Server(client).collection_exists(collection):
            raise ArtifactError(f"there is no collection {collection!r}; upload an index (semclass index upload)")
        record = _record(client, collection)
        return cls(
            client=client,
            collection=collection,
            **{name: str(record[name]) for name in ("encoder", "interaction", "similarity", "form", "codebooks")},
            classes=tuple(record["classes"]),
            thresholds=np.array(record["thresholds"], np.float64),
            statistics=_unpack(record),
            tuned=dict(record["tuned"]),
            depth=check_positive(depth, "depth"),
            exact=exact,
        )

    @classmethod
    def upload(
        cls,
        index: PassageIndex,
        client: Any,
        collection: str,
        *,
        codes: bool = True,
        replace: bool = False,
        batch: int = BATCH,
        progress: Callable[[int], object] | None = None,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> QdrantIndex:
        """Make a collection of an index.

        Parameters
        ----------
        index
            What was built here.
        client, **options
            As for :meth:`connect`.
        collection
            Its name; it must not be there yet.
        codes
            Whether the codes of tokens and sentences go along, as base64 in the payload; if not, candidates are read again
            when they are re-ranked, as those of a lean index.
        replace
            Whether a collection of that name is removed first.
        batch
            Points of a request, at most.
        progress
            Called with the number of passages done, after each request.
        settings
            For ``QdrantClient.create_collection``: ``shard_number``, ``replication_factor``, ``hnsw_config``,
            ``quantization_config``, ``on_disk_payload`` ...

        Returns
        -------
        QdrantIndex
            The collection. It can be opened by others from now on, not before: what describes it is written last.

        Raises
        ------
        ArtifactError
            If the server does not answer.
        InputError
            If the collection is there and `replace` is not set.
        MissingExtraError
            If the extra ``qdrant`` is not installed.
        """
        check_text(collection, "collection")
        size = check_positive(batch, "batch")
        client = _open(client, options)
        if _Server(client).collection_exists(collection):
            if not replace:
                raise InputError(
                    f"there is a collection {collection!r} already; name another, or set replace=True (--replace)"
                )
            _Server(client).delete_collection(collection)
        made = cls(
            client=client,
            collection=collection,
            encoder=index.encoder,
            interaction=index.interaction,
            classes=index.classes,
            thresholds=index.thresholds,
            similarity=index.similarity,
            form=index.form if codes else "lean",
            codebooks=index.codebooks if codes else "",
            statistics=index.statistics,
            tuned=index.tuned,
        )
        made._create(index.segments[0].pooled_codes.shape[1], settings or {})
        made._send(index, size, progress)
        made._describe()
        return made

    def _create(self, dim: int, settings: Mapping[str, Any]) -> None:
        """Make the collection, without what describes it."""
        models = _models()
        dims = {"dense": dim + (self.similarity == "l2")}
        if self.classes:
            dims["classes"] = 2 * len(self.classes)
        self._server.create_collection(
            self.collection,
            vectors_config={
                name: models.VectorParams(size=size, distance=models.Distance.DOT) for name, size in dims.items()
            },
            sparse_vectors_config={"bm25": models.SparseVectorParams()},
            **settings,
        )

    def _send(self, index: PassageIndex, batch: int, progress: Callable[[int], object] | None) -> None:
        """Upsert every passage of an index that fits this one."""
        models = _models()
        for ids, vectors, payloads in _batches(index, batch, self):
            self._server.upsert(self.collection, models.Batch(ids=ids, vectors=vectors, payloads=payloads), wait=True)
            if progress is not None:
                progress(len(ids))

    def _describe(self) -> None:
        """Write what :meth:`connect` reads, in one step."""
        record = {
            "protocol": artifacts.PROTOCOL,
            "kind": KIND,
            "encoder": self.encoder,
            "interaction": self.interaction,
            "classes": list(self.classes),
            "thresholds": self.thresholds.tolist(),
            "similarity": self.similarity,
            "form": self.form,
            "codebooks": self.codebooks,
            "passages": self.statistics.passages,
            "average_length": self.statistics.average,
            "frequencies": _pack(self.statistics),
            "tuned": dict(self.tuned),
        }
        self._server.update_collection(self.collection, metadata={RECORD: record})

    # -- living --------------------------------------------------------------------------------------------------------

    def add(
        self, passages: Iterable[Passage], *, reader: PassageReader | None = None, batch: int = BATCH
    ) -> QdrantIndex:
        """Add passages; one whose id is there takes the old one's place.

        Document frequencies and N are counted on from what the collection says, and written when all passages are there.
        Who opened the collection before scores with what they know until they open it again. One process at a time may
        change a collection; where several did, or one was stopped, :meth:`refresh_statistics` counts anew.

        Parameters
        ----------
        passages
            At least one, as for :meth:`semclass.PassageIndex.build`.
        reader
            The models that read passages, those that the index was made with; the shipped ones if None.
        batch
            Points of a request, at most.

        Returns
        -------
        QdrantIndex
            The collection as it is now.

        Raises
        ------
        InputError, InputTypeError
            As for :meth:`semclass.PassageIndex.build`, or if the reader is of other models.
        """
        check_positive(batch, "batch")
        reader = PassageReader.load() if reader is None else reader
        if (reader.encoder.fingerprint, reader.interaction) != (self.encoder, self.interaction):
            raise InputError("the reader is of another encoder than the collection; load the models that made it")
        more = PassageIndex.build(passages, reader=reader, similarity=self.similarity, form=self.form)
        if (more.classes, more.codebooks) != (self.classes, self.codebooks):
            raise InputError(
                "the reader has other classes or codebooks than the collection; load the models that made it"
            )
        names = [passage.id for passage in more.passages(np.arange(len(more)))]
        old = self._terms_of(names)
        now = self._now()
        now._send(more, batch, None)
        changed = now._counted(len(more) - len(old), more.statistics.document_frequencies - self._count(old))
        changed._describe()
        return changed

    def delete(self, ids: Iterable[str]) -> QdrantIndex:
        """Delete passages, and take them out of the statistics; see :meth:`add` for who may do so when.

        Parameters
        ----------
        ids
            Of passages that are there, none twice.

        Returns
        -------
        QdrantIndex
            The collection as it is now.

        Raises
        ------
        InputError, InputTypeError
            If one is not there; nothing is deleted then.
        """
        names = check_texts(ids, "ids")
        check_unique(names)
        old = self._terms_of(names)
        if missing := [name for name in names if point_id(name) not in old]:
            raise InputError(f"there is no passage {missing[0]!r} in collection {self.collection!r}")
        models, now = _models(), self._now()
        self._server.delete(self.collection, models.PointIdsList(points=list(old)), wait=True)
        changed = now._counted(-len(old), -self._count(old))
        changed._describe()
        return changed

    def refresh_statistics(self) -> QdrantIndex:
        """Count N and document frequencies anew, over every point, and write them down.

        Returns
        -------
        QdrantIndex
            The collection as it is now; the average length stays what the sparse vectors were made with.
        """
        counts, n, offset = self._count({}), 0, None
        while True:
            points, offset = self._server.scroll(
                self.collection, limit=PAGE, offset=offset, with_payload=False, with_vectors=["bm25"]
            )
            counts += self._count({point.id: _terms(point) for point in points})
            n += len(points)
            if offset is None:
                break
        changed = replace(self, statistics=replace(self.statistics, passages=n, document_frequencies=counts))
        changed._describe()
        return changed

    def _now(self) -> QdrantIndex:
        """The same with the statistics as the collection has them: it may have been changed since this was opened."""
        return replace(self, statistics=_unpack(_record(self.client, self.collection)))

    def _counted(self, more: int, frequencies: IntArray) -> QdrantIndex:
        """The same with so many passages more, in which terms are so often."""
        found = self.statistics
        # what several processes changed at a time may have been counted wrongly, but is never below 0
        counts = np.maximum(found.document_frequencies + frequencies, 0)
        return replace(
            self, statistics=replace(found, passages=max(found.passages + more, 0), document_frequencies=counts)
        )

    def _count(self, terms: Mapping[int, npt.NDArray[Any]]) -> IntArray:
        """In how many of some passages each term is, int64 of shape (vocabulary,)."""
        joined = np.concatenate([np.zeros(0, np.int64), *terms.values()])
        return np.bincount(joined, minlength=len(self.statistics.is_term))

    def _terms_of(self, names: Sequence[str]) -> dict[int, npt.NDArray[Any]]:
        """Terms of the passages with these ids, by point, of those that are there."""
        numbers = {point_id(name): name for name in names}
        old = {}
        for start in range(0, len(names), PAGE):
            points = self._server.retrieve(
                self.collection, list(numbers)[start : start + PAGE], with_payload=["_id"], with_vectors=["bm25"]
            )
            for point in points:
                if point.payload["_id"] != numbers[point.id]:
                    raise InputError(
                        f"the ids {numbers[point.id]!r} and {point.payload['_id']!r} have the same hash; change one"
                    )
                old[point.id] = _terms(point)
        return old

    # -- searching -----------------------------------------------------------------------------------------------------

    def passages(self, rows: IntArray) -> list[Passage]:
        """Read passages back.

        Parameters
        ----------
        rows
            Their points, int64 of shape (m,).

        Returns
        -------
        list of Passage
            As they were handed in.

        Raises
        ------
        InputError
            If one is not there any more.
        """
        points = self._server.retrieve(self.collection, rows.tolist(), with_payload=list(_SHOWN))
        found = {point.id: _passage(point.payload) for point in points}
        if missing := [row for row in rows.tolist() if row not in found]:
            raise InputError(f"there is no point {missing[0]} in collection {self.collection!r}")
        return [found[row] for row in rows.tolist()]

    def candidates(
        self,
        query: Query,
        n: int,
        scoring: Scoring,
        *,
        reader: PassageReader | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Candidates:
        """Have the server score passages, and give the best; see :meth:`semclass.PassageIndex.candidates`.

        Parameters
        ----------
        query
            The question.
        n
            How many; fewer if the collection holds fewer.
        scoring
            How passages are scored.
        reader
            The models that read passages, where token vectors, sentence vectors and terms are wanted; without it their
            rows are empty.
        where
            A filter over the metadata, see :mod:`semclass.index.filters`: passages that do not match are not ranked.

        Returns
        -------
        Candidates
            Best first, equal scores by id. With the passages, which come in the same response.

        Raises
        ------
        InputError, InputTypeError
            If the filter is not one, or one that Qdrant cannot select the same passages by, see
            :func:`semclass.integrations.qdrant_filters.to_qdrant`.
        """
        idf = self.idf
        routes = self._routes(query, scoring, idf)
        chosen, codes, depth = _filter(where), reader is not None and self.form != "lean", max(fusion.DEPTH, n)
        linear = scoring.fusion == "linear"
        points = self._best(routes, n, chosen, codes=codes) if linear else self._lists(routes, depth, chosen)
        read = self._components([point.id for point in points], routes)
        # a passage that another process deleted between the two requests is left out
        points = [point for point in points if point.id in read["dense"]]
        dense = np.array([read["dense"][point.id] for point in points], np.float64) + self._offset(query)
        lexical = np.array([read["bm25"].get(point.id, 0.0) for point in points], np.float64)
        classes = [point.vector["classes"][: len(self.classes)] if self.classes else [] for point in points]
        probabilities = np.array(classes, np.float32).reshape(len(points), len(self.classes))
        lists = None if linear else depth
        w, alpha = scoring.bm25_weight, scoring.alpha
        parts = fusion.fused(dense, lexical, scoring.fusion, weight=w, alpha=alpha, depth=lists).parts
        matched = None
        if scoring.match is not None:
            matched = class_match(query.probabilities, probabilities, self.thresholds, scoring.match)
            parts["match"] = scoring.match_weight * matched
        score = sum_of(parts)
        order = np.lexsort((np.array([point.payload["_id"] for point in points], str), -score))[:n]
        points = [points[place] for place in order]
        if not linear:
            points, kept = self._read(points, codes=codes)
            order = order[kept]
        passages = tuple(_passage(point.payload) for point in points)
        tokens, sentences, terms = (
            no_evidence(len(points)) if reader is None else self._evidence(points, passages, reader)
        )
        return Candidates(
            rows=np.array([point.id for point in points], np.int64),
            dense=dense[order],
            bm25=lexical[order],
            match=None if matched is None else matched[order],
            parts={name: values[order] for name, values in parts.items()},
            score=score[order],
            probabilities=probabilities[order],
            thresholds=self.thresholds,
            tokens=tokens,
            sentences=sentences,
            terms=terms,
            idf=idf,
            passages=passages,
        )

    def _routes(self, query: Query, scoring: Scoring, idf: FloatArray) -> list[_Route]:
        """What the question is compared with, and what the results are multiplied with."""
        models = _models()
        pooled = unit(query.pooled) if self.similarity == "cosine" else query.pooled
        # 1 - |q - p|**2 / 2 = q.p - |p|**2 / 2 + (1 - |q|**2 / 2): passages bring |p|**2 / 2 as one component more
        dense = np.append(pooled, np.float32(-1)) if self.similarity == "l2" else pooled
        routes = [_Route("dense", dense.tolist(), 1.0)]
        terms, counts = np.unique(query.terms, return_counts=True)
        known = idf[terms] > 0
        if known.any():
            weights = (counts * idf[terms])[known]
            sparse = models.SparseVector(indices=terms[known].tolist(), values=weights.tolist())
            routes.append(_Route("bm25", sparse, scoring.bm25_weight))
        if scoring.match is not None:
            asked, nothing = query.probabilities, np.zeros_like(query.probabilities)
            if scoring.match == "hard":
                asked, nothing = nothing, (np.arange(len(asked)) == asked.argmax()).astype(np.float64)
            routes.append(_Route("classes", [*asked.tolist(), *nothing.tolist()], scoring.match_weight))
        return routes

    def _offset(self, query: Query) -> float:
        """What belongs to the similarity and is the same for all passages."""
        return 1 - float(query.pooled @ query.pooled) / 2 if self.similarity == "l2" else 0.0

    def _best(self, routes: Sequence[_Route], n: int, where: Any, *, codes: bool) -> list[Any]:
        """The one request that scores: points with payload and class vector, best first."""
        models = _models()
        params = models.SearchParams(exact=True) if self.exact else None
        depth = max(self.depth, n)
        counting = [route for route in routes if route.weight > 0]
        # thousands of passages share a class, so that the best by class are as good as any
        finding = [route for route in counting if route.using != "classes"]

        def best() -> list[Any]:
            return [
                models.Prefetch(query=route.vector, using=route.using, filter=where, limit=depth, params=params)
                for route in finding
            ]

        # every route scores what any of them found: what a flat prefetch lacks would count as 0
        nested = [
            models.Prefetch(
                prefetch=best(), query=route.vector, using=route.using, limit=len(finding) * depth, params=params
            )
            for route in counting
        ]
        names = [f"$score[{place}]" for place in range(len(counting))]
        terms = [models.MultExpression(mult=[route.weight, name]) for route, name in zip(counting, names, strict=True)]
        return list(
            self._server.query_points(
                self.collection,
                prefetch=nested,
                query=models.FormulaQuery(formula=models.SumExpression(sum=terms), defaults=dict.fromkeys(names, 0.0)),
                limit=n,
                with_payload=[*_SHOWN, *(_CODES if codes else ())],
                with_vectors=["classes"] if self.classes else False,
            ).points
        )

    def _lists(self, routes: Sequence[_Route], depth: int, where: Any) -> list[Any]:
        """The first points of each list, by vector and by BM25, with id and class vector, in order of the ids."""
        models = _models()
        requests = [
            models.QueryRequest(
                query=models.NearestQuery(nearest=route.vector),
                using=route.using,
                filter=where,
                limit=depth,
                params=models.SearchParams(exact=True) if self.exact else None,
                with_payload=["_id"],
                with_vector=["classes"] if self.classes else False,
            )
            for route in routes
            if route.using != "classes"
        ]
        responses = self._server.query_batch_points(self.collection, requests)
        found = {point.id: point for response in responses for point in response.points}
        return sorted(found.values(), key=lambda point: point.payload["_id"])

    def _read(self, points: Sequence[Any], *, codes: bool) -> tuple[list[Any], list[int]]:
        """The same points with all that is shown, and which they are: one that was deleted meanwhile is left out."""
        read = self._server.retrieve(
            self.collection,
            [point.id for point in points],
            with_payload=[*_SHOWN, *(_CODES if codes else ())],
        )
        found = {point.id: point for point in read}
        kept = [place for place, point in enumerate(points) if point.id in found]
        return [found[points[place].id] for place in kept], kept

    def _components(self, points: Sequence[int], routes: Sequence[_Route]) -> dict[str, dict[int, float]]:
        """Similarity and BM25 score of some points, by name and point; a point without any of the terms has no BM25."""
        models = _models()
        read: dict[str, dict[int, float]] = {"dense": {}, "bm25": {}}
        asked = [route for route in routes if route.using in read]
        if not points:
            return read
        these = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        requests = [
            models.QueryRequest(
                query=models.NearestQuery(nearest=route.vector),
                using=route.using,
                filter=these,
                limit=len(points),
                params=models.SearchParams(exact=True),  # these very points, not those that a graph comes by
            )
            for route in asked
        ]
        responses = self._server.query_batch_points(self.collection, requests)
        for route, response in zip(asked, responses, strict=True):
            read[route.using] = {point.id: point.score for point in response.points}
        return read

    def _evidence(
        self, points: Sequence[Any], passages: Sequence[Passage], reader: PassageReader
    ) -> tuple[Ragged, Ragged, Ragged]:
        """What re-ranking needs of candidates, see :meth:`semclass.PassageIndex.evidence`."""
        sizes = (
            reader.encoder.views["tokens"] if reader.branch is None else reader.branch.dim,
            reader.encoder.views["pooled"],
        )
        if not points:
            tokens, sentences = (Ragged(np.zeros((0, size), np.float32), np.zeros(1, np.int64)) for size in sizes)
            return tokens, sentences, Ragged(np.zeros(0, np.int64), np.zeros(1, np.int64))
        if self.form == "lean":
            return reader.read_sentences([searchable(passage) for passage in passages])
        books = reader.codebooks if self.codebooks else None
        terms = _bytes(points, "terms", np.dtype("<u4"), 1)
        tokens = _vectors(points, "tokens", None if books is None else books.tokens, sizes[0])
        sentences = _vectors(points, "sentences", None if books is None else books.sentences, sizes[1])
        return tokens, sentences, Ragged(terms.values[:, 0], terms.offsets)


def point_id(name: str) -> int:
    """Number of the point that holds a passage: 63 bits of a hash of its id.

    Two of a million passages share a number with a probability of 5e-8, two of a hundred million with one of 5e-4. Adding
    the second is refused; within one upload it would take the first one's place.
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def _filter(where: Mapping[str, Any] | None) -> Any:
    """A filter as the client takes it."""
    return None if where is None else to_qdrant(filters.parse(where), key="metadata", point_id=point_id)


def _open(client: Any, options: Mapping[str, Any]) -> Any:
    """A client for an address."""
    if not isinstance(client, str):
        if given := [name for name, value in options.items() if value is not None]:
            raise InputError(f"{given[0]} goes with the address of a server; a client was given, which has its own")
        return client
    return import_extra("qdrant_client", "qdrant").QdrantClient(url=client, **options)


def _models() -> Any:
    return import_extra("qdrant_client.models", "qdrant")


@dataclass(frozen=True)
class _Server:
    """A client whose methods tell errors of the server, and of the way there, as :class:`ArtifactError`."""

    client: Any

    def __getattr__(self, name: str) -> Any:
        """A method of the client."""
        return partial(_ask, self.client, name)


def _ask(client: Any, name: str, *args: Any, **options: Any) -> Any:
    over_http = import_extra("qdrant_client.http.exceptions", "qdrant").ApiException
    over_grpc = import_extra("grpc", "qdrant").RpcError
    try:
        return getattr(client, name)(*args, **options)
    except (over_http, over_grpc) as error:
        given = getattr(client, "init_options", {})
        address = str(given.get("url") or given.get("host") or "").rpartition("@")[2]  # without a password
        raise ArtifactError(
            f"the Qdrant server {address} does not answer {name} as it should: {error}; is the address right, is it up, "
            "does it need more time (timeout=, in seconds, of QdrantClient)?"
        ) from error


def _record(client: Any, collection: str) -> dict[str, Any]:
    """What a collection says of itself."""
    record: dict[str, Any] | None = (_Server(client).get_collection(collection).config.metadata or {}).get(RECORD)
    where = f"collection {collection!r}"
    if record is None:
        raise ArtifactError(f"{where} holds no complete index of semclass; {_REMEDY}")
    artifacts.check_protocol(record, where, KIND)
    if missing := [name for name in _FIELDS if name not in record]:
        raise ArtifactError(f"{where} has no field {missing[0]!r}; {_REMEDY}")
    return record


def _batches(
    index: PassageIndex, batch: int, target: QdrantIndex
) -> Iterator[tuple[list[int], dict[str, Any], list[dict[str, Any]]]]:
    """Points of the passages of an index: numbers, vectors by name, and payloads."""
    models = _models()
    for segment, first, rows in _live(index):
        terms, values = bm25.impacts(segment.postings, first, first + BLOCK, target.statistics.average)
        for begin in range(0, len(rows), batch):
            here = rows[begin : begin + batch]
            vectors: dict[str, Any] = {"dense": _dense(segment, here, index.similarity).tolist(), "bm25": []}
            for row in here - first:
                span = slice(terms.offsets[row], terms.offsets[row + 1])
                sparse = models.SparseVector(indices=terms.values[span].tolist(), values=values[span].tolist())
                vectors["bm25"].append(sparse)
            if index.classes:
                probabilities = segment.probabilities[here]
                labels = probabilities >= index.thresholds
                vectors["classes"] = np.concatenate([probabilities, labels], axis=1).tolist()
            passages = segment.passages(here)
            payloads = [
                {"_id": passage.id, "text": passage.text, "metadata": dict(passage.metadata)} for passage in passages
            ]
            if target.form != "lean":
                _put_codes(payloads, segment, here)
            ids = [point_id(passage.id) for passage in passages]
            for some in _requests(vectors, payloads):
                yield ids[some], {name: rows[some] for name, rows in vectors.items()}, payloads[some]


def _requests(vectors: Mapping[str, Any], payloads: Sequence[Mapping[str, Any]]) -> Iterator[slice]:
    """Cut points so that each request is as large as a server takes."""
    numbers = sum(len(rows[0]) for name, rows in vectors.items() if name != "bm25")
    begin = total = 0
    for place, (sparse, payload) in enumerate(zip(vectors["bm25"], payloads, strict=True)):
        size = NUMBER * (numbers + 2 * len(sparse.values)) + len(json.dumps(payload))
        if place > begin and total + size > REQUEST:
            yield slice(begin, place)
            begin, total = place, 0
        total += size
    yield slice(begin, len(payloads))


def _live(index: PassageIndex) -> Iterator[tuple[Segment, int, IntArray]]:
    """Blocks of the segments: the segment, the block's first row in it, and its rows that were not removed."""
    for segment, keep in index.parts():
        there = np.ones(len(segment), np.bool_) if keep is None else keep
        for first in range(0, len(segment), BLOCK):
            yield segment, first, first + np.flatnonzero(there[first : first + BLOCK])


def _dense(segment: Segment, rows: IntArray, similarity: str) -> FloatArray:
    """Vectors that an inner product compares, float32 of shape (m, dim), or (m, dim + 1) for ``"l2"``.

    They are those that the index compares: not stretched to length 1 again, from which rounding took them.
    """
    codes = segment.pooled_codes[rows]
    vectors = codes if codes.dtype == np.float32 else from_int8(codes, segment.pooled_levels[rows])
    if similarity != "l2":
        return np.asarray(vectors)
    squares = np.einsum("nd,nd->n", vectors, vectors)
    return np.concatenate([vectors, squares[:, None] / 2], axis=1)


def _put_codes(payloads: Sequence[dict[str, Any]], segment: Segment, rows: IntArray) -> None:
    """Add what re-ranking needs: bytes of codes, and term ids of four bytes each."""
    for name in _CODES:
        found: Ragged = getattr(segment, name).take(rows)
        values = found.values.astype("<u4") if name == "terms" else found.values
        for place, payload in enumerate(payloads):
            piece = values[found.offsets[place] : found.offsets[place + 1]]
            payload[name] = base64.b64encode(piece.tobytes()).decode()


def _bytes(points: Sequence[Any], name: str, dtype: np.dtype[Any], width: int) -> Ragged:
    """Rows of `width` values each, from the payloads."""
    pieces = [base64.b64decode(point.payload[name]) for point in points]
    lengths = np.array([len(piece) // (dtype.itemsize * width) for piece in pieces], np.int64)
    values = np.frombuffer(b"".join(pieces), dtype).reshape(-1, width)
    return Ragged(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def _vectors(points: Sequence[Any], name: str, book: Codebook | None, dim: int) -> Ragged:
    """Unit vectors from codes, as the index decodes them."""
    dtype, width = (np.dtype(np.int8), dim) if book is None else (np.dtype(np.uint8), book.parts)
    found = _bytes(points, name, dtype, width)
    return Ragged(decoded(found.values, book), found.offsets)


def _passage(payload: Mapping[str, Any]) -> Passage:
    return Passage(payload["_id"], payload["text"], payload["metadata"])


def _terms(point: Any) -> npt.NDArray[Any]:
    found = (point.vector or {}).get("bm25")
    return np.array([] if found is None else found.indices, np.int64)


def _pack(found: Statistics) -> str:
    """Document frequencies as text: 32 bits each, one more than they are, or 0 for what is no term; compressed."""
    numbers = np.where(found.is_term, found.document_frequencies + 1, 0).astype("<u4")
    return base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode()


def _unpack(record: Mapping[str, Any]) -> Statistics:
    try:
        numbers = np.frombuffer(zlib.decompress(base64.b64decode(record["frequencies"])), "<u4").astype(np.int64)
    except (ValueError, zlib.error) as error:
        raise ArtifactError(f"the statistics of the collection are damaged ({error}); {_REMEDY}") from error
    counts = np.maximum(numbers - 1, 0)
    return Statistics(int(record["passages"]), float(record["average_length"]), counts, numbers > 0)
