"""The main job on the shipped models: quality, and median times on one thread."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import prices, readme, reference, timing
from bench.steps import Bench
from datasets_io import read_jsonl
from question_data import read_questions
from semclass import HybridRetriever, Models, QuestionClassifier
from semclass.core import artifacts
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.ranking.methods import METHODS

ROOT = Path(__file__).parent.parent


def questions(trec: Path) -> dict[str, float]:
    """Accuracy on the TREC test questions."""
    test = read_questions(trec / "test.tsv")
    found = QuestionClassifier.load().predict(test.texts)
    coarse = [item.label == name for item, name in zip(found, test.labels("coarse"), strict=True)]
    fine = [item.fine == name for item, name in zip(found, test.fine, strict=True)]
    return {"trec_coarse": float(np.mean(coarse)), "trec_fine": float(np.mean(fine))}


def retrieval(folder: Path, cache: Path, models: Models) -> tuple[dict[str, Any], HybridRetriever]:
    """Every method on a BEIR folder."""
    dataset = load_dataset(folder)
    retriever = HybridRetriever(evaluate.cached_index(folder, cache, models.passage_encoder), models)
    results = evaluate.evaluate(dataset, retriever)
    return {name: result.as_json() for name, result in results.items()}, retriever


def times(folder: Path, retriever: HybridRetriever) -> dict[str, float]:
    """Milliseconds per question, one thread; that of a class is told by section ``questions``."""
    asked = [row["text"] for row in read_jsonl(folder / "queries.jsonl")[:500]]
    queries = retriever.encode(asked)
    found = [retriever.candidates(query, 10, METHODS["hybrid"]) for query in queries]
    pairs = list(zip(queries, found, strict=True))
    measured = {
        "rerank_10": timing.each(pairs, lambda pair: timing.rerank(retriever, *pair, METHODS["learned"])),
        "search_10": timing.each(asked, retriever.search),
    }
    return timing.percentiles(measured, 1e3, 3)


def starts(runs: int) -> dict[str, float]:
    """Seconds that a new process takes, median of so many runs."""
    first = "import semclass; semclass.QuestionClassifier.load().predict(['Who was Galileo?'])"
    return {
        "import_s": _process("import semclass", runs) - _process("pass", runs),
        "cold_start_to_label_s": _process(first, runs),
    }


def _process(code: str, runs: int) -> float:
    values = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
        values.append(time.perf_counter() - started)
    return round(float(np.median(values[1:])), 3)


SETS = {"squad4": "wikipedia", "pubmedqa": "pubmed"}
"""Sets of ours, and those of the reference that are nearest; the questions are others."""

BEST = "entail-integrated-hard"  # the best method of the reference

OURS, TEN_LINES, CROSS, FLAN = "semclass", "ten lines: logistic", "cross-encoder", "flan-ul2, prompted"
READER = "cross-encoder MiniLM, int8"
"""Systems of the table, by their names in the sections; the last one is the cross-encoder in section entailment."""

COLUMNS = ("measured", "semclass", "ten lines of scikit-learn", "cross-encoder MiniLM", "flan-ul2, 20 B, prompted")


def table(found: Mapping[str, Any]) -> str:
    """The README's table: semclass beside its peers, and what is recorded, reported or assumed of flan-ul2."""
    results, sets = found["main_job"], found.get("retrieval", {}).get("sets", {})
    q, t = results["questions"], results["milliseconds"]

    def of(section: str, name: str, key: str, form: str) -> str:
        """A figure of a system of another section."""
        rows = [row for row in found.get(section, {}).get("systems", []) if row["name"] == name]
        return readme.cell(rows[0] if rows else {}, key, form)

    right = ("accuracy", ".1%")
    rows = [
        (
            "TREC test questions, 6 classes",
            f"{q['trec_coarse']:.1%}",
            of("questions", TEN_LINES, *right),
            "-",
            of("questions", FLAN, *right),
        ),
        (
            "TREC test questions, 50 classes",
            f"{q['trec_fine']:.1%}",
            of("questions", TEN_LINES, "fine_accuracy", ".1%"),
            "-",
            "-",
        ),
        (
            "passage classes, macro F1, 5-fold; semclass: mean of 5 assignments",
            f"{results['passages_macro_f1']:.3f}",
            of("passages", TEN_LINES, "macro_f1", ".3f"),
            "-",
            of("passages", FLAN, "macro_f1", ".3f"),
        ),
        (
            "does a sentence answer a question: QNLI; semclass encodes each text by itself",
            *(of("entailment", name, *right) for name in (OURS, TEN_LINES, READER, FLAN)),
        ),
    ]
    for name, theirs in SETS.items():
        rows += _ranked(theirs, results["retrieval"][name], sets.get(name, {}).get("systems", []))
    second = prices.ASSUMED_SECONDS * 1e3
    reranked = [row for row in sets.get("squad4", {}).get("systems", []) if row["name"] == CROSS]
    rows += [
        (
            "milliseconds, question to class",
            *(of("questions", name, "p50_ms", ".2f") for name in (OURS, TEN_LINES)),
            "-",
            f"{second:,.0f} (assumed)",
        ),
        (
            "milliseconds, re-ranking 10 indexed passages",
            f"{t['rerank_10_p50']:.2f}",
            "-",
            readme.cell(reranked[0] if reranked else {}, "rerank_p50_ms", ".0f"),
            f"{10 * second:,.0f} (assumed)",
        ),
    ]
    for what, key in (
        ("MB of memory, question to class; cross-encoder: pair to answer", "peak_mb"),
        ("MB of models, the same", "disk_mb"),
    ):
        ours = (of("questions", name, key, ".0f") for name in (OURS, TEN_LINES))
        rows.append((what, *ours, of("entailment", READER, key, ".0f"), "-"))
    return readme.markdown(COLUMNS, rows)


