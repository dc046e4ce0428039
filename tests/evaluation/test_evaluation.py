from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from beir import QUESTIONS

from semclass import InputError, Passage
from semclass.evaluation.dataset import Dataset, load_dataset, write_run
from semclass.evaluation.evaluate import rank, sweep
from semclass.evaluation.measure import compare, measure, per_question


def dataset(*relevant: str) -> Dataset:
    names = [f"q{number}" for number in range(len(relevant))]
    return Dataset(
        Path(), dict.fromkeys(names, "?"), {name: {item: 1} for name, item in zip(names, relevant, strict=True)}
    )


TEN = list("abcdefghij")


def test_the_figures_of_a_ranking_worked_out_by_hand():
    # answers in places 1, 2 and nowhere; the other method moves the second to the front
    data = dataset("a", "b", "z")
    rankings = {"hybrid": [TEN] * 3, "other": [TEN, ["b", *TEN[2:], "a"], TEN], "worse": [TEN[::-1], TEN, TEN]}
    result = measure(data, rankings)
    hybrid, other = result["hybrid"], result["other"]
    assert hybrid.mrr == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert hybrid.top1 == pytest.approx(1 / 3)
    assert hybrid.top_k[1] == hybrid.top_k[9] == hybrid.recall == pytest.approx(2 / 3)
    assert hybrid.ndcg == pytest.approx((1 + 1 / np.log2(3)) / 3)
    # conditional: only the two questions whose answer is among the hybrid's ten
    assert hybrid.cond_mrr == pytest.approx(0.75)
    assert hybrid.cond_top1 == pytest.approx(0.5)
    assert (hybrid.error_removed, hybrid.p_value) == (0.0, 1.0)
    assert other.cond_mrr == 1.0
    assert other.error_removed == pytest.approx(1.0)
    assert list(hybrid.as_json())[:5] == ["mrr@10", "top1", "top_k", "recall@10", "ndcg@10"]
    assert result["worse"].error_removed == pytest.approx(-0.9 / 0.5)


def test_the_best_of_few_questions_may_be_chance():
    few, many = (dataset(*"b" * count) for count in (3, 40))
    better = ["b", *TEN[2:]]
    found = compare(few, {"used": [TEN] * 3, "better": [better] * 3}, "used")
    assert (found.best, found.gain > 0, found.is_clear) == ("better", True, False)
    assert compare(many, {"used": [TEN] * 40, "better": [better] * 40}, "used").is_clear
    assert compare(many, {"same": [TEN] * 40, "used": [TEN] * 40}, "used").best == "used"


def test_without_answers_of_the_hybrid_no_error_is_removed():
    data = dataset("y", "z")
    other = measure(data, {"hybrid": [TEN] * 2, "other": [["y"], ["z"]]})["other"]
    assert (other.mrr, other.cond_mrr, other.cond_top1, other.error_removed) == (1, 1, 1, 0)
    assert other.error_removed_ci == (0, 0)


def against_second_places(*places: int):
    """Measure a method that has each answer in one of these places, where the hybrid has it in the second."""
    moved = [[*TEN[2 : place + 1], "b"] if place > 1 else ["b"] for place in places]
    rankings = {"hybrid": [TEN] * len(places), "other": moved}
    return measure(dataset(*["b"] * len(places)), rankings)["other"]


@pytest.mark.parametrize("places", [(1, 1), (1, 1, 1, 3), (3, 3, 2, 3), (1, 1, 1, 1, 1, 3, 3, 10)], ids=str)
def test_the_p_value_is_that_of_all_sign_flips(places):
    differences = np.array([1 / place - 1 / 2 for place in places])
    sums = [np.dot(signs, differences) for signs in itertools.product([-1, 1], repeat=len(places))]
    expected = np.mean(np.abs(sums) >= abs(differences.sum()) - 1e-9)
    assert against_second_places(*places).p_value == pytest.approx(expected)


