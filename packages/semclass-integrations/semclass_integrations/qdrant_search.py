"""Requests and filters that search a collection of Qdrant, and what is read of the answers.

For linear fusion one request has the server compute dense + w * BM25 + lambda * match, a formula of raw scores, which means
the same on one shard and on many. Candidates are the union of the best by vector and the best by BM25, and every route
scores all of them. A second request reads the components of the n best, from which the score is summed here; the engine's
own number, in float32, decides only which passages these are. For other fusions the server gives the two lists and the
scores of all that is in either; they are fused here, and a third request reads the n best.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, FloatArray, IntArray, Passage, Ragged
from semclass.index.filters import Among, And, Exists, Filter, Ids, Not, Or, Range
from semclass.index.ingest import decoded, evidence_of, stored_types
from semclass.index.passage_encoder import Evidence, PassageEncoder, no_rows
from semclass.index.records import Query, Scoring, sum_of
from semclass.scoring import fusion
from semclass.scoring.dense import MEAN_WEIGHT
from semclass.scoring.topk import class_match, unit
from semclass_integrations.qdrant_collection import Server, client_models, point_id

DENSE = ("mean", "sentences")
"""Vectors that the dense score is the weighted sum of; of sentences the best one's product counts."""

WIDER = 4
"""How many times as many points as the list by vectors has are looked at, by their means and by their best sentences."""

_SEGMENTS = 4  # of a path in a filter, at most
_EXACT = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Route(NamedTuple):
    """One way to score a passage: the vector that is compared, what with, and the weight of the result."""

    using: str
    vector: Any
    weight: float


def routes_of(query: Query, scoring: Scoring, idf: FloatArray) -> list[Route]:
    """What the question is compared with, and what the results are multiplied with."""
    models = client_models()
    vector = unit(query.pooled).tolist()
    routes = [Route("mean", vector, MEAN_WEIGHT), Route("sentences", [vector], 1 - MEAN_WEIGHT)]
    terms, counts = np.unique(query.bm25_terms, return_counts=True)
    known = idf[terms] > 0
    if known.any():
        weights = (counts * idf[terms])[known]
        sparse = models.SparseVector(indices=terms[known].tolist(), values=weights.tolist())
        routes.append(Route("bm25", sparse, scoring.bm25_weight))
    if scoring.match is not None:
        soft, hard = query.probabilities, np.zeros_like(query.probabilities)
        if scoring.match == "hard":
            soft, hard = hard, (np.arange(len(soft)) == soft.argmax()).astype(np.float64)
        routes.append(Route("classes", [*soft.tolist(), *hard.tolist()], scoring.match_weight))
    return routes


