"""Systems that answer: how they are timed, those that are semclass's, and rows of results.

Each imports what it needs when it is loaded, so that time and memory are its own.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import measures, prices
from bench.steps import Bench
from semclass.core.artifacts import MANIFEST, default_models, read_json, write_atomic

BATCH = 64  # items that are handed over at once where throughput is measured
TIMED, BATCHES = 500, 8  # items that are answered one at a time, and batches, at most


@dataclass(frozen=True)
class System:
    """Something that answers."""

    answer: Callable[[Sequence[Any]], list[Any]]
    folders: Sequence[Path]
    everything: Callable[[Sequence[Any]], dict[str, list[Any]]] | None = None  # more than the timed answer, by name


def measure(system: str, items: str) -> dict[str, Any]:
    """Load a system of `SYSTEMS`, time it, and keep what it answers."""
    sets = json.loads(Path(items).read_text(encoding="utf-8"))
    first = next(iter(sets.values()))
    started = time.perf_counter()
    found = SYSTEMS[system]()
    found.answer(first[:1])
    load_s = time.perf_counter() - started
    alone = measures.by_turns([[item] for item in first[:TIMED]], {"alone": found.answer})["alone"]
    batches = list(_batches(first))[:BATCHES]
    started = time.perf_counter()
    for batch in batches:
        found.answer(batch)
    took = time.perf_counter() - started
    return {
        "load_s": round(load_s, 3),
        **measures.milliseconds(alone),
        "per_second": round(sum(map(len, batches)) / took, 1),
        "disk_mb": round(sum(map(bytes_of, found.folders)) / 1e6, 2),
        "answers": {name: _answers(found, every) for name, every in sets.items()},
    }


def bytes_of(folder: Path) -> int:
    """Bytes of files without cards and pictures."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file() and one.suffix not in {".md", ".png"})


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _answers(system: System, items: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for batch in _batches(items):
        given = {"label": system.answer(batch)} if system.everything is None else system.everything(batch)
        for name, part in given.items():
            found.setdefault(name, []).extend(part)
    return found


def _models(*names: str) -> list[Path]:
    return [default_models() / name for name in names]


def questions() -> System:
    from semclass import QuestionClassifier

    classifier = QuestionClassifier.load(threads=1)

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        found = classifier.classify(texts)
        return {"label": [one.label for one in found], "fine": [one.fine for one in found]}

    return System(lambda texts: everything(texts)["label"], _models("encoder", "questions"), everything)


def passages() -> System:
    from semclass import PassageClassifier

    classifier = PassageClassifier.load(threads=1)

    def answer(texts: Sequence[str]) -> list[list[int]]:
        return [[int(name in labels) for name in classifier.classes] for labels in classifier.predict(texts)]

    return System(answer, _models("encoder", "passages"))


def entailment() -> System:
    from semclass import EntailmentClassifier

    classifier = EntailmentClassifier.load(threads=1)

    def answer(pairs: Sequence[Any]) -> list[float]:
        return classifier.predict_proba([tuple(pair) for pair in pairs])[:, 1].tolist()

    return System(answer, _models("encoder", "entailment", "deep"))


SYSTEMS = {"questions": questions, "passages": passages, "entailment": entailment}


# -- rows of results ---------------------------------------------------------------------------------------------------


RESULTS = Path(__file__).parent / "results"
MEASURED = ("p50_ms", "p95_ms", "per_second", "peak_mb", "disk_mb", "load_s", "train_s", "usd_per_million")

Answers = dict[str, dict[str, list[Any]]]
"""Answers of a system, by set and name."""


def measured(
    bench: Bench, section: str, what: str, sets: Mapping[str, Sequence[Any]], score: Callable[[Answers], dict[str, Any]]
) -> dict[str, Any]:
    """Measure the shipped system of a section in a process of its own; `score` makes figures of its answers."""
    items = bench.work / "items" / f"{section}{'-quick' * bench.quick}.json"
    data = json.dumps(sets, ensure_ascii=False).encode()
    items.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(items, data)
    identity = hashlib.sha256(data).hexdigest()
    step = bench.step(f"{section}/semclass", "bench.systems:measure", system=section, items=items, of=identity)
    answers = step.pop("answers")
    return {
        "name": "semclass", "kind": "semclass", "what": what, "threads": 1,
        "train_s": read_json(default_models() / section / MANIFEST)["training"].get("seconds"), **score(answers), **step,
        "usd_per_million": round(prices.machine_call(step["p50_ms"] / 1e3), 4),
    }  # fmt: skip


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
