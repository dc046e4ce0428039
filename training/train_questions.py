"""Make a head over the frozen encoder that tells which type of answer a question asks for.

    python training/train_questions.py --data DATA/trec --encoder models/encoder --out FOLDER
    python training/train_questions.py --data DATA/trec --originals DATA --teacher models --out FOLDER
    python training/train_questions.py --data DATA/trec --originals DATA --teacher models --encoder
        MULTILINGUAL/encoder --translations DATA/multilingual/questions --out MULTILINGUAL/questions

``tune_questions.py`` makes better heads; this script needs no torch, works with any encoder and takes minutes. With
--teacher the question head of a models folder labels questions that nobody labelled, those of SQuAD's and WikiQA's training
parts in --originals, which raises the share of right coarse classes of natural questions from 89.1 to 90.9 % on a fold of
the training questions.

Labels are the TREC questions of Li and Roth (2002): 5,452 to train on, 500 to test, 6 coarse and 50 fine classes. DATA/trec
holds ``train.tsv`` and ``test.tsv`` with the columns coarse, fine and question, or the public originals
``train_5500.label`` and ``TREC_10.label``. Questions that --originals names are trained on besides.

A head of the kind --kind over the encoder's view ``layers`` is fitted to the fine classes. Its regularisation is chosen by
cross-validation on the training questions, near-duplicates in one fold. Misspelt words are
corrected and missing question marks added before a question is encoded (:mod:`semclass.heads.spelling`). The same encoder,
data and seed give the same head.

With --translations, a head for an encoder of many languages learns from questions in other languages, too. Their files tell
coarse classes; the fine class within one is that which a head that is fitted to the English questions finds most probable.
The setting is chosen on languages that the fit did not see, and on other questions than it saw: fitted to TREC and its
translations, scored on all others. No word is corrected for such a head.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedGroupKFold

from command import MULTILINGUAL, make_parser, run, save_head, seconds_so_far
from question_data import Questions, class_table, evaluate, find_file, membership, read_questions, same_but_for_marks
from question_sets import (
    BLOCKS,
    TRANSLATED,
    Translations,
    add_options,
    as_read,
    english_folds,
    frequent_words,
    read_dev,
    read_training,
    read_translations,
    unlabelled,
    words_file,
)
from semclass.core.errors import ArtifactError, InputError
from semclass.core.taxonomy import COARSE, coarse_of
from semclass.core.types import DoubleArray, Encoder, FloatArray
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller
from semclass.heads.texts import open_encoder
from semclass.train.data import Targets, problem_of
from semclass.train.fit import Choice, fit_problem
from semclass.train.fitted import FittedHead, head_probabilities, head_to_onnx

TOLERANCE = 5e-4  # between probabilities of the network, which is in float32, and of the arrays
FOLDS = 5
SURE = 0.7  # least probability of a class that a teacher gives
LANDMARKS, OF_LANGUAGES = 1000, 2500  # texts that others are compared with; more help with many languages


def make_views(encoder: Encoder, texts: Sequence[str]) -> dict[str, FloatArray]:
    """Encode questions: ``layers``, or ``pooled`` of an encoder without it."""
    name = "layers" if "layers" in encoder.views else "pooled"
    return {name: encoder.encode(texts, views=(name,)).rows(name)}


def taught(teacher: QuestionClassifier, texts: Sequence[str]) -> Questions:
    """Questions that the teacher is `SURE` of, with their fine classes."""
    found = teacher.predict_proba(texts, level="fine")
    rows = np.flatnonzero(found.max(axis=1) >= SURE)
    said = found[rows].argmax(axis=1)
    return Questions(tuple(texts[row] for row in rows), tuple(teacher.fine_classes[place] for place in said))


def and_taught(arguments: argparse.Namespace, questions: Questions, known: Sequence[str]) -> Questions:
    """Questions, and behind them those that --teacher labels, which are neither these nor `known`."""
    if arguments.teacher is None:
        return questions
    if arguments.originals is None:
        raise InputError("--teacher labels questions of --originals; name that folder, too")
    more = taught(
        QuestionClassifier.load(arguments.teacher), unlabelled(arguments.originals, [*questions.texts, *known])
    )
    return Questions(questions.texts + more.texts, questions.fine + more.fine)


def folds_of(questions: Questions, labelled: int, seed: int) -> list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Rows to fit on and to score: the labelled ones are scored, and those after them are fitted on in each fold."""
    groups = [same_but_for_marks(text) for text in questions.texts[:labelled]]
    splitter: StratifiedGroupKFold = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    others = np.arange(labelled, len(questions.texts))
    splits = splitter.split(np.zeros(labelled), questions.fine[:labelled], groups)
    return [(np.append(fitted, others), scored) for fitted, scored in splits]


