"""Retrieval and re-ranking beside their peers: quality against time for a question.

Quality is measured on all questions of a set; times, and the slow cross-encoder, on a sample of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import domains, pareto, prices, readme, reference
from bench.peers import prompted
from bench.peers.cross_encoder import FEW
from bench.peers.rows import cell, seconds_of, trained_seconds
from bench.retrieval_systems import DEPTH, MORE
from bench.steps import Bench
from semclass.core import artifacts

MOST = 3000  # questions of a set on which quality is measured; drawn by chance, where there are more
SAMPLE = 500  # questions of a set on which times are taken, and the cross-encoder is measured
QUICK = 40  # questions of a quick run, of one set

SYSTEMS = {
    "BM25": ("semclass", "BM25 over the encoder's word pieces, as the library computes it"),
    "BM25, bm25s": (
        "peer",
        "bm25s with its own tokeniser, English stop words and a stemmer, as its documentation shows",
    ),
    "BM25, rank-bm25": ("peer", "rank-bm25 (Okapi) over lower-cased words"),
    "dense": ("semclass", "cosine of the shipped encoder's vectors"),
    "hybrid": ("semclass", "dense + 0.1 * BM25, the reference's sum, which is the baseline here"),
    "convex": (
        "peer",
        "alpha * dense + (1 - alpha) * BM25, each brought to 0 ... 1 over the first 100 of both; on semclass's encoder and "
        "index",
    ),
    "RRF": (
        "peer",
        "reciprocal rank fusion, k = 60, of the first 100 of dense and of BM25; on semclass's encoder and index",
    ),
    "default": ("semclass", "a search without options: convex + the probability that the passage answers, first 50"),
    "class-stable": ("semclass", "hybrid, then passages of the class that is asked for come first"),
    "class-integrated": ("semclass", "hybrid + lambda * how well the place that answers fits the class asked for"),
    "class-integrated-hard": ("semclass", "hybrid + lambda * 1 if the passage has the class that is asked for"),
    "entail-stable": ("semclass", "hybrid, then passages that answer, yes or no, come first"),
    "entail-integrated": ("semclass", "hybrid + lambda * probability that the passage answers"),
    "entail-integrated-hard": ("semclass", "hybrid + lambda * 1 if the passage answers"),
    f"entail-integrated@{MORE}": ("semclass", f"the same with {MORE} candidates"),
    "learned": (
        "semclass",
        "hybrid, then a head over all evidence, read when the index was built, orders the first 10",
    ),
    f"learned@{MORE}": ("semclass", f"the same with {MORE} candidates"),
    "learned, then cross-encoder": ("peer", f"learned, then the int8 cross-encoder reads the first {FEW} of it"),
    "cross-encoder": (
        "peer",
        "hybrid, then an int8 MiniLM that reads question and passage together orders the first 10; trained for this "
        "benchmark on questions that learned learnt from",
    ),
    "cross-encoder, integrated": (
        "peer",
        "hybrid + lambda * cross-encoder, first 10; takes what the cross-encoder takes",
    ),
}
"""By name: whose it is, and one sentence about it."""

PAIRS = ("entailment", "pairs/learned")
"""Trained for re-ranking: tuned layers that compare token vectors, and the pair heads, which one script trains together."""

CROSS = ("learned, then cross-encoder", "cross-encoder", "cross-encoder, integrated")
"""Systems of the table that take the cross-encoder."""

TRAINED = ("entail-integrated", f"entail-integrated@{MORE}", "learned", f"learned@{MORE}")
"""Systems of the table that take these heads."""

RECORDED = {
    "entail-integrated-hard": (
        10,
        0,
        "hybrid + lambda * 1 if flan-ul2 (20 B), asked once for each of ten passages, says that it answers",
    ),
    "entail-stable": (10, 0, "hybrid, then passages that flan-ul2, asked once for each of ten, says answer come first"),
    "class-integrated-hard": (1, 6, "hybrid + lambda * 1 if flan-ul2 gives passage and question the same class"),
    "class-stable": (1, 6, "hybrid, then passages to which flan-ul2 gives the class of the question come first"),
}
"""The reference's methods: calls for a question, calls for each passage once, and a sentence; its figures are in
``reference.json``, and its lambda was searched on the questions that it is reported on."""


def run(bench: Bench) -> dict[str, Any]:
    """Every set: quality on all questions, times and the cross-encoder on some of them."""
    few = {"sentences": 400, "questions": 100} if bench.quick else {"sentences": None, "questions": 1000}
    chosen = bench.step("retrieval/alpha", "bench.peers.fusion:choose_alpha", data=bench.data, **few)
    network = bench.cross_encoder
    took = {"ours": trained_seconds(*PAIRS), "cross-encoder": None if network is None else seconds_of(network)}
    sets = {}
    for name, folder in folders(bench).items():
        where = {"folder": folder, "cache": bench.indices}
        passages = bench.step(f"retrieval/{name}/index", "bench.retrieval_systems:index", **where)["passages"]
        where["alpha"] = chosen["alpha"]
        full = bench.step(
            f"retrieval/{name}/quality",
            "bench.retrieval_systems:quality",
            **where,
            questions=QUICK if bench.quick else MOST,
        )
        part = bench.step(
            f"retrieval/{name}/times",
            "bench.retrieval_systems:timed",
            **where,
            cross_encoder=network,
            questions=QUICK if bench.quick else SAMPLE,
        )
        sets[name] = {"what": domains.NAMES.get(name, name), "passages": passages, **of_set(full, part)}
        for row in sets[name]["systems"]:
            if row["name"] in (*TRAINED, *CROSS):
                row["train_s"] = took["ours" if row["name"] in TRAINED else "cross-encoder"]
    found = {
        "task": {
            "what": "from a question's text to the ids of ten passages, best first; one thread, one question at a time",
            "protocol": "quality on all questions of a set; times, and the cross-encoder, on a sample of them, by turns; "
            "cond: where the hybrid's first ten hold an answer. semclass was developed with squad4 and pubmedqa in view; "
            "peers met them once",
            "training": trained(network),
            "alpha_of_convex": {key: chosen[key] for key in ("alpha", "found_on", "mrr@10")},
        },
        "sets": sets,
        "recorded": recorded(),
        "second_per_call": second_per_call(
            sets, {use: prompted.prompt_tokens(task, bench.data) for use, task in PROMPTS.items()}
        ),
    }
    if network is not None:
        ratios = {name: data["ratios"]["cross_encoder_over_learned"] for name, data in sets.items()}
        found["cross_encoder"] = {
            key: artifacts.read_json(network / artifacts.MANIFEST)[key] for key in ("training", "weight", "slope")
        }
        found["ratios"] = {
            "cross_encoder_over_learned": min(ratios.values()),
            "by_set": ratios,
            "end_to_end": {name: data["ratios"]["end_to_end"] for name, data in sets.items()},
        }
    return found


def trained(network: Path | None) -> str:
    """What the default re-ranker and the cross-encoder learnt from, by their manifests: it is not the same."""
    places = {"learned": artifacts.default_models() / "pairs" / "learned"}
    if network is not None:
        places["cross-encoder"] = network
    made = {name: artifacts.read_json(place / artifacts.MANIFEST)["training"] for name, place in places.items()}
    return "; ".join(f"{name}: {how['questions']:,} questions ({how['data']})" for name, how in made.items())


def folders(bench: Bench) -> dict[str, Path]:
    """The data's BEIR folders, and the written questions; in a quick run a part of the first."""
    found = {path.name: path for path in sorted((bench.data / "beir").iterdir()) if (path / "qrels/test.tsv").is_file()}
    known = [name for name in domains.NAMES if name in found]
    found = {name: found[name] for name in dict.fromkeys([*known, *found])}
    if bench.quick:
        first = next(iter(found))
        return {first: bench.beir(first)}
    return {**found, "biomedical": domains.written_questions(bench)}


