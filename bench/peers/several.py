"""Peers that tell which of several classes a text has: a classifier of scikit-learn and a threshold for each.

Thresholds are found as those of the shipped passage head: the best F1 on passages that were not fitted on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.peers import loaders
from bench.peers.training import SEED, digest, fit, tfidf
from semclass.core.errors import import_extra
from semclass.train.calibration import best_threshold
from train_passages import inner_folds

Array = npt.NDArray[Any]
TRIED = 800  # texts that strengths are tried on: there are six classes and as many fits as folds for each


def train(kind: str, model: str | None, heads: Sequence[str], train: str, folder: str, of: str) -> dict[str, Any]:
    """Fit, keep what is fitted to everything, and decide on held-out items by classifiers that did not see them."""
    del of
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    out, found = Path(folder), {}
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    if kind == "tfidf":
        import_extra("joblib", "bench").dump(tfidf().fit(data["texts"]), str(model))
    rows = loaders.vectors(kind, model)(data["texts"])
    encoding = time.perf_counter() - started
    for name in heads:
        said: dict[str, list[int]] = {}
        for places, held_out in data["folds"]:
            fitted = _columns(name, rows, data, np.array(places))
            said.update(zip(map(str, held_out), loaders.decided(fitted, rows[held_out]), strict=True))
        started = time.perf_counter()
        fitted = _columns(name, rows, data, np.arange(len(data["texts"])))
        took = round(encoding + time.perf_counter() - started, 1)
        import_extra("joblib", "bench").dump(fitted, out / f"{name}.joblib")
        found[name] = {"train_s": took, "said": said}
    return {**found, "made": digest(out)}


def _columns(name: str, rows: Any, data: dict[str, Any], places: Array) -> list[tuple[Any, float]]:
    """A classifier and a threshold for each class, of those `places` whose label is known."""
    clone = import_extra("sklearn.base", "bench").clone
    labels, weights, articles = (np.array(data[part], float) for part in ("labels", "weights", "articles"))
    fitted = []
    for column in labels.T:
        known = places[~np.isnan(column[places])]
        truth = column[known].astype(int)
        one, _ = fit(name, rows[known], truth, TRIED, articles[known])
        scores = np.zeros(len(known))
        for part, rest in inner_folds(truth, articles[known], SEED):
            apart = clone(one).fit(rows[known[part]], truth[part])
            scores[rest] = loaders.squeezed(apart, rows[known[rest]])
        fitted.append((one, best_threshold(scores, truth == 1, weights[known])))
    return fitted
