"""Methods: what they need, which heads they find, and the orders of the reference thesis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_models import save_pairs

from semclass import ArtifactError, InputError
from semclass.core.errors import TruncationWarning
from semclass.heads.query_focus import PIECES
from semclass.ranking.features import PAIR_FEATURES, PairModel
from semclass.ranking.methods import METHODS, method_for

QUESTION = "What do tickets cost?"
N = 10


@pytest.fixture(scope="module")
def query(models):
    return models.encode([QUESTION])[0]


@pytest.mark.parametrize(("kind", "weight"), [("entail", "entailment"), ("class", "class")])
def test_labels_put_passages_first_or_are_added(retriever, models, query, kind, weight):
    found = retriever.candidates(query, N, METHODS["hybrid"])
    relevance = METHODS["entail-integrated"].signal_of(models, query, found, False)[0]
    head = replace(models.pairs.entailment, thresholds=(float(np.sort(relevance)[N // 2]),))  # five reach it
    split = replace(models, pair_heads=replace(models.pairs, entailment=head))
    hard = replace(METHODS[f"{kind}-integrated"], hard=True)
    label = hard.signal_of(split, query, found, True)[0]
    first = sorted(range(N), key=lambda place: -label[place])
    assert set(label) == {0.0, 1.0}
    assert first != list(range(N))  # the label changes the order
    stable = METHODS[f"{kind}-stable"].order(split, query, found, {})
    assert stable.order.tolist() == first
    np.testing.assert_array_equal(stable.score, found.score)
    added = hard.order(split, query, found, {weight: 0.3})
    np.testing.assert_array_equal(added.score, found.score + 0.3 * label)
    assert added.order.tolist() == np.argsort(-added.score, kind="stable").tolist()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_reads_what_it_needs(retriever, models, query, name):
    method, weights = METHODS[name], retriever.weights
    found = retriever.candidates(query, N, method)
    (own,) = models.encode([QUESTION], **method.needs.encoded())
    ranked, whole = (method.order(models, each, found, weights) for each in (own, query))
    assert ranked.order.tolist() == whole.order.tolist()
    np.testing.assert_allclose(ranked.score, whole.score, atol=1e-6)


def test_a_method_without_its_heads_is_refused_but_the_default(models):
    bare = replace(models, pair_heads=None)
    assert method_for(bare, "default") is METHODS["convex"]
    with pytest.raises(InputError, match="train_pairs"):
        method_for(bare, "entail-stable")


def test_a_pair_head_over_other_features_is_refused(tmp_path, monkeypatch, fake_encoder):
    save_pairs(tmp_path / "pairs", fake_encoder.fingerprint, fake_encoder.n_terms)
    assert PairModel.load(tmp_path / "pairs", encoder_fingerprint=fake_encoder.fingerprint).weights["class"] == 1
    monkeypatch.setattr("semclass.ranking.features.PAIR_FEATURES", PAIR_FEATURES[::-1])
    with pytest.raises(ArtifactError, match="the features of the model in"):
        PairModel.load(tmp_path / "pairs", encoder_fingerprint=fake_encoder.fingerprint)


@pytest.mark.parametrize("word", ["a,b;", "我们在河边看见灯塔"], ids=["marks", "Chinese"])
def test_a_question_is_compared_by_few_of_its_word_pieces(models, word):
    with pytest.warns(TruncationWarning):
        (query,) = models.encode([(word * 25_000)[:99_000]])
    assert len(query.terms) == PIECES
    assert len(query.tokens) == len(query.weights) <= PIECES
    assert query.weights.sum() == pytest.approx(1)
