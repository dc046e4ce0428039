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
from dataclasses import asdict
from pathlib import Path

import numpy as np

import bert_graph
from bert_torch import EXTRA, fit
from command import run, seconds_so_far
from deep_network import Network, Recipe, read_pairs
from export_encoder import find_source
from semclass.core.errors import import_extra
from tuning_texts import Material, Rows, Texts, batches, recipe_of, tuning_parser


def mean_rank(network: Network, texts: Texts, groups: Sequence[Rows]) -> float:
    """Mean reciprocal rank of the first answer among the passages of each group."""
    network.training = False
    pairs = [(group.question, passage) for group in groups for passage in group.passages]
    with network.torch.no_grad():
        found = network.logits(texts, read_pairs(texts.ids, texts.idf, pairs)).float().cpu().numpy()
    ranks = []
    ends = np.cumsum([len(group.passages) for group in groups])
    for group, logits in zip(groups, np.split(found, ends[:-1]), strict=True):
        right = [place in group.answers for place in range(len(logits))]
        ranks.append(1 + int((logits[~np.array(right)] >= logits[right].max()).sum()))
    return float(np.mean(1 / np.array(ranks)))


def train(arguments: argparse.Namespace) -> None:
    torch = import_extra("torch", EXTRA)
    torch.set_num_threads(arguments.threads)
    torch.set_float32_matmul_precision("high")
    weights, config = bert_graph.read_model(find_source(arguments.source))
    tuned = dict(np.load(arguments.tuned)) if arguments.tuned else {}
    layer = bert_graph.Views.of_depth(config.num_hidden_layers).shared
    recipe = recipe_of(arguments, Recipe)
    start = dict(np.load(arguments.start)) if arguments.start else {}
    rng = np.random.default_rng([arguments.seed, 1] if start else arguments.seed)  # other batches than those before
    material = Material.load(arguments.groups)
    drawn = list(batches(material.learnt(arguments.left_out), recipe, rng))
    material, drawn, checks = material.only(drawn, material.checks(arguments.left_out, rng))
    texts = Texts.read(material, weights, config, layer, arguments.device)
    print(f"{len(material.groups)} questions, {len(material.pieces)} texts, {seconds_so_far()} s", flush=True)
    layers = range(layer, layer + recipe.layers)
    network = Network({**weights, **tuned}, config, layers, recipe, arguments.seed, start, arguments.device)
    network.training = True
    found = fit(network, recipe, len(drawn), lambda: drawn, lambda step: network.loss(texts, step))
    network.parameters = {name: network.put(value) for name, value in found.items()}
    for name, some in sorted(checks.items()):
        print(f"{name}: {len(some)} questions, {mean_rank(network, texts, some):.3f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out, **{name: value.astype(arguments.precision) for name, value in found.items()})
    print(f"{arguments.out}  {asdict(recipe)}  {seconds_so_far()} s")


if __name__ == "__main__":
    settings = ("layers", "steps", "block", "contrast", "echoes", "others")
    parser = tuning_parser(__doc__, Recipe, settings)
    parser.add_argument("--tuned", type=Path, help="weights of tune_encoder.py; else the layers start as published")
    parser.add_argument("--start", type=Path, help="weights of an earlier run, to go on from")
    run(parser, train)
