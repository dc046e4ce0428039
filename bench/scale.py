"""Speed and memory of a search as the corpus grows, from a thousand to a million passages.

Large corpora are made of real sentences (:mod:`bench.made_corpus`). That of a million passages takes 10 GB of disk
while it is made, and 7 GB stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import growth, readme
from bench.steps import Bench
from semclass.evaluation import figures
from semclass.scoring import reduction

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MIDDLE = 10_000  # passages of the index on which batches, candidates and callers are measured
LARGE = 100_000  # passages of the index on which BM25 and the dense limit are measured
MILLION = 1_000_000  # passages of the index that aims are set for
SEED = 0


def sizes_of(bench: Bench) -> list[int]:
    """Sizes of corpora; a quick run takes those up to :data:`MIDDLE`."""
    return [size for size in SIZES if size <= MIDDLE] if bench.quick else list(SIZES)


def sentences(bench: Bench) -> tuple[Path, dict[str, Any]]:
    """The sentences that corpora are made of, fewer in a quick run, and what reading them took."""
    limit = 400 if bench.quick else None
    pool = growth.place_of(bench.work) / f"sentences-{limit or 'all'}.npz"
    arguments = {"data": str(bench.data), "out": pool, "limit": limit}
    return pool, bench.step("scale/sentences", "bench.growth:read", wrote=pool, **arguments)


def made(bench: Bench, size: int, pool: Path) -> tuple[Path, dict[str, Any]]:
    """The index of a corpus made of :func:`sentences`, and what making it took; other sections use the same ones."""
    folder = growth.place_of(bench.work) / f"{'quick-' * bench.quick}{size}"
    arguments = {"pool": pool, "n": size, "folder": folder, "seed": SEED}
    compared = (20 if bench.quick else 100) if size == SIZES[0] else 0
    found = bench.step(f"scale/made/{size}", "bench.growth:make", wrote=folder, compared=compared, **arguments)
    return folder, found


def run(bench: Bench) -> dict[str, Any]:
    """All measurements; a quick run takes sizes up to :data:`MIDDLE`, made of fewer sentences."""
    data, sizes, few = str(bench.data), sizes_of(bench), bench.quick
    pool, read = sentences(bench)
    rows, folders = [], {}
    for size in sizes:
        folders[size], row = made(bench, size, pool)
        timed = 30 if few or size > LARGE else 100
        found = bench.step(f"scale/search/{size}", "bench.growth:search", index=folders[size], data=data, timed=timed)
        rows.append({**row, "make_peak_mb": row["peak_mb"], **found})
    variants = _variants(bench, sizes[-1], folders[sizes[-1]], few=few)
    big = folders[min(LARGE, sizes[-1])]
    lexical = bench.step("scale/bm25", "bench.growth:lexical", index=big, data=data, timed=20 if few else 60)
    encoders = bench.step(
        "scale/encoders",
        "bench.growth:encoders",
        data=data,
        asked=30 if few else 200,
        batches=1 if few else 4,
        batch=16 if few else 64,
    )
    return {
        "what": {
            "corpora": "made of real sentences, drawn with a seed: text, word pieces, BM25, token and sentence vectors as "
            "a build would make them; pooled vectors and class probabilities not encoded, see bench/made_corpus.py",
            "memory": "of one caller with ten candidates, numpy's BLAS on one thread",
            "recall@10": "share of the ten best of all passages, each of them scored, that a search finds before it "
            "re-ranks",
        },
        "sentences": [read],
        "agreement": [rows[0]["agreement"]],
        "sizes": [{key: value for key, value in row.items() if key != "agreement"} for row in rows],
        "variants": variants,
        "parts": [{"index": named(row), **row["parts_ms"]} for row in (*rows, *variants)],
        "memory": [
            {"index": named(row), "peak": row["service_peak_mb"], **row["memory_mb"]["searched"]}
            for row in (*rows, *variants)
        ],
        "million": million(rows, variants),
        "bm25": [lexical],
        "encoders": encoders.get("rows", [encoders]),
        "ratios": {
            "rank_bm25_over_semclass": lexical.get("ratio") if min(LARGE, sizes[-1]) == LARGE else None,
            **{f"torch_over_encoder_{row['text']}": row["ratio"] for row in encoders.get("rows", ())},
        },
        "service_peak_mb": {str(row["passages"]): row["service_peak_mb"] for row in rows},
    }


def named(row: dict[str, Any]) -> str:
    """How many passages an index holds, and what is other than usual about it."""
    return f"{row['passages']:,}" + (f", {row['what']}" if "what" in row else "")


LEAN, ALL = "without the vectors of tokens and sentences", "every vector compared"
"""What is other than usual about an index, or a search."""


def _variants(bench: Bench, size: int, folder: Path, *, few: bool) -> list[dict[str, Any]]:
    """The largest index without vectors of tokens, and searched without what spares comparing all vectors."""
    without = folder.with_name(f"{folder.name}-lean")
    bench.step(f"scale/lean/{size}", "bench.growth:lean", wrote=without, index=folder, folder=without)
    kinds = {LEAN: (without, False), **({ALL: (folder, True)} if size >= reduction.MANY else {})}
    rows = []
    for name, (place, every) in kinds.items():
        found = bench.step(
            f"scale/search/{size}-{'all' if every else 'lean'}",
            "bench.growth:search",
            index=place,
            data=str(bench.data),
            timed=10 if few else 30,
            searches=20 if few else growth.SEARCHES,
            every=every,
        )
        rows.append({"what": name, "bytes": sum(path.stat().st_size for path in place.rglob("*.npy")), **found})
    return rows


def million(rows: Sequence[dict[str, Any]], variants: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What aims are set for, at :data:`MILLION` passages; empty where so many were not searched."""
    row = next((row for row in rows if row["passages"] == MILLION), None)
    lean = next((row for row in variants if (row["what"], row["passages"]) == (LEAN, MILLION)), {})
    if row is None:
        return {}
    shown = ("plain_ms_p50", "learned_ms_p50", "recall@10", "service_peak_mb")
    return {**{name: row[name] for name in shown}, "lean_peak_mb": lean.get("service_peak_mb")}


