"""Collections of documents with headings: what takes part, and in which part."""

from __future__ import annotations

import gzip
import json

import section_sets


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def test_a_collection_has_no_title_that_is_a_query(tmp_path, monkeypatch):
    monkeypatch.setattr(section_sets, "LEAST", 1)
    sections = [{"path": ["A"], "text": "First part."}, {"path": ["A"], "text": "Second part."}]
    documents = [
        {"id": "one", "domain": "tea", "split": "train", "title": "How is tea made?", "sections": sections},
        {"id": "two", "domain": "tea", "split": "train", "title": "Cups", "sections": sections[:1]},
        {"id": "dev", "domain": "tea", "split": "dev", "title": "Cups", "sections": sections},
        {"id": "other", "domain": "law", "split": "train", "title": "Laws", "sections": sections},
    ]
    query = {"query": "How is tea made?", "document": "one", "section": 0, "also": [1], "title_is_query": True}
    write(tmp_path / "sections" / "documents-00.jsonl.gz", documents)
    write(tmp_path / "sections" / "questions.jsonl.gz", [query, {**query, "document": "other"}])
    write(tmp_path / "sections" / "headings.jsonl.gz", [{"query": "Cups", "document": "two", "section": 0}])
    found = section_sets.read_domain(tmp_path, "tea")
    assert [passage.text for passage in found.passages] == ["First part.", "Second part.", "First part."]
    assert [dict(passage.metadata) for passage in found.passages] == [{}, {}, {"title": "Cups"}]
    assert found.queries == {
        "question": [("How is tea made?", frozenset({"0", "1"}))],
        "heading": [("Cups", frozenset({"2"}))],
    }


def test_no_domain_or_file_stands_in_two_parts():
    parts = [section_sets.TUNED, section_sets.FITTED, section_sets.CONFIRM]
    assert len({name for part in parts for name in part}) == sum(map(len, parts))
    files = [section_sets.TUNED_QA, section_sets.FITTED_QA, section_sets.CONFIRM_QA]
    assert len({name for part in files for name in part}) == sum(map(len, files))
