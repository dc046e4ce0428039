"""Orders of candidates against what their signals say, with a threshold that lies among them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from made_models import save_pairs

from semclass import ArtifactError, HybridRetriever, Passage, PassageIndex, Reranker
from semclass.ranking.features import PAIR_FEATURES
from semclass.ranking.methods import METHODS
from semclass.ranking.pair_model import LinearTerms, PairModel

QUESTION = "Where is the museum?"
N = 10


@pytest.fixture(scope="module")
def split(models, corpus):
    """A retriever whose entailment threshold is the probability of the fifth of ten candidates, so that five reach it."""
    retriever = HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)
    (query,) = models.encode([QUESTION])
    found = models.signals(query, retriever.candidates(query, N, METHODS["hybrid"]))["entailment"]
    head = replace(models.pairs.entailment, thresholds=(float(np.sort(found)[N // 2]),))
    return replace(retriever, models=replace(models, pair_heads=replace(models.pairs, entailment=head)))


@pytest.fixture(scope="module")
def candidates(split):
    (query,) = split.models.encode([QUESTION])
    return query, split.candidates(query, N, METHODS["hybrid"])


@pytest.mark.parametrize(("kind", "signal"), [("entail", "entails"), ("class", "match_hard")])
def test_labels_come_first_and_are_what_is_added(split, candidates, kind, signal):
    query, found = candidates
    label = split.models.signals(query, found)[signal]
    first = sorted(range(N), key=lambda place: -label[place])
    assert set(label) == {0.0, 1.0}
    assert first != list(range(N))  # the label moves something
    stable = split.models.order(query, found, METHODS[f"{kind}-stable"])
    assert stable.order.tolist() == first
    np.testing.assert_array_equal(stable.score, found.score)
    added = split.models.order(
        query, found, METHODS[f"{kind}-integrated-hard"], weights={"entailment_hard": 0.3, "class_hard": 0.3}
    )
    np.testing.assert_array_equal(added.score, found.score + 0.3 * label)
    assert added.order.tolist() == np.argsort(-added.score, kind="stable").tolist()


def test_five_of_ten_reach_the_threshold(split, candidates):
    assert split.models.signals(*candidates)["entails"].sum() == N / 2


def test_a_method_that_reads_no_tokens_takes_a_question_without_them(split, candidates):
    (bare,) = split.models.encode([QUESTION], tokens=False)
    method = METHODS["class-integrated-hard"]
    found = split.models.order(bare, candidates[1], method)
    assert found.order.tolist() == split.models.order(*candidates, method).order.tolist()


def test_equal_scores_of_many_passages_keep_their_order(models):
    """Numpy sorts up to sixteen numbers in a stable way in any case."""
    texts = ["The museum is in Harbour Street.", "Bread is sold here."] * 30
    hits = Reranker(models).rerank(QUESTION, [Passage(str(n), text) for n, text in enumerate(texts)])
    assert len({hit.score for hit in hits}) == 2
    assert [hit.rank_before for hit in hits] == [*range(1, 61, 2), *range(2, 61, 2)]


def test_equal_sums_of_many_passages_keep_their_order(split, candidates):
    found = split.candidates(candidates[0], 30, METHODS["hybrid"])
    even = replace(found, score=np.zeros(30))
    order = split.models.order(candidates[0], even, METHODS["class-integrated-hard"], weights={"class_hard": 0.3})
    assert len(set(order.score)) == 2
    assert order.order.tolist() == sorted(range(30), key=lambda place: -order.score[place])


def test_a_group_that_weighs_nothing_is_no_part_of_a_score():
    terms = LinearTerms(("words", "vectors"), np.array([[2.0, 0.0], [3.0, 0.0]]), -1.0)
    parts = terms.parts(np.array([[1, 0], [0, 1]], np.float32))
    assert {name: part.tolist() for name, part in parts.items()} == {"words": [-0.5, 0.5], "average": [1.5, 1.5]}


def test_pair_heads_over_other_features_are_refused(tmp_path, monkeypatch, fake_encoder):
    save_pairs(tmp_path / "pairs", fake_encoder.fingerprint, fake_encoder.n_terms)
    made_for = {"encoder": fake_encoder.fingerprint, "interaction": "tokens"}
    assert PairModel.load(tmp_path / "pairs", **made_for).weights["class_hard"] == 1
    monkeypatch.setattr("semclass.ranking.pair_model.PAIR_FEATURES", PAIR_FEATURES[::-1])
    with pytest.raises(ArtifactError, match="other pair features"):
        PairModel.load(tmp_path / "pairs", **made_for)


def test_weights_of_another_number_than_features_are_refused():
    linear = SimpleNamespace(folder="head", field=lambda name: {"weights": [1.0], "bias": 0.0})
    with pytest.raises(ArtifactError, match=f"1 weights for {len(PAIR_FEATURES)} pair features"):
        LinearTerms.of(SimpleNamespace(artifact=linear))
