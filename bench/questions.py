"""Question classes: accuracy against time, memory, disk and money.

Peers learn from the questions that the shipped head learnt from, or from TREC's alone where their name says so. What is
timed is the coarse class. Nothing is chosen on TREC's test questions.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import labels
from bench import measures, pareto, readme
from bench.labels import first
from bench.peers.rows import (
    VECTORS,
    Entry,
    constant,
    file_digest,
    fine_tuned,
    fitted,
    keep,
    prompted_model,
    recorded,
    rows,
    trained_seconds,
)
from bench.steps import Bench
from datasets_io import read_tsv
from question_data import Questions, read_questions
from question_sets import read_training

QUICK, FEW = 50, 300  # items of each set, and training items, that a quick run takes
TREC_ONLY = 5452  # the first so many training questions are TREC's

HEADS = {
    "logistic": "logistic regression",
    "svc": "support vector machine, RBF kernel",
    "linear-svc": "linear support vector machine, strength sought up to C = 1,",
}

PEERS = {
    "ten lines: logistic": ("sentence-transformers", "logistic", ""),
    "ten lines: svc": ("sentence-transformers", "svc", ""),
    "ten lines: logistic, TREC alone": ("sentence-transformers", "logistic", "trec."),
    "ten lines: svc, TREC alone": ("sentence-transformers", "svc", "trec."),
    "tf-idf, linear svm": ("tfidf", "linear-svc", ""),
    "model2vec: logistic": ("model2vec", "logistic", ""),
}
"""Vectors, estimator and part of the training questions of each peer."""

TEN_LINES = {
    "ten lines: logistic": "sentence_transformers_over_semclass",
    "ten lines: svc": "sentence_transformers_svc_over_semclass",
}
"""Peers that take turns with semclass, and what their ratios are called."""

ASSUMED = "assumed_second_over_semclass"  # what the ratio of the prompted model's time is called, which nobody measured

TABLE = (
    "semclass", "ten lines: logistic", "ten lines: svc", "tf-idf, linear svm", "model2vec: logistic",
    "fine-tuned MiniLM, torch", "fine-tuned MiniLM, int8", "flan-ul2, prompted", "any prompted model",
    "most frequent class",
)  # fmt: skip
"""Rows of the README's table; a prompted model that was measured takes the place of any."""


def run(bench: Bench) -> dict[str, Any]:
    """Measure every system."""
    folder = bench.work / "peers" / ("questions-quick" if bench.quick else "questions")
    limit = QUICK if bench.quick else None
    tests = {
        "trec": first(read_questions(bench.data / "trec" / "test.tsv"), limit),
        "natural": first(labels.natural_questions(bench.data / "questions", "dev"), limit),
    }
    items = keep(folder / "items.json", {name: part.texts for name, part in tests.items()})
    taught = read_training(Namespace(data=bench.data / "trec", originals=bench.data, natural=None, extra=[])).questions
    train = keep(
        folder / "train.json",
        {"texts": taught.texts, "labels": {level: taught.labels(level) for level in ("coarse", "fine")}},
    )
    score = partial(quality, tests=tests)
    entries = [*shipped(), *peers_of(bench, folder, train)]
    systems = rows(bench, "questions", entries, items, score)
    said = [row["flan_ul2"] for row in read_tsv(bench.data / "trec" / "test.tsv")][:limit]
    systems.append(recorded(bench, "questions", measures.of_classes(tests["trec"].labels("coarse"), said)))
    systems.append(prompted_model(bench, "questions"))
    usual = {level: Counter(taught.labels(level)).most_common(1)[0][0] for level in ("coarse", "fine")}
    floor = {
        name: {key: [usual[level]] * len(part.texts) for key, level in (("label", "coarse"), ("fine", "fine"))}
        for name, part in tests.items()
    }
    systems.append(constant("most frequent class", "The class that most training questions have.", score("", floor)))
    return {
        "task": {
            "what": "Which of six types of answer does a question ask for (fine: of 50)?",
            "items": len(tests["trec"].texts),
            "natural_items": len(tests["natural"].texts),
            "training_items": len(taught.texts),
            "protocol": "Accuracy on TREC test, figures named natural_ on natural questions, split dev. All learn from the "
            "training questions of the shipped head, or as their name says; peers' settings by cross-validation on "
            "training questions. semclass was developed with the natural questions, split dev, in view; TREC test was only "
            "reported on. Timed: one question at a time, coarse class.",
            "sources": "TREC question classification (Li and Roth 2002), test; natural questions of public sets with "
            "labels of this project",
        },
        "systems": systems,
        "ratios": ratios(bench, systems, entries, items, tests["trec"]),
    }


