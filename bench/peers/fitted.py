"""Peers of scikit-learn over vectors of texts, as its documentation has them; strengths are found on training items.

Each kind of task has a function that trains and one that loads what was trained: texts with one class, texts with several
(thresholds as the shipped passage head finds them: the best F1 on passages that were not fitted on), pairs of texts.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.peers.systems import BATCH, System
from semclass.core.errors import import_extra

Array = npt.NDArray[Any]
SEED = 0
STRENGTHS = (1.0, 10.0, 100.0)  # inverse penalties that are tried
FOLDS = 3
TRIED, TRIED_SEVERAL = 3000, 800  # items, drawn at random, that strengths are tried on; with several classes for each


def vectors(kind: str, model: str | None) -> Callable[[Sequence[str]], Any]:
    if kind == "tfidf":
        return import_extra("joblib", "bench").load(model).transform
    if kind == "sentence-transformers":
        network = import_extra("sentence_transformers", "bench").SentenceTransformer(model, device="cpu")
        return lambda texts: network.encode(list(texts), batch_size=BATCH, show_progress_bar=False)
    static = import_extra("model2vec", "bench").StaticModel.from_pretrained(model)
    return lambda texts: static.encode(list(texts))


def _fitted_vectors(kind: str, model: str | None, texts: Sequence[str], pairs: bool = False) -> Callable[..., Any]:
    """Vectors, those of TF-IDF fitted to the texts first: of words and pairs of words, and of runs of letters."""
    if kind == "tfidf":
        text = import_extra("sklearn.feature_extraction.text", "bench")
        made = text.TfidfVectorizer(sublinear_tf=True)
        if not pairs:
            made = import_extra("sklearn.pipeline", "bench").make_union(
                text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
                text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
            )
        import_extra("joblib", "bench").dump(made.fit(texts), str(model))
    return vectors(kind, model)


def distil(original: str, folder: str) -> dict[str, Any]:
    """A static model of the encoder: one vector for each word piece of its vocabulary, as model2vec distils it."""
    started = time.perf_counter()
    import_extra("skeletoken", "bench")  # model2vec distils with it, and blames itself where it is missing
    static = import_extra("model2vec.distill", "bench").distill(original, device="cpu")
    static.save_pretrained(folder)
    return {"train_s": round(time.perf_counter() - started, 1), "made": digest(Path(folder))}


def fit(
    name: str, rows: Any, labels: Sequence[Any], tried: int = TRIED, groups: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Fit to everything, with the strength that cross-validation found on `tried` items; items of a group share a fold."""
    linear, svm = import_extra("sklearn.linear_model", "bench"), import_extra("sklearn.svm", "bench")
    selection = import_extra("sklearn.model_selection", "bench")
    made = {
        "logistic": lambda: linear.LogisticRegression(max_iter=1000),
        "svc": svm.SVC,
        "linear-svc": svm.LinearSVC,
    }[name]()
    grid = {"C": [strength / 100 for strength in STRENGTHS] if name == "linear-svc" else list(STRENGTHS)}
    kind = selection.StratifiedKFold if groups is None else selection.StratifiedGroupKFold
    folds = kind(FOLDS, shuffle=True, random_state=SEED)
    given = np.asarray(labels)
    some = np.random.default_rng(SEED).permutation(len(given))[:tried]
    apart = None if groups is None else np.asarray(groups)[some]
    search = selection.GridSearchCV(made, grid, cv=folds, refit=False).fit(rows[some], given[some], groups=apart)
    return search.estimator.set_params(**search.best_params_).fit(rows, given), search.best_params_


def digest(folder: Path) -> str:
    """Identity of the files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)).hexdigest()[:16]


def _read(train: str, folder: str) -> tuple[Any, Path, Any]:
    """Training data, the folder for what is fitted, and joblib."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    return json.loads(Path(train).read_text(encoding="utf-8")), out, import_extra("joblib", "bench")


def _load(path: Path) -> Any:
    return import_extra("joblib", "bench").load(path)


def _files(model: str | None, *heads: Path) -> list[str | Path]:
    return [*([] if model is None else [model]), *heads]


def _encoded(kind: str, model: str | None, texts: list[str]) -> tuple[Any, float]:
    """Vectors of texts, and the seconds that they took."""
    started = time.perf_counter()
    return _fitted_vectors(kind, model, texts)(texts), time.perf_counter() - started


def train_texts(kind: str, model: str | None, heads: Sequence[str], train: str, folder: str, of: str) -> dict[str, Any]:
    """Fit classifiers of a text; fine classes by what is fitted faster than a support vector machine."""
    del of
    data, out, joblib = _read(train, folder)
    rows, encoding = _encoded(kind, model, data["texts"])
    found: dict[str, Any] = {}
    for head in heads:
        chosen = {}
        for level in ("coarse",) if head == "svc" else ("coarse", "fine"):
            started = time.perf_counter()
            fitted, chosen[level] = fit(head, rows, data["labels"][level])
            if level == "coarse":
                took = round(encoding + time.perf_counter() - started, 1)
            joblib.dump(fitted, out / f"{head}.{level}.joblib")
        found[head] = {"train_s": took, "chosen": chosen}
    return {**found, "made": digest(out)}


