"""Tuning on questions that rules made of the corpus: what it brings on the real questions of a set.

Each set's index is tuned as ``semclass tune`` does, on made questions, and on the real ones by folds. Measured is nDCG@10
on the real questions, and its difference to that of the default weights with a paired 95 % bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import measures, readme
from bench.steps import Bench
from semclass import HybridRetriever, Models
from semclass.core.types import DoubleArray
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.evaluate import cached_index
from semclass.evaluation.made_questions import MadeQuestions, keep_good, sample_drafts, sample_passages
from semclass.evaluation.measure import per_question
from semclass.evaluation.question_rules import KINDS, QUESTIONS, write_by_rules
from semclass.evaluation.tune import tune
from semclass.evaluation.weight_search import fold_of
from semclass.ranking.methods import METHODS

SETS = ("docs", "codebase", "cranfield", "squad4")

EACH, REAL = 2, 200  # questions to a passage, and real questions of a set at most
ARMS = {"questions": (QUESTIONS, 300), "every kind": (KINDS, 150), "real": ((), 0)}
"""What is tuned on: kinds of made questions and passages drawn for them; none for the real ones, by folds."""

FOLDS = 2  # of the real questions: tuned on one half, measured on the other

SEARCHED = ("default", "hybrid")  # what a search does, and the reference's sum, whose w is the weight that tuning moves
MEASURE = "nDCG@10"


def run(bench: Bench) -> dict[str, Any]:
    """Every set, tuned on each of `ARMS`."""
    real = 40 if bench.quick else REAL
    sets = {
        name: {
            arm: bench.step(
                f"made questions/{name}/{arm}",
                "bench.made_questions:measure_set",
                folder=bench.beir(name),
                cache=bench.indices,
                kinds=kinds,
                passages=40 if bench.quick and kinds else passages,
                real=real,
            )
            for arm, (kinds, passages) in ARMS.items()
        }
        for name in (SETS[:1] if bench.quick else SETS)
    }
    return {
        "task": {
            "what": "weights of search tuned on questions that rules made of the corpus, measured on real questions",
            "passages": {arm: passages for arm, (_, passages) in ARMS.items()},
            "each": EACH,
            "real": real,
            "folds": FOLDS,
        },
        "tuned": sets,
    }


def measure_set(folder: str, cache: str, kinds: Sequence[str], passages: int, real: int) -> dict[str, Any]:
    """Tune on made questions of some kinds, or on real ones by folds, and measure on the real ones."""
    models = Models.load(threads=1)
    retriever = HybridRetriever(cached_index(folder, cache, models.passage_encoder), models).untuned()
    asked = _drawn(load_dataset(folder), real)
    fold = fold_of(len(asked.questions), FOLDS, 0)
    if kinds:
        drafts = sample_drafts(write_by_rules(sample_passages(retriever, passages), models, kinds), EACH)
        made = keep_good(retriever, drafts)
        weights = [tune(retriever, as_dataset(made)).weights] * FOLDS
        easy = _ndcg(retriever, as_dataset(made), "default", {})
        about = {"made": len(made.kept), "counts": made.counts(), "default_on_made": round(float(easy.mean()), 4)}
    else:
        weights, about = [tune(retriever, _of(asked, fold != part)).weights for part in range(FOLDS)], {}
    figures = {}
    for method in SEARCHED:
        before = _ndcg(retriever, asked, method, {})
        after = before.copy()
        for part, own in enumerate(weights):
            after[fold == part] = _ndcg(retriever, _of(asked, fold == part), method, own, before[fold == part])
        figures[method] = {"before": round(float(before.mean()), 4), **compared(before, after)}
    return {"questions": len(asked.questions), **about, "weights": weights, "methods": figures}


def as_dataset(made: MadeQuestions) -> Dataset:
    """Questions and judgements as tuning reads them."""
    named = {f"made{number}": question for number, question in enumerate(made.kept)}
    return Dataset(
        Path(),
        {name: question.text for name, question in named.items()},
        {name: {question.passage: 1} for name, question in named.items()},
    )


def _drawn(dataset: Dataset, count: int) -> Dataset:
    """Some questions, by chance."""
    taken = np.zeros(len(dataset.questions), np.bool_)
    taken[np.random.default_rng(0).permutation(len(taken))[:count]] = True
    return _of(dataset, taken)


def _of(dataset: Dataset, taken: Sequence[bool] | np.ndarray[Any, Any]) -> Dataset:
    names = [name for name, wanted in zip(dataset.questions, taken, strict=True) if wanted]
    return Dataset(
        dataset.folder,
        {name: dataset.questions[name] for name in names},
        {name: dataset.relevance[name] for name in names},
    )


def _ndcg(
    retriever: HybridRetriever,
    dataset: Dataset,
    method: str,
    weights: Mapping[str, float],
    before: DoubleArray | None = None,
) -> DoubleArray:
    """The measure of each question; what it was `before` if none of the weights counts in the method."""
    if before is not None and not set(weights) & set(METHODS[method].weights):
        return before
    hits = retriever.search_many(list(dataset.questions.values()), method=method, weights=weights)
    return per_question(dataset, [[hit.id for hit in found] for found in hits], [MEASURE])[MEASURE]


def compared(before: DoubleArray, after: DoubleArray) -> dict[str, Any]:
    """The mean after, and the gain with its interval."""
    gain = after - before
    low, high = np.quantile(measures.resamples(len(gain), 0) @ gain / len(gain), [0.025, 0.975])
    ends = [round(float(low), 4), round(float(high), 4)]
    return {"after": round(float(after.mean()), 4), "gain": round(float(gain.mean()), 4), "gain_ci": ends}


def table(found: Mapping[str, Any]) -> str:
    """What tuning on made and on real questions brings, by set and method."""
    rows = []
    for name, arms in found["made_questions"]["tuned"].items():
        for method in SEARCHED:
            cells = [arms[arm]["methods"][method] for arm in ARMS]  # files keep the arms in another order
            rows.append((name, f"`{method}`", f"{cells[0]['before']:.3f}", *map(shown, cells)))
    head = ("set", "method", "nDCG@10, default weights", *(f"tuned on: {arm}" for arm in ARMS))
    return readme.markdown(head, rows)


def shown(arm: Mapping[str, Any]) -> str:
    """A gain with its interval."""
    gain, (low, high) = arm["gain"], arm["gain_ci"]
    return f"{gain:+.3f} ({low:+.3f} to {high:+.3f})" if low or high else "nothing changed"


def kinds(found: Mapping[str, Any]) -> str:
    """How many questions of each kind were kept, of how many that were looked at."""
    rows = []
    for name, arms in found["made_questions"]["tuned"].items():
        for arm in (arm for arm, (some, _) in ARMS.items() if some):
            counts = arms[arm]["counts"]
            cells = (
                f"{counts[kind]['kept']} of {sum(counts[kind].values())}" if kind in counts else "-" for kind in KINDS
            )
            rows.append((name, arm, *cells, f"{arms[arm]['default_on_made']:.3f}"))
    return readme.markdown(("set", "tuned on", *KINDS, "nDCG@10 on them"), rows)


TABLES = {"": table, "kinds": kinds}
