"""Make ``models/questions``: tuned copies of upper layers of the encoder, from token states to class probabilities.

    python training/tune_questions.py --data DATA --top 6 --out TEACHER/questions
    python training/tune_questions.py --data DATA --teacher TEACHER --out models/questions

The encoder's lower part stays as it ships; the network reads its view ``states``, float32 (n, length, hidden), padded with
zeros, and gives ``probabilities``, float32 (n, 50), of the fine classes of Li and Roth (2002), whose sums are the coarse
ones. The layers above, up to --top, start from the encoder's original weights; AdamW tunes them on fine and coarse labels
together. The network is int8 in the manner of the encoder (``bert_graph.py``).

With --teacher, the question head of a folder answers questions that nobody labelled, and its probabilities are learnt like
labels: on natural questions that raises coarse accuracy from 95.1 to 95.8 %. Forms with slips and without a question mark
are mixed in. Temperatures come from a fold that a first network has not seen. The same encoder, data, seed and kind of
processor give the same bytes, but for the seconds in the manifest. Needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import bert_graph
import labels
import onnx_graphs
from bert_torch import EXTRA, copied_layers, fit, half_precision, padded_layer
from command import Array, make_parser, run, save_artifact, seconds_so_far
from export_encoder import SMOOTHING, find_source
from question_data import Questions, figure_rows, measure, membership, read_questions, same_but_for_marks
from question_sets import SOURCES, Training, as_read, frequent_words, read_training, unlabelled, vary, words_file
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.types import Ragged, padded, ragged
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller

FOLDS = 5  # one of so many folds is held out to find the temperatures
CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 1e-3  # between probabilities of a question alone and in a batch; int8 rounding may tip a value
LONGEST = 64  # word pieces read of a question here


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning, chosen by cross-validation on TREC training questions."""

    # last tuned layer, from 1; on a fold of TREC, two seeds each, 3 to 6 are right on 95.6 and 95.0 %, 3 to 5 on 95.6 and
    # 94.4 %, on the held-out fold of all questions both on 93.3 %, and 3 to 5 are a fifth faster
    top: int = 5
    epochs: int = 5
    batch: int = 64  # questions per step
    rate: float = 4e-4  # peak learning rate of the topmost layer
    output_rate: float = 1e-3  # and of the linear output
    layer_decay: float = 0.9  # each layer learns at this multiple of the rate of the one above
    weight_decay: float = 0.01
    dropout: float = 0.1  # inside a layer
    output_dropout: float = 0.2  # of pooled features
    token_dropout: float = 0.05  # of word pieces after the first
    smoothing: float = 0.05  # share of each label that is spread over all classes
    coarse: float = 0.5  # weight of the coarse classes' loss
    varied: float = 0.4  # chance that a question is read in a varied form, see `question_sets.vary`
    forms: int = 4  # varied forms per question
    averaged: float = 0.0  # share of the steps, at the end, whose weights are averaged


@dataclass(frozen=True)
class Slopes:
    """Calibration: what logits, and then log probabilities of coarse classes, are multiplied with."""

    fine: float = 1.0
    coarse: float = 1.0


@dataclass(frozen=True)
class Setup:
    """Settings of the tuning."""

    weights: Mapping[str, Array]  # of the encoder, by the names of its weights file
    config: bert_graph.BertConfig
    recipe: Recipe
    layer: int  # last layer of the encoder's lower part
    classes: Sequence[str]  # fine
    seed: int

    @property
    def layers(self) -> range:
        """The tuned layers, from 0."""
        return range(self.layer, self.recipe.top)

    @cached_property
    def belongs(self) -> Array:
        """Which fine class belongs to which coarse one, (classes, 6)."""
        return membership(self.classes)


