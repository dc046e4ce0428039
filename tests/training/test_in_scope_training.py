"""Training and test data of the in-scope head."""

from __future__ import annotations

import pytest
from world import ROOT

pytest.importorskip("sklearn")

import labels
from datasets_io import read_tsv
from question_data import same_but_for_marks
from train_one_class import as_typed


def test_no_text_is_both_trained_on_and_tested_with():
    tested = {same_but_for_marks(row["text"]) for row in read_tsv(ROOT / "bench" / "in_scope.tsv")} - {""}
    trained = [*labels.no_questions(), *(row["text"] for row in read_tsv(labels.FOLDER / "in_scope.tsv"))]
    assert not tested.intersection(map(same_but_for_marks, trained))


def test_half_of_the_texts_are_typed_otherwise():
    assert [as_typed("Hello you!", place) for place in (0, 1)] == ["hello you", "Hello you!"]
    assert as_typed("see you", 0) == "See you."
    assert as_typed("?", 0) == "?."
