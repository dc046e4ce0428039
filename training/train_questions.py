"""Make ``models/questions``: heads that tell which type of answer a question asks for.

    python training/train_questions.py --data DATA/trec --encoder models/encoder --out models/questions

Labels are the TREC questions of Li and Roth (2002): 5,452 to train on, 500 to test, 6 coarse and 50 fine classes. DATA/trec
holds ``train.tsv`` and ``test.tsv`` with the columns coarse, fine and question, or the public originals
``train_5500.label`` and ``TREC_10.label``; without --data these are downloaded and kept in a cache folder.

Support vector machines over the encoder's view ``layers`` and word-piece n-grams, and logistic regressions, are fitted to
the fine classes and their coarse ones at once; the coarse head gives a coarse class the score of its best fine class. Kind
and regularisation are chosen by cross-validation on the training questions, those that differ in punctuation or
digits only in one fold; the test questions are only reported on. The same encoder, data and seed give the same heads.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from command import ENCODER_HELP, load_encoder, make_parser, run
from question_data import (
    ORIGINALS,
    Questions,
    class_table,
    confusion_table,
    evaluate,
    find_file,
    read_questions,
    same_but_for_marks,
)
from semclass.artifacts import HeadCard, save_head
from semclass.errors import ArtifactError
from semclass.export import head_to_onnx
from semclass.fit import KINDS, FittedHead, fit_head, head_probabilities
from semclass.heads import Head
from semclass.taxonomy import coarse_of
from semclass.types import Encoder, FloatArray
from semclass.views import PIECES, piece_matrix

TOLERANCE = 1e-4
"""Largest difference allowed between scores of the arrays and of scikit-learn, and between probabilities of the network
and of the arrays."""


def make_views(encoder: Encoder, texts: Sequence[str]) -> dict[str, FloatArray]:
    """Encode questions: ``layers``, or ``pooled`` of an encoder without it, and ``pieces``."""
    name = "layers" if "layers" in encoder.views else "pooled"
    encoding = encoder.encode(texts, views=(name,))
    return {name: getattr(encoding, name), PIECES: piece_matrix(encoding.terms)}


def settings_table(report: Mapping[str, Any]) -> str:
    """Markdown table of the settings that cross-validation tried."""
    lines = ["| setting | accuracy | log loss | calibration error |", "|---|---|---|---|"]
    for row in report["candidates"]:
        name = f"**{row['candidate']}**" if row["candidate"] == report["chosen"] else row["candidate"]
        lines.append(f"| {name} | {row['accuracy']:.4f} | {row['log_loss']:.4f} | {row['calibration_error']:.4f} |")
    return "\n".join(lines)


def card_sections(level: str, report: Mapping[str, Any], test: Mapping[str, Any], tables: str) -> list[tuple[str, str]]:
    """Sections of a head's model card."""
    merged = "; a coarse class has the score of its best fine class" if level == "coarse" else ""
    return [
        (
            "What it is",
            f"Calibrated probabilities of the {level} classes of Li and Roth (2002), *Learning Question Classifiers*: "
            "which type of answer does a question ask for? One ONNX graph; its inputs are the encoder's means of several "
            "layers and states of the question's first word piece, and the ids of the word pieces.",
        ),
        (
            "How it was made",
            f"`training/train_questions.py`, on {report['examples']} TREC training questions. Fine and coarse classes are "
            f"fitted at once{merged}. The setting in bold was chosen by {report['folds']}-fold cross-validation on the "
            "training questions, near-duplicates in one fold; one temperature was calibrated on the held-out scores. An "
            "`svm` is a least-squares one: kernel ridge regression on class indicators, with a Gaussian kernel on "
            "principal components of the views and a linear one on word-piece n-grams.\n\n" + settings_table(report),
        ),
        (
            "How good it is",
            f"On {test['questions']} TREC test questions: accuracy {test['accuracy']:.3f} ({test['right']} right), log "
            f"loss {test['log_loss']:.3f}, expected calibration error {test['calibration_error']:.3f}. Cross-validated on "
            f"the training questions, which are longer: accuracy {report['accuracy']:.3f}.\n\n{tables}",
        ),
        (
            "Limits",
            "English. The training questions are whole sentences from quizzes and web logs around the year 2000; keyword "
            "queries and specialist domains are further away, and the head is less often right there.",
        ),
    ]


