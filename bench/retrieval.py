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

from bench import carry, prices, readme
from bench.peers.rows import NO_CROSS_ENCODER, seconds_of, trained_seconds
from bench.retrieval_systems import MORE, SYSTEMS
from bench.steps import Bench, write_beir
from datasets_io import read_tsv
from semclass.core import artifacts
from semclass.ranking.methods import DEFAULT

MOST = 3000  # questions of a set on which quality is measured; drawn by chance, where there are more
SAMPLE = 500  # questions of a set on which times are taken, and the cross-encoder is measured
QUICK = 40  # questions of a quick run, of one set
WORDS = (60, 260)  # shortest and longest section of ``biomedical``: among shorter ones length alone reveals the answer

NAMES = {
    "squad4": "Wikipedia: SQuAD dev, 4 sentences a passage",
    "pubmedqa": "PubMedQA: titles of papers, sections of abstracts",
    "biomedical": "biomedical: written questions, sections of abstracts",
}
"""Sets that are shown first, and what they are."""

CROSS = ("cross-encoder", "cross-encoder, integrated")
TRAINED = ("entail-integrated", f"entail-integrated@{MORE}")
"""Systems that take the cross-encoder, and those that take the heads trained for re-ranking, :data:`PAIRS`."""

PAIRS = ("entailment", "pairs/entailment")

DEFAULTS = {
    "squad4": "encyclopaedia",
    "pubmedqa": "abstracts, biomedical",
    "vaswani": "abstracts, physics",
    "cacm": "abstracts, computing",
    "cranfield": "abstracts, aerodynamics",
    "codebase": "source code",
    "docs": "documentation",
}
"""Sets on which the default was chosen, and what they hold."""


def run(bench: Bench) -> dict[str, Any]:
    """Every set: quality on all questions, times and the cross-encoder on some of them."""
    network = bench.cross_encoder
    took = {"ours": trained_seconds(*PAIRS), "cross-encoder": None if network is None else seconds_of(network)}
    sets = {}
    most, some = (QUICK, QUICK) if bench.quick else (MOST, SAMPLE)

    def step(name: str, what: str, function: str, **options: Any) -> dict[str, Any]:
        used = {"folder": asked[name], "cache": bench.indices, **options}
        return bench.step(f"retrieval/{name}/{what}", f"bench.retrieval_systems:{function}", **used)

    asked, earlier = folders(bench), {} if bench.quick else recorded()
    jobs = {name: partial(step, name, "quality", "quality", questions=most) for name in asked}
    for name, full in bench.side_by_side(jobs).items():
        part = step(name, "times", "timed", cross_encoder=network, questions=some)
        sets[name] = {
            "what": NAMES.get(name, name),
            "passages": full["passages"],
            **of_set(full, part, earlier.get(name, {})),
        }
        for row in sets[name]["systems"]:
            if row["name"] in TRAINED:
                row["train_s"] = took["ours"]
            elif row["name"] in CROSS and network is not None:
                row["train_s"] = took["cross-encoder"]
    return {
        "task": {
            "what": "from a question's text to the ids of ten passages, best first; one thread, one question at a time",
            "protocol": "quality on all questions of a set; times, and the cross-encoder, on a sample of them, by turns; "
            "cond: where the hybrid's first ten hold an answer. semclass was developed with squad4 and pubmedqa in view; "
            "peers met them once",
            "training": trained(network),
        },
        "sets": sets,
        "second_per_call": second_per_call(sets, {use: prices.prompt_tokens(task) for use, task in PROMPTS.items()}),
    }


def trained(network: Path | None) -> str:
    """What the default re-ranker and the cross-encoder learnt from, by their manifests: it is not the same."""
    places = {"entailment": artifacts.default_models() / "pairs" / "entailment"}
    if network is not None:
        places["cross-encoder"] = network
    made = {name: artifacts.read_json(place / artifacts.MANIFEST)["training"] for name, place in places.items()}
    return "; ".join(f"{name}: {how['questions']:,} questions ({how['data']})" for name, how in made.items())


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


def recorded() -> dict[str, dict[str, Any]]:
    """Rows of the cross-encoder by set, of the run that trained it: its ranking has not changed since."""
    path = Path(__file__).parent / "results" / "retrieval.json"
    sets = artifacts.read_json(path)["sets"] if path.exists() else {}
    return {
        name: {row["name"]: row for row in found["systems"] if row["name"] in CROSS and "skipped" not in row}
        for name, found in sets.items()
    }


