"""Scores and rankings of questions behind a preamble.

    python -m bench.long_questions --data DATA

300 questions of SQuAD, each alone and behind 30 to 300 words of passages of another domain. The candidates of a question
are the same at each length: those that the hybrid finds first for the question alone, and passages drawn at random.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from datasets_io import read_jsonl
from semclass import HybridRetriever, Models
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import per_question
from semclass.index.records import Candidates, Query
from semclass.ranking.methods import METHODS
from semclass.train.calibration import expected_calibration_error

SET, OTHERS = "squad4", ("pubmedqa", "policyqa")
LENGTHS = (0, 30, 100, 200, 300)  # words before the question, about
QUESTIONS, FIRST, DRAWN = 300, 10, 10
HEADS = ("entailment", "learned")


def preambles(data: Path, other: str, words: int, rng: np.random.Generator) -> list[str]:
    """A text for each question: sentences of passages drawn from another domain, until there are so many words."""
    if other == "pubmedqa":
        passages = [row["text"] for row in read_jsonl(data / "beir" / other / "corpus.jsonl")]
    else:
        passages = [text for row in read_jsonl(data / other / "dev.jsonl.gz") for text in row["passages"]]
    found = []
    for _ in range(QUESTIONS):
        said: list[str] = []
        while len(said) < words:
            said += passages[rng.integers(len(passages))].split()
        # to the end of a sentence where one is near
        ends = [
            place + 1 for place, word in enumerate(said) if word[-1] in ".?!" and abs(place + 1 - words) <= words / 3
        ]
        found.append(" ".join(said[: min(ends, key=lambda end: abs(end - words), default=words)]))
    return found


def candidates(retriever: HybridRetriever, plain: Query, long: Query, rng: np.random.Generator) -> Candidates:
    """The hybrid's first passages for the plain question and others, with their scores for the long one."""
    first = retriever.retrieve(plain, FIRST, METHODS["hybrid"])
    others = np.setdiff1d(np.arange(len(retriever.index)), first)
    rows = np.concatenate([first, rng.choice(others, DRAWN, replace=False)])
    found = retriever.candidates(long, len(retriever.index), METHODS["hybrid"], evidence=False)
    places = np.argsort(found.rows)[rows]
    columns = {name: getattr(found, name)[places] for name in ("rows", "dense", "bm25", "score", "probabilities")}
    evidence = retriever.embedded.evidence(rows, retriever.models.passage_encoder)
    return replace(found, **columns, parts={}, **evidence._asdict())


def measure(retriever: HybridRetriever, dataset: Dataset, long: list[str]) -> dict[str, Any]:
    """Scores of both heads, and nDCG@10 of the default method, of long forms of all questions of a set."""
    rng = np.random.default_rng(0)
    ids = np.array([passage.id for passage in retriever.index.passages(np.arange(len(retriever.index)))], object)
    scores: dict[str, list[float]] = {name: [] for name in HEADS}
    truth: list[bool] = []
    texts = dataset.questions.values()
    default = METHODS["default"]
    ranked = []
    for key, plain, query in zip(dataset.questions, retriever.encode([*texts]), retriever.encode(long), strict=True):
        found = candidates(retriever, plain, query, rng)
        signals = retriever.models.signals(query, found)
        for name in HEADS:
            scores[name] += signals[name].tolist()
        best = retriever.models.order(query, retriever.candidates(query, default.candidates, default), default)
        ranked.append(ids[best.rows[best.places[:10]]].tolist())
        truth += [ids[row] in dataset.relevance[key] for row in found.rows]
    relevant = np.array(truth)
    figures: dict[str, Any] = {"ndcg@10": float(np.mean(per_question(dataset, ranked, ["nDCG@10"])["nDCG@10"]))}
    for name in HEADS:
        given = np.array(scores[name])
        figures[name] = {
            "irrelevant_p95": float(np.percentile(given[~relevant], 95)),
            "relevant_median": float(np.median(given[relevant])),
            "ece": expected_calibration_error(given, relevant.astype(float)),
        }
    return figures


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--indices", default=Path.home() / ".cache/semclass/bench/indices", type=click.Path(path_type=Path))
def main(data: Path, indices: Path) -> None:
    """Print a line of JSON for each domain and length."""
    folder, models = data / "beir" / SET, Models.load()
    retriever = HybridRetriever(evaluate.cached_index(folder, indices, models.passage_encoder), models)
    dataset = load_dataset(folder)
    drawn = np.sort(np.random.default_rng(0).permutation(len(dataset.questions))[:QUESTIONS])
    names = [[*dataset.questions][place] for place in drawn]
    part = replace(
        dataset,
        questions={name: dataset.questions[name] for name in names},
        relevance={name: dataset.relevance[name] for name in names},
    )
    for other in OTHERS:
        for words in LENGTHS if other == OTHERS[0] else LENGTHS[1:]:
            before = preambles(data, other, words, np.random.default_rng(words))
            long = [f"{some} {text}".strip() for some, text in zip(before, part.questions.values(), strict=True)]
            click.echo(json.dumps({"before": other, "words": words, **measure(retriever, part, long)}))


if __name__ == "__main__":
    main(prog_name="python -m bench.long_questions")
