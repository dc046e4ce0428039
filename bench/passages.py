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
from bench import measures, readme
from bench.peers.rows import CLASSIFIERS, Entry, constant, keep, recorded, rows, scikit_peers, trained_seconds
from bench.steps import Bench
from semclass.core.artifacts import default_models, read_json
from semclass.core.types import COARSE
from semclass.heads.texts import open_encoder

Array = npt.NDArray[Any]
SEED = 0  # of the assignment of passages to folds
QUICK, FEW = 30, 100  # passages that answers are timed on, and those that are fitted to or decided on, in a quick run

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
    folder = bench.work / "peers" / ("passages-quick" if bench.quick else "passages")
    corpus = training.read_corpus(bench.data)
    twice = np.flatnonzero(corpus.twice)
    truth = corpus.labels[twice]
    texts = [corpus.texts[row] for row in twice]
    items = keep(folder / "items.json", {"gold": texts[:QUICK] if bench.quick else texts})
    folds = training.gold_folds(corpus, SEED)
    kept = {
        "texts": corpus.texts,
        "labels": np.where(np.isnan(corpus.labels), None, corpus.labels).tolist(),
        "weights": corpus.weights.tolist(),
        "articles": corpus.articles.tolist(),
        "folds": [[fit.tolist(), scored.tolist()] for fit, scored in folds],
    }
    if bench.quick:
        fit, scored = list(range(FEW * 2 // 3)), list(range(FEW * 2 // 3, FEW))
        kept = {**{name: kept[name][:FEW] for name in kept}, "folds": [[fit, scored]]}
    train = keep(folder / "train.json", kept)
    what = "{vectors}, for each class a {head} of scikit-learn."
    peers = {
        name: how for name, how in CLASSIFIERS.items() if how[1] != "svc"
    }  # which is below logistic regression here
    entries, made = scikit_peers(bench, "passages", "several", folder, train, peers, what)
    if not bench.quick:
        made["semclass"] = bench.step("passages/semclass/folds", "bench.passages:out_of_fold", data=bench.data)
    answers = {name: one["said"] for name, one in made.items()}
    what = "The shipped passage head over the int8 encoder; quality of its training, cross-validated."
    loader, took = "bench.peers.systems:semclass_passages", trained_seconds("passages")
    entries = [Entry("semclass", "semclass", what, loader, train_s=took), *entries]
    systems = rows(bench, "passages", entries, items, lambda _, __: {})
    for row in systems:
        said = answers.get(row["name"])
        if said is not None:
            decided = [said.get(str(place), [np.nan] * len(COARSE)) for place in twice]
            row |= measures.of_several(truth, [np.array(decided, float)])
    flan = recorded(bench, "passages", measures.of_several(truth, [corpus.weak[twice]]), calls=len(COARSE))
    systems += [flan, _floor(corpus, folds, truth, twice)]
    shipped_figures = read_json(default_models() / "passages" / "manifest.json")["metrics"]["macro"]
    return {
        "task": {
            "what": "Which of six types of answer does a passage provide? Six yes or no.",
            "classes": list(COARSE),
            "items": len(twice),
            "training_items": len(kept["texts"]),
            "manifest_macro_f1": shipped_figures["f1"],
            "manifest_macro_f1_by_seed": shipped_figures["f1_by_seed"],
            "protocol": PROTOCOL,
            "sources": "508 Wikipedia passages and flan-ul2's answers of the reference thesis, labels of this project; "
            "1,859 passages of WikiQA, IE-ER and SQuAD with labels of this project",
        },
        "systems": systems,
    }


def out_of_fold(data: str) -> dict[str, Any]:
    """Decide on the gold passages by heads that were fitted without them, as the training script does."""
    corpus = training.read_corpus(Path(data))
    _, decisions, _ = held_out(corpus)
    places = np.flatnonzero(corpus.twice).tolist()
    return {"said": dict(zip(map(str, places), decisions.tolist(), strict=True))}


def held_out(corpus: training.Corpus) -> tuple[Array, Array, Array]:
    """Probabilities, decisions and labels of the passages that were read twice, (passages, classes) each."""
    encoder = open_encoder(default_models() / "encoder")
    views = training.view_matrices(encoder, [*corpus.texts, *map(str.lower, corpus.texts)])
    dims = {name: view.shape[1] for name, view in views.items()}
    dense = np.concatenate(list(views.values()), axis=1).astype(np.float64)
    return training.out_of_fold(corpus, dense, dims, SEED)


def _floor(corpus: training.Corpus, folds: Sequence[tuple[Array, Array]], truth: Array, twice: Array) -> dict[str, Any]:
    """For each class what most passages of the training part have."""
    said = np.zeros_like(corpus.labels)
    for fit, scored in folds:
        said[scored] = np.nanmean(corpus.labels[fit], axis=0) > 0.5
    return constant(
        "most frequent answers", "For each class what most training passages have.",
        measures.of_several(truth, [said[twice]]),
    )  # fmt: skip


TABLES: dict[str, Any] = {}
PICTURES = {"passages_cost.png": readme.of_task("passages", "macro_f1")}