def quality(
    _: str, answers: Mapping[str, Mapping[str, Sequence[str]]], tests: Mapping[str, Questions]
) -> dict[str, Any]:
    """Figures of answers: of TREC test by their own names, of natural questions with the prefix ``natural_``."""
    found: dict[str, Any] = {}
    for name, part in tests.items():
        prefix = "" if name == "trec" else f"{name}_"
        figures = measures.of_classes(part.labels("coarse"), answers[name]["label"])
        if "fine" in answers[name]:
            fine = measures.of_classes(part.fine, answers[name]["fine"])
            figures |= {f"fine_{key}": value for key, value in fine.items() if key != "items"}
        found |= {f"{prefix}{key}": value for key, value in figures.items()}
    return found


def shipped() -> list[Entry]:
    """Systems of semclass."""
    loader = "bench.peers.systems:semclass_questions"
    what = (
        "The shipped question head: upper layers tuned for questions over the int8 encoder's lower layers; both levels."
    )
    took = trained_seconds("questions")
    return [
        Entry("semclass", "semclass", what, loader, {"threads": 1}, train_s=took),
        Entry("semclass, 2 threads", "semclass", what, loader, {"threads": 2}, threads=2, train_s=took, like="semclass"),
        Entry(
            "semclass, no spelling repair", "semclass",
            "The same without putting misspelt words and missing question marks right first.",
            loader, {"threads": 1, "spelling": False}, train_s=took,
        ),
    ]  # fmt: skip


def peers_of(bench: Bench, folder: Path, train: Path) -> list[Entry]:
    """Train the peers, or find them trained, and name them."""
    few = FEW if bench.quick else None
    chosen = {name: peer for name, peer in PEERS.items() if not (bench.quick and ("svc" in name or peer[2]))}
    trained: dict[str, tuple[str | None, Mapping[str, Any], dict[str, Any]]] = {}
    for kind in dict.fromkeys(kind for kind, _, _ in chosen.values()):
        heads = {}
        for head, part in ((head, part) for of, head, part in chosen.values() if of == kind):
            levels = ("coarse",) if head == "svc" else ("coarse", "fine")  # fine classes by what is fitted faster
            heads |= {f"{part}{head}.{level}": (head, TREC_ONLY if part else few) for level in levels}
        trained[kind] = (
            *fitted(bench, "questions", "bench.peers.fitted:train_texts", kind, folder, train, heads=heads), heads
        )  # fmt: skip
    entries = []
    for name, (kind, head, part) in chosen.items():
        model, made, heads = trained[kind]
        levels = {"label": f"{part}{head}.coarse", "fine": f"{part}{head}.fine"}
        files = {said: str(folder / kind / f"{file}.joblib") for said, file in levels.items() if file in heads}
        options = {"kind": kind, "model": model, "heads": files}
        what = f"{VECTORS[kind]}, {HEADS[head]} of scikit-learn."
        took = made.get("train_s", {}).get(levels["label"])
        loader = "bench.peers.fitted:texts"
        entries.append(Entry(name, "peer", what, loader, options, training=made, train_s=took))
    return [*entries, *_tuned(bench, folder, train)]


def _tuned(bench: Bench, folder: Path, train: Path) -> list[Entry]:
    """The original encoder, all of it trained for the task, as transformers and as onnxruntime run it."""
    out = folder / "tuned"
    made = fine_tuned(bench, "questions/train/tuned", "bench.peers.minilm:train_one", train, out, threads=2)
    what = "The original encoder with a linear layer, all of it trained for the task by the usual recipe, three epochs"
    took = made.get("train_s")
    return [
        Entry(
            "fine-tuned MiniLM, torch", "peer", f"{what}; transformers, 32 bits.", "bench.peers.minilm:torch_texts",
            {"folder": str(out / "torch")}, training=made, train_s=took,
        ),
        Entry(
            "fine-tuned MiniLM, int8", "peer", f"{what}; exported to ONNX, quantised dynamically by onnxruntime.",
            "bench.peers.minilm:onnx_texts", {"folder": str(out / "int8"), "threads": 1}, training=made, train_s=took,
        ),
    ]  # fmt: skip


