"""Weights and a threshold that are found on questions with known answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from beir import QUESTIONS

from semclass import ArtifactError, HybridRetriever, InputError, PassageIndex, build_index
from semclass.core import artifacts
from semclass.evaluation.calibrate import calibrate, judged_questions, share
from semclass.evaluation.dataset import Dataset, judged_dataset, read_judgements
from semclass.evaluation.tune import FEW_QUESTIONS, GRIDS, fold_of, search, tune
from semclass.index.folder import describe, store
from semclass.index.writer import change_index

BRIDGE = "Who built the bridge?"
GRID = GRIDS["evidence"]


@pytest.fixture(scope="module")
def dataset():
    names = {f"q{number}": pair for number, pair in enumerate(QUESTIONS.items())}
    texts = {name: text for name, (text, _) in names.items()}
    return Dataset(Path(), texts, {name: {answer: 1} for name, (_, answer) in names.items()})


def searched(n, gaps, *, default=0.0):
    """Search over n questions whose answer is second, and first from above the weight `gaps` on."""
    weights, scores = np.append(GRID, default), np.broadcast_to(gaps, (n,))
    ranks = np.where(weights > scores[:, None], 1.0, 0.5)
    return search("evidence", default, GRID, ranks, fold_of(n, 5, 0))


def test_the_weight_that_lifts_the_answers_is_found():
    result = searched(20, 1.0, default=0.5)
    assert result.best == pytest.approx(2**0.5)
    assert (result.mrr[0], result.mrr_default, result.mrr_searched, result.mrr_cross_validated) == (0.5, 0.5, 1, 1)
    assert result.helps
    assert result.weight == result.best


def test_a_weight_that_only_fits_its_own_questions_does_not_help():
    noise = 1 / np.random.default_rng(0).integers(1, 11, size=(200, len(GRID) + 1))
    result = search("evidence", 0.0, GRID, noise, fold_of(200, 5, 0))
    assert result.mrr_searched > result.mrr_default
    assert result.mrr_cross_validated < result.mrr_searched
    assert (result.helps, result.weight) == (False, result.default)


def test_few_questions_take_the_smallest_step_that_most_need():
    n = FEW_QUESTIONS - 1
    gaps = np.where(np.arange(n) == 0, 1.5, 0.5)
    few, many = searched(n, gaps), searched(2 * n, np.tile(gaps, 2))
    assert few.helps
    assert few.best == pytest.approx(2)
    assert few.weight == pytest.approx(0.5**0.5)
    assert many.weight == many.best == few.best


def mrr_of(retriever, **options):
    rankings = [[hit.id for hit in retriever.search(text, **options)] for text in QUESTIONS]
    pairs = zip(rankings, QUESTIONS.values(), strict=True)
    return np.mean([1 / (1 + ids.index(answer)) if answer in ids else 0 for ids, answer in pairs])


def test_every_curve_is_what_a_search_gives(retriever, dataset, folder):
    deleted = [passage.id for passage in retriever.index.passages(np.arange(5)) if passage.id not in QUESTIONS.values()]
    change_index(folder, delete=deleted)
    left, done = HybridRetriever(PassageIndex.load(folder), retriever.models), []
    tuning = tune(left, dataset, folds=3, progress=done.append)
    alpha, evidence = tuning.searches
    assert (alpha.name, evidence.name, tuning.questions) == ("alpha", "evidence", len(QUESTIONS))
    assert sum(done) == sum(len(grid) + 1 for grid in GRIDS.values()) * len(QUESTIONS)
    for place in (0, 10):
        assert alpha.mrr[place] == pytest.approx(mrr_of(left, weights={"alpha": GRIDS["alpha"][place]}))
        tuned = {"alpha": alpha.weight, "evidence": GRID[place]}
        assert evidence.mrr[place] == pytest.approx(mrr_of(left, weights=tuned))
    store(folder, method="bm25")
    with pytest.raises(InputError, match="'bm25' has no weight to tune"):
        tune(HybridRetriever(PassageIndex.load(folder), retriever.models), dataset, folds=3)


def test_questions_without_an_answer_in_the_index_are_left_out(retriever, dataset):
    more = Dataset(Path(), {**dataset.questions, "other": "Who?"}, {**dataset.relevance, "other": {"nowhere": 1}})
    with pytest.raises(InputError, match="7 questions with a relevant passage in the index, and 8 folds"):
        tune(retriever, more, folds=8)


# -- stored weights


@pytest.fixture
def folder(retriever, tmp_path):
    retriever.index.save(tmp_path / "index")
    return tmp_path / "index"


def test_stored_weights_are_the_defaults_until_they_are_removed(retriever, folder, models):
    def weights():
        return HybridRetriever(PassageIndex.load(folder), models).weights

    before, options = weights(), {"method": "entail-integrated"}
    store(folder, weights={"bm25": 0.03, "entailment": 2.5}, found_on={"questions": 7})
    assert weights() == {**before, "bm25": 0.03, "entailment": 2.5}
    tuned = HybridRetriever(PassageIndex.load(folder), models)
    explicit = retriever.search("Who drew it?", **options, weights={"bm25": 0.03, "entailment": 2.5})
    assert tuned.search("Who drew it?", **options) == explicit
    assert tuned.models.weights == before
    store(folder, weights=None, found_on=None)
    assert weights() == before


@pytest.mark.parametrize("weights", [{"bm25": -1}, {"bm25": "much"}, [0.1]], ids=["negative", "text", "no mapping"])
def test_invalid_stored_weights_are_refused(folder, weights):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tuned": {"weights": weights}}))
    with pytest.raises(ArtifactError, match="--reset"):
        PassageIndex.load(folder)
    store(folder, weights=None, found_on=None)
    PassageIndex.load(folder)


# -- judgements


def test_the_last_judgement_of_a_pair_counts(tmp_path):
    rows = [("Who?", "a", True), ("Who?", "b", False), ("Who?", "a", False), ("When?", "c", True), ("Why?", "d", True)]
    lines = [json.dumps({"question": q, "passage": p, "right": right}) for q, p, right in [*rows, ("Why?", "d", None)]]
    (tmp_path / "j.jsonl").write_text("\n".join(lines))
    assert read_judgements(tmp_path / "j.jsonl") == {"Who?": {"a": False, "b": False}, "When?": {"c": True}}
    assert judged_dataset(tmp_path / "j.jsonl").relevance == {"When?": {"c": 1}}


# -- the threshold for showing nothing


def drawn(n, seed=0, apart=1.5):
    """Values and truths of n questions, whose log-odds are normal around 0 and `apart`, half of each."""
    rng = np.random.default_rng(seed)
    right = np.arange(n) % 2 == 0
    odds = rng.normal(np.where(right, apart, 0.0), 1.0)
    return 1 / (1 + np.exp(-odds)), right


def test_the_threshold_parts_right_from_wrong():
    found = calibrate(*drawn(2000))
    assert found.threshold == pytest.approx(1 / (1 + np.exp(-0.75)), abs=0.02)
    assert (found.questions, found.answered) == (2000, 1000)
    assert found.separation > 0.8
    assert found.precision.low < found.precision.value < found.precision.high


@pytest.mark.parametrize(
    ("values", "right"), [drawn(40, apart=0.0), ([0.2, 0.9] * 4, [False, True] * 4), ([0.5], [True])]
)
def test_without_a_clean_separation_there_is_no_threshold(values, right):
    found = calibrate(values, right)
    assert found.threshold is None
    assert (found.withheld.value, found.recall.value) == (0.0, 1.0)
    with pytest.raises(InputError, match="judged"):
        calibrate([], [])


def test_shares_have_the_intervals_of_wilson():
    found = share(0.8, 10)
    assert (found.low, found.high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))
    assert (share(0.0, 0).low, share(0.0, 0).high) == (0.0, 1.0)


def test_hits_are_judged_by_people_or_by_a_data_set(retriever):
    first, second = (hit.id for hit in retriever.search(BRIDGE, 2))
    judged = {BRIDGE: {first: False, second: True}, f"{BRIDGE} ": {second: False}}
    ((value, right),) = judged_questions(retriever, judged)
    assert (right, value) == (True, pytest.approx(retriever.search(BRIDGE).answerable))


def test_an_index_keeps_threshold_and_weights_apart(tmp_path, models, corpus):
    build_index(tmp_path, corpus[:20], passage_encoder=models.passage_encoder)
    retriever = HybridRetriever(HybridRetriever.load(tmp_path).index, models)
    assert retriever.answerable_from is None
    store(tmp_path, weights={"bm25": 0.5})
    store(tmp_path, answerable={"from": 0.25})
    newer = retriever.refresh()
    assert (newer.answerable_from, newer.weights["bm25"]) == (0.25, 0.5)
    store(tmp_path, weights=None)
    assert describe(tmp_path)["tuned"] == {"answerable": {"from": 0.25}}
    store(tmp_path, answerable=None)
    assert newer.refresh().answerable_from is None
    with pytest.raises(ArtifactError, match="calibrate --reset"):
        store(tmp_path, answerable={"from": 2})
    path = tmp_path / "manifest.json"
    artifacts.write_atomic(path, artifacts.dump_json({**artifacts.read_json(path), "tuned": {"answerable": 1}}))
    store(tmp_path, answerable=None)
    assert describe(tmp_path)["tuned"] == {}
