"""Folders that ``make_stored.py`` wrote once are read by every version with the same protocol."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from make_stored import ENCODER, STORED, TEXTS, ranked

from semclass import ArtifactError, Passage, PassageIndex, TextModel, change_index
from semclass.index.verify import verify

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
    change_index(folder, add=[Passage("later", "blue stone")], delete=["new", "3"], passage_encoder=ENCODER)
    found = ranked(PassageIndex.load(folder))
    assert found.keys() == EXPECTED["index"].keys() - {"new", "3"} | {"later"}


def test_an_index_of_an_older_format_is_refused(folder):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "protocol": 10}))
    with pytest.raises(
        ArtifactError, match=r"protocol 10; .* reads 11: build it again with `semclass index build --repl"
    ):
        PassageIndex.load(folder)


def test_a_stored_head_gives_the_probabilities_that_it_gave():
    model = TextModel.load(STORED / "head-1.0", encoder=ENCODER.encoder)
    np.testing.assert_allclose(model.predict_proba(TEXTS), EXPECTED["head"], atol=1e-3)