def ratios(
    bench: Bench, systems: Sequence[Mapping[str, Any]], entries: Sequence[Entry], items: Path, test: Questions
) -> dict[str, Any]:
    """How many times slower others are than semclass, in turns in one process on one thread."""
    # nothing of flan-ul2 runs here: a second a call is assumed. It is held against semclass alone, as its row says; among
    # the runs of the peers, which leave the processor's cache full of their weights, semclass takes a little longer
    by_row = {row["name"]: row for row in systems}
    second, alone = (by_row[name]["p50_ms"] for name in ("flan-ul2, prompted", "semclass"))
    prompted = {"p50_ratio": round(second / alone), "assumed_ms": second, "semclass_p50_ms": alone}
    names = [name for name in ("semclass", *TEN_LINES) if "skipped" not in by_row.get(name, {"skipped": "not there"})]
    if names[1:] == []:
        return {ASSUMED: prompted}
    by_name = {entry.name: entry for entry in entries}
    found = bench.step(
        "questions/by_turns",
        "bench.peers.systems:by_turns",
        systems={name: (by_name[name].loader, dict(by_name[name].options)) for name in names},
        items=items,
        of=" ".join([file_digest(items), *(str((by_name[name].training or {}).get("made", "")) for name in names)]),
    )
    ours = found["semclass"]["p50_ms"]
    shown = {
        TEN_LINES[name]: {
            "p50_ratio": round(found[name]["p50_ms"] / ours, 2),
            "p95_ratio": round(found[name]["p95_ms"] / found["semclass"]["p95_ms"], 2),
            "p50_ms": found[name]["p50_ms"],
            "semclass_p50_ms": ours,
            "accuracy": _accuracy(test, found[name]["answers"]),
            "semclass_accuracy": _accuracy(test, found["semclass"]["answers"]),
        }
        for name in names[1:]
    }
    return {**shown, ASSUMED: {**prompted, "p50_ratio_among_peers": round(second / ours)}}


def _accuracy(test: Questions, said: Sequence[str]) -> float:
    return float(measures.of_classes(test.labels("coarse"), said)["accuracy"])


def table(found: Mapping[str, Any]) -> str:
    """Accuracy and cost of the systems in :data:`TABLE`."""
    systems = found["questions"]["systems"]
    by_name = {row["name"]: row for row in systems}
    asked = [row for row in systems if row.get("kind") == "prompted" and not row.get("recorded")]
    head = ("text to question class, one thread", "TREC test", "natural", "ms, p50", "a second, by 64", "memory, MB",
            "disk, MB", "to train, s", "USD a million")  # fmt: skip
    shown = [row for name in TABLE for row in (asked if name == "any prompted model" else [by_name.get(name)]) if row]
    return readme.markdown(head, [_table_row(row) for row in shown])


def _table_row(row: Mapping[str, Any]) -> list[str]:
    if "skipped" in row:
        return [row["name"], f"not measured: {row['skipped']}", *["-"] * 7]
    return [
        row["name"],
        readme.with_interval(row, "accuracy"),
        readme.cell(row, "natural_accuracy", ".1%"),
        f"{row['p50_ms']:,.0f} (assumed)" if row.get("recorded") else readme.cell(row, "p50_ms", ".2f"),
        "-" if row.get("recorded") else readme.cell(row, "per_second", ",.0f"),
        readme.cell(row, "peak_mb", ",.0f"),
        readme.cell(row, "disk_mb", ",.1f"),
        readme.trained(row),
        "-" if row.get("usd_per_million") is None else readme.money(row["usd_per_million"]),
    ]


def choices(_: Mapping[str, Any]) -> str:
    """What choices brought when they were made, and how far seeds are from one another."""
    known = json.loads((Path(__file__).parent / "evidence.json").read_text(encoding="utf-8"))["questions"]
    rows = [(row["what"], f"{row['without']}", f"{row['with']}") for row in known["brought"]]
    for level in ("coarse", "fine"):
        seeds = known["seeds"][level]
        shown = f"mean {mean(seeds):.4g}, deviation {stdev(seeds):.2g}"
        rows.append((f"{known['seeds']['what']}, {level}, {len(seeds)} seeds", "-", shown))
    return readme.markdown(("choice", "without", "with"), rows)


TABLES = {"": table, "choices": choices}
PICTURES = {"questions_cost.png": pareto.of_task("questions", "accuracy")}
