from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from world import FAKE, ROOT, FakeEncoder, passage_encoder_of

from semclass import Passage


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise")
@pytest.mark.parametrize("kind", ["words", "no spaces", "markdown", "json"])
def test_a_line_of_any_length_takes_bounded_memory(kind):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "index" / "memory.py"), kind, "4", "fake"]
    found = json.loads(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert found["megabytes"] - found["before"] < 140


def test_the_rest_of_a_long_passage_is_counted(monkeypatch):
    monkeypatch.setattr("semclass.encoders.sentences.READ", 20)
    monkeypatch.setattr("semclass.index.passage_encoder.READ", 20)
    long = Passage("a", "The red boat is here and the green lake is there.")
    found, cut_off = FAKE.read([Passage("b", "red boat"), long])
    whole = FakeEncoder().encode([long.text], views=()).terms.values
    assert cut_off == (1,)
    assert len(found.terms.row(0)) == 2
    assert len(found.tokens.row(1)) < len(found.terms.row(1)) <= len(whole) + 1
    assert passage_encoder_of(FakeEncoder()).read([Passage("b", "red boat")])[1] == ()