def value(row: dict[str, Any], name: str) -> float:
    """A figure of a size, or a part of its searches."""
    return float(row[name] if name in row else row["parts_ms"][name])


def table(results: dict[str, Any]) -> str:
    """The README's tables: what a size takes, and the ratios."""
    head = ("passages", "index on disk", "peak memory", "open", "search", "95 %", "with `learned`", "95 %", "recall@10")
    rows = [
        (
            named(row),
            f"{row['bytes'] / 1e6:,.0f} MB",
            f"{row['service_peak_mb']:,.0f} MB",
            f"{row['open_s']:.2f} s",
            *(f"{row[f'{name}_ms_{part}']:.1f} ms" for name in ("plain", "learned") for part in ("p50", "p95")),
            f"{row['recall@10']:.3f}" if "recall@10" in row else "-",
        )
        for row in (*results["sizes"], *results.get("variants", ()))
    ]
    return f"{readme.markdown(head, rows)}\n\n{readme.markdown(RATIOS, ratios(results))}"


RATIOS = ("beside", "them", "semclass", "ratio")  # head of the second table


def ratios(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of the second table; what was not measured says why."""
    names = {
        "question": "encoding a question, torch float32",
        "passage": "encoding a passage in batches, torch float32",
    }
    named = [(f"BM25 scores of {row.get('passages', 0):,} passages, rank-bm25", row) for row in results["bm25"]]
    named += [(names.get(row.get("text", ""), "encoding, torch float32"), row) for row in results["encoders"]]
    return [
        (name, "not measured", row["skipped"], "-")
        if "skipped" in row
        else (name, f"{row['peer_ms_p50']:.2f} ms", f"{row['semclass_ms_p50']:.2f} ms", f"{row['ratio']:.1f} x")
        for name, row in named
    ]


def pictures(results: dict[str, Any]) -> dict[str, bytes]:
    """Time and memory against the size of the corpus."""
    return {"scale_search.png": picture_of_sizes(results["sizes"])}


GREY = "#888888"

_TIMES = (
    ("learned_ms_p50", "search with `learned`", figures.BLUE, "o-"),
    ("plain_ms_p50", "search, not re-ranked", figures.INK, "s--"),
    ("find", "of it: finding candidates", figures.ORANGE, "^:"),
    ("encode", "of it: encoding the question", GREY, "x:"),
)


def picture_of_sizes(rows: Sequence[dict[str, Any]]) -> bytes:
    """Median times, and memory, against the number of passages, all logarithmic."""
    pyplot = figures.load_pyplot()
    figure, (times, memory) = pyplot.subplots(1, 2, figsize=(10, 4))
    sizes = [row["passages"] for row in rows]
    for name, label, colour, style in _TIMES:
        times.plot(sizes, [value(row, name) for row in rows], style, color=colour, label=label, markersize=5)
    figures.plain(times, "passages", "milliseconds a question, median")
    kinds = (
        ([row["service_peak_mb"] for row in rows], "peak of the process", figures.BLUE, "o-"),
        (
            [row["memory_mb"]["searched"].get("own", np.nan) for row in rows],
            "of its own, not mapped",
            figures.ORANGE,
            "^--",
        ),
        ([row["bytes"] / 1e6 for row in rows], "index on disk", figures.INK, "s:"),
    )
    for values, label, colour, style in kinds:
        memory.plot(sizes, values, style, color=colour, label=label, markersize=5)
    figures.plain(memory, "passages", "MB")
    for place in (times, memory):
        place.set_xscale("log")
        place.set_yscale("log")
        place.grid(visible=True, which="major", color="#eeeeee")
        place.legend(fontsize=8, frameon=False)
    return figures.png(figure)
