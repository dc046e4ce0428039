"""The default method: fused scores plus a weighted sum of evidence, which tells an answer from an echo of the question."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_models import npy_bytes, save_pairs
from world import FakeEncoder

from semclass import ArtifactError, EncoderMismatchError, Models, Reranker
from semclass.core import artifacts
from semclass.ranking.evidence import SHORT, weights_for
from semclass.ranking.features import FEATURES, PAIR_FEATURES, weights_of

QUESTION = "how tall stands red tower"
EVIDENCE = {feature.name: feature.weight for feature in FEATURES}
PASSAGES = ECHO, ANSWER, _ = "asked : how tall stands red tower", "red tower stands 74 metres", "green hill"


class TellingEncoder(FakeEncoder):
    """Every question asks for a number, and a sentence with one provides it."""

    @property
    def views(self):
        return {**super().views, "asks": 2, "provides": 2, "expects": 3 * self.dim}

    def encode(self, texts, *, views=("pooled",)):
        found = super().encode(texts, views=views)
        provided = [20.0 if any(map(str.isdigit, text)) else -20.0 for text in texts]
        return replace(
            found,
            asks=np.tile(np.array([1, 0], np.float32), (len(texts), 1)),
            provides=np.array([[value, 1] for value in provided], np.float32),
            expects=np.tile(np.eye(3, self.dim, dtype=np.float32).ravel(), (len(texts), 1)),
        )


def models_of(folder, encoder) -> Models:
    save_pairs(folder / "pairs", encoder.fingerprint, encoder.n_terms)
    return Models.load(folder, encoder=encoder)


def save_evidence(folder, weights, encoder, features=PAIR_FEATURES, short=()):
    values = npy_bytes(np.stack([weights_of(weights), weights_of(dict(short))]))
    fields = {"encoder": encoder, "features": list(features)}
    artifacts.save(folder / "pairs" / "evidence", "evidence", {"weights.npy": values}, fields)


@pytest.fixture
def reranker(tmp_path):
    encoder = TellingEncoder()
    models_of(tmp_path, encoder)
    save_evidence(tmp_path, EVIDENCE, encoder.fingerprint, short={"provided": 0.2})
    return Reranker(Models.load(tmp_path, encoder=encoder))


def test_a_passage_that_gives_what_is_asked_is_before_an_echo(tmp_path, reranker):
    plain = Reranker(models_of(tmp_path / "plain", FakeEncoder()))
    assert [hit.text for hit in plain.rerank(QUESTION, [ANSWER, ECHO])] == [ECHO, ANSWER]
    found = reranker.rerank(QUESTION, [ECHO, ANSWER])
    assert [hit.text for hit in found] == [ANSWER, ECHO]


@pytest.mark.parametrize(("lengths", "weights"), [([3, 7], [11, 2]), ([2 * int(SHORT)], [6, 2]), ([], [11, 2])])
def test_weights_of_short_candidates_count_less_for_longer_ones(lengths, weights):
    np.testing.assert_allclose(weights_for(np.array([[1.0, 2.0], [10.0, 0.0]]), np.array(lengths, int)), weights)


def test_the_score_is_the_fused_one_and_a_part_for_each_group_of_features(reranker):
    hits = {hit.text: hit for hit in reranker.rerank(QUESTION, PASSAGES, explain=True)}
    for hit in hits.values():
        parts = hit.explanation.parts
        assert set(parts) == {"dense", "bm25", *(feature.group for feature in FEATURES)}
        assert hit.score == pytest.approx(sum(parts.values()))
        assert 0 < hit.components["relevance"] < 1
    assert hits[ECHO].explanation.parts["answers"] < hits[ANSWER].explanation.parts["answers"] - 4


def test_one_weight_scales_all_evidence(reranker):
    once, twice = (
        {hit.id: hit.explanation.parts for hit in reranker.rerank(QUESTION, PASSAGES, weights=weights, explain=True)}
        for weights in ({}, {"evidence": 2})
    )
    for name, parts in once.items():
        scaled = {part: value if part in ("dense", "bm25") else 2 * value for part, value in parts.items()}
        assert twice[name] == pytest.approx(scaled)


def test_weights_fitted_for_the_encoder_replace_the_usual_ones(tmp_path):
    plain, encoder = models_of(tmp_path, TellingEncoder()), TellingEncoder()
    np.testing.assert_array_equal(plain.pairs.evidence, [weights_of(EVIDENCE), weights_of({})])
    save_evidence(tmp_path, {"provided": 3.0}, encoder.fingerprint, short={"expected": 2.0})
    fitted = Models.load(tmp_path, encoder=encoder)
    np.testing.assert_array_equal(fitted.pairs.evidence, [weights_of({"provided": 3.0}), weights_of({"expected": 2.0})])
    (hit, _) = Reranker(fitted).rerank(QUESTION, [ANSWER, ECHO], explain=True)
    assert set(hit.explanation.parts) == {"dense", "bm25", "answers"}


@pytest.mark.parametrize(
    ("encoder", "features", "error"),
    [("another", PAIR_FEATURES, EncoderMismatchError), (None, PAIR_FEATURES[::-1], ArtifactError)],
)
def test_weights_of_another_encoder_or_of_other_features_are_refused(tmp_path, encoder, features, error):
    models = models_of(tmp_path, TellingEncoder())
    save_evidence(tmp_path, {"provided": 3.0}, encoder or models.encoder.fingerprint, features)
    with pytest.raises(error, match="evidence"):
        Models.load(tmp_path, encoder=models.encoder)