def of_set(full: Mapping[str, Any], part: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a set; a system that is not measured on all questions shows the sample's figures, or earlier ones."""
    systems = []
    for name, (kind, what) in SYSTEMS.items():
        row: dict[str, Any] = {"name": name, "kind": kind, "what": what, "threads": 1}
        systems.append(row)
        if name not in part["systems"] and name in earlier:
            systems[-1] = earlier[name]
            continue
        if name not in part["systems"]:
            row["skipped"] = part["missing"].get(name, NO_CROSS_ENCODER)
            continue
        times = part["milliseconds"][name]
        source = full if name in full["systems"] else part
        row |= {
            "questions": source["questions"],
            **source["systems"][name],
            "sample": part["systems"][name],
            **times,
            "usd_per_million": round(prices.machine_call(times["p50_ms"] / 1e3), 4),
        }
    counts = {"questions": full["questions"], "answered": full["answered"], "sample_questions": part["questions"]}
    return {**counts, "systems": systems}


ASSUMED = "an assumed second"  # how long a prompted call takes, in tables
REPRICED = (DEFAULT, "cross-encoder")
"""Systems whose re-ranking is compared with an assumed second for each call."""

HOSTED = "rerank-v4.0-fast"  # a hosted re-ranker of which only the price is known here
ALONE = "squad4"  # set whose re-ranking is priced: like the reference's questions it is about Wikipedia

PROMPTS = {"question class": "questions", "entailment of 10 candidates": "entailment"}
"""Which prompts the reference's uses take, see :func:`bench.prices.prompt_tokens`."""


def second_per_call(sets: Mapping[str, Any], counted: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Time and money of re-ranking a question's candidates."""

    def priced(what: str, seconds: float | None, usd: float, on: str, **more: Any) -> dict[str, Any]:
        return {"what": what, "seconds": seconds, **more, "usd_per_million": usd, "on": on}

    shown = sets.get(ALONE, next(iter(sets.values())))
    systems = {row["name"]: row for row in shown["systems"] if "skipped" not in row}
    times = {name: row["rerank_p50_ms"] / 1e3 for name, row in systems.items() if "rerank_p50_ms" in row}
    # what the default takes behind the plain fusion that it re-ranks; they took turns
    times[DEFAULT] = (systems[DEFAULT]["p50_ms"] - systems["convex"]["p50_ms"]) / 1e3
    rows = [
        priced(name, times[name], round(prices.machine_call(times[name]), 4), "one vCPU of the CPU machine")
        for name in REPRICED
        if name in times
    ]
    called = {use: calls for use, (item, calls) in prices.THESIS_CALLS.items() if item == "a question"}
    more = {"question class": f"; and {prices.THESIS_CALLS['passage classes'][1]} calls for each passage, once"}
    for use, calls in called.items():
        seconds = calls * prices.ASSUMED_SECONDS
        what = f"{use}, prompted: {calls} x {ASSUMED}{more.get(use, '')}"
        on = "the GPU machine, one call at a time"
        rows.append(priced(what, seconds, round(prices.gpu_call(seconds), 2), on, assumed=True))
    for use, calls in called.items():
        usd = prices.at_all_prices(calls, counted[use])
        cheapest = min(usd, key=usd.__getitem__)
        what = f"{use}, the same prompts sent to {prices.find('tokens', cheapest)['name']}"
        rows.append(priced(what, None, usd[cheapest], "the vendor's machines, by tokens, the cheapest of the prices"))
    hosted = prices.find("rerank", HOSTED)["name"]
    return [*rows, priced(hosted, None, prices.rerank_call(HOSTED), "the vendor's machines, at list price")]


def table(found: Mapping[str, Any]) -> str:
    """Every system on the same questions, and what re-ranking a million questions costs."""
    sets = found["retrieval"]["sets"]
    names = _known_first(sets)
    first = sets[names[0]]
    rows = []
    for place, row in enumerate(first["systems"]):
        cells = [sets[name]["systems"][place] for name in names]
        if "skipped" in row:
            rows.append((row["name"], *("-" for _ in names), "skipped", "-", row["skipped"]))
        elif row["name"] in SYSTEMS:
            quality = [f"{cell['sample']['mrr@10']:.3f}" for cell in cells]
            took = readme.trained(row) if row["name"] in (*TRAINED, *CROSS) else "-"
            rows.append((row["name"], *quality, f"{row['p50_ms']:.3g}", took, readme.money(row["usd_per_million"])))
    asked = (f"{name}, {sets[name]['sample_questions']} questions" for name in names)
    head = ("MRR@10", *asked, f"ms a question, {names[0]}", "to train, s", "USD a million")
    return f"{readme.markdown(head, rows)}\n\n{_costs(found['retrieval']['second_per_call'])}"


def _costs(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        (
            row["what"],
            *(("-", "-") if row["seconds"] is None else (_span(row["seconds"]), _span(row["seconds"] * 1e6))),
            readme.money(row["usd_per_million"]),
            row["on"],
        )
        for row in rows
    ]
    return readme.markdown(("re-ranking", "a question", "a million, one after another", "USD a million", "on"), cells)


def _span(seconds: float) -> str:
    """Seconds as people say it."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def domains(found: Mapping[str, Any]) -> str:
    """A search without options on other kinds of text, on all questions."""
    rows = []
    for name in sorted({*NAMES} & {*found["retrieval"]["sets"]}):
        systems = {row["name"]: row for row in found["retrieval"]["sets"][name]["systems"]}
        hybrid, ours = systems["hybrid"], systems[DEFAULT]
        low, high = ours["error_removed_ci"]
        rows.append(
            (
                NAMES[name],
                f"{hybrid['cond_mrr']:.3f} → {ours['cond_mrr']:.3f}",
                f"{ours['error_removed']:.0%} ({low:.0%} to {high:.0%})",
                f"{hybrid['mrr@10']:.3f} → {ours['mrr@10']:.3f}",
            )
        )
    head = ("text", "MRR where the hybrid's first 10 hold the answer", "error removed", "MRR@10 of all questions")
    return readme.markdown(head, rows)


def defaults(found: Mapping[str, Any]) -> str:
    """nDCG@10 of the plain rankings and of the default."""
    sets, shown = found["retrieval"]["sets"], ("BM25", "dense", "hybrid", "convex", "RRF", "default")
    rows = []
    for name, what in DEFAULTS.items():
        if name in sets:
            systems = {row["name"]: row for row in sets[name]["systems"]}
            rows.append((f"{name} ({what})", *(f"{systems[key]['ndcg@10']:.3f}" for key in shown)))
    head = ("nDCG@10, all questions", "BM25", "dense", "dense + 0.1 BM25", "convex", "RRF", "default")
    return readme.markdown(head, rows)


def picture(found: Mapping[str, Any]) -> bytes:
    """A panel for each set, of what was found on the sample, where all systems were asked the same."""
    sets = found["retrieval"]["sets"]
    panels = {}
    for name in _known_first(sets):
        panels[f"{sets[name]['what']}; {sets[name]['sample_questions']} questions"] = [
            readme.Point(row["name"], row["kind"], row["p50_ms"], row["sample"]["mrr@10"], row["sample"]["mrr@10_ci"])
            for row in sets[name]["systems"]
            if "skipped" not in row and row["name"] in SYSTEMS
        ]
    return readme.draw(panels, "MRR@10")


NAMED = {
    "default": "semclass",
    "convex": "plain fusion",
    "cross-encoder, integrated": "MiniLM cross-encoder",
    "BM25, bm25s": "BM25",
    "dense": "vectors alone",
}
"""Systems of the README's first screen, with the names that people know."""


def _named(found: Mapping[str, Any]) -> tuple[int, list[tuple[str, float, float]]]:
    """On how many sets all systems that people know were measured; their names, nDCG@10 and milliseconds, as means."""
    sets = [{row["name"]: row for row in each["systems"]} for each in found["retrieval"]["sets"].values()]
    there = [name for name in NAMED if any("sample" in rows[name] for rows in sets)]
    complete = [rows for rows in sets if all("sample" in rows[name] for name in there)]
    means = {
        name: np.mean([(rows[name]["sample"]["ndcg@10"], rows[name]["p50_ms"]) for rows in complete], axis=0)
        for name in there
    }
    return len(complete), [(NAMED[name], *map(float, values)) for name, values in means.items()]


def first_picture(found: Mapping[str, Any]) -> bytes:
    """Quality against time of the systems that people know, as means over all sets."""
    count, systems = _named(found)
    points = [
        readme.Point(name, "semclass" if name == NAMED[DEFAULT] else "peer", milliseconds, quality, (quality, quality))
        for name, quality, milliseconds in systems
    ]
    return readme.draw_named(points, "milliseconds a question, one thread", f"nDCG@10, mean of {count} collections")


def first_screen(found: Mapping[str, Any]) -> str:
    """The same as a table."""
    (count, systems), processor = _named(found), found["retrieval"]["machine"]["processor"]
    took = f"milliseconds a question, one thread, {processor}"
    head = (f"mean of {count} collections", "nDCG@10 (1 is perfect)", took)
    rows = [(name, f"{quality:.3f}", readme.number(time)) for name, quality, time in systems]
    return readme.markdown(head, rows)


TABLES = {"": table, "domains": domains, "defaults": defaults, "first screen": first_screen}
PICTURES = {"retrieval_pareto.png": picture, "first_picture.png": first_picture}
