"""A collection of Qdrant: the server, the record of an index, and points made of passages."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage, Ragged
from semclass.index import manifest
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Segment
from semclass.scoring import bm25
from semclass.scoring.bm25 import Statistics
from semclass.scoring.quantisation import from_quarter_bytes

_KIND, _PROTOCOL = "qdrant-index", 5  # what a collection holds, and the version of its format
_RECORD = "semclass"  # key of the collection's metadata below which the index describes itself
_REMEDY = "upload the index again with replace=True (semclass index upload --replace)"
SHOWN = ("_id", "text", "metadata")  # keys of a payload that hold a passage
CODES = ("tokens", "sentences", "provides", "pieces")  # keys of a payload that hold what re-ranking reads

PAGE = 2048  # points of a request while statistics are counted
BATCH = 32  # points of a request: a server takes 32 MB by default, and a long passage's vectors may be 0.7 MB
BLOCK = 8192  # passages whose terms are gathered at a time: each time, all postings are looked through once


def open_client(client: Any, options: Mapping[str, Any]) -> Any:
    """A client for an address."""
    if not isinstance(client, str):
        if given := [name for name, value in options.items() if value is not None]:
            raise InputError(f"{given[0]} needs the address of a server, not a client; set it on the client instead")
        return client
    return import_extra("qdrant_client", "qdrant").QdrantClient(url=client, **options)


def client_models() -> Any:
    """The client's module of requests."""
    return import_extra("qdrant_client.models", "qdrant")


@dataclass(frozen=True)
class Server:
    """A client whose methods raise errors of the server and of the network as :class:`ArtifactError`."""

    client: Any

    def __getattr__(self, name: str) -> Any:
        """A method of the client."""
        return partial(self._request, name)

    def _request(self, name: str, *args: Any, **options: Any) -> Any:
        over_http = import_extra("qdrant_client.http.exceptions", "qdrant").ApiException
        over_grpc = import_extra("grpc", "qdrant").RpcError
        try:
            return getattr(self.client, name)(*args, **options)
        except (over_http, over_grpc) as error:
            given = getattr(self.client, "init_options", {})
            address = str(given.get("url") or given.get("host") or "").rpartition("@")[2]  # without a password
            raise ArtifactError(
                f"the Qdrant server {address} failed at {name}: {error}; check the address, check that the server runs, or "
                "give it more time (timeout=, in seconds, of QdrantClient)"
            ) from error


@dataclass(frozen=True, kw_only=True)
class ServedIndex:
    """What an index outside of this process copies of a :class:`semclass.PassageIndex`, whose attributes it has."""

    encoder: str
    classes: tuple[str, ...]
    thresholds: DoubleArray
    small: bool
    codebooks: str
    statistics: Statistics
    heads: Mapping[str, str] = field(default_factory=dict)
    tuned: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the passages."""
        return self.statistics.passages

    @property
    def idf(self) -> FloatArray:
        """Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for a piece that is no term."""
        return self.statistics.idf


def write_fields(index: PassageIndex | ServedIndex) -> dict[str, Any]:
    """What a :class:`ServedIndex` holds, in JSON types."""
    statistics = index.statistics
    # one more than the document frequency, or 0 for what is no term
    numbers = np.where(statistics.is_term, statistics.document_frequencies + 1, 0).astype("<u4")
    return {
        **manifest.header_of(vars(index)),
        "tuned": dict(index.tuned),
        "passages": statistics.passages,
        "average_length": statistics.average,
        "frequencies": base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode(),
    }


def read_fields(record: Mapping[str, Any], where: str, remedy: str) -> dict[str, Any]:
    """Read what :func:`write_fields` gave."""
    try:
        numbers = np.frombuffer(zlib.decompress(base64.b64decode(record["frequencies"])), "<u4").astype(np.int64)
        frequencies, average = np.maximum(numbers - 1, 0), float(record["average_length"])
        return {
            **{name: str(record[name]) for name in ("encoder", "codebooks")},
            "small": bool(record["small"]),
            "classes": tuple(record["classes"]),
            "thresholds": np.array(record["thresholds"], np.float64),
            "heads": dict(record.get("heads", {})),
            "tuned": dict(record["tuned"]),
            "statistics": Statistics(int(record["passages"]), average, frequencies, numbers > 0),
        }
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ArtifactError(f"{where} is damaged ({error!r}); {remedy}") from error


def read_record(server: Server, collection: str) -> dict[str, Any]:
    """Read the record of a collection, see :func:`read_fields`."""
    record: dict[str, Any] | None = (server.get_collection(collection).config.metadata or {}).get(_RECORD)
    where = f"collection {collection!r}"
    if record is None:
        raise ArtifactError(f"{where} holds no complete index of semclass; {_REMEDY}")
    artifacts.check_protocol(record, where, _KIND, _PROTOCOL)
    return read_fields(record, where, _REMEDY)


def write_record(server: Server, collection: str, index: ServedIndex) -> None:
    """Write the record of a collection, in one step."""
    described = {"protocol": _PROTOCOL, "kind": _KIND, **write_fields(index)}
    server.update_collection(collection, metadata={_RECORD: described})


def point_id(name: str) -> int:
    """Number of the point that holds a passage: 63 bits of a hash of its id.

    Two of a million passages share a number with a probability of 5e-8, two of a hundred million with one of 5e-4. Adding
    the second is refused; within one upload it would take the first one's place.
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 1


