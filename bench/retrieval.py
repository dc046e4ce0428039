"""Retrieval and re-ranking beside their peers: quality against time for a question, and how the default was chosen.

Quality is measured on all questions of a set; times, and the slow cross-encoder, on a sample of them. The set
``biomedical`` is made of questions written for this project (``questions/biomedical.tsv``) over those sections of
PubMedQA from which they were drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import carry, figures, prices, readme
from bench.retrieval_systems import SYSTEMS
from bench.steps import Bench, write_beir
from bench.systems import RESULTS, frozen
from datasets_io import read_tsv
from semclass.core import artifacts
from semclass.ranking.methods import DEFAULT

MOST = 3000  # questions of a set on which quality is measured; drawn by chance, where there are more
SAMPLE = 500  # questions of a set on which times are taken, and the cross-encoder was measured
QUICK = 40  # questions of a quick run, of one set
WORDS = (60, 260)  # shortest and longest section of ``biomedical``: among shorter ones length alone reveals the answer

NAMES = {
    "squad4": "Wikipedia: SQuAD dev, 4 sentences a passage",
    "pubmedqa": "PubMedQA: titles of papers, sections of abstracts",
    "biomedical": "biomedical: written questions, sections of abstracts",
    "vaswani": "abstracts of physics",
    "cacm": "abstracts of computing",
    "cranfield": "abstracts of aerodynamics",
    "codebase": "source code",
    "docs": "documentation",
}
"""Sets in the order of the tables, and what they are; the default was chosen on all but ``biomedical``."""


def run(bench: Bench) -> dict[str, Any]:
    """Every set: quality on all questions, times on some of them, and on one set the memory of each system."""
    most, some = (QUICK, QUICK) if bench.quick else (MOST, SAMPLE)
    asked = folders(bench)

    def step(name: str, what: str, function: str, **options: Any) -> dict[str, Any]:
        used = {"folder": asked[name], "cache": bench.indices, **options}
        return bench.step(f"retrieval/{name}/{what}", f"bench.retrieval_systems:{function}", **used)

    jobs = {name: partial(step, name, "quality", "quality", questions=most) for name in asked}
    full = bench.side_by_side(jobs)
    memory = {system: step(next(iter(asked)), system, "alone", system=system)["peak_mb"] for system in SYSTEMS}
    sets = {
        name: {
            "what": NAMES.get(name, name),
            "passages": found["passages"],
            **of_set(found, step(name, "times", "timed", questions=some), memory),
        }
        for name, found in full.items()
    }
    for name, found in sets.items():
        found["systems"] += frozen(bench, "retrieval", name)
    trained = artifacts.read_json(artifacts.default_models() / "pairs" / "entailment" / artifacts.MANIFEST)["training"]
    return {
        "task": {
            "what": "from a question's text to the ids of ten passages, best first; one thread, one question at a time",
            "protocol": "quality on all questions of a set; times on a sample of them, by turns, as the cross-encoder was "
            "measured; memory of a process that answers by one system, on the first set; "
            "cond: where the hybrid's first ten hold an answer. semclass was developed with squad4 and pubmedqa in view; "
            "peers met them once",
            "training": f"entailment: {trained['questions']:,} questions ({trained['data']})",
        },
        "sets": sets,
        "second_per_call": second_per_call(sets),
    }


def folders(bench: Bench) -> dict[str, Path]:
    """The data's BEIR folders, and the written questions; in a quick run a part of the first."""
    found = {path.name: path for path in sorted((bench.data / "beir").iterdir()) if (path / "qrels/test.tsv").is_file()}
    found = {name: path for name, path in found.items() if name not in carry.SETS}  # section carry measures these
    found = {name: found[name] for name in _known_first(found)}
    if bench.quick:
        first = next(iter(found))
        return {first: bench.beir(first)}
    return {**found, "biomedical": biomedical(bench)}


