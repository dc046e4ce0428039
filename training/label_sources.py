"""Texts that labels were made for, cut from public originals the same way every time; ``labels.py`` finds them by hash."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from itertools import cycle, groupby
from pathlib import Path

from datasets_io import read_jsonl, squad_train

SENTENCES = (2, 4, 1, 5, 3, 6)
"""Sentences of passages, in turn: a head sees short and long ones."""

NEWS_WORDS = (40, 80, 60, 100)
"""Words from which a newswire passage ends with its sentence, in turn."""

STRETCH = 150
"""Sentences of SQuAD, in order, that are taken for one article: as many as an article has on average."""


def wikiqa_rows(path: Path) -> Iterator[tuple[str, str]]:
    """Question and sentence of each row of a WikiQA table."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        next(file)
        for line in file:
            question, sentence, _ = line.rstrip("\r\n").split("\t")
            yield question, sentence


def passage_articles(data: Path) -> dict[str, str]:
    """Name of the article of each passage; for SQuAD, whose articles are not told apart, of a stretch."""
    return {passage: name for source in (wikiqa, news, squad) for passage, name in source(data)}


def wikiqa(data: Path) -> Iterator[tuple[str, str]]:
    """First sentences of the article that each training question was asked about, with the first of all as its name."""
    groups = groupby(wikiqa_rows(data / "wikiqa" / "train.tsv.gz"), lambda row: row[0])
    for size, (_, group) in zip(cycle(SENTENCES), groups):
        sentences = [sentence for _, sentence in group]
        yield " ".join(sentences[:size]), f"wikiqa {sentences[0]}"


def news(data: Path) -> Iterator[tuple[str, str]]:
    """Newswire of the IE-ER sample in passages of whole sentences, with the id of the text."""
    sizes = cycle(NEWS_WORDS)
    for record in read_jsonl(data / "entities" / "ieer.jsonl.gz"):
        words: list[str] = []
        size, name = next(sizes), f"news {record['_id']}"
        for word in record["tokens"]:
            words.append(word)
            if len(words) >= size and re.search(r"[.?!]['\"]*$", word):
                yield _joined(words), name
                words, size = [], next(sizes)
        if len(words) > 30:
            yield _joined(words), name


def squad(data: Path) -> Iterator[tuple[str, str]]:
    """Training articles in passages of consecutive sentences, with their stretch of `STRETCH` sentences."""
    sentences, _, _ = squad_train(data)
    start = 0
    for size in cycle(SENTENCES):
        if start >= len(sentences):
            return
        yield " ".join(sentences[start : start + size]), f"squad {start // STRETCH}"
        start += size


def _joined(words: list[str]) -> str:
    text = " ".join(words)
    text = re.sub(r"\s+([.,;:?!)]|'s\b)", r"\1", text).replace("( ", "(")
    return text.replace("``", '"').replace("''", '"')
