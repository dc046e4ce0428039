"""Orders of candidates by signals, with an entailment threshold that lies among those of the candidates."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from made_models import save_pairs

from semclass import ArtifactError
from semclass.ranking.features import PAIR_FEATURES
from semclass.ranking.methods import METHODS
from semclass.ranking.order import reorder, signals
from semclass.ranking.pair_model import LinearTerms, PairModel

QUESTION = "Where is the museum?"
N = 10


@pytest.fixture(scope="module")
def query(models):
    return models.encode([QUESTION])[0]


@pytest.fixture(scope="module")
def found(retriever, query):
    return retriever.candidates(query, N, METHODS["bm25"])


@pytest.fixture(scope="module")
def split(models, query, found):
    """Models whose entailment threshold five of the ten candidates reach."""
    probabilities = signals(models, query, found)["entailment"]
    head = replace(models.pairs.entailment, thresholds=(float(np.sort(probabilities)[N // 2]),))
    changed = replace(models, pair_heads=replace(models.pairs, entailment=head))
    assert signals(changed, query, found)["entails"].sum() == N / 2
    return changed


@pytest.mark.parametrize(("kind", "signal"), [("entail", "entails"), ("class", "match_hard")])
def test_hard_labels_put_passages_first_or_are_added(split, query, found, kind, signal):
    label = signals(split, query, found)[signal]
    first = sorted(range(N), key=lambda place: -label[place])
    assert set(label) == {0.0, 1.0}
    assert first != list(range(N))  # the label changes the order
    stable = reorder(split, query, found, METHODS[f"{kind}-stable"])
    assert stable.order.tolist() == first
    np.testing.assert_array_equal(stable.score, found.score)
    weights = {"entailment_hard": 0.3, "class_hard": 0.3}
    added = reorder(split, query, found, METHODS[f"{kind}-integrated-hard"], weights=weights)
    np.testing.assert_array_equal(added.score, found.score + 0.3 * label)
    assert added.order.tolist() == np.argsort(-added.score, kind="stable").tolist()


def test_equal_sums_of_many_passages_keep_their_order(models, retriever, query):
    found = replace(retriever.candidates(query, 30, METHODS["hybrid"]), score=np.zeros(30))
    order = reorder(models, query, found, METHODS["class-integrated-hard"], weights={"class_hard": 0.3})
    assert len(set(order.score)) == 2
    assert order.order.tolist() == sorted(range(30), key=lambda place: -order.score[place])


@pytest.mark.parametrize(
    ("option", "method"), [({"tokens": False}, "class-integrated-hard"), ({"classes": False}, "learned")]
)
def test_a_question_need_not_hold_what_a_method_does_not_read(models, query, found, option, method):
    (bare,) = models.encode([QUESTION], **option)
    orders = [reorder(models, each, found, METHODS[method]) for each in (bare, query)]
    assert orders[0].order.tolist() == orders[1].order.tolist()
    np.testing.assert_array_equal(orders[0].score, orders[1].score)


def test_pair_heads_over_other_features_are_refused(tmp_path, monkeypatch, fake_encoder):
    save_pairs(tmp_path / "pairs", fake_encoder.fingerprint, fake_encoder.n_terms)
    assert PairModel.load(tmp_path / "pairs", encoder_fingerprint=fake_encoder.fingerprint).weights["class_hard"] == 1
    monkeypatch.setattr("semclass.ranking.pair_model.PAIR_FEATURES", PAIR_FEATURES[::-1])
    with pytest.raises(ArtifactError, match="the features of the model in"):
        PairModel.load(tmp_path / "pairs", encoder_fingerprint=fake_encoder.fingerprint)
    linear = SimpleNamespace(folder="head", field=lambda name: {"weights": [1.0], "bias": 0.0})
    with pytest.raises(ArtifactError, match=f"1 weights, not {len(PAIR_FEATURES)}"):
        LinearTerms.of(SimpleNamespace(artifact=linear))
