"""Make ``models/codebooks``: centroids that store token vectors and pooled vectors in few bytes.

    python training/train_codebooks.py --data DATA --encoder models/encoder --out models/codebooks

Learned on passages of 1, 2 and 4 consecutive sentences of ``squad_sentences/train``; the tables hold for any text, and
what they leave of texts from articles that were not seen is measured on the last tenth of the document order. Each part has
k-means of its own; tables are stored as float16. The same data and seed give the same bytes.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans

from command import ENCODER_HELP, make_parser, run
from datasets_io import training_passages
from semclass import artifacts
from semclass.bulk import encode_quietly
from semclass.quantise import CENTROIDS, Codebook
from semclass.texts import open_encoder

Array = npt.NDArray[Any]

TOKEN_PARTS = (16, 32)
"""Bytes a token vector."""

POOLED_PARTS = (64, 96)
"""Bytes a pooled vector, of a passage or of a sentence."""

TOKEN_LENGTH = 4
"""Sentences of the passages that token vectors are learned on."""

POOLED_LENGTHS = (1, 2, 4)

TOKENS = 120_000
"""Token vectors that are learned on, drawn at random."""

HELD_OUT = 0.1


def vectors_of(data: Path, encoder: Any) -> tuple[Array, Array, Array, Array]:
    """Token vectors and pooled vectors to learn on, and those of the last articles."""
    pooled: list[list[Array]] = [[], []]
    tokens: list[Array] = []
    for size in POOLED_LENGTHS:
        texts = training_passages(data, size)
        cut = round(len(texts) * (1 - HELD_OUT))
        for part, chosen in enumerate((texts[:cut], texts[cut:])):
            views = ("pooled", "tokens") if size == TOKEN_LENGTH else ("pooled",)
            encoding, _ = encode_quietly(encoder, chosen, views)
            pooled[part].append(encoding.rows("pooled"))
            if size == TOKEN_LENGTH:
                tokens.append(encoding.pieces("tokens").values)
    return tokens[0], tokens[1], np.concatenate(pooled[0]), np.concatenate(pooled[1])


def learn(vectors: Array, parts: int, seed: int) -> Codebook:
    """Run k-means for each part."""
    width, rest = divmod(vectors.shape[1], parts)
    if rest:
        raise SystemExit(f"{vectors.shape[1]} dimensions cannot be cut into {parts} parts of equal width")
    tables = []
    for part in range(parts):
        own = np.ascontiguousarray(vectors[:, part * width : (part + 1) * width])
        found = KMeans(CENTROIDS, init="random", n_init=1, max_iter=25, random_state=seed + part).fit(own)
        tables.append(found.cluster_centers_)
    return Codebook(np.stack(tables).astype(np.float16).astype(np.float32))


def left(codebook: Codebook, vectors: Array) -> float:
    """Share of the squared length that decoding does not give back."""
    difference = vectors - codebook.decode(codebook.encode(vectors))
    return round(float((difference**2).sum() / (vectors**2).sum()), 4)


def train(arguments: argparse.Namespace) -> None:
    """Encode, learn, measure, write."""
    encoder = open_encoder(arguments.encoder, threads=arguments.threads)
    tokens, unseen_tokens, pooled, unseen_pooled = vectors_of(arguments.data, encoder)
    tokens = tokens[np.sort(np.random.default_rng(arguments.seed).permutation(len(tokens))[:TOKENS])]
    files: dict[str, bytes] = {}
    metrics: dict[str, float] = {}
    for view, sizes, seen, unseen in (
        ("tokens", TOKEN_PARTS, tokens, unseen_tokens),
        ("pooled", POOLED_PARTS, pooled, unseen_pooled),
    ):
        for parts in sizes:
            codebook = learn(seen, parts, arguments.seed)
            metrics[f"{view}_{parts}_left"] = left(codebook, unseen)
            print(
                f"{view}, {parts} bytes: leaves {left(codebook, seen)} seen, {left(codebook, unseen)} unseen",
                flush=True,
            )
            buffer = io.BytesIO()
            np.save(buffer, codebook.centroids.astype(np.float16), allow_pickle=False)
            files[f"{view}_{parts}.npy"] = buffer.getvalue()
    fields = {
        "encoder": encoder.fingerprint,
        "tokens": list(TOKEN_PARTS),
        "pooled": list(POOLED_PARTS),
        "training": {
            "data": "squad_sentences/train",
            "tokens": len(tokens),
            "pooled": len(pooled),
            "seed": arguments.seed,
        },
        "metrics": metrics,
    }
    card = artifacts.model_card(
        "Codebooks of token vectors and pooled vectors",
        {"license": "apache-2.0", "language": "en"},
        [
            (
                "What it is",
                "Tables of product quantisers (Jégou, Douze & Schmid 2011): float16 of shape (parts, 256, width). An index "
                "keeps one byte for each part of a vector. They fit the vectors of one encoder only.",
            ),
            ("How it was made", "`training/train_codebooks.py`: k-means on passages of `squad_sentences/train`."),
            (
                "How much it loses",
                "Share of the squared length that decoding does not give back, on articles not learned from:\n\n"
                + "\n".join(f"- `{name.removesuffix('_left')}`: {value:.3f}" for name, value in metrics.items()),
            ),
        ],
        ["semclass", "product-quantisation"],
    )
    print(artifacts.save(arguments.out, "codebooks", files, fields, card))


def main() -> None:
    """Command line."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data folder with squad_sentences/")
    parser.add_argument("--encoder", default="models/encoder", help=ENCODER_HELP)
    parser.add_argument("--out", type=Path, default=Path("models/codebooks"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    run(parser, train)


if __name__ == "__main__":
    main()
