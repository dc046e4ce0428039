"""A BERT encoder as an ONNX graph, written node by node from its weights, without torch.

* Weights are int8, symmetric, one scale per output channel, in [-64, 64]: with uint8 activations a pair of products stays
  below 2**15, so processors that add pairs in 16 bits (AVX2 without VNNI) cannot saturate and all compute the same.
* Activations are uint8 with fixed scales, found once on calibration texts: scales taken from the batch would make a text's
  vector depend on the texts that are encoded with it.
* Word vectors are int8, one scale for each. Those that come in blocks of 4 bits are kept as they are, two numbers a byte.
* Channels are divided by smoothing factors that the weights are multiplied with (Xiao et al. 2023, SmoothQuant, eq. 4),
  as BERT models have a few channels with very large values. For attention output the value projection carries the factor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from command import Array
from onnx_graphs import CONTRIB, IR_VERSION, OPSETS, ActivationRange, Ranges

WEIGHT_LEVELS = 64  # largest absolute value of a quantised weight
LEARNT = "learnt"  # names of domains, beside the weights that a tuning writes
PARTS = ("query", "key", "value")  # of attention, in the order of their weights


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT encoder, as its ``config.json`` names them."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    layer_norm_eps: float


def read_model(folder: Path) -> tuple[dict[str, Array], BertConfig]:
    """Read the weights, by name, and the sizes of a model's folder: ``model.safetensors`` and ``config.json``."""
    sizes = json.loads((folder / "config.json").read_text())
    config = BertConfig(**{item.name: sizes[item.name] for item in fields(BertConfig)})
    # models that were saved with a layer on top have the encoder's weights under its name
    weights = {name.removeprefix("bert."): value for name, value in load_file(folder / "model.safetensors").items()}
    return weights, config


def mean_of(runs: Sequence[Path]) -> dict[str, Array]:
    """Means of the weights that several runs of a tuning wrote, by name, float32 (Wortsman et al. 2022, model soups)."""
    weights = [dict(np.load(path)) for path in runs]
    names = [name for name in weights[0] if name != LEARNT]
    return {name: np.mean([run[name] for run in weights], axis=0, dtype=np.float32) for name in names}


def nearer(tuned: Mapping[str, Array], original: Mapping[str, Array], share: float) -> dict[str, Array]:
    """Tuned weights, moved by `share` of the way to the original ones if there are any (WiSE-FT, Wortsman et al. 2022)."""
    return {
        name: (1 - np.float32(share)) * value + np.float32(share) * original[name] if name in original else value
        for name, value in tuned.items()
    }


def learnt_from(runs: Sequence[Path]) -> list[str]:
    """Names of the domains that any of several runs of a tuning learnt from, sorted."""
    return sorted({str(name) for path in runs for name in np.load(path)[LEARNT]})


# the lower part has mixed their states into their neighbours'; leaving out more words makes vectors of passages worse
UNREAD = frozenset(("a", "an", "and", "of", "the", "to"))


def kept_pieces(vocabulary: Sequence[str]) -> Array:
    """Which word pieces the tuned layers read of a passage, bool (vocabulary,)."""
    marks = {"[CLS]", "[SEP]", "<s>", "</s>", "?", "\u2581?", "\u061f"}
    unread = frozenset() if "<s>" in vocabulary else UNREAD  # a vocabulary with such marks is of many languages
    return np.array([piece in marks or (piece not in unread and any(map(str.isalnum, piece))) for piece in vocabulary])


@dataclass(frozen=True)
class EntityProbe:
    """One linear probe per type over the token states of a layer; a text's evidence is their maximum over tokens."""

    layer: int  # from 1
    weight: Array  # float32 (hidden, n_types)
    bias: Array  # float32 (n_types,)


