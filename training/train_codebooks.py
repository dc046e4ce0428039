"""Make ``models/codebooks``: centroids that keep token vectors in few bytes.

    python training/train_codebooks.py --data DATA --models models --out models/codebooks

Learned on passages of ``squad_sentences/train``, read as an index reads them (``models/encoder``, and ``models/entailment``
where it is there); the last tenth measures what is lost. Each part of a vector has k-means of its own; tables are stored as
float16. The same data and seed give the same bytes, but for the seconds in the manifest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans

from command import ENCODER_HELP, make_parser, npy_bytes, run, seconds_so_far
from datasets_io import training_passages
from semclass.core import artifacts, cards
from semclass.core.errors import InputError
from semclass.core.types import Passage
from semclass.encoders.token_encoder import TokenEncoder
from semclass.heads.passages import PassageClassifier
from semclass.heads.texts import open_encoder
from semclass.index.passage_encoder import PassageEncoder
from semclass.scoring.quantisation import CENTROIDS, Codebook
from semclass.scoring.topk import unit

Array = npt.NDArray[Any]

PARTS = 16  # bytes a token vector
LENGTH = 4  # sentences per passage
TOKENS = 100_000  # token vectors that are learned on, drawn at random
HELD_OUT = 0.1


def learn(vectors: Array, parts: int, seed: int) -> Codebook:
    width, rest = divmod(vectors.shape[1], parts)
    if rest:
        raise InputError(f"{vectors.shape[1]} dimensions cannot be cut into {parts} parts; choose a divisor")
    tables = []
    for part in range(parts):
        own = np.ascontiguousarray(vectors[:, part * width : (part + 1) * width])
        found = KMeans(CENTROIDS, init="random", n_init=1, max_iter=20, random_state=seed + part).fit(own)
        tables.append(found.cluster_centers_)
    return Codebook(np.stack(tables).astype(np.float16).astype(np.float32))


def left(codebook: Codebook, vectors: Array) -> float:
    """Mean of 1 - cosine between vectors and what is decoded."""
    decoded = unit(codebook.decode(codebook.encode(vectors)))
    return round(float(1 - np.einsum("nd,nd->n", unit(vectors), decoded).mean()), 4)


def train(arguments: argparse.Namespace) -> None:
    encoder = open_encoder(arguments.encoder or str(arguments.models / "encoder"), threads=arguments.threads)
    folder, token_encoder = arguments.models / "entailment", None
    if (folder / artifacts.MANIFEST).exists():
        token_encoder = TokenEncoder.load(folder, encoder=encoder.fingerprint, threads=arguments.threads)
    # `PassageEncoder.load` would ask for the codebooks which are made here
    passage_encoder = PassageEncoder(PassageClassifier(encoder, None), token_encoder, None)
    passages = [Passage("", text) for text in training_passages(arguments.data, LENGTH)]
    cut = round(len(passages) * (1 - HELD_OUT))
    seen, unseen = (
        passage_encoder.read(some, vectors=False, classes=False)[0].tokens.values
        for some in (passages[:cut], passages[cut:])
    )
    seen = seen[np.sort(np.random.default_rng(arguments.seed).permutation(len(seen))[:TOKENS])]
    book = learn(seen, PARTS, arguments.seed)
    metrics = {"tokens_seen": left(book, seen), "tokens_unseen": left(book, unseen)}
    files = {"tokens.npy": npy_bytes(book.centroids.astype(np.float16))}
    fields = {
        "encoder": encoder.fingerprint,
        "interaction": passage_encoder.interaction,
        "bytes": {"tokens": book.parts},
        "training": {
            "data": "squad_sentences/train",
            "sentences_per_passage": LENGTH,
            "tokens": len(seen),
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    card = cards.model_card(
        "Codebook of token vectors",
        {"license": "apache-2.0", "language": "en"},
        [
            (
                "What it is",
                "The table of a product quantiser (Jégou, Douze & Schmid 2011), float16 of shape (parts, 256, width): an "
                f"index keeps a byte for each part, {PARTS} for a token vector.",
            ),
            ("How it was made", "`training/train_codebooks.py`: k-means on passages of `squad_sentences/train`."),
            (
                "How much it loses",
                "Mean of 1 - cosine between a vector and what is decoded, on articles that were not learned from: "
                f"{metrics['tokens_unseen']:.3f}.",
            ),
            ("Limits", "It fits the vectors of one encoder and one branch only; with others it is refused."),
        ],
        ["semclass", "product-quantisation"],
    )
    print(artifacts.save(arguments.out, "codebooks", files, fields, card), metrics)


def main() -> None:
    parser = make_parser(__doc__, "threads", "seed")
    parser.add_argument("--data", type=Path, required=True, help="data folder with squad_sentences/")
    parser.add_argument("--models", type=Path, default=Path("models"), help="folder with encoder/ and entailment/")
    parser.add_argument("--encoder", help=f"{ENCODER_HELP}; encoder/ of --models if not given")
    parser.add_argument("--out", type=Path, default=Path("models/codebooks"))
    run(parser, train)


if __name__ == "__main__":
    main()
