from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from beir import QUESTIONS

from semclass import ArtifactError, HybridRetriever, InputError, PassageIndex
from semclass.evaluation.candidate_scores import Components, collect, reciprocal_ranks
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.tune import search_integrated, tune
from semclass.evaluation.weight_search import ALPHA_GRID, FEW, GRID, fold_of, search_weights
from semclass.index.commit import store_tuned
from semclass.index.writer import change_index
from semclass.ranking.methods import METHODS, RERANKING
from semclass.ranking.order import SIGNALS
from semclass.scoring.fusion import fused

ENTAILED = METHODS["entail-integrated"]


@pytest.fixture(scope="module")
def dataset():
    names = {f"q{number}": pair for number, pair in enumerate(QUESTIONS.items())}
    return Dataset(
        Path(),
        {name: text for name, (text, _) in names.items()},
        {name: {item: 1} for name, (_, item) in names.items()},
    )


# -- components of candidates


@pytest.mark.parametrize("name", [name for name in RERANKING if not METHODS[name].joint_top_k])
def test_methods_over_stored_components_order_as_the_search_does(retriever, name):
    method = METHODS[name]
    components = collect(retriever, retriever.encode(list(QUESTIONS)), 8, method)
    order = components.order(method, retriever.weights.get(method.weight, 0.0))
    for row, question in enumerate(QUESTIONS):
        hits = retriever.search(question, k=8, method=name, candidates=8)
        expected = [retriever.index.passage(place).id for place in components.rows[row, order[row]]]
        assert [hit.id for hit in hits] == expected


def test_reciprocal_ranks_by_hand():
    keys = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [3.0, 2.0, 1.0]])
    relevant = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], bool)
    np.testing.assert_allclose(reciprocal_ranks(keys, relevant), [1 / 2, 1 / 3, 1 / 3, 0])
    best_last = np.arange(11) == 0
    assert reciprocal_ranks(np.arange(11.0)[None], best_last[None]) == 0, "only the first ten places count"


# -- the search for one weight


def components(score, entailment) -> Components:
    """Components in which only score and entailment say something."""
    nothing = np.zeros_like(score)
    return Components(
        np.zeros(score.shape, np.int64), score, {**dict.fromkeys(SIGNALS, nothing), "entailment": entailment}
    )


def by_hand(n: int, gap: float = 1.0):
    """n questions whose second candidate is the answer; its entailment lifts it to the front from weight `gap` on."""
    score = np.tile([gap, 0.0, -1.0], (n, 1))
    entailment = np.tile([0.0, 1.0, 0.0], (n, 1))
    return components(score, entailment), np.tile([False, True, False], (n, 1))


def test_the_weight_that_lifts_the_answers_is_found():
    found = search_integrated(*by_hand(20), fold_of(20, 5, 0), ENTAILED, default=0.5)
    assert found.best == pytest.approx(1.1)  # at 1 the scores are equal, and the earlier rank wins
    assert found.fold_weights == (found.best,) * 5
    assert (found.mrr[0], found.mrr_default, found.mrr_searched, found.mrr_cross_validated) == (0.5, 0.5, 1, 1)
    assert found.helps
    assert found.weight == found.best


def test_a_weight_that_only_fits_its_own_questions_does_not_help():
    """Score and signal are both noise, so that every weight is as good as any other."""
    rng = np.random.default_rng(0)
    parts = components(rng.normal(size=(200, 10)), rng.normal(size=(200, 10)))
    relevant = np.tile(np.arange(10) == 0, (200, 1))
    found = search_integrated(parts, relevant, fold_of(200, 5, 0), ENTAILED, default=0.0)
    assert found.mrr_searched > found.mrr_default
    assert found.mrr_cross_validated < found.mrr_searched
    assert not found.helps
    assert found.weight == found.default


