"""Labels made for this project: classes by the hash of a text, so that no foreign text ships with them.

The tables of ``training/labels/`` name a text by :func:`text_hash`; it is found again in the public originals, in whatever
files of the data folder's ``questions`` and ``squad_sentences`` these come:

- ``natural.tsv``: questions of SQuAD (train), WikiQA (train), WebQuestions, SimpleQuestions, MedQuAD and PubMedQA;
- ``squad.tsv``: more questions of SQuAD's training articles, those that an earlier classifier was least sure of;
- ``passages.tsv``: passages that ``label_sources.py`` cuts from WikiQA, IE-ER newswire and SQuAD.

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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets_io import read_tsv
from label_sources import news, passage_articles, squad, wikiqa
from question_data import Questions
from semclass.core.errors import InputError
from semclass.core.taxonomy import COARSE

FOLDER = Path(__file__).parent / "labels"
UNKNOWN = "-"  # what stands for a class that readers did not agree on


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
    # of SQuAD and WikiQA passages of one sentence, see `label_sources.SENTENCES`
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
