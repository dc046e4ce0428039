"""Systems that answer, how they are timed, and those that are semclass's.

Each imports what it needs when it is loaded, so that time and memory are its own.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import timing

BATCH = 64  # items that are handed over at once where throughput is measured
TIMED, BATCHES = 500, 8  # items that are answered one at a time, and batches, at most


@dataclass(frozen=True)
class System:
    """Something that answers."""

    answer: Callable[[Sequence[Any]], list[Any]]
    files: Sequence[str | Path]
    everything: Callable[[Sequence[Any]], dict[str, list[Any]]] | None = (
        None  # more answers than the timed one, by name
    )


def measure(loader: str, options: dict[str, Any], items: str, of: str) -> dict[str, Any]:
    """Load a system, time it, and keep what it answers."""
    del of
    sets = json.loads(Path(items).read_text(encoding="utf-8"))
    first = next(iter(sets.values()))
    started = time.perf_counter()
    system = load(loader, options)
    system.answer(first[:1])
    load_s = time.perf_counter() - started
    alone = timing.each([[item] for item in first[:TIMED]], system.answer)
    batches = list(_batches(first))[:BATCHES]
    started = time.perf_counter()
    for batch in batches:
        system.answer(batch)
    took = time.perf_counter() - started
    return {
        "load_s": round(load_s, 3),
        **timing.milliseconds(alone),
        "per_second": round(sum(map(len, batches)) / took, 1),
        "disk_mb": round(sum(map(bytes_of, system.files)) / 1e6, 2),
        "answers": {name: _answers(system, every) for name, every in sets.items()},
    }


def by_turns(systems: dict[str, tuple[str, dict[str, Any]]], items: str, of: str) -> dict[str, Any]:
    """Time several systems in turns, so that a ratio of their times is of the same moments."""
    del of
    first = next(iter(json.loads(Path(items).read_text(encoding="utf-8")).values()))
    loaded = {name: load(loader, options).answer for name, (loader, options) in systems.items()}
    seconds = timing.by_turns([[item] for item in first], loaded)
    return {
        name: {
            **timing.milliseconds(seconds[name]),
            "answers": [one for batch in _batches(first) for one in answer(batch)],
        }
        for name, answer in loaded.items()
    }


def load(loader: str, options: Mapping[str, Any]) -> System:
    module, _, function = loader.partition(":")
    system: System = getattr(importlib.import_module(module), function)(**options)
    return system


def bytes_of(path: str | Path) -> int:
    """Bytes of a file, or of a folder's files without cards and pictures."""
    path = Path(path)
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sum(one.stat().st_size for one in files if one.suffix not in {".md", ".png"})


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
    from semclass.core import artifacts

    return [artifacts.default_models() / name for name in names]


def semclass_questions(head: str = "questions") -> System:
    from semclass import QuestionClassifier

    classifier = QuestionClassifier.load(head=head, threads=1)

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        found = classifier.classify(texts)
        return {"label": [one.label for one in found], "fine": [one.fine for one in found]}

    return System(lambda texts: everything(texts)["label"], _models("encoder", head), everything)


def semclass_passages() -> System:
    from semclass import PassageClassifier

    classifier = PassageClassifier.load(threads=1)

    def answer(texts: Sequence[str]) -> list[list[int]]:
        return [[int(name in labels) for name in classifier.classes] for labels in classifier.predict(texts)]

    return System(answer, _models("encoder", "passages"))


def semclass_entailment() -> System:
    from semclass import EntailmentClassifier

    classifier = EntailmentClassifier.load(threads=1)

    def answer(pairs: Sequence[Any]) -> list[float]:
        return classifier.predict_proba([tuple(pair) for pair in pairs])[:, 1].tolist()

    return System(answer, _models("encoder", "entailment", "deep"))


def cross_encoder(folder: str) -> System:
    """A network that reads both texts of a pair together; its answers are logits."""
    from bench.peers.cross_encoder import CrossEncoder

    network = CrossEncoder.load(Path(folder), threads=1)

    def answer(pairs: Sequence[Any]) -> list[float]:
        return [round(float(network.scores(question, [text])[0]), 4) for question, text in pairs]

    return System(answer, [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"])
