"""Write what the tunings learn from to a file: distinct texts as word pieces, and which answer which.

    python training/pack_groups.py --data DATA --encoder models/encoder --out groups.npz
    python training/pack_groups.py --data DATA --multilingual --encoder MULTILINGUAL/encoder --out groups.npz

With --multilingual those of ``language_groups.py``, too; else only the tokeniser of the encoder is used. The file is all
that ``tune_encoder.py`` and ``tune_deep.py`` need beside the original weights, so that they can run where the data are not.
"""

from __future__ import annotations

import argparse

import answer_groups
import document_groups
import language_groups
from command import make_parser, run, seconds_so_far
from semclass.encoders.onnx_encoder import OnnxEncoder
from tuning_texts import Material

FURTHER_TEXTS = 1000  # of each source


def pack(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    groups = [
        *answer_groups.read_groups(arguments.data, arguments.seed),
        *document_groups.read_groups(arguments.data, arguments.seed),
    ]
    if arguments.multilingual:
        groups += language_groups.read_groups(arguments.data, encoder, arguments.seed)
        groups += language_groups.parallel(arguments.data, arguments.seed)
    further = answer_groups.other_texts(arguments.data, groups, FURTHER_TEXTS, arguments.seed)
    material = Material.of(groups, further, encoder)
    material.save(arguments.out)
    print(f"{arguments.out}: {len(groups)} questions, {len(material.pieces)} texts, {seconds_so_far()} s")


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "multilingual", "threads", "seed", "out"), pack)
