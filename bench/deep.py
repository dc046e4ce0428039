"""The deep method: what reading the first candidates together with the question brings, and what it costs.

How many are read and what their log-odds weigh is chosen on retrieval sets and the contrast items, each left out in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import measures, readme, timing
from bench.retrieval import DEFAULTS
from bench.retrieval_systems import open_retriever
from bench.steps import Bench
from bench.strings import CONTRAST, contrast_strings
from datasets_io import read_jsonl
from semclass import HybridRetriever, Models, Reranker
from semclass.core.types import Passage, Ragged
from semclass.evaluation.dataset import load_dataset
from semclass.ranking.deep import WEIGHT, gain_of, joint_log_odds
from semclass.ranking.methods import METHODS
from semclass.ranking.order import reorder
from semclass.scoring.topk import unit
from semclass.train.calibration import expected_calibration_error

Array = npt.NDArray[Any]

READ = (3, 5, 10)  # candidates that are read
WEIGHTS = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2)
MOST, TIMED = 1000, 100  # questions of a set, and those that are timed
LONGEST = 10  # places that count
TIMED_SET = "squad4"
CONTRAST_COUNTS = 0.5  # what the contrast items count beside a set


def run(bench: Bench) -> dict[str, Any]:
    """Every set by every number and weight, the pairs of QNLI, and the time that it takes."""
    limit = TIMED if bench.quick else MOST
    names = [TIMED_SET] if bench.quick else list(DEFAULTS)
    sets = {
        name: bench.step(
            f"deep, {name}", "bench.deep:measure", folder=bench.beir(name), cache=bench.indices, limit=limit
        )
        for name in names
    }
    sets[CONTRAST] = bench.step("deep, contrast", "bench.deep:contrast", data=bench.data)
    pairs = bench.step("deep, pairs", "bench.deep:entailment", data=bench.data, limit=limit if bench.quick else None)
    cost = bench.step("deep, time", "bench.deep:cost", folder=bench.beir(TIMED_SET), cache=bench.indices)
    found = {
        "task": {"what": "read the first candidates together with the question"},
        "retrieval": sets,
        "pairs": pairs,
    }
    found |= {"cost": cost, "chosen": chosen(sets)}
    bench.say(table({"deep": found}))
    return found


def open_set(folder: str, cache: str, limit: int) -> tuple[HybridRetriever, Any]:
    return open_retriever(folder, cache), load_dataset(folder, limit=limit)


def measure(folder: str, cache: str, limit: int) -> dict[str, Any]:
    """nDCG@10, and share of the conditional error removed, by the number read and the weight; weight 0 is the default."""
    retriever, dataset = open_set(folder, cache, limit)
    how, models = METHODS["default"], retriever.models
    score, odds, gains, ideal, plain, fused = [], [], [], [], [], []
    for query, relevance in zip(
        retriever.encode(list(dataset.questions.values())), dataset.relevance.values(), strict=True
    ):
        found = retriever.candidates(query, how.candidates, how)
        ranked = reorder(models, query, found, how)
        first = ranked.places[:LONGEST]
        passages = retriever.index.passages(found.rows[first])
        score.append(ranked.score[first])
        odds.append(joint_log_odds(models.deep, query, ranked.evidence.sentences.take(first), passages))
        gains.append([relevance.get(passage.id, 0) for passage in passages])
        best = sorted(relevance.values(), reverse=True)[:LONGEST]
        ideal.append(float(measures.dcg(np.array([best]))[0]))
        hybrid = retriever.index.passages(retriever.retrieve(query, LONGEST, METHODS["hybrid"]))
        plain.append(reciprocal([relevance.get(passage.id, 0) for passage in hybrid]))
        convex = retriever.index.passages(retriever.retrieve(query, LONGEST, METHODS["convex"]))
        fused.append(
            float(measures.dcg(np.array([[relevance.get(passage.id, 0) for passage in convex]]))[0]) / ideal[-1]
        )
    arrays = [np.array(part, np.float64) for part in (score, odds, gains, ideal, plain)]
    found = by_setting(("ndcg@10", "error_removed"), lambda *how: figure(*how, *arrays))
    return {"questions": len(score), "convex": round(float(np.mean(fused)), 4), **found}


def by_setting(names: Sequence[str], job: Callable[[int, float], Sequence[float]]) -> dict[str, Any]:
    """Figures of every number and weight: by name, by number, in the order of the weights."""
    found = {read: [job(read, weight) for weight in WEIGHTS] for read in READ}
    return {
        name: {str(read): [row[at] for row in rows] for read, rows in found.items()} for at, name in enumerate(names)
    }


def contrast(data: str) -> dict[str, Any]:
    """Share of the contrast items whose answer is first of ten strings."""
    reranker, items = Reranker(Models.load(threads=1)), contrast_strings(Path(data))
    ranked = []
    for question, texts, right in items:
        hits = reranker.rerank(question, texts, method="deep", weights={"deep": 0.0})
        odds = joint_log_odds(reranker.models.deep, *read_again(reranker, question, [hit.text for hit in hits]))
        ranked.append(([hit.score for hit in hits], odds, [right[hit.index] for hit in hits]))
    score, odds, gains = (np.array(part, np.float64) for part in zip(*ranked, strict=True))

    def first(read: int, weight: float) -> tuple[float]:
        best = (score[:, :read] + weight * gain_of(odds[:, :read])).argmax(axis=1)
        return (round(float(gains[np.arange(len(gains)), best].mean()), 4),)

    return {"questions": len(items), **by_setting(("first",), first)}


def read_again(reranker: Reranker, question: str, texts: Sequence[str]) -> tuple[Any, Any, list[Passage]]:
    """What the deep head reads of a question and of texts."""
    (query,) = reranker.models.encode([question])
    passages = [Passage(str(place), text) for place, text in enumerate(texts)]
    found, _ = reranker.models.passage_encoder.read(passages, classes=False, tokens=False)
    return query, Ragged(unit(found.sentences.values), found.sentences.offsets), passages


def figure(
    read: int, weight: float, score: Array, odds: Array, gains: Array, ideal: Array, plain: Array
) -> tuple[float, float]:
    """Both figures where so many are read and their log-odds have a weight."""
    keys = score[:, :read] + weight * gain_of(odds[:, :read])
    order = np.argsort(-keys, axis=1, kind="stable")
    moved = gains.copy()
    moved[:, :read] = np.take_along_axis(gains[:, :read], order, axis=1)
    own, answered = np.array([reciprocal(row) for row in moved]), plain > 0
    removed = float((own - plain)[answered].sum() / (1 - plain)[answered].sum())
    return round(float((measures.dcg(moved) / ideal).mean()), 4), round(removed, 4)


def reciprocal(gains: Sequence[float] | Array) -> float:
    """1 / place of the first relevant passage, 0 if there is none."""
    right = np.flatnonzero(np.asarray(gains) > 0)
    return 1 / (1 + float(right[0])) if len(right) else 0.0


def chosen(sets: Mapping[str, Any]) -> dict[str, Any]:
    """Number and weight with the highest mean over all sets, and over all but each, where no set is below plain fusion."""
    counts = np.array([CONTRAST_COUNTS if name == CONTRAST else 1.0 for name in sets])[:, None, None]
    table = np.array([[figures_of(sets[name])[str(read)] for read in READ] for name in sets])
    above = table >= np.array([sets[name].get("convex", 0.0) for name in sets])[:, None, None]

    def best(rows: list[int]) -> dict[str, float]:
        found = np.where(above[rows].all(axis=0), (counts * table)[rows].mean(axis=0), -np.inf)
        place = np.unravel_index(int(found.argmax()), found.shape)
        return {"read": READ[int(place[0])], "weight": WEIGHTS[int(place[1])]}

    every = list(range(len(sets)))
    left = {} if len(sets) < 2 else {name: best([*every[:row], *every[row + 1 :]]) for row, name in enumerate(sets)}
    return {"all": best(every), **left}


def figures_of(found: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
    """The figure that a set is judged by, by number and weight."""
    return found["first" if "first" in found else "ndcg@10"]


def entailment(data: str, limit: int | None) -> dict[str, Any]:
    """Accuracy on the pairs of QNLI's validation part, threshold 1/2, and how well log-odds are calibrated."""
    records = read_jsonl(Path(data) / "qnli" / "validation.jsonl.gz")[:limit]
    truth = np.array([record["label"] == "entailment" for record in records])
    models = Models.load(threads=1)
    odds = models.deep.read([row["question"] for row in records], [[row["sentence"]] for row in records])
    given = 1 / (1 + np.exp(-odds))
    found = measures.of_answers(truth, given >= 0.5, given)
    sure = np.maximum(given, 1 - given)
    error = expected_calibration_error(sure, (given >= 0.5) == truth)
    return {"pairs": len(truth), **found, "calibration_error": round(float(error), 4)}