@dataclass(frozen=True)
class Views:
    """Which views of a text the upper part gives besides the pooled vector."""

    mean_layers: tuple[int, ...]  # layers whose mean over tokens is part of ``layers``
    first_token_layers: tuple[int, ...]  # layers whose vector of the first word piece is part of ``layers``
    entities: EntityProbe | None = None  # None leaves the view ``entities`` out
    # what ``tune_encoder.py`` adds to the layers: by name, ``marks``, and weight and bias of linear maps; None if nothing
    tuned: Mapping[str, Array] | None = None
    shared: int = 0  # layer behind which the encoder is cut, and the mark of the kind of reading is added
    centre: Array | None = None  # what vectors of texts have in common, float32 (hidden,), and lose; None: they keep it

    @classmethod
    def of_depth(cls, layers: int, *, prefixed: bool = False) -> Views:
        """The views of an encoder with so many layers, at the places that six layers have them at.

        One that reads texts behind a prefix gives no first word pieces, which are the same in all texts.
        """
        third, two_thirds, sixths = (round(layers * part) for part in (1 / 3, 2 / 3, 5 / 6))
        return cls((third, two_thirds, sixths, layers), () if prefixed else (two_thirds, layers), shared=third)


@dataclass
class _Graph:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def const(self, name: str, value: Array | list[int] | int) -> str:
        self.initializers.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def model(
        self, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.initializers)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="semclass")
        model.ir_version = IR_VERSION
        return model


def _quantise(matrix: Array, axis: int, levels: int) -> tuple[Array, Array]:
    """Values int8, at most `levels`, and scales float32 of a matrix, one scale for all values along an axis."""
    scale = np.maximum(np.abs(matrix).max(axis=axis, keepdims=True) / levels, 1e-12).astype(np.float32)
    return np.clip(np.rint(matrix / scale), -levels, levels).astype(np.int8), scale


BLOCK = 32
"""Numbers of a word vector that share a scale, where they have 4 bits."""


def four_bits(matrix: Array) -> tuple[Array, Array]:
    """Blocks of 4 bits, and their scales, that are nearest to a matrix.

    The number with the largest absolute value of a block becomes -8, and the others stand in proportion, from -8 to 7.
    Gives uint8 (rows, blocks, BLOCK // 2), where byte j holds number j in its low half and number j + BLOCK // 2 in its
    high half, each plus 8; and float16 (rows, blocks, 1).
    """
    blocks = matrix.reshape(len(matrix), -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=2, keepdims=True), axis=2)
    scale = (largest / -8).astype(np.float16)
    steps = np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale != 0)
    values = np.clip(np.rint(steps) + 8, 0, 15).astype(np.uint8)
    half = BLOCK // 2
    return values[..., :half] | values[..., half:] << 4, scale


def from_four_bits(values: Array, scale: Array) -> Array:
    """The matrix of blocks of 4 bits, float32."""
    both = np.concatenate([values & 15, values >> 4], axis=2).astype(np.float32) - 8
    return (both * scale.astype(np.float32)).reshape(len(values), -1)


def smoothing(activation: ActivationRange, weight: Array, alpha: float) -> Array:
    """Smoothing factors max|x|**alpha / max|w|**(1 - alpha) of each channel (Xiao et al. 2023, eq. 4), float32."""
    spread = np.maximum(np.maximum(np.abs(activation.low), np.abs(activation.high)), 1e-5)
    weights = np.maximum(np.abs(weight).max(axis=1), 1e-5)
    return (spread**alpha / weights ** (1 - alpha)).astype(np.float32)


def _uint8_parameters(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point that cover [low, high] and hold 0 exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / 255, 1e-12)
    return np.float32(scale), np.uint8(np.clip(round(-low / scale), 0, 255))