class TopLayers:
    """Copies of the encoder's upper layers and a linear output, as torch parameters by the names of its weights file."""

    def __init__(self, setup: Setup) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(setup.seed)
        self.config, self.recipe, self.layers = setup.config, setup.recipe, setup.layers
        copied = copied_layers(setup.weights, self.layers)
        copied["output.weight"] = torch.randn(2 * setup.config.hidden_size, len(setup.classes)) * 0.02
        copied["output.bias"] = torch.zeros(len(setup.classes))
        self.parameters = {name: value.requires_grad_() for name, value in copied.items()}

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimiser, each with its peak rate."""
        recipe, last = self.recipe, self.recipe.top - 1
        named = [("output.", recipe.output_rate)]
        named += [(f"encoder.layer.{i}.", recipe.rate * recipe.layer_decay ** (last - i)) for i in self.layers]
        return [
            {"params": [value for name, value in self.parameters.items() if name.startswith(prefix)], "peak": rate}
            for prefix, rate in named
        ]

    def logits(self, states: Any, mask: Any) -> Any:
        """Logits (n, classes) of states (n, length, hidden): linear in their mean and the state of the first piece."""
        kept = self.torch.rand(mask.shape) >= self.recipe.token_dropout
        kept[:, :2] = True
        mask = mask & kept
        drop, seen = partial(self.torch.nn.functional.dropout, p=self.recipe.dropout), mask[:, None, None, :]
        for index in self.layers:
            states = padded_layer(self.parameters, self.config, index, states, seen, drop, self.recipe.dropout)
        weight = mask[:, :, None].to(states.dtype)
        pooled = self.torch.cat([(states * weight).sum(1) / weight.sum(1), states[:, 1]], dim=-1)
        pooled = self.torch.nn.functional.dropout(pooled, self.recipe.output_dropout)
        return pooled @ self.parameters["output.weight"] + self.parameters["output.bias"]


def batches(lengths: Array, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Indices of one pass in random order, in batches of texts of similar length."""
    order = rng.permutation(len(lengths))
    window = size * 24
    chosen = []
    for start in range(0, len(order), window):
        part = order[start : start + window]
        part = part[np.argsort(lengths[part], kind="stable")]
        chosen += [part[place : place + size] for place in range(0, len(part), size)]
    for place in rng.permutation(len(chosen)):
        yield chosen[place]


def tune(forms: Sequence[Ragged], targets: Array, setup: Setup) -> dict[str, Array]:
    """Tune the top layers; gives their weights and those of the output, float32.

    `forms` are the states of the n questions as they are, then of their varied forms; `targets` the probability of each
    fine class, float32 (n, classes).
    """
    rng = np.random.default_rng(setup.seed)
    network, recipe = TopLayers(setup), setup.recipe
    torch = network.torch
    cross_entropy = partial(torch.nn.functional.cross_entropy, label_smoothing=recipe.smoothing)
    belongs = torch.from_numpy(setup.belongs).float()
    members = torch.log(belongs.T)  # 0 for a member, else -inf
    fine_targets = torch.tensor(targets)
    coarse_targets = fine_targets @ belongs

    def form() -> Ragged:
        varied = len(forms) > 1 and rng.random() < recipe.varied
        return forms[1 + rng.integers(len(forms) - 1)] if varied else forms[0]

    def loss_of(batch: Array) -> Any:
        chosen = [form().row(place) for place in batch]
        rows = ragged(chosen, chosen[0])
        inside = np.arange(rows.lengths().max()) < rows.lengths()[:, None]
        states, mask = (torch.from_numpy(array) for array in (padded(rows), inside))
        with half_precision():
            logits = network.logits(states, mask)
        logits = logits.float()
        coarse = torch.logsumexp(logits[:, None, :] + members, dim=-1)
        return cross_entropy(logits, fine_targets[batch]) + recipe.coarse * cross_entropy(coarse, coarse_targets[batch])

    steps = recipe.epochs * -(-len(targets) // recipe.batch)
    passes = (batches(forms[0].lengths(), recipe.batch, rng) for _ in range(recipe.epochs))
    return fit(network, recipe, network.groups(), steps, chain.from_iterable(passes), loss_of)


def write_network(
    weights: Mapping[str, Array], setup: Setup, slopes: Slopes, ranges: onnx_graphs.Ranges | None
) -> tuple[onnx.ModelProto, list[str]]:
    """Write what :func:`tune` gives as a graph, and name the inputs of its matrix products; float32 if `ranges` is None."""
    writer = bert_graph.BertWriter(dict(weights), setup.config, ranges, SMOOTHING)
    g = writer.graph
    g.const("axis1", [1])
    g.const("axis_last", [-1])
    writer.mask_of_states()
    g.op("Unsqueeze", ["mask.float", "axis1"], "mask.row")
    g.op("ReduceSum", ["mask.float", "axis1"], "token_count", keepdims=1)
    state = "states"
    for index in setup.layers:
        state = writer.feed_forward(index + 1, writer.attention(index + 1, state))
    pooled = g.op("Concat", [writer.mean(setup.recipe.top), first_piece(writer, state)], "pooled", axis=-1)
    weight = g.const("output.weight", weights["output.weight"] * np.float32(slopes.fine))
    bias = g.const("output.bias", weights["output.bias"] * np.float32(slopes.fine))
    # see `softened`: to the logits of a coarse class's members is added a multiple of the coarse class's logit
    belongs = setup.belongs.astype(np.float32)
    logits = g.op("Gemm", [pooled, weight, bias], "logits")
    powers = g.op("Exp", [g.op("Sub", [logits, g.op("ReduceMax", [logits, "axis1"], "top")], "logits.0")], "powers")
    sums = g.op("MatMul", [powers, g.const("members", belongs)], "coarse.sums")
    coarse = g.op("Log", [g.op("Max", [sums, g.const("least", np.float32(1e-30))], "coarse.0")], "coarse")
    given = g.op("MatMul", [coarse, g.const("parents", belongs.T * np.float32(slopes.coarse - 1))], "coarse.given")
    g.op("Softmax", [g.op("Add", [logits, given], "calibrated")], "probabilities", axis=-1)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("states", onnx.TensorProto.FLOAT, ["batch", "length", setup.config.hidden_size])]
    outputs = [value("probabilities", onnx.TensorProto.FLOAT, ["batch", len(setup.classes)])]
    return writer.finish("questions", inputs, outputs)


