"""Models made for tests: tiny random BERTs, which are loaded like any other, and pair heads whose weights are plain."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
from safetensors.numpy import save_file

import bert_graph
import onnx_graphs
from bert_graph import kept_pieces
from export_encoder import Reading, lower_of, upper_feeds, upper_of
from semclass.core import artifacts
from semclass.encoders.batching import pieces_of
from semclass.encoders.onnx_encoder import KEPT, NETWORKS
from semclass.ranking.features import PAIR_FEATURES
from semclass.train.fitted import FittedHead, head_to_onnx

ROOT = Path(__file__).parent.parent

TOKENIZER = ROOT / "models" / "encoder" / "tokenizer.json"
VOCABULARY = 30522
POSITIONS, INNER = 512, 64


def write_model(
    folder: Path,
    *,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 2,
    scale: float = 1.0,
    pooling: str = "mean_tokens",
    normalise: bool = True,
    config: dict[str, object] | None = None,
) -> Path:
    """Write a sentence-transformers folder.

    `scale` is the size of the last norm's weights, and so of vectors that are not normalised.
    """
    sizes = SimpleNamespace(hidden_size=hidden, num_hidden_layers=layers, max_position_embeddings=POSITIONS)
    weights = random_weights(sizes, VOCABULARY)
    norm = f"encoder.layer.{layers - 1}.output.LayerNorm"
    weights |= {f"{norm}.weight": np.full(hidden, scale, np.float32), f"{norm}.bias": np.zeros(hidden, np.float32)}
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors")
    shutil.copyfile(TOKENIZER, folder / "tokenizer.json")
    write = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": hidden,
            "intermediate_size": INNER,
            "layer_norm_eps": 1e-12,
            "max_position_embeddings": POSITIONS,
            "num_attention_heads": heads,
            "num_hidden_layers": layers,
            "pad_token_id": 0,
            "type_vocab_size": 2,
            "vocab_size": VOCABULARY,
            **(config or {}),
        },
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": True,
            "model_max_length": POSITIONS,
        },
        "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False},
        "modules.json": [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for place, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] * normalise)]
            )
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden,
            **{f"pooling_mode_{mode}": mode == pooling for mode in ("cls_token", "mean_tokens", "max_tokens")},
        },
    }
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    for name, value in write.items():
        (folder / name).write_text(json.dumps(value))
    return folder


def export(folder: Path, *, tuned: bool = False, prefixes: tuple[str, ...] = (), **sizes: int) -> Path:
    """Export a tiny model in ``folder/source`` to ``folder/encoder``, without the parts that are fitted on data.

    A `tuned` one reads passages in its own way, and gives what tuning adds. One with `prefixes` reads one of them before a
    question, and the other before a passage.
    """
    source = write_model(folder / "source", **sizes)
    weights, config = bert_graph.read_model(source)
    views = replace(bert_graph.Views.of_depth(config.num_hidden_layers), shared=1)
    if tuned:
        views = replace(views, tuned=tuned_parts(config.hidden_size))
    kept = kept_pieces(pieces_of(json.loads(TOKENIZER.read_text())["model"]["vocab"]))
    rng = np.random.default_rng(0)
    texts = [Reading([101, *row, 102], 0, (0, 1)) for row in rng.integers(1000, 30000, (20, 10)).tolist()]
    plain, _ = lower_of(weights, config, views, None)
    feeds = [onnx_graphs.text_feed(text.ids) for text in texts], upper_feeds(plain, texts, kept if tuned else None)
    files = {
        name: onnx_graphs.int8_model(partial(part, weights, config, views), feed)
        for name, part, feed in zip(NETWORKS, (lower_of, upper_of), feeds, strict=True)
    }
    outputs = [item for part in files.values() for item in onnx.ModelProto.FromString(part).graph.output]
    manifest = {
        "max_length": 64,
        "max_positions": 512,
        "special_ids": [101, 102],
        "views": {item.name: item.type.tensor_type.shape.dim[-1].dim_value for item in outputs},
    }
    if prefixes:
        manifest["prefixes"] = list(prefixes)
    files["tokenizer.json"] = (source / "tokenizer.json").read_bytes()
    if tuned:
        files[KEPT] = npy_bytes(kept)
    artifacts.save(folder / "encoder", "encoder", files, manifest)
    return folder / "encoder"


def tuned_parts(hidden: int, dim: int = 8, provided: int = 4, expected: int = 2) -> dict[str, np.ndarray]:
    """Random weights of what tuning adds to an encoder, by name."""
    rng = np.random.default_rng(1)
    maps = {
        "tokens": (dim, hidden),
        "weights": (1, hidden),
        "asks": (provided, 2 * hidden),
        "provides": (provided, 2 * hidden),
        "expects": (expected * dim, 2 * hidden),
    }
    found = {"marks": rng.normal(size=(2, hidden)) / 10}
    for name, shape in maps.items():
        found[f"{name}.weight"] = rng.normal(size=shape) / np.sqrt(shape[1])
        found[f"{name}.bias"] = rng.normal(size=shape[0]) / 10
    return {name: value.astype(np.float32) for name, value in found.items()}


def save_pairs(folder: Path, encoder: str, n_terms: int) -> None:
    """Write a pair head that goes by the words which question and passage share."""
    weights = np.array([4.0 if name.startswith("overlap") else 0.0 for name in PAIR_FEATURES], np.float32)
    inputs = {"pairs": len(PAIR_FEATURES)}
    network = head_to_onnx(FittedHead("sigmoid", ("answers",), inputs, weights[:, None], np.array([-2], np.float32)))
    # every piece is a word of its own, of the same idf
    words = np.stack([np.arange(n_terms), np.zeros(n_terms)]).astype(np.int32)
    files = {"idf.npy": npy_bytes(np.ones(n_terms, np.float32)), "words.npy": npy_bytes(words)}
    card = {
        "task": "passage-answers-question",
        "classes": ("answers",),
        "link": "sigmoid",
        "inputs": inputs,
        "encoder": encoder,
        "calibration": {},
        "training": {},
        "metrics": {},
        "threshold": 0.5,
        "features": list(PAIR_FEATURES),
        "weights": {"entailment": 1.0, "class": 1.0},
    }
    artifacts.save(folder / "entailment", "head", {"model.onnx": network, **files}, card)


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def random_weights(config, pieces):
    """A tiny network of random weights, by the names of a BERT weights file."""
    rng = np.random.default_rng(0)
    hidden = config.hidden_size
    shapes = {
        "embeddings.word_embeddings": (pieces, hidden),
        "embeddings.position_embeddings": (config.max_position_embeddings, hidden),
        "embeddings.token_type_embeddings": (2, hidden),
    }
    layers = [f"encoder.layer.{index}" for index in range(config.num_hidden_layers)]
    for layer in layers:
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{layer}.attention.{part}"] = (hidden, hidden)
        shapes[f"{layer}.intermediate.dense"] = (INNER, hidden)
        shapes[f"{layer}.output.dense"] = (hidden, INNER)
    found = {f"{name}.weight": rng.normal(size=shape) / np.sqrt(shape[-1]) for name, shape in shapes.items()}
    found |= {f"{name}.bias": rng.normal(size=shape[0]) / 10 for name, shape in shapes.items() if "layer" in name}
    for name in ("embeddings", *(f"{layer}.{part}" for layer in layers for part in ("attention.output", "output"))):
        found[f"{name}.LayerNorm.weight"] = 1 + rng.normal(size=hidden) / 10
        found[f"{name}.LayerNorm.bias"] = rng.normal(size=hidden) / 10
    return {name: value.astype(np.float32) for name, value in found.items()}
