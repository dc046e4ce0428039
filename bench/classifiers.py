"""The shipped classifiers: accuracy under noise, calibration, and times on one thread.

The passage head has seen every label, so its quality is what its training's cross-validation measured.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

import labels
from bench import readme, timing
from bench.steps import Bench
from question_data import Questions, read_questions
from semclass import EntailmentClassifier, OnnxEncoder, PassageClassifier, QuestionClassifier
from semclass.core import artifacts
from semclass.heads.surface import surface_features
from semclass.train.calibration import expected_calibration_error

DRAWS = 5  # times that every question is misspelt anew
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def misspelt(text: str, rng: random.Random) -> str:
    """Swap two letters, or leave out, add or replace one, anywhere in one word of three letters or more."""
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if len(word) >= 3 and word.isalpha()]
    if not places:
        return text
    place = rng.choice(places)
    word = words[place]
    at, letter = rng.randrange(len(word)), rng.choice(LETTERS)
    swap = min(at, len(word) - 2)
    words[place] = rng.choice(
        (
            word[:swap] + word[swap + 1] + word[swap] + word[swap + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + letter + word[at:],
            word[:at] + letter + word[at + 1 :],
        )
    )
    return " ".join(words)


def accuracy(classifier: QuestionClassifier, texts: Sequence[str], questions: Questions) -> dict[str, float]:
    """Accuracy and calibration error of both levels."""
    found = classifier.predict(texts)
    coarse = np.array([item.label == name for item, name in zip(found, questions.labels("coarse"), strict=True)])
    fine = np.array([item.fine == name for item, name in zip(found, questions.fine, strict=True)])
    return {
        "coarse": float(coarse.mean()),
        "fine": float(fine.mean()),
        "coarse_calibration_error": expected_calibration_error(np.array([x.probability for x in found]), coarse),
        "fine_calibration_error": expected_calibration_error(np.array([x.fine_probability for x in found]), fine),
    }


def questions(data: Path, classifier: QuestionClassifier, limit: int | None) -> dict[str, dict[str, float]]:
    """Figures of the question head."""
    test = first(read_questions(data / "trec" / "test.tsv"), limit)
    dev = first(labels.natural_questions(data / "questions", "dev"), limit)
    rng = random.Random(0)
    draws = [accuracy(classifier, [misspelt(text, rng) for text in dev.texts], dev) for _ in range(DRAWS)]
    return {
        "trec_test": accuracy(classifier, test.texts, test),
        "natural_dev": accuracy(classifier, dev.texts, dev),
        "natural_dev_misspelt": {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]},
        "natural_dev_lower_case": accuracy(classifier, [text.lower() for text in dev.texts], dev),
        "natural_dev_no_mark": accuracy(classifier, [text.rstrip("? ") for text in dev.texts], dev),
    }


def first(questions: Questions, limit: int | None) -> Questions:
    """The first questions."""
    return Questions(questions.texts[:limit], questions.fine[:limit])


def no_questions(classifier: QuestionClassifier) -> dict[str, float]:
    """Probability of the best class where a text asks nothing, quantiles; the head was trained on these very texts."""
    found = [item.probability for item in classifier.predict(labels.no_questions())]
    return {f"p{share}": float(np.percentile(found, share)) for share in (10, 50, 90)}


def entailment(data: Path, classifier: EntailmentClassifier, limit: int | None) -> dict[str, float]:
    """QNLI validation."""
    with gzip.open(data / "qnli" / "validation.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in islice(file, limit)]
    truth = np.array([row["label"] == "entailment" for row in rows])
    given = classifier.predict_proba([row["question"] for row in rows], [row["sentence"] for row in rows])
    said = given >= classifier.threshold
    return {
        "accuracy": float((said == truth).mean()),
        "auc": float(roc_auc_score(truth, given)),
        "calibration_error": expected_calibration_error(given, truth),
        "pairs": len(rows),
    }


def times(data: Path, encoder: OnnxEncoder, limit: int | None) -> dict[str, float]:
    """Microseconds, one thread; that of a question's class is told by section ``questions``."""
    provider = PassageClassifier.load(encoder=encoder)
    passages = [json.loads(line)["text"] for line in (data / "beir" / "squad4" / "corpus.jsonl").open(encoding="utf-8")]
    passages = passages[: limit or 300]
    encoded = [encoder.encode([text], views=provider.encoder_views) for text in passages]
    views: list[dict[str, npt.NDArray[np.float32]]] = [
        {"layers": one.rows("layers"), "entities": one.rows("entities"), "surface": surface_features([text])}
        for one, text in zip(encoded, passages, strict=True)
    ]
    head = provider.head
    found = {
        "encode_passage": timing.each(passages, lambda text: encoder.encode([text], views=provider.encoder_views)),
        "surface_of_passage": timing.each(passages, lambda text: surface_features([text])),
    }
    if head is not None:
        found["six_heads_on_encoded_passage"] = timing.each(views, head.probabilities)
    return timing.percentiles(found, 1e6, 1)


NEEDS = ("entailment",)  # sections of which the table shows a figure: what flan-ul2 is recorded to reach


def table(results: Mapping[str, Any], entailment: Mapping[str, Any] | None = None) -> str:
    """The README's table."""
    q, macro, qnli = results["questions"], results["passages"]["macro"], results["qnli_validation"]
    times = results["microseconds"]
    theirs = [row for row in (entailment or {}).get("systems", []) if row.get("recorded")]
    beside = f" ({theirs[0]['name']}: {theirs[0]['accuracy']:.1%})" if theirs else ""
    forms = {
        "natural questions, 6 / 50 classes": "natural_dev",
        "the same, one word misspelt": "natural_dev_misspelt",
        "the same, lower case": "natural_dev_lower_case",
        "the same, no question mark": "natural_dev_no_mark",
    }
    rows = [(name, f"{q[form]['coarse']:.1%} / {q[form]['fine']:.1%}") for name, form in forms.items()]
    errors = [q["natural_dev"][f"{level}_calibration_error"] for level in ("coarse", "fine")]
    rows += [
        ("calibration error there", f"{errors[0]:.3f} / {errors[1]:.3f}"),
        ("passage classes, 5-fold, mean of 5 assignments, macro F1 / AUC", f"{macro['f1']:.3f} / {macro['auc']:.3f}"),
        (f"QNLI validation, each text encoded by itself{beside}", f"{qnli['accuracy']:.1%}"),
        ("microseconds, six passage classes of an encoded passage", f"{times['six_heads_on_encoded_passage_p50']:.0f}"),
    ]
    return readme.markdown(("classifiers", "semclass"), rows)


def rounded(value: Any) -> Any:
    """Figures to four places."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def run(bench: Bench) -> dict[str, Any]:
    """Everything, in one process."""
    return bench.step("classifiers", "bench.classifiers:measure", data=bench.data, limit=50 if bench.quick else None)


def measure(data: str, limit: int | None) -> dict[str, Any]:
    """Quality and times; `limit` items of a set."""
    encoder = OnnxEncoder.load()
    classifier = QuestionClassifier.load(encoder=encoder)
    found = {
        "questions": questions(Path(data), classifier, limit),
        "no_questions_probability": no_questions(classifier),
        "passages": artifacts.read_json(artifacts.default_models() / "passages" / artifacts.MANIFEST)["metrics"],
        "qnli_validation": entailment(Path(data), EntailmentClassifier.load(encoder=encoder), limit),
        "microseconds": times(Path(data), encoder, limit),
    }
    return dict(rounded(found))
