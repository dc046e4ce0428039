"""Passages in an engine that stores bytes: what the embedded index answers, they must answer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from world import BOOKS, FakeEncoder, passage_encoder_of

from semclass import ArtifactError, HybridRetriever, InputError, Passage, PassageIndex
from semclass.index.records import Scoring
from semclass.index.writer import IndexWriter
from semclass.ranking.queries import read_questions
from semclass_integrations.engine import EngineIndex, engine_record, engine_rows

QUESTIONS = ["Who designed the lighthouse?", "When was the museum opened?", "Why do ferries stay in port?", "?!?"]


@pytest.fixture(scope="module")
def index(models, corpus):
    return PassageIndex.build(corpus, passage_encoder=models.passage_encoder)


def engine_of(index, rows=None):
    """An engine that holds its passages in a list, and finds by vectors alone."""
    stored = list(engine_rows(index)) if rows is None else rows

    def find(question, vector, n, where):
        chosen = [row for row in stored if where is None or row[0].id in where["_id"]["$in"]]
        chosen.sort(key=lambda row: -float(np.dot(row[1], vector)))
        return [(passage, held) for passage, _, held in chosen[:n]]

    return EngineIndex.of(json.loads(json.dumps(engine_record(index))), find)


def assert_same_hits(found, wanted):
    assert [hit.id for hit in found] == [hit.id for hit in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-6)
        assert mine.components == pytest.approx(theirs.components, abs=1e-6)
        assert (mine.text, mine.metadata, mine.labels) == (theirs.text, theirs.metadata, theirs.labels)


@pytest.mark.parametrize(
    "how",
    [{}, {"method": "convex"}, {"method": "match-hard"}, {"method": "match-soft"}, {"method": "learned"}],
    ids=str,
)
def test_every_method_gives_the_hits_of_the_embedded_index(index, models, how):
    there, here = HybridRetriever(engine_of(index), models), HybridRetriever(index, models)
    assert len(there.index) == len(index)
    for question in QUESTIONS:
        found, wanted = there.search(question, **how), here.search(question, **how)
        assert_same_hits(found, wanted)
        assert (found.certainty, found.answerable) == (wanted.certainty, pytest.approx(wanted.answerable))


def test_the_engine_gets_the_filter(index, models, corpus):
    where = {"_id": {"$in": [passage.id for passage in corpus[:5]]}}
    found = HybridRetriever(engine_of(index), models).search(QUESTIONS[0], where=where)
    assert_same_hits(found, HybridRetriever(index, models).search(QUESTIONS[0], where=where))
    assert not HybridRetriever(engine_of(index), models).search(QUESTIONS[0], where={"_id": {"$in": []}})
    with pytest.raises(InputError, match="operator"):
        HybridRetriever(engine_of(index), models).search(QUESTIONS[0], where={"_id": {"$like": 1}})


def test_rows_of_a_living_index_are_those_that_were_not_deleted(index, models, tmp_path):
    index.save(tmp_path / "index")
    with IndexWriter.open(tmp_path / "index", passage_encoder=models.passage_encoder) as writer:
        writer.delete(["lighthouse-3", "ferry-4"])
        writer.add([Passage("more", "Ada designed another lighthouse, of iron.", {"page": 99})])
    living = PassageIndex.load(tmp_path / "index")
    found, wanted = HybridRetriever(engine_of(living), models), HybridRetriever(living, models)
    for question in QUESTIONS:
        assert_same_hits(found.search(question, k=30), wanted.search(question, k=30))


@pytest.mark.parametrize(("books", "provided"), [(BOOKS, 8), (None, 8), (None, 0)])
def test_candidates_come_with_the_evidence_of_the_embedded_index(corpus, books, provided):
    passage_encoder = passage_encoder_of(FakeEncoder(provided=provided), books)
    index = PassageIndex.build(corpus, passage_encoder=passage_encoder)
    (query,) = read_questions(passage_encoder.encoder, None, QUESTIONS[:1])
    mine, theirs = (
        each.candidates(query, 5, Scoring(0.1), passage_encoder=passage_encoder) for each in (engine_of(index), index)
    )
    assert [passage.id for passage in mine.passages] == [passage.id for passage in index.passages(theirs.rows)]
    for name in ("tokens", "sentences", "provides", "pieces"):
        found, wanted = getattr(mine.evidence, name), getattr(theirs.evidence, name)
        np.testing.assert_array_equal(found.values, wanted.values)
        np.testing.assert_array_equal(found.offsets, wanted.offsets)


@pytest.mark.parametrize("damage", [lambda held: b"", lambda held: held[:-1], lambda held: b"\xff" * len(held)])
def test_damaged_bytes_are_refused(index, models, damage):
    rows = [(passage, vector, damage(held)) for passage, vector, held in engine_rows(index)]
    with pytest.raises(ArtifactError, match="bytes of a passage"):
        HybridRetriever(engine_of(index, rows), models).search(QUESTIONS[0])


def test_what_is_no_record_is_refused(index, models, fake_encoder):
    record = engine_record(index)
    for damaged in ({}, {**record, "protocol": 99}, {**record, "types": {}}, {**record, "frequencies": "?"}):
        with pytest.raises(ArtifactError):
            EngineIndex.of(damaged, list)
    other = EngineIndex.of({**record, "types": {**record["types"], "tokens": ["|u1", [3]]}}, list)
    with pytest.raises(ArtifactError, match="tokens"):
        HybridRetriever(other, models)
    with pytest.raises(InputError, match="local index"):
        engine_of(index).passages(np.array([0]))


def test_a_small_index_is_refused(models, corpus):
    with pytest.raises(InputError, match="the index is small"):
        engine_record(PassageIndex.build(corpus[:2], passage_encoder=models.passage_encoder, small=True))
