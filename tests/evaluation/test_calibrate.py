"""A threshold for showing nothing, chosen by judgements."""

from __future__ import annotations

import numpy as np
import pytest

from semclass import ArtifactError, HybridRetriever, InputError, build_index
from semclass.core import artifacts
from semclass.evaluation.calibrate import calibrate, judged_questions, share
from semclass.index.commit import store_answerable, store_tuned
from semclass.index.folder import describe

QUESTION = "Who built the bridge?"


def drawn(n, seed=0, apart=1.5):
    """Values and truths of n questions, whose log-odds are normal around 0 and `apart`, half of each."""
    rng = np.random.default_rng(seed)
    right = np.arange(n) % 2 == 0
    odds = rng.normal(np.where(right, apart, 0.0), 1.0)
    return 1 / (1 + np.exp(-odds)), right


def test_the_threshold_lies_where_right_and_wrong_are_as_frequent():
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
    first, second = (hit.id for hit in retriever.search(QUESTION, 2))
    judged = {QUESTION: {first: False, second: True}, f"{QUESTION} ": {second: False}}
    ((value, right),) = judged_questions(retriever, judged)
    assert (right, value) == (True, pytest.approx(retriever.search(QUESTION).answerable))
    assert [right for _, right in judged_questions(retriever, judged, complete=True)] == [True, False]


def test_an_index_keeps_threshold_and_weights_apart(tmp_path, models, corpus):
    build_index(tmp_path, corpus[:20], passage_encoder=models.passage_encoder)
    retriever = HybridRetriever(HybridRetriever.load(tmp_path).index, models)
    assert retriever.answerable_from == models.answerable_from
    store_tuned(tmp_path, {"weights": {"bm25": 0.5}})
    store_answerable(tmp_path, {"from": 0.25})
    newer = retriever.refresh()
    assert (newer.answerable_from, newer.weights["bm25"]) == (0.25, 0.5)
    store_tuned(tmp_path, None)
    assert describe(tmp_path)["tuned"] == {"answerable": {"from": 0.25}}
    store_answerable(tmp_path, None)
    assert newer.refresh().answerable_from == models.answerable_from
    with pytest.raises(ArtifactError, match="calibrate --reset"):
        store_answerable(tmp_path, {"from": 2})
    path = tmp_path / "manifest.json"
    artifacts.write_atomic(path, artifacts.dump_json({**artifacts.read_json(path), "tuned": {"answerable": 1}}))
    store_answerable(tmp_path, None)
    assert describe(tmp_path)["tuned"] == {}
