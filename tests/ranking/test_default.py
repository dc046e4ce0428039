"""The default method: fused scores plus a weighted sum of evidence, which tells an answer from an echo of the question."""

from __future__ import annotations

import numpy as np
import pytest
from made_models import npy_bytes, save_pairs

from semclass import ArtifactError, EncoderMismatchError, HybridRetriever, Models, Reranker
from semclass.core import artifacts
from semclass.ranking.evidence import SHORT, weights_for
from semclass.ranking.features import FEATURES, PAIR_FEATURES, weights_of

QUESTION = "How tall is the red tower?"
PASSAGES = ECHO, ANSWER, _ = (
    "They asked how tall the red tower is.",
    "The red tower has 74 metres.",
    "It is a green hill.",
)


def parts_of(models, **options):
    hits = Reranker(models).rerank(QUESTION, PASSAGES, explain=True, **options)
    assert [hit.score for hit in hits] == pytest.approx([sum(hit.explanation.parts.values()) for hit in hits])
    return {hit.text: hit.explanation.parts for hit in hits}


def test_an_answer_is_told_from_an_echo_by_what_it_provides(models):
    parts = parts_of(models)
    assert next(iter(parts)) == ANSWER
    assert parts[ECHO]["answers"] < parts[ANSWER]["answers"]
    groups = {"retrieval", "meaning", "words", "answers"}
    assert all(set(row) == {"dense", "bm25", "sparse", *groups} for row in parts.values())


def test_one_weight_scales_all_evidence(models):
    twice = parts_of(models, weights={"evidence": 2})
    for text, parts in parts_of(models).items():
        scaled = {name: value if name in ("dense", "bm25", "sparse") else 2 * value for name, value in parts.items()}
        assert twice[text] == pytest.approx(scaled)


@pytest.mark.parametrize(("lengths", "weights"), [([3, 7], [11, 2]), ([2 * int(SHORT)], [6, 2]), ([], [11, 2])])
def test_weights_of_short_candidates_count_less_for_longer_ones(lengths, weights):
    np.testing.assert_allclose(weights_for(np.array([[1.0, 2.0], [10.0, 0.0]]), np.array(lengths, int)), weights)


@pytest.fixture
def folder(tmp_path, fake_encoder):
    save_pairs(tmp_path / "pairs", fake_encoder.fingerprint, fake_encoder.n_terms)
    return tmp_path


def save_evidence(folder, encoder, features=PAIR_FEATURES):
    values = npy_bytes(np.stack([weights_of({"overlap": 3.0}), weights_of({"expected": 2.0})]))
    fields = {"encoder": encoder, "features": list(features)}
    artifacts.save(folder / "pairs" / "evidence", "evidence", {"weights.npy": values}, fields)


def test_weights_fitted_for_the_encoder_replace_the_usual_ones(folder, fake_encoder):
    usual = {feature.name: feature.weight for feature in FEATURES}
    evidence = Models.load(folder, encoder=fake_encoder).pairs.evidence
    np.testing.assert_array_equal(evidence, [weights_of(usual), weights_of({})])
    save_evidence(folder, fake_encoder.fingerprint)
    parts = parts_of(Models.load(folder, encoder=fake_encoder))
    assert all(set(row) == {"dense", "bm25", "sparse", "words", "answers"} for row in parts.values())


@pytest.mark.parametrize(
    ("encoder", "features", "error"),
    [("another", PAIR_FEATURES, EncoderMismatchError), ("fake", PAIR_FEATURES[::-1], ArtifactError)],
)
def test_weights_of_another_encoder_or_features_are_refused(folder, fake_encoder, encoder, features, error):
    save_evidence(folder, encoder, features)
    with pytest.raises(error, match="evidence"):
        Models.load(folder, encoder=fake_encoder)


def test_a_code_that_a_passage_holds_whole_decides(models):
    passages = [f"Fixed in {version}." for version in ("1.3.2", "1.2.3", "3.2.1")]
    hits = Reranker(models).rerank("version 1.2.3", passages, explain=True)
    assert hits[0].text == passages[1]
    assert hits[0].explanation.parts["codes"] > hits[1].explanation.parts["codes"] == 0


def test_weights_of_short_ones_count_less_in_an_index(models):
    index = HybridRetriever.from_passages(PASSAGES, models=models)
    given, stored = parts_of(models), index.search(QUESTION, len(PASSAGES), explain=True)
    for hit in stored:
        assert abs(hit.explanation.parts["answers"]) < abs(given[hit.text]["answers"])
