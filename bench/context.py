"""Chunks with what they belong to: how well the first passage of their document fits counts with their own scores.

No text is rewritten and no vector made again: the weight `document` of a search adds the scores of that passage. Measured
is nDCG@10 of the default method by the weight, and the difference from none with a paired 95 % bootstrap interval. Of the
passages of other sets it is not known which document they stand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.measures import compared, shown
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import HybridRetriever, Models, PassageIndex
from semclass.core.types import DoubleArray, Passage
from semclass.documents.readers import read_corpus
from semclass.evaluation.dataset import Dataset, load_dataset
from semclass.evaluation.measure import per_question

MEASURE = "nDCG@10"
WEIGHTS = (0.0, 0.2, 0.4, 0.6)
QUESTIONS, DOCUMENTS = 300, 150  # questions of a set, and documents of medquad, drawn by chance

Asked = tuple[str, list[str], dict[str, Any] | None]  # question, ids of what answers it, and where it is asked


def codebase(data: Path) -> tuple[list[Passage], list[Asked]]:
    """Chunks of source files."""
    dataset = load_dataset(data / "beir" / "codebase")
    chunks = read_corpus(data / "beir" / "codebase" / "corpus.jsonl")
    passages = [Passage(item.id, item.text, {"document": item.id.partition("_chunk_")[0]}) for item in chunks]
    return passages, [(text, [*dataset.relevance[name]], None) for name, text in dataset.questions.items()]


def policies(data: Path) -> tuple[list[Passage], list[Asked]]:
    """Passages of privacy policies, asked within one."""
    passages, asked = [], list[Asked]()
    for row in read_jsonl(data / "policyqa" / "dev.jsonl.gz"):
        name = row["policy"]
        passages += [Passage(f"{name}-{at}", text, {"document": name}) for at, text in enumerate(row["passages"])]
        for item in row["questions"]:
            asked.append((item["question"], [f"{name}-{at}" for at in item["relevant"]], {"document": name}))
    return passages, asked


def diseases(data: Path) -> tuple[list[Passage], list[Asked]]:
    """Sections of documents on a disease each."""
    rows = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    passages, asked = [], list[Asked]()
    for number in sorted(np.random.default_rng(0).permutation(len(rows))[:DOCUMENTS].tolist()):
        for at, part in enumerate(rows[number]["sections"]):
            passages.append(Passage(f"{number}-{at}", part["answer"], {"document": str(number)}))
            asked.append((part["question"], [passages[-1].id], None))
    return passages, asked


SETS = {"codebase": codebase, "policyqa": policies, "medquad": diseases}


def run(bench: Bench) -> dict[str, Any]:
    limit = 20 if bench.quick else QUESTIONS
    names = ["policyqa"] if bench.quick else list(SETS)
    found = {
        name: bench.step(f"context/{name}", "bench.context:measure_set", which=name, data=bench.data, limit=limit)
        for name in names
    }
    return {
        "task": {"what": "nDCG@10 with the scores of the document's first passage", "weights": WEIGHTS},
        "by_set": found,
    }


def measure_set(which: str, data: str, limit: int) -> dict[str, Any]:
    """The default method by each weight."""
    passages, asked = SETS[which](Path(data))
    rows = sorted(np.random.default_rng(0).permutation(len(asked))[:limit].tolist())
    models = Models.load(threads=1)
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    values = {weight: _ndcg(retriever, [asked[row] for row in rows], weight) for weight in WEIGHTS}
    before = values[WEIGHTS[0]]
    gains = {str(weight): compared(before, after) for weight, after in values.items() if weight}
    return {"passages": len(passages), "questions": len(rows), "before": round(float(before.mean()), 4), "gains": gains}


def _ndcg(retriever: HybridRetriever, asked: list[Asked], weight: float) -> DoubleArray:
    named = {str(place): item for place, item in enumerate(asked)}
    ranking = [
        [hit.id for hit in retriever.search(text, where=where, weights={"document": weight})]
        for text, _, where in named.values()
    ]
    relevance = {name: dict.fromkeys(ids, 1) for name, (_, ids, _) in named.items()}
    dataset = Dataset(Path(), {name: text for name, (text, _, _) in named.items()}, relevance)
    return per_question(dataset, ranking, [MEASURE])[MEASURE]


def table(found: Mapping[str, Any]) -> str:
    rows = [
        (
            name,
            f"{row['questions']:,}",
            f"{row['before']:.3f}",
            *(shown(row["gains"][str(weight)]) for weight in WEIGHTS[1:]),
        )
        for name, row in found["context"]["by_set"].items()
    ]
    return readme.markdown(("set", "questions", "nDCG@10", *(f"`document={weight}`" for weight in WEIGHTS[1:])), rows)


TABLES = {"": table}
