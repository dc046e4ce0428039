"""Questions with passages that answer them and passages that do not: what ``tune_encoder.py`` learns from, by domain.

- ``squad``: a question of ``squad_sentences/train``, its sentence and the three on either side, in document order;
- ``squad passages``: a third of them again, with passages of two to four sentences;
- ``wikiqa``: a question to a search engine and the sentences of one article;
- ``medquad``: a section of a document on a disease, asked for by a question or by keywords, among the other sections;
- ``policyqa``: a question and passages of one privacy policy;
- ``code``: what is typed into a search box, and functions;
- ``wikipedia``, ``written``: as in ``pair_domains.py``, each passage among its neighbours;
- ``contrast``: answers among texts that only resemble one, written for this project (``labels/contrast.jsonl.gz``);
- ``echoes``: a third of the questions again, with texts that only repeat them (``labels/echoes.txt``);
- ``keywords``: words of a sentence in any order, or its title, as people type them: whatever stands near it is meant, and
  what repeats them is as good as anything else. Taken from ``medquad``, ``wikipedia``, ``written`` and ``contrast``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets_io import read_jsonl, read_tsv, squad_train
from pair_domains import LABELS, Domain, read_domains
from semclass.documents.sentences import split_sentences
from semclass.heads.query_focus import is_question

NEIGHBOURS = 3  # sentences or passages on either side of an answer
SENTENCES = 4  # read of a passage at most
SECTIONS = 8  # of a document at most
OTHERS = 3  # passages of the same policy that do not answer
ECHOES = 3  # texts that repeat a question
WORDS = (2, 9)  # of a query of keywords
KEYWORDS = {
    "information": "",
    "exams and tests": "tests",
    "considerations": "what to consider",
}  # words that stand for a type of section; others stand for themselves
FUNCTION_WORDS = frozenset(
    "the of and in to a an is was were are be been being for as by on with that it its at from or this these those which "  # noqa: SIM905
    "has have had but his her their he she they we you i our your my also into such than then there so if can may will "
    "would could should more most other some any all between both each about after over through during under within up "
    "out them him me us do does did what who whom whose where when why how much many not no".split()
)


@dataclass(frozen=True)
class Group:
    """A question, passages as lists of sentences, and which of these answer."""

    domain: str
    question: str
    passages: tuple[tuple[str, ...], ...]
    answers: frozenset[int]


def read_groups(data: Path, seed: int) -> list[Group]:
    """Read all domains of a data folder; those of ``squad`` come first, in document order."""
    rng = np.random.default_rng(seed)
    domains = {domain.name: domain for domain in read_domains(data, seed)}
    prose = [
        *_medquad(data, rng),
        *_among_neighbours(domains["wikipedia"], rng),
        *_among_neighbours(domains["written"], rng),
    ]
    found = [*squad(data), *_squad_passages(data, rng), *wikiqa(data), *prose, *_policyqa(data, rng), *_code(data, rng)]
    found += _echoes(found, rng)
    found += contrast()
    found += _keywords(prose, contrast(), rng)
    return [group for group in found if group.question.strip() and all(group.passages)]


def sentences(text: str, most: int = SENTENCES) -> tuple[str, ...]:
    """Split a passage as the library does, cut to its first sentences."""
    return tuple(split_sentences(text)[:most])


def squad(data: Path) -> Iterator[Group]:
    """Each question with the sentence that answers it and those on either side, in document order."""
    texts, questions, places = squad_train(data)
    for question, place in zip(questions, places, strict=True):
        first, end = max(0, place - NEIGHBOURS), min(len(texts), place + NEIGHBOURS + 1)
        yield Group("squad", question, tuple((text,) for text in texts[first:end]), frozenset([place - first]))


def _squad_passages(data: Path, rng: np.random.Generator) -> Iterator[Group]:
    texts, questions, places = squad_train(data)
    for question, place in zip(questions[::3], places[::3], strict=True):
        size = int(rng.integers(2, 5))
        start = max(0, place - int(rng.integers(size)))
        cuts = [start - size, start, start + size]
        windows = [tuple(texts[max(cut, 0) : max(cut, 0) + size]) for cut in cuts if cut > -size]
        right = frozenset(row for row, window in enumerate(windows) if texts[place] in window)
        yield Group("squad passages", question, tuple(windows), right)


def wikiqa(data: Path) -> Iterator[Group]:
    """Questions to a search engine, each with the sentences of one article."""
    articles: dict[str, list[tuple[str, bool]]] = {}
    for row in read_tsv(data / "wikiqa" / "train.tsv.gz"):
        articles.setdefault(row["question"], []).append((row["sentence"], row["label"] == "1"))
    for question, rows in articles.items():
        kept = rows[: 2 * SECTIONS]
        if right := frozenset(place for place, (_, answers) in enumerate(kept) if answers):
            yield Group("wikiqa", question, tuple((text,) for text, _ in kept), right)


def _medquad(data: Path, rng: np.random.Generator) -> Iterator[Group]:
    for document in read_jsonl(data / "medquad" / "documents.jsonl.gz"):
        kept = [part for part in document["sections"] if sentences(part["answer"], 3)][:SECTIONS]
        if len(kept) < 2:
            continue
        passages = tuple(sentences(part["answer"], 3) for part in kept)
        first, second = rng.permutation(len(kept))[:2].tolist()
        yield Group("medquad", kept[first]["question"], passages, frozenset([first]))
        kind = kept[second]["type"]
        keywords = f"{document['focus']} {KEYWORDS.get(kind, kind)}".strip()
        yield Group("medquad", keywords, passages, frozenset([second]))


def _policyqa(data: Path, rng: np.random.Generator) -> Iterator[Group]:
    for policy in read_jsonl(data / "policyqa" / "train.jsonl.gz"):
        passages = [sentences(text, 6) for text in policy["passages"]]
        for row in policy["questions"]:
            right = row["relevant"][:2]
            wrong = [place for place in rng.permutation(len(passages)).tolist() if place not in row["relevant"]]
            chosen = [passages[place][:SENTENCES] for place in [*right, *wrong[:OTHERS]]]
            yield Group("policyqa", row["question"], tuple(chosen), frozenset(range(len(right))))


def _code(data: Path, rng: np.random.Generator) -> Iterator[Group]:
    rows = read_jsonl(data / "code" / "cosqa.jsonl.gz")
    for place, row in enumerate(rows):
        others = [other for other in rng.integers(len(rows), size=NEIGHBOURS).tolist() if other != place]
        chosen = [sentences(rows[other]["code"]) for other in [place, *others]]
        yield Group("code", row["query"], tuple(chosen), frozenset([0]))


def _among_neighbours(domain: Domain, rng: np.random.Generator) -> Iterator[Group]:
    """Each question with the passages beside its answer, and one from anywhere."""
    for question, answers in zip(domain.questions, domain.answers, strict=True):
        place = min(answers)
        near = {place - 1, place + 1, int(rng.integers(len(domain.passages)))} - answers
        chosen = [place, *sorted(other for other in near if 0 <= other < len(domain.passages))]
        texts = tuple(sentences(domain.passages[other]) for other in chosen)
        yield Group(domain.name, question, texts, frozenset([0]))


def contrast() -> Iterator[Group]:
    """Questions, three answers each, and texts that resemble an answer."""
    for row in read_jsonl(LABELS / "contrast.jsonl.gz"):
        texts = [*row["answers"].values(), *row["distractors"].values()]
        yield Group("contrast", row["question"], tuple(map(sentences, texts)), frozenset(range(len(row["answers"]))))


def _echoes(groups: Sequence[Group], rng: np.random.Generator) -> Iterator[Group]:
    """Every third question, with its answer, the passage beside it and some texts that repeat the question."""
    forms = (LABELS / "echoes.txt").read_text(encoding="utf-8").splitlines()
    for group in groups[::3]:
        words = keywords(group.question, rng)
        if not (words and is_question(group.question)):
            continue
        right = min(group.answers)
        chosen = [right, right - 1 if right else len(group.passages) - 1]
        texts = [group.passages[place] for place in chosen if place not in group.answers - {right}]
        plain = group.question.strip().rstrip("?.! ").strip()
        drawn = rng.permutation(len(forms))[:ECHOES].tolist()
        texts += [(forms[place].format(question=plain, words=words),) for place in drawn]
        yield Group("echoes", group.question, tuple(texts), frozenset([0]))


def _keywords(prose: Sequence[Group], contrasts: Iterable[Group], rng: np.random.Generator) -> Iterator[Group]:
    """Keywords of a passage that answers, which is right; of a contrast item's question, all of whose texts are."""
    for group in prose:
        (place,) = group.answers
        text = group.passages[place][int(rng.integers(len(group.passages[place])))]
        if words := keywords(text, rng):
            yield Group("keywords", words, group.passages, group.answers)
    for group in contrasts:
        if words := keywords(group.question, rng):
            yield Group("keywords", words, group.passages, frozenset(range(len(group.passages))))


