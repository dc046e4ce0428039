"""Texts that labels were made for, cut from public originals the same way every time; ``labels.py`` finds them by hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.feature_extraction.text import TfidfVectorizer

from datasets_io import read_jsonl, read_tsv, squad_train

SENTENCES = (2, 4, 1, 5, 3, 6)  # sentences of passages, in turn: a head sees short and long ones
NEWS_WORDS = (40, 80, 60, 100)  # words from which a newswire passage ends with its sentence, in turn
STRETCH = 150  # sentences of SQuAD, in order, that are taken for one article: as many as an article has on average
WORD = "[A-Za-z][A-Za-z]+"
ALIKE = 0.05  # mean cosine of the TF-IDF vectors of two groups of passages from which they become one
COMMON = 0.2  # words of more than this share of the passages say nothing of the article


def passage_articles(data: Path) -> dict[str, str]:
    """Name of the article of each passage; for SQuAD, whose articles are not told apart, of a stretch."""
    return {passage: name for source in (wikiqa, news, squad) for passage, name in source(data)}


def wikiqa(data: Path) -> Iterator[tuple[str, str]]:
    """First sentences of the article that each training question was asked about, with the first of all as its name."""
    groups = groupby(read_tsv(data / "wikiqa" / "train.tsv.gz"), lambda row: row["question"])
    for size, (_, group) in zip(cycle(SENTENCES), groups):
        sentences = [row["sentence"] for row in group]
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


def article_groups(texts: Sequence[str], articles: Mapping[str, str]) -> npt.NDArray[np.int64]:
    """Group passages that are of one article, or whose words are alike: average linkage (Sokal and Michener 1958).

    `articles` names the article of passages where it is known; the Wikipedia chunks of ``passages/`` have no titles. On
    newswire, whose articles are known, alike words find about 60 % of the pairs of one article, and about 75 % of the pairs
    that they put together are of one; the others make figures of cross-validation lower, never higher.
    """
    vectoriser = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=WORD, max_df=COMMON)
    words = vectoriser.fit_transform(texts)
    names = np.array([articles.get(text, "") for text in texts])
    distance = np.clip(1 - (words @ words.T).toarray(), 0, 1)
    distance[(names[:, None] == names) & (names != "")] = 0
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(fcluster(tree, 1 - ALIKE, "distance") - 1, np.int64)
