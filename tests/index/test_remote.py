"""An index in another engine, which is a list here: its hits are those of the index whose passages it stores."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from filter_oracle import matches
from world import BOOKS, FakeEncoder, assert_same_hits, passage_encoder_of

from semclass import ArtifactError, HybridRetriever, InputError, Passage, PassageIndex, change_index
from semclass.index.candidates import Scoring
from semclass.index.remote import RemoteIndex, stored_rows
from semclass.ranking.models import read_questions

QUESTIONS = ["Who designed the lighthouse?", "When was the museum opened?", "Why do ferries stay in port?", "?!?"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Score the words of a passage alone: another engine does not know which passages are side by side."""
    monkeypatch.setattr("semclass.ranking.methods.AROUND", 0.0)


@dataclass(frozen=True)
class ListIndex(RemoteIndex):
    """Rows in a list."""

    rows: list[Any]

    def find(self, wanted):
        weight = wanted.mean_weight

        def by_vector(row):
            return weight * row.mean @ wanted.vector + (1 - weight) * (row.excerpts @ wanted.vector).max()

        def by_words(row):
            return sum(wanted.terms.get(int(term), 0.0) * x for term, x in zip(row.terms, row.impacts, strict=True))

        chosen = [
            row
            for row in self.rows
            if wanted.where is None or matches(wanted.where, row.passage.metadata, row.passage.id)
        ]
        lists = [
            sorted(chosen, key=by_vector)[-wanted.depth :],
            sorted(filter(by_words, chosen), key=by_words)[-wanted.depth :],
        ]
        return [(row.passage, row.packed) for row in {row.passage.id: row for some in lists for row in some}.values()]


@pytest.fixture(scope="module")
def index(models, corpus):
    long = Passage("long", " ".join(passage.text for passage in corpus))  # of several excerpts
    ordered = sorted([*corpus, long], key=lambda passage: passage.id)  # as a remote index orders equal scores
    described = [replace(passage, metadata={"page": page}) for page, passage in enumerate(ordered)]
    return PassageIndex.build(described, passage_encoder=models.passage_encoder)


def remote(index):
    """The passages of an index in a list, after a record that was written and read."""
    first = ListIndex(rows=list(stored_rows(index)), **RemoteIndex.fields_of(index))
    return replace(first, **RemoteIndex.read(json.loads(json.dumps(first.record())), "the record"))


@pytest.mark.parametrize("method", ["default", "convex", "rrf", "hybrid", "class-integrated", "entail-stable"])
def test_every_method_gives_the_hits_of_the_local_index(index, models, method):
    there, here = HybridRetriever(remote(index), models), HybridRetriever(index, models)
    assert len(there.index) == len(index)
    for question in QUESTIONS:
        found, wanted = (each.search(question, method=method) for each in (there, here))
        assert_same_hits(found, wanted)
        assert found.answerable == (None if wanted.answerable is None else pytest.approx(wanted.answerable))


def test_a_filter_holds_before_ranking(index, models):
    there, here = HybridRetriever(remote(index), models), HybridRetriever(index, models)
    for where in ({"page": {"$gte": 7, "$lt": 12}}, {"_id": {"$in": []}}):
        assert_same_hits(there.search(QUESTIONS[0], where=where), here.search(QUESTIONS[0], where=where))
    with pytest.raises(InputError, match="operator"):
        there.search(QUESTIONS[0], where={"page": {"$like": 1}})


def test_rows_of_deleted_passages_are_left_out(index, models, tmp_path):
    index.save(tmp_path / "index")
    new, deleted = (
        Passage("more", "Ada designed another lighthouse, of iron.", {"page": 99}),
        ["lighthouse-3", "ferry-4"],
    )
    change_index(tmp_path / "index", add=[new], delete=deleted, passage_encoder=models.passage_encoder)
    living = PassageIndex.load(tmp_path / "index")
    there, here = HybridRetriever(remote(living), models), HybridRetriever(living, models)
    for question in QUESTIONS:
        assert_same_hits(there.search(question, k=30), here.search(question, k=30))


@pytest.mark.parametrize(("books", "small"), [(BOOKS, False), (None, False), (BOOKS, True)])
def test_candidates_come_with_the_evidence_of_the_local_index(index, books, small):
    passage_encoder = passage_encoder_of(FakeEncoder(provided=8), books)
    index = PassageIndex.build(index.passages(index.rows), passage_encoder=passage_encoder, small=small)
    (query,) = read_questions(passage_encoder.encoder, None, QUESTIONS[:1])
    mine, theirs = (
        each.candidates(query, len(index), Scoring({"dense": 1.0, "bm25": 0.1}), passage_encoder=passage_encoder)
        for each in (remote(index), index)
    )
    for name in ("tokens", "excerpts", "provides", "pieces"):
        found, wanted = getattr(mine.evidence, name), getattr(theirs.evidence, name)
        np.testing.assert_array_equal(found.values, wanted.values)
        np.testing.assert_array_equal(found.offsets, wanted.offsets)
    assert mine.evidence.excerpts.lengths().max() > 1


@pytest.mark.parametrize(
    "damage", [lambda packed: b"", lambda packed: packed[:-1], lambda packed: b"\xff" * len(packed)]
)
def test_damaged_bytes_are_refused(index, models, damage):
    whole = remote(index)
    damaged = replace(whole, rows=[replace(row, packed=damage(row.packed)) for row in whole.rows])
    with pytest.raises(ArtifactError, match="bytes of a passage"):
        HybridRetriever(damaged, models).search(QUESTIONS[0])


def test_a_damaged_record_and_other_models_are_refused(index, models):
    record = remote(index).record()
    for damaged in ({}, {**record, "protocol": 99}, {**record, "types": 1}, {**record, "frequencies": "?"}):
        with pytest.raises(ArtifactError):
            RemoteIndex.read(damaged, "the record")
    types = {**record["types"], "tokens": ("|u1", [3])}
    with pytest.raises(ArtifactError, match="tokens"):
        HybridRetriever(replace(remote(index), types=types), models)


def test_work_on_every_passage_needs_an_index_in_a_folder(index, models):
    retriever = HybridRetriever(remote(index), models)
    with pytest.raises(InputError, match="needs every passage, and a ListIndex returns only the best"):
        retriever.local_index  # noqa: B018 - a property