@dataclass(frozen=True)
class Search:
    """The requests of one search."""

    server: Server
    collection: str
    exact: bool  # in full, not through the HNSW graph
    payload: list[str]  # keys of the payload that the best points come with
    vectors: list[str] | bool  # vectors that points come with

    def _near(self, route: Route, where: Any, limit: int, *, exact: bool, **shown: Any) -> Any:
        """The request for the best points of one route."""
        models = client_models()
        params = models.SearchParams(exact=True) if exact else None
        query = models.NearestQuery(nearest=route.vector)
        return models.QueryRequest(query=query, using=route.using, filter=where, limit=limit, params=params, **shown)

    def best(
        self, routes: Sequence[Route], depth: int, where: Any, n: int, payload: Sequence[str] | None = None
    ) -> list[Any]:
        """The one request that scores: points with payload and class vector, best first."""
        models = client_models()
        params = models.SearchParams(exact=True) if self.exact else None
        counting = [route for route in routes if route.weight > 0]
        # thousands of passages share a class, so that the best by class are as good as any
        finding = [route for route in counting if route.using != "classes"]
        best = [
            models.Prefetch(query=route.vector, using=route.using, filter=where, limit=depth, params=params)
            for route in finding
        ]
        limit = len(finding) * depth
        # every route scores what any of them found: what a flat prefetch lacks would count as 0
        nested = [
            models.Prefetch(prefetch=best, query=route.vector, using=route.using, limit=limit, params=params)
            for route in counting
        ]
        names = [f"$score[{place}]" for place in range(len(counting))]
        terms = [models.MultExpression(mult=[route.weight, name]) for route, name in zip(counting, names, strict=True)]
        return list(
            self.server.query_points(
                self.collection,
                prefetch=nested,
                query=models.FormulaQuery(formula=models.SumExpression(sum=terms), defaults=dict.fromkeys(names, 0.0)),
                limit=n,
                with_payload=self.payload if payload is None else list(payload),
                with_vectors=self.vectors,
            ).points
        )

    def lists(self, routes: Sequence[Route], depth: int, where: Any) -> list[Any]:
        """The first points of each list, by vector and by BM25, with id and class vector, in order of the ids."""
        shown = {"with_payload": ["_id"], "with_vector": self.vectors}
        dense = [route for route in routes if route.using in DENSE]
        points = self.best(dense, WIDER * depth, where, depth, ["_id"])
        requests = [
            self._near(route, where, depth, exact=self.exact, **shown) for route in routes if route.using == "bm25"
        ]
        for response in self.server.query_batch_points(self.collection, requests) if requests else ():
            points += response.points
        found = {point.id: point for point in points}
        return sorted(found.values(), key=lambda point: point.payload["_id"])

    def read(self, points: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The same points with their payloads, and their places: one that was deleted meanwhile is left out."""
        read = self.server.retrieve(self.collection, [point.id for point in points], with_payload=self.payload)
        found = {point.id: point for point in read}
        kept = [place for place, point in enumerate(points) if point.id in found]
        return [found[points[place].id] for place in kept], kept

    def components(self, points: Sequence[int], routes: Sequence[Route]) -> dict[str, dict[int, float]]:
        """Similarity and BM25 score of some points, by name and point; a point without any of the terms has no BM25."""
        models = client_models()
        read: dict[str, dict[int, float]] = {"dense": {}, "bm25": {}}
        scored = [route for route in routes if route.using != "classes"]
        if not points:
            return read
        these = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        # exact: these very points, not those that a graph leads to
        requests = [self._near(route, these, len(points), exact=True) for route in scored]
        responses = self.server.query_batch_points(self.collection, requests)
        for route, response in zip(scored, responses, strict=True):
            name, weight = ("dense", route.weight) if route.using in DENSE else ("bm25", 1.0)
            for point in response.points:
                read[name][point.id] = read[name].get(point.id, 0.0) + weight * point.score
        return read


def score(
    points: Sequence[Any],
    read: Mapping[str, Mapping[int, float]],
    query: Query,
    scoring: Scoring,
    thresholds: DoubleArray,
    depth: int | None,
) -> dict[str, Any]:
    """Fuse components as an embedded index does: fields of :class:`semclass.index.records.Candidates`, for m points."""
    dense = np.array([read["dense"][point.id] for point in points], np.float64)
    lexical = np.array([read["bm25"].get(point.id, 0.0) for point in points], np.float64)
    classes = [point.vector["classes"][: len(thresholds)] if len(thresholds) else [] for point in points]
    probabilities = np.array(classes, np.float32).reshape(len(points), len(thresholds))
    w, alpha = scoring.bm25_weight, scoring.alpha
    parts = fusion.fused(
        dense, lexical, scoring.fusion, weight=w, alpha=alpha, depth=depth, bm25_top=scoring.bm25_top
    ).parts
    fields: dict[str, Any] = {"dense": dense, "bm25": lexical, "match": None, "parts": parts}
    if scoring.match is not None:
        fields["match"] = class_match(query.probabilities, probabilities, thresholds, scoring.match)
        parts["match"] = scoring.match_weight * fields["match"]
    return {**fields, "score": sum_of(parts), "probabilities": probabilities}


def take(value: Any, order: IntArray) -> Any:
    """Some rows of what :func:`score` gives."""
    if isinstance(value, dict):
        return {name: take(part, order) for name, part in value.items()}
    return None if value is None else value[order]


def read_evidence(
    points: Sequence[Any], passages: Sequence[Passage], passage_encoder: PassageEncoder, *, small: bool
) -> Evidence:
    """What re-ranking needs of candidates, at least one, see :meth:`semclass.PassageIndex.evidence`."""
    if small:
        return evidence_of(passage_encoder, passages)
    read = {name: _bytes(points, name, *kind) for name, kind in stored_types(passage_encoder, small=small).items()}
    pieces = _bytes(points, "pieces", "<u4", 1)
    stored = Evidence(**read, pieces=Ragged(pieces.values[:, 0], pieces.offsets))
    return decoded(stored, passage_encoder.codebooks)


def _bytes(points: Sequence[Any], name: str, kind: str, width: int) -> Ragged:
    """Rows of `width` values each, from the payloads; no rows of no values."""
    if not width:
        return no_rows(len(points))
    dtype = np.dtype(kind)
    pieces = [base64.b64decode(point.payload[name]) for point in points]
    lengths = np.array([len(piece) // (dtype.itemsize * width) for piece in pieces], np.int64)
    values = np.frombuffer(b"".join(pieces), dtype).reshape(-1, width)
    return Ragged(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))


def to_qdrant(condition: Filter) -> Any:
    """Translate a filter, so that Qdrant selects the same passages; what cannot be translated is refused.

    Qdrant compares numbers for equality only as whole numbers, so an equality becomes an interval. It takes a dot in a key
    for nesting and does not look into lists of objects unless a path says so, so a dotted path becomes the alternatives
    that it stands for. A list of texts must not be empty.
    """
    models = client_models()
    return models.Filter(must=[_condition(condition, models)])


def _condition(condition: Filter, models: ModuleType) -> Any:
    if isinstance(condition, And):
        return models.Filter(must=[_condition(part, models) for part in condition.parts])
    if isinstance(condition, Or):
        return _any(models, [_condition(part, models) for part in condition.parts])
    if isinstance(condition, Not):
        return models.Filter(must_not=[_condition(condition.part, models)])
    if isinstance(condition, Ids):
        return models.HasIdCondition(has_id=[point_id(name) for name in condition.ids])
    paths = _paths(condition.path)
    if isinstance(condition, Exists):
        missing = [models.IsEmptyCondition(is_empty=models.PayloadField(key=path)) for path in paths]
        return models.Filter(must_not=[models.Filter(must=missing)])
    tests = [_range(condition, models)] if isinstance(condition, Range) else _among(condition, models)
    return _any(models, [models.FieldCondition(key=path, **test) for path in paths for test in tests])


def _any(models: ModuleType, conditions: list[Any]) -> Any:
    """At least one of some conditions; none of no conditions, where Qdrant takes all."""
    return models.Filter(should=conditions) if conditions else models.HasIdCondition(has_id=[])


def _among(condition: Among, models: ModuleType) -> list[dict[str, Any]]:
    texts = [value for value in condition.values if isinstance(value, str)]
    tests: list[dict[str, Any]] = [{"match": models.MatchAny(any=texts)}] if texts else []
    for value in condition.values:
        if isinstance(value, bool):
            tests.append({"match": models.MatchValue(value=value)})
        elif not isinstance(value, str):
            number = _number(value, condition.path)
            tests.append({"range": models.Range(gte=number, lte=number)})
    return tests


def _range(condition: Range, models: ModuleType) -> dict[str, Any]:
    if condition.kind == "text":
        given = short(condition.high if condition.low is None else condition.low)
        raise InputError(
            f"the filter on {condition.path!r} compares the order of texts ({given}); Qdrant orders only numbers and dates"
        )
    read, kind = (_moment, models.DatetimeRange) if condition.kind == "time" else (_number, models.Range)
    ends = {
        "gt" if condition.low_open else "gte": condition.low,
        "lt" if condition.high_open else "lte": condition.high,
    }
    return {"range": kind(**{name: read(end, condition.path) for name, end in ends.items() if end is not None})}


def _number(value: float, path: str) -> float:
    if abs(value) >= _EXACT:
        raise InputError(f"the filter on {path!r} has the number {value}; Qdrant needs numbers below 2**53")
    return value


def _moment(value: int, path: str) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise InputError(f"the filter on {path!r} has a date outside the years 1 to 9999 in UTC") from error


def _paths(path: str) -> list[str]:
    """All that a path may mean: each dot is of a nested object, of each object of a list, or part of a key."""
    segments = path.split(".")
    if len(segments) > _SEGMENTS or not all(segments) or '"' in path:
        raise InputError(
            f"Qdrant cannot filter on the field {path!r}; a name may have at most {_SEGMENTS} parts "
            "between dots, and a part may not be empty or contain quotation marks"
        )
    first, *others = segments
    paths = []
    for joints in product(('"."', '"[]."', "."), repeat=len(others)):
        rest = "".join(joint + segment for joint, segment in zip(joints, others, strict=True))
        paths.append(f'metadata."{first}{rest}"')
    return paths
