"""Make ``models/questions-svm``: a head over the frozen encoder that tells which type of answer a question asks for.

    python training/train_questions.py --data DATA/trec --encoder models/encoder --out FOLDER
    python training/train_questions.py --data DATA/trec --originals DATA --teacher models --kind svm --out FOLDER

``tune_questions.py`` makes better heads; this script needs no torch, works with any encoder and takes minutes. With
--teacher the question head of a models folder labels questions that nobody labelled, those of SQuAD's and WikiQA's training
parts in --originals, which raises the share of right coarse classes of natural questions from 89.1 to 90.9 % on a fold of
the training questions.

Labels are the TREC questions of Li and Roth (2002): 5,452 to train on, 500 to test, 6 coarse and 50 fine classes. DATA/trec
holds ``train.tsv`` and ``test.tsv`` with the columns coarse, fine and question, or the public originals
``train_5500.label`` and ``TREC_10.label``. Questions that --originals names are trained on besides.

Support vector machines over the encoder's view ``layers`` and word-piece n-grams, and logistic regressions, are fitted to
the fine classes and their coarse ones at once. Kind and regularisation are chosen by cross-validation on the training
questions, near-duplicates in one fold; a machine has `LIMITS`, so that it takes less than 2 MB. Misspelt words are
corrected and missing question marks added before a question is encoded (:mod:`semclass.heads.spelling`). The same encoder,
data and seed give the same head.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedGroupKFold

from command import make_parser, run, seconds_so_far
from question_data import (
    Questions,
    class_table,
    evaluate,
    find_file,
    membership,
    read_questions,
    same_but_for_marks,
)
from question_sets import add_options, as_read, frequent_words, read_dev, read_training, unlabelled, words_file
from semclass.core.cards import HeadCard, save_head
from semclass.core.errors import ArtifactError, InputError
from semclass.core.taxonomy import COARSE, coarse_of
from semclass.core.types import DoubleArray, Encoder, FloatArray
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.inputs import PIECES, piece_matrix
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller
from semclass.heads.texts import open_encoder
from semclass.train.export import head_to_onnx
from semclass.train.fit import Choice, fit_head
from semclass.train.fitted import head_probabilities
from semclass.train.solvers import KINDS, Limits

TOLERANCE = 1e-4  # between probabilities of the network and of the arrays
FOLDS = 5
SURE = 0.7  # least probability of a class that a teacher gives
LIMITS = Limits(components=192, landmarks=2000, ngrams=4096)


def make_views(encoder: Encoder, texts: Sequence[str]) -> dict[str, FloatArray]:
    """Encode questions: ``layers``, or ``pooled`` of an encoder without it, and ``pieces``."""
    name = "layers" if "layers" in encoder.views else "pooled"
    encoding = encoder.encode(texts, views=(name,))
    return {name: getattr(encoding, name), PIECES: piece_matrix(encoding.terms)}


def taught(teacher: QuestionClassifier, texts: Sequence[str]) -> Questions:
    """Questions that the teacher is `SURE` of, with their fine classes."""
    found = teacher.predict_proba(texts, level="fine")
    rows = np.flatnonzero(found.max(axis=1) >= SURE)
    said = found[rows].argmax(axis=1)
    return Questions(tuple(texts[row] for row in rows), tuple(teacher.fine_classes[place] for place in said))


def folds_of(questions: Questions, labelled: int, seed: int) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Rows to fit on and to score: the labelled ones are scored, and those after them are fitted on in each fold."""
    groups = [same_but_for_marks(text) for text in questions.texts[:labelled]]
    splitter: StratifiedGroupKFold = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    others = np.arange(labelled, len(questions.texts))
    splits = splitter.split(np.zeros(labelled), questions.fine[:labelled], groups)
    return [(np.append(fitted, others), scored) for fitted, scored in splits]


def card_sections(report: Mapping[str, Any], metrics: Mapping[str, Any], tables: str) -> Any:
    test, natural = metrics["test"], ""

    def told(part: Mapping[str, Any]) -> str:
        return "accuracy " + ", ".join(f"{found['accuracy']:.3f} {name}" for name, found in part.items())

    if "natural_dev" in metrics:
        dev = metrics["natural_dev"]
        natural = f" On {dev['fine']['questions']} natural questions: " + told(dev) + "."
    return [
        (
            "What it is",
            "Calibrated probabilities of the fine classes of Li and Roth (2002), *Learning Question Classifiers*: "
            "which type of answer does a question ask for? One ONNX graph; its inputs are the encoder's means of several "
            "layers and states of the question's first word piece, and the ids of the word pieces.",
        ),
        (
            "How it was made",
            f"`training/train_questions.py`, on {report['examples']} questions: {report['chosen']}, chosen by "
            f"{report['folds']}-fold cross-validation on the training questions, near-duplicates in one fold; one "
            "temperature was calibrated on the held-out scores.",
        ),
        (
            "How good it is",
            f"On {test['fine']['questions']} TREC test questions: {told(test)}, log loss {test['fine']['log_loss']:.3f}, "
            f"expected calibration error {test['fine']['calibration_error']:.3f}.{natural} Cross-validated on the labelled "
            f"training questions: accuracy {report['accuracy']:.3f}.\n\n{tables}",
        ),
        (
            "Limits",
            "English. Keyword queries and specialist domains are further away from the training questions, and the head is "
            "less often right there.",
        ),
    ]


