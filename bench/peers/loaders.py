"""Systems that are compared; each imports what it needs when it is loaded, so that time and memory are its own."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import timing

BATCH = 64  # items that are handed over at once where throughput is measured
TIMED, BATCHES = 500, 8  # items that are answered one at a time, and batches, at most
Answers = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class System:
    """Something that answers."""

    answer: Answers
    files: Sequence[str | Path]
    everything: Callable[[Sequence[Any]], dict[str, list[Any]]] | None = None


def measure(loader: str, options: dict[str, Any], items: str, of: str, quality: bool = True) -> dict[str, Any]:
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
    result = {
        "load_s": round(load_s, 3),
        **timing.milliseconds(alone),
        "per_second": round(sum(map(len, batches)) / took, 1),
        "disk_mb": round(sum(map(bytes_of, system.files)) / 1e6, 2),
    }
    if not quality:
        return result
    return {**result, "answers": {name: _answers(system, every) for name, every in sets.items()}}


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
    """Load a system by its loader's name."""
    module, _, function = loader.partition(":")
    system: System = getattr(importlib.import_module(module), function)(**options)
    return system


def bytes_of(path: str | Path) -> int:
    """Bytes of a file, or of a folder's files without cards and pictures."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file() and one.suffix not in {".md", ".png"})


def _batches(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _answers(system: System, items: Sequence[Any]) -> dict[str, list[Any]]:
    """Every answer to every item, by name."""
    found: dict[str, list[Any]] = {}
    for batch in _batches(items):
        given = {"label": system.answer(batch)} if system.everything is None else system.everything(batch)
        for name, part in given.items():
            found.setdefault(name, []).extend(part)
    return found


# -- semclass -------------------------------------------------------------------------------------------------------------


def _models(*names: str) -> list[Path]:
    from semclass.core import artifacts

    return [artifacts.default_models() / name for name in names]


def semclass_questions(threads: int, spelling: bool = True) -> System:
    """The shipped question head; `spelling`: as it ships, misspelt words and missing question marks are put right."""
    from semclass import QuestionClassifier

    classifier = QuestionClassifier.load(threads=threads)
    if not spelling:
        vars(classifier)["speller"] = None  # where the property keeps it

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        found = classifier.predict(texts)
        return {"label": [one.label for one in found], "fine": [one.fine for one in found]}

    return System(lambda texts: everything(texts)["label"], _models("encoder", "questions"), everything)


def semclass_passages(threads: int) -> System:
    """The shipped passage head."""
    from semclass import PassageClassifier

    classifier = PassageClassifier.load(threads=threads)
    return System(
        lambda texts: [
            [int(name in found.labels) for name in classifier.classes] for found in classifier.predict(texts)
        ],
        _models("encoder", "passages"),
    )


def semclass_entailment(threads: int) -> System:
    """The shipped entailment classifier."""
    from semclass import EntailmentClassifier

    classifier = EntailmentClassifier.load(threads=threads)
    return System(
        lambda pairs: [found.probability for found in classifier.predict([tuple(pair) for pair in pairs])],
        _models("encoder", "entailment"),
    )


def semclass_pair_head(threads: int, method: str) -> System:
    """A shipped pair head, which is meant for the first ten of a retriever, with one sentence as all that was found."""
    from semclass import Reranker

    reranker = Reranker.load(threads=threads)

    def answer(pairs: Sequence[Any]) -> list[float]:
        hits = (reranker.rerank(asked, [given], method=method)[0] for asked, given in pairs)
        return [hit.components["answers"] for hit in hits]

    return System(answer, _models("encoder", "entailment", "passages", "questions", "match", "pairs"))


# -- scikit-learn over vectors ------------------------------------------------------------------------------------------


def vectors(kind: str, model: str | None) -> Callable[[Sequence[str]], Any]:
    """What makes vectors of texts."""
    from semclass.core.errors import import_extra

    if kind == "tfidf":
        return fitted(str(model)).transform
    if kind == "sentence-transformers":
        network = import_extra("sentence_transformers", "bench").SentenceTransformer(model, device="cpu")
        return lambda texts: network.encode(list(texts), batch_size=BATCH, show_progress_bar=False)
    if kind == "model2vec":
        static = import_extra("model2vec", "bench").StaticModel.from_pretrained(model)
        return lambda texts: static.encode(list(texts))
    raise ValueError(f"{kind!r} are no vectors that peers are fitted over")


def fitted_texts(kind: str, model: str | None, heads: dict[str, str]) -> System:
    """Vectors and a fitted classifier; `heads`: files by name of the answer, ``"label"`` being the timed one."""
    embed, fits = vectors(kind, model), {name: fitted(path) for name, path in heads.items()}

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        rows = embed(texts)
        return {name: head.predict(rows).tolist() for name, head in fits.items()}

    return System(lambda texts: fits["label"].predict(embed(texts)).tolist(), _files(model, heads["label"]), everything)


def fitted_several(kind: str, model: str | None, head: str) -> System:
    """Vectors, and a classifier and a threshold for each of several classes."""
    embed, heads = vectors(kind, model), fitted(head)
    return System(lambda texts: decided(heads, embed(texts)), _files(model, head))


def decided(heads: Sequence[tuple[Any, float]], rows: Any) -> list[list[int]]:
    """Which of several classes rows have: 1 where the squeezed score reaches the threshold of the class."""
    return np.stack([squeezed(one, rows) >= threshold for one, threshold in heads], axis=1).astype(int).tolist()


def squeezed(head: Any, rows: Any) -> Any:
    """Scores of a binary classifier, brought to 0 ... 1; its own decision is yes from one half on."""
    return 0.5 * (1 + np.tanh(head.decision_function(rows) / 2))


def fitted_pairs(kind: str, model: str | None, heads: dict[str, str], timed: str) -> System:
    """Vectors of both texts, and a fitted classifier of what :func:`combined` makes of them; `heads`: files by how."""
    embed, fits = vectors(kind, model), {how: fitted(path) for how, path in heads.items()}

    def answers(pairs: Sequence[Any], hows: Iterable[str]) -> dict[str, list[float]]:
        asked, given = (embed(texts) for texts in zip(*pairs, strict=True))
        return {how: fits[how].predict_proba(combined(asked, given, how))[:, 1].round(5).tolist() for how in hows}

    def everything(pairs: Sequence[Any]) -> dict[str, list[float]]:
        found = answers(pairs, fits)
        return {"label": found[timed], **found}

    return System(lambda pairs: answers(pairs, [timed])[timed], _files(model, heads[timed]), everything)


def combined(asked: Any, given: Any, how: str) -> Any:
    """What a classifier of pairs reads: ``"products"``, u, v, |u - v| and u * v; or ``"cosine"`` of unit vectors alone."""
    if how == "cosine":
        product = asked.multiply(given) if hasattr(asked, "multiply") else asked * given
        return np.asarray(product.sum(axis=1)).reshape(-1, 1)
    return np.concatenate([asked, given, np.abs(asked - given), asked * given], axis=1)


def fitted(path: str) -> Any:
    """What scikit-learn fitted here, as its users keep it."""
    from semclass.core.errors import import_extra

    return import_extra("joblib", "bench").load(path)


def _files(model: str | None, head: str) -> list[str]:
    return [head] if model is None else [model, head]


# -- networks in ONNX -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """A folder with ``model.onnx`` and ``tokenizer.json``, run as its users would: by onnxruntime and tokenizers alone."""

    session: Any
    tokenizer: Any

    @classmethod
    def load(cls, folder: str, threads: int, length: int) -> Network:
        """Load it; it reads `length` word pieces."""
        import onnxruntime
        import tokenizers

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        tokenizer = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(length)
        path = str(Path(folder) / "model.onnx")
        return cls(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]), tokenizer)

    def logits(self, texts: Sequence[str]) -> Any:
        """Of texts, float32 (n, ...); each is a run of its own, which on few threads is faster than padding."""
        return np.concatenate([self.session.run(["logits"], self._feed(text))[0] for text in texts])

    def _feed(self, text: str) -> dict[str, Any]:
        read = self.tokenizer.encode(text)
        rows = {"input_ids": read.ids, "token_type_ids": read.type_ids, "attention_mask": read.attention_mask}
        wanted = {one.name for one in self.session.get_inputs()}
        return {name: np.array([row], np.int64) for name, row in rows.items() if name in wanted}


def onnx_texts(folder: str, threads: int, length: int = 64) -> System:
    """A fine-tuned network that tells the class of a text; ``classes.json`` names its columns."""
    network = Network.load(folder, threads, length)
    return of_logits(network.logits, classes(folder), [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"])


def onnx_several(folder: str, threads: int, length: int) -> System:
    """A fine-tuned network with an output for each of several classes; ``thresholds.json`` says from which logit on."""
    network, least = Network.load(folder, threads, length), thresholds(folder)
    return System(
        lambda texts: (network.logits(texts) >= least).astype(int).tolist(),
        [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"],
    )


def thresholds(folder: str) -> list[float]:
    """From which logit on each column of a fine-tuned network says yes."""
    return [float(value) for value in json.loads((Path(folder) / "thresholds.json").read_text())]


def of_logits(logits: Callable[[Sequence[str]], Any], names: Sequence[str], files: Sequence[str | Path]) -> System:
    """A network whose columns are fine classes; its label is the coarse class that is likeliest."""

    def everything(texts: Sequence[str]) -> dict[str, list[str]]:
        rows = logits(texts)
        return {"label": coarse_names(rows, names), "fine": [names[place] for place in rows.argmax(axis=1)]}

    return System(lambda texts: coarse_names(logits(texts), names), files, everything)


def classes(folder: str) -> list[str]:
    """Names of a fine-tuned network's columns."""
    return [str(name) for name in json.loads((Path(folder) / "classes.json").read_text())]


def coarse_names(logits: Any, names: Sequence[str]) -> list[str]:
    """The coarse class whose fine classes have the largest probability together."""
    above = sorted({name.partition(":")[0] for name in names})
    member = np.array([[name.partition(":")[0] == one for one in above] for name in names], float)
    rows = np.asarray(logits, np.float64)
    shares = np.exp(rows - rows.max(axis=1, keepdims=True)) @ member
    return [above[place] for place in shares.argmax(axis=1)]


def onnx_pairs(folder: str, threads: int) -> System:
    """A cross-encoder: a network that reads both texts of a pair together; its answers are logits."""
    from bench.peers.cross_encoder import CrossEncoder

    network = CrossEncoder.load(Path(folder), threads=threads)
    return System(
        lambda pairs: [round(float(network.scores(question, [text])[0]), 4) for question, text in pairs],
        [Path(folder) / "model.onnx", Path(folder) / "tokenizer.json"],
    )
