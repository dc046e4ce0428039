from __future__ import annotations

import json

import numpy as np
import pytest

from semclass import (
    ArtifactError,
    EncoderMismatchError,
    InputError,
    Passage,
    PassageClassifier,
    PassageIndex,
    TruncationWarning,
)
from semclass.index.ingest import FORMS
from semclass.index.passage_encoder import PassageEncoder
from semclass.scoring import reduction
from semclass.scoring.topk import SIMILARITIES


@pytest.fixture(scope="module")
def index(models, corpus):
    return PassageIndex.build(corpus, passage_encoder=models.passage_encoder)


@pytest.fixture
def saved(index, tmp_path):
    index.save(tmp_path / "index")
    return tmp_path / "index"


def data_file(saved, name):
    (folder,) = saved.glob("segment-*")
    return folder / name


def test_what_is_saved_is_what_is_loaded(index, saved):
    loaded = PassageIndex.load(saved, encoder=index.encoder)
    for name in ("probabilities", "idf"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(index, name))
    rows = np.array([2, 0, 2])
    np.testing.assert_array_equal(loaded.segments[0].pooled_codes, index.segments[0].pooled_codes)
    for name in ("tokens", "sentences", "terms", "records"):
        ours, theirs = (getattr(found.segments[0], name) for found in (loaded, index))
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.take(rows).values, theirs.take(rows).values)
        np.testing.assert_array_equal(ours.take(rows).offsets, theirs.take(rows).offsets)
    question = np.array([1010, 2040, 5000])
    np.testing.assert_array_equal(loaded.lexical_scores(question), index.lexical_scores(question))


def names(folder):
    """What is in the folder, without the lock."""
    return len([path for path in folder.iterdir() if path.name != ".lock"])


def bytes_of(folder):
    (data,) = folder.glob("segment-*")
    return sum(path.stat().st_size for path in data.rglob("*") if path.is_file())


def test_each_form_gives_the_same_evidence_in_fewer_bytes(models, corpus, tmp_path):
    rows = np.array([7, 0, 3])
    sizes, found = {}, {}
    for form in FORMS:
        built = PassageIndex.build(corpus, passage_encoder=models.passage_encoder, form=form)
        built.save(tmp_path / form)
        sizes[form] = bytes_of(tmp_path / form)
        found[form] = PassageIndex.load(tmp_path / form).evidence(rows, models.passage_encoder)
    assert sizes["lean"] < sizes["standard"] < sizes["exact"]
    tokens, sentences, terms = found["exact"]
    assert all(part[2].values.tolist() == terms.values.tolist() for part in found.values())
    for form, least in (("lean", 0.999), ("standard", 0.8)):
        assert (found[form][0].values * tokens.values).sum(axis=1).mean() > least
        assert (found[form][1].values * sentences.values).sum(axis=1).mean() > least


def test_rounded_vectors_find_the_same_passages(models, corpus):
    exact, standard = (
        PassageIndex.build(corpus, passage_encoder=models.passage_encoder, form=form) for form in ("exact", "standard")
    )
    for question in exact.segments[0].pooled_codes:
        np.testing.assert_allclose(exact.dense_scores(question), standard.dense_scores(question), atol=0.01)


def test_a_form_that_needs_codebooks_says_so(fake_encoder):
    passage_encoder = PassageEncoder(PassageClassifier(fake_encoder, None), None, None)
    with pytest.raises(InputError, match="needs codebooks"):
        PassageIndex.build([Passage("a", "x")], passage_encoder=passage_encoder, form="standard")
    with pytest.raises(InputError, match="form"):
        PassageIndex.build([Passage("a", "x")], passage_encoder=passage_encoder, form="small")


def test_passages_come_back_as_they_were_handed_in(models):
    passages = [Passage("a", "Größe\nzählt 数", {"page": 3, "nested": {"x": [1, None]}}), Passage("b", "two")]
    index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    assert [index.passage(row) for row in range(2)] == passages


