"""Tune the encoder's upper layers, so that one reading of a text gives all that ranking looks at.

    python training/tune_encoder.py --data DATA --encoder models/encoder --out tuned.npz

The lower part stays as it is. The layers above are copied and tuned on the questions of ``answer_groups.py``. Of questions
they read every word piece; of passages, sentence by sentence, only those of ``kept_pieces.py``. They give

- ``pooled``: a unit vector, the mean over all pieces read, taught by the original encoder in float32;
- ``tokens``: a unit vector for each piece; a question also has a weight for each, and some vectors of what it expects;
- ``asks`` of a question, ``provides`` of a sentence: their inner product tells whether the sentence gives what is asked.

A pair head (``pair_head.py``) that compares the token vectors of a question and a sentence is tuned beside them.
``encoder_network.py`` has the settings and the loss. Some groups of each domain are held out (``held_out``). Writes every
weight, for ``export_encoder.py --tuned``. Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

import bert_graph
import onnx_graphs
from answer_groups import Group, other_texts, read_groups
from bert_torch import EXTRA, fit
from command import make_parser, run, seconds_so_far
from encoder_network import Network, Recipe
from export_encoder import SMOOTHING, find_source
from semclass.core import artifacts
from semclass.core.errors import import_extra
from semclass.encoders.onnx_encoder import OnnxEncoder
from tuning_texts import Rows, Texts, held_out, rows_of

Array = npt.NDArray[Any]


def batches(groups: Sequence[Group], recipe: Recipe, rng: np.random.Generator) -> Iterator[list[Group]]:
    """Groups of each step; blocks of squad in random order, cut elsewhere in each pass."""
    by_domain: dict[str, list[Group]] = {}
    for group in groups:
        by_domain.setdefault(group.domain, []).append(group)
    squad = by_domain.pop("squad")
    apart = [(by_domain.pop("contrast", []), recipe.contrast), (by_domain.pop("echoes", []), recipe.echoes)]
    names = list(by_domain)
    chance = np.sqrt([len(by_domain[name]) for name in names])
    starts: list[int] = []
    for _ in range(recipe.steps):
        if not starts:
            cuts = np.arange(int(rng.integers(recipe.block)), len(squad) - recipe.block, recipe.block)
            starts = rng.permutation(cuts).tolist()
        start = starts.pop()
        chosen = squad[start : start + recipe.block]
        for rows, count in apart:
            chosen = chosen + [rows[row] for row in rng.integers(len(rows), size=count if rows else 0)]
        for name in rng.choice(names, recipe.others, p=chance / chance.sum()):
            chosen.append(by_domain[name][int(rng.integers(len(by_domain[name])))])
        yield chosen


def tune(network: Network, texts: Texts, steps: Sequence[Sequence[Rows]]) -> dict[str, Array]:
    """Tune all weights on the groups of each step."""
    recipe, rng = network.recipe, np.random.default_rng(network.seed)
    network.start_tokens(texts)
    network.training = True
    count = len(texts.original)
    return fit(
        network,
        recipe,
        len(steps),
        lambda: steps,
        lambda step: network.loss(texts, step, rng.integers(count, size=recipe.further)),
    )


def original_encoder(
    weights: dict[str, Array], config: bert_graph.BertConfig, threads: int
) -> onnxruntime.InferenceSession:
    """The original encoder in float32."""
    views = bert_graph.Views.of_depth(config.num_hidden_layers)
    return onnx_graphs.open_model(bert_graph.BertWriter(weights, config, None, SMOOTHING).write(views)[0], threads)


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    groups = read_groups(arguments.data, arguments.seed)
    learnt = ~held_out(groups)
    learnt &= np.array([group.domain not in arguments.left_out for group in groups])
    recipe = Recipe(steps=arguments.steps)
    rng = np.random.default_rng(arguments.seed)
    drawn = list(batches([group for group, kept in zip(groups, learnt, strict=True) if kept], recipe, rng))
    used = list({id(group): group for step in drawn for group in step}.values())
    names, rows = rows_of(used, other_texts(arguments.data, groups, arguments.further, arguments.seed))
    place = {id(group): row for group, row in zip(used, rows, strict=True)}
    texts = Texts.read(names, encoder, original_encoder(weights, config, arguments.threads))
    print(f"{len(rows)} questions, {len(names)} texts, {len(texts.ids)} pieces, {seconds_so_far()} s", flush=True)
    network = Network(weights, config, range(layer, config.num_hidden_layers), recipe, arguments.seed)
    found = tune(network, texts, [[place[id(group)] for group in step] for step in drawn])
    found["idf"] = texts.idf
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out, **found)
    print(f"{arguments.out}  {asdict(recipe)}  {seconds_so_far()} s")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "source", "threads", "seed")
    parser.add_argument("--data", type=Path, required=True, help="data folder; see answer_groups.py")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--further", type=int, default=1000, help="further texts of each source")
    parser.add_argument("--left-out", nargs="*", default=[], help="domains that are not learnt from")
    parser.add_argument("--out", type=Path, default=Path("tuned.npz"))
    run(parser, train)


if __name__ == "__main__":
    main()