def of_set(full: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Put together what is told about a set; a system that is not measured on all questions shows the sample's figures."""
    systems = []
    for name, (kind, what) in SYSTEMS.items():
        row: dict[str, Any] = {"name": name, "kind": kind, "what": what, "threads": 1}
        if name not in part["systems"]:
            reason = part["missing"].get(
                name, "needs --cross-encoder FOLDER, which bench/peers/train_cross_encoder.py writes"
            )
            systems.append({**row, "skipped": reason})
            continue
        times = part["milliseconds"][name]
        source = full if name in full["systems"] else part
        systems.append(
            {
                **row,
                "questions": source["questions"],
                **source["systems"][name],
                "sample": part["systems"][name],
                **times,
                "usd_per_million": round(prices.machine_call(times["p50_ms"] / 1e3, 1), 4),
            }
        )
    counts = {"questions": full["questions"], "answered": full["answered"], "sample_questions": part["questions"]}
    return {**counts, "systems": systems, "ratios": ratios(part)}


def ratios(part: Mapping[str, Any]) -> dict[str, Any]:
    """Time of re-ranking by the cross-encoder over that of ``learned``, and the quality of both on the same questions."""
    times = part["milliseconds"]
    if "cross-encoder" not in times:
        return {}
    slow, fast = times["cross-encoder"], times["learned"]
    return {
        "cross_encoder_over_learned": round(slow["rerank_p50_ms"] / fast["rerank_p50_ms"], 1),
        "end_to_end": round(slow["p50_ms"] / fast["p50_ms"], 1),
        "questions": part["questions"],
        "candidates": DEPTH,
        **{
            name: {"rerank_p50_ms": times[name]["rerank_p50_ms"], **part["systems"][name]}
            for name in ("learned", "cross-encoder")
        },
    }


def recorded() -> dict[str, Any]:
    """Every row of the reference: the share of the error that it removes, and the time that its calls are taken to last."""
    systems = [
        {
            "name": f"flan-ul2, {method}, {reference.SETS[name]}",
            "set": name,
            "kind": "prompted",
            "what": RECORDED[method][2],
            "recorded": True,
            "calls": RECORDED[method][0],
            "calls_for_each_passage_once": RECORDED[method][1],
            "cond_mrr": row["mrr"],
            "error_removed": round(row["error_removed"], 4),
            "rerank_p50_ms": RECORDED[method][0] * prices.ASSUMED_SECONDS * 1e3,
        }
        for name in reference.SETS
        for method, row in reference.methods(name).items()
        if method != reference.BASELINE
    ]
    return {
        "questions": "the reference's own questions, not ours; a second a call is its assumption",
        "hybrid_cond_mrr": {name: reference.methods(name)[reference.BASELINE]["mrr"] for name in reference.SETS},
        "systems": systems,
    }


# -- the table and the picture --------------------------------------------------------------------------------------------

UNNAMED = ("class-stable", "class-integrated", "class-integrated-hard", "entail-stable", "entail-integrated-hard")
"""Systems without a label in the picture's first panels, nor a row in the table: section `thesis` tells of them."""

ASSUMED = "an assumed second"  # how long a prompted call takes, in tables
REPRICED = ("learned", f"learned@{MORE}", "learned, then cross-encoder", "cross-encoder")
"""Systems whose re-ranking is compared with an assumed second for each call."""

HOSTED = "rerank-v4.0-fast"  # A hosted re-ranker whose price is told; nothing is known here of its quality or time
ALONE = "squad4"  # set of the panel about re-ranking alone: like the reference's questions it is about Wikipedia


def pictures(results: dict[str, Any]) -> dict[str, bytes]:
    """``retrieval_pareto.png``: each set, and re-ranking alone beside what the reference reports."""
    panels = [
        _panel(f"{data['what']}; {data['sample_questions']} questions", data["systems"], "p50_ms", "mrr@10")
        for data in _sets(results).values()
    ]
    name = ALONE if ALONE in results["sets"] else next(iter(results["sets"]))
    title = f"Re-ranking alone, {name}; flan-ul2: other questions"
    rows = [row for row in results["sets"][name]["systems"] if "rerank_p50_ms" in row]
    alone = _panel(title, rows, "rerank_p50_ms", "error_removed", unnamed=())
    prompted = [
        pareto.Point(row["name"].rpartition(", ")[0], row["kind"], row["rerank_p50_ms"], row["error_removed"])
        for row in results["recorded"]["systems"]
        if row["set"] == "wikipedia"
    ]
    return {"retrieval_pareto.png": pareto.draw(panels, alone._replace(points=[*alone.points, *prompted]))}


def _sets(results: dict[str, Any]) -> dict[str, Any]:
    """The sets, those that the project knows first; files of results have them by name."""
    found = results["sets"]
    return {name: found[name] for name in dict.fromkeys((*domains.NAMES, *found)) if name in found}


def _panel(
    title: str, rows: list[dict[str, Any]], cost: str, quality: str, unnamed: Sequence[str] = UNNAMED
) -> pareto.Panel:
    """A panel of what was found on the sample, where all systems were asked the same."""
    measured = [row for row in rows if "skipped" not in row]
    ends = np.array([row["sample"][f"{quality}_ci"] for row in measured])
    points = [
        pareto.Point("" if row["name"] in unnamed else row["name"], row["kind"], row[cost], row["sample"][quality])
        for row in measured
    ]
    return pareto.Panel(title, points, float(np.median(ends[:, 1] - ends[:, 0])) / 2)


def table(results: dict[str, Any]) -> str:
    """The README's tables: every system on the same questions, and what re-ranking a million questions costs."""
    sets = _sets(results)
    first = next(iter(sets.values()))
    names = [row["name"] for row in first["systems"] if row["name"] not in UNNAMED]
    costly = (*TRAINED, *CROSS)
    found = {name: {row["name"]: row for row in data["systems"]} for name, data in sets.items()}
    rows = []
    for name in names:
        cells = [found[data][name] for data in sets]
        if "skipped" in cells[0]:
            rows.append((name, *("-" for _ in sets), "skipped", "-", cells[0]["skipped"]))
            continue
        quality = [f"{row['sample']['mrr@10']:.3f}" for row in cells]
        took = cell(cells[0], "train_s", ",.0f")
        took = readme.NOT_RECORDED if name in costly and took == "-" else took
        rows.append((name, *quality, f"{cells[0]['p50_ms']:.3g}", took, readme.money(cells[0]["usd_per_million"])))
    title = next(iter(sets))
    head = (
        "MRR@10",
        *(f"{name}, {data['sample_questions']} questions" for name, data in sets.items()),
        f"ms a question, {title}",
        "to train, s",
        "USD a million",
    )
    return f"{readme.markdown(head, rows)}\n\n{_costs(results['second_per_call'])}"


def _costs(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            row["what"],
            *(("-", "-") if row["seconds"] is None else (_span(row["seconds"]), _span(row["seconds"] * 1e6))),
            readme.money(row["usd_per_million"]),
            row["on"],
        )
        for row in rows
    ]
    head = ("re-ranking", "a question", "a million, one after another", "USD a million", "on")
    return readme.markdown(head, cells)


