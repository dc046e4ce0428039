"""Every method gives what it gave: orders and scores of fixed questions over two small corpora."""

from __future__ import annotations

import json

from make_rankings import rankings
from world import ROOT


def test_every_method_ranks_as_recorded(models):
    recorded = json.loads((ROOT / "tests" / "ranking" / "rankings.json").read_text())
    found = rankings(models)
    assert {name: list(methods) for name, methods in found.items()} == {
        name: list(methods) for name, methods in recorded.items()
    }
    for name, methods in recorded.items():
        for method, lists in methods.items():
            pairs = list(zip(found[name][method], lists, strict=True))
            # int8 products of other processors and older runtimes round otherwise: close scores change places
            first = sum(hits[0][0] == expected[0][0] for hits, expected in pairs)
            shared = sum(len({id_ for id_, _ in hits} & {id_ for id_, _ in expected}) for hits, expected in pairs)
            assert first >= len(pairs) - 1, (name, method)
            assert shared >= 0.85 * sum(len(expected) for _, expected in pairs), (name, method)
