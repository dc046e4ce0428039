"""Labels made for this project: classes by the hash of a text, so that no foreign text ships with them.

The tables of ``training/labels/`` name a text by :func:`text_hash`; it is found again in the public originals, in whatever
files of the data folder's ``questions`` and ``squad_sentences`` these come:

- ``natural.tsv``: questions of SQuAD (train), WikiQA (train), WebQuestions, SimpleQuestions, MedQuAD and PubMedQA;
- ``squad.tsv``: more questions of SQuAD's training articles, those that an earlier classifier was least sure of;
- ``passages.tsv``: passages that are cut from WikiQA, IE-ER newswire and SQuAD.

``written_questions.tsv``, ``no_questions.txt`` and ``generic_questions.txt`` were written for this project and hold their
texts.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.feature_extraction.text import TfidfVectorizer

from datasets_io import read_jsonl, read_tsv, squad_train
from question_data import Questions
from semclass.core.errors import InputError
from semclass.core.types import COARSE

FOLDER = Path(__file__).parent / "labels"
UNKNOWN = "-"  # what stands for a class that readers did not agree on
SENTENCES = (2, 4, 1, 5, 3, 6)  # sentences of passages, in turn: a head sees short and long ones
NEWS_WORDS = (40, 80, 60, 100)  # words from which a newswire passage ends with its sentence, in turn
STRETCH = 150  # sentences of SQuAD, in order, that are taken for one article: as many as an article has on average
WORD = "[A-Za-z][A-Za-z]+"
ALIKE = 0.05  # mean cosine of the TF-IDF vectors of two groups of passages from which they become one
COMMON = 0.2  # words of more than this share of the passages say nothing of the article


def text_hash(text: str) -> str:
    """Name of a text, whatever its case, punctuation and white space: 16 hexadecimal digits of a SHA-256."""
    return hashlib.sha256(re.sub(r"[\W_]+", "", text.casefold()).encode()).hexdigest()[:16]


def natural_questions(data: Path, split: str) -> Questions:
    """Questions as people ask them, of the split ``"train"`` or ``"dev"``; their originals are in ``questions``."""
    return _questions("natural.tsv", data / "questions", split)


def squad_questions(data: Path) -> Questions:
    return _questions("squad.tsv", data / "squad_sentences", "train")


def written_questions() -> Questions:
    rows = read_tsv(FOLDER / "written_questions.tsv")
    return Questions(tuple(row["question"] for row in rows), tuple(f"{row['coarse']}:{row['fine']}" for row in rows))


def no_questions() -> list[str]:
    return (FOLDER / "no_questions.txt").read_text(encoding="utf-8").splitlines()


def generic_questions() -> list[str]:
    return (FOLDER / "generic_questions.txt").read_text(encoding="utf-8").splitlines()


def statements(data: Path) -> list[str]:
    """Sentences of SQuAD, WikiQA and newswire, which ask nothing; every second one without its full stop."""
    squad_texts, wikiqa_texts, news_texts = (
        [passage for passage, _ in source(data)] for source in (squad, wikiqa, news)
    )
    # of SQuAD and WikiQA passages of one sentence, see `SENTENCES`
    texts = [*squad_texts[2::12], *wikiqa_texts[2::12], *(text.split(". ")[0] for text in news_texts[::6])]
    sentences = [text for text in texts if not text.rstrip().endswith("?")]
    return [text.rstrip(" .") if place % 2 else text for place, text in enumerate(sentences)]


def labelled_passages(data: Path) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Passages of public originals, and their classes, float64 (n, 6): 1, 0, or nan where readings differ."""
    rows = {row["hash"]: row for row in read_tsv(FOLDER / "passages.tsv")}
    found = _find(rows, passage_articles(data), "passages.tsv", data)
    marks = [[row[name] for name in COARSE] for row in rows.values()]
    values = [[np.nan if mark == UNKNOWN else float(mark) for mark in row] for row in marks]
    return found, np.array(values).reshape(len(found), len(COARSE))


def _questions(name: str, originals: Path, split: str) -> Questions:
    rows = {row["hash"]: row for row in read_tsv(FOLDER / name) if row["split"] == split}
    texts = _find(rows, harvest(originals), name, originals)
    return Questions(tuple(texts), tuple(f"{row['coarse']}:{row['fine']}" for row in rows.values()))


def _find(rows: Mapping[str, Any], texts: Iterable[str], name: str, place: Path) -> list[str]:
    """Texts of labelled rows, in the order of the rows."""
    found: dict[str, str] = {}
    for text in texts:
        key = text_hash(text)
        if key in rows:
            found.setdefault(key, text)
    missing = [key for key in rows if key not in found]
    if missing:
        sources = Counter(rows[key]["source"] for key in missing)
        counts = ", ".join(f"{number} of {source}" for source, number in sorted(sources.items()))
        raise InputError(
            f"{place} lacks {len(missing)} of {len(rows)} texts of training/labels/{name}: {counts}; put the originals' "
            "files there, as they are published"
        )
    return [found[key] for key in rows]


def harvest(folder: Path) -> Iterator[str]:
    """Every text in the files of a folder, also gzipped: strings of JSON, cells of tables, lines, and elements of XML."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        try:
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        except (ValueError, gzip.BadGzipFile):
            continue  # not a text file, or not what its name says: no labelled text is in it
        if ".json" in path.name:
            yield from (json.loads(string, strict=False) for string in re.findall(r'"(?:[^"\\]|\\.)*"', text))
            continue
        for ends in (r"[\t\r\n]+", '[<>"]'):
            yield from map(html.unescape, re.split(ends, text))


# -- passages, cut from the originals the same way every time ------------------------------------------------------------


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
