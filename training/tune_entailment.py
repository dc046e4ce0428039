"""Make ``models/entailment``: does a sentence answer a question? Tuned upper layers for token vectors, and a pair head.

    python training/tune_entailment.py --data DATA --encoder models/encoder --out models/entailment

The encoder's lower part stays as it ships. The *branch* goes on from its view ``states`` with tuned copies of the layers
above and gives each word piece a unit vector; the *head* compares the vectors of a question and a sentence (see
``semclass/heads/entailment.py``). Training data are the questions of ``squad_sentences/train``, each with the sentence that
answers it and those around it. The loss is the cross entropy of the answer among these, plus a log loss in which either
class has half the weight and a sentence that does not answer weighs more, the more of the question's words it has. A first
network that has not seen some stretches of the document order gives the calibration there. The branch is int8 in the manner
of the encoder (``bert_graph.py``). Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from sklearn.metrics import roc_auc_score

import bert_graph
from bert_torch import EXTRA, copied_layers, feed_forward, fit, linear
from command import make_parser, npy_bytes, run, seconds_so_far
from datasets_io import squad_train
from export_encoder import SMOOTHING, find_source
from semclass.core import artifacts, cards
from semclass.core.errors import ArtifactError, import_extra
from semclass.core.types import IntArray, Ragged
from semclass.encoders.onnx_encoder import STATES, OnnxEncoder
from semclass.encoders.token_encoder import TokenEncoder
from semclass.heads.entailment import QUESTION, SENTENCE, EntailmentClassifier, padded_ids
from semclass.scoring.bm25 import statistics
from semclass.scoring.postings import count_terms
from train_pairs import logistic

Array = npt.NDArray[Any]

# the document order is cut into stretches; these are held out to calibrate on
STRETCHES, HELD_OUT = 20, (3, 8, 13, 18)
CALIBRATION = 300  # questions, and as many sentences, that the scales of the int8 activations are found on
IDF_SCALE = 8.0  # what the head divides idf by
WINDOW = 9  # word pieces over which the head averages how well a sentence matches, centred
TOLERANCE = 5e-3  # largest difference allowed between a pair alone and in a batch; int8 rounding may tip a value
FAR = -1e4  # stands for minus infinity where padding must not win


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning: first guesses; there was no search."""

    epochs: int = 2
    block: int = 20  # questions that follow one another, which share sentences
    blocks: int = 2  # in each step
    neighbours: int = 3  # sentences on either side of the answer that are candidates
    rate: float = 2e-4  # peak learning rate of the layers
    head_rate: float = 1e-3  # and of the rest
    weight_decay: float = 0.01
    dropout: float = 0.1  # inside a layer
    head_dropout: float = 0.2
    piece_dropout: float = 0.1  # chance that neither the other pieces of its text nor the head see a word piece
    dim: int = 128  # dimensions of token vectors
    width: int = 128  # of the head's hidden layers
    hardness: float = 4.0  # a wrong sentence weighs exp(hardness * its share of the question's idf) in the log loss
    averaged: float = 0.4  # share of the steps, at the end, whose weights are averaged


@dataclass(frozen=True)
class Side:
    """Encoded texts of one kind."""

    states: Ragged  # float16, special tokens included
    terms: IntArray  # word-piece ids (n, longest), -1 at special tokens and behind the end of a text
    lengths: IntArray  # special tokens included

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
    """Questions and the sentences that answer them."""

    questions: Side
    sentences: Side
    texts: tuple[list[str], list[str]]  # of both
    answers: IntArray  # the sentence of each question
    stretch: IntArray  # of each sentence in the document order
    idf: Array  # float32 (vocabulary,)

    @classmethod
    def read(cls, data: Path, encoder: OnnxEncoder) -> Task:
        """Read ``squad_sentences/train`` and encode it."""
        texts, questions, answers = squad_train(data)
        terms = encoder.tokenize(texts)
        idf = statistics([count_terms(terms, encoder.is_term)]).idf
        stretch = np.arange(len(texts)) * STRETCHES // len(texts)
        sides = Side.read(encoder, questions), Side.read(encoder, texts)
        return cls(*sides, (questions, texts), np.array(answers), stretch, idf.astype(np.float32))

    def pairs(self, rows: IntArray, neighbours: int) -> tuple[Array, IntArray, IntArray]:
        """Pairs of questions and the sentences around their answers.

        Gives which sentences are candidates, bool (n, 2 * neighbours + 1), not those beyond the ends, nor held-out ones for
        questions that are not, nor the other way round; then the pairs, (m, 2), and the column of each.
        """
        found = self.answers[rows][:, None] + np.arange(-neighbours, neighbours + 1)
        inside = np.clip(found, 0, len(self.stretch) - 1)
        out = np.isin(self.stretch, HELD_OUT)
        valid = (inside == found) & (out[inside] == out[self.answers[rows]][:, None])
        row, column = np.nonzero(valid)
        return valid, np.stack([rows[row], inside[row, column]], axis=1), column

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


