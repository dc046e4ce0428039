from __future__ import annotations

import json

import numpy as np
import pytest

from bench import memory


def test_a_line_tells_what_grows_and_how_fast():
    found = memory.line([100.0 + 2 * number for number in range(20)], every=2_000)
    assert found == {
        "first": 104, "last": 134, "most": 138, "grown": 30, "second half": 10, "slope": pytest.approx(10),
    }  # fmt: skip


def test_few_looks_are_not_compared_with_themselves():
    assert memory.line([float(number) for number in range(8)], every=2_000)["second half"] == 2


def test_each_hundred_searches_has_all_kinds():
    kinds = memory._kinds(1_000)
    for begin in range(0, 1_000, 100):
        found = np.bincount(kinds[begin : begin + 100], minlength=len(memory.KINDS))
        assert found.tolist() == [share for _, share, _ in memory.KINDS]


def test_questions_are_of_all_sets_and_made_up_and_the_same_again(tmp_path):
    for name in memory.SETS:
        (tmp_path / "beir" / name).mkdir(parents=True)
        (tmp_path / "beir" / name / "queries.jsonl").write_text(json.dumps({"text": f"What is {name}?"}) + "\n")
    found = memory.questions(str(tmp_path), 9)
    assert [found[0], found[1], found[3]] == ["What is squad4?", "What is pubmedqa?", "What is squad4?"]
    assert set(" ".join(found[2::3]).split()) <= {"What", "is", "squad4?", "pubmedqa?"}
    assert found == memory.questions(str(tmp_path), 9)


def test_what_is_held_is_given_out_and_what_is_let_go_is_not():
    if not memory.given_out():
        pytest.skip("only glibc tells")
    before = memory.given_out()["used"]
    held = np.ones(3_000_000)
    grown = memory.given_out()["used"] - before
    assert grown == pytest.approx(held.nbytes / 1e6, abs=1)
    del held
    assert memory.given_out()["used"] - before < 1
