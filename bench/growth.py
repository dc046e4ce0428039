"""An index that grows and changes: searches from a thousand passages to a million, bytes, builds, changes, killed writers.

Large corpora are made of real sentences (:mod:`bench.made_corpus`). That of a million passages takes 10 GB of disk
while it is made, and 7 GB stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import made_corpus, readme
from bench.growth_sizes import SEARCHES
from bench.steps import ROOT, Bench
from semclass.core import artifacts
from semclass.core.cpu import available_threads
from semclass.encoders.batching import CHUNK
from semclass.scoring import reduction

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGE = 100_000  # passages of the index on which BM25 is compared and changes are made
BUILT = 2 * CHUNK  # passages of a build: a whole number of stretches for each of two processors
ADDED, UPDATED, DELETED = 1_000, 100, 1_000  # passages of each change
CRASHING = ROOT / "tests" / "index" / "crashing.py"  # kills writers


def run(bench: Bench) -> dict[str, Any]:
    """All measurements; a quick run takes smaller ones."""
    data, few = str(bench.data), bench.quick
    place = place_of(bench.work)
    limit = 400 if few else None
    pool = place / f"sentences-{limit or 'all'}.npz"
    bench.step("growth/sentences", "bench.growth_sizes:read", wrote=pool, data=data, out=pool, limit=limit)
    rows, folders = [], {}
    for size in SIZES[:2] if few else SIZES:
        folders[size] = place / f"{'quick-' * few}{size}"
        arguments = {"pool": pool, "n": size, "folder": folders[size]}
        row = bench.step(f"growth/made/{size}", "bench.growth_sizes:make", wrote=folders[size], **arguments)
        timed = 30 if few or size > LARGE else 100
        found = bench.step(
            f"growth/search/{size}", "bench.growth_sizes:search", index=folders[size], data=data, timed=timed
        )
        rows.append({**row, **found})
    most = max(folders)
    variants = _variants(bench, most, folders[most])
    big = folders[min(LARGE, most)]
    lexical = bench.step("growth/bm25", "bench.growth_sizes:lexical", index=big, data=data, timed=20 if few else 60)
    counts = {"asked": 30, "batches": 1, "batch": 16} if few else {"asked": 200, "batches": 4, "batch": 64}
    encoders = bench.step("growth/encoders", "bench.growth_sizes:encoders", data=data, **counts)
    forms = {
        name: bench.step(
            f"growth/forms/{name}", "bench.growth_changes:forms", folder=bench.beir(name), timed_lean=5 if few else 60
        )["forms"]
        for name in (("squad4",) if few else ("squad4", "pubmedqa"))
    }
    return {
        "sizes": rows,
        "variants": variants,
        "bm25": [lexical],
        "encoders": encoders.get("rows", [encoders]),
        "ratios": {
            "rank_bm25_over_semclass": lexical.get("ratio") if most >= LARGE else None,
            **{f"torch_over_encoder_{row['text']}": row["ratio"] for row in encoders.get("rows", ())},
        },
        "forms": forms,
        **_changes(bench, big),
    }


def _changes(bench: Bench, index: Path) -> dict[str, Any]:
    """Builds against encoding, changes of an index, and killed writers."""
    few, data, workers = bench.quick, str(bench.data), available_threads()
    arguments = {"data": data, "n": 24 if few else BUILT, "workers": workers}
    builds = bench.step(f"growth/build/{workers}", "bench.growth_changes:builds", **arguments)["rows"]
    part = 50 if few else 1
    numbers = {"add": ADDED // part, "update": UPDATED // part, "delete": DELETED // part}
    changed = bench.step("growth/changes", "bench.growth_changes:changes", index=index, data=data, **numbers)
    hashed = artifacts.sha256_of(CRASHING)
    killed = bench.step(
        "growth/kills", "bench.growth_changes:kills", script=CRASHING, hashed=hashed, stride=60 if few else 1
    )
    return {
        "builds": builds,
        "changes": changed["rows"],
        "add_over_encoding": changed["add_over_encoding"],
        "kills": killed,
    }


def place_of(work: Path) -> Path:
    """Folder of made corpora; another one for other models, whose vectors would be others."""
    root = artifacts.default_models()
    manifests = [root / name / artifacts.MANIFEST for name in ("encoder", "entailment", "passages", "codebooks")]
    said = "".join(artifacts.sha256_of(path) for path in manifests)
    return work / "made" / hashlib.sha256(said.encode()).hexdigest()[:12]


def named(row: dict[str, Any]) -> str:
    """How many passages an index holds, and what is other than usual about it."""
    return f"{row['passages']:,}" + (f", {row['what']}" if "what" in row else "")


LEAN, ALL = "without the vectors of tokens", "every vector compared"
"""What is other than usual about an index, or a search."""


def _variants(bench: Bench, size: int, folder: Path) -> list[dict[str, Any]]:
    """The largest index without vectors of tokens, and searched without what spares comparing all vectors."""
    without, few = folder.with_name(f"{folder.name}-lean"), bench.quick
    bench.step(f"growth/lean/{size}", "bench.growth_sizes:lean", wrote=without, index=folder, folder=without)
    kinds = {LEAN: (without, False), **({ALL: (folder, True)} if size * made_corpus.FEWEST >= reduction.MANY else {})}
    counts = {"timed": 10, "searches": 20} if few else {"timed": 30, "searches": SEARCHES}
    rows = []
    for name, (place, every) in kinds.items():
        step = f"growth/search/{size}-{'all' if every else 'lean'}"
        found = bench.step(step, "bench.growth_sizes:search", index=place, data=str(bench.data), every=every, **counts)
        rows.append({"what": name, "bytes": sum(path.stat().st_size for path in place.rglob("*.npy")), **found})
    return rows


def table(found: Mapping[str, Any]) -> str:
    """What an index of each size takes, and BM25 and the encoder beside peers."""
    results = found["growth"]
    head = ("passages", "index on disk", "peak memory", "open", "search", "95 %", "with `learned`", "95 %", "recall@10")
    rows = [
        (
            named(row),
            f"{row['bytes'] / 1e6:,.0f} MB",
            f"{row['service_peak_mb']:,.0f} MB",
            f"{row['open_s']:.2f} s",
            *(f"{row[f'{name}_ms_{part}']:.1f} ms" for name in ("plain", "learned") for part in ("p50", "p95")),
            readme.cell(row, "recall@10", ".3f"),
        )
        for row in (*results["sizes"], *results["variants"])
    ]
    names = {
        "question": "encoding a question, torch float32",
        "passage": "encoding a passage in batches, torch float32",
    }
    compared = [(f"BM25 scores of {row.get('passages', 0):,} passages, rank-bm25", row) for row in results["bm25"]]
    compared += [(names.get(row.get("text", ""), "encoding, torch float32"), row) for row in results["encoders"]]
    peers = [
        (name, "not measured", row["skipped"], "-")
        if "skipped" in row
        else (name, f"{row['peer_ms_p50']:.2f} ms", f"{row['semclass_ms_p50']:.2f} ms", f"{row['ratio']:.1f} x")
        for name, row in compared
    ]
    return f"{readme.markdown(head, rows)}\n\n{readme.markdown(('beside', 'them', 'semclass', 'ratio'), peers)}"


def table_of_changes(found: Mapping[str, Any]) -> str:
    """Builds against the encoder alone, and changes."""
    results = found["growth"]
    builds = [
        (
            f"{row['form']}, {row['workers']} {'worker' if row['workers'] == 1 else 'workers'}",
            *(f"{row[f'{name}_per_second']:.1f}" for name in ("build", "needed", "pooled")),
            f"{100 * row['share_of_needed']:.0f} %",
        )
        for row in results["builds"]
    ]
    head = ("passages a second", "build", "encoding what it needs", "encoding each passage once", "build / needed")
    changes = [(row["what"], f"{row['passages']:,}", f"{row['seconds']:.2f} s") for row in results["changes"]]
    killed = results["kills"]
    if "skipped" not in killed:
        changes.append(("kills of a writer survived", f"{killed['survived']:,} of {killed['kills']:,}", "-"))
    return f"{readme.markdown(head, builds)}\n\n{readme.markdown(('change', 'passages', 'time'), changes)}"


def table_of_forms(found: Mapping[str, Any]) -> str:
    """Bytes of a passage in each form, and what they bring on the first set."""
    sets = dict(sorted(found["growth"]["forms"].items(), reverse=True))  # squad4, which is always measured, first
    name, first = next(iter(sets.items()))
    terms = (f"bytes: {place}, {forms[0]['terms_per_passage']:.0f} terms" for place, forms in sets.items())
    rows = []
    for place, row in enumerate(first):
        removed = row["error_removed"]
        shown = removed if isinstance(removed, str) else f"{removed:.0%}"
        sizes = (f"{forms[place]['bytes']:,.0f}" for forms in sets.values())
        rows.append((f"`{row['form']}`", *sizes, f"{row['rerank_10_ms_p50']:,.2f}", shown))
    return readme.markdown(("form", *terms, f"ms to re-rank 10, {name}", f"error removed, {name}"), rows)


TABLES = {"": table, "changes": table_of_changes, "forms": table_of_forms}
