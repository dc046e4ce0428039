"""Make ``models/questions``: tuned copies of upper layers of the encoder, from token states to class probabilities.

    python training/tune_questions.py --data DATA/trec --originals DATA --top 6 --out TEACHER/questions
    python training/tune_questions.py --data DATA/trec --originals DATA --teacher TEACHER --out models/questions

The encoder's lower part stays as it ships; the network reads its view ``states``, float32 (n, length, hidden), padded with
zeros, and gives ``probabilities``, float32 (n, 50), of the fine classes of Li and Roth (2002), whose sums are the coarse
ones. The layers above, up to --top, start from the encoder's original weights; AdamW tunes them on fine and coarse labels
together. The network is int8 in the manner of the encoder (``bert_graph.py``).

With --teacher, the question head of a models folder answers questions that nobody labelled, those of SQuAD's and WikiQA's
training parts, and its probabilities are learnt like labels: on natural questions that raises coarse accuracy from 95.1
to 95.8 %. The folder may have an encoder of its own; else the teacher goes on from --encoder.

Misspelt words are corrected before a question is encoded (:mod:`semclass.heads.spelling`); the known words are written as
``words.txt``. Forms with slips and without a question mark are mixed in, since programs that run the network may correct
neither. Texts that ask nothing are trained towards equal probabilities of the coarse classes.

Training questions are ``trec/train.tsv`` and those of --originals. On WebQuestions, SimpleQuestions
and MedQuAD, when these were not trained on, questions written for this project raise the share of right coarse classes from
85.6 % to 89.5 % (calibration error from 0.06 to 0.03). Temperatures come from a fold that a first network has not seen. The
same encoder, data, seed and kind of processor give the same bytes, but for the
seconds in the manifest. Needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bert_graph
from bert_torch import EXTRA
from command import make_parser, run, save_head, seconds_so_far
from export_encoder import find_source
from figures import reliability_diagram
from question_data import Questions, class_table, evaluate, find_file, membership, read_questions, same_but_for_marks
from question_network import Recipe, Setup, Slopes, find_slopes, int8_network, probabilities, softened, tune
from question_sets import (
    Training,
    add_options,
    as_read,
    frequent_words,
    read_dev,
    read_training,
    unlabelled,
    vary,
    words_file,
)
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.taxonomy import COARSE
from semclass.core.types import Ragged
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller
from semclass.train.calibration import expected_calibration_error

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


def measure(given: Array, classes: Sequence[str], questions: Questions) -> dict[str, dict[str, Any]]:
    """Figures of both levels: coarse probabilities are sums of fine ones, the fine answer is within the coarse one."""
    _, narrow = answers(given, classes)
    fine = evaluate(given, classes, questions.fine)
    right = np.array([classes[place] == name for place, name in zip(narrow, questions.fine, strict=True)])
    error = expected_calibration_error(given[np.arange(len(given)), narrow], right)
    fine |= {"accuracy": round(float(right.mean()), 4), "right": int(right.sum()), "calibration_error": round(error, 4)}
    return {"coarse": evaluate(given @ membership(classes), COARSE, questions.labels("coarse")), "fine": fine}


def answers(given: Array, classes: Sequence[str]) -> tuple[Array, Array]:
    """Best coarse class of each question, and best fine class within it, int64 (n,) each."""
    belongs = membership(classes)
    coarse = (given @ belongs).argmax(axis=1)
    return coarse, np.where(belongs.T[coarse] > 0, given, -1.0).argmax(axis=1)


def diagram(given: Array, classes: Sequence[str], questions: Questions) -> bytes:
    coarse, fine = answers(given, classes)
    above = np.array([COARSE[place] for place in coarse]) == questions.labels("coarse")
    below = np.array([classes[place] for place in fine]) == questions.fine
    rows = np.arange(len(given))
    return reliability_diagram(
        {
            "coarse classes": ((given @ membership(classes))[rows, coarse], above),
            "fine classes": (given[rows, fine], below),
        }
    )


def report_table(given: Array, classes: Sequence[str], questions: Questions) -> str:
    _, narrow = answers(given, classes)
    return class_table(classes, questions.fine, [classes[place] for place in narrow])


def write_head(
    out: Path, network: bytes, setup: Setup, report: Mapping[str, Any], tables: str, encoder: OnnxEncoder, files: Any
) -> None:
    training, metrics = report["training"], report["metrics"]
    (coarse, fine), (held_coarse, held_fine) = (
        (metrics[part]["coarse"], metrics[part]["fine"]) for part in ("test", "held_out")
    )
    first, last = training["layers"]
    card = {
        "task": "question-type",
        "classes": tuple(setup.classes),
        "link": "softmax",
        "inputs": {STATES: encoder.views[STATES]},
        "encoder": encoder.fingerprint,
        **report,
    }
    sections = [
        (
            "What it is",
            "Calibrated probabilities of the 50 fine classes of Li and Roth (2002), *Learning Question Classifiers*: which "
            "type of answer does a question ask for? A coarse class's probability is the sum of its fine classes'. "
            f"Layers {first} to {last} of the encoder, tuned for this, in int8, and a linear output; the network goes on "
            "from the states that the encoder's lower part gives.",
        ),
        (
            "How it was made",
            f"`training/tune_questions.py`, on {training['questions']} questions: {training['data']}. "
            + _by_teacher(training)
            + "Two temperatures, of fine and coarse classes, were calibrated on a fold that a first network had not seen.",
        ),
        (
            "How good it is",
            f"On {fine['questions']} TREC test questions, through this network: coarse {coarse['accuracy']:.3f} "
            f"({coarse['right']} right), fine {fine['accuracy']:.3f} ({fine['right']} right), expected calibration error "
            f"{coarse['calibration_error']:.3f} and {fine['calibration_error']:.3f}. On {held_fine['questions']} held-out "
            f"training questions, by a network that did not see them: coarse {held_coarse['accuracy']:.3f}, fine "
            f"{held_fine['accuracy']:.3f}.{_on_natural(metrics)}\n\n"
            "![How often answers of each probability are right](reliability.png)\n\n"
            f"{tables}",
        ),
        (
            "Limits",
            "English. Most training questions are whole sentences; keyword queries and specialist domains are further "
            "away, and the head is less often right there. A name that is one letter away from a known word is read as "
            "that word.",
        ),
    ]
    title = "Which type of answer does a question ask for? 50 fine classes"
    save_head(out, network, card, title=title, sections=sections, files=files)


def _by_teacher(training: Mapping[str, Any]) -> str:
    count = training["questions answered by a teacher"]
    told = (
        f"Beside them it learnt what another head, its teacher, answers to {count} questions of SQuAD and WikiQA without "
        "labels. "
    )
    return told if count else ""


def _on_natural(metrics: Mapping[str, Any]) -> str:
    if "natural_dev" not in metrics:
        return ""
    coarse, fine = (metrics["natural_dev"][level] for level in ("coarse", "fine"))
    return (
        f" On {fine['questions']} natural questions that training did not see: coarse {coarse['accuracy']:.3f}, fine "
        f"{fine['accuracy']:.3f} (expected calibration error {coarse['calibration_error']:.3f} and "
        f"{fine['calibration_error']:.3f})."
    )


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
    training, dev = read_training(arguments), read_dev(arguments)
    test = read_questions(find_file(arguments.data, "test"))
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
    given = probabilities(uncalibrated, plain.take(np.flatnonzero(held)))
    asks = np.flatnonzero(held) < len(questions.texts)
    rows = np.flatnonzero(held)[asks]
    slopes = find_slopes(given[asks], targets[rows].argmax(axis=1), setup.belongs)
    given = softened(given[asks], slopes, setup.belongs)
    others = Questions(tuple(texts[row] for row in rows), tuple(questions.fine[row] for row in rows))
    metrics: dict[str, Any] = {"held_out": measure(given, classes, others)}
    print(f"held out: {metrics}\n{len(texts)} texts", flush=True)

    network = int8_network(tune(forms, targets, setup), setup, slopes, calibration)

    def answered(texts: Sequence[str]) -> Array:
        return probabilities(network, read_states(encoder, as_read(speller, texts)))

    given = answered(test.texts)
    metrics["test"] = measure(given, classes, test)
    shown = (given, test)
    if dev is not None:
        shown = (answered(dev.texts), dev)
        metrics["natural_dev"] = measure(shown[0], classes, dev)
    tables = report_table(shown[0], classes, shown[1])
    report = {
        "calibration": {
            "method": "temperature",
            "slope": slopes.fine,
            "coarse_slope": slopes.coarse,
            "on": f"{len(rows)} held-out training questions",
        },
        "training": {
            "data": "; ".join(training.sources),
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
    files = words_file(words) | {"reliability.png": diagram(shown[0], classes, shown[1])}
    write_head(arguments.out, network, setup, report, tables, encoder, files)
    for part, figures in metrics.items():
        print(f"{part}: {figures}")
    print(f"{tables}\n{arguments.out}  {len(network) / 1e6:.2f} MB")
    check(arguments.out, encoder, given, test)


def taught(
    arguments: argparse.Namespace, setup: Setup, encoder: OnnxEncoder, known: Sequence[str]
) -> tuple[list[str], Array]:
    """Questions without labels, and what a teacher answers, float32 (n, classes); none without a teacher."""
    if arguments.teacher is None:
        return [], np.zeros((0, len(setup.classes)), np.float32)
    if arguments.originals is None:
        raise InputError("--teacher answers questions of --originals; name that folder, too")
    own = (arguments.teacher / "encoder").exists()
    teacher = QuestionClassifier.load(arguments.teacher, encoder=None if own else encoder)
    if tuple(teacher.fine_classes) != tuple(setup.classes):
        raise InputError(f"the question head in {arguments.teacher} has other classes than the training questions")
    texts = unlabelled(arguments.originals, known)
    return texts, teacher.predict_proba(texts, level="fine").astype(np.float32)


def check(folder: Path, encoder: OnnxEncoder, given: Array, test: Questions) -> None:
    """Run the head as it was written, in batches, and compare it with the network that was measured one by one."""
    head = Head.load(folder, encoder=encoder.fingerprint)
    found = QuestionClassifier(encoder, head).predict_proba(test.texts, level="fine")
    difference = float(np.abs(found - given).max())
    print(f"largest difference between batches and single questions: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


def main() -> None:
    parser = make_parser(__doc__, "data", "encoder", "source", "threads", "seed", "out")
    add_options(parser)
    parser.add_argument("--top", type=int, default=Recipe.top, help="last of the tuned layers")
    parser.add_argument("--teacher", type=Path, help="models folder whose question head answers further questions")
    run(parser, train)


if __name__ == "__main__":
    main()
