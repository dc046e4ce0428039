"""Make ``models/in_scope``: a head that tells what a corpus can be asked from chit-chat, commands and the like.

    python training/train_in_scope.py --data DATA --encoder models/encoder --out models/in_scope

In scope are questions, keywords, requests, titles and claims to check; out of scope greetings, thanks, commands to a
device, questions to the assistant itself, opinions, statements about oneself, and pasted fragments. It learns from
training questions of public originals in DATA, from intents of CLINC150 train, and from texts written for this
project (``training/labels/``). A logistic regression over the encoder's views ``pooled`` and ``layers``; strength and
threshold are chosen by cross-validation: the threshold keeps `KEPT` of the texts in scope that the head did not see.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import labels
from command import make_parser, run
from datasets_io import read_jsonl, read_tsv, squad_train
from one_class import fit_one_class, save_one_class
from question_data import read_questions
from semclass.core.artifacts import HeadCard
from semclass.core.types import Encoder, FloatArray
from semclass.heads.in_scope import IN_SCOPE
from semclass.heads.texts import open_encoder
from semclass.train.fit import Choice

KEPT = 0.995  # share of the texts in scope, unseen, that the threshold keeps
MOST, CHAT = 400, 60  # texts of a source in scope, or out of scope and of an intent
TITLE = re.compile(
    r"\b(?:an?|the) (\w+(?: \w+)? (?:of|for|in|on) (?:an? |the )?\w{4,}(?: \w{4,})?)"
)  # "history of the town"
WRITTEN = 3.0  # weight of a text that was written for this head
CHOICES = [Choice({"pooled": 1.0, "layers": 1.0}, "logistic")]


def sources(data: Path, seed: int) -> list[tuple[str, bool, list[str]]]:
    """Name, whether it is in scope, and texts of each source, `MOST` at most."""
    written = read_tsv(labels.FOLDER / "in_scope.tsv")
    asked = {row["intent"]: row["scope"] == "in" for row in read_tsv(labels.FOLDER / "clinc150.tsv")}
    with gzip.open(data / "intents" / "clinc150.train.tsv.gz", "rt", encoding="utf-8") as file:
        intents = [line.rstrip("\n").split("\t", 1) for line in file]
    policies = read_jsonl(data / "policyqa" / "train.jsonl.gz")
    code = read_jsonl(data / "code" / "cosqa.jsonl.gz")
    documents = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    sections = [(row["focus"], part) for row in documents for part in row["sections"]]
    found = [
        ("natural", True, list(labels.natural_questions(data / "questions", "train").texts)),
        ("trec", True, list(read_questions(data / "trec" / "train.tsv").texts)),
        ("squad", True, squad_train(data)[1]),
        ("written questions", True, list(labels.written_questions().texts)),
        ("policies", True, [item["question"] for row in policies for item in row["questions"]]),
        ("code", True, [row["query"] for row in code]),
        ("medicine", True, [part["question"] for _, part in sections]),
        ("keywords", True, [f"{focus} {part['type']}" for focus, part in sections]),
        ("titles", True, [title for text in squad_train(data)[0] for title in TITLE.findall(text)]),
        ("asked", True, [text for name, text in intents if asked.get(name)]),
        *((name, False, [text for intent, text in intents if intent == name]) for name in asked if not asked[name]),
        ("nothing asked", False, labels.no_questions()),
        ("lines of code", False, [line.strip() for row in code for line in row["code"].splitlines()[1:3]]),
        *(
            ("written", scope == "in", [row["text"] for row in written if row["scope"] == scope])
            for scope in ("in", "out")
        ),
    ]
    rng = np.random.default_rng(seed)
    kept = []
    for name, scope, texts in found:
        distinct = sorted({text.strip() for text in texts if len(text.strip()) > 1})
        rows = rng.permutation(len(distinct))[: CHAT if asked.get(name) is False else MOST]
        kept.append((name, scope, [distinct[row] for row in sorted(rows.tolist())]))
    return kept


def as_typed(text: str, place: int) -> str:
    """Every second text otherwise than it was written: in lower case without a last mark, or with both."""
    if place % 2:
        return text
    return text.lower().rstrip(" .?!") or text if text[:1].isupper() else f"{text[:1].upper()}{text[1:]}."


def make_views(encoder: Encoder, texts: Sequence[str]) -> dict[str, FloatArray]:
    encoding = encoder.encode(texts, views=("pooled", "layers"))
    return {view: encoding.rows(view) for view in ("pooled", "layers")}


def figures(given: np.ndarray, truth: np.ndarray, threshold: float) -> dict[str, float]:
    """Area under the curve, share of texts in scope that are kept, and of others that are refused."""
    found = {
        "auc": roc_auc_score(truth, given),
        "kept": (given[truth] >= threshold).mean(),
        "refused": (given[~truth] < threshold).mean(),
    }
    return {key: round(float(value), 4) for key, value in found.items()}


def train(arguments: argparse.Namespace) -> None:
    parts = sources(arguments.data, arguments.seed)
    encoder = open_encoder(arguments.encoder)
    rows: list[tuple[str, bool, str]] = []  # text, whether it is in scope, name of its source
    for name, scope, some in parts:
        rows += [(as_typed(text, place), scope, name) for place, text in enumerate(some)]
        if name == "written":
            rows += [(as_typed(text, place + 1), scope, name) for place, text in enumerate(some)]
    texts, truth, names = ([row[place] for row in rows] for place in range(3))
    weights = np.where(np.array(names) == "written", WRITTEN, 1.0)
    print(f"{sum(truth)} texts in scope, {len(truth) - sum(truth)} out of scope", flush=True)
    views, inside = make_views(encoder, texts), np.array(truth)
    head = fit_one_class(
        views, inside, texts, IN_SCOPE, choices=CHOICES, seed=arguments.seed, folds=3, sample_weight=weights
    )
    given = head.out_of_fold[:, 0]
    threshold = round(float(np.quantile(given[inside], 1 - KEPT)), 4)
    metrics = {"cross_validation": figures(given, inside, threshold)}
    print(f"threshold {threshold}", metrics)
    for name in dict.fromkeys(names):
        kept = given[np.array(names) == name] >= threshold
        print(f"  {name}: {kept.mean():.3f} of {len(kept)} in scope")
    save_one_class(
        arguments.out,
        head,
        "in-scope",
        encoder=encoder.fingerprint,
        examples=len(texts),
        seed=arguments.seed,
        metrics=metrics,
        threshold=threshold,
        title="Does a text ask something of a corpus?",
        sections=card_sections,
    )


def card_sections(card: HeadCard) -> list[tuple[str, str]]:
    found = card.metrics["cross_validation"]
    return [
        (
            "What it is",
            "The probability that a text is one that documents may answer: a question, keywords, a request, a title or a "
            "claim to check; and no greeting, thanks, command to a device, question to the assistant itself, opinion, "
            "statement about oneself, or pasted fragment. `semclass.ScopeClassifier` uses it.",
        ),
        (
            "How it was made",
            f"`training/train_in_scope.py`, on {card.training['examples']} texts: training questions of public sets, small "
            "talk and commands of CLINC150 (Larson et al. 2019, CC BY), lines of code of CoSQA, and texts written for "
            f"this project (`training/labels/`). Chosen by cross-validation: {card.training['chosen']}. From the threshold "
            f"on, {card.threshold}, {KEPT:.1%} of the texts in scope that the head did not see are kept.",
        ),
        (
            "How good it is",
            f"By cross-validation: area under the curve {found['auc']:.3f}, {found['kept']:.1%} of texts in scope kept, "
            f"{found['refused']:.1%} of the others refused. On texts written for a test: `bench/results/in_scope.md`.",
        ),
        (
            "What it is not good at",
            "English. A claim to check and a plain statement look alike, and so do a question to a person and one to a "
            'corpus. A complaint without a question, such as "my card has not arrived", may be refused.',
        ),
    ]


def main() -> None:
    parser = make_parser(__doc__, "encoder", "seed")
    parser.add_argument("--data", type=Path, required=True, help="folder with the public originals")
    parser.add_argument("--out", type=Path, required=True)
    run(parser, train)


if __name__ == "__main__":
    main()
