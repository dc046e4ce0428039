"""A taxonomy with few labels: ``TextClassifier`` beside logistic regressions over the same vectors and over TF-IDF.

Each regression is shown with the C that is best *on the test part*, which favours it. Texts are encoded once,
beforehand.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Sequence
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
from semclass.encoders.bulk import CHUNK
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


def read(data: Path, name: str, part: str) -> tuple[list[str], list[str]]:
    """Texts and labels of a part; messages without an intent are left out."""
    with gzip.open(data / "intents" / f"{name}.{part}.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    rows = [row for row in rows if row[0] != OUTSIDE]
    return [row[1] for row in rows], [row[0] for row in rows]


def encode(data: str, dataset: str, out: str) -> dict[str, int]:
    """Write the views of every text of a set."""
    texts = sorted({text for part in SETS[dataset] for text in read(Path(data), dataset, part)[0]})
    encoder = OnnxEncoder.load()
    found = [encoder.encode(texts[at : at + CHUNK], views=("pooled", "layers")) for at in range(0, len(texts), CHUNK)]
    lengths = np.concatenate([one.terms.lengths() for one in found])
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        out,
        terms=np.concatenate([one.terms.values for one in found]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        pooled=np.concatenate([one.rows("pooled") for one in found]),
        layers=np.concatenate([one.rows("layers") for one in found]),
    )
    return {"texts": len(texts)}


def kept(data: Path, name: str, file: Path) -> Kept:
    """What :func:`encode` wrote."""
    texts = sorted({text for part in SETS[name] for text in read(data, name, part)[0]})
    encoder = OnnxEncoder.load()
    with np.load(file) as found:
        return Kept(
            fingerprint=encoder.fingerprint,
            views={view: encoder.views[view] for view in ("pooled", "layers")},
            rows={text: row for row, text in enumerate(texts)},
            terms=Ragged(found["terms"], found["offsets"]),
            pooled=found["pooled"],
            layers=found["layers"],
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


def measure(data: str, dataset: str, size: str, draws: int, file: str) -> dict[str, Any]:
    """Means over draws of every system; of the peers those of the best strength."""
    (texts, labels), (tried, truth) = (read(Path(data), dataset, part) for part in SETS[dataset])
    encoder = kept(Path(data), dataset, Path(file))
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
    """A step for each set and size, so that a run that was stopped goes on where it was."""
    found: dict[str, Any] = {}
    for name in list(SETS)[: 1 if bench.quick else None]:
        file = bench.work / "few_labels" / f"{name}.npz"
        bench.step(
            f"few_labels/{name}/encode", "bench.few_labels:encode", wrote=file, data=bench.data, dataset=name, out=file
        )
        found[name] = {
            size: bench.step(
                f"few_labels/{name}/{size}",
                "bench.few_labels:measure",
                data=bench.data,
                dataset=name,
                size=size,
                draws=draws,
                file=file,
            )
            for size, draws in ({"5": 1} if bench.quick else SIZES[name]).items()
        }
    return {"sets": found}


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
