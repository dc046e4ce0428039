"""Classes by name and description alone: how right, and what descriptions bring beside few examples.

The two settings of the classifier, the weight of the entailment head and the sharpness of the softmax, are chosen on
training texts of sets of another kind than the one that is measured. The rivals are the same encoder's cosines with the
name and with the description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import labels as own_labels
from bench import readme
from bench.labels import SETS, draw, figures_of, kept, mean, read
from bench.steps import Bench
from datasets_io import read_jsonl
from question_data import read_questions
from semclass import TextClassifier, ZeroShotClassifier, description_examples, read_descriptions
from semclass.core.taxonomy import COARSE_NAMES, coarse_of
from semclass.core.types import DoubleArray
from semclass.heads import described
from semclass.scoring.topk import unit
from semclass.train.calibration import log_loss

KINDS = {"banking77": "messages", "clinc150": "messages", "medquad": "diseases", "trec": "types", "natural": "types"}
"""Sets, and of what kind: settings for one are chosen on those of other kinds."""

MEASURED = {
    "banking77": "BANKING77 test, 77 intents",
    "trec": "TREC test, 6 types",
    "clinc150": "CLINC150 dev, 150 intents",
}
FOLDER = Path(__file__).parent / "descriptions"
TUNING = 1000  # training texts of a set, at most, that settings are chosen on
WEIGHTS = (0.0, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2)
SHARP = (6.0, 8.0, 11.0, 16.0, 22.0, 32.0)
SIZES = {"1": 2, "5": 1}  # examples a class, and draws of so many
SHOWN = {
    "name": "cosine with the name",
    "description": "cosine with the description",
    "cosines": "mean cosine with name, description and both",
    "left out": "`ZeroShotClassifier`, settings chosen on other kinds of sets",
    "shipped": "`ZeroShotClassifier` as it comes",
}  # fmt: skip
BESIDE = {"examples": "`TextClassifier`, examples alone", "described": "`TextClassifier`, descriptions beside them"}


def run(bench: Bench) -> dict[str, Any]:
    data, limit = bench.data, 60 if bench.quick else None
    found = {name: bench.step(f"described/{name}", "bench.described:of_set", data=data, dataset=name, limit=limit)
             for name in KINDS}  # fmt: skip
    sizes = {"1": 1} if bench.quick else SIZES
    few = {}
    for size, draws in sizes.items():
        one = bench.step(f"described/{size}", "bench.described:beside", data=data, size=size, draws=draws, limit=limit)
        few[size] = {key: one[key] for key in BESIDE if key in one}
    return {
        "no_examples": {name: measured(name, found) for name in MEASURED},
        "chosen": choose([one["grid"] for one in found.values()]),
        "few_examples": few,
    }


def of_set(data: str, dataset: str, limit: int | None) -> dict[str, Any]:
    """Figures of every setting on some training texts, and on the test texts of a set that is measured."""
    texts, truth = texts_of(Path(data), dataset, "train")
    rows = np.random.default_rng(0).permutation(len(texts))[: limit or TUNING].tolist()
    found = {"grid": figures(dataset, [texts[row] for row in rows], [truth[row] for row in rows])["grid"]}
    if dataset in MEASURED:
        texts, truth = texts_of(Path(data), dataset, "test")
        found["test"] = figures(dataset, texts[:limit], truth[:limit])
    return found


def texts_of(data: Path, name: str, part: str) -> tuple[list[str], list[str]]:
    """Texts and labels of the part ``"train"`` or ``"test"`` that have a description."""
    known = read_descriptions(FOLDER / f"{name}.json")
    if name in SETS:
        texts, truth = read(data, name, dict(zip(("train", "test"), SETS[name], strict=True))[part], None)
    elif name == "medquad":
        sections = [item for row in read_jsonl(data / "medquad" / "documents.jsonl.gz") for item in row["sections"]]
        texts, truth = [item["question"] for item in sections], [item["type"] for item in sections]
    elif name == "trec":
        found = read_questions(data / "trec" / f"{part}.tsv")
        texts, truth = list(found.texts), [COARSE_NAMES[coarse_of(label)] for label in found.fine]
    else:
        found = own_labels.natural_questions(data / "questions", "train")
        texts, truth = list(found.texts), list(found.fine)
    rows = [row for row, label in enumerate(truth) if label in known]
    return [texts[row] for row in rows], [truth[row] for row in rows]


def figures(name: str, texts: Sequence[str], truth: Sequence[str]) -> dict[str, Any]:
    """Accuracy of the cosines, and of every weight with the log loss of every sharpness."""
    told = read_descriptions(FOLDER / f"{name}.json")
    model = ZeroShotClassifier.from_descriptions(told)
    true = np.array([model.classes.index(label) for label in truth])
    encoding = model.encoder.encode(texts, views=("pooled", *described.QUESTION_VIEWS))
    pooled, said = unit(encoding.rows("pooled")), description_examples(told)[0]
    cosines = np.asarray(pooled @ model.vectors.T, np.float64)
    answered = model.log_entailment(encoding, cosines)

    def right(scores: DoubleArray) -> float:
        return round(float((scores.argmax(axis=1) == true).mean()), 4)

    def loss(scores: DoubleArray, sharp: float) -> float:
        powers = np.exp(sharp * (scores - scores.max(axis=1, keepdims=True)))
        return round(log_loss(powers / powers.sum(axis=1, keepdims=True), true, "softmax"), 4)

    alone = {key: right(pooled @ unit(model.encoder.encode(said[place::3]).rows("pooled")).T)
             for place, key in enumerate(("name", "description"))}  # fmt: skip
    grid = {}
    for weight in WEIGHTS:
        scores = cosines + weight * answered
        grid[f"{weight:g}"] = {
            "accuracy": right(scores), "log_loss": {f"{sharp:g}": loss(scores, sharp) for sharp in SHARP}
        }  # fmt: skip
    return {"items": len(texts), **alone, "grid": grid}


def choose(grids: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The weight and the sharpness of the least mean log loss."""
    pairs = [(weight, sharp) for weight in grids[0] for sharp in grids[0][weight]["log_loss"]]
    weight, sharp = min(pairs, key=lambda pair: np.mean([grid[pair[0]]["log_loss"][pair[1]] for grid in grids]))
    return {"weight": weight, "sharpness": sharp}


