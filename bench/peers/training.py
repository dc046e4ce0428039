"""Peers fitted by scikit-learn, as its documentation has them; strengths are found on training items."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import loaders
from semclass.core.errors import import_extra

SEED = 0
STRENGTHS = (1.0, 10.0, 100.0)  # inverse penalties that are tried
FOLDS = 3
TRIED = 3000  # items, drawn at random, that strengths are tried on; what is then fitted has all of them


def estimator(name: str, grouped: bool = False) -> Any:
    """An estimator by name, its strength found by cross-validation; items of a group share a fold if `grouped`."""
    linear, svm = import_extra("sklearn.linear_model", "bench"), import_extra("sklearn.svm", "bench")
    search = import_extra("sklearn.model_selection", "bench")
    made = {
        "logistic": lambda: linear.LogisticRegression(max_iter=1000),
        "svc": svm.SVC,
        "linear-svc": svm.LinearSVC,
    }[name]()
    grid = {"C": [strength / 100 for strength in STRENGTHS] if name == "linear-svc" else list(STRENGTHS)}
    kind = search.StratifiedGroupKFold if grouped else search.StratifiedKFold
    folds = kind(FOLDS, shuffle=True, random_state=SEED)
    return search.GridSearchCV(made, grid, cv=folds, refit=False)


def tfidf() -> Any:
    """TF-IDF of words and pairs of words, and of runs of letters within words."""
    text = import_extra("sklearn.feature_extraction.text", "bench")
    return import_extra("sklearn.pipeline", "bench").make_union(
        text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )


def distil(original: str, folder: str) -> dict[str, Any]:
    """A static model of the encoder: one vector for each word piece of its vocabulary, as model2vec distils it."""
    started = time.perf_counter()
    import_extra("skeletoken", "bench")  # model2vec distils with it, and blames itself where it is not there
    static = import_extra("model2vec.distill", "bench").distill(original, device="cpu")
    static.save_pretrained(folder)
    return {"train_s": round(time.perf_counter() - started, 1), "made": digest(Path(folder))}


def fit_texts(
    kind: str, model: str | None, heads: dict[str, tuple[str, int | None]], train: str, folder: str, of: str
) -> dict[str, Any]:
    """Fit classifiers of a text and keep them in a folder."""
    del of
    data = json.loads(Path(train).read_text(encoding="utf-8"))
    most = None if None in (counts := [count for _, count in heads.values()]) else max(counts)
    texts = data["texts"][:most]
    started = time.perf_counter()
    if kind == "tfidf":
        import_extra("joblib", "bench").dump(tfidf().fit(texts), str(model))
    rows = loaders.vectors(kind, model)(texts)
    encoding = (time.perf_counter() - started) / len(texts)
    out, took, chosen = Path(folder), {}, {}
    out.mkdir(parents=True, exist_ok=True)
    for file, (name, count) in heads.items():
        labels = data["labels"][file.rpartition(".")[2]][:count]
        started = time.perf_counter()
        fitted, chosen[file] = fit(name, rows[:count], labels)
        took[file] = round(encoding * len(labels) + time.perf_counter() - started, 1)
        import_extra("joblib", "bench").dump(fitted, out / f"{file}.joblib")
    return {"train_s": took, "chosen": chosen, "made": digest(out)}


def fit(
    name: str, rows: Any, labels: Sequence[Any], tried: int = TRIED, groups: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Fit to everything, with the strength that cross-validation found on `tried` items."""
    given = np.asarray(labels)
    some = np.random.default_rng(SEED).permutation(len(given))[:tried]
    apart = None if groups is None else np.asarray(groups)[some]
    search = estimator(name, groups is not None).fit(rows[some], given[some], groups=apart)
    return search.estimator.set_params(**search.best_params_).fit(rows, given), search.best_params_


def digest(folder: Path) -> str:
    """Identity of the files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()[:16]
