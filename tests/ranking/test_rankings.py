"""Every method gives what it gave: orders and scores of fixed questions over two small corpora."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT
from make_rankings import rankings


def test_every_method_ranks_as_recorded(ranker):
    recorded = json.loads((ROOT / "tests" / "ranking" / "rankings.json").read_text())
    found = rankings(ranker)
    assert {name: list(methods) for name, methods in found.items()} == {
        name: list(methods) for name, methods in recorded.items()
    }
    for name, methods in recorded.items():
        for method, lists in methods.items():
            for hits, expected in zip(found[name][method], lists, strict=True):
                # int8 products of another processor round otherwise: close scores may change places
                near = 0.02 * max([1.0, *(abs(score) for _, score in expected)])
                assert [score for _, score in hits] == pytest.approx([score for _, score in expected], abs=near)
                for place, (id_, score) in enumerate(expected[:-1]):
                    if all(abs(score - other) > 2 * near for _, other in expected if other != score):
                        assert hits[place][0] == id_, (name, method)
