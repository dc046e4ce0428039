"""Which of some words a model's reply says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

YES_NO: Mapping[str, tuple[str, ...]] = {
    "yes": ("yes", "true", "entailment", "entails"),
    "no": ("no", "false", "not entailment", "does not", "doesn t"),
}
"""Words for yes and no."""

NONE_OF_THEM = "none"


def one_of(said: str, words: Mapping[str, Sequence[str]]) -> str | None:
    """Give the one label that a reply names by any of its words; None if it names none, or several at once.

    What a model thinks first, between marks, does not count; neither do explanations after the label.
    """
    line = _spoken(said).partition("\n")[0]
    pattern, named = _pattern(tuple((name, tuple(all_words)) for name, all_words in words.items()))
    if (whole := named.get(_plain(line))) is not None:  # marks may be part of a label
        return whole
    for part in re.split(r"[.:;!?]", line):
        found = {named[match] for match in pattern.findall(_plain(part))}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def all_of(said: str, words: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Give the labels that a reply lists, in the order of `words`; none if it says so, None if it says anything else."""
    spoken = _spoken(said)
    pattern, named = _pattern(tuple((name, tuple(all_words)) for name, all_words in words.items()))
    found = {named[match] for match in pattern.findall(_plain(spoken))}
    if found:
        return [name for name in words if name in found]
    return [] if re.match(rf"{NONE_OF_THEM}\b", _plain(spoken)) else None


def _spoken(said: str) -> str:
    return re.sub(r"(?s)^.*</think>", "", said).strip()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


@lru_cache(maxsize=16)
def _pattern(words: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds a word, the longest first, and the label of each word."""
    named = {_plain(word) or word: name for name, all_words in words for word in all_words}
    longest_first = sorted(named, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})s?\b"), named
