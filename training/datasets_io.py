"""Readers of the data folder that the training scripts share; its README says what may train and what is test."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any, TextIO

import numpy as np


def _open(path: Path) -> TextIO:
    return (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with _open(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def read_tsv(path: Path) -> list[dict[str, str]]:
    """All rows of a tab-separated file with a header; quotation marks mean nothing."""
    with _open(path) as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def sentence_windows(sentences: list[str], size: int) -> list[str]:
    """Passages of `size` consecutive sentences, without overlap."""
    return [" ".join(sentences[start : start + size]) for start in range(0, len(sentences), size)]


def squad_train(data: Path) -> tuple[list[str], list[str], list[int]]:
    """Sentences and questions of ``squad_sentences/train``, and for each question the place of its answer."""
    records, asked = (read_jsonl(data / "squad_sentences" / f"train.{name}.jsonl.gz") for name in ("corpus", "queries"))
    place = {record["_id"]: row for row, record in enumerate(records)}
    texts, questions = ([record["text"] for record in part] for part in (records, asked))
    return texts, questions, [place[record["relevant"]] for record in asked]


def training_passages(data: Path, size: int) -> list[str]:
    return sentence_windows(squad_train(data)[0], size)


def calibration_texts(data: Path, seed: int) -> tuple[list[str], list[str]]:
    """Training texts to calibrate an encoder on, and others to check it on, drawn by `seed`.

    600 and 300 texts: two thirds questions, one third passages of one to five sentences.
    """
    questions = [row["question"] for row in read_tsv(data / "trec" / "train.tsv")]
    sentences, _, _ = squad_train(data)
    fifth = len(sentences) // 5
    passages = [
        passage
        for size in range(1, 6)
        for passage in sentence_windows(sentences[(size - 1) * fifth : size * fifth], size)
    ]
    rng = np.random.default_rng(seed)
    chosen_questions = [questions[place] for place in rng.permutation(len(questions))[:600]]
    chosen_passages = [passages[place] for place in rng.permutation(len(passages))[:300]]
    return chosen_questions[:400] + chosen_passages[:200], chosen_questions[400:] + chosen_passages[200:]


LANGUAGE, PARALLEL = "language ", "parallel"
"""Domains of what tuning learns from: this and the name of a file of ``multilingual``; sentences that say the same."""


def language_files(data: Path) -> list[Path]:
    """The files of ``multilingual`` that are for training, by name."""
    return [path for path in sorted((data / "multilingual").glob("*.jsonl.gz")) if "-dev" not in path.name]


def language_sample(
    path: Path, limit: int, seed: int = 0, *, asked: str = "question"
) -> tuple[list[str], list[tuple[str, set[int]]]]:
    """The passages of some questions of a file of ``multilingual``; these questions with the places of what answers them.

    Questions come from the field `asked`.
    """
    rows = read_jsonl(path)
    places: dict[str, int] = {}
    questions = []
    for row in sorted(np.random.default_rng(seed).permutation(len(rows))[:limit].tolist()):
        known = [places.setdefault(text, len(places)) for text in rows[row]["passages"]]
        questions.append((rows[row][asked], {known[answer] for answer in rows[row]["answers"]}))
    return list(places), questions


def multilingual_texts(data: Path, seed: int) -> tuple[list[str], list[str]]:
    """Training texts in many languages to calibrate an encoder on, and others to check it on, drawn by `seed`.

    Twenty questions and passages of each file of ``multilingual`` that is for training, ten sentences of each language of
    its topics; two thirds calibrate.
    """
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    for path in language_files(data):
        rows = read_jsonl(path)
        chosen = [rows[place] for place in rng.permutation(len(rows))[:20]]
        texts += [text for row in chosen for text in (row["question"], row["passages"][0])]
    sentences: dict[str, list[str]] = {}
    for language, _, split, _, sentence in topic_rows(data):
        if split == "train":
            sentences.setdefault(language, []).append(sentence)
    for found in sentences.values():
        texts += [found[place] for place in rng.permutation(len(found))[:10]]
    order = [texts[place] for place in rng.permutation(len(texts))]
    return order[: len(order) * 2 // 3], order[len(order) * 2 // 3 :]


def rows_of(path: Path) -> list[list[str]]:
    """All rows of a tab-separated file without a header; quotation marks mean nothing."""
    with _open(path) as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def topic_rows(data: Path) -> list[list[str]]:
    """Language, id, split, topic and text of each sentence of ``multilingual/topics``."""
    return rows_of(data / "multilingual" / "topics" / "sib200.tsv.gz")


def translated_rows(data: Path) -> list[list[str]]:
    """Language, text and English text of each sentence of ``multilingual/parallel``."""
    return rows_of(data / "multilingual" / "parallel" / "tatoeba.tsv.gz")


def parallel_sentences(data: Path) -> dict[str, dict[str, str]]:
    """The same sentences in many languages: by language, of three letters, and by id. Of two scripts, the first counts."""
    sentences: dict[str, dict[str, str]] = {}
    for language, name, _, _, sentence in topic_rows(data):
        sentences.setdefault(language.partition("_")[0], {}).setdefault(name, sentence)
    return sentences
