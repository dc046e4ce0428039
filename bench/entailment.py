"""Does a sentence answer a question? Accuracy on QNLI validation against time, memory, disk and money.

Nothing is trained or chosen on QNLI. Peers learn from the questions of SQuAD's training articles, each with the
sentence that answers it and one nearby that does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from bench import measures, readme
from bench.peers.rows import (
    NO_CROSS_ENCODER,
    Entry,
    constant,
    keep,
    recorded,
    rows,
    scikit_peers,
    seconds_of,
    trained_seconds,
)
from bench.steps import Bench
from datasets_io import read_jsonl, squad_train
from semclass.core.artifacts import default_models, read_json

Array = npt.NDArray[Any]
QUICK, FEW = 50, 200  # pairs, and training questions, of a quick run
THRESHOLD_PAIRS = 1000  # training questions on whose pairs the threshold of the cross-encoder is found
NEIGHBOURS, HARDNESS = 3, 4.0
"""The sentence that does not answer is one of so many on either side of the one that does, drawn with the odds
exp(hardness * share of the question's words that it has): the weights that ``training/export_entailment.py`` gives them."""

SEED = 0

PEERS = {
    "ten lines: logistic": ("sentence-transformers", "products"),
    "model2vec: logistic": ("model2vec", "products"),
    "tf-idf: cosine": ("tfidf", "cosine"),
}
"""Vectors of each peer, and how those of a pair are combined."""


def run(bench: Bench) -> dict[str, Any]:
    folder = bench.work / "peers" / ("entailment-quick" if bench.quick else "entailment")
    records = read_jsonl(bench.data / "qnli" / "validation.jsonl.gz")[: QUICK if bench.quick else None]
    truth = np.array([record["label"] == "entailment" for record in records])
    items = keep(folder / "items.json", {"qnli": [[record["question"], record["sentence"]] for record in records]})
    taught = training_pairs(bench.data, FEW if bench.quick else None)
    train = keep(folder / "train.json", taught)
    what = "{vectors} of either text, {head}."
    peers, _ = scikit_peers(bench, "entailment", "classes", folder, train, PEERS, what)
    shipped_threshold = float(read_json(default_models() / "entailment" / "manifest.json")["threshold"])
    ours = Entry(
        "semclass", "semclass",
        "The shipped entailment classifier: a small network compares word vectors, some layers read both together.",
        "bench.peers.systems:semclass_entailment", train_s=trained_seconds("entailment"),
    )  # fmt: skip
    systems = [
        *rows(bench, "entailment", [ours], items, partial(quality, truth=truth, threshold=shipped_threshold)),
        *rows(bench, "entailment", peers, items, partial(quality, truth=truth)),
        _cross_encoder(bench, folder, items, taught, truth),
        constant("always yes", "Every sentence answers.", measures.of_answers(truth, np.ones(len(truth), bool))),
    ]
    if "flan_ul2" in records[0]:  # the published set is without these answers
        flan = np.array([record["flan_ul2"] == "entailment" for record in records])
        systems.insert(-1, recorded(bench, "entailment", measures.of_answers(truth, flan)))
    return {
        "task": {
            "what": "Does a sentence answer a question?",
            "items": len(records),
            "training_items": len(taught["items"]),
            "protocol": "QNLI validation; labels by thresholds found on training data. Peers learn from "
            f"{len(taught['labels'])} pairs of squad_sentences/train: each question with its answer and with one of the "
            f"{NEIGHBOURS} sentences on either side, likelier one with the question's words. f1 is that of yes. Timed: one "
            "pair at a time, both texts from scratch; all but the cross-encoder could keep vectors of sentences. What the "
            "cross-encoder learnt from, see retrieval.",
            "sources": "GLUE QNLI validation, made of SQuAD's development articles, with flan-ul2's recorded answers",
        },
        "systems": systems,
    }


def training_pairs(data: Path, questions: int | None) -> dict[str, Any]:
    """Pairs of training questions, drawn at random if not all are wanted."""
    texts, asked, answers = squad_train(data)
    rng = np.random.default_rng(SEED)
    pairs, labels = [], []
    for row in rng.permutation(len(asked))[:questions].tolist():
        question, answer = asked[row], answers[row]
        around = range(max(answer - NEIGHBOURS, 0), min(answer + NEIGHBOURS + 1, len(texts)))
        others = [near for near in around if near != answer and texts[near] != texts[answer]]
        odds = np.exp(HARDNESS * np.array([_shared(question, texts[near]) for near in others]))
        other = int(rng.choice(others, p=odds / odds.sum()))
        pairs += [[question, texts[answer]], [question, texts[other]]]
        labels += [1, 0]
    return {"items": pairs, "labels": {"label": labels}}


def _shared(question: str, sentence: str) -> float:
    """Share of the question's words that a sentence has."""
    words = set(question.lower().split())
    return len(words & set(sentence.lower().split())) / len(words)


def quality(
    _: str, answers: Mapping[str, Mapping[str, Sequence[float]]], truth: Array, threshold: float = 0.5
) -> dict[str, Any]:
    """Figures of probabilities; yes from the threshold on."""
    scores = np.array(answers["qnli"]["label"])
    return {**measures.of_answers(truth, scores >= threshold, scores), "threshold": round(threshold, 4)}


def _cross_encoder(bench: Bench, folder: Path, items: Path, taught: Mapping[str, Any], truth: Array) -> dict[str, Any]:
    """A network that reads both texts together, its threshold found on training pairs."""
    what = (
        "A network of the encoder's size that reads question and sentence together, int8 (bench/peers/systems.py); "
        "trained for this benchmark, to rank passages, on part of the questions that its threshold is found on. Published "
        "ones, which learnt from far more, were not measured."
    )
    name = "cross-encoder MiniLM, int8"
    if bench.cross_encoder is None:
        return {"name": name, "kind": "peer", "what": what, "threads": 1, "skipped": NO_CROSS_ENCODER}
    some = slice(0, 2 * (QUICK if bench.quick else THRESHOLD_PAIRS))
    pairs = {**json.loads(items.read_text(encoding="utf-8")), "train": taught["items"][some]}
    options = {"folder": str(bench.cross_encoder)}
    entry = Entry(
        name, "peer", what, "bench.peers.systems:cross_encoder", options, train_s=seconds_of(bench.cross_encoder)
    )
    given = keep(folder / "cross-encoder.json", pairs)

    def score(said: str, answers: dict[str, dict[str, list[Any]]]) -> dict[str, Any]:
        fitted = LogisticRegression(C=1e6).fit(
            np.array(answers["train"]["label"])[:, None], taught["labels"]["label"][some]
        )
        threshold = float(-fitted.intercept_[0] / fitted.coef_[0, 0])  # where it says one half
        return quality(said, answers, truth, threshold)

    return rows(bench, "entailment", [entry], given, score)[0]


TABLES: dict[str, Any] = {}
PICTURES = {"entailment_cost.png": readme.of_task("entailment", "accuracy")}
