"""Make ``models/questions``: tuned copies of upper layers of the encoder, from token states to class probabilities.

    python training/tune_questions.py --data DATA --top 6 --out TEACHER/questions
    python training/tune_questions.py --data DATA --teacher TEACHER --out models/questions

The encoder's lower part stays as it ships; the network reads its view ``states``, float32 (n, length, hidden), padded with
zeros, and gives ``probabilities``, float32 (n, 50), of the fine classes of Li and Roth (2002), whose sums are the coarse
ones. The layers above, up to --top, start from the encoder's original weights; AdamW tunes them on fine and coarse labels
together. The network is int8 in the manner of the encoder (``bert_graph.py``).

With --teacher, the question head of a folder answers questions that nobody labelled, those of SQuAD's and WikiQA's training
parts, and its probabilities are learnt like labels: on natural questions that raises coarse accuracy from 95.1 to 95.8 %.

Misspelt words are corrected before a question is encoded (:mod:`semclass.heads.spelling`); the known words are written as
``words.txt``. Forms with slips and without a question mark are mixed in, since programs that run the network may correct
neither. Texts that ask nothing are trained towards equal probabilities of the coarse classes.

Training questions are ``trec/train.tsv`` and those labelled or written for this project. On WebQuestions, SimpleQuestions
and MedQuAD, when these were not trained on, questions written for this project raise the share of right coarse classes from
85.6 % to 89.5 % (calibration error from 0.06 to 0.03). Temperatures come from a fold that a first network has not seen. The
same encoder, data, seed and kind of processor give the same bytes, but for the seconds in the manifest. Needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bert_graph
import labels
from bert_torch import EXTRA
from command import make_parser, run, save_artifact, seconds_so_far
from export_encoder import find_source
from question_data import Questions, figure_rows, measure, read_questions, same_but_for_marks
from question_network import Recipe, Setup, Slopes, find_slopes, int8_network, probabilities, softened, tune
from question_sets import SOURCES, Training, as_read, frequent_words, read_training, unlabelled, vary, words_file
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import Ragged
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller

Array = npt.NDArray[Any]

FOLDS = 5  # one of so many folds is held out to find the temperatures
CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 1e-3  # between probabilities of a question alone and in a batch; int8 rounding may tip a value
LONGEST = 64  # word pieces read of a question here


def held_out_fold(texts: Sequence[str], seed: int) -> Array:
    """Which questions are held out: bool (n,), about one in FOLDS, groups of :func:`same_but_for_marks` undivided."""
    groups: dict[str, int] = {}
    place = np.array([groups.setdefault(same_but_for_marks(text), len(groups)) for text in texts])
    return np.random.default_rng(seed).permutation(len(groups))[place] % FOLDS == 0


def wanted(training: Training, setup: Setup) -> Array:
    """Probabilities to learn, float32 (n, classes): of questions 0 or 1; then of texts that ask nothing.

    These are equal for all coarse classes, and for all fine classes of a coarse one.
    """
    given = np.eye(len(setup.classes))[[setup.classes.index(name) for name in training.questions.fine]]
    sizes = setup.belongs.sum(axis=0)
    even = setup.belongs @ (1 / (sizes * (sizes > 0).sum()))
    return np.concatenate([given, np.tile(even, (len(training.nothing), 1))]).astype(np.float32)


def read_states(encoder: OnnxEncoder, texts: Sequence[str]) -> Ragged:
    """Token states of texts, special tokens included."""
    return encoder.encode(texts, views=(STATES,)).pieces(STATES)


def halved(states: Ragged) -> Ragged:
    return Ragged(states.values.astype(np.float16), states.offsets)


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    recipe = Recipe(top=arguments.top)
    encoder = replace(OnnxEncoder.load(arguments.encoder, threads=arguments.threads), max_length=LONGEST)
    layer = int(artifacts.load_artifact(arguments.encoder, "encoder").field("shared_layer"))
    if not layer < recipe.top <= config.num_hidden_layers:
        raise InputError(
            f"--top is {recipe.top}; it must be {layer + 1} to {config.num_hidden_layers} with this encoder"
        )
    training, dev = read_training(arguments.data), labels.natural_questions(arguments.data, "dev")
    test = read_questions(arguments.data / "trec" / "test.tsv")
    questions = training.questions
    classes = sorted(set(questions.fine))
    setup = Setup(weights, config, recipe, layer, classes, arguments.seed)
    words = frequent_words(encoder.tokenizer.get_vocab(), questions.texts)
    speller = Speller.of_words(words)

    def read(texts: Sequence[str]) -> Ragged:
        return read_states(encoder, [speller(text) for text in texts])

    texts, targets = questions.texts + training.nothing, wanted(training, setup)
    more, answered_by_teacher = taught(arguments, setup, encoder, texts)
    labelled = len(texts)
    texts, targets = (*texts, *more), np.concatenate([targets, answered_by_teacher])
    rng = random.Random(arguments.seed)
    plain = read(texts)
    forms = [halved(plain), *(halved(read([vary(text, rng) for text in texts])) for _ in range(recipe.forms))]
    calibration = plain.take(np.random.default_rng(arguments.seed).permutation(len(texts))[:CALIBRATION])

    held = np.append(held_out_fold(texts[:labelled], arguments.seed), np.zeros(len(more), bool))
    kept = [form.take(np.flatnonzero(~held)) for form in forms]
    print(f"{(~held).sum()} texts to find the temperatures on {held.sum()} others", flush=True)
    uncalibrated = int8_network(tune(kept, targets[~held], setup), setup, Slopes(), calibration)
    rows = np.flatnonzero(held[: len(questions.texts)])
    given = probabilities(uncalibrated, plain.take(rows))
    slopes = find_slopes(given, targets[rows].argmax(axis=1), setup.belongs)
    others = Questions(tuple(texts[row] for row in rows), tuple(questions.fine[row] for row in rows))
    metrics = {"held_out": measure(softened(given, slopes, setup.belongs), classes, others)}
    print(f"held out: {metrics}\n{len(texts)} texts", flush=True)

    network = int8_network(tune(forms, targets, setup), setup, slopes, calibration)
    answered = {
        name: probabilities(network, read_states(encoder, as_read(speller, part.texts)))
        for name, part in (("test", test), ("natural_dev", dev))
    }
    metrics |= {
        "test": measure(answered["test"], classes, test),
        "natural_dev": measure(answered["natural_dev"], classes, dev),
    }
    card = {
        "task": "question-type",
        "classes": tuple(classes),
        "link": "softmax",
        "inputs": {STATES: encoder.views[STATES]},
        "encoder": encoder.fingerprint,
        "calibration": {
            "method": "temperature",
            "slope": slopes.fine,
            "coarse_slope": slopes.coarse,
            "on": f"{len(rows)} held-out training questions",
        },
        "training": {
            "data": SOURCES,
            "questions": len(questions.texts),
            "texts that ask nothing": len(training.nothing),
            "questions answered by a teacher": len(more),
            "layers": [layer + 1, recipe.top],
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
            **asdict(recipe),
        },
        "metrics": metrics,
    }
    files = {"model.onnx": network, **words_file(words)}
    save_artifact(arguments.out, "head", files, card, "questions", table=figure_rows(metrics))
    for name, figures in metrics.items():
        print(f"{name}: {figures}")
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")
    check(arguments.out, encoder, answered["test"], test)


def taught(
    arguments: argparse.Namespace, setup: Setup, encoder: OnnxEncoder, known: Sequence[str]
) -> tuple[list[str], Array]:
    """Questions without labels, and what a teacher answers, float32 (n, classes); none without a teacher."""
    if arguments.teacher is None:
        return [], np.zeros((0, len(setup.classes)), np.float32)
    teacher = QuestionClassifier.load(arguments.teacher, encoder=encoder)
    if tuple(teacher.fine_classes) != tuple(setup.classes):
        raise InputError(f"the question head in {arguments.teacher} has other classes than the training questions")
    texts = unlabelled(arguments.data, known)
    return texts, teacher.predict_proba(texts, level="fine").astype(np.float32)


def check(folder: Path, encoder: OnnxEncoder, given: Array, test: Questions) -> None:
    """Run the head as it was written, in batches, and compare it with the network that was measured one by one."""
    head = Head.load(folder, encoder=encoder.fingerprint)
    found = QuestionClassifier(encoder, head).predict_proba(test.texts, level="fine")
    difference = float(np.abs(found - given).max())
    print(f"largest difference between batches and single questions: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


if __name__ == "__main__":
    parser = make_parser(__doc__, "data", "encoder", "source", "threads", "seed", "out")
    parser.add_argument("--top", type=int, default=Recipe.top, help="last of the tuned layers")
    parser.add_argument("--teacher", type=Path, help="models folder whose question head answers further questions")
    run(parser, train)