PROMPTS = {"question class": "questions", "passage classes": "passages", "entailment of 10 candidates": "entailment"}
"""Which prompts the reference's uses take, see :func:`bench.peers.prompted.prompt_tokens`."""


def _span(seconds: float) -> str:
    """Seconds as people say it."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def second_per_call(sets: dict[str, Any], counted: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Time and money of re-ranking a question's candidates."""
    shown = sets.get(ALONE, next(iter(sets.values())))
    measured = [
        {
            "what": row["name"],
            "seconds": row["rerank_p50_ms"] / 1e3,
            "usd_per_million": round(prices.machine_call(row["rerank_p50_ms"] / 1e3, 1), 4),
            "on": "one vCPU of the CPU machine",
        }
        for row in shown["systems"]
        if row["name"] in REPRICED and "rerank_p50_ms" in row
    ]
    uses = prices.prompting(counted)
    once = sum(use["calls"] for use in uses if use["for_each"] == "a passage")
    more = {"question class": f"; and {once} calls for each passage, once"}
    called = [use for use in uses if use["for_each"] == "a question"]
    rows: list[dict[str, Any]] = [
        {
            "what": f"{use['what']}, prompted: {use['calls']} x {ASSUMED}{more.get(use['what'], '')}",
            "seconds": use["seconds"],
            "assumed": True,
            "usd_per_million": round(use["usd_per_million_gpu"], 2),
            "on": "the GPU machine, one call at a time",
        }
        for use in called
    ]
    for use in called:
        cheapest = min(use["usd_per_million_at"], key=use["usd_per_million_at"].__getitem__)
        rows.append(
            {
                "what": f"{use['what']}, the same prompts sent to {prices.find('tokens', cheapest)['name']}",
                "seconds": None,
                "usd_per_million": use["usd_per_million_at"][cheapest],
                "on": "the vendor's machines, by tokens, the cheapest of the prices",
            }
        )
    hosted = {
        "what": prices.find("rerank", HOSTED)["name"],
        "seconds": None,
        "usd_per_million": prices.rerank_call(HOSTED),
        "on": "the vendor's machines, at list price",
    }
    return [*measured, *rows, hosted]
