"""Make ``models/in_scope`` or ``models/generic``: heads of one class, a logistic regression over views of the encoder.

    python training/train_one_class.py in_scope --data DATA --encoder models/encoder --out models/in_scope
    python training/train_one_class.py generic --data DATA --encoder models/encoder --out models/generic

``in_scope`` separates what a corpus can be asked (questions, keywords, requests, titles, claims to check) from greetings,
thanks, commands to a device, questions to the assistant itself, opinions, statements about oneself and pasted fragments.
``generic`` finds questions that name nothing of their own, such as "What is the best way?": behind the description of a
problem, such a question is about that.

Both learn from training questions of public originals in DATA, from intents of CLINC150 train, and from texts written for
this project (``training/labels/``). Strength and threshold are chosen by cross-validation: the threshold keeps a share of
the texts of the class that the head did not see.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import labels
from command import make_parser, run, save_artifact, seconds_so_far
from datasets_io import read_jsonl, read_tsv, rows_of, squad_train
from question_data import read_questions, same_but_for_marks
from semclass.encoders.onnx_encoder import open_encoder
from semclass.heads.query_focus import GENERIC
from semclass.train.fit import Choice, Targets, fit_problem, problem_of
from semclass.train.fitted import head_to_onnx

MAX_TEXTS, MAX_QUESTIONS, MAX_CHAT = 400, 800, 60  # of a source of in_scope, of generic; of an intent out of scope
TITLE = re.compile(
    r"\b(?:an?|the) (\w+(?: \w+)? (?:of|for|in|on) (?:an? |the )?\w{4,}(?: \w{4,})?)"
)  # "history of the town"
WRITTEN_TIMES = 3  # that a text which was written for in_scope is learnt

Source = tuple[str, bool, list[str]]  # name, whether its texts have the class, and the texts


def questions_of(data: Path) -> dict[str, list[str]]:
    """Questions about something, by source."""
    policies = read_jsonl(data / "policyqa" / "train.jsonl.gz")
    documents = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    return {
        "natural": list(labels.natural_questions(data, "train").texts),
        "trec": list(read_questions(data / "trec" / "train.tsv").texts),
        "squad": squad_train(data)[1],
        "written questions": list(labels.written_questions().texts),
        "policies": [item["question"] for row in policies for item in row["questions"]],
        "medicine": [part["question"] for row in documents for part in row["sections"]],
    }


def drawn(texts: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    """At most `count` distinct texts."""
    distinct = sorted({text.strip() for text in texts if len(text.strip()) > 1})
    return [distinct[row] for row in sorted(rng.permutation(len(distinct))[:count].tolist())]


def in_scope_sources(data: Path, seed: int) -> list[Source]:
    written = read_tsv(labels.FOLDER / "in_scope.tsv")
    scopes = {row["intent"]: row["scope"] == "in" for row in read_tsv(labels.FOLDER / "clinc150.tsv")}
    intents = rows_of(data / "intents" / "clinc150.train.tsv.gz")
    code = read_jsonl(data / "code" / "cosqa.jsonl.gz")
    documents = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    questions = questions_of(data)
    medicine = questions.pop("medicine")
    sources: list[Source] = [
        *((name, True, texts) for name, texts in questions.items()),
        ("code", True, [row["query"] for row in code]),
        ("medicine", True, medicine),
        ("keywords", True, [f"{row['focus']} {part['type']}" for row in documents for part in row["sections"]]),
        ("titles", True, [title for text in squad_train(data)[0] for title in TITLE.findall(text)]),
        ("asked", True, [text for name, text in intents if scopes.get(name)]),
        *((name, False, [text for intent, text in intents if intent == name]) for name in scopes if not scopes[name]),
        ("nothing asked", False, labels.no_questions()),
        ("lines of code", False, [line.strip() for row in code for line in row["code"].splitlines()[1:3]]),
        *(
            ("written", scope == "in", [row["text"] for row in written if row["scope"] == scope])
            for scope in ("in", "out")
        ),
    ]
    rng = np.random.default_rng(seed)
    return [
        (name, inside, drawn(texts, MAX_CHAT if scopes.get(name) is False else MAX_TEXTS, rng))
        for name, inside, texts in sources
    ]


def generic_sources(data: Path, seed: int) -> list[Source]:
    """Generic questions, and questions with a word beyond their vocabulary."""
    generic = labels.generic_questions()
    questions = questions_of(data)
    questions["headings"] = [row["query"] for row in read_jsonl(data / "sections" / "questions.jsonl.gz")]
    rng, known = np.random.default_rng(seed), {word for text in generic for word in words(text)}
    return [
        ("generic", True, generic),
        *(
            (name, False, drawn([text for text in texts if not known.issuperset(words(text))], MAX_QUESTIONS, rng))
            for name, texts in questions.items()
        ),
    ]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def as_typed(text: str, place: int) -> str:
    """Every second text otherwise than it was written: in lower case without a last mark, or with both."""
    if place % 2:
        return text
    return text.lower().rstrip(" .?!") or text if text[:1].isupper() else f"{text[:1].upper()}{text[1:]}."


def figures(given: np.ndarray, truth: np.ndarray, threshold: float) -> dict[str, float]:
    """Area under the curve, share of texts of the class that are kept, and of others that are refused."""
    found = {
        "auc": roc_auc_score(truth, given),
        "kept": (given[truth] >= threshold).mean(),
        "refused": (given[~truth] < threshold).mean(),
    }
    return {key: round(float(value), 4) for key, value in found.items()}


@dataclass(frozen=True)
class OneClass:
    """Settings of a head."""

    task: str
    name: str  # of the class
    views: tuple[str, ...]
    folds: int
    kept: float  # share of the texts of the class, unseen, that the threshold keeps
    twice: str  # the source whose texts are read as written and otherwise
    sources: Callable[[Path, int], list[Source]]


HEADS: Mapping[str, OneClass] = {
    "in_scope": OneClass(
        "in-scope", "in scope", ("pooled", "layers"), 3, 0.995, "written", in_scope_sources
    ),
    "generic": OneClass(
        "generic", GENERIC, ("pooled",), 5, 0.98, "generic", generic_sources
    ),
}  # fmt: skip


def train(arguments: argparse.Namespace) -> None:
    head, encoder = HEADS[arguments.head], open_encoder(arguments.encoder)
    rows = [
        (name, inside, as_typed(text, place + shift))
        for name, inside, some in head.sources(arguments.data, arguments.seed)
        for shift in ((0, 1) if name == head.twice else (0,))
        for place, text in enumerate(some)
    ]
    texts, truth = [text for *_, text in rows], np.array([inside for _, inside, _ in rows])
    learnt = np.repeat(np.arange(len(rows)), [WRITTEN_TIMES if name == "written" else 1 for name, *_ in rows])
    print(f"{truth.sum()} texts of the class, {(~truth).sum()} others", flush=True)
    encoding = encoder.encode(texts, views=head.views)
    fitted = fit_problem(
        problem_of(
            {view: encoding.rows(view)[learnt] for view in head.views},
            Targets.of([(head.name,) if right else () for right in truth[learnt]], multi_label=True),
        ),
        [Choice(dict.fromkeys(head.views, 1.0))],
        [same_but_for_marks(texts[row]) or texts[row] for row in learnt],
        seed=arguments.seed,
        folds=head.folds,
        say=partial(print, flush=True),
    )
    given = np.asarray(fitted.out_of_fold)[np.searchsorted(learnt, np.arange(len(rows))), 0]
    threshold = round(float(np.quantile(given[truth], 1 - head.kept)), 4)
    metrics = {"cross_validation": figures(given, truth, threshold)}
    print(f"threshold {threshold}", metrics)
    card = {
        "task": head.task,
        "classes": fitted.classes,
        "link": "sigmoid",
        "inputs": fitted.inputs,
        "encoder": encoder.fingerprint,
        "calibration": {
            "method": "platt",
            "on": f"out-of-fold scores, {fitted.report['folds']} folds, of the training texts",
        },
        "training": {
            "examples": len(texts),
            "seed": arguments.seed,
            "chosen": fitted.report["chosen"],
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
        "threshold": threshold,
    }
    save_artifact(arguments.out, "head", {"model.onnx": head_to_onnx(fitted)}, card, arguments.head)


if __name__ == "__main__":
    parser = make_parser(__doc__, "data", "encoder", "seed", "out")
    parser.add_argument("head", choices=HEADS)
    run(parser, train)
