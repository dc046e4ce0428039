"""Texts that labels were made for, cut from public originals the same way every time; ``labels.py`` finds them by hash."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from itertools import cycle, groupby
from pathlib import Path

from datasets_io import read_jsonl

SENTENCES = (2, 4, 1, 5, 3, 6)
"""Sentences of passages, in turn: a head sees short and long ones."""

NEWS_WORDS = (40, 80, 60, 100)
"""Words from which a newswire passage ends with its sentence, in turn."""


def wikiqa_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Question and sentence of each row of a WikiQA table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        next(file)
        for line in file:
            question, sentence, _ = line.rstrip("\r\n").split("\t")
            yield question, sentence


def wikiqa_passages(data: Path) -> list[str]:
    """First sentences of the article that each training question of WikiQA was asked about, as one passage."""
    groups = groupby(wikiqa_rows(data / "wikiqa" / "train.tsv.gz"), lambda row: row[0])
    return [" ".join([sentence for _, sentence in group][:size]) for size, (_, group) in zip(cycle(SENTENCES), groups)]


def news_passages(data: Path) -> list[str]:
    """Newswire of the IE-ER sample in passages of whole sentences."""
    passages, sizes = [], cycle(NEWS_WORDS)
    for record in read_jsonl(data / "entities" / "ieer.jsonl.gz"):
        words: list[str] = []
        size = next(sizes)
        for word in record["tokens"]:
            words.append(word)
            if len(words) >= size and re.search(r"[.?!]['\"]*$", word):
                passages.append(_joined(words))
                words, size = [], next(sizes)
        if len(words) > 30:
            passages.append(_joined(words))
    return passages


def squad_passages(data: Path) -> list[str]:
    """SQuAD training articles in passages of consecutive sentences."""
    sentences = [record["text"] for record in read_jsonl(data / "squad_sentences" / "train.corpus.jsonl.gz")]
    passages, start = [], 0
    for size in cycle(SENTENCES):
        if start >= len(sentences):
            return passages
        passages.append(" ".join(sentences[start : start + size]))
        start += size
    return passages


def squad_questions(data: Path) -> list[str]:
    """Questions on SQuAD training articles."""
    return [record["text"] for record in read_jsonl(data / "squad_sentences" / "train.queries.jsonl.gz")]


def wikiqa_questions(data: Path) -> list[str]:
    """Training questions of WikiQA, each once."""
    return list(dict.fromkeys(question for question, _ in wikiqa_rows(data / "wikiqa" / "train.tsv.gz")))


def _joined(words: list[str]) -> str:
    text = " ".join(words)
    text = re.sub(r"\s+([.,;:?!)]|'s\b)", r"\1", text).replace("( ", "(")
    return text.replace("``", '"').replace("''", '"')
