"""Make ``models/codebooks``: the usual vector of each word piece, and centroids that keep the rest in few bytes.

    python training/train_codebooks.py --data DATA --encoder models/encoder --out models/codebooks
    python training/train_codebooks.py --data DATA --multilingual --encoder MULTI/encoder --out MULTI/codebooks

Learned on passages of ``squad_sentences/train`` and of other domains of ``answer_groups.py``, read as an index reads them;
the last tenth of the former measures what is lost. The usual vector of a piece is the mean over its places there and the
vector that it has as a text of its own, moved by a linear map to where vectors of passages are: so pieces that are seen
nowhere have one, too. What is left of a vector is that of a place which its own mean did not see. Each part of it has
k-means of its own. The same data and seed give the same bytes, but for the seconds in the manifest.

With --multilingual, for an encoder whose vocabulary is too large for such a table, all pieces have one usual vector, the
mean, and a code has more bytes. Passages are those of ``pair_domains.read_languages``, every second one of which measures
what is lost, and some of ``squad_sentences/train``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from answer_groups import read_groups
from command import Array, language_of, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from datasets_io import training_passages
from pair_domains import read_languages
from semclass.core.errors import InputError
from semclass.core.types import Encoder, Passage
from semclass.encoders.onnx_encoder import for_passages, open_encoder
from semclass.heads.passages import PassageClassifier
from semclass.index.passage_encoder import PassageEncoder
from semclass.scoring.vectors import CENTROIDS, SCALE, Codebooks, unit

PARTS = 4  # bytes a token vector
ALIKE_PARTS = 16  # the same where all pieces have one usual vector
EACH = 60  # passages of a language
LENGTH = 4  # sentences per passage
TOKENS = 100_000  # vectors that centroids are learned on, drawn at random
ALONE = 1  # as how many places the vector of a piece as a text of its own counts
HELD_OUT = 0.1
OTHERS = ("medquad", "policyqa", "code", "wikipedia", "written")  # domains beside squad
MOST = 4000  # passages of theirs


def learn(vectors: Array, parts: int, seed: int) -> Array:
    width, rest = divmod(vectors.shape[1], parts)
    if rest:
        raise InputError(f"{vectors.shape[1]} dimensions cannot be cut into {parts} parts; choose a divisor")
    tables = []
    for part in range(parts):
        own = np.ascontiguousarray(vectors[:, part * width : (part + 1) * width])
        found = KMeans(CENTROIDS, init="random", n_init=1, max_iter=20, random_state=seed + part).fit(own)
        tables.append(found.cluster_centers_)
    return np.stack(tables).astype(np.float16).astype(np.float32)


def others_of(data: Path, seed: int) -> list[str]:
    """Passages of other kinds of text: articles on diseases, policies, functions, chunks of Wikipedia."""
    texts = {
        " ".join(passage): None
        for group in read_groups(data, seed)
        if group.domain in OTHERS
        for passage in group.passages
    }
    return sorted(texts)[:: max(1, len(texts) // MOST)]


def english_of(data: Path, seed: int) -> tuple[list[str], list[str]]:
    """English passages to learn from, and others."""
    texts = list(training_passages(data, LENGTH))
    cut = round(len(texts) * (1 - HELD_OUT))
    return [*others_of(data, seed), *texts[:cut]], texts[cut:]


def languages_of(data: Path, seed: int) -> tuple[list[str], list[str]]:
    """Passages in many languages to learn from, and others, drawn by `seed`."""
    texts = []
    for passages in (*(domain.passages for domain in read_languages(data)), list(training_passages(data, LENGTH))):
        texts += [passages[row] for row in np.random.default_rng(seed).permutation(len(passages))[:EACH].tolist()]
    return texts[::2], texts[1::2]


def pieces_alone(encoder: Encoder) -> tuple[Array, Array]:
    """Word pieces that a text of theirs is read as, and their vectors there."""
    ids = np.flatnonzero(encoder.is_term)
    encoding = for_passages(encoder).encode([encoder.vocabulary[piece] for piece in ids], views=("tokens",))
    vectors, read = encoding.pieces("tokens"), encoding.pieces_read()
    single = np.flatnonzero(vectors.lengths() == 1)
    same = read.take(single).values == ids[single]
    return ids[single][same], vectors.take(single).values[same]


def usual_vectors(vectors: Array, pieces: Array, alone: tuple[Array, Array], vocabulary: int) -> tuple[Array, Array]:
    """The usual vector of each word piece, (vocabulary, dim), and that of the piece of each of n vectors without it."""
    ids, own = alone
    mean, counts = vectors.mean(axis=0), np.bincount(pieces, minlength=vocabulary)[:, None]
    prior = np.tile(mean, (vocabulary, 1))
    prior[ids] = own
    known = np.isin(pieces, ids)
    # from the vector of a text of one piece to that of the piece in a passage
    moved = LinearRegression().fit(prior[pieces[known]], vectors[known])
    prior[ids] = moved.predict(own)
    sums = ALONE * prior
    np.add.at(sums, pieces, vectors)
    return sums / (counts + ALONE), (sums[pieces] - vectors) / (counts[pieces] - 1 + ALONE)


def left(books: Codebooks, vectors: Array, pieces: Array) -> float:
    """Mean of 1 - cosine between vectors and what is decoded."""
    decoded = unit(books.decode(books.encode(vectors, pieces), pieces))
    return round(float(1 - np.einsum("nd,nd->n", unit(vectors), decoded).mean()), 4)


def train(arguments: argparse.Namespace) -> None:
    many = arguments.multilingual
    encoder = open_encoder(arguments.encoder, threads=arguments.threads)
    # `PassageEncoder.load` would ask for the codebooks which are made here
    passage_encoder = PassageEncoder(PassageClassifier(encoder, None), None)
    seen_texts, unseen_texts = (languages_of if many else english_of)(arguments.data, arguments.seed)
    (seen, pieces), (unseen, others) = (
        (found.tokens.values, found.pieces.values)
        for found, _ in (
            passage_encoder.read([Passage("", text) for text in texts], classes=False)
            for texts in (seen_texts, unseen_texts)
        )
    )
    if many:
        usual, parts = seen.mean(axis=0, keepdims=True), ALIKE_PARTS
        without = np.tile(usual, (len(seen), 1))
    else:
        parts = PARTS
        usual, without = usual_vectors(seen, pieces, pieces_alone(encoder), len(encoder.is_term))
    chosen = np.sort(np.random.default_rng(arguments.seed).permutation(len(seen))[:TOKENS])
    table = np.rint(SCALE * usual).clip(-SCALE, SCALE).astype(np.int8)
    books = Codebooks("", table, learn(seen[chosen] - without[chosen], parts, arguments.seed))
    metrics = {"tokens_seen": left(books, seen, pieces), "tokens_unseen": left(books, unseen, others)}
    files = {"pieces.npy": npy_bytes(table), "rest.npy": npy_bytes(books.centroids.astype(np.float16))}
    fields = {
        "encoder": encoder.fingerprint,
        "bytes": {"tokens": len(books.centroids)},
        "training": {
            "data": ", ".join(["squad_sentences/train", *(["multilingual"] if many else OTHERS)]),
            "sentences_per_passage": LENGTH,
            "tokens": len(chosen),
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    usual_of = "one usual vector for all word pieces" if many else "the usual vector of each word piece"
    words = {"usual": usual_of, "language": language_of(arguments)}
    save_artifact(arguments.out, "codebooks", files, fields, "codebooks", **words)
    print(metrics)


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "multilingual", "threads", "seed", "out"), train)
