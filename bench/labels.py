"""The shipped classifiers under noise, and how many labels a taxonomy needs.

The passage head has seen every label, so its quality is what its training's cross-validation measured. With few labels,
``TextClassifier`` stands beside logistic regressions over the same vectors and over TF-IDF, each with the C that is best
*on the test part*, which favours it.
"""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import labels
from bench import prices, readme
from bench.steps import Bench
from question_data import Questions, joined, read_questions
from question_sets import misspell
from semclass import Encoding, OnnxEncoder, QuestionClassifier, TextClassifier, ZeroShotClassifier
from semclass.core import artifacts
from semclass.train.estimators import PHRASES, words_of
from semclass.train.fitted import expected_calibration_error, log_loss

DRAWS = 5  # times that every question is misspelt anew
SETS = {"banking77": ("train", "test"), "clinc150": ("train", "dev")}  # intents: parts to fit to and to try on
OUTSIDE = "oos"  # CLINC150's label of messages that have none of its intents; they are left out
SIZES = {"1": 5, "5": 5, "10": 5, "all": 1}  # examples a class, and draws of so many
NO_EXAMPLES = "0"  # `ZeroShotClassifier`, by the names of the intents
RESULTS = Path(__file__).parent / "results" / "labels.json"
TUNED = "tuned"  # an encoder tuned as SetFit does, measured once: its row stays
STRENGTHS = (1.0, 10.0, 30.0, 100.0)  # C of the logistic regressions; 1 is scikit-learn's default
SHOWN = {
    "semclass": "`TextClassifier`",
    "pooled": "ten lines over `pooled`",
    "names": "the same, names of intents as examples",
    "tfidf": "ten lines over TF-IDF",
    "tuned": "the encoder tuned as SetFit does, names too, one draw",
}
"""Systems, as the table names them."""


def run(bench: Bench) -> dict[str, Any]:
    """A step for each set of intents, both at once; then one for the shipped classifiers."""
    few, data = bench.quick, bench.data
    names, sizes = (["banking77"], {"5": 1}) if few else (list(SETS), SIZES)
    given = {"data": data, "sizes": sizes, "classes": 7 if few else None}
    jobs = {
        name: partial(bench.step, f"labels/{name}", "bench.labels:few_labels", dataset=name, **given)
        for name in reversed(names)  # the longest first
    }
    made = bench.side_by_side(jobs)
    intents = {name: made[name]["sizes"] for name in names}
    recorded = artifacts.read_json(RESULTS)["few_labels"]["banking77"]
    for size in set(sizes) & set(recorded):
        if TUNED in recorded[size]["systems"]:
            intents["banking77"][size]["systems"][TUNED] = recorded[size]["systems"][TUNED]
    shipped = bench.step("labels/shipped", "bench.labels:shipped", data=data, limit=50 if few else None)
    return {**shipped, "few_labels": intents}


def shipped(data: str, limit: int | None) -> dict[str, Any]:
    """Quality, on `limit` items of a set."""
    return {
        "questions": questions(Path(data), QuestionClassifier.load(), limit),
        "passages": artifacts.read_json(artifacts.default_models() / "passages" / artifacts.MANIFEST)["metrics"],
    }


def accuracy(classifier: QuestionClassifier, texts: Sequence[str], questions: Questions) -> dict[str, float]:
    found = classifier.classify(texts)
    coarse = np.array([item.label == name for item, name in zip(found, questions.labels("coarse"), strict=True)])
    fine = np.array([item.fine == name for item, name in zip(found, questions.fine, strict=True)])
    figures = {
        "coarse": coarse.mean(),
        "fine": fine.mean(),
        "coarse_calibration_error": expected_calibration_error(np.array([x.probability for x in found]), coarse),
        "fine_calibration_error": expected_calibration_error(np.array([x.fine_probability for x in found]), fine),
    }
    return {key: round(float(value), 4) for key, value in figures.items()}


def questions(data: Path, classifier: QuestionClassifier, limit: int | None) -> dict[str, dict[str, float]]:
    dev = first(labels.natural_questions(data, "dev"), limit)
    rng = random.Random(0)
    draws = [accuracy(classifier, [misspell(text, rng, 3) for text in dev.texts], dev) for _ in range(DRAWS)]
    return {
        "natural_dev": accuracy(classifier, dev.texts, dev),
        "natural_dev_misspelt": {key: round(float(np.mean([draw[key] for draw in draws])), 4) for key in draws[0]},
        "natural_dev_lower_case": accuracy(classifier, [text.lower() for text in dev.texts], dev),
        "natural_dev_no_mark": accuracy(classifier, [text.rstrip("? ") for text in dev.texts], dev),
    }


