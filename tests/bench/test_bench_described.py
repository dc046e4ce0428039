"""Settings of classes by description: chosen on other sets, shown as measured."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from bench import described
from semclass import read_descriptions
from semclass.heads.described import ENTAILMENT, SHARPNESS


def grid(best):
    """Figures of two settings: the weight `best` is better."""
    return {
        weight: {"accuracy": 0.5, "log_loss": {"8": 1.0 - 0.5 * (weight == best), "16": 2.0}}
        for weight in ("0", "0.03")
    }


def test_the_setting_of_least_log_loss_is_chosen():
    assert described.choose([grid("0.03"), grid("0.03"), grid("0")]) == {"weight": "0.03", "sharpness": "8"}


def test_sets_of_the_measured_kind_have_no_say():
    ships = {f"{ENTAILMENT:g}": {"accuracy": 0.6, "log_loss": {"8": 1.0, f"{SHARPNESS:g}": 1.0}}}
    test = {"items": 9, "name": 0.1, "description": 0.2, "grid": grid("0") | ships}
    found = {name: {"grid": grid("0" if kind == "types" else "0.03")} for name, kind in described.KINDS.items()}
    systems = described.measured("trec", {**found, "trec": {"grid": grid("0"), "test": test}})["systems"]
    assert systems["left out"]["weight"] == "0.03"
    assert (systems["name"]["accuracy"], systems["cosines"]["accuracy"]) == (0.1, 0.5)


@pytest.mark.parametrize("name", described.KINDS)
def test_every_set_has_descriptions(name):
    assert all(read_descriptions(described.FOLDER / f"{name}.json").values())
