"""Costs of calls, with prices that make round figures."""

import pytest

from bench import prices

EACH = {"usd_per_million_prompt_tokens": 2.0, "usd_per_million_answer_tokens": 10}


@pytest.fixture(autouse=True)
def own(request, monkeypatch):
    """Prices with round figures."""
    if "shipped" not in request.node.name:
        table = {
            "machines": {"cpu": {"vcpus": 2, "usd_per_hour": 0.36}, "gpu": {"vcpus": 8, "usd_per_hour": 3.6}},
            "tokens": {"m": EACH},
            "rerank": {"r": {"usd_per_thousand_searches": 2.0}},
        }
        monkeypatch.setattr(prices, "load", lambda: table)


@pytest.mark.parametrize(
    ("call", "usd"),
    [
        (lambda: prices.machine_call(0.001), 0.05),
        (lambda: prices.machine_call(0.001, threads=2), 0.1),
    ],
)
def test_a_million_calls(call, usd):
    assert call() == pytest.approx(usd)


def test_the_shipped_prices_say_where_they_are_from():
    for kind in ("machines", "tokens", "rerank"):
        for price in prices.load()[kind].values():
            assert {"name", "unit", "date", "checked"} <= price.keys()
            assert price["source"].startswith("https://")
            assert all(value >= 0 for key, value in price.items() if key.startswith("usd_per_"))
    assert "flan-ul2" in prices.load()["tokens"]
