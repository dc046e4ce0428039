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
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from sklearn.linear_model import LogisticRegression

import bert_graph
import onnx_graphs
from answer_groups import squad
from command import make_parser, run
from deep_network import Recipe, write_network
from export_encoder import find_source
from export_entailment import balance, check, figures, held_out_pairs, overlaps, platt
from semclass.core import artifacts, cards
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.heads.entailment import LEAST, EntailmentClassifier, combined
from semclass.heads.head import log_odds
from semclass.heads.joint import JointHead, pairs_of
from tuning_texts import held_out

CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 0.05  # of log-odds, between a pair alone and in a batch; int8 rounding may tip a value


Array = npt.NDArray[Any]
Weights = tuple[float, float, float]


@dataclass(frozen=True)
class Held:
    """Pairs that tuning held out, n of each; answers are bool, shares are weights."""

    questions: list[str]
    sentences: list[str]
    answers: Array
    share: Array


def calibration_pairs(data: Path) -> tuple[list[str], list[list[str]]]:
    """Questions that the tuning learnt from, with the sentence that answers each, or one beside it."""
    groups = list(squad(data))
    learnt = [group for group, out in zip(groups, held_out(groups), strict=True) if not out]
    some = learnt[:: max(1, len(learnt) // CALIBRATION)]
    sentences = [list(group.passages[row % len(group.passages)]) for row, group in enumerate(some)]
    return [group.question for group in some], sentences


def network_of(arguments: argparse.Namespace, encoder: OnnxEncoder, held_out: Held) -> tuple[bytes, dict[str, Any]]:
    """The network in int8 with calibrated log-odds, and what its manifest says, from weights of ``tune_deep.py``."""
    _, config = bert_graph.read_model(find_source(arguments.source))
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    weights, layers = bert_graph.mean_of(arguments.tuned), range(layer, layer + Recipe.layers)
    pairs = pairs_of(encoder, *calibration_pairs(arguments.data))
    feeds = [{"states": states[None], "marks": marks[None]} for states, marks in pairs]
    write = partial(write_network, weights, config, layers)
    plain = onnx_graphs.int8_model(partial(write, (1.0, 0.0)), feeds)
    logits = read(JointHead(encoder, onnx_graphs.open_model(plain, arguments.threads)), held_out)
    slope, bias = platt(logits, held_out.answers, held_out.share)
    fields = {
        "layers": [layer + 1, layer + Recipe.layers],
        "calibration": {
            "method": "sigmoid", "slope": slope, "bias": bias, "on": f"{held_out.answers.sum()} held-out questions"
        },
    }  # fmt: skip
    return onnx_graphs.int8_model(partial(write, (slope, bias)), feeds), fields


def read(head: JointHead, held_out: Held) -> Array:
    """Log-odds of pairs."""
    return head.read(held_out.questions, [[sentence] for sentence in held_out.sentences])


def beside_entailment(models: Path, encoder: OnnxEncoder, together: Array, held_out: Held) -> tuple[Weights, Array]:
    """Weights of the entailment head's log-odds and of these, and a bias; and the probabilities that they give."""
    alone = EntailmentClassifier.load_apart(models, encoder=encoder)
    apart = alone.predict_proba(zip(held_out.questions, held_out.sentences, strict=True))[:, 1]
    odds = np.column_stack([log_odds(apart, LEAST), together])
    share = held_out.share * len(held_out.share)
    fitted = LogisticRegression(C=1e9).fit(odds, held_out.answers, sample_weight=share)
    first, second, bias = (round(float(value), 4) for value in (*fitted.coef_[0], fitted.intercept_[0]))
    return (first, second, bias), combined(apart, together, (first, second, bias))


def export(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    models = arguments.encoder.parent
    questions, sentences, answers = held_out_pairs(arguments.data)
    idf = artifacts.load(models / "entailment", "entailment").array("idf.npy")
    share = balance(answers, overlaps(encoder, idf, questions, sentences), Recipe.hardness)
    held_out = Held(questions, sentences, answers, share)
    if arguments.tuned:
        network, fields = network_of(arguments, encoder, held_out)
    else:
        earlier = artifacts.load(arguments.out, "deep")
        network, fields = earlier.read("network.onnx"), {key: earlier.field(key) for key in ("layers", "calibration")}
    head = JointHead(encoder, onnx_graphs.open_model(onnx.ModelProto.FromString(network), arguments.threads))
    odds = read(head, held_out)
    weights, both = beside_entailment(models, encoder, odds, held_out)
    found = {
        name: figures(given, answers, share)
        for name, given in (("held_out", 1 / (1 + np.exp(-odds))), ("held_out_beside_entailment", both))
    }
    print(f"{found}, weights beside entailment {weights}", flush=True)
    fields |= {
        "task": "passage-answers-question",
        "encoder": encoder.fingerprint,
        "beside_entailment": list(weights),
        "metrics": found,
    }
    artifacts.save(arguments.out, "deep", {"network.onnx": network}, fields, card_of(found, fields["layers"]))
    print(f"{arguments.out}  {len(network) / 1e6:.2f} MB")
    written = JointHead.load(arguments.out, encoder)
    check(
        lambda pairs: written.read([question for question, _ in pairs], [[sentence] for _, sentence in pairs]),
        questions,
        sentences,
        TOLERANCE,
    )


def card_of(found: dict[str, dict[str, float]], layers: list[int]) -> str:
    """The model card."""
    shown = {key: "\n".join(f"- {name}: {value}" for name, value in part.items()) for key, part in found.items()}
    sections = [
        (
            "What it tells",
            f"Log-odds that a passage answers a question. Layers {layers[0]} to {layers[1]} of the encoder, tuned for "
            "this, in int8, read the states that the encoder's lower part gives of the question and of some sentences of "
            "the passage, as one text.",
        ),
        (
            "Training",
            "`training/tune_deep.py`, from the encoder's tuned layers, on the questions that the encoder was tuned on. Its "
            "card names them, and `docs/howto/train.md` tells how.",
        ),
        (
            "Figures",
            "On questions of `squad_sentences/train` that were held out, each with the sentence that answers it and the "
            "ones around that; either class has half the weight, and sentences that share words with the question weigh "
            f"more:\n\n{shown['held_out']}\n\nThe sum of its log-odds and of those of the entailment head, which "
            f"`EntailmentClassifier` gives:\n\n{shown['held_out_beside_entailment']}",
        ),
        (
            "Limits",
            "English. Of a long passage it reads some sentences, those whose vectors are nearest to the question's.",
        ),
    ]
    return cards.model_card(
        "Does a passage answer a question? Both are read together",
        {"license": "apache-2.0", "language": "en", "pipeline_tag": "text-ranking"},
        sections,
        ["semclass", "passage-answers-question", "onnx"],
    )


def main() -> None:
    parser = make_parser(__doc__, "source", "threads")
    parser.add_argument("--data", type=Path, required=True, help="data folder; squad_sentences/train is read")
    parser.add_argument("--encoder", type=Path, default=Path("models/encoder"), help="beside it is models/entailment")
    parser.add_argument("--tuned", type=Path, nargs="+", default=(), help="weights of tune_deep.py; means of several")
    parser.add_argument("--out", type=Path, default=Path("models/deep"))
    run(parser, export)


if __name__ == "__main__":
    main()
