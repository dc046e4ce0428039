"""Corrects misspelt words of a question before a question head reads it.

A word that is not in the list of known words is replaced if it is one slip away from a known word. A slip is a letter left
out, added or replaced, or two neighbours swapped. A noisy channel (Kernighan, Church and Gale 1990) chooses the most
probable known word. Its factors are a probability of the slip, and Zipf's law over the list, which is sorted by frequency.
Known words are never replaced. Heads are trained on texts that were corrected in the same way. Letter case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log

WORD_LIST = "words.txt"
"""File in a head's folder with known words, one per line, the most frequent first. Without it, nothing is corrected."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"

SHORTEST, LONGEST = 3, 24
"""Length of corrected words. Too many words are one letter away from a shorter word, and longer strings are no words."""

ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")  # of the keyboard; each begins half a key further to the right

MAX_CHARACTERS = (
    2000  # characters that are looked at, more than heads read of a question: bounds the time of a long text
)

# keys beside each key
NEIGHBOURS = {
    letter: frozenset(
        other
        for below, row in enumerate(ROWS)
        for column, other in enumerate(row)
        if other != letter and (below - y, column - x) in {(0, -1), (0, 1), (1, -1), (1, 0), (-1, 0), (-1, 1)}
    )
    for y, line in enumerate(ROWS)
    for x, letter in enumerate(line)
}

# how much more probable, as a logarithm, a neighbouring key is than another wrong letter, and a letter typed twice than
# another superfluous one
KEY_SLIP, DOUBLED = 1.0, log(len(LETTERS)) - log(8)

_WORD = re.compile(r"\b[^\W\d_]+\b")


def with_mark(text: str) -> str:
    """Add a question mark to a text that ends in a letter or a digit, because heads are then more certain of a question."""
    bare = text.rstrip()
    return f"{bare}?" if bare[-1:].isalnum() else text


@dataclass(frozen=True)
class Speller:
    """Corrects misspelt words by the frequencies of known words. Threads may share one instance."""

    costs: Mapping[str, float]  # words of the letters a to z, each with the logarithm of its rank by frequency

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Speller:
        """Make a speller from words, the most frequent first. Words with other letters than a to z are left out."""
        kept = filter(_spelt_with_letters, words)
        return cls({word: log(rank) for rank, word in enumerate(kept, start=1)})

    def __call__(self, text: str) -> str:
        """Replace probably misspelt words by words in lower case. Text after `MAX_CHARACTERS` characters is unchanged."""
        begin, rest = text[:MAX_CHARACTERS], text[MAX_CHARACTERS:]
        if self.costs.keys() >= set(map(str.lower, _WORD.findall(begin))):
            return text
        return _WORD.sub(self._replace, begin) + rest

    def word(self, word: str) -> str:
        """Return the most probable correction of a lower-case word, or the word itself if it is known or has none."""
        if word in self.costs or not SHORTEST <= len(word) <= LONGEST or not _spelt_with_letters(word):
            return word
        near = [(slip + self.costs[meant], meant) for meant, slip in _slips(word) if meant in self.costs]
        return min(near, default=(0.0, word))[1]

    def _replace(self, match: re.Match[str]) -> str:
        said = match[0].lower()
        meant = self.word(said)
        return match[0] if meant == said else meant


def _slips(word: str) -> Iterator[tuple[str, float]]:
    """Words from which one slip leads to `word`, each with its negative log probability."""
    size, wrong = len(word), log(len(LETTERS))
    one_less, same, one_more = (log(length) for length in (size - 1, size, size + 1))
    for place in range(size + 1):
        left, right = word[:place], word[place:]
        for letter in LETTERS:
            yield left + letter + right, one_more
        if not right:
            return
        said, rest = right[0], right[1:]
        yield left + rest, one_less + wrong - (DOUBLED if left[-1:] == said else 0.0)
        for letter in LETTERS:
            yield left + letter + rest, same + wrong - (KEY_SLIP if said in NEIGHBOURS[letter] else 0.0)
        if rest:
            yield left + rest[0] + said + rest[1:], same


def _spelt_with_letters(word: str) -> bool:
    """Whether a word is made of the letters a to z alone."""
    return word.isascii() and word.isalpha() and word.islower()
