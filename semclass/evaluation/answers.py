"""How near a written answer is to answers that are known to be right, as SQuAD measures it.

Both measures compare lower-cased words without punctuation and English articles, see Rajpurkar et al. (2016), "SQuAD:
100,000+ Questions for Machine Comprehension of Text". For ROUGE-L take the library ``rouge-score``.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from semclass.core.checks import check_texts
from semclass.core.errors import InputError, InputTypeError

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Whether an answer is one of the references, word for word.

    Parameters
    ----------
    answer
        What was written; it may be empty.
    references
        One right answer or more, none of them empty.

    Returns
    -------
    float
        1.0 or 0.0; the mean over questions is SQuAD's "exact match".

    Raises
    ------
    InputError, InputTypeError
        If the answer is not a string, or there are no references.
    """
    words, known = _words_of(answer, references)
    return float(words in known)


def token_f1(answer: str, references: Sequence[str]) -> float:
    """F1 of the words that an answer shares with the nearest of the references.

    Parameters and errors are those of :func:`exact_match`.

    Returns
    -------
    float
        In [0, 1]: the largest harmonic mean of precision and recall, each word counted as often as it occurs.
    """
    words, known = _words_of(answer, references)
    return max(_f1(words, reference) for reference in known)


def _words_of(answer: str, references: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    if not isinstance(answer, str):
        raise InputTypeError(f"answer must be a string, not {type(answer).__name__}")
    given = check_texts(references, "references")
    if not given:
        raise InputError("references is empty; give at least one right answer")
    return _words(answer), [_words(reference) for reference in given]


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(words: Sequence[str], reference: Sequence[str]) -> float:
    if not words or not reference:  # a text of nothing but articles: right if both are
        return float(words == reference)
    shared = (Counter(words) & Counter(reference)).total()
    return 2 * shared / (len(words) + len(reference))
