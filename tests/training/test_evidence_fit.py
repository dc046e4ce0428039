"""Weights of evidence: what is fitted, what stays, and which collections take part."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

pytest.importorskip("scipy")

import section_sets
from fit_evidence import SEARCHED, START, Judged, added, fit, fit_short, left_out, ndcg
from semclass.core import artifacts
from semclass.ranking.features import PAIR_FEATURES


def judged(rng, helpful, questions=60, candidates=12):
    """One feature is large where a passage answers; three candidates of some questions are padding."""
    gains = np.zeros((questions, candidates))
    gains[np.arange(questions), rng.integers(0, 8, questions)] = 1
    features = rng.normal(size=(len(PAIR_FEATURES), questions, candidates))
    features[PAIR_FEATURES.index(helpful)] += 2 * gains
    score = -np.sort(-rng.random((questions, candidates)), axis=1)
    score[:5, 9:], features[:, :5, 9:] = -np.inf, 0.0
    return Judged(score, features, gains, np.ones(questions), rng.random(questions))


def test_a_helpful_feature_gains_weight():
    rng = np.random.default_rng(0)
    sets = {(name, "question"): judged(rng, "neighbours") for name in "ab"}
    weights = fit(sets)
    place = PAIR_FEATURES.index("neighbours")
    assert (weights - START).argmax() == place
    assert ndcg(sets["a", "question"], weights) > ndcg(sets["a", "question"], START) + 0.02
    rising = [PAIR_FEATURES.index(name) for name in SEARCHED if name != "numbers"]
    assert (weights[rising] >= 0).all()
    others = np.setdiff1d(np.arange(len(weights)), [PAIR_FEATURES.index(name) for name in SEARCHED])
    np.testing.assert_array_equal(weights[others], START[others])


def test_short_candidates_add_by_their_shortness():
    found = judged(np.random.default_rng(0), "provided")
    both = added(found, START)
    np.testing.assert_allclose(
        both.score[:, :9], found.score[:, :9] + np.einsum("f,fqn->qn", START, found.features)[:, :9]
    )
    np.testing.assert_allclose(both.features[3, :, 0], found.short * found.features[3, :, 0])
    more = fit_short({("a", "sentences"): both})
    assert more.argmax() == PAIR_FEATURES.index("provided")


def test_no_fold_sees_its_own_domain():
    rng = np.random.default_rng(0)
    sets = {(name, kind): judged(rng, "neighbours") for name in "abcdef" for kind in ("heading", "question")}
    found = left_out(sets)
    others = {key: one for key, one in sets.items() if key[0] not in ("a", "f")}
    np.testing.assert_allclose(found["a", "heading"], fit(others), atol=1e-6)


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


def test_fits_see_no_domain_that_the_encoder_knows(tmp_path):
    domains = ("history", "legal", "privacy")  # learnt from, new, and one that confirms
    documents = [{"id": name, "domain": name, "split": "train", "title": "", "sections": []} for name in domains]
    write(tmp_path / "sections" / "documents-00.jsonl.gz", documents)
    artifacts.save(tmp_path / "plain", "encoder", {"kept.npy": b""}, {})
    artifacts.save(tmp_path / "tuned", "encoder", {"kept.npy": b""}, {"learnt": ["sections history", "squad"]})
    assert section_sets.unseen(tmp_path, tmp_path / "plain") == ["history", "legal"]
    assert section_sets.unseen(tmp_path, tmp_path / "tuned") == ["legal"]
    assert section_sets.unseen(tmp_path, tmp_path / "absent") == ["history", "legal"]


def test_no_domain_or_file_stands_in_two_parts():
    parts = [section_sets.TUNED, section_sets.FITTED, section_sets.CONFIRM]
    assert len({name for part in parts for name in part}) == sum(map(len, parts))
    files = [section_sets.TUNED_QA, section_sets.FITTED_QA, section_sets.CONFIRM_QA]
    assert len({name for part in files for name in part}) == sum(map(len, files))
