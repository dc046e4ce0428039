"""Questions and the passages that answer them, by domain: what ``train_pairs.py`` fits its heads on.

- ``squad``: questions of ``squad_sentences/train``; passages are 1 to 8 consecutive sentences of its articles;
- ``wikiqa``: questions to a search engine, of ``wikiqa/train``; passages are 1 to 6 consecutive sentences of each
  question's article;
- ``wikipedia``: chunks of Wikipedia pages, with lists and tables, of ``passages/wikipedia_flan_ul2.jsonl.gz``, and
  questions that were written about them for this project;
- ``written``: passages and questions written for this project: medical and technical texts with close rivals.

What was written is in ``training/labels``. For an encoder of many languages there are, beside the last two, questions over
paragraphs of Wikipedia in other languages, of the files of ``multilingual`` that are for training, each a domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets_io import LANGUAGE, language_files, language_sample, read_jsonl, read_tsv, squad_train

LABELS = Path(__file__).parent / "labels"
SQUAD_SENTENCES, WIKIQA_SENTENCES = 8, 6  # sentences of a passage at most
ASKED = 100  # questions of a language
ACROSS = ("african-afriqa", "pt-pira")  # files whose passages are in another language than the questions


@dataclass(frozen=True)
class Domain:
    """Questions over one collection of passages."""

    name: str
    passages: list[str]
    questions: list[str]
    answers: list[frozenset[int]]  # places of the passages that answer each question, at least one


def read_domains(data: Path, seed: int) -> list[Domain]:
    """Read all domains of a data folder; `seed` draws the lengths of passages."""
    rng = np.random.default_rng(seed)
    return [_squad(data, rng), _wikiqa(data, rng), _wikipedia(data), _written()]


def read_languages(data: Path, learnt: Sequence[str] = (), asked: int = ASKED) -> list[Domain]:
    """Read some questions of each language other than English, with the paragraphs around the answers.

    Those of files that the encoder learnt from, as its manifest names them, are left out.
    """
    left = {*ACROSS, *(name.removeprefix(LANGUAGE) for name in learnt)}
    return [_language(path, asked) for path in language_files(data) if path.name.split(".")[0] not in left]


def _language(path: Path, asked: int) -> Domain:
    passages, rows = language_sample(path, asked, seed=1)
    answers = [frozenset(found) for _, found in rows]
    return Domain(path.name.split(".")[0], passages, [text for text, _ in rows], answers)


def read_multilingual(data: Path, learnt: Sequence[str]) -> list[Domain]:
    """The domains of an encoder of many languages."""
    return [*read_languages(data, learnt), _wikipedia(data), _written()]


def _windows(count: int, longest: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Cut `count` sentences into consecutive windows whose lengths are drawn from 1 ... `longest`."""
    start = 0
    while start < count:
        end = min(start + int(rng.integers(1, longest + 1)), count)
        yield start, end
        start = end


def _squad(data: Path, rng: np.random.Generator) -> Domain:
    sentences, questions, places = squad_train(data)
    windows = list(_windows(len(sentences), SQUAD_SENTENCES, rng))
    passages = [" ".join(sentences[start:end]) for start, end in windows]
    rows = np.searchsorted([start for start, _ in windows], places, side="right") - 1
    return Domain("squad", passages, questions, [frozenset([row]) for row in rows.tolist()])


def _wikiqa(data: Path, rng: np.random.Generator) -> Domain:
    articles: dict[str, list[tuple[str, bool]]] = {}
    for row in read_tsv(data / "wikiqa" / "train.tsv.gz"):
        # sentences come without the full stop of some headings and items
        text = row["sentence"] if row["sentence"][-1:] in ".?!" else row["sentence"] + "."
        articles.setdefault(row["question"], []).append((text, row["label"] == "1"))
    places: dict[str, int] = {}  # articles come with several questions, but a passage comes once
    answers = []
    for article in articles.values():
        found = set()
        for start, end in _windows(len(article), WIKIQA_SENTENCES, rng):
            place = places.setdefault(" ".join(text for text, _ in article[start:end]), len(places))
            if any(right for _, right in article[start:end]):
                found.add(place)
        answers.append(frozenset(found))
    return Domain("wikiqa", list(places), list(articles), answers)


def _wikipedia(data: Path) -> Domain:
    records = read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")
    passages = {record["_id"]: record["text"] for record in records}
    return _joined("wikipedia", passages, read_tsv(LABELS / "wikipedia_questions.tsv"))


def _written() -> Domain:
    passages = {record["_id"]: record["text"] for record in read_jsonl(LABELS / "written_passages.jsonl.gz")}
    return _joined("written", passages, read_tsv(LABELS / "written_passage_questions.tsv"))


def _joined(name: str, passages: dict[str, str], rows: list[dict[str, str]]) -> Domain:
    place = {identity: row for row, identity in enumerate(passages)}
    answers = [frozenset([place[row["corpus-id"]]]) for row in rows]
    return Domain(name, list(passages.values()), [row["question"] for row in rows], answers)
