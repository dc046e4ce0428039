"""Compares cosine, inner product and l2 distance over plain vectors of an encoder, without an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from semclass.core.types import Encoder, FloatArray, Passage
from semclass.encoders.onnx_encoder import for_passages
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import interval, per_question, randomisation_test
from semclass.index.passage_encoder import searchable
from semclass.scoring.topk import top_k, unit

SIMILARITIES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "cosine": lambda passages, question: unit(passages) @ unit(question[None])[0],
    "ip": lambda passages, question: passages @ question,
    "l2": lambda passages, question: -np.square(passages - question).sum(axis=1),
}
"""Each similarity of n passages, of shape (n, dim), to a question, of shape (dim,). Larger is nearer."""

DEPTH = 100
"""Passages of each ranking, and texts that are encoded together."""


def sweep(
    dataset: Dataset,
    passages: Sequence[Passage],
    encoder: Encoder,
    measures: Sequence[str],
    *,
    seed: int = 0,
    progress: Callable[[int], object] = lambda _: None,
) -> dict[str, dict[str, Any]]:
    """Rank `passages` for each question by each similarity of plain vectors, and measure the rankings.

    Returns by similarity ``measures``, each with its mean ``value`` and its 95 % bootstrap ``interval``, and ``p_value``:
    a two-sided paired randomisation test of the first measure against cosine.
    """
    ids = [passage.id for passage in passages]
    vectors = _vectors([searchable(passage) for passage in passages], for_passages(encoder), progress)
    questions = _vectors(list(dataset.questions.values()), encoder, progress)
    values = {}
    for name, similarity in SIMILARITIES.items():
        rankings = [[ids[row] for row in top_k(similarity(vectors, question), DEPTH)] for question in questions]
        values[name] = per_question(dataset, rankings, measures)
    found = {}
    for name, table in values.items():
        p_value = randomisation_test(table[measures[0]], values["cosine"][measures[0]], seed)
        rows = {m: {"value": float(v.mean()), "interval": interval(np.mean, [v], seed)} for m, v in table.items()}
        found[name] = {"measures": rows, "p_value": p_value}
    return found


def _vectors(texts: Sequence[str], encoder: Encoder, progress: Callable[[int], object]) -> FloatArray:
    rows = []
    for start in range(0, len(texts), DEPTH):
        rows.append(encoder.encode(texts[start : start + DEPTH]).rows("pooled"))
        progress(len(rows[-1]))
    return np.concatenate(rows)
