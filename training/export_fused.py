"""Write one ONNX graph from token ids to class probabilities, encoder and head in one, for services in any language.

    python training/export_fused.py --models models --task questions --out FOLDER
    python training/export_fused.py --models models --task passages --out FOLDER
    python training/export_fused.py --models models --head MY_TAXONOMY --out FOLDER

FOLDER then holds ``model.onnx``; ``tokenizer.json`` of the encoder; ``manifest.json`` with the classes of each output, the
thresholds, the longest input and the hashes of the parts; and ``examples.json``, texts with their token ids and
probabilities, to test a port with. Nothing is trained or rounded again: the nodes are those of the shipped graphs.

Inputs are ``input_ids`` and ``attention_mask``, int64 (batch, length), padded on the right, of texts cut to ``max_length``
word pieces, both special tokens among them. A question head gives ``fine`` and ``coarse``, sums of fine ones; any other
head gives ``probabilities``. ``threshold`` and ``min_probability`` of the manifest are for the caller to compare with.

What is read off a text's characters stays outside of the graph, as token ids do not hold it:

* ``surface``, the counts of :mod:`semclass.heads.surface`: a head that reads them, as the shipped passage head does, gets a
  third input ``surface``, float32 (batch, columns), which the caller computes. There is no default, as zeros would give
  wrong answers without a sign.
* Steps before the tokeniser, such as adding a missing question mark and correcting misspelt words. Files of the head's
  folder that such a step reads are copied, and listed as ``outside`` in the manifest.
* Sentences: the graph reads a text as one. ``PassageClassifier`` reads a passage sentence by sentence, and
  ``QuestionClassifier`` reads of a long text what it asks, so only for texts of one sentence are the probabilities theirs.

An encoder that reads passages in another way than questions does so in the graph, too: for the passage head, its upper part
reads only the word pieces that are kept of passages; for every other head, all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tokenizers
from onnx import helper

import onnx_graphs
from command import make_parser, run
from semclass.core import artifacts, cards
from semclass.core.errors import ArtifactError, InputError
from semclass.core.taxonomy import coarse_of
from semclass.encoders.onnx_encoder import KEPT, PASSAGE, QUESTION, STATES, OnnxEncoder, for_passages
from semclass.heads.head import Head
from semclass.heads.inputs import PIECES, SURFACE, encoder_views, gather
from semclass.heads.surface import SURFACE_FEATURES

Array = npt.NDArray[Any]
Glue = Callable[..., onnx.ModelProto]  # from the text of a graph and its constants, by name

KIND = "fused"
TOLERANCE = 1e-4  # largest difference of a probability between the graph and the parts that it is made of
TOKENS = ("input_ids", "attention_mask")  # inputs that every fused graph has
# states with zeros in place of padding: a head that reads states knows the end of a text by them
GATED = f"{STATES}.gated"
# states and mask of the word pieces that the upper part reads of a passage, moved together
PACKED, PACKED_MASK = f"{STATES}.packed", "attention_mask.packed"
# texts of `examples.json`, of several lengths
EXAMPLES = (
    "When was the bridge built?",
    "Name the engineer who designed the lighthouse at the harbour mouth.",
    "eiffel tower height",
    "Why do leaves turn red in autumn?",
    "The bridge was built of granite by the engineer Ada Merriweather; it was opened in October 1874 for $1.2 million.",
    "A point of presence (POP) is a place where networks meet. It is described in section 4 | 16 Gb | New York, NY.",
)


@dataclass(frozen=True)
class Part:
    """A graph to be joined with others."""

    name: str  # what its inner names begin with
    model: onnx.ModelProto
    ends: Mapping[str, str] = field(default_factory=dict)  # new names of inputs and outputs; the others keep theirs

    def renamed(self, name: str) -> str:
        """Name of a tensor in the joined graph; an optional input that is left out has no name."""
        graph = self.model.graph
        if name in {item.name for item in (*graph.input, *graph.output)}:
            return self.ends.get(name, name)
        return f"{self.name}/{name}" if name else name


def join(
    parts: Sequence[Part], inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    """Join graphs, in an order in which each finds its inputs: an output of one is the input of that name of later ones.

    ``onnx.compose`` joins two graphs at a time and cannot give one tensor, such as the mask, to several.
    """
    nodes, constants, opsets = [], [], {}
    for part in parts:
        for opset in part.model.opset_import:
            if opsets.setdefault(opset.domain, opset.version) != opset.version:
                raise ArtifactError(
                    f"{part.name} needs version {opset.version} of the operators {opset.domain or 'ai.onnx'!r}, other "
                    f"parts {opsets[opset.domain]}: export the encoder and the head with one version of semclass"
                )
        for node in part.model.graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = f"{part.name}/{node.name or node.output[0]}"
            copy.input[:] = map(part.renamed, node.input)
            copy.output[:] = map(part.renamed, node.output)
            nodes.append(copy)
        for constant in part.model.graph.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(constant)
            copy.name = part.renamed(constant.name)
            constants.append(copy)
    model = helper.make_model(
        helper.make_graph(nodes, "fused", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=max(part.model.ir_version for part in parts),
        producer_name="semclass",
    )
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ArtifactError(f"{', '.join(part.name for part in parts)} do not fit together: {error}") from error
    return model


def pieces_graph(columns: int) -> str:
    """:func:`semclass.heads.inputs.piece_matrix` of padded token ids: no special tokens, -1 behind the end of a text."""
    # the mask of the next place tells a word piece, as behind the last one comes a special token
    return f"""
    pieces (int64[batch, length] input_ids, int64[batch, length] attention_mask) => (float[batch, {columns}] {PIECES})
    <int64[4] room = {{0, 0, 0, {columns + 2}}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64 none = {{-1}},
     int64[1] ids_end = {{{columns + 1}}}, int64[1] mask_end = {{{columns + 2}}}>
    {{
      long_ids = Pad(input_ids, room)
      long_mask = Pad(attention_mask, room)
      ids = Slice(long_ids, one, ids_end, one)
      next = Slice(long_mask, two, mask_end, one)
      inside = Cast<to = 9>(next)
      kept = Where(inside, ids, none)
      {PIECES} = Cast<to = 1>(kept)
    }}"""


def gate_graph(hidden: int) -> str:
    return f"""
    gate (float[batch, length, {hidden}] {STATES}, int64[batch, length] attention_mask)
      => (float[batch, length, {hidden}] gated)
    <int64[1] last = {{-1}}>
    {{
      column = Unsqueeze(attention_mask, last)
      inside = Cast<to = 1>(column)
      gated = Mul({STATES}, inside)
    }}"""


def packing_graph(hidden: int) -> str:
    """What :class:`OnnxEncoder` does with the word pieces of passages: those that are kept, in order, and their mask."""
    # kept pieces are numbered from the right, so that the largest numbers are the first pieces
    return f"""
    packing (float[batch, length, {hidden}] {STATES}, int64[batch, length] input_ids, int64[batch, length] attention_mask)
      => (float[batch, most, {hidden}] packed, int64[batch, most] packed_mask)
    <int64 places = {{1}}, int64[1] one = {{1}}, int64[1] last = {{-1}}, int64 none = {{0}}>
    {{
      flags = Gather(kept, input_ids)
      flags_number = Cast<to = 7>(flags)
      inside = Mul(flags_number, attention_mask)
      from_right = CumSum<reverse = 1>(inside, places)
      numbers = Mul(inside, from_right)
      largest = ReduceMax<keepdims = 0>(numbers)
      most_pieces = Reshape(largest, one)
      ordered, order = TopK<axis = 1>(numbers, most_pieces)
      rows = Unsqueeze(order, last)
      packed = GatherND<batch_dims = 1>({STATES}, rows)
      there = Greater(ordered, none)
      packed_mask = Cast<to = 7>(there)
    }}"""


def kind_graph(kind: int) -> str:
    return f"kind () => (int64 kind) {{ kind = Constant<value_int = {kind}>() }}"


def kind_of(head: Head) -> int:
    """How a head's texts are read: passages by the passage head alone."""
    return PASSAGE if head.artifact.field("task") == "passage-provides" else QUESTION


def upper_parts(encoder: artifacts.Artifact, views: Sequence[str], kind: int, glue: Glue) -> list[Part]:
    """The encoder's upper part with some of its views, behind what makes it read texts of a kind."""
    upper = onnx.load(encoder.path("upper.onnx"))
    network = onnx_graphs.part(
        upper, list(upper.graph.input), [item for item in upper.graph.output if item.name in views]
    )
    if KEPT not in encoder.field("files"):
        return [Part("upper", network)]
    constant = Part("kind", glue(kind_graph(kind)))
    if kind == QUESTION:
        return [constant, Part("upper", network)]
    packing = glue(packing_graph(encoder.field("views")[STATES]), kept=encoder.array(KEPT))
    return [
        constant,
        Part("packing", packing, {"packed": PACKED, "packed_mask": PACKED_MASK}),
        Part("upper", network, {STATES: PACKED, "attention_mask": PACKED_MASK}),
    ]


def fuse(encoder: artifacts.Artifact, head: Head) -> onnx.ModelProto:
    """Join an encoder and a head that was trained for it to the graph that the module's docstring describes."""
    wanted = encoder_views(head)
    if not wanted and PIECES not in head.inputs:
        raise InputError(f"the head reads {', '.join(head.inputs)} alone, which no graph computes from token ids")
    unknown = [view for view in wanted if view not in encoder.field("views")]
    if unknown:
        raise InputError(
            f"the head reads the view {unknown[0]!r}; a fused graph has those of the encoder, "
            f"{', '.join(encoder.field('views'))}, besides {PIECES} and {SURFACE}"
        )
    network = onnx.load(head.artifact.path("model.onnx"))
    lower = onnx.load(encoder.path("lower.onnx"))
    opsets = {"": next(item.version for item in lower.opset_import if not item.domain)}

    def glue(text: str, **constants: Array) -> onnx.ModelProto:
        return onnx_graphs.parse(text, constants, opsets, lower.ir_version)

    parts = [Part("lower", lower)] if wanted else []
    above = [view for view in wanted if view != STATES]
    if above:
        parts += upper_parts(encoder, above, kind_of(head), glue)
    if STATES in wanted:
        parts.append(Part("gate", glue(gate_graph(head.inputs[STATES])), {"gated": GATED}))
    if PIECES in head.inputs:
        parts.append(Part("pieces", glue(pieces_graph(head.inputs[PIECES]))))
    classes = outputs_of(head)
    parts.append(Part("head", network, {STATES: GATED, "probabilities": next(iter(classes))}))
    if "coarse" in classes:
        fine, coarse = classes["fine"], classes["coarse"]
        members = np.array([[coarse_of(label) == name for name in coarse] for label in fine], np.float32)
        text = f"""
    coarse (float[batch, {len(fine)}] fine) => (float[batch, {len(coarse)}] coarse)
    {{ coarse = MatMul(fine, membership) }}"""
        parts.append(Part("coarse", glue(text, membership=members)))
    value, kind = helper.make_tensor_value_info, onnx.TensorProto
    inputs = [value(name, kind.INT64, ["batch", "length"]) for name in TOKENS]
    if SURFACE in head.inputs:
        inputs.append(value(SURFACE, kind.FLOAT, ["batch", head.inputs[SURFACE]]))
    return join(parts, inputs, [value(name, kind.FLOAT, ["batch", len(row)]) for name, row in classes.items()])


def outputs_of(head: Head) -> dict[str, list[str]]:
    """Classes of each output of the fused graph; those of the head come first."""
    if head.artifact.field("task") != "question-type":
        return {"probabilities": list(head.classes)}
    return {"fine": list(head.classes), "coarse": sorted({coarse_of(label) for label in head.classes})}


def check(model: bytes, tokenizer_file: Path, encoder: OnnxEncoder, head: Head) -> list[dict[str, Any]]:
    """Compare the graph with its parts on the examples, one by one and in one batch; gives ``examples.json``."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    tokenizer.enable_truncation(encoder.max_length)
    tokenizer.enable_padding()
    reader = for_passages(encoder) if kind_of(head) == PASSAGE else encoder
    views = gather(head, list(EXAMPLES), reader.encode(EXAMPLES, views=encoder_views(head)))
    encodings = tokenizer.encode_batch(list(EXAMPLES))
    feeds = {
        "input_ids": np.array([item.ids for item in encodings], np.int64),
        "attention_mask": np.array([item.attention_mask for item in encodings], np.int64),
    }
    if SURFACE in head.inputs:
        feeds[SURFACE] = views[SURFACE]
    session = onnx_graphs.open_model(model)
    names = [item.name for item in session.get_outputs()]
    together = session.run(names, feeds)[0]
    alone, examples = [], []
    for row, text in enumerate(EXAMPLES):
        length = int(feeds["attention_mask"][row].sum())
        single = {name: part[row : row + 1, : length if name in TOKENS else None] for name, part in feeds.items()}
        found = dict(zip(names, session.run(names, single), strict=True))
        alone.append(found[names[0]][0])
        told = {name: part for name, part in (single | found).items() if name not in TOKENS}
        rounded = {name: [round(value, 6) for value in part[0].tolist()] for name, part in told.items()}
        examples.append({"text": text, "input_ids": single["input_ids"][0].tolist(), **rounded})
    expected = head.probabilities(views)
    difference = max(float(np.abs(expected - found).max()) for found in (together, np.stack(alone)))
    if not difference <= TOLERANCE:
        raise ArtifactError(
            f"the fused graph's probabilities differ from those of its parts by {difference:.1e}, more than {TOLERANCE}; "
            "it was not written"
        )
    print(f"largest difference from the parts: {difference:.1e}")
    return examples


def export(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.models / "encoder")
    folder = artifacts.load(arguments.models / "encoder", "encoder")
    head = Head.load(arguments.head or arguments.models / arguments.task, encoder_fingerprint=encoder.fingerprint)
    if (arguments.out / artifacts.MANIFEST).exists():
        artifacts.load(arguments.out, KIND)  # a slip of --out must not overwrite a head or an encoder
    if head.inputs.get(PIECES, 0) > encoder.max_length - 2:
        raise InputError(
            f"the head reads {head.inputs[PIECES]} word pieces and the encoder {encoder.max_length - 2}; "
            "a fused graph cannot see further than the encoder"
        )
    model = fuse(folder, head).SerializeToString(deterministic=True)
    examples = check(model, folder.path("tokenizer.json"), encoder, head)
    manifest = describe(folder, head, encoder.max_length)
    files = {name: head.artifact.path(name).read_bytes() for name in manifest["outside"]} | {
        "model.onnx": model,
        "tokenizer.json": folder.path("tokenizer.json").read_bytes(),
        "examples.json": artifacts.dump_json(examples),
    }
    written = artifacts.save(arguments.out, KIND, files, manifest, fused_card(manifest, head))
    print(f"{written}  {len(model) / 1e6:.2f} MB")
    for name in manifest["outside"]:
        print(f"copied, but not part of the graph: {name}")


def describe(encoder: artifacts.Artifact, head: Head, max_length: int) -> dict[str, Any]:
    inputs = dict.fromkeys(TOKENS, "int64 (batch, length)")
    if SURFACE in head.inputs:
        inputs[SURFACE] = f"float32 (batch, {head.inputs[SURFACE]})"
    records = head.artifact.field("files")
    return {
        "task": head.artifact.field("task"),
        "link": head.artifact.field("link"),
        "inputs": inputs,
        "outputs": outputs_of(head),
        "threshold": list(head.thresholds) if head.artifact.field("link") == "sigmoid" else None,
        # below this a head of one's own taxonomy declines to say; the caller compares, the graph does not
        "min_probability": float(head.artifact.manifest.get("min_probability", 0)),
        "surface_columns": list(SURFACE_FEATURES) if SURFACE in head.inputs else None,
        "max_length": max_length,
        "license": encoder.manifest.get("license"),
        "made_of": {
            **{f"encoder/{name}": record["sha256"] for name, record in encoder.field("files").items()},
            "head/model.onnx": records["model.onnx"]["sha256"],
        },
        "outside": sorted(set(records) - {"model.onnx"}),
    }


def fused_card(manifest: Mapping[str, Any], head: Head) -> str:
    outputs = "\n".join(f"- `{name}`, float32 (batch, {len(row)})" for name, row in manifest["outputs"].items())
    inputs = "\n".join(f"- `{name}`, {shape}" for name, shape in manifest["inputs"].items())
    parts = ", ".join(f"`{name}` {digest[:12]}" for name, digest in manifest["made_of"].items())
    limits = [
        f"Reads {manifest['max_length']} word pieces of a text, special ones included. The text is taken as it stands: "
        "spelling is not corrected, and it is read as one sentence. `PassageClassifier` reads a passage sentence by "
        "sentence, and `QuestionClassifier` what a long text asks: on several sentences their probabilities are others. "
        "What the head's own card says about its limits holds here too."
    ]
    if SURFACE in manifest["inputs"]:
        limits.append(
            "`surface` is made of counts read off the text, which token ids do not tell: the manifest names its columns, "
            "`semclass/heads/surface.py` defines them, `examples.json` holds values to test with. Zeros are not a default."
        )
    return cards.model_card(
        f"{manifest['task']}: token ids to class probabilities",
        {"license": manifest["license"] or "other", "pipeline_tag": "text-classification"},
        [
            ("What it is", f"Encoder and head in one ONNX graph. Inputs:\n\n{inputs}\n\nOutputs:\n\n{outputs}"),
            (
                "How to use it",
                f"Tokenise with `tokenizer.json`, special tokens included, cut to {manifest['max_length']} word pieces, "
                "pad on the right with mask 0, run. The manifest names the classes of each output; with thresholds, a "
                "class is there from its own on. `examples.json` holds texts, token ids and probabilities.",
            ),
            ("How it was made", f"`training/export_fused.py`, from parts that the manifest names: {parts}."),
            ("Limits", "\n\n".join(limits)),
        ],
        ["semclass", manifest["task"], "onnx"],
    )


def main() -> None:
    arguments = make_parser(__doc__)
    arguments.add_argument("--models", type=Path, default=Path("models"), help="models folder, with encoder/")
    which = arguments.add_mutually_exclusive_group(required=True)
    which.add_argument("--task", choices=("questions", "passages"), help="the head of that name in the models folder")
    which.add_argument("--head", type=Path, help="folder of another head that was trained for this encoder")
    arguments.add_argument("--out", type=Path, required=True)
    run(arguments, export)


if __name__ == "__main__":
    main()