def measured(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Figures on the test texts of a set, with settings of other kinds of sets and with those that ship."""
    test = found[name]["test"]
    others = choose([found[other]["grid"] for other, kind in KINDS.items() if kind != KINDS[name]])
    ships = {"weight": f"{described.ENTAILMENT:g}", "sharpness": f"{described.SHARPNESS:g}"}

    def of(chosen: Mapping[str, str]) -> dict[str, Any]:
        one = test["grid"][chosen["weight"]]
        return {**chosen, "accuracy": one["accuracy"], "log_loss": one["log_loss"][chosen["sharpness"]]}

    alone = {key: {"accuracy": test[key]} for key in ("name", "description")}
    plain = {"cosines": {"accuracy": test["grid"]["0"]["accuracy"]}}
    return {"items": test["items"], "systems": {**alone, **plain, "left out": of(others), "shipped": of(ships)}}


def beside(data: str, size: str, draws: int, limit: int | None) -> dict[str, Any]:
    """``TextClassifier`` with so many examples of each intent of BANKING77, and with descriptions beside them."""
    parts = [read(Path(data), "banking77", part, None) for part in SETS["banking77"]]
    (texts, labels), (tried, truth) = parts
    said, theirs = description_examples(read_descriptions(FOLDER / "banking77.json"))
    encoder = kept(sorted({*texts, *tried, *said}))
    found: dict[str, list[dict[str, Any]]] = {key: [] for key in BESIDE}
    for seed in range(draws):
        rows = draw(labels, size, seed)
        some, names = [texts[row] for row in rows], [labels[row] for row in rows]
        for key, more in (("examples", ([], [])), ("described", (said, theirs))):
            if key == "examples" and size == "1":
                continue  # too few for a head of their own
            model = TextClassifier(encoder).fit([*some, *more[0]], [*names, *more[1]])
            found[key].append({"seconds": 0.0, **figures_of(model, tried[:limit], truth[:limit])})
    return {key: {**mean(one), "draws": len(one)} for key, one in found.items() if one}


def table(found: Mapping[str, Any]) -> str:
    results = found["described"]["no_examples"]
    head = ("no example of any class", *(MEASURED[name] for name in results))
    rows = []
    for key, label in SHOWN.items():
        systems = [results[name]["systems"][key] for name in results]
        cells = [f"{one['accuracy']:.1%}" + (f", log loss {one['log_loss']:.2f}" if "log_loss" in one else "")
                 for one in systems]  # fmt: skip
        rows.append((label, *cells))
    return readme.markdown(head, rows)


def table_of_few(found: Mapping[str, Any]) -> str:
    rows = [
        (f"{size}", BESIDE[key], f"{one['accuracy']:.1%}", f"{one['log_loss']:.2f}")
        for size, systems in found["described"]["few_examples"].items()
        for key, one in systems.items()
    ]
    return readme.markdown(("BANKING77, examples a class", "classifier", "accuracy", "log loss"), rows)


TABLES = {"": table, "few": table_of_few}
