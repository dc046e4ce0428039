"""Measures written answers against reference answers: exact match, token F1, ROUGE-L and BLEU."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np

from semclass.core.checks import short
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray
from semclass.documents.json_lines import read_json_lines, text_of
from semclass.evaluation.measure import Estimate, estimate

ORDERS = 4
"""Longest word sequences that BLEU compares."""

_WORD = re.compile(r"[^\W_]+")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer to measure. Without references, only a judge can measure it."""

    question: str
    answer: str  #: empty if the writer found none
    references: tuple[str, ...] = ()  #: right answers, of which the best match counts; one empty text if there is none
    contexts: tuple[str, ...] = ()  #: texts from which the answer was written


def read_answers(path: str | Path) -> list[WrittenAnswer]:
    """Read answers from JSON lines with ``question``, ``answer``, and perhaps ``references`` and ``contexts``.

    Raises
    ------
    InputError
        If the file holds no answers, or a line has another form. The message names file and line.
    """
    path = Path(path)
    found = []
    for number, record in read_json_lines(path):
        where = f"{path}, line {number}"
        question, answer = text_of(record, where, "question"), record.get("answer")
        if not isinstance(answer, str):
            raise InputError(f"{where}: answer must be a text, which may be empty, not {short(answer)}")
        lists = [record.get(key, []) for key in ("references", "contexts")]
        for key, texts in zip(("references", "contexts"), lists, strict=True):
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{where}: {key} must be a list of texts, not {short(texts)}")
        found.append(WrittenAnswer(question, answer, *map(tuple, lists)))
    if not found:
        raise InputError(f"{path} holds no answers; give at least one line")
    return found


def measure_answers(answers: Sequence[WrittenAnswer], *, seed: int = 0) -> dict[str, Estimate]:
    """Measure answers against their references. Answers without references are left out.

    ``exact_match`` and ``f1`` normalise texts as SQuAD does: lower case, without punctuation and articles. ``rouge_l`` is
    the F-measure of the longest common subsequence of words. Each is a mean over the answers. ``bleu`` counts sequences of
    one to four words over all answers, with the smoothing of sacreBLEU. ROUGE-L and BLEU read words in lower case, without
    punctuation.

    `seed` is that of the bootstrap intervals. All figures are in [0, 1]; there are none if no answer has references.

    Raises
    ------
    MissingExtraError
        If scipy is not installed: ``pip install "semclass[eval]"``.
    """
    known = [one for one in answers if one.references]
    if not known:
        return {}
    measures = {"exact_match": exact_match, "f1": token_f1, "rouge_l": rouge_l}
    found = {
        name: estimate(np.array([max(score(one.answer, text) for text in one.references) for one in known]), seed)
        for name, score in measures.items()
    }
    counts = np.array([_bleu_counts(one) for one in known], np.float64)
    return {**found, "bleu": estimate(list(counts.T.copy()), seed, bleu)}


def _normalised(text: str) -> list[str]:
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def exact_match(answer: str, reference: str) -> float:
    """Tell whether two texts are the same once normalised: 1 or 0."""
    return float(_normalised(answer) == _normalised(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the F1 of the words of two normalised texts. If one has no words, the other must have none either."""
    left, right = Counter(_normalised(answer)), Counter(_normalised(reference))
    return _f1((left & right).total(), left.total(), right.total())


def rouge_l(answer: str, reference: str) -> float:
    """Return the F-measure of the longest common subsequence of words."""
    left, right = _words(answer), _words(reference)
    places: Counter[str] = Counter()
    for place, word in enumerate(right):
        places[word] |= 1 << place
    # a bit for each word of the reference, 0 once it is in the subsequence (Hyyrö 2004)
    free = every = (1 << len(right)) - 1
    for word in left:
        hit = free & places[word]
        free = ((free + hit) | (free - hit)) & every
    return _f1(len(right) - free.bit_count(), len(left), len(right))


def _f1(common: int, left: int, right: int) -> float:
    return 2 * common / (left + right) if left and right else float(left == right)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _bleu_counts(answer: WrittenAnswer) -> list[int]:
    """What BLEU adds up: matches and number of sequences of each length, the answer's length, the nearest reference's."""
    words, references = _words(answer.answer), [_words(text) for text in answer.references]
    matches, totals = [], []
    for n in range(1, ORDERS + 1):
        mine, *theirs = (
            Counter(zip(*(text[start:] for start in range(n)), strict=False)) for text in (words, *references)
        )
        matches.append((mine & reduce(or_, theirs)).total())
        totals.append(mine.total())
    nearest = min(map(len, references), key=lambda length: (abs(length - len(words)), length))
    return [*matches, *totals, len(words), nearest]


def bleu(*counts: DoubleArray, axis: int = -1) -> DoubleArray:
    """Return BLEU of the counts of many answers; 0 if none has four words, or no word is right."""
    sums = np.stack([count.sum(axis=axis) for count in counts])
    matches, totals, (length, reference) = sums[:ORDERS], sums[ORDERS:-2], sums[-2:]
    smoothed = np.where(matches > 0, matches, 0.5 ** np.cumsum(matches == 0, axis=0)) / np.maximum(totals, 1)
    brevity = np.exp(np.minimum(0, 1 - reference / np.maximum(length, 1)))
    value = brevity * np.exp(np.log(smoothed).mean(axis=0))
    return np.where((matches[0] > 0) & (totals[-1] > 0), value, 0.0)
