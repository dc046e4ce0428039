"""Make ``models/deep``: layers that read a question and a passage together, in int8.

    python training/export_deep.py --data DATA --encoder models/encoder --tuned deep.npz --out models/deep

``tune_deep.py`` made the weights; of several runs, each of which went on from the one before, means are taken. Platt's
sigmoid is fitted on the questions that it held out, as in ``export_entailment.py``: each with the sentence that answers it
and those around it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np

import bert_graph
import onnx_graphs
from answer_groups import squad
from command import make_parser, run
from deep_network import Recipe, write_network
from export_encoder import find_source
from export_entailment import balance, check, figures, held_out_pairs, overlaps, platt
from semclass.core import artifacts, cards
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.ranking.deep import DeepHead, pairs_of
from tuning_texts import held_out

CALIBRATION = 400  # questions that the scales of the int8 activations are found on
TOLERANCE = 0.05  # of log-odds, between a pair alone and in a batch; int8 rounding may tip a value


def calibration_pairs(data: Path) -> tuple[list[str], list[list[str]]]:
    """Questions that the tuning learnt from, with the sentence that answers each, or one beside it."""
    groups = list(squad(data))
    learnt = [group for group, out in zip(groups, held_out(groups), strict=True) if not out]
    some = learnt[:: max(1, len(learnt) // CALIBRATION)]
    sentences = [list(group.passages[row % len(group.passages)]) for row, group in enumerate(some)]
    return [group.question for group in some], sentences


def export(arguments: argparse.Namespace) -> None:
    _, config = bert_graph.read_model(find_source(arguments.source))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    idf = artifacts.load(arguments.encoder.parent / "entailment", "entailment").array("idf.npy")
    weights, layers = bert_graph.mean_of(arguments.tuned), range(layer, layer + Recipe.layers)
    pairs = pairs_of(encoder, *calibration_pairs(arguments.data))
    feeds = [{"states": states[None], "marks": marks[None]} for states, marks in pairs]
    write = partial(write_network, weights, config, layers)
    plain = onnx_graphs.int8_model(partial(write, (1.0, 0.0)), feeds)
    questions, sentences, answers = held_out_pairs(arguments.data)
    share = balance(answers, overlaps(encoder, idf, questions, sentences), Recipe.hardness)
    head = DeepHead(encoder, onnx_graphs.open_model(plain, arguments.threads))
    logits = head.read(questions, [[sentence] for sentence in sentences])
    slope, bias = platt(logits, answers, share)
    found = figures(1 / (1 + np.exp(-(slope * logits + bias))), answers, share)
    print(f"held out: {found}, slope {slope}, bias {bias}", flush=True)
    fields = {
        "task": "passage-answers-question",
        "encoder": encoder.fingerprint,
        "layers": [layer + 1, layer + Recipe.layers],
        "calibration": {"method": "sigmoid", "slope": slope, "bias": bias, "on": f"{answers.sum()} held-out questions"},
        "metrics": {"held_out": found},
    }
    files = {"network.onnx": onnx_graphs.int8_model(partial(write, (slope, bias)), feeds)}
    artifacts.save(arguments.out, "deep", files, fields, card_of(found, fields["layers"]))
    print(f"{arguments.out}  {len(files['network.onnx']) / 1e6:.2f} MB")
    written = DeepHead.load(arguments.out, encoder)
    check(
        lambda pairs: written.read([question for question, _ in pairs], [[sentence] for _, sentence in pairs]),
        questions,
        sentences,
        TOLERANCE,
    )


def card_of(found: dict[str, float], layers: list[int]) -> str:
    """The model card."""
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
            "more:\n\n" + "\n".join(f"- {name}: {value}" for name, value in found.items()),
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
    parser.add_argument(
        "--tuned", type=Path, required=True, nargs="+", help="weights of tune_deep.py; means of several"
    )
    parser.add_argument("--out", type=Path, default=Path("models/deep"))
    run(parser, export)


if __name__ == "__main__":
    main()
