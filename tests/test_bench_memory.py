from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench import memory

ROOT = Path(__file__).resolve().parent.parent


def test_a_line_tells_what_grows_and_how_fast():
    found = memory.line([100.0 + 2 * number for number in range(20)], every=2_000)
    assert found == {
        "first": 104, "last": 134, "most": 138, "grown": 38, "second half": 19, "slope": pytest.approx(10),
    }  # fmt: skip


@pytest.mark.parametrize("count", [3, 4, 8, 11, 20, 51])
def test_what_grows_steadily_is_told_in_full_however_many_looks_there_are(count):
    found = memory.line([float(number) for number in range(count)], every=2_000)
    assert (found["grown"], found["second half"]) == (count - 1, (count - 1) / 2)


def test_one_look_or_two_tell_nothing_of_growth():
    assert memory.line([7.0], every=2_000) == {"first": 7, "last": 7, "most": 7}
    assert memory.line([7.0, 8.0], every=2_000) == {"first": 7, "last": 8, "most": 8}


def test_no_round_is_begun_that_would_end_too_late():
    assert memory._is_time(memory.SECONDS + 1, 0)
    assert memory._is_time(memory.SECONDS / 2, 1)
    assert not memory._is_time(memory.SECONDS / 2 + 1, 1)
    assert memory._is_time(memory.SECONDS * 0.98, 50)


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


def test_the_result_tells_what_100_000_searches_added_and_nothing_of_fewer(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.scale, "sentences", lambda bench: (None, None))
    monkeypatch.setattr(memory.scale, "made", lambda bench, count, pool: (tmp_path, None))
    rows = [{"of": "given out", "second half": 0.5}, {"of": "small objects, thousands", "second half": 0.25}]
    for searches, wanted in ((100_000, ({"given out": 0.5}, 250)), (98_000, (None, None))):
        found = {"searches": searches, "memory": rows}
        bench = SimpleNamespace(quick=False, data=tmp_path, step=lambda *_, found=found, **options: found)
        told = memory.run(bench)
        assert (told["grown_mb"], told["grown_objects"]) == wanted


HELD = """
import gc
import numpy as np
from bench import memory

def told():
    return memory.given_out().get("used", 0), memory.small_objects()

gc.disable()
looks = [told()]
held = np.ones(3_000_000)
looks.append(told())
del held
looks.append(told())
held = [(number, number) for number in range(100_000)]
looks.append(told())
print(looks)
"""


def test_what_is_held_is_given_out_and_what_is_let_go_is_not():
    if not memory.given_out():
        pytest.skip("only glibc tells")
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "PYTHONMALLOC")}
    told = subprocess.run(  # alone: what other tests leave is not counted
        [sys.executable, "-c", HELD], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    before, with_array, without, with_objects = json.loads(told.replace("(", "[").replace(")", "]"))
    assert with_array[0] - before[0] == pytest.approx(24, abs=1)
    assert without[0] - before[0] < 1
    assert with_objects[1] - without[1] == pytest.approx(200, abs=5)  # pairs and their numbers
