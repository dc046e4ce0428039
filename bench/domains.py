"""Re-ranking on other kinds of text, with 10 and with 50 candidates.

The set ``biomedical`` is made here, of questions written for this project (``questions/biomedical.tsv``). Its corpus
are the sections of 60 to 260 words, from which the questions were drawn: among shorter ones length alone would reveal
the answer.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from bench import readme
from bench.steps import Bench, first_questions
from semclass import HybridRetriever, Models
from semclass.core import artifacts
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset

HERE = Path(__file__).parent
WORDS = (60, 260)  # shortest and longest section of ``biomedical``

NAMES = {
    "squad4": "Wikipedia: SQuAD dev, 4 sentences a passage",
    "pubmedqa": "PubMedQA: titles of papers, sections of abstracts",
    "biomedical": "biomedical: written questions, sections of abstracts",
}

MORE = 50  # candidates of the second run


def biomedical(data: Path, folder: Path) -> Path:
    """Write the BEIR folder of written questions over long sections of abstracts."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    sections = (data / "beir" / "pubmedqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    least, most = WORDS
    long = [line for line in sections if least <= len(json.loads(line)["text"].split()) <= most]
    with (HERE / "questions" / "biomedical.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    queries = [json.dumps({"_id": row["query-id"], "text": row["question"]}, ensure_ascii=False) + "\n" for row in rows]
    qrels = ["query-id\tcorpus-id\tscore\n", *(f"{row['query-id']}\t{row['corpus-id']}\t1\n" for row in rows)]
    for name, lines in (("corpus.jsonl", long), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)):
        artifacts.write_atomic(folder / name, "".join(lines).encode())
    return folder


def measure(folder: str, indices: str) -> dict[str, Any]:
    """Every method, with 10 and with 50 candidates."""
    models, cache = Models.load(), Path(indices)
    dataset = load_dataset(folder)
    retriever = HybridRetriever(evaluate.cached_index(folder, cache, models.passage_encoder), models)
    results = evaluate.evaluate(dataset, retriever, candidates=MORE)
    passages = len(retriever.index)
    figures = {name: result.as_json() for name, result in results.items()}
    return {"questions": len(dataset.questions), "passages": passages, "methods": figures}


def table(results: dict[str, Any]) -> str:
    """The README's table."""
    rows = []
    for name, record in results["sets"].items():
        methods = record["methods"]
        hybrid, learned, more = methods["hybrid"], methods["learned"], methods[f"learned@{MORE}"]
        low, high = learned["error_removed_ci"]
        rows.append(
            (
                NAMES[name],
                f"{hybrid['cond_mrr']:.3f} → {learned['cond_mrr']:.3f}",
                f"{learned['error_removed']:.0%} ({low:.0%} to {high:.0%})",
                f"{hybrid['mrr@10']:.3f} → {learned['mrr@10']:.3f}, {more['mrr@10']:.3f}",
            )
        )
    head = ("text", "MRR where the first 10 hold the answer", "error removed", f"MRR@10 of all: 10, {MORE} candidates")
    return readme.markdown(head, rows)


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set."""
    folders = {name: bench.beir(name) for name in NAMES if name != "biomedical"}
    folders["biomedical"] = written_questions(bench)
    return {
        "sets": {
            name: bench.step(f"domains/{name}", "bench.domains:measure", folder=folder, indices=bench.indices)
            for name, folder in folders.items()
        }
    }


def written_questions(bench: Bench) -> Path:
    """The set ``biomedical``; in a quick run, a small part of it."""
    folder = biomedical(bench.data, bench.work / "biomedical")
    return first_questions(folder, bench.work / "quick-data" / "biomedical") if bench.quick else folder
