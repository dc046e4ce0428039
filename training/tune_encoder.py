"""Tune the encoder's upper layers, so that one reading of a text gives all that ranking looks at.

    python training/tune_encoder.py --groups groups.npz --device cuda --out tuned.npz

The lower part stays as it is. The layers above are copied and tuned on the questions that ``pack_groups.py`` wrote. Of
questions they read every word piece; of passages, sentence by sentence, only those of `bert_graph.kept_pieces`. They give

- ``pooled``: a unit vector, the mean over all pieces read, kept near that of the original encoder in float32;
- ``tokens``: a unit vector for each piece; a question also has a weight for each, and some vectors of what it expects;
- ``asks`` of a question, ``provides`` of a sentence: their inner product tells whether the sentence gives what is asked.

A pair head (``pair_head.py``) that compares the token vectors of a question and a sentence is tuned beside them.
``encoder_network.py`` has the settings and the loss. Some groups of each domain are held out (``held_out``) and
ranked at the end. Writes every weight, for ``export_encoder.py --tuned``. Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bert_graph
from bert_torch import fit, two_rates
from command import Array, run
from encoder_network import Network, Recipe
from tuning_texts import Rows, Texts, Tuning, tables, tuning_parser

# of the recipe, what the command line has
SETTINGS = ("steps", "block", "languages", "parallel", "others", "alike", "sharpness", "distance", "relations")
TOGETHER = 64  # questions whose passages are one pool, where held-out ones are measured


def tune(
    network: Network, texts: Texts, further: Array, steps: Sequence[Sequence[Rows]], start: Mapping[str, Array]
) -> dict[str, Array]:
    """Tune all weights on the groups of each step; half of the texts whose vectors stay are of `further`, rows.

    Of these texts one half is read as questions, the other as passages; with prefixes, those that the lower part read so.
    `start` has the weights of earlier runs, to go on from, or none.
    """
    recipe, rng = network.recipe, np.random.default_rng(network.seed)
    if start:
        network.parameters = {name: network.put(start[name]).requires_grad_() for name in network.parameters}
    else:
        network.start_tokens(texts)
    asked = texts.asked
    pools = [np.arange(len(texts.original))] * 2 if asked is None else [np.flatnonzero(asked), np.flatnonzero(~asked)]
    alone = [np.intersect1d(further, pool) for pool in pools]

    def loss_of(step: Sequence[Rows]) -> Any:
        count = recipe.further // 4
        drawn = [rng.choice(pool, count) for pair in zip(pools, alone, strict=True) for pool in pair]
        return network.loss(texts, step, np.concatenate(drawn))

    groups = two_rates(network.parameters, recipe.rate, recipe.head_rate)
    return fit(network, recipe, groups, len(steps), steps, loss_of)


def measures(network: Network, texts: Texts, groups: Sequence[Rows]) -> dict[str, float]:
    """Mean reciprocal rank of the first answer among all passages of some groups, by the score and by vectors alone."""
    found: dict[str, list[float]] = {"score": [], "vectors": []}
    with network.torch.no_grad():
        for start in range(0, len(groups), TOGETHER):
            some = groups[start : start + TOGETHER]
            score, kept = network.scores(texts, some)
            _, right, wrong = tables(some)
            for name, values in (("score", score), ("vectors", kept["similar"])):
                table = values.float().cpu().numpy()
                best = np.where(right, table, -np.inf).max(1, keepdims=True)
                found[name] += (1 / (1 + (wrong & (table >= best)).sum(1))).tolist()
    return {name: float(np.mean(values)) for name, values in found.items()}


def train(arguments: argparse.Namespace) -> None:
    begin = Tuning.of(arguments, Recipe)
    texts, layers = begin.texts, range(begin.layer, begin.config.num_hidden_layers)
    network = Network(
        begin.weights, begin.config, layers, begin.recipe, arguments.seed, arguments.device,
        prefixed=texts.asked is not None,
    )  # fmt: skip
    start = bert_graph.mean_of(arguments.start) if arguments.start else {}
    found = tune(network, texts, begin.further, begin.steps, start)
    learnt = {group.domain for step in begin.steps for group in step}
    learnt |= set(bert_graph.learnt_from(arguments.start or ()))
    further = {"idf": texts.idf, bert_graph.LEARNT: np.array(sorted(learnt))}
    begin.finish(arguments, network, found, partial(measures, network, texts), **further)


if __name__ == "__main__":
    parser = tuning_parser(__doc__, Recipe, SETTINGS)
    parser.add_argument(
        "--start", type=Path, nargs="+", help="weights of earlier runs, to go on from; means of several"
    )
    run(parser, train)
