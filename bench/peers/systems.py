"""Systems that answer, how they are timed, and those that are semclass's.

Each imports what it needs when it is loaded, so that time and memory are its own.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import measures
from semclass.core.errors import import_extra

BATCH = 64  # items that are handed over at once where throughput is measured
TIMED, BATCHES = 500, 8  # items that are answered one at a time, and batches, at most


@dataclass(frozen=True)
class System:
    """Something that answers."""

    answer: Callable[[Sequence[Any]], list[Any]]
    files: Sequence[str | Path]
    everything: Callable[[Sequence[Any]], dict[str, list[Any]]] | None = None  # more than the timed answer, by name


def measure(loader: str, options: dict[str, Any], items: str) -> dict[str, Any]:
    """Load a system, time it, and keep what it answers."""
    sets = json.loads(Path(items).read_text(encoding="utf-8"))
    first = next(iter(sets.values()))
    started = time.perf_counter()
    system = load(loader, options)
    system.answer(first[:1])
    load_s = time.perf_counter() - started
    alone = measures.by_turns([[item] for item in first[:TIMED]], {"alone": system.answer})["alone"]
    batches = list(_batches(first))[:BATCHES]
    started = time.perf_counter()
    for batch in batches:
        system.answer(batch)
    took = time.perf_counter() - started
    return {
        "load_s": round(load_s, 3),
        **measures.milliseconds(alone),
        "per_second": round(sum(map(len, batches)) / took, 1),
        "disk_mb": round(sum(map(bytes_of, system.files)) / 1e6, 2),
        "answers": {name: _answers(system, every) for name, every in sets.items()},
    }


def load(loader: str, options: Mapping[str, Any]) -> System:
    module, _, function = loader.partition(":")
    system: System = getattr(importlib.import_module(module), function)(**options)
    return system


def files_of(path: str | Path) -> list[Path]:
    """A file, or the files of a folder."""
    path = Path(path)
    return [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())


def bytes_of(path: str | Path) -> int:
    """Bytes of files without cards and pictures."""
    return sum(one.stat().st_size for one in files_of(path) if one.suffix not in {".md", ".png"})


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
    from semclass.core.artifacts import default_models

    return [default_models() / name for name in names]


def semclass_questions() -> System:
    from semclass import QuestionClassifier

    classifier = QuestionClassifier.load(threads=1)

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        found = classifier.classify(texts)
        return {"label": [one.label for one in found], "fine": [one.fine for one in found]}

    return System(lambda texts: everything(texts)["label"], _models("encoder", "questions"), everything)


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


# -- peers of scikit-learn over vectors of texts, as its documentation has them ------------------------------------------


SEED = 0
STRENGTHS = (1.0, 10.0, 100.0)  # inverse penalties that are tried
FOLDS = 3
TRIED = 3000  # items, drawn at random, that strengths are tried on


def vectors(kind: str, model: str) -> Callable[[Sequence[str]], Any]:
    if kind == "tfidf":
        return _load(model).transform
    network = import_extra("sentence_transformers", "bench").SentenceTransformer(model, device="cpu")
    return lambda texts: network.encode(list(texts), batch_size=BATCH, show_progress_bar=False)


def _fitted(kind: str, model: str, texts: Sequence[str]) -> Callable[[Sequence[str]], Any]:
    """Vectors of a kind; TF-IDF of words, pairs of words and runs of letters is fitted first."""
    if kind == "tfidf":
        text = import_extra("sklearn.feature_extraction.text", "bench")
        words, letters = {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 4)}
        parts = (text.TfidfVectorizer(**options, sublinear_tf=True) for options in (words, letters))
        union = import_extra("sklearn.pipeline", "bench").make_union(*parts)
        import_extra("joblib", "bench").dump(union.fit(texts), model)
    return vectors(kind, model)


def fit(name: str, rows: Any, labels: Sequence[Any]) -> Any:
    """Fit to everything, with the strength that cross-validation found on `TRIED` items."""
    linear, svm = import_extra("sklearn.linear_model", "bench"), import_extra("sklearn.svm", "bench")
    selection = import_extra("sklearn.model_selection", "bench")
    made = {"logistic": lambda: linear.LogisticRegression(max_iter=1000), "svc": svm.SVC, "linear-svc": svm.LinearSVC}[
        name
    ]()
    grid = {"C": [strength / 100 for strength in STRENGTHS] if name == "linear-svc" else list(STRENGTHS)}
    folds = selection.StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    given = np.asarray(labels)
    some = np.random.default_rng(SEED).permutation(len(given))[:TRIED]
    search = selection.GridSearchCV(made, grid, cv=folds, refit=False).fit(rows[some], given[some])
    return search.estimator.set_params(**search.best_params_).fit(rows, given)


def digest(path: Path) -> str:
    """Identity of a file, or of the files of a folder."""
    return hashlib.sha256(b"".join(hashlib.sha256(one.read_bytes()).digest() for one in files_of(path))).hexdigest()[
        :16
    ]


def _load(path: str | Path) -> Any:
    return import_extra("joblib", "bench").load(path)


def train_classes(kind: str, model: str, heads: Sequence[str], train: str, folder: str) -> dict[str, Any]:
    """Fit classifiers of texts by level; fine classes by what is faster than a support vector machine."""
    data, out, joblib = json.loads(Path(train).read_text("utf-8")), Path(folder), import_extra("joblib", "bench")
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    rows = _fitted(kind, model, data["items"])(data["items"])
    encoding = time.perf_counter() - started
    found: dict[str, Any] = {}
    for head in heads:
        for level in data["labels"] if head != "svc" else ("label",):
            started = time.perf_counter()
            joblib.dump(fit(head, rows, data["labels"][level]), out / f"{head}.{level}.joblib")
        found[head] = {"train_s": round(encoding + time.perf_counter() - started, 1)}  # of the last level
    return {**found, "made": digest(out)}


def classes(kind: str, model: str, folder: str, head: str) -> System:
    """Vectors, and fitted classifiers of one or both levels."""
    paths = {name: Path(folder) / f"{head}.{name}.joblib" for name in ("label", "fine")}
    embed, fits = vectors(kind, model), {name: _load(path) for name, path in paths.items() if path.is_file()}

    def everything(texts: Sequence[str], names: Sequence[str] = tuple(fits)) -> dict[str, list[Any]]:
        rows = embed(texts)
        return {name: fits[name].predict(rows).tolist() for name in names}

    return System(lambda texts: everything(texts, ["label"])["label"], [model, paths["label"]], everything)