def first(questions: Questions, limit: int | None) -> Questions:
    return Questions(questions.texts[:limit], questions.fine[:limit])


@dataclass(frozen=True)
class Kept:
    """An encoder that looks texts up: what another gave for them; it encodes others."""

    encoder: OnnxEncoder
    fingerprint: str
    views: dict[str, int]
    places: dict[str, int]
    found: Encoding
    is_term: Any

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """The views of texts."""
        if not self.places.keys() >= set(texts):
            return self.encoder.encode(texts, views=views)
        rows, found = np.array([self.places[text] for text in texts], np.int64), self.found
        given: dict[str, Any] = {name: found.rows(name)[rows] for name in views if name != "tokens"}
        if "tokens" in views:
            given |= {"tokens": found.pieces("tokens").take(rows), "kept": found.pieces_read().take(rows)}
        return Encoding(terms=found.terms.take(rows), **given)


def kept(texts: Sequence[str], encoder: OnnxEncoder, views: Sequence[str]) -> Kept:
    """Encode every text once."""
    places = {text: place for place, text in enumerate(texts)}
    sizes = {view: encoder.views[view] for view in views}
    return Kept(encoder, encoder.fingerprint, sizes, places, encoder.encode(texts, views=tuple(views)), encoder.is_term)


def readings(names: Iterable[str]) -> list[str]:
    """The names of classes as a classifier reads them."""
    return [phrase.format(words_of(name)) for name in names for phrase in PHRASES]


