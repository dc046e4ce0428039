"""Write what the tunings learn from to a file: distinct texts as word pieces, and which answer which.

    python training/pack_groups.py --data DATA --encoder models/encoder --out groups.npz
    python training/pack_groups.py --data DATA --multilingual --encoder MULTILINGUAL/encoder --out groups.npz

With --multilingual, questions in other languages, too; else only the tokeniser of the encoder is used. The file is all
that ``tune_encoder.py`` and ``tune_deep.py`` need beside the original weights, so that they can run where the data are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import answer_groups
import document_groups
from answer_groups import Group
from command import make_parser, run, seconds_so_far
from datasets_io import LANGUAGE, PARALLEL, language_files, parallel_sentences, read_jsonl, translated_rows
from semclass.core.types import FloatArray, Ragged, offsets_of
from semclass.documents.sentences import split_sentences
from semclass.encoders.excerpts import size_of
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.scoring.vectors import unit
from tuning_texts import Material

FURTHER_TEXTS = 1000  # of each source
PASSAGES, QUESTIONS = 2500, 3000  # of a language at most
WRONG = 6  # passages of a question that do not answer
MAX_WORDS = 45  # of a passage that the head reads, in whole sentences, at least one


def language_groups(data: Path, encoder: OnnxEncoder, seed: int) -> list[Group]:
    """Read some questions of each file that is for training."""
    return [group for path in language_files(data) for group in _groups(path, encoder, seed)]


def parallel_groups(data: Path, seed: int) -> Iterator[Group]:
    """Pairs of sentences in two languages, either of which is the question; without questions, which answer no question."""
    rng = np.random.default_rng(seed)
    pairs = [tuple(row[1:]) for row in translated_rows(data)]
    spoken = parallel_sentences(data)
    names = sorted(spoken)
    for name in sorted(spoken["eng"]):
        first, second = rng.permutation([code for code in names if name in spoken[code]])[:2].tolist()
        pairs += [(spoken[first][name], spoken[second][name]), (spoken[first][name], spoken["eng"][name])]
    for row in rng.permutation(len(pairs)).tolist():
        question, passage = pairs[row] if rng.random() < 0.7 else pairs[row][::-1]
        if not any(mark in question + passage for mark in "?\uff1f\u061f;"):
            yield Group(PARALLEL, question, ((passage,),), frozenset([0]))


def _groups(path: Path, encoder: OnnxEncoder, seed: int) -> Iterator[Group]:
    rows = read_jsonl(path)
    places: dict[str, int] = {}
    asked: list[tuple[str, list[int]]] = []
    for row in np.random.default_rng(seed).permutation(len(rows)).tolist():
        texts = rows[row]["passages"]
        if len(places.keys() | texts) > PASSAGES or len(asked) == QUESTIONS:
            continue
        known = [places.setdefault(text, len(places)) for text in texts]
        asked.append((rows[row]["question"], [known[answer] for answer in rows[row]["answers"]]))
    sentences = [split_sentences(text) for text in places]
    vectors = unit(encoder.for_passages.encode([text for part in sentences for text in part]).rows("pooled"))
    offsets = offsets_of(np.array([len(part) for part in sentences]))
    questions = unit(encoder.encode([question for question, _ in asked]).rows("pooled"))
    for (question, answers), vector in zip(asked, questions, strict=True):
        worth = Ragged(vectors @ vector, offsets)
        best = np.maximum.reduceat(worth.values, worth.offsets[:-1])
        best[answers] = -1
        near = np.argsort(-best, kind="stable")[:WRONG].tolist()
        texts = [tuple(chosen_sentences(sentences[place], worth.row(place))) for place in (*answers, *near)]
        yield Group(f"{LANGUAGE}{path.name.split('.')[0]}", question, tuple(texts), frozenset(range(len(answers))))


def chosen_sentences(sentences: list[str], worth: FloatArray) -> list[str]:
    """Return the most valuable sentences of a passage, of at most `MAX_WORDS` words, in their order."""
    words, kept = 0, list[int]()
    for place in np.argsort(-worth, kind="stable").tolist():
        words += size_of(sentences[place])
        if kept and words > MAX_WORDS:
            break
        kept.append(place)
    return [sentences[place] for place in sorted(kept)]


def pack(arguments: argparse.Namespace) -> None:
    encoder = OnnxEncoder.load(arguments.encoder, threads=arguments.threads)
    groups = [
        *answer_groups.read_groups(arguments.data, arguments.seed),
        *document_groups.read_groups(arguments.data, arguments.seed),
    ]
    if arguments.multilingual:
        groups += language_groups(arguments.data, encoder, arguments.seed)
        groups += parallel_groups(arguments.data, arguments.seed)
    further = answer_groups.other_texts(arguments.data, groups, FURTHER_TEXTS, arguments.seed)
    material = Material.of(groups, further, encoder)
    material.save(arguments.out)
    print(f"{arguments.out}: {len(groups)} questions, {len(material.pieces)} texts, {seconds_so_far()} s")


if __name__ == "__main__":
    run(make_parser(__doc__, "data", "encoder", "multilingual", "threads", "seed", "out"), pack)
