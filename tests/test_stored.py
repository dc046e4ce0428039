"""A version 1 reads what an earlier version 1 wrote: folders that ``make_stored.py`` wrote once."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from make_stored import ENCODER, STORED, TEXTS, ranked

from semclass import Passage, PassageIndex, TextModel
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter

EXPECTED = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(STORED / "index-1.0", tmp_path / "index")


def test_a_stored_index_ranks_as_it_did(folder):
    verify(folder)
    index = PassageIndex.load(folder)
    assert ranked(index) == pytest.approx(EXPECTED["index"], abs=1e-4)
    (added,) = index.passages(index.find(["new"]))
    assert added.metadata == {"title": "Boats", "tags": ["red", "blue"], "price": 1.5}


def test_a_stored_index_takes_changes(folder):
    with IndexWriter.open(folder, passage_encoder=ENCODER) as writer:
        assert (writer.add([Passage("later", "blue stone")]), writer.delete(["new", "3"])) == (1, 2)
    found = ranked(PassageIndex.load(folder))
    assert found.keys() == EXPECTED["index"].keys() - {"new", "3"} | {"later"}


def test_a_stored_head_gives_the_probabilities_that_it_gave():
    model = TextModel.load(STORED / "head-1.0", encoder=ENCODER.encoder)
    np.testing.assert_allclose(model.predict_proba(TEXTS), EXPECTED["head"], atol=1e-3)