class Network:
    """Branch and head as torch parameters by name; tuned layers are named as in the encoder's weights file."""

    def __init__(
        self, weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, recipe: Recipe, seed: int
    ) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.config, self.layers, self.recipe, self.seed, self.training = config, layers, recipe, seed, False
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
        """Encode texts: vectors, zero at special tokens and padding, `inside`, terms; weights and slots of questions."""
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
        torch, functional = self.torch, self.torch.nn.functional

        def hidden(columns: list[Any], name: str) -> Any:
            return self.drop(functional.gelu(linear(p, torch.cat(columns, -1), name).float()), self.recipe.head_dropout)

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
        words = hidden(columns, "question")
        kind, target = question["slots"].chunk(2, -1)
        near = functional.avg_pool1d((best_given * in_given)[:, None], WINDOW, 1, WINDOW // 2)[:, 0]
        columns = [given * size**0.5, covered * size**0.5, covered * given * size, given * kind[:, None] * size**0.5]
        columns += [given @ target[..., None], *(value[..., None] for value in (best_given, held_given, near))]
        pieces = hidden(columns, "sentence")
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
        middle = functional.gelu(linear(p, torch.cat(pooled, -1), "middle")).float()
        middle = self.drop(middle, self.recipe.head_dropout)
        logit = linear(p, middle, "last")[:, 0].float()
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


def tune(network: Network, task: Task, rows: IntArray) -> dict[str, Array]:
    torch, recipe, rng = network.torch, network.recipe, np.random.default_rng(network.seed)
    network.start_vectors(task)
    network.training = True

    def loss_of(chosen: IntArray) -> Any:
        valid, pairs, column = task.pairs(chosen, recipe.neighbours)
        logits = network.logits(task, pairs)
        table = torch.full(valid.shape, FAR)
        table[np.nonzero(valid)] = logits
        answers = column == recipe.neighbours
        share = balance(answers, task.overlap(pairs), recipe.hardness)
        listwise = -table.log_softmax(1)[:, recipe.neighbours].mean()
        target = torch.from_numpy(answers.astype(np.float32))
        pointwise = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        return listwise + (pointwise * torch.from_numpy(share.astype(np.float32))).sum()

    order = rows[np.argsort(task.answers[rows], kind="stable")]
    steps = recipe.epochs * -(-len(order) // (recipe.block * recipe.blocks))
    return fit(network, recipe, steps, lambda: _blocks(order, recipe, rng), loss_of)


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


def write_branch(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, ranges: bert_graph.Ranges | None
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the branch, and name the inputs of its matrix products; float32 if `ranges` is None."""
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    for name, number in (("axis1", 1), ("axis_last", -1), ("two", 2), ("far.end", 2**31)):
        g.const(name, [number])
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
    edge = g.op("Pad", [inner, g.const("edges", [0, 1, 0, 1])], "inner.padded")
    total = g.op("MatMul", [g.op("Unsqueeze", [edge, "axis1"], "inner.row"), state], "inner.sum")
    count = g.op("ReduceSum", [edge, "axis_last"], "inner.count", keepdims=1)
    count = g.op("Max", [count, g.const("one", np.array([1], np.float32))], "inner.floor")
    mean = g.op("Div", [g.op("Squeeze", [total, "axis1"], "inner.flat"), count], "mean")
    first = g.op("Gather", [state, g.const("zero", 0)], "first", axis=1)
    pooled = g.op("Concat", [first, mean], "pooled", axis=-1)
    slots = [g.const(f"slots.{part}", weights[f"slots.{part}"]) for part in ("weight", "bias")]
    g.op("Gemm", [pooled, *slots], "slots", transB=1)
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
    return writer.finish("branch", inputs, outputs)


# the head in ONNX's text form, as in `Network.head`, with Platt's sigmoid. Rows of zeros are padding.
HEAD = """
head (float[batch, q, $dim] question, float[batch, q] weights, float[batch, $twice] slots, float[batch, s, $dim] sentence,
      float[batch, q, s] exact, float[batch, q] idf) => (float[batch, 1] probabilities)
<int64[1] axis1 = {1}, int64[1] axis2 = {2}, int64[1] axis_last = {-1}>
{
  question_size = Abs(question)
  question_largest = ReduceMax<keepdims = 0>(question_size, axis_last)
  question_in = Greater(question_largest, none)
  sentence_size = Abs(sentence)
  sentence_largest = ReduceMax<keepdims = 0>(sentence_size, axis_last)
  sentence_in = Greater(sentence_largest, none)
  sentence_mask = Cast<to = 1>(sentence_in)
  in_q = Unsqueeze(question_in, axis2)
  in_s = Unsqueeze(sentence_in, axis1)
  in_both = And(in_q, in_s)

  turned = Transpose<perm = [0, 2, 1]>(sentence)
  all_cosines = MatMul(question, turned)
  sharp = Mul(all_cosines, sharpness)
  bonus = Mul(exact, match)
  scores = Add(sharp, bonus)
  scores_q = Where(in_s, scores, far)
  along = Softmax<axis = 2>(scores_q)
  aligned = MatMul(along, sentence)
  scores_s = Where(in_q, scores, far)
  across = Softmax<axis = 1>(scores_s)
  across_turned = Transpose<perm = [0, 2, 1]>(across)
  covered = MatMul(across_turned, question)
  cosines = Where(in_both, all_cosines, least)
  best_q = ReduceMax<keepdims = 0>(cosines, axis2)
  best_s = ReduceMax<keepdims = 0>(cosines, axis1)
  held_q = ReduceMax<keepdims = 0>(exact, axis2)
  held_s = ReduceMax<keepdims = 0>(exact, axis1)
  rarity = Mul(idf, idf_scale)
  weights_in = Where(question_in, weights, far)
  share = Softmax<axis = 1>(weights_in)

  x_question = Mul(question, root)
  x_aligned = Mul(aligned, root)
  x_plain = Mul(question, aligned)
  x_product = Mul(x_plain, size)
  x_best = Unsqueeze(best_q, axis2)
  x_held = Unsqueeze(held_q, axis2)
  x_rarity = Unsqueeze(rarity, axis2)
  x = Concat<axis = -1>(x_question, x_aligned, x_product, x_best, x_held, x_rarity)
  words_product = MatMul(x, question_weight)
  words_plain = Add(words_product, question_bias)
  words = com.microsoft.Gelu(words_plain)

  kind, target = Split<axis = -1>(slots, halves)
  near_values = Mul(best_s, sentence_mask)
  near_row = Unsqueeze(near_values, axis1)
  near_mean = AveragePool<kernel_shape = [$window], pads = [$half, $half], count_include_pad = 1>(near_row)
  y_sentence = Mul(sentence, root)
  y_covered = Mul(covered, root)
  y_plain = Mul(covered, sentence)
  y_product = Mul(y_plain, size)
  kind_row = Unsqueeze(kind, axis1)
  kind_plain = Mul(sentence, kind_row)
  y_kind = Mul(kind_plain, root)
  target_column = Unsqueeze(target, axis2)
  y_suited = MatMul(sentence, target_column)
  y_best = Unsqueeze(best_s, axis2)
  y_held = Unsqueeze(held_s, axis2)
  y_near = Transpose<perm = [0, 2, 1]>(near_mean)
  y = Concat<axis = -1>(y_sentence, y_covered, y_product, y_kind, y_suited, y_best, y_held, y_near)
  pieces_product = MatMul(y, sentence_weight)
  pieces_plain = Add(pieces_product, sentence_bias)
  pieces = com.microsoft.Gelu(pieces_plain)

  share_column = Unsqueeze(share, axis2)
  words_weighed = Mul(words, share_column)
  words_sum = ReduceSum<keepdims = 0>(words_weighed, axis1)
  words_real = Where(in_q, words, far)
  words_largest = ReduceMax<keepdims = 0>(words_real, axis1)
  in_s_column = Unsqueeze(sentence_in, axis2)
  pieces_real = Where(in_s_column, pieces, far)
  pieces_largest = ReduceMax<keepdims = 0>(pieces_real, axis1)
  mask_column = Unsqueeze(sentence_mask, axis2)
  pieces_kept = Mul(pieces, mask_column)
  pieces_sum = ReduceSum<keepdims = 0>(pieces_kept, axis1)
  count = ReduceSum<keepdims = 1>(sentence_mask, axis1)
  count_floor = Max(count, one)
  pieces_mean = Div(pieces_sum, count_floor)
  best_weighed = Mul(share, best_q)
  cosine = ReduceSum<keepdims = 1>(best_weighed, axis1)
  held_weighed = Mul(rarity, held_q)
  matched = ReduceSum<keepdims = 1>(held_weighed, axis1)
  mass = ReduceSum<keepdims = 1>(rarity, axis1)
  mass_floor = Max(mass, mass_least)
  overlap = Div(matched, mass_floor)
  z = Concat<axis = -1>(words_sum, words_largest, pieces_largest, pieces_mean, cosine, overlap)
  middle_product = MatMul(z, middle_weight)
  middle_plain = Add(middle_product, middle_bias)
  middle = com.microsoft.Gelu(middle_plain)
  last_product = MatMul(middle, last_weight)
  last_plain = Add(last_product, last_bias)
  straight = Concat<axis = -1>(cosine, overlap)
  direct_sum = MatMul(straight, direct)
  logit = Add(last_plain, direct_sum)
  steep = Mul(logit, slope)
  moved = Add(steep, bias)
  probabilities = Sigmoid(moved)
}"""


def write_head(weights: Mapping[str, Array], slope: float, bias: float) -> onnx.ModelProto:
    dim = len(weights["vectors.bias"])
    scalars = {
        "far": FAR, "none": 0.0, "least": -1.0, "one": 1.0, "mass_least": 1e-3, "idf_scale": 1 / IDF_SCALE,
        "root": dim**0.5, "size": float(dim), "slope": slope, "bias": bias,
        "sharpness": weights["sharpness"], "match": weights["match"], "direct": weights["direct"][:, None],
    }  # fmt: skip
    constants = {name: np.asarray(value, np.float32) for name, value in scalars.items()}
    constants["halves"] = np.array([dim, dim])
    for name in ("question", "sentence", "middle", "last"):
        constants |= {f"{name}_weight": weights[f"{name}.weight"].T, f"{name}_bias": weights[f"{name}.bias"]}
    sizes = {"dim": dim, "twice": 2 * dim, "window": WINDOW, "half": WINDOW // 2}
    return bert_graph.parse(Template(HEAD).substitute(sizes), constants)


def int8_branch(
    weights: Mapping[str, Array], config: bert_graph.BertConfig, layers: range, task: Task, seed: int
) -> bytes:
    rng = np.random.default_rng(seed)
    feeds = (
        {STATES: side.states.row(row).astype(np.float32)[None], "kind": np.array(kind, np.int64)}
        for side, kind in ((task.questions, QUESTION), (task.sentences, SENTENCE))
        for row in rng.permutation(len(side.lengths))[:CALIBRATION].tolist()
    )
    return bert_graph.int8_model(partial(write_branch, weights, config, layers), feeds)


def figures(given: Array, answers: Array, weight: Array) -> dict[str, float]:
    """Accuracy at 0.5, area under the curve, expected calibration error over 15 bins; weighted."""
    order = np.argsort(given, kind="stable")
    p, y, w = given[order], answers[order].astype(float), weight[order] / weight.sum()
    bins = np.minimum((np.cumsum(w) * 15).astype(int), 14)
    found = {
        "accuracy": float((w * ((p >= 0.5) == (y > 0.5))).sum()),
        "auc": float(roc_auc_score(y, p, sample_weight=w)),
        "calibration_error": float(np.abs(np.bincount(bins, w * (p - y))).sum()),
    }
    return {name: round(value, 4) for name, value in found.items()}


def in_memory(encoder: OnnxEncoder, branch: bytes, head: onnx.ModelProto, idf: Array) -> EntailmentClassifier:
    upper, judge = (bert_graph.open_model(model, encoder.threads) for model in (branch, head))
    return EntailmentClassifier(encoder, TokenEncoder("", upper), judge, idf, 0.5)


def score_pairs(classifier: EntailmentClassifier, task: Task, pairs: IntArray) -> Array:
    """Probabilities of pairs of a question's and a sentence's row."""
    questions, sentences = (
        [side[row] for row in rows] for side, rows in zip(task.texts, pairs.T.tolist(), strict=True)
    )
    return classifier.predict_proba(questions, sentences)


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    layers = range(layer, config.num_hidden_layers)
    recipe = Recipe(epochs=arguments.epochs)
    task = Task.read(arguments.data, encoder)
    held = np.isin(task.stretch[task.answers], HELD_OUT)
    print(f"{(~held).sum()} questions, {held.sum()} held out", flush=True)

    def tuned(rows: IntArray) -> tuple[dict[str, Array], bytes]:
        """All weights, and the branch."""
        found = tune(Network(weights, config, layers, recipe, arguments.seed), task, rows)
        return found, int8_branch(found, config, layers, task, arguments.seed)

    _, pairs, column = task.pairs(np.flatnonzero(held), recipe.neighbours)
    answers = column == recipe.neighbours
    share = balance(answers, task.overlap(pairs), recipe.hardness)
    first, branch = tuned(np.flatnonzero(~held))
    given = score_pairs(in_memory(encoder, branch, write_head(first, 1.0, 0.0), task.idf), task, pairs)
    given = np.clip(given, 1e-7, 1 - 1e-7)  # within what float32 tells apart
    logits = np.log(given) - np.log1p(-given)
    (slope,), bias = logistic(logits[:, None], answers, share, 0.0)
    slope, bias = round(float(slope), 4), round(bias, 4)
    found = figures(1 / (1 + np.exp(-(slope * logits + bias))), answers, share)
    print(f"held out: {found}, slope {slope}, bias {bias}", flush=True)

    final, branch = tuned(np.arange(len(held)))
    fields = {
        "task": "sentence-answers-question",
        "encoder": encoder.fingerprint,
        "threshold": 0.5,
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
    files = {
        "branch.onnx": branch,
        "head.onnx": write_head(final, slope, bias).SerializeToString(deterministic=True),
        "idf.npy": npy_bytes(task.idf),
    }
    sections = [
        (
            "What it tells",
            "P(sentence answers question), from token vectors of both texts, each encoded by itself: tuned upper layers of "
            "the encoder, in int8, and a head that compares the vectors.",
        ),
        (
            "Training",
            f"`training/tune_entailment.py` on {len(held)} questions of `squad_sentences/train`, "
            "each with the sentence that answers it and the ones around that.",
        ),
        (
            "Figures",
            "On held-out stretches of the training articles, by a network that did not see them; either class has half the "
            "weight, and sentences that share words with the question weigh more:\n\n"
            + "\n".join(f"- {name}: {value}" for name, value in found.items()),
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
    artifacts.save(arguments.out, "entailment", files, fields, card)
    print(f"{arguments.out}  {len(branch) / 1e6:.2f} MB")
    classifier = EntailmentClassifier.load(arguments.out.parent, encoder=encoder)
    check(classifier, task, pairs)


def check(classifier: EntailmentClassifier, task: Task, pairs: IntArray) -> None:
    """Compare pairs scored together with the same pairs one by one."""
    some = pairs[:: max(1, len(pairs) // 50)]
    together = score_pairs(classifier, task, some)
    alone = np.concatenate([score_pairs(classifier, task, pair[None]) for pair in some])
    difference = float(np.abs(together - alone).max())
    print(f"largest difference between batches and single pairs: {difference:.1e}")
    if difference > TOLERANCE:
        raise ArtifactError(f"batches change probabilities by {difference:.1e}, more than {TOLERANCE}")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "source", "threads", "seed")
    parser.add_argument("--data", type=Path, required=True, help="data folder; squad_sentences/train is read")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--out", type=Path, default=Path("models/entailment"), help="its name must be entailment")
    run(parser, train)


if __name__ == "__main__":
    main()