def across_languages(english: list[int], taught: int, others: Translations) -> list[tuple[Any, Any]]:
    """Rows to fit on and to score: languages that the fit did not see first, then each block of TREC in all languages.

    Rows are English questions with their folds, those that were `taught`, and translations.
    """
    folds = np.array([*english, *[-1] * taught, *others.folds.tolist()])
    return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in (BLOCKS, *range(BLOCKS))]


def fine_classes(head: FittedHead, views: Mapping[str, FloatArray], coarse: Sequence[str]) -> tuple[str, ...]:
    """The most probable fine class of texts within their coarse ones."""
    within = np.array([[coarse_of(name) == label for name in head.classes] for label in coarse])
    found = np.where(within, head_probabilities(head, views), -1.0).argmax(axis=1)
    return tuple(head.classes[place] for place in found)


def by_language(head: FittedHead, first: int, others: Translations) -> dict[str, dict[str, Any]]:
    """Figures of coarse classes in each language, by heads that did not see the questions; rows from `first` are those."""
    coarse = np.asarray(head.out_of_fold)[first:] @ membership(head.classes)
    found = {}
    for name in sorted(set(others.languages), key=lambda name: (name not in TRANSLATED, name)):
        rows = np.flatnonzero(np.array(others.languages) == name)
        found[name] = evaluate(coarse[rows], COARSE, [others.coarse[row] for row in rows])
        found[name]["left_out"] = name not in TRANSLATED
    return found


