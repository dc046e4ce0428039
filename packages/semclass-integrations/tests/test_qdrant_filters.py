"""Filters in Qdrant: the client's local mode selects the passages that a filter matches."""

import json

import pytest
from filter_oracle import matches
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from made_metadata import METADATA, WHERE

from semclass.core.errors import InputError
from semclass.index.filters import parse
from semclass_integrations.qdrant_filters import point_id, to_qdrant

qdrant_client = pytest.importorskip("qdrant_client")
models = qdrant_client.models


def local_mode(metadata, wheres):
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
        points, _ = client.scroll("c", scroll_filter=to_qdrant(parse(where)), limit=1000)
        yield where, sorted(point.payload["row"] for point in points)


def possible(where):
    try:
        to_qdrant(parse(where))
    except InputError:
        return False
    return True


@settings(suppress_health_check=list(HealthCheck), max_examples=30)
@given(st.lists(METADATA, min_size=1, max_size=6), st.lists(WHERE, min_size=5, max_size=20))
def test_the_same_passages_are_selected(metadata, wheres):
    assume("\\ud800" not in json.dumps([metadata, wheres], default=str))
    for where, rows in local_mode(metadata, filter(possible, wheres)):
        condition = parse(where)
        assert rows == [row for row, each in enumerate(metadata) if matches(condition, each)], where


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ({}, [0, 1, 2]),
        ({"a field, with [marks]": 1}, [1]),
        ({"date": {"$gt": "2024-01-01"}}, [0]),
        ({"_id": {"$in": ["1", "2", "9"]}}, [1, 2]),
        ({"_id": {"$ne": "1"}, "date": {"$exists": True}}, [0]),
    ],
)
def test_names_with_marks_dates_and_ids_are_found(where, rows):
    passages = [{"date": "2023-12-31T23:30:00-01:00"}, {"a field, with [marks]": 1, "date": "2024-01-01"}, {"b": 1}]
    assert [found for _, found in local_mode(passages, [where])] == [rows]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"name": {"$gte": "b"}}, "orders only numbers and dates"),
        ({"page": 2**53}, "numbers below"),
        ({"a.b.c.d.e": 1}, "at most 4 parts"),
        ({'"': 1}, "or contain quotation marks"),
        ({"date": {"$gt": "0001-01-01T00:00:00+01:00"}}, "outside the years 1"),
    ],
)
def test_what_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        to_qdrant(parse(where))