def cost(folder: str, cache: str) -> dict[str, Any]:
    """Milliseconds of the deep head over five candidates, of a search by the default, and by the deep method."""
    retriever, dataset = open_set(folder, cache, TIMED)
    how, models = METHODS["deep"], retriever.models
    prepared = {}
    for text, query in zip(dataset.questions.values(), retriever.encode(list(dataset.questions.values())), strict=True):
        found = retriever.candidates(query, how.joint_top_k, how)
        prepared[text] = (query, found.evidence.sentences, retriever.index.passages(found.rows))
    jobs = {
        "deep_head": lambda text: joint_log_odds(models.deep, *prepared[text]),
        "default": lambda text: retriever.search(text),
        "deep": lambda text: retriever.search(text, method="deep"),
    }
    seconds = timing.by_turns(list(prepared), jobs)
    return {"candidates": how.joint_top_k, **timing.percentiles(seconds, 1e3, 1)}


def table(found: Mapping[str, Any]) -> str:
    """nDCG@10 of each set without and with the deep head, and with settings that the other sets choose."""
    deep, rows = found["deep"], []
    shipped = {"read": METHODS["deep"].joint_top_k, "weight": WEIGHT}
    for name, found_ in deep["retrieval"].items():
        figures, read = figures_of(found_), str(shipped["read"])
        left = deep["chosen"].get(name)
        cells = [figures[read][0], at(figures, shipped)]
        apart = f"{at(figures, left):.3f}" if left else readme.NONE
        removed = found_.get("error_removed")
        gone = (f"{removed[read][0]:.1%}", f"{at(removed, shipped):.1%}") if removed else (readme.NONE, readme.NONE)
        rows.append((name, *(f"{cell:.3f}" for cell in cells), apart, *gone))
    head = (
        "set",
        "`default`: nDCG@10, contrast: answer first",
        "`deep`",
        "settings of the other sets",
        "`default`, error removed",
        "`deep`",
    )
    pairs, cost = deep["pairs"], deep["cost"]
    told = (
        f"QNLI, {pairs['pairs']} pairs read together: {pairs['accuracy']:.1%} right (area under the curve "
        f"{pairs['auc']:.3f}, calibration error {pairs['calibration_error']:.3f}). The head takes "
        f"{cost['deep_head_p50']:.0f} ms for {cost['candidates']} candidates, a search {cost['default_p50']:.0f} ms by "
        f"`default` and {cost['deep_p50']:.0f} ms by `deep` (median, one thread)."
    )
    return f"{readme.markdown(head, rows)}\n\n{told}"


def at(figures: Mapping[str, Sequence[float]], setting: Mapping[str, float]) -> float:
    """The figure of a number and a weight that were measured."""
    return figures[str(int(setting["read"]))][WEIGHTS.index(setting["weight"])]


TABLES = {"": table}
