from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from semclass import Passage, PassageIndex
from semclass.core.errors import ArtifactError, InputError
from semclass.index import ann, candidates
from semclass.index.records import Scoring

pytest.importorskip("usearch", reason="semclass[ann] is not installed")
pytestmark = pytest.mark.extras

WORDS = [f"{start}{end}" for start in "bcdfghklmnprst" for end in ("a", "e", "i", "o", "u")]


@pytest.fixture(scope="module")
def index(ranker, tmp_path_factory):
    rng = np.random.default_rng(0)
    passages = [Passage(str(number), " ".join(rng.choice(WORDS, 6))) for number in range(150)]
    folder = tmp_path_factory.mktemp("index")
    PassageIndex.build(passages, reader=ranker.reader).save(folder)
    return PassageIndex.load(folder)


@pytest.fixture(autouse=True)
def quickly_large(monkeypatch):
    """This index is searched as a large one is."""
    monkeypatch.setattr(ann, "MANY", 100)
    for name, value in {"EVERY": 0, "FEW": 5, "FIRST": 8, "LOOKED_AT": 4}.items():
        monkeypatch.setattr(candidates, name, value)


def test_usearch_is_imported_after_onnxruntime():
    # in the other order the process would die
    lines = (
        "import sys, semclass.index.ann as ann; assert 'usearch' not in sys.modules; import usearch.index, onnxruntime"
    )
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_a_graph_finds_what_comparing_all_finds(index, ranker, tmp_path):
    graphs = ann.with_graphs(index, tmp_path)
    again = ann.with_graphs(index, tmp_path)  # from the file
    assert [path.suffix for path in tmp_path.iterdir()] == [ann.SUFFIX]
    assert isinstance(graphs.segments[0].vectors("cosine").index, ann.Graph)
    assert index.segments[0].near is None
    for query in ranker.encode(["baba nonu te?", "Who is kiri?", "lolo"]):
        expected = index.candidates(query, 5, Scoring(0.1))
        for found in (graphs, again):
            np.testing.assert_array_equal(found.candidates(query, 5, Scoring(0.1)).rows, expected.rows)


@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_only_what_is_allowed_is_near(index, tmp_path, share):
    graph = ann.with_graphs(index, tmp_path).segments[0].near
    allowed = np.random.default_rng(1).random(len(index)) < share
    rows = graph.nearest(index.pooled[3], 4, allowed)
    assert allowed[rows].all()
    assert len(rows) >= min(4, allowed.sum())


def test_a_graph_of_an_index_in_memory_is_not_kept(index, tmp_path):
    here = replace(index, segments=(replace(index.segments[0], name=""),))
    assert ann.with_graphs(here, tmp_path).segments[0].near is not None
    assert not list(tmp_path.iterdir())


def test_what_is_no_graph_is_refused(index, tmp_path):
    (tmp_path / f"{index.segments[0].name}{ann.SUFFIX}").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match="remove it to have it built"):
        ann.with_graphs(index, tmp_path)
    with pytest.raises(InputError, match="'cosine'"):
        ann.with_graphs(replace(index, similarity="l2"), tmp_path)