def test_the_same_passages_give_the_same_bytes(index, models, corpus, tmp_path):
    for name in ("a", "b"):
        PassageIndex.build(corpus, passage_encoder=models.passage_encoder).save(tmp_path / name)
    first, second = ((tmp_path / name / "manifest.json").read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_title_is_searched_with_the_text(models):
    index = PassageIndex.build([Passage("a", "Beans.", {"title": "Coffee"})], passage_encoder=models.passage_encoder)
    (terms,) = [models.encoder.tokenize(["Coffee Beans."])]
    assert index.terms.values.tolist() == terms.values.tolist()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_vectors_that_are_not_used_are_not_written(models, corpus, tmp_path, monkeypatch, similarity):
    monkeypatch.setattr(reduction, "MANY", len(corpus))
    PassageIndex.build(corpus, passage_encoder=models.passage_encoder, similarity=similarity).save(tmp_path / "index")
    (segment,) = PassageIndex.load(tmp_path / "index").segments
    assert (segment.near is None) == (similarity == "l2")
    assert segment.vectors(similarity).index is segment.near


def test_saving_again_replaces_the_old_index_and_leaves_nothing_behind(index, saved, models, corpus):
    PassageIndex.build(corpus[:5], passage_encoder=models.passage_encoder).save(saved)
    assert len(PassageIndex.load(saved)) == 5
    assert names(saved) == 2


@pytest.mark.parametrize("name", ["pooled.npy", "tokens.npy", "records.npy", "bm25/counts.npy"])
def test_an_edited_or_shortened_file_is_named_with_what_to_do(saved, name):
    path = data_file(saved, name)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"was changed .* build it again with `semclass index build --replace`"):
        PassageIndex.load(saved)
    path.write_bytes(data[:-1])
    with pytest.raises(ArtifactError, match=f"{path.name} has .* bytes where"):
        PassageIndex.load(saved, verify=False)
    path.unlink()
    with pytest.raises(ArtifactError, match="does not exist"):
        PassageIndex.load(saved)


def test_a_manifest_of_another_protocol_or_without_a_field_is_refused(saved):
    path = saved / "manifest.json"
    manifest = json.loads(path.read_text())
    for protocol in (1, 3):
        path.write_text(json.dumps({**manifest, "protocol": protocol}))
        with pytest.raises(ArtifactError, match=f"protocol {protocol}"):
            PassageIndex.load(saved)
    path.write_text(json.dumps({key: value for key, value in manifest.items() if key != "thresholds"}))
    with pytest.raises(ArtifactError, match="no field 'thresholds'"):
        PassageIndex.load(saved)


def test_an_index_of_another_encoder_is_refused(saved):
    with pytest.raises(EncoderMismatchError, match="made with encoder"):
        PassageIndex.load(saved, encoder="another")


def test_a_file_is_no_place_for_an_index(index, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match="is a file"):
        index.save(tmp_path / "file")


def test_bad_passages_are_refused(models):
    build = PassageIndex.build
    with pytest.raises(InputError, match="no passages"):
        build([], passage_encoder=models.passage_encoder)
    with pytest.raises(InputError, match=r"'a' comes twice \(items 1 and 3\)"):
        build([Passage("a", "x"), Passage("b", "y"), Passage("a", "z")], passage_encoder=models.passage_encoder)
    with pytest.raises(InputError, match="text of passage 'a' is empty"):
        build([Passage("a", " ")], passage_encoder=models.passage_encoder)
    with pytest.raises(InputError, match="metadata of passage 'a' cannot be saved"):
        build([Passage("a", "x", {"when": object()})], passage_encoder=models.passage_encoder)
    with pytest.raises(InputError, match="cannot be saved as JSON"):
        build([Passage("a", "x", {"n": float("nan")})], passage_encoder=models.passage_encoder)


def test_long_passages_are_never_cut_in_silence(models):
    passages = [Passage("short", "x"), Passage("long", "word " * 4200)]
    with pytest.warns(TruncationWarning, match="1 of 2 passages are longer .*'long'") as caught:
        index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    assert len(caught) == 1
    assert index.terms.lengths().tolist() == [1, 4200]


def test_whoever_may_read_the_folder_may_read_the_index(saved):
    (data,) = saved.glob("segment-*")
    assert data.stat().st_mode == saved.stat().st_mode


def test_any_encoder_with_the_protocol_will_do(fake_encoder):
    # no heads: an index without classes still finds passages
    passage_encoder = PassageEncoder(PassageClassifier(fake_encoder, None), None, None)
    passages = [Passage("a", "the red boat"), Passage("b", "a green hill")]
    index = PassageIndex.build(passages, passage_encoder=passage_encoder)
    question = fake_encoder.encode(["red boat"])
    assert index.probabilities.shape == (2, 0)
    assert index.dense_scores(question.pooled[0]).argmax() == 0
    assert index.lexical_scores(question.terms.row(0)).argmax() == 0
