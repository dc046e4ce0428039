"""The main job in brief: figures of all sections, and times of re-ranking alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import prices, readme, reference, timing
from bench.steps import Bench
from datasets_io import read_jsonl
from semclass import HybridRetriever, Models
from semclass.evaluation import evaluate
from semclass.ranking.methods import METHODS

ROOT = Path(__file__).parent.parent


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


SETS = {"squad4": "wikipedia", "pubmedqa": "pubmed"}
"""Sets of ours, and those of the reference that are nearest; the questions are others."""

BEST = "entail-integrated-hard"  # the best method of the reference, on both of its sets

OURS, TEN_LINES, CROSS, FLAN = "semclass", "ten lines: logistic", "cross-encoder", "flan-ul2, prompted"
READER = "cross-encoder MiniLM, int8"
"""Systems of the table, by their names in the sections; the last one is the cross-encoder in section entailment."""

COLUMNS = ("measured", "semclass", "ten lines of scikit-learn", "cross-encoder MiniLM", "flan-ul2, 20 B, prompted")


def table(found: Mapping[str, Any]) -> str:
    """The README's table: semclass beside its peers, and what is recorded, reported or assumed of flan-ul2."""
    sets = found.get("retrieval", {}).get("sets", {})

    def of(section: str, name: str, key: str, form: str) -> str:
        """A figure of a system of another section."""
        rows = [row for row in found.get(section, {}).get("systems", []) if row["name"] == name]
        return readme.cell(rows[0] if rows else {}, key, form)

    right, fine = ("accuracy", ".1%"), ("fine_accuracy", ".1%")
    passages = found.get("labels", {}).get("passages", {}).get("macro", {})
    rows = [
        (
            "TREC test questions, 6 classes",
            *(of("questions", name, *right) for name in (OURS, TEN_LINES)),
            "-",
            of("questions", FLAN, *right),
        ),
        ("TREC test questions, 50 classes", *(of("questions", name, *fine) for name in (OURS, TEN_LINES)), "-", "-"),
        (
            "passage classes, macro F1, 5-fold; semclass: mean of 5 assignments",
            readme.cell(passages, "f1", ".3f"),
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
        rows += _ranked(theirs, sets.get(name, {}).get("systems", []))
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
            f"{found['main_job']['milliseconds']['rerank_10_p50']:.2f}",
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


def _ranked(theirs: str, systems: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of re-ranking on a set: MRR before and after, and the share of the error that is removed."""
    known = reference.methods(theirs)
    cells: list[tuple[str, str]] = []
    for name, part in (("learned", ""), (CROSS, "sample")):
        found = {row["name"]: row.get(part, {}) if part else row for row in systems if "skipped" not in row}
        if name in found:
            before, after = found["hybrid"], found[name]
            cells.append((f"{before['cond_mrr']:.3f} → {after['cond_mrr']:.3f}", f"{after['error_removed']:.0%}"))
        else:
            cells.append(("-", "-"))
    before, best = known[reference.BASELINE], known[BEST]
    worst = min(known.values(), key=lambda row: row["mrr"])
    cells.append(
        (
            f"{before['mrr']:.3f} → {best['mrr']:.3f}; worst method {worst['mrr']:.3f}",
            f"{best['error_removed']:.0%}; worst method {worst['error_removed']:.0%}",
        )
    )
    (ours, ours_removed), (peer, peer_removed), (thesis, thesis_removed) = cells
    return [
        (f"re-ranking, {reference.SETS[theirs]}: MRR where the top 10 hold the answer", ours, "-", peer, thesis),
        ("the same, share of the error removed", ours_removed, "-", peer_removed, thesis_removed),
    ]


TABLES = {"": table}


def run(bench: Bench) -> dict[str, Any]:
    """What no other section measures: re-ranking and a search alone."""
    return bench.step("main_job", "bench.main_job:measure", folder=bench.beir("squad4"), indices=bench.indices)


def measure(folder: str, indices: str) -> dict[str, Any]:
    models = Models.load()
    retriever = HybridRetriever(evaluate.cached_index(folder, indices, models.passage_encoder), models)
    return {"milliseconds": times(Path(folder), retriever)}
