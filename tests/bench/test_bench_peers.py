"""Measures of systems, on answers that can be checked by hand."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.metrics import f1_score

from bench import measures
from bench.peers import rows as peer_rows
from bench.peers import systems


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


def letters(least):
    assert least == 1
    return systems.System(lambda texts: [text[0] for text in texts], [__file__], Letters.everything)


def test_a_system_is_timed_and_its_answers_are_kept(tmp_path):
    items = peer_rows.keep(tmp_path / "items.json", {"first": ["ab", "b", "cde"], "second": ["xy"]})
    found = systems.measure("test_bench_peers:letters", {"least": 1}, str(items))
    assert found["answers"] == {
        "first": {"label": ["a", "b", "c"], "length": [2, 1, 3]},
        "second": {"label": ["x"], "length": [2]},
    }
    assert {"load_s", "p50_ms", "p95_ms", "per_second", "disk_mb"} <= found.keys()


QUESTIONS = {
    "HUM:ind": [f"Who {what}?" for what in ("wrote it", "built the bridge", "was she", "won", "sings", "paid")],
    "NUM:date": [
        f"When {what}?" for what in ("was it written", "did she die", "is it", "did it end", "then", "was he")
    ],
    "NUM:count": [f"How many {what}?" for what in ("came", "are there", "left", "saw it", "go", "now")],
}


def test_tf_idf_learns_what_questions_begin_with(tmp_path):
    pairs = [(text, name) for name, texts in QUESTIONS.items() for text in texts]
    fine = [name for _, name in pairs]
    taught = {"items": [text for text, _ in pairs], "labels": {"fine": fine, "label": [name[:3] for name in fine]}}
    train = peer_rows.keep(tmp_path / "train.json", taught)
    model, out = str(tmp_path / "tfidf.joblib"), str(tmp_path / "fitted")
    made = systems.train_classes("tfidf", model, ["linear-svc"], str(train), out)
    assert made["linear-svc"]["train_s"] >= 0
    system = systems.classes("tfidf", model, out, "linear-svc")
    assert system.answer(["Who is that?"]) == ["HUM"]
    assert system.everything(["When was she born?"]) == {"label": ["NUM"], "fine": ["NUM:date"]}