def card_sections(report: Mapping[str, Any], metrics: Mapping[str, Any], tables: str) -> Any:
    test, natural, languages = metrics["test"], "", metrics.get("languages", {})

    def told(part: Mapping[str, Any]) -> str:
        return "accuracy " + ", ".join(f"{found['accuracy']:.3f} {name}" for name, found in part.items())

    if "natural_dev" in metrics:
        dev = metrics["natural_dev"]
        natural = f" On {dev['fine']['questions']} natural questions: " + told(dev) + "."
    sections = [
        (
            "What it is",
            "Calibrated probabilities of the fine classes of Li and Roth (2002), *Learning Question Classifiers*: "
            "which type of answer does a question ask for? One ONNX graph over the encoder's view of several layers.",
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
    ]
    if languages:
        rows = [
            f"| {name} | {found['questions']} | {found['accuracy']:.3f} | {'yes' if found['left_out'] else 'no'} |"
            for name, found in languages.items()
        ]
        sections.append(
            (
                "Other languages",
                "Accuracy of coarse classes by heads that did not see the questions, in any language. Where a language "
                "was left out, the head saw no question in it; the head that ships saw them all. Most labels were derived "
                "from the answers, and 5 to 10 % of these are debatable.\n\n"
                "| language | questions | accuracy | left out |\n|---|---|---|---|\n" + "\n".join(rows),
            )
        )
    limits = (
        "Of most languages there are questions of the classes ENTY, HUM, LOC and NUM alone; ABBR and DESC come from "
        "English, Spanish and Portuguese."
        if languages
        else "English."
    )
    keywords = (
        " Keyword queries and specialist domains are further away from the training questions, and the head is less "
    )
    return [*sections, ("Limits", f"{limits}{keywords}often right there.")]


def train(arguments: argparse.Namespace) -> None:
    training, dev = read_training(arguments), read_dev(arguments)
    test = read_questions(find_file(arguments.data, "test"))
    encoder = open_encoder(arguments.encoder)
    others = None if arguments.translations is None else read_translations(arguments.translations)
    words: list[str] = []
    if isinstance(encoder, OnnxEncoder) and others is None:
        words = frequent_words(encoder.tokenizer.get_vocab(), training.questions.texts)
    speller = Speller.of_words(words) if words else None

    def read(texts: Sequence[str]) -> dict[str, FloatArray]:
        return make_views(encoder, as_read(speller, texts))

    labelled, sources = len(training.questions.texts), list(training.sources)
    questions = and_taught(arguments, training.questions, [*test.texts, *(dev.texts if dev else ())])
    if count := len(questions.texts) - labelled:
        sources.append(f"{count} questions of SQuAD's and WikiQA's training parts, labelled by the tuned head")
    print(f"{labelled} labelled questions, {count} by the teacher", flush=True)
    views = read(questions.texts)
    (dense,) = views

    def fit(fine: Sequence[str], folds: Any, weight: list[float] | None = None) -> FittedHead:
        return fit_problem(
            problem_of(views, Targets.of(fine, multi_label=False), None if weight is None else np.array(weight)),
            [Choice({dense: 1.0})],
            None,
            landmarks=OF_LANGUAGES if arguments.translations else LANDMARKS,
            folds=folds,
            seed=arguments.seed,
            say=lambda line: print(f"  {line}", flush=True),
        )

    head = fit(questions.fine, folds_of(questions, labelled, arguments.seed))
    english = len(questions.texts)
    if others is not None:
        found = read(others.texts)
        fine = (*questions.fine, *fine_classes(head, found, others.coarse))
        views = {name: np.concatenate([rows, found[name]]) for name, rows in views.items()}
        trec = len(read_questions(find_file(arguments.data, "train")).texts)
        folds = across_languages(english_folds(questions.texts[:labelled], trec), english - labelled, others)
        head = fit(fine, folds, [*[1.0] * english, *others.weights])
        sources.append(f"{len(others.texts)} questions in {', '.join(sorted(set(others.languages)))}")
    trained, classes = views, head.classes
    views = read(test.texts)
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
    if others is not None:
        metrics["languages"] = by_language(head, english, others)
    said = [classes[place] for place in reference.argmax(axis=1)]
    tables = class_table(classes, truth, said)
    card = {
        "task": "question-type",
        "classes": classes,
        "link": head.link,
        "inputs": head.inputs,
        "encoder": encoder.fingerprint,
        "calibration": {
            "method": "temperature",
            "slope": round(head.slope, 6),
            "on": f"out-of-fold scores, {head.report['folds']} folds, of the training questions",
        },
        "training": {
            "data": "; ".join(sources),
            "questions": len(trained[dense]),
            "seed": arguments.seed,
            "chosen": head.report["chosen"],
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    network = head_to_onnx(head)
    title = f"Which type of answer does a question ask for? {len(classes)} fine classes"
    sections = card_sections(head.report, metrics, tables)
    facts = None if others is None else MULTILINGUAL
    save_head(arguments.out, network, card, title=title, sections=sections, files=words_file(words), facts=facts)
    for part, figure in metrics.items():
        print(f"{part}: {figure}")
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")
    check(arguments.out, encoder.fingerprint, views, reference)


def check(folder: Path, encoder: str, views: Mapping[str, FloatArray], reference: DoubleArray) -> None:
    """Compare the head as it was written with what was fitted."""
    loaded = Head.load(folder, encoder=encoder).probabilities(views)
    difference = float(np.abs(loaded - reference).max())
    print(f"largest difference between probabilities of network and arrays {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: the network differs from what was fitted by more than {TOLERANCE}")


def main() -> None:
    parser = make_parser(__doc__, "data", "encoder", "seed", "out")
    add_options(parser)
    parser.add_argument("--teacher", type=Path, help="models folder whose question head labels further questions")
    parser.add_argument("--translations", type=Path, help="folder with LANG.tsv: questions in other languages")
    run(parser, train)


if __name__ == "__main__":
    main()