def _ranked(theirs: str, ours: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of re-ranking on a set: MRR before and after, and the share of the error that is removed."""
    known, after, removed = reference.methods(theirs), "-", "-"
    samples = {row["name"]: row["sample"] for row in peers if "sample" in row}
    if CROSS in samples:
        after = " → ".join(f"{samples[system]['cond_mrr']:.3f}" for system in ("hybrid", CROSS))
        removed = f"{samples[CROSS]['error_removed']:.0%}"
    return [
        (
            f"re-ranking, {reference.SETS[theirs]}: MRR where the top 10 hold the answer",
            f"{ours['hybrid']['cond_mrr']:.3f} → {ours['learned']['cond_mrr']:.3f}",
            "-",
            after,
            f"{known[reference.BASELINE]['mrr']:.3f} → {known[BEST]['mrr']:.3f}",
        ),
        (
            "the same, share of the error removed",
            f"{ours['learned']['error_removed']:.0%}",
            "-",
            removed,
            f"{known[BEST]['error_removed']:.0%}",
        ),
    ]


TABLES = {"": table}


def run(bench: Bench) -> dict[str, Any]:
    """Everything, in one process."""
    sets = {name: str(bench.beir(name)) for name in ("squad4", "pubmedqa")}
    where = {"trec": bench.data / "trec", "sets": sets, "indices": bench.indices}
    return bench.step("main_job", "bench.main_job:measure", **where, runs=1 if bench.quick else 7)


def measure(trec: str, sets: dict[str, str], indices: str, runs: int) -> dict[str, Any]:
    """Quality and times."""
    models = Models.load()
    found = {name: retrieval(Path(folder), Path(indices), models) for name, folder in sets.items()}
    passages = artifacts.read_json(artifacts.default_models() / "passages" / artifacts.MANIFEST)
    return {
        "questions": questions(Path(trec)),
        "passages_macro_f1": passages["metrics"]["macro"]["f1"],
        "retrieval": {name: methods for name, (methods, _) in found.items()},
        "milliseconds": times(Path(sets["squad4"]), found["squad4"][1]),
        "seconds": starts(runs),
    }