def biomedical(bench: Bench) -> Path:
    """Write the BEIR folder of written questions over long sections of abstracts."""
    sections = (bench.data / "beir" / "pubmedqa" / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    least, most = WORDS
    long = [line for line in sections if least <= len(json.loads(line)["text"].split()) <= most]
    rows = read_tsv(Path(__file__).parent / "questions" / "biomedical.tsv")
    queries = [json.dumps({"_id": row["query-id"], "text": row["question"]}, ensure_ascii=False) + "\n" for row in rows]
    qrels = ["query-id\tcorpus-id\tscore\n", *(f"{row['query-id']}\t{row['corpus-id']}\t1\n" for row in rows)]
    return write_beir(bench.work / "biomedical", long, queries, qrels)


def _known_first(sets: Mapping[str, Any]) -> list[str]:
    """Names of sets, those that the project knows first."""
    return [name for name in dict.fromkeys((*NAMES, *sets)) if name in sets]


def of_set(full: Mapping[str, Any], part: Mapping[str, Any], memory: Mapping[str, float]) -> dict[str, Any]:
    """The results of a set: quality on all questions, and on the sample on which times were taken."""
    systems = [
        {
            "name": name, "kind": kind, "what": what, "threads": 1, "questions": full["questions"],
            **full["systems"][name], "sample": part["systems"][name], **part["milliseconds"][name],
            "peak_mb": memory[name],
            "usd_per_million": round(prices.machine_call(part["milliseconds"][name]["p50_ms"] / 1e3), 4),
        }
        for name, (kind, what) in SYSTEMS.items()
    ]  # fmt: skip
    counts = {"questions": full["questions"], "answered": full["answered"], "sample_questions": part["questions"]}
    return {**counts, "systems": systems}


ALONE = "squad4"  # set whose re-ranking is priced: like the reference's questions it is about Wikipedia


def second_per_call(sets: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Time and money of re-ranking a question's candidates; what others are paid for it is kept as it was looked up."""
    systems = {row["name"]: row["p50_ms"] for row in sets.get(ALONE, next(iter(sets.values())))["systems"]}
    seconds = (systems[DEFAULT] - systems["convex"]) / 1e3  # behind the plain fusion that it re-ranks; they took turns
    row = {"what": DEFAULT, "seconds": seconds, "usd_per_million": round(prices.machine_call(seconds), 4)}
    path = RESULTS / "retrieval.json"
    kept = artifacts.read_json(path)["second_per_call"] if path.is_file() else []
    return [{**row, "on": "one vCPU of the CPU machine"}, *(other for other in kept if other["what"] != DEFAULT)]


def table(found: Mapping[str, Any]) -> str:
    """Every system on the same questions, and what re-ranking a million questions costs."""
    sets = found["retrieval"]["sets"]
    names = _known_first(sets)
    rows = []
    for place, row in enumerate(sets[names[0]]["systems"]):
        quality = [f"{sets[name]['systems'][place]['sample']['mrr@10']:.3f}" for name in names]
        memory = readme.cell(row, "peak_mb", ",.0f")
        rows.append((readme.named(row), *quality, f"{row['p50_ms']:.3g}", memory, readme.money(row["usd_per_million"])))
    asked = (f"{name}, {sets[name]['sample_questions']} questions" for name in names)
    head = ("MRR@10", *asked, f"ms a question, {names[0]}", "memory, MB", "USD a million")
    return f"{readme.markdown(head, rows)}\n\n{_costs(found['retrieval']['second_per_call'])}"


def _costs(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (
            row["what"],
            readme.NONE if row["seconds"] is None else f"{readme.number(row['seconds'] * 1e3)} ms",
            readme.money(row["usd_per_million"]),
            row["on"],
        )
        for row in rows
    ]
    return readme.markdown(("re-ranking", "a question", "USD a million", "on"), cells)


def defaults(found: Mapping[str, Any]) -> str:
    """nDCG@10, and how often the first hit is right, of the plain rankings and of the default."""
    sets, shown, rows = found["retrieval"]["sets"], ("BM25", "dense", "hybrid", "convex", "RRF", "default"), []
    for name in _known_first(sets):
        systems = {row["name"]: row for row in sets[name]["systems"]}
        cells = (f"{systems[key]['ndcg@10']:.3f}; {readme.cell(systems[key], 'right_first', '.1%')}" for key in shown)
        rows.append((f"{name} ({NAMES.get(name, name)})", *cells))
    return readme.markdown(("nDCG@10; right first", "BM25", "dense", "dense + 0.1 BM25", *shown[3:]), rows)


def compared(found: Mapping[str, Any]) -> str:
    """On how many sets the default is above the systems that people know, and what it loses on the others."""
    sets = [
        {row["name"]: row["sample"]["mrr@10"] for row in one["systems"]} for one in found["retrieval"]["sets"].values()
    ]
    rows = []
    for name, shown in NAMED.items():
        leads = [one[DEFAULT] - one[name] for one in sets if name in one]
        if name != DEFAULT and leads:
            least = f"{min(leads):+.3f}" if min(leads) < 0 else readme.NONE
            rows.append((shown, f"{sum(lead > 0 for lead in leads)} of {len(leads)}", f"{np.mean(leads):+.3f}", least))
    return readme.markdown(("MRR@10 of semclass beside", "higher on", "by, on average", "worst, if lower"), rows)


NAMED = {
    "default": "semclass",
    "convex": "semclass without re-ranking",
    "cross-encoder, integrated": "MiniLM cross-encoder",
    "BM25, bm25s": "BM25",
    "dense": "vectors alone",
}
"""Systems of the README's first screen, with the names that people know."""


def _named(found: Mapping[str, Any]) -> tuple[int, list[tuple[Mapping[str, Any], dict[str, float]]]]:
    """On how many sets all systems that people know were measured; each with means over these sets."""
    sets = [{row["name"]: row for row in each["systems"]} for each in found["retrieval"]["sets"].values()]
    there = [name for name in NAMED if any(name in rows for rows in sets)]
    complete = [rows for rows in sets if all(name in rows for name in there)]
    shown = []
    for name in there:
        rows = [{**one[name]["sample"], "p50_ms": one[name]["p50_ms"]} for one in complete]
        measured = (key for key in ("ndcg@10", "right_first", "p50_ms") if key in rows[0])
        shown.append((complete[0][name], {key: float(np.mean([row[key] for row in rows])) for key in measured}))
    return len(complete), shown


def first_picture(found: Mapping[str, Any]) -> bytes:
    """Quality against time of the systems that people know, as means over all sets."""
    count, systems = _named(found)
    points = []
    for row, mean in systems:
        kind = "semclass" if row["name"] in (DEFAULT, "convex") else "peer"
        points.append(figures.Point(NAMED[row["name"]], kind, mean["p50_ms"], mean["ndcg@10"]))
    return figures.draw(points, "milliseconds a question, one thread", f"nDCG@10, mean of {count} collections")


def first_screen(found: Mapping[str, Any]) -> str:
    """The same as a table, with memory and money."""
    (count, systems), processor = _named(found), found["retrieval"]["machine"]["processor"]
    head = (f"mean of {count} collections", "nDCG@10", "right passage first", f"ms a question, one thread, {processor}",
            "memory, MB", "USD per million questions")  # fmt: skip
    rows = [
        (
            NAMED[row["name"]],
            f"{mean['ndcg@10']:.3f}",
            readme.cell(mean, "right_first", ".1%"),
            readme.number(mean["p50_ms"]),
            readme.cell(row, "peak_mb", ",.0f"),
            readme.money(prices.machine_call(mean["p50_ms"] / 1e3)),
        )
        for row, mean in systems
    ]
    return readme.markdown(head, rows)


TABLES = {"": table, "defaults": defaults, "compared": compared, "first screen": first_screen}
PICTURES = {"first_picture.png": first_picture}