def test_from_few_questions_no_larger_step_is_taken_than_most_of_them_need():
    """A weight of 0.51 puts the answers of all but one question in front, and that one needs 1.5."""
    n = FEW - 1
    parts, relevant = by_hand(n, 0.5)
    parts = replace(parts, score=np.where(np.arange(n)[:, None] == 0, 3, 1) * parts.score)
    few = search_integrated(parts, relevant, fold_of(n, 5, 0), ENTAILED, default=0.0)
    assert few.helps
    assert few.best == pytest.approx(1.6)
    assert few.weight == few.cautious == pytest.approx(0.56)
    twice = components(np.tile(parts.score, (2, 1)), np.tile(parts.signals["entailment"], (2, 1)))
    many = search_integrated(twice, np.tile(relevant, (2, 1)), fold_of(2 * n, 5, 0), ENTAILED, default=0.0)
    assert many.weight == many.best == few.best


def two_systems(n: int, passages: int = 60):
    """n questions whose answer is passage 0; BM25 finds it at once, the vectors know next to nothing."""
    rng = np.random.default_rng(0)
    dense, bm25 = rng.uniform(0, 1, (n, passages)), rng.exponential(3, (n, passages))
    bm25[:, 0] += 9
    return list(zip(dense, bm25, strict=True)), [np.array([0])] * n


@pytest.mark.parametrize("n", [10, 200])
def test_a_default_that_is_far_off_is_noticed(n):
    found = search_weights(*two_systems(n), default=1.0)
    assert found.name == "alpha"
    assert found.helps
    assert found.weight < 0.9
    assert found.mrr[np.searchsorted(ALPHA_GRID, found.weight)] > 2 * found.mrr_default


def test_few_questions_leave_a_default_that_is_right():
    """Both systems know as much as each other, and the best alpha of few questions lies anywhere."""
    n, found = 20, []
    for seed in range(20):
        both = np.random.default_rng(seed).normal(10, 1, (n, 2, 60))
        both[:, :, 0] += 1.5
        found.append(search_weights(list(both), [np.array([0])] * n, default=0.5))
    assert any(abs(item.best - 0.5) > 0.1 for item in found)
    assert sum(item.helps for item in found) <= 2
    assert all(item.weight == 0.5 for item in found if not item.helps)


@pytest.mark.parametrize(("method", "grid"), [("convex", ALPHA_GRID), ("linear", GRID)])
def test_the_curve_of_a_fusion_is_what_fusing_gives(method, grid):
    scores, places = two_systems(12, passages=300)
    scores = [(dense, bm25 - 9 * (np.arange(300) == 0)) for dense, bm25 in scores]
    name, depth = ("alpha", 100) if method == "convex" else ("weight", None)
    found = search_weights(scores, places, method, default=0.37)

    def mrr(weight):
        fusions = [fused(*pair, method, depth=depth, **{name: weight}).score for pair in scores]
        ranks = [1 + np.sum(score > score[0]) if score[0] > -np.inf else 11 for score in fusions]
        return np.mean([1 / rank if rank <= 10 else 0 for rank in ranks])

    for place in (3, 20, 50):
        assert found.mrr[place] == pytest.approx(mrr(grid[place]))
    assert found.mrr_default == pytest.approx(mrr(0.37))


def test_a_search_that_is_not_possible_is_refused():
    scores, places = two_systems(4)
    with pytest.raises(InputError, match="5 folds; give at least 5 questions"):
        search_weights(scores, places)


# -- all weights of a retriever


def test_every_weight_of_a_retriever_is_searched(retriever, dataset):
    done = []
    found = tune(retriever, dataset, folds=3, progress=done.append)
    names = "bm25 alpha evidence match_soft match_hard entailment entailment_hard class class_hard"
    assert [item.name for item in found.searches] == names.split()
    assert found.questions == len(QUESTIONS) == sum(done) / 4
    for item in found.searches:
        assert item.mrr_searched >= max(item.mrr_cross_validated, item.mrr[0])
        assert item.default == retriever.weights[item.name]
    assert tune(retriever, dataset, folds=3).weights == found.weights


def test_without_pair_heads_w_and_alpha_are_searched_alone(retriever, dataset):
    found = tune(HybridRetriever(retriever.index, replace(retriever.models, pair_heads=None)), dataset, folds=2)
    assert [item.name for item in found.searches] == ["bm25", "alpha"]
    assert found.searches[0].learned is None