def keywords(text: str, rng: np.random.Generator) -> str:
    """Some of the words of a text that say what it is about, half of the time in their order; "" if there are too few."""
    words = [word.strip(".,;:!?()\"'") for word in text.split()]
    kept = [word for word in words if len(word) > 1 and word.lower() not in FUNCTION_WORDS]
    count = min(len(kept), int(rng.integers(*WORDS)))
    places = rng.permutation(len(kept))[:count]
    if rng.random() < 0.5:
        places = np.sort(places)
    return " ".join(kept[place] for place in places.tolist()) if count >= WORDS[0] else ""


def other_texts(data: Path, groups: Iterable[Group], most: int, seed: int) -> list[str]:
    """Further texts whose vectors are to stay: questions without passages, more of medical prose, of code, of Wikipedia."""
    rng = np.random.default_rng(seed)
    known = {text for group in groups for passage in group.passages for text in passage}
    sources: list[Sequence[str]] = [
        [row["question"] for row in read_tsv(data / "trec" / "train.tsv")],
        [row["question"] for row in read_tsv(data / "questions" / "natural.tsv") if row["split"] == "train"],
        [
            text
            for document in read_jsonl(data / "medquad" / "documents.jsonl.gz")
            for part in document["sections"]
            for text in sentences(part["answer"])[3:]
        ],
        [text for row in read_jsonl(data / "code" / "cosqa.jsonl.gz") for text in split_sentences(row["code"])],
        [
            text
            for row in read_jsonl(data / "passages" / "wikipedia_flan_ul2.jsonl.gz")
            for text in split_sentences(row["text"])
        ],
    ]
    found = []
    for source in sources:
        new = [text for text in dict.fromkeys(source) if text not in known]
        found += [new[place] for place in rng.permutation(len(new))[:most]]
    return found