def passage_of(payload: Mapping[str, Any]) -> Passage:
    """Read the passage of a payload."""
    return Passage(payload["_id"], payload["text"], payload["metadata"])


def terms_of(point: Any) -> npt.NDArray[Any]:
    """Term ids of a point."""
    found = (point.vector or {}).get("bm25")
    return np.array([] if found is None else found.indices, np.int64)


def terms_by_point(server: Server, collection: str, names: Sequence[str]) -> dict[int, npt.NDArray[Any]]:
    """Term ids of the passages with these ids that are there, by point."""
    numbers = {point_id(name): name for name in names}
    old = {}
    for start in range(0, len(names), PAGE):
        some = list(numbers)[start : start + PAGE]
        for point in server.retrieve(collection, some, with_payload=["_id"], with_vectors=["bm25"]):
            if point.payload["_id"] != numbers[point.id]:
                raise InputError(
                    f"the ids {numbers[point.id]!r} and {point.payload['_id']!r} have the same hash; change one"
                )
            old[point.id] = terms_of(point)
    return old


def count_terms(terms: Mapping[int, npt.NDArray[Any]], size: int) -> IntArray:
    """In how many of some passages each term is, int64 of shape (size,)."""
    return np.bincount(np.concatenate([np.zeros(0, np.int64), *terms.values()]), minlength=size)


def batches(index: PassageIndex, average: float, *, codes: bool) -> Iterator[Any]:
    """Points of the passages of an index, a request at a time."""
    models = client_models()
    for segment, first, rows in live(index):
        terms, values = bm25.impacts(segment.postings, first, first + BLOCK, average)
        for begin in range(0, len(rows), BATCH):
            here = rows[begin : begin + BATCH]
            vectors: dict[str, Any] = {**dense(segment, here), "bm25": []}
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
            if codes:
                _put_codes(payloads, segment, here)
            yield models.Batch(ids=[point_id(passage.id) for passage in passages], vectors=vectors, payloads=payloads)


def live(index: PassageIndex) -> Iterator[tuple[Segment, int, IntArray]]:
    """Blocks of the segments: the segment, the block's first row in it, and its rows that were not removed."""
    for segment, keep in index.parts():
        there = np.ones(len(segment), np.bool_) if keep is None else keep
        for first in range(0, len(segment), BLOCK):
            yield segment, first, first + np.flatnonzero(there[first : first + BLOCK])


def dense(segment: Segment, rows: IntArray) -> dict[str, Any]:
    """Means and sentences of passages as the index compares them, rounded."""
    found, places = segment.sentences.take(rows), segment.sentences.places(rows)
    codes = found.values if found.values.dtype == np.float32 else from_quarter_bytes(found.values)
    vectors, shares = codes * segment.scales.values[places, None], segment.shares.values[places, None]
    means = np.add.reduceat(vectors * shares, found.offsets[:-1])
    ends = zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
    return {"mean": means.tolist(), "sentences": [vectors[begin:end].tolist() for begin, end in ends]}


def _put_codes(payloads: Sequence[dict[str, Any]], segment: Segment, rows: IntArray) -> None:
    """Add what re-ranking needs: bytes of codes, and ids of word pieces in four bytes each."""
    for name in CODES:
        found: Ragged = getattr(segment, name).take(rows)
        values = found.values.astype("<u4") if name == "pieces" else found.values
        for place, payload in enumerate(payloads):
            piece = values[found.offsets[place] : found.offsets[place + 1]]
            payload[name] = base64.b64encode(piece.tobytes()).decode()
