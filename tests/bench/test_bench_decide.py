"""The choice of a classifier: five users and their answers, and the rule."""

from __future__ import annotations

import click.testing
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("sklearn")

from bench import decide, report
from bench.decide import Needs, Row

FOUND = report.read(report.RESULTS)
NEEDS = Needs(labels=100, classes=10, texts=1000, accuracy=0.8, milliseconds=100)


def row(name, accuracy, usd, **more):
    return Row(name, accuracy, "made texts", **{"milliseconds": 1.0, "per_second": 100.0, "usd": usd, **more})


def chosen(rows, needs=NEEDS):
    use = decide.choice(rows, needs)
    return use and use.name


def test_five_users_are_told_what_to_use():
    """docs/howto/decide.md"""
    told = [chosen(list(decide.measured(FOUND, needs)), needs) for needs in decide.USERS.values()]
    assert told[:3] == [decide.OURS, decide.OURS, decide.WORDS]
    assert told[3].startswith("`Cascade`")
    # both are as accurate, and cost about the same
    assert told[4] in (decide.TUNED, decide.OURS)


def test_the_most_accurate_of_the_cheap_is_used():
    assert chosen([row("best", 0.9, 5), row("good", 0.85, 1)]) == "best"
    assert chosen([row("best", 0.9, 5), row("as good", 0.895, 1)]) == "as good"


def test_what_does_not_fit_is_left_out_and_says_why():
    rows = [
        row("wrong", 0.7, 1),
        row("unknown", None, 1),
        row("slow", 0.9, 1, milliseconds=500.0),
        row("small", 0.9, 1, per_second=0.01),
    ]
    assert [one.why_not(NEEDS) for one in rows] == [
        "not accurate enough",
        "not measured on classes of your own",
        "too slow",
        "too many texts for the machine",
    ]
    assert chosen(rows) is None
    assert "0.9" not in decide.answer(rows, NEEDS)
    assert "small" in decide.answer(rows, NEEDS) or "slow" in decide.answer(rows, NEEDS)


@pytest.mark.parametrize("share", ["0.8", "80%"])
def test_it_asks_for_what_is_not_given(share):
    said = click.testing.CliRunner().invoke(decide.main, input=f"400\n40\n2000\n{share}\n50\ncpu\n2\n")
    assert said.exit_code == 0, said.output
    assert f"Use {decide.OURS}." in said.output
    assert "| not accurate enough |" in said.output