def train_level(
    level: str,
    parts: Mapping[str, Questions],
    views: Mapping[str, Mapping[str, FloatArray]],
    arguments: argparse.Namespace,
) -> FittedHead:
    """Fit the head of one level to the training questions."""
    train = parts["train"]
    return fit_head(
        views["train"],
        train.fine,
        kind=arguments.kind,
        parents={label: coarse_of(label) for label in train.fine},
        merge=level == "coarse",
        groups=[same_but_for_marks(text) for text in train.texts],
        folds=arguments.folds,
        seed=arguments.seed,
        progress=lambda line: print(f"  {line}", flush=True),
    )


def write_level(
    level: str,
    head: FittedHead,
    parts: Mapping[str, Questions],
    views: Mapping[str, Mapping[str, FloatArray]],
    encoder: str,
    seed: int,
    out: Path,
) -> None:
    """Write a head, measure it on the test questions as it was written, and compare it with scikit-learn."""
    network = head_to_onnx(head)
    reference = head_probabilities(head, views["test"])
    truth, classes = parts["test"].labels(level), head.classes
    test = evaluate(reference, classes, truth)
    said = [classes[place] for place in reference.argmax(axis=1)]
    tables = class_table(classes, truth, said)
    if level == "coarse":
        tables = confusion_table(classes, truth, said) + "\n\n" + tables
    card = HeadCard(
        task="question-type",
        classes=classes,
        link=head.link,
        inputs=head.inputs,
        encoder=encoder,
        calibration={
            "method": "temperature",
            "slope": round(head.slope, 6),
            "on": f"out-of-fold scores, {head.report['folds']} folds, of the training questions",
        },
        training={
            "data": "TREC question classification (Li and Roth 2002), training questions",
            "questions": len(parts["train"].texts),
            "level": level,
            "seed": seed,
            "chosen": head.report["chosen"],
        },
        metrics={
            "test": test,
            "cross_validation": {
                name: round(head.report[name], 4)
                for name in ("accuracy", "log_loss", "calibration_error", "uncalibrated_log_loss")
            },
        },
    )
    folder = out / level
    title = f"Which type of answer does a question ask for? {len(classes)} {level} classes"
    save_head(folder, network, card, title=title, sections=card_sections(level, head.report, test, tables))
    loaded = Head.load(folder, encoder=encoder).probabilities(views["test"])
    difference = float(np.abs(loaded - reference).max())
    print(f"\n{settings_table(head.report)}\n\nTREC test, {level}: {test}\n\n{tables}\n")
    print(f"{folder}  {len(network) / 1e6:.2f} MB  largest difference: scores of arrays and scikit-learn "
          f"{head.report['rounding_error']:.1e}, probabilities of network and arrays {difference:.1e}")  # fmt: skip
    if max(difference, head.report["rounding_error"]) > TOLERANCE:
        raise ArtifactError(f"{folder}: the network differs from what was fitted by more than {TOLERANCE}")
    if evaluate(loaded, classes, truth)["right"] != test["right"]:
        raise ArtifactError(f"{folder}: the network decides otherwise than what was fitted")


def train(arguments: argparse.Namespace) -> None:
    """Read, encode, fit, write, report."""
    parts = {part: read_questions(find_file(arguments.data, part)) for part in ORIGINALS}
    encoder = load_encoder(arguments.encoder)
    views = {part: make_views(encoder, questions.texts) for part, questions in parts.items()}
    levels = [level for level in ("coarse", "fine") if getattr(arguments, level)] or ["coarse", "fine"]
    for level in levels:
        print(
            f"{level}: {len(parts['train'].texts)} training questions, {len(set(parts['train'].labels(level)))} classes"
        )
        head = train_level(level, parts, views, arguments)
        write_level(level, head, parts, views, encoder.fingerprint, arguments.seed, arguments.out)


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="folder with the questions; downloaded if not given")
    parser.add_argument("--coarse", action="store_true", help="make the coarse head; both if neither is named")
    parser.add_argument("--fine", action="store_true", help="make the fine head")
    parser.add_argument(
        "--kind", choices=("auto", *KINDS), default="auto", help="auto: what cross-validation finds best"
    )
    parser.add_argument("--encoder", default="models/encoder", help=ENCODER_HELP)
    parser.add_argument("--out", type=Path, default=Path("models/questions"))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    run(parser, train)


if __name__ == "__main__":
    main()
