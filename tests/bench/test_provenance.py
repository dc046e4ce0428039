"""Of which models a figure is: fingerprints, and the line below a table of earlier ones."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import provenance, report

MANIFEST = {"kind": "head", "threshold": 0.5, "files": {"model.onnx": {"bytes": 3, "sha256": "0" * 64}}}


@pytest.fixture
def ships(monkeypatch):
    """Says which models ship: two whose fingerprints are known, and what is given."""

    def say(**more: str) -> None:
        monkeypatch.setattr(provenance, "shipped", lambda: {"questions": "new", "deep": "new", **more})

    say()
    return say


def results(models: dict[str, str | None], **more: Any) -> dict[str, Any]:
    systems = [{"name": "semclass", "accuracy": 0.9, "p50_ms": 1.0}]
    return {"models": models, "date": "2026-11-22", "systems": systems, "errors": 3, **more}


def accuracy(found: Any) -> str:
    """A table that reads one figure of a section."""
    return f"| {found['questions']['systems'][0]['accuracy']} |"


def test_a_fingerprint_is_of_what_a_model_does():
    same = {**MANIFEST, "metrics": {"accuracy": 0.9}, "training": {"seconds": 3}}
    assert provenance.fingerprint(same) == provenance.fingerprint(MANIFEST)
    for other in ({"threshold": 0.4}, {"files": {"model.onnx": {"bytes": 3, "sha256": "1" * 64}}}):
        assert provenance.fingerprint({**MANIFEST, **other}) != provenance.fingerprint(MANIFEST)


def test_every_section_names_models_that_ship():
    assert provenance.DEPENDS.keys() == set(report.SECTIONS)
    assert set().union(*provenance.DEPENDS.values()) <= provenance.shipped().keys()
    assert provenance.of("questions") == {name: provenance.shipped()[name] for name in provenance.DEPENDS["questions"]}


def test_a_table_of_an_earlier_model_says_which(ships):
    found = {"questions": results({"questions": "new"})}
    ships(deep="newer")
    assert provenance.with_line(accuracy, found, ["questions"]) == "| 0.9 |"
    ships(questions="newer")
    table, line = provenance.with_line(accuracy, found, ["questions"]).split("\n\n")
    assert table == "| 0.9 |"
    assert "questions of 2026-11-22" in line
