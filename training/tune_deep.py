"""Tune layers that read a question and a passage together.

    python training/tune_deep.py --data DATA --encoder models/encoder --tuned tuned.npz --out deep.npz

The encoder's lower part stays as it ships, and reads the question and each sentence by themselves. The layers above start
from those of ``tune_encoder.py`` and learn on the questions of ``answer_groups.py``; ``deep_network.py`` has the settings
and the loss. Some groups of each domain are held out. Writes every weight, for ``export_deep.py``. Needs torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import bert_graph
from answer_groups import read_groups
from bert_torch import EXTRA, fit
from command import make_parser, run, seconds_so_far
from deep_network import Lower, Network, Recipe, batches
from export_encoder import find_source
from semclass.core import artifacts
from semclass.core.errors import import_extra
from semclass.core.types import Ragged
from semclass.encoders.onnx_encoder import STATES, OnnxEncoder
from tuning_texts import Rows, held_out, rows_of

Array = npt.NDArray[Any]

CHUNK = 4096  # texts that are read at a time


def read_lower(texts: Sequence[str], encoder: OnnxEncoder, idf: Array) -> Lower:
    """Read texts by the encoder's lower part."""
    first, last = encoder.special
    most = encoder.max_length - 2
    states, ids, lengths = [], [], []
    for start in range(0, len(texts), CHUNK):
        encoding = encoder.encode(texts[start : start + CHUNK], views=(STATES,))
        found = encoding.pieces(STATES)
        states.append(found.values.astype(np.float16))
        lengths.append(found.lengths())
        ids += [np.array([first, *row[:most].tolist(), last]) for row in map(encoding.terms.row, range(len(found)))]
    offsets = np.append(0, np.concatenate(lengths).cumsum())
    return Lower(Ragged(np.concatenate(states), offsets), Ragged(np.concatenate(ids), offsets), idf)


def tune(network: Network, texts: Lower, steps: Sequence[Sequence[Rows]]) -> dict[str, Array]:
    """Tune all weights on the groups of each step."""
    network.training = True
    return fit(network, network.recipe, len(steps), lambda: steps, lambda step: network.loss(texts, step))


def train(arguments: argparse.Namespace) -> None:
    import_extra("torch", EXTRA).set_num_threads(arguments.threads)
    weights, config = bert_graph.read_model(find_source(arguments.source))
    tuned = dict(np.load(arguments.tuned))
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    layer = int(artifacts.load(arguments.encoder, "encoder").field("shared_layer"))
    groups = read_groups(arguments.data, arguments.seed)
    learnt = ~held_out(groups)
    names, rows = rows_of(groups, [])
    recipe = Recipe(steps=arguments.steps, contrast=arguments.contrast)
    start = dict(np.load(arguments.start)) if arguments.start else {}
    rng = np.random.default_rng([arguments.seed, 1] if start else arguments.seed)  # other batches than those before
    drawn = list(batches([row for row, kept in zip(rows, learnt, strict=True) if kept], recipe, rng))
    texts = read_lower(names, encoder, tuned["idf"])
    print(f"{learnt.sum()} questions, {len(names)} texts, {seconds_so_far()} s", flush=True)
    network = Network({**weights, **tuned}, config, range(layer, layer + recipe.layers), recipe, arguments.seed, start)
    found = tune(network, texts, drawn)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out, **found)
    print(f"{arguments.out}  {asdict(recipe)}  {seconds_so_far()} s")


def main() -> None:
    parser = make_parser(__doc__, "encoder", "source", "threads", "seed")
    parser.add_argument("--data", type=Path, required=True, help="data folder; see answer_groups.py")
    parser.add_argument("--tuned", type=Path, required=True, help="weights of tune_encoder.py")
    parser.add_argument("--start", type=Path, help="weights of an earlier run, to go on from")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--contrast", type=int, default=Recipe.contrast, help="contrast items in each step")
    parser.add_argument("--out", type=Path, default=Path("deep.npz"))
    run(parser, train)


if __name__ == "__main__":
    main()
