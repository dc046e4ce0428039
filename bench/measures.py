"""Accuracy and F1, each with a 95 % bootstrap interval over the items; and times, one item after another, after a warm-up.

All intervals use the same `DRAWS` resamples of the items, so that systems can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DRAWS = 1000
WARM_UP = 20  # items that are run before the clock starts


def of_classes(truth: Sequence[str], said: Sequence[str | None], *, seed: int = 0) -> dict[str, Any]:
    """Accuracy and macro F1 of one class for each item."""
    names = sorted(set(truth))
    given = ["" if name is None else name for name in said]
    true, found = (np.array(labels, object)[:, None] == names for labels in (list(truth), given))
    counts = resamples(len(truth), seed)
    right = (true & found).any(axis=1)
    return {
        "items": len(truth),
        **figure("accuracy", right.mean(), counts @ right / len(truth)),
        **figure("macro_f1", _macro_f1(true, found, np.ones((1, len(truth))))[0], _macro_f1(true, found, counts)),
    }


def of_answers(truth: Array, said: Array, scores: Array | None = None, *, seed: int = 0) -> dict[str, Any]:
    """Accuracy, F1 of yes, macro F1 and area under the curve of one yes or no for each item."""
    counts = resamples(len(truth), seed)
    found = of_classes(*(np.where(rows, "yes", "no").tolist() for rows in (truth, said)), seed=seed)
    yes = _macro_f1(truth[:, None], said[:, None], counts)
    found |= figure("f1", _macro_f1(truth[:, None], said[:, None], np.ones((1, len(truth))))[0], yes)
    if scores is not None:
        from sklearn.metrics import roc_auc_score  # a process that takes times must not hold it

        both = [row for row in counts if 0 < row @ truth < len(truth)]  # there is no curve of one class alone
        drawn = np.array([roc_auc_score(truth, scores, sample_weight=row) for row in both])
        found |= figure("auc", roc_auc_score(truth, scores), drawn)
    return found


def of_several(truth: Array, said: Array, *, seed: int = 0) -> dict[str, Any]:
    """Accuracy and macro F1 of several yes or no for each item: means over the classes."""
    known = ~np.isnan(truth) & ~np.isnan(said)
    true, found = known & (truth == 1), known & (said == 1)

    def of(counts: Array) -> tuple[Array, Array]:
        """Accuracy and F1 of each class in each resample, each (draws, classes)."""
        right = counts @ (known & (true == found)) / np.maximum(counts @ known, 1)
        return right, np.nan_to_num(_f1(true, found, counts))

    (accuracy, f1), drawn = of(np.ones((1, len(truth)))), of(resamples(len(truth), seed))
    return {
        "items": len(truth),
        "decisions": int(known.sum()),
        **figure("accuracy", accuracy.mean(), drawn[0].mean(axis=1)),
        **figure("macro_f1", f1.mean(), drawn[1].mean(axis=1)),
        "f1_by_class": [round(float(value), 4) for value in f1[0]],
    }


def resamples(items: int, seed: int) -> Array:
    """How often each resample holds each item, float32 (`DRAWS`, items)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(items, np.full(items, 1 / items), size=DRAWS).astype(np.float32)


def figure(name: str, value: float, drawn: Array) -> dict[str, Any]:
    ends = np.percentile(drawn, [2.5, 97.5])
    return {name: round(float(value), 4), f"{name}_ci": [round(float(end), 4) for end in ends]}


def _f1(true: Array, found: Array, counts: Array) -> Array:
    """F1 of each class in each resample, (draws, classes); nan where neither is there."""
    both, either = counts @ (true & found), counts @ true + counts @ found
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * both / either)


def _macro_f1(true: Array, found: Array, counts: Array) -> Array:
    """Mean over the classes that a resample holds, (draws,); 0 where it holds none."""
    there = counts @ true > 0
    return np.asarray(
        np.where(there, np.nan_to_num(_f1(true, found, counts)), 0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    )


def dcg(gains: Array, depth: int = 10) -> Array:
    """DCG of the first places, of gains in the order of a ranking, (q, places) to (q,)."""
    return np.asarray(gains[..., :depth] @ (1 / np.log2(2 + np.arange(min(depth, gains.shape[-1])))))


def gain(values: Array, base: Array) -> dict[str, float]:
    """Mean of what each question gains, and the standard error of that mean."""
    gains = values - base
    return {"gain": float(gains.mean()), "error": float(gains.std(ddof=1) / np.sqrt(len(gains)))}


# -- times -------------------------------------------------------------------------------------------------------------


def milliseconds(seconds: Sequence[float], prefix: str = "") -> dict[str, float]:
    """Median and 95th percentile, as ``p50_ms`` and ``p95_ms`` behind `prefix`."""
    return {f"{prefix}p{q}_ms": round(float(np.percentile(seconds, q)) * 1e3, 4) for q in (50, 95)}


def by_turns(
    items: Sequence[Any], jobs: Mapping[str, Callable[[Any], object]], *, block: int = 20
) -> dict[str, list[float]]:
    """Seconds of several jobs for each item, taken in turns so that a slow moment of the machine meets all of them."""
    for job in jobs.values():
        for item in items[:WARM_UP]:
            job(item)
    values: dict[str, list[float]] = {name: [] for name in jobs}
    for begin in range(0, len(items), block):
        for name, job in jobs.items():
            for item in items[begin : begin + block]:
                started = time.perf_counter()
                job(item)
                values[name].append(time.perf_counter() - started)
    return values