def train(arguments: argparse.Namespace) -> None:
    training, dev = read_training(arguments), read_dev(arguments)
    test = read_questions(find_file(arguments.data, "test"))
    encoder = open_encoder(arguments.encoder)
    words: list[str] = []
    if isinstance(encoder, OnnxEncoder) and not arguments.no_spelling:
        words = frequent_words(encoder.tokenizer.get_vocab(), training.questions.texts)
    speller = Speller.of_words(words) if words else None

    def read(texts: Sequence[str]) -> dict[str, FloatArray]:
        return make_views(encoder, as_read(speller, texts))

    questions, labelled = training.questions, len(training.questions.texts)
    sources = list(training.sources)
    if arguments.teacher is not None:
        if arguments.originals is None:
            raise InputError("--teacher labels questions of --originals; name that folder, too")
        known = [*questions.texts, *test.texts, *(dev.texts if dev else ())]
        teacher = QuestionClassifier.load(arguments.teacher, encoder=encoder)
        more = taught(teacher, unlabelled(arguments.originals, known))
        questions = Questions(questions.texts + more.texts, questions.fine + more.fine)
        sources.append(
            f"{len(more.texts)} questions of SQuAD's and WikiQA's training parts, labelled by the tuned head"
        )
    print(f"{labelled} labelled questions, {len(questions.texts) - labelled} by the teacher", flush=True)
    views = read(questions.texts)
    (dense,) = (name for name in views if name != PIECES)
    head = fit_head(
        views,
        questions.fine,
        choices=[Choice({dense: 1.0}, arguments.kind)],
        limits=LIMITS,
        parents={label: coarse_of(label) for label in questions.fine},
        folds=folds_of(questions, labelled, arguments.seed),
        seed=arguments.seed,
        progress=lambda line: print(f"  {line}", flush=True),
    )
    views, classes = read(test.texts), head.classes
    reference, truth = head_probabilities(head, views), test.fine

    def figures(given: DoubleArray, truth: Questions) -> dict[str, Any]:
        coarse = evaluate(given @ membership(classes), COARSE, truth.labels("coarse"))
        return {"coarse": coarse, "fine": evaluate(given, classes, truth.fine)}

    metrics: dict[str, Any] = {
        "test": figures(reference, test),
        "cross_validation": {
            name: round(head.report[name], 4)
            for name in ("accuracy", "log_loss", "calibration_error", "uncalibrated_log_loss")
        },
    }
    if dev is not None:
        metrics["natural_dev"] = figures(head_probabilities(head, read(dev.texts)), dev)
    said = [classes[place] for place in reference.argmax(axis=1)]
    tables = class_table(classes, truth, said)
    card = HeadCard(
        task="question-type",
        classes=classes,
        link=head.link,
        inputs=head.inputs,
        encoder=encoder.fingerprint,
        calibration={
            "method": "temperature",
            "slope": round(head.slope, 6),
            "on": f"out-of-fold scores, {head.report['folds']} folds, of the training questions",
        },
        training={
            "data": "; ".join(sources),
            "questions": len(questions.texts),
            "seed": arguments.seed,
            "chosen": head.report["chosen"],
            "seconds": seconds_so_far(),
        },
        metrics=metrics,
    )
    network = head_to_onnx(head)
    title = f"Which type of answer does a question ask for? {len(classes)} fine classes"
    sections = card_sections(head.report, metrics, tables)
    save_head(arguments.out, network, card, title=title, sections=sections, files=words_file(words))
    for part, found in metrics.items():
        print(f"{part}: {found}")
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")
    check(arguments.out, encoder.fingerprint, views, reference)


def check(folder: Path, encoder: str, views: Mapping[str, FloatArray], reference: DoubleArray) -> None:
    """Compare the head as it was written with what was fitted."""
    loaded = Head.load(folder, encoder_fingerprint=encoder).probabilities(views)
    difference = float(np.abs(loaded - reference).max())
    print(f"largest difference between probabilities of network and arrays {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: the network differs from what was fitted by more than {TOLERANCE}")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "seed")
    add_options(parser)
    parser.add_argument("--teacher", type=Path, help="models folder whose question head labels further questions")
    parser.add_argument("--no-spelling", action="store_true", help="read misspelt words as they are typed")
    parser.add_argument(
        "--kind", choices=("auto", *KINDS), default="auto", help="auto: what cross-validation finds best"
    )
    parser.add_argument("--out", type=Path, required=True)
    run(parser, train)


if __name__ == "__main__":
    main()
