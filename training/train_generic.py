"""Make ``models/generic``: a head that tells a question that names nothing of its own, such as "What is the best way?".

    python training/train_generic.py --data DATA --encoder models/encoder --out models/generic

Such a question stands behind the description of a problem, and is about that. The head learns it from questions that were
written for this project (``training/labels/generic_questions.txt``), and what it is not from training questions of public
originals in DATA, without those that have no word beyond the vocabulary of the written ones. A logistic regression over the
encoder's view ``pooled``; strength and threshold are chosen by cross-validation: the threshold keeps `KEPT` of the generic
questions that the head did not see.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import labels
from command import make_parser, run
from datasets_io import read_jsonl, squad_train
from one_class import fit_one_class, save_one_class
from question_data import read_questions
from semclass.core.artifacts import HeadCard
from semclass.heads.query_focus import GENERIC
from semclass.heads.texts import open_encoder
from semclass.train.fit import Choice
from train_in_scope import as_typed

KEPT = 0.98  # share of the generic questions, unseen, that the threshold keeps
MOST = 800  # questions of a source
CHOICES = [Choice({"pooled": 1.0}, "logistic")]


def sources(data: Path, seed: int) -> dict[str, list[str]]:
    """Questions that are about something, `MOST` of each source at most."""
    policies = read_jsonl(data / "policyqa" / "train.jsonl.gz")
    documents = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    found = {
        "natural": labels.natural_questions(data / "questions", "train").texts,
        "trec": read_questions(data / "trec" / "train.tsv").texts,
        "squad": squad_train(data)[1],
        "written questions": labels.written_questions().texts,
        "policies": [item["question"] for row in policies for item in row["questions"]],
        "medicine": [part["question"] for row in documents for part in row["sections"]],
        "headings": [row["query"] for row in read_jsonl(data / "sections" / "questions.jsonl.gz")],
    }
    rng, known = np.random.default_rng(seed), {word for text in labels.generic_questions() for word in words(text)}
    kept = {}
    for name, texts in found.items():
        distinct = sorted({text.strip() for text in texts if not known.issuperset(words(text))})
        kept[name] = [distinct[row] for row in sorted(rng.permutation(len(distinct))[:MOST].tolist())]
    return kept


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def train(arguments: argparse.Namespace) -> None:
    encoder = open_encoder(arguments.encoder)
    rows = [
        ("generic", as_typed(text, place + twice))
        for twice in (0, 1)
        for place, text in enumerate(labels.generic_questions())
    ]
    for name, some in sources(arguments.data, arguments.seed).items():
        rows += [(name, as_typed(text, place)) for place, text in enumerate(some)]
    names, texts = np.array([name for name, _ in rows]), [text for _, text in rows]
    generic = names == "generic"
    print(f"{generic.sum()} generic questions, {(~generic).sum()} others", flush=True)
    views = {"pooled": encoder.encode(texts).rows("pooled")}
    head = fit_one_class(views, generic, texts, GENERIC, choices=CHOICES, seed=arguments.seed)
    given = head.out_of_fold[:, 0]
    threshold = round(float(np.quantile(given[generic], 1 - KEPT)), 4)
    metrics = {
        "auc": round(float(roc_auc_score(generic, given)), 4),
        **{name: round(float((given[names == name] >= threshold).mean()), 4) for name in dict.fromkeys(names.tolist())},
    }
    print(f"threshold {threshold}", metrics)
    save_one_class(
        arguments.out,
        head,
        "generic",
        encoder=encoder.fingerprint,
        examples=len(texts),
        seed=arguments.seed,
        metrics=metrics,
        threshold=threshold,
        title="Does a question name nothing of its own?",
        sections=card_sections,
    )


def card_sections(card: HeadCard) -> list[tuple[str, str]]:
    found = card.metrics
    others = ", ".join(f"{name} {share:.1%}" for name, share in found.items() if name not in ("auc", "generic"))
    return [
        (
            "What it is",
            'The probability that a question names nothing of its own: "What is the best way?", "Should I be worried?". '
            "Behind the description of a problem, such a question is about what stands before it, which is then read with "
            "it (`semclass.heads.query_focus`).",
        ),
        (
            "How it was made",
            f"`training/train_generic.py`, on {card.training['examples']} texts: questions written for this project "
            "(`training/labels/generic_questions.txt`), and training questions of public sets. Chosen by cross-validation: "
            f"{card.training['chosen']}. From the threshold on, {card.threshold}, {KEPT:.0%} of the generic questions that "
            "the head did not see are kept.",
        ),
        (
            "How good it is",
            f"By cross-validation: area under the curve {found['auc']:.3f}; called generic: {others}. On descriptions of "
            "problems with endings that it did not see: `python -m bench small_folders`.",
        ),
        ("What it is not good at", "English. Several sentences at once: it reads one at a time."),
    ]


def main() -> None:
    parser = make_parser(__doc__, "encoder", "seed")
    parser.add_argument("--data", type=Path, required=True, help="folder with the public originals")
    parser.add_argument("--out", type=Path, required=True)
    run(parser, train)


if __name__ == "__main__":
    main()