def first_piece(writer: bert_graph.BertWriter, state: str) -> str:
    """Write the state of the first word piece, at place 1; of a text of one place, that one."""
    g = writer.graph
    length = g.op("Shape", [state], "length", start=1, end=2)
    place = g.op("Min", [g.op("Sub", [length, "axis1"], "length.last"), "axis1"], "first.place")
    return g.op("Squeeze", [g.op("Gather", [state, place], "first.column", axis=1), "axis1"], "first")


def int8_network(weights: Mapping[str, Array], setup: Setup, slopes: Slopes, calibration: Ragged) -> bytes:
    feeds = ({"states": calibration.row(place)[None]} for place in range(len(calibration)))
    return onnx_graphs.int8_model(partial(write_network, weights, setup, slopes), feeds)


def probabilities(network: bytes, states: Ragged) -> Array:
    """Run a network over texts one by one; float64 (n, classes)."""
    session = onnx_graphs.open_model(network, threads=1)
    texts = map(states.row, range(len(states)))
    rows = [session.run(["probabilities"], {"states": text[None]})[0][0] for text in texts]
    return np.array(rows, np.float64)


def find_slopes(given: Array, labels: Array, belongs: Array) -> Slopes:
    """Slopes with the smallest log loss, of fine and coarse classes together, on held-out questions.

    With one slope for both, coarse classes are right more often than they are said to be and fine classes less often: label
    smoothing pulls at all of them alike.
    """
    rows, grid = np.arange(len(labels)), np.geomspace(0.5, 2.0, 57)
    losses = {}
    for fine in grid:
        for coarse in grid:
            found = softened(given, Slopes(fine, coarse), belongs)
            right = found[rows, labels] * (found @ belongs)[rows, belongs.argmax(axis=1)[labels]]
            losses[fine, coarse] = -np.log(np.maximum(right, 1e-12)).mean()
    best = min(losses, key=losses.__getitem__)
    return Slopes(*(round(float(value), 3) for value in best))


def softened(given: Array, slopes: Slopes, belongs: Array) -> Array:
    """Calibrate probabilities (n, classes).

    Logits are multiplied with the fine slope; then the log probability of each coarse class with the coarse slope, which
    leaves the shares of fine classes within it as they are.
    """
    logits = slopes.fine * np.log(np.maximum(given, 1e-12))
    coarse = np.log(np.maximum(np.exp(logits - logits.max(axis=1, keepdims=True)) @ belongs, 1e-30))
    logits = logits + (slopes.coarse - 1) * coarse @ belongs.T
    return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


# -- the script -------------------------------------------------------------------------------------------------------


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