def texts(kind: str, model: str | None, folder: str, head: str) -> System:
    """Vectors and fitted classifiers of both levels."""
    levels = {"label": "coarse", "fine": "fine"}
    files = {
        name: path for name, level in levels.items() if (path := Path(folder) / f"{head}.{level}.joblib").is_file()
    }
    embed, fits = vectors(kind, model), {name: _load(path) for name, path in files.items()}

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        rows = embed(texts)
        return {name: fitted.predict(rows).tolist() for name, fitted in fits.items()}

    def answer(texts: Sequence[str]) -> list[str]:
        return list(fits["label"].predict(embed(texts)).tolist())

    return System(answer, _files(model, files["label"]), everything)


def train_several(
    kind: str, model: str | None, heads: Sequence[str], train: str, folder: str, of: str
) -> dict[str, Any]:
    """Fit, keep what is fitted to everything, and decide on held-out items by classifiers that did not see them."""
    del of
    data, out, joblib = _read(train, folder)
    rows, encoding = _encoded(kind, model, data["texts"])
    found: dict[str, Any] = {}
    for name in heads:
        said: dict[str, list[int]] = {}
        for places, held_out in data["folds"]:
            fitted = _columns(name, rows, data, np.array(places))
            said.update(zip(map(str, held_out), _decided(fitted, rows[held_out]), strict=True))
        started = time.perf_counter()
        fitted = _columns(name, rows, data, np.arange(len(data["texts"])))
        took = round(encoding + time.perf_counter() - started, 1)
        joblib.dump(fitted, out / f"{name}.joblib")
        found[name] = {"train_s": took, "said": said}
    return {**found, "made": digest(out)}


def _columns(name: str, rows: Any, data: dict[str, Any], places: Array) -> list[tuple[Any, float]]:
    """A classifier and a threshold for each class, of those `places` whose label is known."""
    from semclass.train.calibration import best_threshold
    from train_passages import inner_folds

    clone = import_extra("sklearn.base", "bench").clone
    labels, weights, articles = (np.array(data[part], float) for part in ("labels", "weights", "articles"))
    fitted = []
    for column in labels.T:
        known = places[~np.isnan(column[places])]
        truth = column[known].astype(int)
        one, _ = fit(name, rows[known], truth, TRIED_SEVERAL, articles[known])
        scores = np.zeros(len(known))
        for part, rest in inner_folds(truth, articles[known], SEED):
            apart = clone(one).fit(rows[known[part]], truth[part])
            scores[rest] = _squeezed(apart, rows[known[rest]])
        fitted.append((one, best_threshold(scores, truth == 1, weights[known])))
    return fitted


def _decided(heads: Sequence[tuple[Any, float]], rows: Any) -> list[list[int]]:
    """Which classes rows have: 1 where the squeezed score reaches the threshold of the class."""
    return np.stack([_squeezed(one, rows) >= threshold for one, threshold in heads], axis=1).astype(int).tolist()


def _squeezed(head: Any, rows: Any) -> Any:
    """Scores of a binary classifier, brought to 0 ... 1; its own decision is yes from one half on."""
    return 0.5 * (1 + np.tanh(head.decision_function(rows) / 2))


def several(kind: str, model: str | None, folder: str, head: str) -> System:
    """Vectors, and a classifier and a threshold for each of several classes."""
    path = Path(folder) / f"{head}.joblib"
    embed, heads = vectors(kind, model), _load(path)
    return System(lambda texts: _decided(heads, embed(texts)), _files(model, path))


def train_pairs(kind: str, model: str | None, heads: Sequence[str], train: str, folder: str, of: str) -> dict[str, Any]:
    """Fit a logistic regression for each way to combine the vectors of a pair."""
    del of
    data, out, joblib = _read(train, folder)
    asked, given = zip(*data["pairs"], strict=True)
    started = time.perf_counter()
    distinct = {text: place for place, text in enumerate(dict.fromkeys((*asked, *given)))}
    rows = _fitted_vectors(kind, model, list(distinct), pairs=True)(list(distinct))
    first, second = (rows[[distinct[text] for text in side]] for side in (asked, given))
    encoding = time.perf_counter() - started
    found: dict[str, Any] = {}
    for how in heads:
        started = time.perf_counter()
        fitted, chosen = fit("logistic", _combined(first, second, how), data["labels"])
        found[how] = {"train_s": round(encoding + time.perf_counter() - started, 1), "chosen": chosen}
        joblib.dump(fitted, out / f"{how}.joblib")
    return {**found, "made": digest(out)}


def pairs(kind: str, model: str | None, folder: str, head: str) -> System:
    """Vectors of both texts, and a fitted classifier of what is made of them."""
    path = Path(folder) / f"{head}.joblib"
    embed, fitted = vectors(kind, model), _load(path)

    def answer(pairs: Sequence[Any]) -> list[float]:
        asked, given = (embed(texts) for texts in zip(*pairs, strict=True))
        return list(fitted.predict_proba(_combined(asked, given, head))[:, 1].round(5).tolist())

    return System(answer, _files(model, path))


def _combined(asked: Any, given: Any, how: str) -> Any:
    """What a classifier of pairs reads: ``"products"``, u, v, |u - v| and u * v; or ``"cosine"`` of unit vectors alone."""
    if how == "cosine":
        product = asked.multiply(given) if hasattr(asked, "multiply") else asked * given
        return np.asarray(product.sum(axis=1)).reshape(-1, 1)
    return np.concatenate([asked, given, np.abs(asked - given), asked * given], axis=1)
