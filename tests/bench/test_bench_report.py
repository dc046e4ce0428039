"""Pages of results: what they say is what the files of results say, whichever of them there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import provenance, readme, report

MADE = {
    "commands": ["python -m bench entailment --data DATA"],
    "machine": {"processor": "a processor", "cores": 2, "memory_gb": 25.3, "system": "Linux", "python": "3.11.7"},
    "versions": {"numpy": "2.4.6"},
    "date": "2026-11-20",
    "commit": "0123456789ab",
    "models": {},
}


def system(name: str, kind: str, accuracy: float, p50: float | None, **more: Any) -> dict[str, Any]:
    """A row of results."""
    row = {"name": name, "kind": kind, "what": f"What {name} is.", "threads": 1, "p50_ms": p50, "peak_mb": 150.25}
    return {**row, "accuracy": accuracy, "accuracy_ci": [accuracy - 0.02, accuracy + 0.01], **more}


SYSTEMS = [
    system("semclass", "semclass", 0.978, 1.224, train_s=None),
    system("ten lines", "peer", 0.958, 9.51, train_s=22.4),
    system("fine-tuned", "peer", 0.976, 1.5, measured="2026-11-19"),
    system("flan-ul2", "prompted", 0.97, 1000.0, recorded=True, threads=None),
]
RESULTS = {
    "task": {"what": "Yes or no?", "items": 5463}, "systems": SYSTEMS,
    **MADE,
}  # fmt: skip


def page(**more: Any) -> str:
    return report.page("entailment", {"entailment": {**RESULTS, **more}})


def test_a_page_has_the_figures_of_its_file():
    text = page()
    assert "- Items: 5,463" in text
    assert "| semclass | 97.8% (95.8 to 98.8) | 1.22 | 150 | 1 | - |" in text
    assert "| ten lines | 95.8% (93.8 to 96.8) | 9.51 | 150 | 1 | 22.4 |" in text
    assert "| flan-ul2 (recorded) |" in text
    assert "| fine-tuned (2026-11-19) | 97.6%" in text
    assert "- **fine-tuned**: What fine-tuned is." in text
    assert "`python -m bench entailment --data DATA`, 2026-11-20, commit 0123456789ab" in text
    assert "quick run" not in text


def test_a_page_of_earlier_models_says_so():
    assert "earlier models" not in page(models={"encoder": provenance.shipped()["encoder"]})
    assert "*Measured with earlier models: encoder of 2026-11-20.*" in page(models={"encoder": "another"})


def test_without_results_the_overview_says_how_to_get_them(tmp_path: Path):
    report.write(tmp_path)
    assert "There are no results yet" in (tmp_path / "REPORT.md").read_text()


def test_strange_files_are_named(tmp_path: Path):
    (tmp_path / "questons.json").write_text("{}")
    with pytest.raises(report.ReportError, match="questons: no section has this name"):
        report.read(tmp_path)
    (tmp_path / "questons.json").unlink()
    (tmp_path / "thesis.json").write_text(json.dumps({"load": [{"what": "service"}]}))
    with pytest.raises(report.ReportError, match=r"thesis\.json is not what bench/thesis\.py writes"):
        report.write(tmp_path)


def test_a_table_goes_between_its_marks(tmp_path: Path, monkeypatch):
    path, page = tmp_path / "README.md", tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    path.write_text(f"before\n\n{readme.block('made', 'old')}\n\nafter\n")
    page.write_text(readme.block("made: part", "other"))
    monkeypatch.setattr(readme, "README", path)
    monkeypatch.setattr(readme, "DOCS", page.parent)
    readme.update("made", "new")
    assert path.read_text() == f"before\n\n{readme.block('made', 'new')}\n\nafter\n"
    assert "other" in page.read_text()