def read(data: Path, name: str, part: str, classes: int | None) -> tuple[list[str], list[str]]:
    """Texts and labels of a part; messages without an intent are left out."""
    with gzip.open(data / "intents" / f"{name}.{part}.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    names = sorted({row[0] for row in rows} - {OUTSIDE})[:classes]
    rows = [row for row in rows if row[0] in names]
    return [row[1] for row in rows], [row[0] for row in rows]


def draw(labels: Sequence[str], size: str, seed: int) -> list[int]:
    """Rows of so many examples of each class, or of all."""
    if size == "all":
        return list(range(len(labels)))
    order = np.random.default_rng(seed).permutation(len(labels))
    names = np.array(labels)[order]
    return sorted(int(row) for name in sorted(set(labels)) for row in order[names == name][: int(size)])


def figures_of(model: Any, classes: Iterable[str], tried: Any, truth: Sequence[str]) -> dict[str, float]:
    probabilities, column = model.predict_proba(tried), {name: place for place, name in enumerate(classes)}
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
        found[f"{strength:g}"] = {"seconds": seconds, **figures_of(model, model.classes_.tolist(), tried, truth)}
    return found


def few_labels(data: str, dataset: str, sizes: Mapping[str, int], classes: int | None) -> dict[str, Any]:
    """Figures of every system with so many examples a class, by size; `classes` of the set, None for all."""
    parts = [read(Path(data), dataset, part, classes) for part in SETS[dataset]]
    every = sorted({text for texts, names in parts for text in [*texts, *readings(names)]})
    encoder = kept(every, OnnxEncoder.load(), ("pooled", "layers", "entities"))
    by_size = {size: of_size(encoder, parts, size, draws) for size, draws in sizes.items()}
    return {"sizes": {NO_EXAMPLES: by_names(*parts[1]), **by_size}}


def by_names(tried: list[str], truth: list[str]) -> dict[str, Any]:
    """Figures of a classifier that knows nothing but the names of the classes."""
    names, started = sorted(set(truth)), time.perf_counter()
    model = ZeroShotClassifier.from_descriptions(dict.fromkeys(names, ""))
    seconds = time.perf_counter() - started
    found = {"seconds": seconds, **figures_of(model, names, tried, truth)}
    return {"examples": 0, "draws": 1, "systems": {"semclass": mean([found])}}


def of_size(encoder: Kept, parts: Sequence[tuple[list[str], list[str]]], size: str, draws: int) -> dict[str, Any]:
    """Means over draws of every system; of the peers those of the best strength."""
    (texts, labels), (tried, truth) = parts
    ours: list[dict[str, Any]] = []
    peers: dict[str, list[dict[str, dict[str, Any]]]] = {"pooled": [], "names": [], "tfidf": []}
    names = sorted(set(labels))
    for seed in range(draws):
        rows = draw(labels, size, seed)
        some, theirs = [texts[row] for row in rows], [labels[row] for row in rows]
        started = time.perf_counter()
        model = TextClassifier(encoder).fit(some, theirs)
        seconds = time.perf_counter() - started
        figures = figures_of(model, model.classes_.tolist(), tried, truth)
        ours.append({"chosen": model.report_["chosen"], "seconds": seconds, **figures})
        vectors = encoder.encode(some).rows("pooled"), encoder.encode(tried).rows("pooled")
        peers["pooled"].append(regressions(*vectors, theirs, truth))
        both = np.concatenate([vectors[0], encoder.encode([*map(words_of, names)]).rows("pooled")])
        peers["names"].append(regressions(both, vectors[1], [*theirs, *names], truth))
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
    """Figures of the strength of the best mean accuracy."""
    strengths = {strength: mean([one[strength] for one in found]) for strength in found[0]}
    chosen = max(strengths, key=lambda strength: strengths[strength]["accuracy"])
    return {**strengths[chosen], "strength": float(chosen)}


def mean(found: list[dict[str, Any]]) -> dict[str, float]:
    return {key: round(float(np.mean([one[key] for one in found])), 4) for key in ("accuracy", "log_loss", "seconds")}


def taught(data: Path) -> Questions:
    """The questions that the shipped head learnt from; those of people only where their originals are at hand."""
    natural = [labels.natural_questions(data, "train")] if (data / "questions").is_dir() else []
    parts = [read_questions(data / "trec" / "train.tsv"), *natural, labels.squad_questions(data)]
    return joined([*parts, labels.written_questions()])


def table(found: Mapping[str, Any]) -> str:
    q = found["labels"]["questions"]
    forms = {
        "natural questions, 6 / 50 classes": "natural_dev",
        "the same, one word misspelt": "natural_dev_misspelt",
        "the same, lower case": "natural_dev_lower_case",
        "the same, no question mark": "natural_dev_no_mark",
    }
    rows = [(name, f"{q[form]['coarse']:.1%} / {q[form]['fine']:.1%}") for name, form in forms.items()]
    errors = [q["natural_dev"][f"{level}_calibration_error"] for level in ("coarse", "fine")]
    rows.append(("calibration error there", f"{errors[0]:.3f} / {errors[1]:.3f}"))
    return readme.markdown(("classifiers", "semclass"), rows)


def table_of_few(found: Mapping[str, Any]) -> str:
    """``TextClassifier`` and its peers, by set and number of examples."""
    rows = []
    for name, sizes in found["labels"]["few_labels"].items():
        for size in filter(sizes.__contains__, (NO_EXAMPLES, *SIZES)):
            one = sizes[size]
            for key, label in SHOWN.items():
                if (system := one["systems"].get(key)) is None:
                    continue
                shown = f"{label}, C = {system['strength']:g}" if "strength" in system else label
                shown = "`ZeroShotClassifier`, names alone" if size == NO_EXAMPLES else shown
                shown += f" ({system['measured']})" if "measured" in system else ""
                cells = f"{system['accuracy']:.1%}", f"{system['log_loss']:.2f}", f"{system['seconds']:.2g}"
                rows.append((f"{name}, {size}" if key == "semclass" else "", shown, *cells))
    return readme.markdown(
        ("set, examples a class", "classifier", "accuracy", "log loss", "seconds to fit, both cores busy"), rows
    )


def table_of_published(found: Mapping[str, Any]) -> str:
    """``TextClassifier`` beside what others print, with 5 and 10 examples a class."""
    sets, sizes = found["labels"]["few_labels"], ("5", "10")
    ours = {
        name: {size: row[size]["systems"]["semclass"]["accuracy"] for size in sizes if size in row}
        for name, row in sets.items()
    }
    first = {"`TextClassifier`": {"model": "MiniLM-L6 (22 M), frozen", **ours}}
    known = {**first, **prices.thesis()["few_labels"]["rows"]}
    cells = [
        (
            name,
            row["model"],
            *(" / ".join(readme.cell(row.get(part, {}), size, ".1%") for size in sizes) for part in SETS),
        )
        for name, row in known.items()
    ]
    return readme.markdown(
        ("classifier", "model (parameters)", *(f"{part}, 5 / 10 examples a class" for part in SETS)), cells
    )


TABLES = {"": table, "few_labels": table_of_few, "published": table_of_published}
