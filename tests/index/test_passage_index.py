from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from world import FAKE, FakeEncoder, passage_encoder_of

from semclass import ArtifactError, InputError, Passage, PassageIndex
from semclass.scoring import bm25


@pytest.fixture(scope="module")
def index(retriever):
    return retriever.index


@pytest.fixture
def saved(index, tmp_path):
    index.save(tmp_path / "index")
    return tmp_path / "index"


def test_a_saved_index_is_loaded_as_it_was(index, saved):
    loaded = PassageIndex.load(saved)
    np.testing.assert_array_equal(loaded.segments[0].probabilities, index.segments[0].probabilities)
    for name in ("tokens", "excerpts", "scales", "shares", "provides", "pieces", "sparse", "records"):
        ours, theirs = (getattr(found.segments[0], name).take(np.array([2, 0, 2])) for found in (loaded, index))
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    question = index.segments[0].postings.terms[:3]
    mine, theirs = (bm25.scores([each.segments[0].postings], each.statistics, question) for each in (loaded, index))
    np.testing.assert_array_equal(mine, theirs)


def test_each_form_gives_the_same_evidence_in_fewer_bytes(models, corpus, tmp_path):
    sizes, found, similarities = {}, {}, {}
    for storage in ("standard", "small", "exact"):
        encoder = models.passage_encoder if storage != "exact" else replace(models.passage_encoder, codebooks=None)
        built = PassageIndex.build(corpus, passage_encoder=encoder, small=storage == "small")
        built.save(tmp_path / storage)
        sizes[storage] = sum(
            path.stat().st_size for path in (tmp_path / storage).glob("segment-*/**/*") if path.is_file()
        )
        found[storage] = PassageIndex.load(tmp_path / storage).evidence(np.array([7, 0, 3]), encoder)
        similarities[storage] = built.segments[0].vectors.scores(models.encoder.encode([corpus[0].text]).pooled[0])
    assert sizes["small"] < sizes["standard"] < sizes["exact"]
    np.testing.assert_allclose(similarities["standard"], similarities["exact"], atol=0.07)
    exact = found["exact"]
    for name in ("excerpts", "tokens", "provides"):
        np.testing.assert_allclose(
            getattr(found["small"], name).values, getattr(found["standard"], name).values, atol=1e-6
        )
    assert found["standard"].pieces.values.tolist() == exact.pieces.values.tolist()
    assert (found["standard"].tokens.values * exact.tokens.values).sum(axis=1).mean() > 0.8
    assert (found["standard"].excerpts.values * exact.excerpts.values).sum(axis=1).mean() > 0.8


def test_passages_come_back_as_they_were_given():
    given = [Passage("a", "Größe\nzählt 数", {"page": 3, "nested": {"x": [1, None]}}), Passage("b", "two")]
    index = PassageIndex.build(given, passage_encoder=FAKE)
    assert index.passages(np.arange(2)) == given


@pytest.mark.parametrize("name", ["excerpts.npy", "records.npy", "bm25/counts.npy"])
def test_a_changed_file_is_named_with_the_command_that_helps(saved, name):
    (path,) = saved.glob(f"segment-*/{name}")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"was changed .* build it again with `semclass index build --replace`"):
        PassageIndex.load(saved)
    path.write_bytes(data[:-1])
    with pytest.raises(ArtifactError, match=f"{path.name} has .* bytes, not"):
        PassageIndex.load(saved, verify=False)
    path.unlink()
    with pytest.raises(ArtifactError, match=r"does not exist|is missing"):
        PassageIndex.load(saved)


@pytest.mark.parametrize(
    ("passages", "says"),
    [
        ([], "no passages"),
        ([Passage("a", "x"), Passage("b", "y"), Passage("a", "z")], "'a' comes twice"),
        ([Passage("a", "x", {"when": object()})], "metadata of passage 'a' cannot be saved"),
        ([Passage("a", "x", {"n": float("nan")})], "cannot be saved as JSON"),
        ([Passage("a", "x", reduce(lambda inner, _: {"n": inner}, range(5000), {}))], "nests deeper than 100"),
    ],
)
def test_bad_passages_are_refused(passages, says):
    with pytest.raises(InputError, match=says):
        PassageIndex.build(passages, passage_encoder=FAKE)


def test_vectors_that_do_not_fit_quarter_bytes_are_refused():
    with pytest.raises(InputError, match="15 dimensions cannot be stored in quarter bytes"):
        PassageIndex.build([Passage("a", "x")], passage_encoder=passage_encoder_of(FakeEncoder(dim=15)), small=True)
