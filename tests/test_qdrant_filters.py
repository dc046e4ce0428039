"""Filters in Qdrant: the client's local mode selects the same passages."""

import json
import uuid

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made_metadata import METADATA, WHERE

from semclass.errors import InputError
from semclass.filters import matches, parse
from semclass.qdrant_filters import to_qdrant

qdrant_client = pytest.importorskip("qdrant_client")
models = qdrant_client.models


def point_id(name):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def selected(metadata, wheres):
    client = qdrant_client.QdrantClient(":memory:")
    client.create_collection("c", vectors_config={})
    client.upsert(
        "c",
        [
            models.PointStruct(id=point_id(str(row)), vector={}, payload={"row": row, "metadata": each})
            for row, each in enumerate(metadata)
        ],
    )
    for where in wheres:
        wanted = to_qdrant(parse(where), point_id=point_id)
        points, _ = client.scroll("c", scroll_filter=wanted, limit=1000)
        yield where, sorted(point.payload["row"] for point in points)


def possible(where):
    try:
        to_qdrant(parse(where))
    except InputError:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(st.lists(METADATA, min_size=1, max_size=6), st.lists(WHERE, min_size=1, max_size=8))
def test_local_mode_selects_the_same(metadata, wheres):
    assume("\\ud800" not in json.dumps([metadata, wheres], default=str))
    for where, rows in selected(metadata, filter(possible, wheres)):
        condition = parse(where)
        assert rows == [row for row, each in enumerate(metadata) if matches(condition, each)], where


PASSAGES = [
    {"page": 3, "tags": ["tax", "law"], "author": {"name": "Ada"}, "date": "2024-01-01"},
    {"page": 3.0, "tags": [], "author": [{"name": "Bo"}, {"name": "Ada"}], "date": "2023-12-31T23:30:00-01:00"},
    {"page": "3", "tags": None, "author.name": "Ada", "date": "soon", "draft": True},
    {"draft": 1, "a field, with [marks]": 1, "a.b": {"c": "x"}},
]


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({}, [0, 1, 2, 3]),
        ({"page": 3}, [0, 1]),
        ({"page": {"$ne": 3}}, [2, 3]),
        ({"page": {"$gte": 3, "$lt": 4}}, [0, 1]),
        ({"tags": "law"}, [0]),
        ({"tags": {"$in": []}}, []),
        ({"tags": {"$nin": []}}, [0, 1, 2, 3]),
        ({"tags": {"$exists": False}}, [1, 2, 3]),
        ({"author.name": "Ada"}, [0, 1, 2]),
        ({"author": {"$exists": True}}, [0, 1]),
        ({"a.b.c": "x"}, [3]),
        ({"draft": True}, [2]),
        ({"draft": {"$in": [1, "x", False]}}, [3]),
        ({"date": {"$gt": "2024-01-01"}}, [1]),
        ({"a field, with [marks]": 1}, [3]),
        ({"_id": {"$in": ["1", "2", "9"]}}, [1, 2]),
        ({"_id": {"$ne": "1"}, "page": {"$exists": True}}, [0, 2]),
    ],
)
def test_what_is_selected(where, rows):
    assert [found for _, found in selected(PASSAGES, [where])] == [rows]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"name": {"$gte": "b"}}, "orders numbers and dates only"),
        ({"page": 2**53}, "rounds numbers"),
        ({"page": {"$lt": -(2**60)}}, "rounds numbers"),
        ({"a.b.c.d.e": 1}, "at most 4 parts"),
        ({'"': 1}, "no quotation marks"),
        ({"date": {"$gt": "0001-01-01T00:00:00+01:00"}}, "before the year 1"),
        ({"_id": "a"}, "not possible here"),
    ],
)
def test_what_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        to_qdrant(parse(where))
