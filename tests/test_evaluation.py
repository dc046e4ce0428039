from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semclass import InputError
from semclass.evaluation import Dataset, load_dataset, measure


def dataset(*relevant: str) -> Dataset:
    names = [f"q{number}" for number in range(len(relevant))]
    return Dataset(
        Path(), dict.fromkeys(names, "?"), {name: {item: 1} for name, item in zip(names, relevant, strict=True)}
    )


TEN = list("abcdefghij")


def test_the_figures_of_a_ranking_worked_out_by_hand():
    # answers in places 1, 2 and nowhere; the other method moves the second to the front
    data = dataset("a", "b", "z")
    rankings = {"hybrid": [TEN, TEN, TEN], "other": [TEN, ["b", *TEN[2:], "a"], TEN]}
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


def test_a_method_that_makes_it_worse_removes_less_than_nothing():
    data = dataset("a", "b")
    result = measure(data, {"hybrid": [TEN, TEN], "worse": [["b", "a"], TEN]})
    assert result["worse"].error_removed == pytest.approx(-1.0)


def test_the_p_value_tells_a_real_difference_from_none():
    data = dataset(*["b"] * 40)
    swapped = ["b", "a", *TEN[2:]]
    result = measure(data, {"hybrid": [TEN] * 40, "all better": [swapped] * 40, "one better": [swapped] + [TEN] * 39})
    assert result["all better"].p_value < 0.001
    assert result["one better"].p_value == 1.0


def test_the_same_seed_gives_the_same_p_value():
    data = dataset(*["b"] * 30)
    rankings = {"hybrid": [TEN] * 30, "mixed": [["b", "a"]] * 20 + [["a", "c", "b"]] * 10}
    assert measure(data, rankings, seed=3) == measure(data, rankings, seed=3)


def beir(folder, qrels="query-id\tcorpus-id\tscore\nq1\tp1\t1\n", queries='{"_id": "q1", "text": "Who?"}\n'):
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "p1", "text": "x"}\n')
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels" / "test.tsv").write_text(qrels)
    return folder


def test_a_beir_folder_is_read(tmp_path):
    data = load_dataset(beir(tmp_path, "query-id\tcorpus-id\tscore\nq1\tp1\t2\nq1\tp2\t0\nq9\tp1\t1\n"))
    assert dict(data.questions) == {"q1": "Who?"}
    assert data.relevance == {"q1": {"p1": 2}}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"qrels": "query-id\tcorpus-id\tscore\nq1\tp1\tyes\n"}, r"test\.tsv, line 2"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1 p1 1\n"}, r"test\.tsv, line 2"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "judges no question"),
        ({"queries": '{"text": "Who?"}\n'}, r"queries\.jsonl, line 1"),
        ({"queries": '{"_id": \n'}, r"queries\.jsonl, line 1: broken JSON"),
    ],
    ids=["no number", "blanks", "none", "no id", "broken"],
)
def test_what_is_wrong_in_a_beir_folder_is_named(tmp_path, files, says):
    with pytest.raises(InputError, match=says):
        load_dataset(beir(tmp_path, **files))


def test_a_missing_split_is_named(tmp_path):
    with pytest.raises(InputError, match=r"dev\.tsv is missing"):
        load_dataset(beir(tmp_path), split="dev")
