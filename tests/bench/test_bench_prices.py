import json

import pytest

from bench import prices
from semclass.core.errors import InputError


@pytest.fixture
def own(tmp_path):
    """A file of prices with round figures; gives its path after a change."""
    said = {"name": "n", "unit": "u", "source": "s", "date": "2026-11-20", "checked": "yes"}
    table = {
        "machines": {
            "cpu": {**said, "name": "small", "vcpus": 2, "usd_per_hour": 0.36},
            "gpu": {**said, "vcpus": 8, "usd_per_hour": 3.6},
        },
        "tokens": {
            "m": {**said, **(each := {"usd_per_million_prompt_tokens": 2.0, "usd_per_million_answer_tokens": 10})},
            "c": {**said, **each, "usd_per_million_cached_tokens": 0.2},
        },
        "rerank": {"r": {**said, "usd_per_thousand_searches": 2.0}},
    }

    def write(change=lambda table: None):
        change(table)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(table))
        return path

    return write


@pytest.mark.parametrize(
    ("call", "usd"),
    [
        (lambda path: prices.machine_call(0.001, path=path), 0.05),
        (lambda path: prices.machine_call(0.001, threads=2, path=path), 0.1),
        (lambda path: prices.gpu_call(1.0, path=path), 1000),
        (lambda path: prices.tokens("m", 500, 3, path=path), 500 * 2 + 3 * 10),
        (lambda path: prices.tokens("m", 500, 3, cached_tokens=400, path=path), 500 * 2 + 3 * 10),
        (lambda path: prices.tokens("c", 500, 3, cached_tokens=400, path=path), 100 * 2 + 400 * 0.2 + 3 * 10),
        (lambda path: prices.rerank_call("r", path=path), 2000),
    ],
)
def test_a_million_calls(own, call, usd):
    assert call(own()) == pytest.approx(usd)


def test_what_a_second_a_call_costs(own):
    path = own()
    counted = {use: {"prompt": 500, "answer": 2} for use in prices.THESIS_CALLS}
    classes, passages, entailment = prices.prompting(counted, path=path)
    assert (classes["calls"], passages["calls"], entailment["calls"]) == (1, 6, 10)
    assert (passages["for_each"], entailment["for_each"]) == ("a passage", "a question")
    assert entailment["seconds"] == 10.0
    assert entailment["usd_per_million_gpu"] == pytest.approx(10_000)
    assert classes["usd_per_million_at"]["m"] == pytest.approx(1020)
    assert entailment["usd_per_million_at"]["m"] == pytest.approx(10_200)


def test_an_unknown_name_is_answered_with_those_that_are_known(own):
    with pytest.raises(InputError, match=r"no price of 'x'.*there are: c, m"):
        prices.tokens("x", 1, 1, path=own())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.pop("rerank"), "'rerank' is missing"),
        (lambda table: table["tokens"]["m"].pop("source"), "tokens/m: source missing"),
        (lambda table: table["machines"]["gpu"].pop("usd_per_hour"), "machines/gpu: usd_per_hour missing"),
        (lambda table: table["machines"]["cpu"].update(usd_per_hour="0.1"), "usd_per_hour is '0.1'"),
        (lambda table: table["tokens"]["m"].update(usd_per_million_cached_tokens=None), "is None"),
        (lambda table: table["rerank"]["r"].update(usd_per_thousand_searches=True), "is True"),
    ],
)
def test_a_price_without_its_figures_or_source_is_refused(own, change, message):
    with pytest.raises(InputError, match=message):
        prices.load(own(change))


@pytest.mark.parametrize(
    "call",
    [
        lambda path: prices.machine_call(-1.0, path=path),
        lambda path: prices.machine_call(1.0, threads=3, path=path),
        lambda path: prices.machine_call(1.0, threads=0, path=path),
        lambda path: prices.tokens("m", -1, 1, path=path),
        lambda path: prices.tokens("m", 1, 1, cached_tokens=2, path=path),
    ],
)
def test_impossible_amounts_are_refused(own, call):
    path = own()
    with pytest.raises(InputError):
        call(path)


def test_the_shipped_prices_are_complete_and_cover_what_the_benchmark_compares():
    found = prices.load()
    assert found["machines"]["cpu"]["vcpus"] == 2
    assert "flan-ul2" in found["tokens"]
    assert all(
        price["source"].startswith("https://")
        for kind in ("machines", "tokens", "rerank")
        for price in found[kind].values()
    )
