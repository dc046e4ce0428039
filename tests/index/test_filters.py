"""Filters: what they find, passage by passage and over columns, and what they refuse."""

from functools import reduce

import numpy as np
import pytest
from filter_oracle import mask_without_ids, matches
from hypothesis import given
from hypothesis import strategies as st
from made_metadata import METADATA, WHERE
from world import FAKE

from semclass import Passage, PassageIndex
from semclass.core.errors import InputError, InputTypeError
from semclass.index.columns import columns_of
from semclass.index.filters import mask, parse, read_terms

PASSAGES = {
    "a": {"document": "a.md", "page": 3, "date": "2024-01-01", "tags": ["tax", "law"], "author": {"name": "Ada"}},
    "b": {"document": "b.md", "page": 7.0, "date": "2023-12-31T23:30:00-01:00", "tags": [], "author": {"name": "Bo"}},
    "c": {"document": "b.md", "page": "3", "date": "soon", "draft": True, "authors": [{"name": "Ada"}, {"name": "Cy"}]},
    "d": {"page": None, "draft": 1, "author.name": "Ada", "date": "2024-03-01 12:00"},
}


def found(where):
    condition = parse(where)
    one_by_one = "".join(name for name, metadata in PASSAGES.items() if matches(condition, metadata, name))
    ids = list(PASSAGES)
    together = mask(
        condition,
        columns_of(list(PASSAGES.values())),
        lambda wanted: np.array([ids.index(i) if i in ids else -1 for i in wanted], int),
    )
    assert one_by_one == "".join(name for name, yes in zip(ids, together, strict=True) if yes)
    return one_by_one


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({}, "abcd"),
        ({"page": 3}, "a"),
        ({"page": {"$gte": 3, "$lt": 7}}, "a"),
        ({"page": {"$ne": 3}}, "bcd"),
        ({"page": {"$nin": [3, "3"]}}, "bd"),
        ({"page": None}, "d"),
        ({"tags": {"$exists": False}}, "bcd"),
        ({"tags": "tax"}, "a"),
        ({"tags": {"$in": []}}, ""),
        ({"author.name": "Ada"}, "ad"),
        ({"authors.name": "Cy"}, "c"),
        ({"draft": True}, "c"),
        ({"draft": 1}, "d"),
        ({"date": {"$gte": "2024-01-01"}}, "abd"),  # half past eleven, an hour west, is the next day in UTC
        ({"date": {"$gte": "2024-03-01"}}, "d"),
        ({"date": {"$lt": "2024-01-01T02:00:00+01:00"}}, "ab"),
        ({"date": {"$gt": "s"}}, "c"),
        ({"_id": "a"}, "a"),
        ({"_id": {"$nin": ["a", "x"]}}, "bcd"),
        ({"$or": [{"page": 3}, {"$not": {"document": {"$exists": True}}}]}, "ad"),
        ({"$and": [{"page": {"$gt": 1}}, {"tags": "law"}]}, "a"),
        ({"nowhere": {"$ne": 1}}, "abcd"),
    ],
)
def test_passages_that_match(where, wanted):
    assert found(where) == wanted


def nested(where):
    return reduce(lambda inner, _: {"$not": inner}, range(100), where)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"$nor": []}, r"operator '\$nor'; give the name of a field, or one of \$and"),
        ({"page": {"$regex": "x"}}, r"where\['page'\] has the operator '\$regex'; allowed are \$eq"),
        ({"author": {"name": "Ada"}}, 'nested object as "author.name"'),
        ({"page": {}}, "no operator"),
        ({"page": [1, 2]}, r"write \{'\$in'"),
        ({"page": {"$in": 3}}, r"where\['page'\]\['\$in'\] must be a list"),
        ({"$or": []}, "at least one filter"),
        ({"$or": [{"page": 1}, 3]}, r"where\['\$or'\]\[1\] must be a mapping"),
        ({"page": {"$gte": 1, "$gt": 2}}, "two low bounds"),
        ({"page": {"$gte": 1, "$lt": "b"}}, r"mixes types \(\$gte is a number and \$lt is a text"),
        ({"page": {"$gte": True}}, "no order"),
        *[
            ({"page": value}, "finite")
            for value in (float("nan"), 10**5000, {"$gte": -(10**5000)}, {"$in": [10**5000]})
        ],
        (nested({"a": 1}), "deep"),
        ({"text": "x" * 513}, "513 characters; at most 512 are allowed"),
        ({"page": {"$exists": 1}}, "true or false"),
        ({"_id": {"$gt": "a"}}, "compares ids by order"),
        ({"": 1}, "give the name of a field"),
    ],
)
def test_wrong_filters_are_refused(where, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        parse(where)


@pytest.mark.parametrize(
    ("terms", "where"),
    [
        ([], {}),
        (["page = 3", "document=a b.md"], {"$and": [{"page": {"$eq": 3}}, {"document": {"$eq": "a b.md"}}]}),
        (['page="3"'], {"page": {"$eq": "3"}}),
        (["draft==true"], {"draft": {"$eq": True}}),
        (["date<2025-01-01"], {"date": {"$lt": "2025-01-01"}}),
        (["url=http://x?a=b"], {"url": {"$eq": "http://x?a=b"}}),
        (["name=NaN"], {"name": {"$eq": "NaN"}}),
        (["name="], {"name": {"$eq": ""}}),
        (['{"tags": {"$in": ["a"]}}'], {"tags": {"$in": ["a"]}}),
        (["lang in (de, en)"], {"lang": {"$in": ["de", "en"]}}),
        (['firm name not in ("Smith, Ltd",3)'], {"firm name": {"$nin": ["Smith, Ltd", 3]}}),
    ],
)
def test_filters_of_a_command_line(terms, where):
    assert read_terms(terms) == where
    parse(where)


WRONG = ["page", ">=3", "{broken", "=", "", "page>=", "date< ", "page in ()", "page in (1,,2)"]
ENDLESS = ["page=1" + "0" * 5000, '{"page": 1%s}' % ("0" * 5000), '{"a": ' * 10_000]


@pytest.mark.parametrize("term", [*WRONG, *ENDLESS], ids=lambda term: term[:16])
def test_a_term_that_is_no_filter(term):
    with pytest.raises(InputError):
        parse(read_terms([term]))


@given(st.lists(METADATA, max_size=6), st.lists(WHERE, min_size=1, max_size=8))
def test_columns_match_as_brute_force(metadata, wheres):
    columns = columns_of(metadata)
    for where in wheres:
        condition = parse(where)
        assert mask_without_ids(condition, columns).tolist() == [matches(condition, each) for each in metadata]


def test_a_field_that_no_passage_has_is_told_once():
    index = PassageIndex.build([Passage("a", "red boat", {"page": 1})], passage_encoder=FAKE)
    with pytest.warns(UserWarning, match="no passage has the field 'pag'; did you mean 'page'"):
        assert not index.mask({"pag": 1}).any()
    assert not index.mask({"pag": 2}).any()
    assert index.mask({"page": 1}) is index.mask({"page": 1}), "masks are remembered"
    assert not index.mask({"lang": {"$exists": True}}).any(), "whether a field is there may be asked of any"


def test_names_are_bounded_and_messages_show_their_beginning():
    name = "n" * 1_000_000
    for where in ({name: 1}, {"$or": [{"$not": {name: {"$gte": 1}}}]}, {"$" + name: 1}, {"page": {name: 1}}):
        with pytest.raises(InputError) as found:
            parse(where)
        assert len(str(found.value)) < 1000
