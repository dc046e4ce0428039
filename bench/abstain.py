"""Can a search tell that its index has no answer: the questions of a set, with and without the passages that answer them.

Every question is asked twice: of the whole index, and with each of its relevant passages left out. Beside ``answerable``
stand plain numbers of the same search. Questions of another set, which the index is not about, are the easy case. The
question's own in-scope probability is the same with and without the answer, so that it cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from bench import measures, readme
from bench.retrieval_systems import open_retriever
from bench.steps import Bench
from semclass import HybridRetriever
from semclass.evaluation.dataset import load_dataset
from semclass.index.candidates import Query
from semclass.ranking.methods import METHODS
from semclass.train.fitted import expected_calibration_error

Array = npt.NDArray[Any]

SETS = {"squad4": "docs", "codebase": "squad4", "docs": "squad4"}  # and the sets whose questions are foreign to them
MOST, FOREIGN = 500, 100  # questions of a set, and of another one
SIGNALS = (
    "answerable",
    "score of the best hit",
    "score ahead of the second",
    "highest cosine",
    "entailment, best hit",
    "entailment, highest of ten",
)
"""Numbers that separate: the larger, the more likely there is an answer."""


def run(bench: Bench) -> dict[str, Any]:
    limit, some = (20, ["docs"]) if bench.quick else (MOST, list(SETS))
    jobs = {
        name: partial(
            bench.step, f"abstain/{name}", "bench.abstain:measure", folder=bench.beir(name),
            foreign=bench.beir(SETS[name]), cache=bench.indices, limit=limit,
        )
        for name in some
    }  # fmt: skip
    what = "tell questions that an index answers from the same without their answers"
    return {"task": {"what": what}, "sets_asked": bench.side_by_side(jobs)}


def measure(folder: str, foreign: str, cache: str, limit: int) -> dict[str, Any]:
    """Area under the curve of each of `SIGNALS`, with its interval over questions, and calibration of ``answerable``."""
    retriever = open_retriever(folder, cache)
    dataset, others = load_dataset(folder, limit=limit), load_dataset(foreign, limit=min(limit, FOREIGN))
    queries, strangers = (
        retriever.models.encode([*each.questions.values()], classes=False) for each in (dataset, others)
    )
    given = np.array(
        [
            [signals(retriever, query, ()), signals(retriever, query, [*relevant])]
            for query, relevant in zip(queries, dataset.relevance.values(), strict=True)
        ]
    )
    far = np.array([signals(retriever, query, ()) for query in strangers])[:, 0]
    told, truth = given[..., 0], np.tile([True, False], len(given))
    return {
        "questions": len(given),
        "systems": {name: area(given[..., place]) for place, name in enumerate(SIGNALS)},
        "auc_foreign": round(float(roc_auc_score(np.repeat([1, 0], [len(told), len(far)]), [*told[:, 0], *far])), 4),
        "calibration_error": round(expected_calibration_error(told.ravel(), truth), 4),
    }


def signals(retriever: HybridRetriever, query: Query, without: Sequence[str]) -> list[float]:
    """Signals of a search without some passages, in the order of `SIGNALS`."""
    how, models = METHODS["default"], retriever.models
    where = {"_id": {"$nin": list(without)}} if without else None
    found = retriever.candidates(query, how.candidates, how, where=where)
    ranked = how.order(models, query, found, models.weights)
    first = ranked.order[:10]
    answers = ranked.components["relevance"][first]
    return [
        ranked.answerable or 0.0,
        ranked.score[first[0]],
        ranked.score[first[0]] - ranked.score[first[1]],
        found.dense.max(),
        answers[0],
        answers.max(),
    ]


def area(given: Array, seed: int = 0) -> dict[str, Any]:
    """Area under the curve of numbers (n, 2), with and without the answer; its 95 % interval draws questions."""
    truth = np.tile([1, 0], len(given))
    counts = np.repeat(measures.resamples(len(given), seed), 2, axis=1)
    drawn = [roc_auc_score(truth, given.ravel(), sample_weight=row) for row in counts]
    return measures.figure("auc", float(roc_auc_score(truth, given.ravel())), np.array(drawn))


def table(found: Mapping[str, Any]) -> str:
    sets = found["abstain"]["sets_asked"]
    rows = [
        (name, *(readme.with_interval(each["systems"][name], "auc", ".3f") for each in sets.values()))
        for name in SIGNALS
    ]
    rows += [
        ("answerable, against questions of another set", *(f"{each['auc_foreign']:.3f}" for each in sets.values())),
        ("calibration error", *(f"{each['calibration_error']:.3f}" for each in sets.values())),
    ]
    return readme.markdown(("area under the curve", *sets), rows)


TABLES = {"": table}