def beir(folder, qrels="query-id\tcorpus-id\tscore\nq1\tp1\t1\n", queries='{"_id": "q1", "text": "Who?"}\n'):
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "p1", "text": "x"}\n')
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\tp1\tyes\n"}, r"test\.tsv, line 2"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1 p1 1\n"}, r"test\.tsv, line 2"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "judges no question"),
        ({"queries": '{"text": "Who?"}\n'}, r"queries\.jsonl, line 1"),
        ({"queries": '{"_id": \n'}, r"queries\.jsonl, line 1: broken JSON"),
    ],
)
def test_what_is_wrong_in_a_beir_folder_is_named(tmp_path, files, says):
    with pytest.raises(InputError, match=says):
        load_dataset(beir(tmp_path, **files))


def test_a_beir_folder_is_read(tmp_path):
    folder = beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\tp1\t2\nq1\tp2\t0\nq9\tp1\t1\n")
    data = load_dataset(folder)
    assert (data.questions, data.relevance) == ({"q1": "Who?"}, {"q1": {"p1": 2}})
    with pytest.raises(InputError, match=r"dev\.tsv is missing"):
        load_dataset(folder, split="dev")


def test_measures_by_name_worked_out_by_hand():
    data = Dataset(Path(), {"q": "?"}, {"q": {"a": 1, "c": 1, "x": 1}})
    found = per_question(data, [TEN], ["P@2", "R@3", "SetF", "AP@10", "AP@2"])
    assert per_question(data, [[]], ["RR@10"])["RR@10"] == [0]
    expected = {"P@2": 1 / 2, "R@3": 2 / 3, "SetF": 4 / 13, "AP@10": (1 + 2 / 3) / 3, "AP@2": 1 / 3}
    assert {name: float(value[0]) for name, value in found.items()} == pytest.approx(expected)


def test_an_interval_of_many_questions_is_the_normal_one():
    # reciprocal ranks are 1 and 1/2, as often each: 1.96 standard errors of a deviation of 1/4
    data = dataset(*["a", "b"] * 400)
    low, high = measure(data, {"hybrid": [TEN] * 800})["hybrid"].mrr_ci
    assert (low, high) == pytest.approx((0.75 - 1.96 * 0.25 / 800**0.5, 0.75 + 1.96 * 0.25 / 800**0.5), abs=0.002)


def test_behind_what_was_re_ranked_the_rest_follows(retriever, corpus):
    texts, done = list(QUESTIONS)[:2], []
    data = Dataset(Path(), {text: text for text in texts}, {text: {QUESTIONS[text]: 1} for text in texts})
    rankings = rank(data, retriever, ["hybrid", "entail-integrated"], progress=done.append)
    assert sum(done) == 4
    for hybrid, reranked in zip(*rankings.values(), strict=True):
        assert len(hybrid) == len(corpus)
        assert sorted(reranked[:10]) == sorted(hybrid[:10])
        assert reranked[10:] == hybrid[10:]
    assert len(rank(data, retriever, ["default"], depth=7)["default"][0]) == 7


def test_plain_vectors_are_compared_by_three_similarities():
    vectors = {"Who?": [1, 0], "a": [2, 2], "b": [0.5, 0], "c": [1, 0.4]}

    class Plain:
        def encode(self, texts, *, views=("pooled",)):
            return SimpleNamespace(rows=lambda name: np.array([vectors[text] for text in texts], np.float32))

    data = Dataset(Path(), {"q": "Who?"}, {"q": {"b": 1}})
    results = sweep(data, [Passage(name, name) for name in "abc"], Plain(), ["RR@10"])
    ranks = {name: 1 / result["measures"]["RR@10"]["value"] for name, result in results.items()}
    assert ranks == {"cosine": 1, "ip": 3, "l2": 2}
    assert results["cosine"]["p_value"] == 1


def test_a_run_is_written_for_other_tools(tmp_path):
    data = dataset("a", "b", "c")
    ranking = [TEN, ["b", "a"], ["c"]]
    write_run(tmp_path / "runs" / "x.trec", data.questions, ranking, "x")
    assert (tmp_path / "runs" / "x.trec").read_text().splitlines()[10:12] == ["q1 Q0 b 1 2 x", "q1 Q0 a 2 1 x"]
