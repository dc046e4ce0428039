"""Make ``models/deep``: layers that read a question and a passage together, in int8.

    python training/export_deep.py --data DATA --encoder models/encoder --tuned deep.npz --out models/deep
    python training/export_deep.py --data DATA --encoder models/encoder --out models/deep

The second command keeps the network in ``--out``, and only fits it to the entailment head again.
``tune_deep.py`` made the weights; of several runs, each of which went on from the one before, means are taken. Platt's
sigmoid is fitted on the questions that it held out, as in ``export_entailment.py``: each with the sentence that answers it
and those around it. On the same questions a logistic regression weighs its log-odds beside those of the entailment head,
which reads each text by itself, for ``EntailmentClassifier``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import bert_graph
import onnx_graphs
from answer_groups import Group, squad
from command import Array, make_parser, run, save_artifact
from deep_network import Recipe, write_network
from export_encoder import find_source
from export_entailment import Held, check, figures, platt
from semclass.core import artifacts
from semclass.core.artifacts import STATES
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.entailment import MIN_PROBABILITY, DeepHead, EntailmentClassifier, Pair, combined, pair_of
from semclass.heads.head import log_odds
from tuning_texts import held_out

CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 0.05  # of log-odds, between a pair alone and in a batch; int8 rounding may tip a value


Weights = tuple[float, float, float]


def calibration_pairs(learnt: Sequence[Group]) -> tuple[list[str], list[list[str]]]:
    """Questions that the tuning learnt from, with the passage that answers each, or one beside it."""
    some = learnt[:: max(1, len(learnt) // CALIBRATION)]
    passages = [list(group.passages[row % len(group.passages)]) for row, group in enumerate(some)]
    return [group.question for group in some], passages


def network_of(
    arguments: argparse.Namespace, encoder: OnnxEncoder, learnt: Sequence[Group], held: Held
) -> tuple[bytes, dict[str, Any]]:
    """The network in int8 with calibrated log-odds, and what its manifest says, from weights of ``tune_deep.py``."""
    _, config = bert_graph.read_model(find_source(arguments.source))
    layer = int(artifacts.load_artifact(arguments.encoder, "encoder").field("shared_layer"))
    weights = bert_graph.mean_of(arguments.tuned)
    layers = range(layer, layer + len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")}))
    pairs = pairs_of(encoder, *calibration_pairs(learnt))
    feeds = [{"states": states[None], "marks": marks[None]} for states, marks in pairs]
    write = partial(write_network, weights, config, layers)
    plain = onnx_graphs.int8_model(partial(write, (1.0, 0.0)), feeds)
    logits = DeepHead(onnx_graphs.open_model(plain, arguments.threads)).compare(
        pairs_of(encoder, held.questions, [[text] for text in held.sentences])
    )
    slope, bias = platt(logits[:, None], held.answers, held.share)
    fields = {
        "layers": [layers.start + 1, layers.stop],
        "calibration": {
            "method": "sigmoid", "slope": slope, "bias": bias, "on": f"{len(set(held.questions))} held-out questions"
        },
    }  # fmt: skip
    return onnx_graphs.int8_model(partial(write, (slope, bias)), feeds), fields


def pairs_of(encoder: OnnxEncoder, questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[Pair]:
    """Return the network's inputs for pairs of a question and sentences.

    The inputs are states (length, hidden), and marks (length,).
    """
    places: dict[str, int] = {}
    asked = [places.setdefault(text, len(places)) for text in questions]
    given = [[places.setdefault(text, len(places)) for text in sentences] for sentences in passages]
    encoding = encoder.encode(list(places), views=(STATES,))
    return [pair_of(encoding, row, encoding, rows, encoder.is_term) for row, rows in zip(asked, given, strict=True)]


def beside_entailment(models: Path, encoder: OnnxEncoder, together: Array, held: Held) -> tuple[Weights, Array]:
    """Weights of the entailment head's log-odds and of these, and a bias; and the probabilities that they give."""
    alone = EntailmentClassifier.load(models, encoder=encoder, deep=False)
    apart = alone.predict_proba(zip(held.questions, held.sentences, strict=True))[:, 1]
    odds = np.column_stack([log_odds(apart, MIN_PROBABILITY), together])
    first, second, bias = platt(odds, held.answers, held.share)
    return (first, second, bias), combined(apart, together, (first, second, bias))


def export(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    models, groups = Path(arguments.encoder).parent, list(squad(arguments.data))
    idf = artifacts.load_artifact(models / "entailment", "entailment").array("idf.npy")
    held = Held.of(groups, encoder, idf, Recipe.hardness)
    if arguments.tuned:
        learnt = [group for group, out in zip(groups, held_out(groups), strict=True) if not out]
        network, fields = network_of(arguments, encoder, learnt, held)
    else:
        earlier = artifacts.load_artifact(arguments.out, "deep")
        network, fields = earlier.read("network.onnx"), {key: earlier.field(key) for key in ("layers", "calibration")}
    head = DeepHead(onnx_graphs.open_model(onnx.ModelProto.FromString(network), arguments.threads))
    odds = head.compare(pairs_of(encoder, held.questions, [[text] for text in held.sentences]))
    weights, both = beside_entailment(models, encoder, odds, held)
    given = {"held_out": 1 / (1 + np.exp(-odds)), "held_out_beside_entailment": both}
    fields["beside_entailment"] = list(weights)
    found = {name: figures(some, held.answers, held.share) for name, some in given.items()}
    print(f"{found}, {fields}", flush=True)
    fields |= {"task": "passage-answers-question", "encoder": encoder.fingerprint, "metrics": found}
    shown = {name: "\n".join(f"- {key}: {value}" for key, value in part.items()) for name, part in found.items()}
    save_artifact(arguments.out, "deep", {"network.onnx": network}, fields, "deep", shown=shown)
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")
    written = DeepHead.load(arguments.out, encoder)

    def compare(pairs: list[tuple[str, str]]) -> Array:
        return written.compare(pairs_of(encoder, [first for first, _ in pairs], [[second] for _, second in pairs]))

    check(compare, held.questions, held.sentences, TOLERANCE)


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "source", "tuned", "threads", "out"), export)
