"""The layers that read a question and a passage together, tuned by ``tune_deep.py``: in torch, and as an ONNX graph.

The encoder's lower part reads the question and each sentence by themselves. Above it, the states of a question and those of
some sentences, one after another, are one text: every piece sees every other. A mark is added to each state: whose piece it
is, and whether the other text has the same word piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx

import bert_graph
import onnx_graphs
from bert_torch import (
    EXTRA,
    FAR,
    alike,
    answers_loss,
    copied_layers,
    linear,
    padded,
    padded_layer,
    tensor_of,
)
from command import Array
from export_encoder import SMOOTHING
from semclass.core.errors import import_extra
from semclass.core.types import IntArray, Ragged, offsets_of
from semclass.heads.entailment import MAX_PIECES, marks_of
from tuning_texts import Rows, Texts

WIDTH = 128  # of the hidden layer above the network


@dataclass(frozen=True)
class Recipe:
    """Settings of the tuning: first guesses; there was no search."""

    layers: int = 3  # of the encoder's upper ones, from the first on: a fourth takes 2 MB and 8 ms for five passages
    steps: int = 1700
    block: int = 10  # questions of squad that follow one another in each step
    contrast: int = 1  # and of contrast
    echoes: int = 2  # of echoes
    others: int = 5  # and of all other domains, each drawn by the root of its number of questions
    unrelated: int = 1  # passages of other questions beside those of a question
    most: int = 8  # passages of a question at most
    rate: float = 1.5e-4  # peak learning rate of the layers
    head_rate: float = 1e-3  # and of the rest
    weight_decay: float = 0.01
    dropout: float = 0.1  # inside a layer
    hardness: float = 3.0  # a wrong passage weighs exp(hardness * its share of the question's idf) in the log loss
    averaged: float = 0.4  # share of the steps, at the end, whose weights are averaged


@dataclass(frozen=True)
class Pairs:
    """Pairs of a question and a passage, each as one packed text."""

    places: Ragged  # of the pieces among those of all texts: a question, then sentences without their first tokens
    marks: IntArray  # of each piece
    overlap: Array  # share of the question's idf whose word pieces are in the passage, (n,)


def read_pairs(ids: Ragged, idf: Array, pairs: Sequence[tuple[int, Sequence[int]]]) -> Pairs:
    """Read pairs of a question and some sentences, by the rows of their texts; `MAX_PIECES` of either."""
    places, marks, overlap, is_term = [], [], [], idf > 0
    for question, sentences in pairs:
        asked = ids.places(np.array([question]))[:MAX_PIECES]
        given = np.concatenate([np.arange(ids.offsets[row] + 1, ids.offsets[row + 1]) for row in sentences])[
            :MAX_PIECES
        ]
        words, others = ids.values[asked], ids.values[given]
        places.append(np.concatenate([asked, given]))
        marks.append(marks_of(words, others, is_term))
        overlap.append(idf[words] @ np.isin(words, others) / max(idf[words].sum(), 1e-6))
    offsets = offsets_of(np.array(list(map(len, places))))
    return Pairs(Ragged(np.concatenate(places), offsets), np.concatenate(marks), np.array(overlap))


class Network:
    """Tuned layers and what tells an answer from their states; parameters by name, layers as in the weights file."""

    def __init__(
        self,
        weights: Mapping[str, Array],
        config: bert_graph.BertConfig,
        layers: range,
        recipe: Recipe,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self.torch = torch = import_extra("torch", EXTRA)
        torch.manual_seed(seed)
        self.device, self.put = device, partial(tensor_of, device=device)
        self.rng = np.random.default_rng(seed)
        self.config, self.layers, self.recipe, self.training = config, layers, recipe, False
        found = copied_layers(weights, layers)
        found["marks"] = torch.zeros(4, config.hidden_size)
        for name, rows, columns in (("hidden", WIDTH, 2 * config.hidden_size), ("last", 1, WIDTH)):
            layer = torch.nn.Linear(columns, rows)
            found[f"{name}.weight"], found[f"{name}.bias"] = layer.weight.detach(), layer.bias.detach()
        self.parameters = {name: value.to(device, copy=True).requires_grad_() for name, value in found.items()}

    def drop(self, values: Any) -> Any:
        """Dropout, while training."""
        return self.torch.nn.functional.dropout(values, self.recipe.dropout, self.training)

    def logits(self, texts: Texts, read: Pairs) -> Any:
        """Logits (n,) of n pairs."""
        torch, p = self.torch, self.parameters
        parts = alike(read.places.lengths(), self.device)
        half = {name: value.to(torch.bfloat16) for name, value in p.items()}
        pooled = self.drop(torch.cat([self._pooled(half, texts, read, rows) for rows in parts]))
        hidden = self.drop(torch.nn.functional.gelu(linear(p, pooled, "hidden")))
        logits = linear(p, hidden, "last")[:, 0]
        return logits[self.put(np.argsort(np.concatenate(parts)))]

    def _pooled(self, p: Mapping[str, Any], texts: Texts, read: Pairs, rows: IntArray) -> Any:
        """First states and means of passages, (n, 2 * hidden), of pairs of like length; `p` in bfloat16."""
        torch, kind = self.torch, self.torch.bfloat16
        at, inside = padded(read.places.offsets, rows)
        marks = read.marks[at]
        states = texts.states[self.put(read.places.values[at])].to(kind)
        states = states + torch.nn.functional.embedding(self.put(marks), p["marks"])
        far = torch.where(self.put(inside), 0.0, FAR).to(kind)[:, None, None, :]
        for index in self.layers:
            states = padded_layer(p, self.config, index, states, far, self.drop)
        given = self.put((inside & (marks >= 2)).astype(np.float32))
        states = states.float()
        mean = (states * given[:, :, None]).sum(1) / given.sum(1, keepdim=True)
        return torch.cat([states[:, 0], mean], 1)

    def loss(self, texts: Texts, groups: Sequence[Rows]) -> Any:
        """Cross entropy of answers among the passages of their questions, and log loss with half the weight for answers."""
        pairs, owner, answers = pairs_of(groups, self.recipe, self.rng)
        read = read_pairs(texts.ids, texts.idf, pairs)
        logits = self.logits(texts, read)
        overlap = self.put(read.overlap.astype(np.float32))
        return answers_loss(logits, self.put(answers), self.put(owner), overlap, self.recipe.hardness)


def pairs_of(
    groups: Sequence[Rows], recipe: Recipe, rng: np.random.Generator
) -> tuple[list[tuple[int, tuple[int, ...]]], IntArray, Array]:
    """Pairs of a question and a passage, the place of the group of each, and which answer, bool."""
    pairs, owner, answers = [], [], []
    passages = [passage for group in groups for passage in group.passages]
    for number, group in enumerate(groups):
        order = rng.permutation(len(group.passages)).tolist()
        kept = sorted(order, key=lambda place: place not in group.answers)[: recipe.most]
        right = [group.passages[place] for place in group.answers]
        drawn = [passages[place] for place in rng.integers(len(passages), size=recipe.unrelated).tolist()]
        found = [(group.passages[place], place in group.answers) for place in kept]
        found += [(passage, False) for passage in drawn if passage not in right]
        pairs += [(group.question, passage) for passage, _ in found]
        answers += [answer for _, answer in found]
        owner += [number] * len(found)
    return pairs, np.array(owner), np.array(answers)


def write_network(
    weights: Mapping[str, Array],
    config: bert_graph.BertConfig,
    layers: range,
    platt: tuple[float, float],
    ranges: onnx_graphs.Ranges | None,
) -> tuple[onnx.ModelProto, list[str]]:
    """Write the network, and name the inputs of its matrix products; float32 if `ranges` is None.

    It reads ``states``, float32 (n, length, hidden), rows of zeros for padding, and ``marks``, int64 (n, length), and gives
    ``logits``, float32 (n, 1): calibrated log-odds, by the slope and bias of `platt`.
    """
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    g = writer.graph
    g.const("axis1", [1])
    g.const("axis_last", [-1])
    writer.mask_of_states()
    mark = g.op("Gather", [g.const("mark.vectors", weights["marks"]), "marks"], "mark")
    state = g.op("Add", ["states", mark], "marked")
    for index in layers:
        state = writer.feed_forward(index + 1, writer.attention(index + 1, state))
    passage = g.op("Greater", ["marks", g.const("marks.question", 1)], "passage.bool")
    passage = g.op("Cast", [passage], "passage.float", to=onnx.TensorProto.FLOAT)
    given = g.op("Mul", [passage, "mask.float"], "given")
    total = g.op("MatMul", [g.op("Unsqueeze", [given, "axis1"], "given.row"), state], "given.sum")
    count = g.op("ReduceSum", [given, "axis_last"], "given.count", keepdims=1)
    mean = g.op("Div", [g.op("Squeeze", [total, "axis1"], "given.flat"), count], "given.mean")
    first = g.op("Gather", [state, g.const("first.place", 0)], "first", axis=1)
    pooled = g.op("Concat", [first, mean], "pooled", axis=-1)
    hidden = g.op("Gelu", [writer.mapped(pooled, weights, "hidden", "hidden.plain")], "hidden", onnx_graphs.CONTRIB)
    slope, bias = platt
    last = {
        "last.weight": weights["last.weight"] * np.float32(slope),
        "last.bias": weights["last.bias"] * np.float32(slope) + np.float32(bias),
    }
    writer.mapped(hidden, last, "last", "logits")
    value, kinds = onnx.helper.make_tensor_value_info, onnx.TensorProto
    inputs = [
        value("states", kinds.FLOAT, ["batch", "length", config.hidden_size]),
        value("marks", kinds.INT64, ["batch", "length"]),
    ]
    return writer.finish("deep", inputs, [value("logits", kinds.FLOAT, ["batch", 1])])
