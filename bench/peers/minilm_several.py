"""A fine-tuned classifier as a peer where a text has several classes: the original encoder with an output for each.

The recipe is that of ``minilm.py``; the rate is the better of two on a fifth of the first fold's training part. A
fold's thresholds have the best F1 on the held-out passages of the other folds, so that no passage is kept from training
for them.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.peers import loaders
from bench.peers.minilm import Recipe, export, tuned
from bench.peers.training import SEED, digest
from semclass.core.errors import import_extra
from semclass.train.calibration import best_threshold
from train_passages import inner_folds

Array = npt.NDArray[Any]
LENGTH = 256  # word pieces of a passage that are read
RATES = (1e-4, 3e-4)  # learning rates that are tried


def train(original: str, train: str, folder: str, of: str, length: int = LENGTH, epochs: int = 3) -> dict[str, Any]:
    """Fine-tune for each fold, decide on its held-out passages, then fine-tune on everything and keep that as int8 ONNX."""
    del of
    import_extra("torch", "bench").set_num_threads(1)
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    texts, labels = np.array(data["texts"], object), np.array(data["labels"], float)
    out, recipe = Path(folder), Recipe(length, epochs)

    def fitted(places: Array, recipe: Recipe, where: Path) -> loaders.Network:
        network, tokenizer = tuned(original, texts[places].tolist(), labels.shape[1], _loss(labels[places]), recipe)
        export(network, tokenizer, where)
        return loaders.Network.load(str(where), 1, length)

    started = time.perf_counter()
    first = np.array(data["folds"][0][0])
    part, rest = next(iter(inner_folds(np.zeros(len(first), int), np.array(data["articles"])[first], SEED)))
    losses = {}
    for rate in RATES:
        logits = fitted(first[part], replace(recipe, rate=rate), out / "part").logits(texts[first[rest]].tolist())
        losses[rate] = round(float(cross_entropy(logits, labels[first[rest]])), 4)
    recipe, searched = replace(recipe, rate=min(RATES, key=lambda rate: losses[rate])), time.perf_counter()
    logits = np.full(labels.shape, np.nan)
    for places, held_out in data["folds"]:
        logits[held_out] = fitted(np.array(places), recipe, out / "part").logits(texts[held_out].tolist())
    said: dict[str, list[int]] = {}
    for _, held_out in data["folds"]:
        least = thresholds(np.delete(logits, held_out, axis=0), np.delete(labels, held_out, axis=0))
        said |= zip(map(str, held_out), (logits[held_out] >= least).astype(int).tolist(), strict=True)
    shutil.rmtree(out / "part")
    folded = time.perf_counter()
    fitted(np.arange(len(texts)), recipe, out)
    took = time.perf_counter() - folded
    (out / "thresholds.json").write_text(json.dumps(thresholds(logits, labels).tolist()))
    return {
        "train_s": round(took, 1), "folds_s": round(folded - searched, 1), "search_s": round(searched - started, 1),
        "said": said, "chosen": {"rate": recipe.rate, "epochs": epochs, "losses": losses}, "made": digest(out),
    }  # fmt: skip


def thresholds(logits: Array, labels: Array) -> Array:
    """Logits with the best F1 of each class, (classes,); rows without logits and labels that are not known do not count."""
    found = []
    for column, truth in zip(logits.T, labels.T, strict=True):
        known = ~np.isnan(column) & ~np.isnan(truth)
        cut = best_threshold(0.5 * (1 + np.tanh(column[known] / 2)), truth[known] == 1)
        found.append(np.log(cut / (1 - cut)))
    return np.array(found)


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Mean over the labels that are known."""
    values = np.logaddexp(0, logits) - np.nan_to_num(labels) * logits
    return np.asarray(values[~np.isnan(labels)].mean())


def _loss(labels: Array) -> Any:
    """The same in torch, as ``minilm.tuned`` wants it."""
    torch = import_extra("torch", "bench")
    known, target = torch.tensor(~np.isnan(labels)), torch.tensor(np.nan_to_num(labels)).float()

    def loss(logits: Any, rows: list[int]) -> Any:
        values = torch.nn.functional.binary_cross_entropy_with_logits(logits, target[rows], reduction="none")
        return values[known[rows]].mean()

    return loss
