"""Finds the words of a list that a model's reply says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

YES_NO: Mapping[str, tuple[str, ...]] = {
    "yes": ("yes", "true", "entailment", "entails"),
    "no": ("no", "false", "not entailment", "does not", "doesn t"),
}
"""Words for yes and no."""

ENTAILS = "Does the passage hold the answer to the question? Reply with yes or no."

NONE_OF_THEM = "none"

_NUMBER = re.compile(r"^\W*(?:(?:(?:Q|question)?\s*\d+\s*[.):]|(?:\w+ )?question:)\s*)?", re.IGNORECASE)
_DECLINING = re.compile(
    r"\W*(?:(?:i['’]?m|i am) (?:very )?sorry\b|sorry[,.!]|as an? (?:ai|(?:large )?language model)\b"
    r"|i (?:cannot|can['’]t|won['’]t|am (?:not able|unable) to) (?:\w+ )?"
    r"(?:answer|assist|comply|create|discuss|do|engage|fulfil|generate|help|provide|rewrite|write)\b)",
    re.IGNORECASE,
)


def one_of(said: str, words: Mapping[str, Sequence[str]]) -> str | None:
    """Return the only label that a reply names by any of its words. None if the reply names no label, or several.

    Thoughts of the model, between marks, do not count, and neither do explanations after the label.
    """
    line = spoken(said).partition("\n")[0]
    pattern, named = _pattern(tuple((name, tuple(all_words)) for name, all_words in words.items()))
    if (whole := named.get(_plain(line))) is not None:  # marks may be part of a label
        return whole
    for part in re.split(r"[.:;!?]", line):
        found = {named[match] for match in pattern.findall(_plain(part))}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def all_of(said: str, words: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return the labels that a reply lists, in the order of `words`.

    If the reply says that there are none, the list is empty. If it says anything else, the result is None.
    """
    rest = spoken(said)
    pattern, named = _pattern(tuple((name, tuple(all_words)) for name, all_words in words.items()))
    found = {named[match] for match in pattern.findall(_plain(rest))}
    if found:
        return [name for name in words if name in found]
    return [] if re.match(rf"{NONE_OF_THEM}\b", _plain(rest)) else None


def questions_of(said: str, *, marked: bool = True) -> list[str]:
    """Return the questions of a reply, one a line, without their numbers.

    With `marked`, only lines that end in a question mark count.
    """
    lines = (_NUMBER.sub("", line.strip(), count=1).strip(' "*') for line in spoken(said).splitlines())
    return list(dict.fromkeys(line for line in lines if len(line) > 3 and (not marked or line.endswith(("?", "？")))))


def numbers_of(said: str, most: int) -> list[int]:
    """Return the whole numbers from 1 to `most` that a reply names, each once, in the order of the reply."""
    return [
        number for number in dict.fromkeys(map(int, re.findall(r"\b\d{1,4}\b", spoken(said)))) if 1 <= number <= most
    ]


def declines(said: str) -> bool:
    """Tell whether a reply begins like a refusal of a model."""
    return _DECLINING.match(spoken(said)) is not None


def spoken(said: str) -> str:
    """Return a reply without the thoughts of the model, between marks."""
    return re.sub(r"(?s)^.*</think>", "", said).strip()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


@lru_cache(maxsize=16)
def _pattern(words: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds a word, the longest first, and the label of each word."""
    named = {_plain(word) or word: name for name, all_words in words for word in all_words}
    longest_first = sorted(named, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})s?\b"), named
