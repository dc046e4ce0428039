"""Passage classes: six yes or no for each passage, macro F1 against time, memory, disk and money.

The shipped head has seen every labelled passage, so quality is that of cross-validation, in the same folds for all
systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import train_passages as training
from bench import measures
from bench.steps import Bench
from bench.systems import constant, frozen, measured
from semclass.core.artifacts import default_models, read_json
from semclass.core.types import COARSE
from semclass.encoders.onnx_encoder import open_encoder

Array = npt.NDArray[Any]
SEED, QUICK = 0, 30  # of the assignment of passages to folds; passages of a quick run

PROTOCOL = (
    "Five folds of the 508 gold passages (seed 0), the other labelled passages in every training part, as "
    "training/train_passages.py measures the shipped head: passages of one article, or whose words are alike, share a "
    "fold. What counts are decisions on the held-out gold passages that were read twice, where both readings agree. "
    "semclass: the head's own training, nested (penalty, calibration and threshold from the training part; the "
    "manifest's figure is the mean of five such assignments of folds). Peers: strength and thresholds by "
    "cross-validation in the training part, with the same folds. flan-ul2: recorded answers; where its prompt overflowed "
    "there is none, and nothing is counted. Macro F1 and accuracy are means over the classes."
)


def run(bench: Bench) -> dict[str, Any]:
    corpus = training.read_corpus(bench.data)
    twice = np.flatnonzero(corpus.twice)
    truth = corpus.labels[twice]
    texts = [corpus.texts[row] for row in twice]
    what = "The shipped passage head over the int8 encoder; quality of its training, cross-validated."
    ours = measured(bench, "passages", what, {"gold": texts[: QUICK if bench.quick else None]}, lambda _: {})
    if not bench.quick:
        said = bench.step("passages/semclass/folds", "bench.passages:out_of_fold", data=bench.data)["said"]
        ours |= measures.of_several(truth, np.array([said[str(place)] for place in twice], float))
    floor = _floor(corpus, training.gold_folds(corpus, SEED), truth, twice)
    shipped_figures = read_json(default_models() / "passages" / "manifest.json")["metrics"]["macro"]
    return {
        "task": {
            "what": "Which of six types of answer does a passage provide? Six yes or no.",
            "classes": list(COARSE),
            "items": len(twice),
            "training_items": len(corpus.texts),
            "manifest_macro_f1": shipped_figures["f1"],
            "manifest_macro_f1_by_seed": shipped_figures["f1_by_seed"],
            "protocol": PROTOCOL,
            "sources": "508 Wikipedia passages and flan-ul2's answers of the reference thesis, labels of this project; "
            "1,859 passages of WikiQA, IE-ER and SQuAD with labels of this project",
        },
        "systems": [ours, *frozen(bench, "passages"), floor],
    }


def out_of_fold(data: str) -> dict[str, Any]:
    """Decide on the gold passages by heads that were fitted without them, as the training script does."""
    corpus, encoder = training.read_corpus(Path(data)), open_encoder(default_models() / "encoder")
    views = training.view_matrices(encoder, [*corpus.texts, *map(str.lower, corpus.texts)])
    dims = {name: view.shape[1] for name, view in views.items()}
    dense = np.concatenate(list(views.values()), axis=1).astype(np.float64)
    _, decisions, _ = training.out_of_fold(corpus, dense, dims, SEED)
    places = np.flatnonzero(corpus.twice).tolist()
    return {"said": dict(zip(map(str, places), decisions.tolist(), strict=True))}


def _floor(corpus: training.Corpus, folds: Sequence[tuple[Array, Array]], truth: Array, twice: Array) -> dict[str, Any]:
    """For each class what most passages of the training part have."""
    said = np.zeros_like(corpus.labels)
    for fit, scored in folds:
        said[scored] = np.nanmean(corpus.labels[fit], axis=0) > 0.5
    return constant(
        "most frequent answers", "For each class what most training passages have.",
        measures.of_several(truth, said[twice]),
    )  # fmt: skip


TABLES: dict[str, Any] = {}
