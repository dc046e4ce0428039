"""A taxonomy with few labels: ``TextClassifier`` beside logistic regressions over the same vectors and over TF-IDF.

Each regression is shown with the C that is best *on the test part*, which favours it. Texts are encoded once,
beforehand.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from bench import readme
from bench.steps import Bench
from semclass import Encoding, OnnxEncoder, TextClassifier
from semclass.core.types import FloatArray, Ragged
from semclass.train.calibration import log_loss

SETS = {"banking77": ("train", "test"), "clinc150": ("train", "dev")}  # parts to fit to and to try on
OUTSIDE = "oos"  # CLINC150's label of messages that have none of its intents
SIZES = {"banking77": {"5": 5, "10": 5, "all": 1}, "clinc150": {"5": 5, "10": 5}}
"""Examples a class, and draws of so many, by set."""

STRENGTHS = (1.0, 10.0, 30.0, 100.0)  # C of the logistic regressions; 1 is scikit-learn's default
SHOWN = {"semclass": "TextClassifier", "pooled": "ten lines over `pooled`", "tfidf": "ten lines over TF-IDF"}
"""Systems, as the table names them."""


@dataclass(frozen=True)
class Kept:
    """An encoder that looks texts up: what the shipped one gave for them."""

    fingerprint: str
    views: dict[str, int]
    rows: dict[str, int]
    terms: Ragged
    pooled: FloatArray
    layers: FloatArray

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """The views of texts that are kept."""
        rows = np.array([self.rows[text] for text in texts], np.int64)
        found = {name: getattr(self, name)[rows] for name in views}
        return Encoding(terms=self.terms.take(rows), **found)


def read(data: Path, name: str, part: str, classes: int | None) -> tuple[list[str], list[str]]:
    """Texts and labels of a part; messages without an intent are left out."""
    with gzip.open(data / "intents" / f"{name}.{part}.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    names = sorted({row[0] for row in rows} - {OUTSIDE})[:classes]
    rows = [row for row in rows if row[0] in names]
    return [row[1] for row in rows], [row[0] for row in rows]


def kept(texts: Sequence[str]) -> Kept:
    """Every text of a set, encoded once."""
    encoder = OnnxEncoder.load()
    found = encoder.encode(texts, views=("pooled", "layers"))
    return Kept(
        fingerprint=encoder.fingerprint,
        views={view: encoder.views[view] for view in ("pooled", "layers")},
        rows={text: row for row, text in enumerate(texts)},
        terms=found.terms,
        pooled=found.rows("pooled"),
        layers=found.rows("layers"),
    )


def draw(labels: Sequence[str], size: str, seed: int) -> list[int]:
    """Rows of so many examples of each class, or of all."""
    if size == "all":
        return list(range(len(labels)))
    order = np.random.default_rng(seed).permutation(len(labels))
    names = np.array(labels)[order]
    return sorted(int(row) for name in sorted(set(labels)) for row in order[names == name][: int(size)])


def figures(probabilities: npt.NDArray[Any], classes: Sequence[str], truth: Sequence[str]) -> dict[str, float]:
    """Accuracy and log loss."""
    column = {name: place for place, name in enumerate(classes)}
    true = np.array([column[name] for name in truth], np.int64)
    return {
        "accuracy": float((probabilities.argmax(axis=1) == true).mean()),
        "log_loss": log_loss(probabilities, true, "softmax"),
    }


def regressions(fit: Any, tried: Any, labels: Sequence[str], truth: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A logistic regression of each strength."""
    found = {}
    for strength in STRENGTHS:
        started = time.perf_counter()
        model = LogisticRegression(C=strength, max_iter=1000).fit(fit, labels)
        seconds = time.perf_counter() - started
        found[f"{strength:g}"] = {
            "seconds": seconds,
            **figures(model.predict_proba(tried), model.classes_.tolist(), truth),
        }
    return found


def measure(data: str, dataset: str, sizes: Mapping[str, int], classes: int | None) -> dict[str, Any]:
    """Figures of every system with so many examples a class, by size; `classes` of the set, None for all."""
    parts = [read(Path(data), dataset, part, classes) for part in SETS[dataset]]
    encoder = kept(sorted({text for texts, _ in parts for text in texts}))
    return {"sizes": {size: of_size(encoder, parts, size, draws) for size, draws in sizes.items()}}


def of_size(encoder: Kept, parts: Sequence[tuple[list[str], list[str]]], size: str, draws: int) -> dict[str, Any]:
    """Means over draws of every system; of the peers those of the best strength."""
    (texts, labels), (tried, truth) = parts
    ours: list[dict[str, Any]] = []
    peers: dict[str, list[dict[str, dict[str, Any]]]] = {"pooled": [], "tfidf": []}
    for seed in range(draws):
        rows = draw(labels, size, seed)
        some, theirs = [texts[row] for row in rows], [labels[row] for row in rows]
        started = time.perf_counter()
        model = TextClassifier(encoder).fit(some, theirs)
        seconds = time.perf_counter() - started
        found = figures(model.predict_proba(tried), model.classes_.tolist(), truth)
        ours.append({"chosen": model.report_["chosen"], "seconds": seconds, **found})
        vectors = encoder.encode(some).rows("pooled"), encoder.encode(tried).rows("pooled")
        peers["pooled"].append(regressions(*vectors, theirs, truth))
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        peers["tfidf"].append(regressions(words.fit_transform(some), words.transform(tried), theirs, truth))
    return {
        "examples": len(draw(labels, size, 0)),
        "draws": draws,
        "systems": {
            "semclass": {**mean(ours), "chosen": [one["chosen"] for one in ours]},
            **{peer: best(found) for peer, found in peers.items()},
        },
    }


def best(found: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Figures of the strength of the best mean accuracy, with those of all strengths."""
    strengths = {strength: mean([one[strength] for one in found]) for strength in found[0]}
    chosen = max(strengths, key=lambda strength: strengths[strength]["accuracy"])
    return {**strengths[chosen], "strength": float(chosen), "strengths": strengths}


def mean(found: list[dict[str, Any]]) -> dict[str, float]:
    """Means of the figures of draws."""
    return {key: round(float(np.mean([one[key] for one in found])), 4) for key in ("accuracy", "log_loss", "seconds")}


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set; a quick run takes the first one."""
    sizes = {"banking77": {"5": 1}} if bench.quick else SIZES
    steps = {
        name: bench.step(
            f"few_labels/{name}",
            "bench.few_labels:measure",
            data=bench.data,
            dataset=name,
            sizes=sizes[name],
            classes=7 if bench.quick else None,
        )
        for name in sizes
    }
    return {"sets": {name: found["sizes"] for name, found in steps.items()}}


def table(results: dict[str, Any]) -> str:
    """The README's table."""
    rows = []
    for name, sizes in results["sets"].items():
        for size, found in sizes.items():
            for key, label in SHOWN.items():
                system = found["systems"][key]
                shown = f"{label}, C = {system['strength']:g}" if "strength" in system else f"`{label}`"
                figures = f"{system['accuracy']:.1%}", f"{system['log_loss']:.2f}", f"{system['seconds']:.2g}"
                rows.append((f"{name}, {size}" if key == "semclass" else "", shown, *figures))
    return readme.markdown(("set, examples a class", "classifier", "accuracy", "log loss", "seconds to fit"), rows)
