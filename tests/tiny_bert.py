"""A tiny random BERT as a sentence-transformers folder: its vectors mean little, but it is loaded like any other model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

TOKENIZER = Path(__file__).parent.parent / "models" / "encoder" / "tokenizer.json"
VOCABULARY = 30522
POSITIONS = 512


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
    """Write a model; `scale` is the size of the last norm's weights, and so of vectors that are not normalised."""
    rng = np.random.default_rng(0)
    weights = {
        f"embeddings.{name}_embeddings.weight": rng.normal(0, 0.5, (rows, hidden))
        for name, rows in (("word", VOCABULARY), ("position", POSITIONS), ("token_type", 2))
    }
    sizes = {
        "attention.self.query": (hidden, hidden),
        "attention.self.key": (hidden, hidden),
        "attention.self.value": (hidden, hidden),
        "attention.output.dense": (hidden, hidden),
        "intermediate.dense": (2 * hidden, hidden),
        "output.dense": (hidden, 2 * hidden),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(layers):
        prefix = f"encoder.layer.{layer}"
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
        for name, shape in sizes.items():
            weights[f"{prefix}.{name}.weight"] = rng.normal(0, 0.3 / np.sqrt(shape[1]), shape)
            weights[f"{prefix}.{name}.bias"] = np.zeros(shape[0])
    for name in norms:
        weights[f"{name}.weight"] = np.full(hidden, scale if name == norms[-1] else 1.0)
        weights[f"{name}.bias"] = np.zeros(hidden)
    folder.mkdir(parents=True)
    save_file({name: value.astype(np.float32) for name, value in weights.items()}, folder / "model.safetensors")
    shutil.copyfile(TOKENIZER, folder / "tokenizer.json")
    write = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": hidden,
            "intermediate_size": 2 * hidden,
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
