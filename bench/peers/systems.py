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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bench import measures
from semclass.core.errors import import_extra

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

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


def cross_encoder(folder: str) -> System:
    """A network that reads both texts of a pair together; its answers are logits."""
    network = CrossEncoder.load(Path(folder), threads=1)

    def answer(pairs: Sequence[Any]) -> list[float]:
        return [round(float(network.scores(question, [text])[0]), 4) for question, text in pairs]

    return System(answer, [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"])


# -- peers of scikit-learn over vectors of texts, as its documentation has them ------------------------------------------


Array = npt.NDArray[Any]
SEED = 0
STRENGTHS = (1.0, 10.0, 100.0)  # inverse penalties that are tried
FOLDS = 3
TRIED, TRIED_SEVERAL = 3000, 800  # items, drawn at random, that strengths are tried on; with several classes for each


def vectors(kind: str, model: str) -> Callable[[Sequence[str]], Any]:
    if kind == "tfidf":
        return _load(model).transform
    if kind == "sentence-transformers":
        network = import_extra("sentence_transformers", "bench").SentenceTransformer(model, device="cpu")
        return lambda texts: network.encode(list(texts), batch_size=BATCH, show_progress_bar=False)
    static = import_extra("model2vec", "bench").StaticModel.from_pretrained(model)
    return lambda texts: static.encode(list(texts))


def _fitted(kind: str, model: str, items: Sequence[Any]) -> Callable[[Sequence[str]], Any]:
    """Vectors of a kind; TF-IDF is fitted first: words, and of single texts pairs of words and runs of letters."""
    if kind == "tfidf":
        text = import_extra("sklearn.feature_extraction.text", "bench")
        made, texts = text.TfidfVectorizer(sublinear_tf=True), dict.fromkeys(text for pair in items for text in pair)
        if isinstance(items[0], str):
            words, letters = {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 4)}
            parts = (text.TfidfVectorizer(**options, sublinear_tf=True) for options in (words, letters))
            made, texts = import_extra("sklearn.pipeline", "bench").make_union(*parts), items
        import_extra("joblib", "bench").dump(made.fit(texts), model)
    return vectors(kind, model)


def _rows(embed: Callable[[Sequence[str]], Any], items: Sequence[Any], how: str) -> Any:
    """What a classifier reads of texts; or of pairs of texts, combined in the way `how`, see :func:`_combined`."""
    if isinstance(items[0], str):
        return embed(items)
    places = {text: place for place, text in enumerate(dict.fromkeys(text for pair in items for text in pair))}
    found = embed(list(places))
    first, second = (found[[places[pair[side]] for pair in items]] for side in (0, 1))
    return _combined(first, second, how)


def distil(original: str, folder: str) -> dict[str, Any]:
    """A static model of the encoder: one vector for each word piece of its vocabulary, as model2vec distils it."""
    started = time.perf_counter()
    import_extra("skeletoken", "bench")  # model2vec distils with it, and blames itself where it is missing
    static = import_extra("model2vec.distill", "bench").distill(original, device="cpu")
    static.save_pretrained(folder)
    return {"train_s": round(time.perf_counter() - started, 1), "made": digest(Path(folder))}


def fit(name: str, rows: Any, labels: Sequence[Any], tried: int = TRIED, groups: Any = None) -> Any:
    """Fit to everything, with the strength that cross-validation found on `tried` items; items of a group share a fold."""
    linear, svm = import_extra("sklearn.linear_model", "bench"), import_extra("sklearn.svm", "bench")
    selection = import_extra("sklearn.model_selection", "bench")
    made = {"logistic": lambda: linear.LogisticRegression(max_iter=1000), "svc": svm.SVC, "linear-svc": svm.LinearSVC}[
        name
    ]()
    grid = {"C": [strength / 100 for strength in STRENGTHS] if name == "linear-svc" else list(STRENGTHS)}
    kind = selection.StratifiedKFold if groups is None else selection.StratifiedGroupKFold
    folds = kind(FOLDS, shuffle=True, random_state=SEED)
    given = np.asarray(labels)
    some = np.random.default_rng(SEED).permutation(len(given))[:tried]
    apart = None if groups is None else np.asarray(groups)[some]
    search = selection.GridSearchCV(made, grid, cv=folds, refit=False).fit(rows[some], given[some], groups=apart)
    return search.estimator.set_params(**search.best_params_).fit(rows, given)


def digest(path: Path) -> str:
    """Identity of a file, or of the files of a folder."""
    return hashlib.sha256(b"".join(hashlib.sha256(one.read_bytes()).digest() for one in files_of(path))).hexdigest()[
        :16
    ]


def _read(train: str, folder: str) -> tuple[Any, Path, Any]:
    """Training data, the folder for what is fitted, and joblib."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    return json.loads(Path(train).read_text(encoding="utf-8")), out, import_extra("joblib", "bench")


def _load(path: str | Path) -> Any:
    return import_extra("joblib", "bench").load(path)


def train_classes(kind: str, model: str, heads: Sequence[str], train: str, folder: str) -> dict[str, Any]:
    """Fit classifiers of texts, or of pairs, by level; fine classes by what is faster than a support vector machine.

    A classifier of pairs is a logistic regression over their combined vectors.
    """
    data, out, joblib = _read(train, folder)
    items, started = data["items"], time.perf_counter()
    rows = _rows(_fitted(kind, model, items), items, heads[0])  # pairs have one head for each kind of vectors
    encoding = time.perf_counter() - started
    found: dict[str, Any] = {}
    for head in heads:
        for level in data["labels"] if head != "svc" else ("label",):
            started = time.perf_counter()
            fitted = fit(head if isinstance(items[0], str) else "logistic", rows, data["labels"][level])
            joblib.dump(fitted, out / f"{head}.{level}.joblib")
        found[head] = {"train_s": round(encoding + time.perf_counter() - started, 1)}  # of the last level
    return {**found, "made": digest(out)}


def classes(kind: str, model: str, folder: str, head: str) -> System:
    """Vectors, and fitted classifiers of one or both levels; of pairs, the probability of yes."""
    paths = {name: Path(folder) / f"{head}.{name}.joblib" for name in ("label", "fine")}
    embed, fits = vectors(kind, model), {name: _load(path) for name, path in paths.items() if path.is_file()}

    def everything(items: Sequence[Any], names: Sequence[str] = tuple(fits)) -> dict[str, list[Any]]:
        rows = _rows(embed, items, head)
        if isinstance(items[0], str):
            return {name: fits[name].predict(rows).tolist() for name in names}
        return {name: fits[name].predict_proba(rows)[:, 1].round(5).tolist() for name in names}

    return System(lambda items: everything(items, ["label"])["label"], [model, paths["label"]], everything)


def train_several(kind: str, model: str, heads: Sequence[str], train: str, folder: str) -> dict[str, Any]:
    """Fit, keep what is fitted to everything, and decide on held-out items by classifiers that did not see them."""
    data, out, joblib = _read(train, folder)
    started = time.perf_counter()
    rows = _fitted(kind, model, data["texts"])(data["texts"])
    encoding = time.perf_counter() - started
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
    from semclass.train.fitted import best_threshold
    from train_passages import inner_folds

    clone = import_extra("sklearn.base", "bench").clone
    labels, weights, articles = (np.array(data[part], float) for part in ("labels", "weights", "articles"))
    fitted = []
    for column in labels.T:
        known = places[~np.isnan(column[places])]
        truth = column[known].astype(int)
        one = fit(name, rows[known], truth, TRIED_SEVERAL, articles[known])
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


def several(kind: str, model: str, folder: str, head: str) -> System:
    """Vectors, and a classifier and a threshold for each of several classes."""
    path = Path(folder) / f"{head}.joblib"
    embed, heads = vectors(kind, model), _load(path)
    return System(lambda texts: _decided(heads, embed(texts)), [model, path])


def _combined(asked: Any, given: Any, how: str) -> Any:
    """What a classifier of pairs reads: ``"products"``, u, v, |u - v| and u * v; or ``"cosine"`` of unit vectors alone."""
    if how == "cosine":
        product = asked.multiply(given) if hasattr(asked, "multiply") else asked * given
        return np.asarray(product.sum(axis=1)).reshape(-1, 1)
    return np.concatenate([asked, given, np.abs(asked - given), asked * given], axis=1)


# -- the cross-encoder, which reads question and passage together ----------------------------------------------------------


INPUTS = ("input_ids", "token_type_ids", "attention_mask")


@dataclass(frozen=True)
class CrossEncoder:
    """A network that scores a question and a passage together."""

    session: onnxruntime.InferenceSession
    tokenizer: tokenizers.Tokenizer
    manifest: dict[str, Any]

    @classmethod
    def load(cls, folder: Path, *, threads: int = 1) -> CrossEncoder:
        """Load a folder of the network and its tokeniser."""
        from semclass.core import artifacts
        from semclass.core.onnx_sessions import open_session

        artifact = artifacts.load_artifact(folder, "cross-encoder")
        tokenizer = pair_tokenizer(artifact.read("tokenizer.json"), int(artifact.field("max_length")))
        return cls(open_session(artifact, "model.onnx", threads), tokenizer, dict(artifact.manifest))

    def scores(self, question: str, passages: Sequence[str]) -> Array:
        """Logits of passages for a question, float32 (n,)."""
        pairs = self.tokenizer.encode_batch([(question, passage) for passage in passages])
        return np.concatenate([self.session.run(["logits"], feed([pair]))[0] for pair in pairs])


def pair_tokenizer(data: bytes, max_length: int) -> tokenizers.Tokenizer:
    """A tokeniser that makes pairs of `max_length` word pieces at most by cutting the second text."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_buffer(data)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length, strategy="only_second")
    return tokenizer


def feed(pairs: Sequence[tokenizers.Encoding]) -> dict[str, Array]:
    """Inputs of a run, padded to the longest pair."""
    lengths = np.array([len(pair.ids) for pair in pairs])
    inputs = {name: np.zeros((len(pairs), lengths.max()), np.int64) for name in INPUTS}
    for row, pair in enumerate(pairs):
        for name, values in zip(INPUTS, (pair.ids, pair.type_ids, pair.attention_mask), strict=True):
            inputs[name][row, : len(values)] = values
    return inputs
