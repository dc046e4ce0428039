"""How the head that tells whether an index answers a question is fitted, and the indices that it learns from."""

from __future__ import annotations

import numpy as np
import pytest
from world import MODELS

pytest.importorskip("onnx")
pytest.importorskip("sklearn")

from semclass.ranking.models import Models
from small_indices import Document, indices
from train_answerable import FOREIGN, Kind, calibrated, fit


def test_a_fit_tells_with_and_without_apart_in_every_kind():
    rng = np.random.default_rng(0)
    kinds = [Kind(*(rng.normal(size=(count, 3)) for _ in range(3))) for count in (40, 400)]
    for kind in kinds:
        kind.answered[:, 1] += 3
    weights, bias = fit(kinds)
    assert abs(weights).argmax() == 1
    scores = [kind.rows @ weights + bias for kind in kinds]
    for kind, score in zip(kinds, scores, strict=True):
        assert score[kind.target == 1].mean() > score[kind.target == 0].mean() + 1
    slope, _ = calibrated(kinds, scores)
    assert slope > 0


def test_foreign_questions_count_for_a_share_of_those_without_an_answer():
    kind = Kind(np.zeros((4, 1)), np.zeros((4, 1)), np.zeros((2, 1)))
    assert kind.weight[:4].sum() == pytest.approx(2)
    assert kind.weight[8:].sum() == pytest.approx(FOREIGN * kind.weight[4:].sum())


def test_an_index_holds_its_document_and_knows_what_answers():
    documents = [
        Document([(f"The {thing} {number} is kept on shelf {number}.", "") for number in range(6)], [])
        for thing in ("cup", "bowl", "plate")
    ]
    documents[1].questions.append(("Where is bowl 2?", [2], [3]))
    ((retriever, asked),) = indices(documents, Models.load(MODELS), np.random.default_rng(0))
    assert asked == [("Where is bowl 2?", ["8", "9"])]
    held = {passage.id for passage in retriever.local_index.passages(retriever.local_index.rows)}
    assert held >= {str(row) for row in range(6, 12)}
    assert len(held) == len(retriever.index)
