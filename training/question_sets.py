"""Which questions a head is trained on and measured with: what both ways of training a question head share."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import labels
from datasets_io import read_tsv, squad_train
from question_data import Questions, joined, read_questions, same_but_for_marks
from semclass.core.errors import InputError
from semclass.core.types import COARSE, IntArray
from semclass.heads.spelling import LETTERS, NEIGHBOURS, WORD_LIST, Speller, with_mark

SOURCES = (
    "TREC question classification (Li and Roth 2002), training questions; questions labelled or written for this project "
    "(`training/labels/`)"
)
SPELT_WITH_LETTERS = re.compile(r"[a-z]{2,}")
TEXT_SHARE = 0.5  # weight of a word's share of the training questions in `frequent_words`; 0.8 is as good
# times that a word must occur in the training questions to be known, if the encoder's vocabulary lacks it
NEW_WORD = 3

BLOCKS = 5  # into which TREC's training questions are cut, and their translations at the same places
# lines of a translation's file that translate them, in their order; those behind are other questions
TRANSLATED = {"es": 5316, "pt": 5392}


@dataclass(frozen=True)
class Training:
    """Training data of a head."""

    questions: Questions
    nothing: tuple[str, ...]  # texts that ask nothing


def read_training(data: Path) -> Training:
    parts = [read_questions(data / "trec" / "train.tsv"), labels.natural_questions(data, "train")]
    parts += [labels.squad_questions(data), labels.written_questions()]
    return Training(joined(parts), (*labels.no_questions(), *labels.statements(data)))


@dataclass(frozen=True)
class Translations:
    """Questions in other languages, with their coarse classes."""

    texts: tuple[str, ...]
    coarse: tuple[str, ...]
    languages: tuple[str, ...]
    folds: IntArray  # (n,): block of the TREC question that each translates, or BLOCKS of another question

    @property
    def times(self) -> list[int]:
        """How often each is learnt, an English one twice: once if its label was derived, not read."""
        return [2 if fold < BLOCKS else 1 for fold in self.folds.tolist()]


def read_translations(folder: Path) -> Translations:
    """Read ``LANG.tsv``, class and question, of every language but English."""
    texts, coarse, languages, folds = [], [], [], []
    for path in sorted(folder.glob("*.tsv")):
        if path.stem.startswith("en"):
            continue
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        pairs = [line.partition("\t") for line in lines]
        if strange := [label for label, _, question in pairs if label not in COARSE or not question.strip()]:
            raise InputError(f"{path} holds a line that is not 'CLASS<TAB>question': it begins with {strange[0]!r}")
        count = TRANSLATED.get(path.stem, 0)
        folds += [*blocks_of(count), *[BLOCKS] * (len(pairs) - count)]
        coarse += [label for label, _, _ in pairs]
        texts += [question.strip() for _, _, question in pairs]
        languages += [path.stem] * len(pairs)
    if not texts:
        raise InputError(f"{folder} holds no table of questions in another language, such as es.tsv")
    return Translations(tuple(texts), tuple(coarse), tuple(languages), np.array(folds))


def blocks_of(count: int) -> list[int]:
    """The block of each of TREC's training questions, or of a translation of most of them."""
    return [BLOCKS * place // count for place in range(count)]


def english_folds(texts: Sequence[str], trec: int) -> list[int]:
    """The block of English questions, of which those of TREC come first; what differs in punctuation shares one."""
    others = [zlib.crc32(same_but_for_marks(text).encode()) % BLOCKS for text in texts[trec:]]
    return [*blocks_of(trec), *others]


def unlabelled(data: Path, known: Sequence[str]) -> list[str]:
    """Questions of SQuAD's and WikiQA's training parts, each once, without those that are `known`."""
    asked = [*squad_train(data)[1], *(row["question"] for row in read_tsv(data / "wikiqa" / "train.tsv.gz"))]
    texts = {same_but_for_marks(text): text for text in reversed(asked)}
    for text in known:
        texts.pop(same_but_for_marks(text), None)
    return list(texts.values())[::-1]


def frequent_words(vocabulary: Mapping[str, int], texts: Iterable[str]) -> list[str]:
    """Known words, the most frequent first: those of a word-piece vocabulary, and of `texts` those that occur often.

    A word's probability is the mean of Zipf's law over the vocabulary, whose ids follow frequency in general text, and of
    the word's share of `texts`. That corrects 90 % of typed slips in questions, the vocabulary alone 89 %.
    """
    known = sorted(filter(SPELT_WITH_LETTERS.fullmatch, vocabulary), key=vocabulary.__getitem__)
    harmonic = sum(1 / rank for rank in range(1, len(known) + 1))
    counts = Counter(word for text in texts for word in SPELT_WITH_LETTERS.findall(text.lower()))
    share = TEXT_SHARE / max(counts.total(), 1)
    chances = {word: (1 - TEXT_SHARE) / (rank * harmonic) + share * counts[word] for rank, word in enumerate(known, 1)}
    chances |= {word: share * n for word, n in counts.items() if n >= NEW_WORD and word not in chances}
    return sorted(chances, key=lambda word: (-chances[word], word))


def misspell(text: str, rng: random.Random, shortest: int | None = None) -> str:
    """Let one letter of one word slip: swapped with the next, left out, added or replaced.

    Words of `shortest` letters or more are chosen from; if None, of 4 (six times in ten), 3, or 2 (three in twenty). Half
    the time the first letter may slip too; four in ten of the wrong letters are neighbours on the keyboard.
    """
    shortest = rng.choices((4, 3, 2), (12, 5, 3))[0] if shortest is None else shortest
    words = text.split(" ")
    parts = [re.fullmatch(r"([A-Za-z]+)(\W?)", word) for word in words]
    places = [place for place, part in enumerate(parts) if part and len(part[1]) >= shortest]
    if not places:
        return text
    place = rng.choice(places)
    part = parts[place]
    if part is not None:
        words[place] = _slip(part[1], rng) + part[2]
    return " ".join(words)


def _slip(word: str, rng: random.Random) -> str:
    at = rng.randrange(0 if rng.random() < 0.5 else 1, len(word))
    near = sorted(NEIGHBOURS.get(word[at].lower(), ()))
    letter = rng.choice(near if near and rng.random() < 0.4 else LETTERS)
    forms = [word[:at] + word[at + 1 :], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1 :]]
    if at + 1 < len(word):
        forms.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    return rng.choice(forms)


def without_mark(text: str) -> str:
    return re.sub(r"\s*\?\s*$", "", text)


def vary(text: str, rng: random.Random) -> str:
    """A question as it might be typed: three quarters with a slip, a tenth with two, half without question mark."""
    chance = rng.random()
    if chance < 0.75:
        text = misspell(text, rng)
    if chance < 0.1:
        text = misspell(text, rng)
    if rng.random() < 0.5:
        return without_mark(text)
    return re.sub(r"\s+\?\s*$", "?", text) if rng.random() < 0.3 else text


def as_read(speller: Speller | None, texts: Sequence[str]) -> list[str]:
    """Texts as :class:`~semclass.heads.questions.QuestionClassifier` reads them with a head that has a speller or none."""
    return [with_mark(speller(text)) for text in texts] if speller else list(texts)


def words_file(words: Sequence[str]) -> dict[str, bytes]:
    return {WORD_LIST: "".join(f"{word}\n" for word in words).encode()} if words else {}
