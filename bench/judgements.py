"""What 40 judgements of hits are worth: to ``semclass calibrate``, and to ``semclass tune``.

    python -m bench.judgements --data DATA --work FOLDER [--set handbook --set hobby]

For 40 questions of a set, drawn by chance, the first hit is judged as the set judges it, or the first ten hits are. The
threshold that these give is tried on all other questions. Tune gets the judgements of ten hits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from bench.retrieval_systems import open_retriever
from semclass import HybridRetriever
from semclass.core.errors import InputError
from semclass.evaluation.calibrate import HITS, calibrate, made_questions
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.made_questions import sample_passages
from semclass.evaluation.tune import tune

JUDGED, DRAWS, TUNED, TOLERANCE = 40, 200, 3, 0.1


def held(values: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """How far the figures of 40 judgements are from those of the other questions, over all draws."""
    found, missed = [], Counter[str]()
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(values))
        few, rest = order[:JUDGED], order[JUDGED:]
        made = calibrate(values[few].tolist(), right[few].tolist())
        if made.threshold is None:
            missed["none"] += 1
            continue
        shown = values[rest] >= made.threshold
        if not shown.any():
            missed["none"] += 1
            continue
        real = {"precision": right[rest][shown].mean(), "recall": shown[right[rest]].mean()}
        wrong = (~shown)[~right[rest]].mean()
        row = [made.threshold, right[rest].mean(), wrong]
        for name, value in real.items():
            told = getattr(made, name)
            row += [
                value,
                abs(value - told.value),
                abs(value - told.value) <= TOLERANCE,
                told.low <= value <= told.high,
            ]
        found.append(row)
    names = ["threshold", "right", "wrong ones withheld"]
    names += [
        f"{name}{what}" for name in ("precision", "recall") for what in ("", " off by", " within .1", " in interval")
    ]
    means = np.mean(np.array(found, float), axis=0).tolist() if found else [float("nan")] * len(names)
    return {"draws with a threshold": 1 - missed["none"] / DRAWS, **dict(zip(names, means, strict=True))}


def reciprocal(retriever: HybridRetriever, dataset: Dataset, names: Sequence[str]) -> np.ndarray:
    """Reciprocal ranks of the first relevant hit among ten."""
    results = retriever.search_many([dataset.questions[name] for name in names], 10)
    ranks = [
        next((hit.rank for hit in result if hit.id in dataset.relevance[name]), None)
        for name, result in zip(names, results, strict=True)
    ]
    return np.array([0.0 if rank is None else 1 / rank for rank in ranks])


def tuned(retriever: HybridRetriever, dataset: Dataset, seed: int) -> str:
    """The weights that judgements of ten hits give, and what they change on the other questions."""
    names = np.array(list(dataset.questions))[np.random.default_rng(seed).permutation(len(dataset.questions))]
    few, rest = names[:JUDGED].tolist(), names[JUDGED:].tolist()
    seen = {}
    for name in few:
        hits = {hit.id for hit in retriever.search(dataset.questions[name], 10)}
        if right := {one: 1 for one in dataset.relevance[name] if one in hits}:
            seen[name] = right
    judged = Dataset(dataset.folder, {name: dataset.questions[name] for name in seen}, seen)
    try:
        weights = tune(retriever, judged).weights
    except InputError as error:
        return str(error)
    newer = replace(retriever, index=replace(retriever.local_index, tuned={"weights": weights}))
    change = reciprocal(newer, dataset, rest) - reciprocal(retriever, dataset, rest)
    draws = np.random.default_rng(0).choice(change, (2000, len(change))).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    return f"{len(seen)} questions, stored {weights}: {change.mean():+.4f} ({low:+.4f} to {high:+.4f})"


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Keeps indices.")
@click.option("--set", "sets", multiple=True, default=("handbook", "hobby"), show_default=True)
@click.option("--tune/--no-tune", "with_tune", default=True)
def main(data: Path, work: Path, sets: Sequence[str], *, with_tune: bool) -> None:
    """Print figures for each set."""
    for name in sets:
        folder = data / "beir" / name
        retriever, dataset = open_retriever(folder, work), load_dataset(folder)
        results = {one: retriever.search(text, HITS) for one, text in dataset.questions.items()}
        values = np.array([result.answerable for result in results.values()])
        relevant = [[hit.id in dataset.relevance[one] for hit in result] for one, result in results.items()]
        made = list(made_questions(retriever, sample_passages(retriever, 200)))
        chosen = calibrate([value for value, _ in made], [yes for _, yes in made])
        for what, right in (
            ("the first hit is", np.array([row[0] for row in relevant])),
            (f"one of {HITS} hits is", np.array([any(row) for row in relevant])),
        ):
            print(f"{name}: {len(values)} questions, {what} right in {right.mean():.1%}")
            for figure, value in held(values, right).items():
                print(f"  {figure:<24} {value:.3f}")
            every = calibrate(values.tolist(), right.tolist())
            print(f"  by all questions: threshold {every.threshold}, separation {every.separation:.3f}")
            if chosen.threshold is not None:
                shown = values >= chosen.threshold
                told = f"precision {chosen.precision.value:.3f}, recall {chosen.recall.value:.3f}"
                real = f"precision {right[shown].mean():.3f}, recall {shown[right].mean():.3f}"
                print(f"  by {len(made)} made questions: threshold {chosen.threshold}, told {told}, found {real}")
        for seed in range(TUNED if with_tune else 0):
            print(f"  tune, draw {seed}: {tuned(retriever, dataset, seed)}", flush=True)


if __name__ == "__main__":
    main()
