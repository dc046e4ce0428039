"""Make ``models/questions``: tuned copies of upper layers of the encoder, from token states to class probabilities.

    python training/tune_questions.py --data DATA/trec --encoder models/encoder --out models/questions

The encoder's lower part stays as it ships; the network reads its view ``states``, float32 (n, length, hidden), padded with
zeros, and gives ``probabilities``, float32 (n, 50), of the fine classes of Li and Roth (2002), whose sums are the coarse
ones. The layers above, up to --top, start from the encoder's original weights; AdamW tunes them on fine and coarse labels
together. The network is int8 in the manner of the encoder (``bert_graph.py``).

Misspelt words are corrected before a question is encoded (:mod:`semclass.heads.spelling`); the known words are written as
``words.txt``. Forms with slips and without a question mark are mixed in, since programs that run the network may correct
neither. Texts that ask nothing are trained towards equal probabilities of the coarse classes.

Training questions are ``trec/train.tsv`` and those of --originals and --natural. On WebQuestions, SimpleQuestions
and MedQuAD, when these were not trained on, questions written for this project raise the share of right coarse classes from
85.6 % to 89.5 % (calibration error from 0.06 to 0.03). Temperatures come from a fold that a first network has not seen. The
same encoder, data, seed and kind of processor give the same bytes, but for the
seconds in the manifest. Needs torch.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import bert_graph
from bert_torch import EXTRA, copied_layers, feed_forward, fit, linear
from command import make_parser, run, seconds_so_far
from export_encoder import SMOOTHING, find_source
from figures import reliability_diagram
from question_data import (
    Questions,
    class_table,
    confusion_table,
    evaluate,
    find_file,
    membership,
    read_questions,
    same_but_for_marks,
)
from question_sets import (
    Training,
    add_options,
    as_read,
    frequent_words,
    read_dev,
    read_training,
    typed_forms,
    vary,
    words_file,
)
from semclass.core import artifacts
from semclass.core.cards import HeadCard, save_head
from semclass.core.errors import ArtifactError, InputError, import_extra
from semclass.core.taxonomy import COARSE
from semclass.core.types import Ragged, padded, ragged
from semclass.encoders.onnx_encoder import STATES, OnnxEncoder
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.heads.spelling import Speller
from semclass.train.calibration import expected_calibration_error

Array = npt.NDArray[Any]


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
    """What is tuned, and how."""

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


FOLDS = 5  # one of so many folds is held out to find the temperatures
CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 1e-3  # between probabilities of a question alone and in a batch; int8 rounding may tip a value
DRAWS = 5  # times that the questions to measure with are misspelt
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


def pad(states: Sequence[Array]) -> tuple[Array, Array]:
    """Texts of different length as one batch: float32 (n, longest, hidden) and mask, bool (n, longest)."""
    rows = ragged(states, states[0])
    return padded(rows), np.arange(rows.lengths().max()) < rows.lengths()[:, None]


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

    def layer(self, index: int, states: Any, mask: Any) -> Any:
        """One transformer layer, as in BERT: attention and feed-forward, each followed by a norm."""
        recipe, heads = self.recipe, self.config.num_attention_heads
        prefix = f"encoder.layer.{index}"
        count, length, hidden = states.shape
        query, key, value = (
            linear(self.parameters, states, f"{prefix}.attention.self.{part}")
            .view(count, length, heads, -1)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        context = self.torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :], dropout_p=recipe.dropout
        )
        context = context.transpose(1, 2).reshape(count, length, hidden)
        drop = partial(self.torch.nn.functional.dropout, p=recipe.dropout)
        return feed_forward(self.parameters, prefix, states, context, self.config.layer_norm_eps, drop)

    def logits(self, states: Any, mask: Any) -> Any:
        """Logits (n, classes) of states (n, length, hidden): linear in their mean and the state of the first piece."""
        kept = self.torch.rand(mask.shape) >= self.recipe.token_dropout
        kept[:, :2] = True
        mask = mask & kept
        for index in self.layers:
            states = self.layer(index, states, mask)
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
        states, mask = (torch.from_numpy(array) for array in pad(chosen))
        with torch.autocast("cpu", torch.bfloat16):
            logits = network.logits(states, mask)
        logits = logits.float()
        coarse = torch.logsumexp(logits[:, None, :] + members, dim=-1)
        return cross_entropy(logits, fine_targets[batch]) + recipe.coarse * cross_entropy(coarse, coarse_targets[batch])

    steps = recipe.epochs * -(-len(targets) // recipe.batch)
    return fit(network, recipe, steps, lambda: batches(forms[0].lengths(), recipe.batch, rng), loss_of)


def write_network(
    weights: Mapping[str, Array], setup: Setup, slopes: Slopes, ranges: bert_graph.Ranges | None
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
    return bert_graph.int8_model(partial(write_network, weights, setup, slopes), feeds)


def probabilities(network: bytes, states: Ragged) -> Array:
    """Run a network over texts one by one; float64 (n, classes)."""
    session = bert_graph.open_model(network, threads=1)
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


def report_tables(given: Array, classes: Sequence[str], questions: Questions) -> str:
    coarse, narrow = answers(given, classes)
    said = [COARSE[place] for place in coarse]
    truth = questions.labels("coarse")
    fine = class_table(classes, questions.fine, [classes[place] for place in narrow])
    return "\n\n".join([confusion_table(COARSE, truth, said), class_table(COARSE, truth, said), fine])


def write_head(
    out: Path, network: bytes, setup: Setup, report: Mapping[str, Any], tables: str, encoder: OnnxEncoder, files: Any
) -> None:
    training, metrics = report["training"], report["metrics"]
    (coarse, fine), (held_coarse, held_fine) = (
        (metrics[part]["coarse"], metrics[part]["fine"]) for part in ("test", "held_out")
    )
    first, last = training["layers"]
    card = HeadCard(
        task="question-type",
        classes=tuple(setup.classes),
        link="softmax",
        inputs={STATES: encoder.views[STATES]},
        encoder=encoder.fingerprint,
        **report,
    )
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
            "Two temperatures, of fine and of coarse classes, were calibrated on a fold that a first network had not seen.",
        ),
        (
            "How good it is",
            f"On {fine['questions']} TREC test questions, through this network: coarse {coarse['accuracy']:.3f} "
            f"({coarse['right']} right), fine {fine['accuracy']:.3f} ({fine['right']} right), expected calibration error "
            f"{coarse['calibration_error']:.3f} and {fine['calibration_error']:.3f}. On {held_fine['questions']} held-out "
            f"training questions, by a network that did not see them: coarse {held_coarse['accuracy']:.3f}, fine "
            f"{held_fine['accuracy']:.3f}.{_on_natural(metrics)}\n\n"
            "![How often answers of each probability are right](reliability.png)\n\n"
            f"{_on_nothing(metrics['held_out'])}{tables}",
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


def _on_nothing(held_out: Mapping[str, Any]) -> str:
    if "ask_nothing" not in held_out:
        return ""
    figures = held_out["ask_nothing"]
    return (
        f"Of {figures['texts']} texts that ask nothing and that training did not see, the best coarse class has a "
        f"probability of {figures['quantile 0.5']:.2f} at the median, and of {figures['quantile 0.9']:.2f} at most for "
        "nine in ten.\n\n"
    )


def _on_natural(metrics: Mapping[str, Any]) -> str:
    if "natural_dev" not in metrics:
        return ""
    figures = metrics["natural_dev"]
    lines = [
        f"\n\nOn {figures['fine']['questions']} natural questions that training did not see (expected calibration error "
        f"{figures['coarse']['calibration_error']:.3f} and {figures['fine']['calibration_error']:.3f}):\n",
        "| form | coarse | fine |",
        "|---|---|---|",
        f"| as they are | {figures['coarse']['accuracy']:.3f} | {figures['fine']['accuracy']:.3f} |",
    ]
    for form, levels in figures.items():
        if form not in ("coarse", "fine"):
            lines.append(f"| {form.replace('_', ' ')} | {levels['coarse']:.3f} | {levels['fine']:.3f} |")
    return "\n".join(lines)


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    recipe = Recipe(**{item.name: getattr(arguments, item.name) for item in fields(Recipe) if item.name in arguments})
    encoder = replace(OnnxEncoder.load(arguments.encoder, threads=arguments.threads), max_length=LONGEST)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    if not layer < recipe.top <= config.num_hidden_layers:
        raise InputError(
            f"--top is {recipe.top}; it must be {layer + 1} to {config.num_hidden_layers} with this encoder"
        )
    training, dev = read_training(arguments), read_dev(arguments)
    test = read_questions(find_file(arguments.data, "test"))
    questions = training.questions
    classes = sorted(set(questions.fine))
    setup = Setup(weights, config, recipe, layer, classes, arguments.seed)
    words = [] if arguments.no_spelling else frequent_words(encoder.tokenizer.get_vocab(), questions.texts)
    speller = Speller.of_words(words) if words else None

    def read(texts: Sequence[str]) -> Ragged:
        return read_states(encoder, [speller(text) for text in texts] if speller else texts)

    texts, targets = questions.texts + training.nothing, wanted(training, setup)
    rng = random.Random(arguments.seed)
    plain = read(texts)
    forms = [halved(plain), *(halved(read([vary(text, rng) for text in texts])) for _ in range(recipe.forms))]
    calibration = plain.take(np.random.default_rng(arguments.seed).permutation(len(texts))[:CALIBRATION])

    held = held_out_fold(texts, arguments.seed)
    kept = [form.take(np.flatnonzero(~held)) for form in forms]
    print(f"{(~held).sum()} texts to find the temperatures on {held.sum()} others", flush=True)
    uncalibrated = int8_network(tune(kept, targets[~held], setup), setup, Slopes(), calibration)
    given = probabilities(uncalibrated, plain.take(np.flatnonzero(held)))
    asks = np.flatnonzero(held) < len(questions.texts)
    rows = np.flatnonzero(held)[asks]
    slopes = find_slopes(given[asks], targets[rows].argmax(axis=1), setup.belongs)
    given = softened(given, slopes, setup.belongs)
    others = Questions(tuple(texts[row] for row in rows), tuple(questions.fine[row] for row in rows))
    metrics: dict[str, Any] = {"held_out": measure(given[asks], classes, others)}
    if not asks.all():
        metrics["held_out"]["ask_nothing"] = largest(given[~asks], classes)
    print(f"held out: {metrics}\n{len(texts)} texts", flush=True)

    network = int8_network(tune(forms, targets, setup), setup, slopes, calibration)

    def answered(texts: Sequence[str]) -> Array:
        return probabilities(network, read_states(encoder, as_read(speller, texts)))

    given = answered(test.texts)
    metrics["test"] = measure(given, classes, test)
    tables = f"TREC test:\n\n{report_tables(given, classes, test)}"
    shown = (given, test)
    if dev is not None:
        shown = (answered(dev.texts), dev)
        metrics["natural_dev"] = measure(shown[0], classes, dev) | measure_forms(answered, classes, dev, setup.seed)
        tables = f"Natural questions:\n\n{report_tables(shown[0], classes, dev)}\n\n{tables}"
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


def measure_forms(
    answered: Callable[[Sequence[str]], Array], classes: Sequence[str], dev: Questions, seed: int
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for form, draws in typed_forms(dev.texts, seed, DRAWS).items():
        figures = [measure(answered(draw), classes, dev) for draw in draws]
        means = {level: np.mean([part[level]["accuracy"] for part in figures]) for level in ("coarse", "fine")}
        found[form] = {level: round(float(value), 4) for level, value in means.items()}
    return found


def largest(given: Array, classes: Sequence[str]) -> dict[str, float]:
    """How probable the best coarse class of texts is that ask nothing: quantiles over the texts."""
    best = (given @ membership(classes)).max(axis=1)
    return {"texts": len(best)} | {
        f"quantile {share}": round(float(np.quantile(best, share)), 3) for share in (0.1, 0.5, 0.9)
    }


def check(folder: Path, encoder: OnnxEncoder, given: Array, test: Questions) -> None:
    """Run the head as it was written, in batches, and compare it with the network that was measured one by one."""
    head = Head.load(folder, encoder=encoder.fingerprint)
    found = QuestionClassifier(encoder, head).predict_proba(test.texts, level="fine")
    difference = float(np.abs(found - given).max())
    print(f"largest difference between batches and single questions: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "source", "threads", "seed")
    add_options(parser)
    parser.add_argument("--top", type=int, default=Recipe.top, help="last of the tuned layers")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument(
        "--varied", type=float, default=Recipe.varied, help="chance that a question is read in a form with slips"
    )
    parser.add_argument("--no-spelling", action="store_true", help="read misspelt words as they are typed")
    parser.add_argument("--out", type=Path, default=Path("models/questions"))
    run(parser, train)


if __name__ == "__main__":
    main()