def mrr_of(retriever, **options):
    found = [[hit.id for hit in retriever.search(text, **options)] for text in QUESTIONS]
    pairs = zip(found, QUESTIONS.values(), strict=True)
    return np.mean([1 / (1 + ids.index(answer)) if answer in ids else 0 for ids, answer in pairs])


def test_the_curves_over_the_index_are_what_search_gives(retriever, dataset, folder):
    deleted = [passage.id for passage in retriever.index.passages(np.arange(5)) if passage.id not in QUESTIONS.values()]
    change_index(folder, delete=deleted)
    left = HybridRetriever(PassageIndex.load(folder), retriever.models)
    found = {item.name: item for item in tune(left, dataset, folds=2).searches}
    for weight in (0.0, 0.32, 2.0):
        weights = {"bm25": found["bm25"].weight, "match_soft": weight}
        (place,) = np.flatnonzero(weight == GRID)
        assert found["match_soft"].mrr[place] == pytest.approx(mrr_of(left, method="match-soft", weights=weights))
    for place in (0, 30, 100):
        weights = {"alpha": place / 100}
        assert found["alpha"].mrr[place] == pytest.approx(mrr_of(left, method="convex", weights=weights))


def test_questions_without_an_answer_in_the_index_are_left_out(retriever, dataset):
    questions = {**dataset.questions, "other": "Who else?"}
    more = Dataset(Path(), questions, {**dataset.relevance, "other": {"nowhere": 1}})
    assert tune(retriever, more, folds=2).questions == len(QUESTIONS)
    with pytest.raises(
        InputError, match="7 questions with a relevant passage in the index, and 8 folds; give at least 8"
    ):
        tune(retriever, more, folds=8)


# -- stored weights


@pytest.fixture
def folder(retriever, tmp_path):
    retriever.index.save(tmp_path / "index")
    return tmp_path / "index"


def weights_of(folder, models):
    return HybridRetriever(PassageIndex.load(folder), models).weights


def test_stored_weights_are_the_defaults_of_search_and_can_be_removed(retriever, folder, models):
    question = "Who designed the lighthouse?"
    before = weights_of(folder, models)
    store_tuned(folder, {"weights": {"bm25": 0.03, "entailment": 2.5}, "found_on": {"questions": 7}})
    assert weights_of(folder, models) == {**before, "bm25": 0.03, "entailment": 2.5}
    tuned = HybridRetriever(PassageIndex.load(folder), models)
    explicit = retriever.search(question, method="entail-integrated", weights={"bm25": 0.03, "entailment": 2.5})
    assert tuned.search(question, method="entail-integrated") == explicit
    plain = retriever.search(question, method="hybrid")
    assert tuned.search(question, method="hybrid", weights={"bm25": 0.1}) == plain
    assert tuned.untuned().weights == before
    tuned.index.save(folder.with_name("copy"))
    assert weights_of(folder.with_name("copy"), models) == tuned.weights
    store_tuned(folder, None)
    assert weights_of(folder, models) == before


def test_an_index_that_is_built_anew_has_no_weights(retriever, folder, models):
    store_tuned(folder, {"weights": {"bm25": 0.03}})
    retriever.index.save(folder)
    assert weights_of(folder, models)["bm25"] == 0.1


@pytest.mark.parametrize("weights", [{"bm25": -1}, {"bm25": "much"}, [0.1]], ids=["negative", "text", "no mapping"])
def test_invalid_stored_weights_are_refused(folder, weights):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tuned": {"weights": weights}}))
    with pytest.raises(ArtifactError, match="--reset"):
        PassageIndex.load(folder)
    store_tuned(folder, None)
    PassageIndex.load(folder)


def test_weights_cannot_be_stored_where_no_index_is(tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        store_tuned(tmp_path, None)


def test_the_curves_as_a_picture():
    pytest.importorskip("matplotlib")
    from semclass.evaluation.figures import weight_curves

    found = [search_weights(*two_systems(10))]
    picture = weight_curves(found)
    assert picture.startswith(b"\x89PNG")
    assert weight_curves(found) == picture
