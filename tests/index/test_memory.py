from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from world import FAKE, ROOT, FakeEncoder, passage_encoder_of

from semclass import Passage
from semclass.documents.chunking import cut
from semclass.documents.stretches import PASSAGE, stretches


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise")
@pytest.mark.parametrize("kind", ["words", "no spaces", "markdown", "json"])
def test_a_line_of_any_length_takes_bounded_memory(kind):
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "index" / "memory.py"), kind, "4", "fake"]
    found = json.loads(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout)
    assert found["megabytes"] - found["before"] < 140


def test_stretches_end_at_blank_lines_else_lines_else_words_else_anywhere():
    text = "one\n\ntwo\nthree four " + "x" * 30
    found = [text[start:end] for start, end in stretches(text, 0, len(text), 12)]
    assert "".join(found) == text
    assert found == ["one", "\n\ntwo", "\nthree four", " " + "x" * 11, "x" * 12, "x" * 7]


@pytest.mark.parametrize("by", ["paragraph", "sentence", "section", "window"])
@pytest.mark.parametrize("markdown", [False, True])
def test_no_passage_of_a_document_is_endless_and_none_is_lost(by, markdown):
    text = "The boat lies here. " * 20_000 + "x" * 120_000
    found = list(cut(text, "a", by=by, markdown=markdown))
    assert max(len(passage.text) for passage in found) <= PASSAGE
    assert all(text[item.metadata["start"] : item.metadata["end"]] == item.text for item in found)
    assert "".join(item.text for item in found).replace(" ", "") == text.replace(" ", "")


def test_of_a_very_long_passage_the_rest_is_counted_and_not_encoded(monkeypatch):
    monkeypatch.setattr("semclass.encoders.sentences.READ", 20)
    monkeypatch.setattr("semclass.index.passage_encoder.READ", 20)
    long = Passage("a", "The red boat is here and the green lake is there.")
    found, cut_off = FAKE.read([Passage("b", "red boat"), long])
    whole = FakeEncoder().encode([long.text], views=()).terms.values
    assert cut_off == (1,)
    assert len(found.terms.row(0)) == 2
    assert len(found.tokens.row(1)) < len(found.terms.row(1)) <= len(whole) + 1
    assert passage_encoder_of(FakeEncoder()).read([Passage("b", "red boat")])[1] == ()
