"""Tune layers that read a question and a passage together.

    python training/tune_deep.py --groups groups.npz --tuned tuned.npz --device cuda --out deep.npz

The encoder's lower part stays as it is, and reads the question and each sentence by themselves. The layers above start from
those of ``tune_encoder.py`` and learn on the questions that ``pack_groups.py`` wrote; ``deep_network.py`` has the settings
and the loss. Some groups of each domain are held out, and ranked at the end. Writes every weight, for ``export_deep.py``.
Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bert_torch import fit, two_rates
from command import run
from deep_network import Network, Recipe, read_pairs
from tuning_texts import Rows, Texts, Tuning, tuning_parser


def mean_rank(network: Network, texts: Texts, groups: Sequence[Rows]) -> dict[str, float]:
    """Mean reciprocal rank of the first answer among the passages of each group."""
    pairs = [(group.question, passage) for group in groups for passage in group.passages]
    with network.torch.no_grad():
        found = network.logits(texts, read_pairs(texts.ids, texts.idf, pairs)).float().cpu().numpy()
    ranks = []
    ends = np.cumsum([len(group.passages) for group in groups])
    for group, logits in zip(groups, np.split(found, ends[:-1]), strict=True):
        right = [place in group.answers for place in range(len(logits))]
        ranks.append(1 + int((logits[~np.array(right)] >= logits[right].max()).sum()))
    return {"score": float(np.mean(1 / np.array(ranks)))}


def train(arguments: argparse.Namespace) -> None:
    begin = Tuning.of(arguments, Recipe)
    recipe, texts = begin.recipe, begin.texts
    weights = {**begin.weights, **(dict(np.load(arguments.tuned)) if arguments.tuned else {})}
    layers = range(begin.layer, begin.layer + recipe.layers)
    network = Network(weights, begin.config, layers, recipe, arguments.seed, arguments.device)
    groups = two_rates(network.parameters, recipe.rate, recipe.head_rate)
    found = fit(network, recipe, groups, len(begin.steps), begin.steps, lambda step: network.loss(texts, step))
    begin.finish(arguments, network, found, partial(mean_rank, network, texts))


if __name__ == "__main__":
    parser = tuning_parser(__doc__, Recipe, ("steps", "block", "contrast", "others"))
    parser.add_argument("--tuned", type=Path, help="weights of tune_encoder.py; else the layers start as published")
    run(parser, train)
