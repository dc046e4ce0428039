"""Documents whose text other readers lose, double or misplace: those that are read rightly stay right."""

from __future__ import annotations

import json

import pytest
from world import ROOT

from semclass.documents.readers import read_passages

FOLDER = ROOT.parent / "shared" / "data" / "reading"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/expected.json"))


@pytest.mark.filterwarnings(
    "ignore::semclass.core.errors.SkippedWarning"
)  # one file has formulas without a value, which is told
@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the documents of data/reading")
@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_lost_doubled_or_misplaced(name):
    expected = json.loads((FOLDER / name / "expected.json").read_text(encoding="utf-8"))
    passages = read_passages(next((FOLDER / name).glob("input.*")))
    texts = [" ".join(" ".join([item.text, *item.metadata.get("headings", [])]).split()) for item in passages]
    text = "\n".join(texts)
    assert [part for part in expected["must"] if " ".join(part.split()) not in text] == []
    assert [part for part in expected["must_not"] if part in text] == []
