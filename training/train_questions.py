r"""Make a head over the frozen encoder that tells which type of answer a question asks for.

    python training/train_questions.py --data DATA --encoder models/encoder --out FOLDER
    python training/train_questions.py --data DATA --multilingual --teacher models --encoder MULTILINGUAL/encoder \
        --out MULTILINGUAL/questions

``tune_questions.py`` makes better heads; this script needs no torch, works with any encoder and takes minutes. With
--teacher the question head of a models folder labels questions that nobody labelled, which raises the share of right coarse
classes of natural questions from 89.1 to 90.9 % on a fold of the training questions.

A head over the encoder's view ``layers`` is fitted to the fine classes. Its regularisation is chosen by cross-validation,
near-duplicates in one fold. The same encoder, data and seed give the same head.

With --multilingual, it learns from the questions of ``multilingual/questions``, too, which tell coarse classes; the fine
class within one is that which a head that is fitted to the English questions finds most probable. The setting is chosen on
languages and on questions of TREC that the fit did not see. No word is corrected for such a head.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import labels
from command import language_of, make_parser, run, save_artifact, seconds_so_far
from question_data import (
    Questions,
    evaluate,
    figure_rows,
    joined,
    measure,
    membership,
    read_questions,
    same_but_for_marks,
)
from question_sets import (
    BLOCKS,
    SOURCES,
    TRANSLATED,
    Translations,
    as_read,
    english_folds,
    frequent_words,
    read_training,
    read_translations,
    unlabelled,
    words_file,
)
from semclass.core.types import COARSE, Encoder, FloatArray, coarse_of
from semclass.encoders.onnx_encoder import OnnxEncoder, open_encoder
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller
from semclass.train.fit import Choice, Targets, fit_problem, problem_of
from semclass.train.fitted import FittedHead, head_probabilities, head_to_onnx

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


def language_table(languages: Mapping[str, Mapping[str, Any]]) -> str:
    if not languages:
        return ""
    rows = [
        f"| {name} | {found['questions']} | {found['accuracy']:.3f} | {'yes' if found['left_out'] else 'no'} |"
        for name, found in languages.items()
    ]
    head = "| language, by heads that did not see the questions | questions | accuracy | nothing learnt in it |"
    return "\n".join([head, "|---|---|---|---|", *rows])


def train(arguments: argparse.Namespace) -> None:
    data, many = arguments.data, arguments.multilingual
    labelled, dev = read_training(data).questions, labels.natural_questions(data, "dev")
    test = read_questions(data / "trec" / "test.tsv")
    encoder = open_encoder(arguments.encoder)
    words: list[str] = []
    if isinstance(encoder, OnnxEncoder) and not many:
        words = frequent_words(encoder.tokenizer.get_vocab(), labelled.texts)
    speller, sources = Speller.of_words(words) if words else None, [SOURCES]

    def read(texts: Sequence[str]) -> dict[str, FloatArray]:
        return make_views(encoder, as_read(speller, texts))

    questions = labelled
    if arguments.teacher:
        known = [*labelled.texts, *test.texts, *dev.texts]
        more = taught(QuestionClassifier.load(arguments.teacher), unlabelled(data, known))
        questions = joined([labelled, more])
        sources.append(
            f"{len(more.texts)} questions of SQuAD's and WikiQA's training parts, labelled by the tuned head"
        )
    count, english = len(labelled.texts), len(questions.texts)
    print(f"{count} labelled questions, {english - count} by the teacher", flush=True)
    views = read(questions.texts)
    (dense,) = views

    def fit(fine: Sequence[str], groups: Sequence[str], folds: int, times: Any = 1) -> FittedHead:
        rows = np.repeat(np.arange(len(fine)), times)
        head = fit_problem(
            problem_of({dense: views[dense][rows]}, Targets.of([fine[row] for row in rows], multi_label=False)),
            [Choice({dense: 1.0})],
            [groups[row] for row in rows],
            landmarks=OF_LANGUAGES if many else LANDMARKS,
            folds=folds,
            seed=arguments.seed,
            say=lambda line: print(f"  {line}", flush=True),
        )
        return replace(head, out_of_fold=np.asarray(head.out_of_fold)[np.searchsorted(rows, np.arange(len(fine)))])

    head = fit(questions.fine, [same_but_for_marks(text) for text in questions.texts], FOLDS)
    metrics: dict[str, Any] = {}
    if many:
        others = read_translations(data / "multilingual" / "questions")
        found = read(others.texts)
        fine = (*questions.fine, *fine_classes(head, found, others.coarse))
        views = {name: np.concatenate([rows, found[name]]) for name, rows in views.items()}
        trec = len(read_questions(data / "trec" / "train.tsv").texts)
        groups = [*map(str, english_folds(questions.texts, trec)), *map(str, others.folds)]
        head = fit(fine, groups, BLOCKS + 1, [*[2] * english, *others.times])
        sources.append(f"{len(others.texts)} questions in {', '.join(sorted(set(others.languages)))}")
        metrics["languages"] = by_language(head, english, others)
    for name, part in (("test", test), ("natural_dev", dev)):
        metrics[name] = measure(head_probabilities(head, read(part.texts)), head.classes, part)
    names = ("accuracy", "log_loss", "calibration_error", "uncalibrated_log_loss")
    metrics["cross_validation"] = {name: round(head.report[name], 4) for name in names}
    card = {
        "task": "question-type",
        "classes": head.classes,
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
            "questions": len(views[dense]),
            "seed": arguments.seed,
            "chosen": head.report["chosen"],
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    tables = {"table": figure_rows(metrics), "languages": language_table(metrics.get("languages", {}))}
    network = head_to_onnx(head)
    files = {"model.onnx": network, **words_file(words)}
    save_artifact(arguments.out, "head", files, card, "frozen_questions", language=language_of(arguments), **tables)
    for name, figures in metrics.items():
        print(f"{name}: {figures}")
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")


if __name__ == "__main__":
    parser = make_parser(__doc__, "data", "encoder", "multilingual", "seed", "out")
    parser.add_argument("--teacher", type=Path, help="models folder whose question head labels further questions")
    run(parser, train)