class BertWriter:
    """Writes one encoder graph; ``ranges is None`` means float32 with the matrix-product inputs as extra outputs."""

    def __init__(self, weights: dict[str, Array], config: BertConfig, ranges: Ranges | None, alpha: float) -> None:
        self.weights, self.config, self.ranges, self.alpha = weights, config, ranges, alpha
        self.graph = _Graph()
        self.probes: list[str] = []
        self.states: dict[int, str] = {}  # layers whose states have another name than ``layer<index>``

    def mask_of_states(self) -> None:
        """Write ``mask`` and ``mask.float`` of the input ``states``; a norm's output is never all zero, padding is."""
        g = self.graph
        g.op("ReduceMax", [g.op("Abs", ["states"], "states.size"), "axis_last"], "states.largest", keepdims=0)
        self.mask(g.op("Greater", ["states.largest", g.const("nothing", np.float32(0))], "mask.bool"))

    def mask(self, source: str) -> None:
        """Write ``mask.float``, 1 for what is no padding, and what is added to the scores of attention."""
        g = self.graph
        g.op("Cast", [source], "mask.float", to=TensorProto.FLOAT)
        absent = g.op("Sub", ["mask.float", g.const("mask.one", np.float32(1))], "mask.absent")
        far = g.op("Mul", [absent, g.const("mask.far", np.float32(1e4))], "mask.far.flat")
        g.op("Unsqueeze", [far, g.const("mask.axes", [1, 2])], "mask.penalty")

    def linear(self, name: str, source: str, weight: Array, bias: Array, smooth: Array | None) -> str:
        """Write source @ weight + bias; `smooth` is already divided out of `source` where it is not None."""
        g = self.graph
        if self.ranges is None:
            self.probes.append(source)
            product = g.op("MatMul", [source, g.const(f"{name}.weight", weight)], f"{name}.product")
            return g.op("Add", [product, g.const(f"{name}.bias", bias)], f"{name}.out")
        low, high = self.ranges[source].low, self.ranges[source].high
        if smooth is not None:
            low, high, weight, source = low / smooth, high / smooth, weight * smooth[:, None], f"{source}.smooth"
        step, zero_point = _uint8_parameters(float(low.min()), float(high.max()))
        scale, zero = g.const(f"{name}.scale", step), g.const(f"{name}.zero_point", zero_point)
        quantised = g.op("QuantizeLinear", [source, scale, zero], f"{name}.quantised")
        values, weight_scale = _quantise(weight, 0, WEIGHT_LEVELS)
        given = [g.const(f"{name}.weight", values), scale, g.const(f"{name}.weight_scale", weight_scale[0]), zero, ""]
        inputs = [quantised, *given, g.const(f"{name}.bias", bias)]
        return g.op("MatMulIntegerToFloat", inputs, f"{name}.out", CONTRIB)

    def smooth(self, source: str, weight: Array) -> Array | None:
        """Divide `source` by its smoothing factors; gives them, or None where the graph stays in float32."""
        if self.ranges is None:
            return None
        factors = smoothing(self.ranges[source], weight, self.alpha)
        self.graph.op("Mul", [source, self.graph.const(f"{source}.factors", 1 / factors)], f"{source}.smooth")
        return factors

    def residual_norm(self, name: str, skip: str, added: str, prefix: str) -> str:
        """Write the norm of a sum of two tensors; onnxruntime's fused operator takes three times as long."""
        g = self.graph
        gamma = g.const(f"{name}.gamma", self.weights[f"{prefix}.weight"])
        beta = g.const(f"{name}.beta", self.weights[f"{prefix}.bias"])
        summed = g.op("Add", [added, skip], f"{name}.sum")
        return g.op("LayerNormalization", [summed, gamma, beta], name, axis=-1, epsilon=self.config.layer_norm_eps)

    def embeddings(self) -> str:
        """Write words plus positions, normed: ``layer0``."""
        g, words = self.graph, self.weights["embeddings.word_embeddings.weight"]
        if self.ranges is None:
            vectors = g.op("Gather", [g.const("words", words), "input_ids"], "words.float")
        elif words.shape[1] % BLOCK == 0 and np.array_equal(from_four_bits(*(found := four_bits(words))), words):
            vectors = self.unpacked(*found)
        else:
            values, scale = _quantise(words, 1, 127)
            gathered = g.op("Gather", [g.const("words", values), "input_ids"], "words.int8")
            scales = g.op("Gather", [g.const("words.scale", scale), "input_ids"], "words.scales")
            cast = g.op("Cast", [gathered], "words.cast", to=TensorProto.FLOAT)
            vectors = g.op("Mul", [cast, scales], "words.float")
        return self.placed(vectors)

    def placed(self, vectors: str) -> str:
        """Write word vectors plus positions, normed: ``layer0``."""
        g, w = self.graph, self.weights
        # a text by itself is one segment, so the segment vector is a constant that positions can carry
        positions = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
        length = g.op("Shape", ["input_ids"], "length", start=1, end=2)
        zero, axis = g.const("zero", [0]), g.const("axis0", [0])
        place = g.op("Slice", [g.const("positions", positions), zero, length, axis], "positions.used")
        summed = g.op("Add", [vectors, place], "embeddings.sum")
        gamma = g.const("embeddings.gamma", w["embeddings.LayerNorm.weight"])
        beta = g.const("embeddings.beta", w["embeddings.LayerNorm.bias"])
        return g.op("LayerNormalization", [summed, gamma, beta], "layer0", axis=-1, epsilon=self.config.layer_norm_eps)

    def unpacked(self, values: Array, scale: Array) -> str:
        """Write the word vectors of blocks of 4 bits; only those of the text are unpacked."""
        g = self.graph
        pairs = g.op("Gather", [g.const("words", values), "input_ids"], "words.pairs")
        low = g.op("BitwiseAnd", [pairs, g.const("words.low", np.array(15, np.uint8))], "words.first")
        shift = g.const("words.half", np.array(4, np.uint8))
        high = g.op("BitShift", [pairs, shift], "words.second", direction="RIGHT")
        both = g.op("Concat", [low, high], "words.both", axis=-1)
        cast = g.op("Cast", [both], "words.cast", to=TensorProto.FLOAT)
        steps = g.op("Sub", [cast, g.const("words.middle", np.array(8, np.float32))], "words.steps")
        scales = g.op("Gather", [g.const("words.scale", scale), "input_ids"], "words.scales")
        wide = g.op("Cast", [scales], "words.scales.float", to=TensorProto.FLOAT)
        blocks = g.op("Mul", [steps, wide], "words.blocks")
        return g.op("Reshape", [blocks, g.const("words.joined", [0, 0, -1])], "words.float")

    def attention(self, index: int, source: str) -> str:
        """Write the attention half of layer `index`, from 1.

        In single products, which take less time than onnxruntime's fused operator where texts are short.
        """
        g, prefix = self.graph, f"encoder.layer.{index - 1}.attention"
        hidden, heads = self.config.hidden_size, self.config.num_attention_heads
        shrink = np.float32((hidden // heads) ** -0.5)
        weight = np.concatenate([self.weights[f"{prefix}.self.{part}.weight"].T for part in PARTS], axis=1)
        bias = np.concatenate([self.weights[f"{prefix}.self.{part}.bias"] for part in PARTS])
        weight[:, :hidden] *= shrink
        bias[:hidden] *= shrink
        out_weight = self.weights[f"{prefix}.output.dense.weight"].T
        context, name = f"attention{index}.context", f"attention{index}"
        factors = None
        if self.ranges is not None:
            # attention mixes tokens, not channels: a factor divided out of V is divided out of the context
            factors = smoothing(self.ranges[context], out_weight, self.alpha)
            weight[:, 2 * hidden :] /= factors
            bias[2 * hidden :] /= factors
        qkv = self.linear(name, source, weight, bias, self.smooth(source, weight))
        by_head = g.op("Reshape", [qkv, g.const(f"{name}.heads", [0, 0, 3, heads, -1])], f"{name}.by_head")
        parts = g.op("Transpose", [by_head], f"{name}.parts", perm=[2, 0, 3, 1, 4])  # part, text, head, token, channel
        query, key, value = (
            g.op("Gather", [parts, g.const(f"{name}.{part}.place", place)], f"{name}.{part}", axis=0)
            for place, part in enumerate(PARTS)
        )
        turned = g.op("Transpose", [key], f"{name}.key.turned", perm=[0, 1, 3, 2])
        scores = g.op("MatMul", [query, turned], f"{name}.scores")
        scores = g.op("Add", [scores, "mask.penalty"], f"{name}.masked")
        mixed = g.op("MatMul", [g.op("Softmax", [scores], f"{name}.shares", axis=-1), value], f"{name}.mixed")
        mixed = g.op("Transpose", [mixed], f"{name}.by_token", perm=[0, 2, 1, 3])
        joined = g.const(f"{name}.joined", [0, 0, hidden])
        g.op("Reshape", [mixed, joined], context if factors is None else f"{context}.smooth")
        out = self.linear(f"{name}.dense", context, out_weight, self.weights[f"{prefix}.output.dense.bias"], factors)
        return self.residual_norm(f"{name}.norm", source, out, f"{prefix}.output.LayerNorm")

    def dense(self, name: str, source: str, prefix: str) -> str:
        """Write the linear map `prefix` of the weights file, smoothed."""
        weight = self.weights[f"{prefix}.weight"].T
        return self.linear(name, source, weight, self.weights[f"{prefix}.bias"], self.smooth(source, weight))

    def feed_forward(self, index: int, source: str) -> str:
        """Write the other half of layer `index`: its output is ``layer<index>``."""
        prefix = f"encoder.layer.{index - 1}"
        up = self.dense(f"ffn{index}.up", source, f"{prefix}.intermediate.dense")
        middle = self.graph.op("Gelu", [up], f"ffn{index}.gelu", CONTRIB)
        down = self.dense(f"ffn{index}.down", middle, f"{prefix}.output.dense")
        return self.residual_norm(f"layer{index}", source, down, f"{prefix}.output.LayerNorm")

    def mean(self, layer: int) -> str:
        """Write the mean over the tokens of a layer."""
        g = self.graph
        summed = g.op("MatMul", ["mask.row", self.states.get(layer, f"layer{layer}")], f"sum{layer}")
        flat = g.op("Squeeze", [summed, "axis1"], f"sum{layer}.flat")
        return g.op("Div", [flat, "token_count"], f"mean{layer}")

    def first_token(self, layer: int) -> str:
        """Write the vector of the first word piece."""
        g = self.graph
        # place 0 holds the special token; a text without any piece has the other special token here
        place = g.const(f"first{layer}.place", 1)
        return g.op("Gather", [self.states.get(layer, f"layer{layer}"), place], f"first{layer}", axis=1)

    def unit(self, source: str, output: str) -> str:
        """Write the division of vectors by their length."""
        g = self.graph
        norm = g.op("ReduceL2", [source, "axis_last"], f"{output}.norm", keepdims=1)
        floor = g.op("Max", [norm, "tiny"], f"{output}.floor")
        return g.op("Div", [source, floor], output)

    def entities(self, probe: EntityProbe) -> None:
        """Write the view ``entities``: the largest log-odds of each type over the tokens."""
        g = self.graph
        evidence = g.op("MatMul", [f"layer{probe.layer}", g.const("entities.weight", probe.weight)], "entities.product")
        evidence = g.op("Add", [evidence, g.const("entities.bias", probe.bias)], "entities.tokens")
        # padding must not win the maximum
        penalty = g.op("Unsqueeze", ["mask.far.flat", "axis_last"], "mask.column")
        g.op("ReduceMax", [g.op("Add", [evidence, penalty], "entities.masked"), "axis1"], "entities", keepdims=0)

    def write_lower(self, shared: int) -> tuple[onnx.ModelProto, list[str]]:
        """Write the lower part of an encoder: from word pieces to ``states`` behind so many layers."""
        self.mask("attention_mask")
        state = self.embeddings()
        for index in range(1, shared + 1):
            state = self.feed_forward(index, self.attention(index, state))
        self.graph.nodes[-1].output[0] = "states"
        value, hidden = helper.make_tensor_value_info, self.config.hidden_size
        inputs = [value(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")]
        return self.finish("lower", inputs, [value("states", TensorProto.FLOAT, ["batch", "length", hidden])])

    def write_upper(self, views: Views) -> tuple[onnx.ModelProto, list[str]]:
        """Write the upper part of an encoder: from ``states`` of the pieces that it reads to the views."""
        g, cfg = self.graph, self.config
        self.mask("attention_mask")
        g.const("axis1", [1])
        g.const("axis_last", [-1])
        g.const("tiny", np.array([1e-12], np.float32))
        g.op("Unsqueeze", ["mask.float", "axis1"], "mask.row")
        g.op("ReduceSum", ["mask.float", "axis1"], "token_count", keepdims=1)
        state = self.states[views.shared] = "states"
        if views.tuned is not None:
            mark = g.op("Gather", [g.const("marks", views.tuned["marks"]), "kind"], "mark")
            state = g.op("Add", [state, mark], "marked")
        for index in range(views.shared + 1, cfg.num_hidden_layers + 1):
            state = self.feed_forward(index, self.attention(index, state))
        last = cfg.num_hidden_layers
        used = sorted({*views.mean_layers, last})
        means = {layer: self.mean(layer) for layer in used}
        if views.centre is None:
            self.unit(means[last], "pooled")
        else:
            whole = self.unit(means[last], "pooled.whole")
            self.unit(g.op("Sub", [whole, g.const("centre", views.centre)], "pooled.centred"), "pooled")
        parts = [means[layer] for layer in views.mean_layers]
        parts += [self.first_token(layer) for layer in views.first_token_layers]
        g.op("Concat", parts, "layers", axis=-1)
        token_dim = cfg.hidden_size
        if views.tuned is None:
            self.unit(state, "tokens")
        else:
            token_dim = len(views.tuned["tokens.bias"])
            self.unit(self.mapped(state, views.tuned, "tokens", "tokens.plain"), "tokens")
        value, floats = helper.make_tensor_value_info, TensorProto.FLOAT
        outputs = [
            value("pooled", floats, ["batch", cfg.hidden_size]),
            value("layers", floats, ["batch", cfg.hidden_size * len(parts)]),
            value("tokens", floats, ["batch", "length", token_dim]),
        ]
        if views.entities is not None:
            self.entities(views.entities)
            outputs.insert(2, value("entities", floats, ["batch", len(views.entities.bias)]))
        inputs = [
            value("states", floats, ["batch", "length", cfg.hidden_size]),
            value("attention_mask", TensorProto.INT64, ["batch", "length"]),
        ]
        if views.tuned is not None:
            outputs += self.of_questions(state, views.tuned)
            inputs.append(value("kind", TensorProto.INT64, []))
        return self.finish("upper", inputs, outputs)

    def mapped(self, source: str, weights: Mapping[str, Array], name: str, output: str) -> str:
        """Write the linear map `name` of some weights, in float32."""
        g = self.graph
        product = g.op("MatMul", [source, g.const(f"{name}.weight", weights[f"{name}.weight"].T)], f"{output}.product")
        return g.op("Add", [product, g.const(f"{name}.bias", weights[f"{name}.bias"])], output)

    def ends(self, state: str, output: str) -> str:
        """Write the first special token beside the mean of all that is neither special nor padding."""
        g = self.graph
        # a place is inside if it is not the first and the next one is no padding
        start, end = g.const("inner.start", [2]), g.const("inner.end", [2**31])
        inner = g.op("Slice", ["mask.float", start, end, "axis1"], "inner")
        edge = g.op("Pad", [inner, g.const("edges", [0, 1, 0, 1])], "inner.padded")
        total = g.op("MatMul", [g.op("Unsqueeze", [edge, "axis1"], "inner.row"), state], "inner.sum")
        count = g.op("ReduceSum", [edge, "axis_last"], "inner.count", keepdims=1)
        count = g.op("Max", [count, g.const("inner.least", np.array([1], np.float32))], "inner.floor")
        mean = g.op("Div", [g.op("Squeeze", [total, "axis1"], "inner.flat"), count], "inner.mean")
        first = g.op("Gather", [state, g.const("first.place", 0)], "first", axis=1)
        return g.op("Concat", [first, mean], output, axis=-1)

    def of_questions(self, state: str, tuned: Mapping[str, Array]) -> list[onnx.ValueInfoProto]:
        """Write what is asked and provided: ``weights`` of pieces, ``asks``, ``provides``, and unit vectors ``expects``."""
        g = self.graph
        self.mapped(state, tuned, "weights", "weights")
        ends = self.ends(state, "ends")
        for name in ("asks", "provides"):
            self.mapped(ends, tuned, name, name)
        dim = len(tuned["tokens.bias"])
        rows = g.const("expects.rows", [0, -1, dim])
        rows = g.op("Reshape", [self.mapped(ends, tuned, "expects", "expects.plain"), rows], "expects.rowed")
        g.op("Reshape", [self.unit(rows, "expects.unit"), g.const("expects.flat", [0, -1])], "expects")
        sizes = {name: len(tuned[f"{name}.bias"]) for name in ("asks", "provides", "expects")}
        value, floats = helper.make_tensor_value_info, TensorProto.FLOAT
        return [
            value("weights", floats, ["batch", "length", 1]),
            *(value(name, floats, ["batch", size]) for name, size in sizes.items()),
        ]

    def finish(
        self, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> tuple[onnx.ModelProto, list[str]]:
        """Give the model and the matrix-product inputs, which are further outputs of a float32 graph."""
        probes = list(dict.fromkeys(self.probes))
        given = {item.name for item in inputs}  # an input cannot be an output
        extra = [helper.make_tensor_value_info(p, TensorProto.FLOAT, None) for p in probes if p not in given]
        return self.graph.model(name, inputs, outputs + extra), probes
