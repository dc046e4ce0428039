"""Measures of systems, on answers that can be checked by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.metrics import f1_score

from bench import measures, systems


def test_what_is_not_known_or_not_answered_counts_for_no_class():
    truth = np.array([[1, 0], [1, np.nan], [0, 1], [0, 1]], float)
    said = np.array([[1, 0], [0, 1], [0, 1], [np.nan, 0]], float)
    found = measures.of_several(truth, said)
    assert found["decisions"] == 6
    assert found["f1_by_class"] == [round(f1_score([1, 1, 0], [1, 0, 0]), 4), round(f1_score([0, 1, 1], [0, 1, 0]), 4)]
    assert found["macro_f1"] == pytest.approx(np.mean(found["f1_by_class"]), abs=1e-4)


class Letters:
    """Says which letter a text begins with, and how long it is."""

    @staticmethod
    def everything(texts):
        return {"label": [text[0] for text in texts], "length": [len(text) for text in texts]}


def letters():
    return systems.System(lambda texts: [text[0] for text in texts], [Path(__file__).parent], Letters.everything)


def test_a_system_is_timed_and_its_answers_are_kept(tmp_path, monkeypatch):
    monkeypatch.setitem(systems.SYSTEMS, "letters", letters)
    items = tmp_path / "items.json"
    items.write_text(json.dumps({"first": ["ab", "b", "cde"], "second": ["xy"]}))
    found = systems.measure("letters", str(items))
    assert found["answers"] == {
        "first": {"label": ["a", "b", "c"], "length": [2, 1, 3]},
        "second": {"label": ["x"], "length": [2]},
    }
    assert {"load_s", "p50_ms", "p95_ms", "per_second", "disk_mb"} <= found.keys()
