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
from command import make_parser, run, seconds_so_far
from datasets_io import read_jsonl, read_tsv, squad_train
from question_data import read_questions, same_but_for_marks
from semclass.core.cards import HeadCard, save_head
from semclass.core.types import Encoder, FloatArray
from semclass.heads.in_scope import IN_SCOPE
from semclass.heads.texts import open_encoder
from semclass.train.export import head_to_onnx
from semclass.train.fit import Choice, fit_head

KEPT = 0.995  # share of the texts in scope, unseen, that the threshold keeps
MOST, CHAT = 400, 60  # texts of a source in scope, or out of scope and of an intent
TITLE = re.compile(
    r"\b(?:an?|the) (\w+(?: \w+)? (?:of|for|in|on) (?:an? |the )?\w{4,}(?: \w{4,})?)"
)  # "history of the town"
WRITTEN = 3.0  # weight of a text that was written for this head
CHOICES = [Choice({"pooled": 1.0, "layers": 1.0}, "logistic")]

ASKED = [
    "definition",
    "cook_time",
    "recipe",
    "nutrition_info",
    "ingredients_list",
    "travel_suggestion",
    "vaccines",
    "plug_type",
    "carry_on",
    "calories",
    "international_visa",
    "exchange_rate",
    "gas_type",
    "oil_change_how",
    "tire_change",
    "jump_start",
    "improve_credit_score",
    "food_last",
    "oos",
    "international_fees",
    "ingredient_substitution",
]
"""Intents of CLINC150 that ask for what a text can say."""

CHATTED = [
    "greeting",
    "goodbye",
    "thank_you",
    "tell_joke",
    "yes",
    "no",
    "maybe",
    "are_you_a_bot",
    "how_old_are_you",
    "what_is_your_name",
    "who_made_you",
    "who_do_you_work_for",
    "where_are_you_from",
    "what_are_your_hobbies",
    "do_you_have_pets",
    "change_accent",
    "change_ai_name",
    "change_language",
    "change_speed",
    "change_user_name",
    "change_volume",
    "flip_coin",
    "roll_dice",
    "next_song",
    "play_music",
    "alarm",
    "timer",
    "reminder_update",
    "text",
    "make_call",
    "smart_home",
    "whisper_mode",
    "repeat",
    "cancel",
    "order",
    "shopping_list_update",
    "todo_list_update",
    "calendar_update",
    "schedule_meeting",
    "book_flight",
    "book_hotel",
    "uber",
    "share_location",
    "find_phone",
    "sync_device",
    "reset_settings",
    "update_playlist",
    "pay_bill",
    "transfer",
    "pto_request",
    "restaurant_reservation",
    "cancel_reservation",
    "user_name",
    "order_checks",
]
"""Intents of CLINC150 that are small talk or commands."""


def sources(data: Path, seed: int) -> list[tuple[str, bool, list[str]]]:
    """Name, whether it is in scope, and texts of each source, `MOST` at most."""
    written = read_tsv(labels.FOLDER / "in_scope.tsv")
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
        ("asked", True, [text for name, text in intents if name in ASKED]),
        *((name, False, [text for intent, text in intents if intent == name]) for name in CHATTED),
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
        rows = rng.permutation(len(distinct))[: CHAT if name in CHATTED else MOST]
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
    head = fit_head(
        views, inside[:, None].astype(int), link="sigmoid", names=[IN_SCOPE], choices=CHOICES,
        groups=[same_but_for_marks(text) or text for text in texts], sample_weight=weights, seed=arguments.seed, folds=3,
        progress=lambda line: print(f"  {line}", flush=True),
    )  # fmt: skip
    given = head.out_of_fold[:, 0]
    threshold = round(float(np.quantile(given[inside], 1 - KEPT)), 4)
    metrics = {"cross_validation": figures(given, inside, threshold)}
    print(f"threshold {threshold}", metrics)
    for name in dict.fromkeys(names):
        kept = given[np.array(names) == name] >= threshold
        print(f"  {name}: {kept.mean():.3f} of {len(kept)} in scope")
    card = HeadCard(
        task="in-scope",
        classes=(IN_SCOPE,),
        link="sigmoid",
        inputs=head.inputs,
        encoder=encoder.fingerprint,
        calibration={
            "method": "platt",
            "on": f"out-of-fold scores, {head.report['folds']} folds, of the training texts",
        },
        training={
            "examples": len(texts),
            "seed": arguments.seed,
            "chosen": head.report["chosen"],
            "seconds": seconds_so_far(),
        },
        metrics=metrics,
        threshold=threshold,
    )
    save_head(
        arguments.out,
        head_to_onnx(head),
        card,
        title="Does a text ask something of a corpus?",
        sections=card_sections(card),
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
