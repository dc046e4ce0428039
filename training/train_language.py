"""Make ``models/language``: how much more frequent each word piece is in English than in other languages.

    python training/train_language.py --data DATA --encoder models/encoder --out models/language

English is the text of several kinds in DATA, which weigh the same; others are the 56 languages of Tatoeba and the 35 of
SIB-200, each with the same weight. Pieces with letters beyond ASCII that occur in neither count as foreign. It prints what
share of the texts of each kind and language a table that was made without it tells wrongly.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from command import Array, make_parser, npy_bytes, run, save_artifact, seconds_so_far
from datasets_io import read_jsonl, squad_train, topic_rows, translated_rows
from semclass.core.types import Ragged
from semclass.encoders.onnx_encoder import open_encoder
from semclass.ranking.models import FOLDER, MIN_ENGLISH, UNITS

MOST = 3000  # texts of a kind
RARE = 3e-6  # added to frequencies: what is seen in neither is as frequent in both
LARGEST = 6.0  # of a logarithm
CHARACTERS = 600  # of a long text
SEEN_AS = {
    "swe": "sv", "dan": "da", "ita": "it", "spa": "es", "fra": "fr", "deu": "de", "por": "pt", "tur": "tr", "ind": "id",
    "jpn": "ja", "cmn": "zh", "yue": "zh", "zho": "zh", "pes": "fa", "tha": "th", "ara": "ar", "arb": "ar", "amh": "am",
}  # fmt: skip


def english(data: Path, seed: int) -> dict[str, list[str]]:
    """English texts by kind."""
    documents = read_jsonl(data / "medquad" / "documents.jsonl.gz")
    code = read_jsonl(data / "code" / "cosqa.jsonl.gz")
    sections = read_jsonl(data / "sections" / "documents-00.jsonl.gz")
    found = {
        "sentences": [row[2] for row in translated_rows(data)],
        "topics": [row[4] for row in topic_rows(data) if row[0] == "eng_Latn"],
        "encyclopedia": squad_train(data)[0],
        "questions": squad_train(data)[1],
        "documentation": [part["text"] for row in sections for part in row["sections"] if row["split"] == "train"],
        "headings": [row["query"] for row in read_jsonl(data / "sections" / "headings.jsonl.gz")],
        "code": [row["code"] for row in code],
        "searches for code": [row["query"] for row in code],
        "medicine": [part["answer"] for row in documents for part in row["sections"]],
        "policies": [text for row in read_jsonl(data / "policyqa" / "train.jsonl.gz") for text in row["passages"]],
    }
    rng = np.random.default_rng(seed)
    kept = {}
    for name, texts in found.items():
        distinct = sorted({text[:CHARACTERS] for text in texts if text and text.strip()})
        kept[name] = [distinct[row] for row in rng.permutation(len(distinct))[:MOST].tolist()]
    return kept


def others(data: Path) -> dict[str, list[str]]:
    """Texts in other languages."""
    found: dict[str, list[str]] = defaultdict(list)
    for code, text, _ in translated_rows(data):
        found[SEEN_AS.get(code, code)].append(text)
    for code, *_, text in topic_rows(data):
        if code != "eng_Latn":
            found[SEEN_AS.get(code[:3], code[:3])].append(text)
    return dict(found)


def frequencies(pieces: Ragged, size: int) -> Array:
    counts = np.bincount(pieces.values, minlength=size)
    return np.asarray(counts / counts.sum())


def table_of(here: Mapping[str, Array], there: Mapping[str, Array], foreign: Array) -> Array:
    """Logarithm of how much more frequent each piece is here; foreign letters that nobody wrote are not from here."""
    one, other = (np.mean([*each.values()], axis=0) for each in (here, there))
    found = np.log((one + RARE) / (other + RARE))
    found[foreign & (one + other == 0)] = -LARGEST
    return np.clip(found, -LARGEST, LARGEST)


def means(table: Array, pieces: Ragged) -> Array:
    """Mean of each text."""
    sums = np.add.reduceat(np.append(table[pieces.values], 0), pieces.offsets[:-1])
    return np.asarray(np.where(pieces.lengths() > 0, sums / np.maximum(pieces.lengths(), 1), 0))


def train(arguments: argparse.Namespace) -> None:
    encoder = open_encoder(arguments.encoder)
    size = len(encoder.is_term)
    foreign = np.array(
        [any(ord(letter) > 127 and letter.isalpha() for letter in piece) for piece in encoder.vocabulary]
    )
    kinds = {
        name: encoder.encode(texts, views=()).terms for name, texts in english(arguments.data, arguments.seed).items()
    }
    languages = {name: encoder.encode(texts, views=()).terms for name, texts in others(arguments.data).items()}
    here, there = ({name: frequencies(pieces, size) for name, pieces in each.items()} for each in (kinds, languages))
    wrong: dict[str, float] = {}
    for name, pieces in kinds.items():
        without = table_of({key: value for key, value in here.items() if key != name}, there, foreign)
        wrong[name] = round(float((means(without, pieces) < MIN_ENGLISH).mean()), 4)
    for name, pieces in languages.items():
        without = table_of(here, {key: value for key, value in there.items() if key != name}, foreign)
        wrong[name] = round(float((means(without, pieces) >= MIN_ENGLISH).mean()), 4)
    print("told wrongly, left out", wrong)
    table = np.rint(UNITS * table_of(here, there, foreign)).astype(np.int8)
    metrics = {"told_wrongly_left_out": wrong, "told_wrongly": round(float(np.mean([*wrong.values()])), 4)}
    fields = {
        "encoder": encoder.fingerprint,
        "training": {
            "languages": len(languages),
            "kinds_of_english": len(kinds),
            "seed": arguments.seed,
            "seconds": seconds_so_far(),
        },
        "metrics": metrics,
    }
    files = {"pieces.npy": npy_bytes(table)}
    save_artifact(arguments.out, FOLDER, files, fields, "language")


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "seed", "out"), train)
