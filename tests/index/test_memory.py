from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from world import FAKE, ROOT, scores

from semclass import Passage, PassageIndex, TruncationWarning


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise")
@pytest.mark.parametrize("kind", ["words", "no spaces", "markdown", "json"])
def test_a_line_of_any_length_takes_bounded_memory(kind):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "index" / "memory.py"), kind, "4", "fake"]
    found = json.loads(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert found["megabytes"] - found["before"] < 140


def test_the_rest_of_a_long_passage_is_found_by_words(monkeypatch):
    monkeypatch.setattr("semclass.encoders.excerpts.MAX_CHARACTERS", 20)
    monkeypatch.setattr("semclass.index.passage_encoder.MAX_CHARACTERS", 20)
    passages = [Passage("b", "red boat"), Passage("a", "The red boat is here and the green lake is far.")]
    found, cut_off = FAKE.read(passages)
    assert cut_off == (1,)
    assert len(found.tokens.row(1)) < 11
    with pytest.warns(TruncationWarning):
        index = PassageIndex.build(passages, passage_encoder=FAKE)
    assert next(iter(scores(index, "green lakes"))) == "a"
