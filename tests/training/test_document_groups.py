"""Training groups of the tunings: headings over documents, and questions over the passages of one document."""

import gzip
import json

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("safetensors")

import bert_graph
import document_groups


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two documents of a domain that is learnt from, one of a domain that confirms, and a file of ``qa``."""
    monkeypatch.setattr(document_groups, "TUNED", ("history",))
    monkeypatch.setattr(document_groups, "FITTED", ("legal",))
    monkeypatch.setattr(document_groups, "TUNED_QA", ("timeqa",))
    monkeypatch.setattr(document_groups, "FITTED_QA", ())
    sections = [{"path": [], "text": f"Part {place} begins. It goes on."} for place in range(12)]
    domains = {"kings": "history", "wars": "history", "laws": "legal", "coins": "finance"}
    documents = [
        {"id": name, "domain": domain, "split": "train", "title": name, "sections": sections}
        for name, domain in domains.items()
    ]
    write(tmp_path / "sections" / "documents-00.jsonl.gz", documents)
    questions = [{"query": "Who was king?", "document": "kings", "section": 5, "also": [6]}]
    headings = [{"query": name.title(), "document": name, "section": 2} for name in domains]
    write(tmp_path / "sections" / "questions.jsonl.gz", questions)
    write(tmp_path / "sections" / "headings.jsonl.gz", headings)
    passages = [f"Year {place}." for place in range(9)]
    write(tmp_path / "qa" / "timeqa.jsonl.gz", [{"question": "When?", "passages": passages, "answers": [3, 4, 7]}])
    return tmp_path


def test_a_heading_stands_before_its_section(data):
    groups = [group for group in document_groups.read_groups(data, 0) if group.question == "Kings"]
    (group,) = groups
    assert group.domain == "sections history"
    assert group.answers == {0}
    assert " ".join(group.passages[0]) == "Part 2 begins. It goes on."
    assert len(set(group.passages)) == len(group.passages) == 1 + document_groups.SIBLINGS


def test_domains_that_confirm_are_not_read(data):
    domains = {group.domain for group in document_groups.read_groups(data, 0)}
    assert domains == {"sections history", "sections legal", "qa timeqa"}
    assert [name for name in sorted(domains) if document_groups.measured_on(name)] == ["sections legal"]


def test_weights_of_several_runs_are_averaged(tmp_path):
    for place, value in enumerate((1.0, 2.0)):
        np.savez(tmp_path / f"{place}.npz", bias=np.full(3, value, np.float16), learnt=np.array(["squad", str(place)]))
    runs = [tmp_path / "0.npz", tmp_path / "1.npz"]
    found = bert_graph.mean_of(runs)
    assert found.keys() == {"bias"}
    assert bert_graph.learnt_from(runs) == ["0", "1", "squad"]
    assert found["bias"].dtype == np.float32
    np.testing.assert_allclose(found["bias"], 1.5)
