"""A second encoder beside the shipped one: what its scores add to a search, with weights chosen on other sets.

The second one is made of what is there: the encoder's word vectors, its two lower layers, or runs of letters.
Its scores are brought to 0 ... 1 over the first of its list, as in the convex fusion, and added with a weight: to what is
retrieved by the convex fusion, and to what the default method makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from bench import readme
from bench.measures import compared, shown
from bench.retrieval_systems import DEPTH, drawn, opened
from bench.size import ndcg, scores
from bench.smaller import TWO, WORDS, Array, make
from bench.steps import Bench
from semclass import HybridRetriever
from semclass.documents.readers import read_corpus
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.index.passage_encoder import searchable
from semclass.ranking.methods import DEFAULT
from semclass.scoring.fusion import DEPTH as POOL
from semclass.scoring.fusion import RRF_K, fused, normalise
from semclass.scoring.topk import top_k

SETS = ("squad4", "docs", "codebase", "cacm", "cranfield", "vaswani")
LETTERS = "runs of letters"
SECOND = {WORDS: "word vectors", TWO: "2 lower layers", LETTERS: "3 to 5 letters, tf-idf"}
QUESTIONS, QUICK = 300, 20  # of a set
WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)  # of the second encoder; the rest is that of what was there
BESIDE = ("convex", DEFAULT)
RECIPROCAL = "reciprocal ranks"


def run(bench: Bench) -> dict[str, Any]:
    names, questions = (SETS[:1], QUICK) if bench.quick else (SETS, QUESTIONS)
    kept = {
        name: bench.step(
            f"several/{name}", "bench.several:measure_set", folder=bench.beir(name), cache=bench.indices,
            data=bench.data, questions=questions,
        )
        for name in names
    }  # fmt: skip
    found = {
        second: {beside: left_out({name: row[second][beside] for name, row in kept.items()}) for beside in BESIDE}
        for second in SECOND
    }
    return {"task": {"what": "nDCG@10 with a second encoder beside the first", "weights": WEIGHTS}, "second": found}


def measure_set(folder: str, cache: str, data: str, questions: int) -> dict[str, Any]:
    """nDCG@10 of each question, by second encoder and what it stands beside: for each weight, and by reciprocal ranks."""
    dataset, retriever = drawn(load_dataset(folder), questions), opened(folder, cache, 0.0, None).retriever
    ids = [passage.id for passage in read_corpus(Path(folder) / "corpus.jsonl")]
    first = first_scores(retriever, dataset, ids)
    found: dict[str, Any] = {}
    for second in SECOND:
        other = letters(dataset) if second == LETTERS else scores(make(second, data), dataset)
        found[second] = {}
        for beside, rows in first.items():
            ways: dict[str, list[float]] = {}
            for way in (*map(str, WEIGHTS), RECIPROCAL):
                both = [_both(one, row, way) for one, row in zip(rows, other, strict=True)]
                ways[way] = ndcg(dataset, [[ids[place] for place in places] for places in both])
            found[second][beside] = ways
    return found


def first_scores(retriever: HybridRetriever, dataset: Dataset, ids: Sequence[str]) -> dict[str, list[Array]]:
    """What is there: scores of all passages for each question, NaN for those that are not among the first."""
    convex, texts = [], list(dataset.questions.values())
    for query in retriever.encode(texts):
        dense, words = retriever.scores(query)
        score = fused(dense, words, "convex", alpha=retriever.weights["alpha"], depth=POOL).score
        convex.append(np.where(np.isinf(score), np.nan, score))
    places, default = {name: place for place, name in enumerate(ids)}, []
    for hits in retriever.search_many(texts, 50):
        default.append(np.full(len(ids), np.nan))
        default[-1][[places[hit.id] for hit in hits]] = [hit.score for hit in hits]
    return dict(zip(BESIDE, (convex, default), strict=True))


def letters(dataset: Dataset) -> Array:
    """Cosines of runs of letters, (questions, passages)."""
    passages = [searchable(passage) for passage in read_corpus(dataset.folder / "corpus.jsonl")]
    made = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    rows = made.fit_transform(passages)
    return np.asarray((made.transform(list(dataset.questions.values())) @ rows.T).todense())


def _both(first: Array, second: Array, way: str) -> list[int]:
    """Places of the best passages by both."""
    known = ~np.isnan(first)
    few = top_k(second, POOL)
    there = np.union1d(np.flatnonzero(known), few)
    if way == RECIPROCAL:
        order = np.argsort(-np.where(known, first, -np.inf), kind="stable")[: known.sum()]
        score = np.zeros(len(first))
        for places in (order, few):
            score[places] += 1 / (RRF_K + np.arange(1, len(places) + 1))
        return [int(place) for place in top_k(score, DEPTH)]
    weight = float(way)
    score = (1 - weight) * normalise(first[there]) + weight * normalise(second[there])
    return [int(there[place]) for place in top_k(score, DEPTH)]


def left_out(sets: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """By set: what the weight brings that is best on the other sets, the set's own best weight, and reciprocal ranks."""
    values = {name: {way: np.array(row) for way, row in ways.items()} for name, ways in sets.items()}
    found = {}
    for name, ways in values.items():
        others = [other for other in values if other != name] or [name]
        gains = {
            way: np.mean([(values[o][way] - values[o]["0.0"]).mean() for o in others]) for way in map(str, WEIGHTS)
        }
        chosen, before = max(gains, key=lambda way: gains[way]), ways["0.0"]
        own = max(map(str, WEIGHTS), key=lambda way: ways[way].mean())
        found[name] = {
            "questions": len(before),
            "before": round(float(before.mean()), 4),
            "weight": float(chosen),
            **compared(before, ways[chosen]),
            "own": {"weight": float(own), **compared(before, ways[own])},
            "reciprocal": compared(before, ways[RECIPROCAL]),
        }
    return found


def table(found: Mapping[str, Any]) -> str:
    """What each second encoder brings beside the convex fusion and beside the default."""
    rows = []
    for beside in BESIDE:
        for name, before in next(iter(found["several"]["second"].values()))[beside].items():
            each = [found["several"]["second"][second][beside][name] for second in SECOND]
            cells = (shown(row) for row in each)
            rows.append((f"{name}, {before['questions']} questions", f"`{beside}`", f"{before['before']:.3f}", *cells))
    return readme.markdown(
        ("set", "beside", "nDCG@10, one encoder", *(f"and {what}" for what in SECOND.values())), rows
    )


def table_of_ways(found: Mapping[str, Any]) -> str:
    """The same by reciprocal rank fusion, and with the weight that is best on the set itself, which flatters."""
    rows = []
    for beside in BESIDE:
        for second, what in SECOND.items():
            for name, row in found["several"]["second"][second][beside].items():
                own = row["own"]
                rows.append((f"`{beside}`", what, name, f"{own['weight']:g}: {shown(own)}", shown(row["reciprocal"])))
    return readme.markdown(("beside", "second", "set", "its own best weight", "reciprocal ranks"), rows)


TABLES = {"": table, "ways": table_of_ways}
