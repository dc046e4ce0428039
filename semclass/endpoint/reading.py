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

_NUMBER = re.compile(r"^\W*(?:(?:(?:Q|question)?\s*\d+\s*[.):]|(?:\w+ )?question:)\s*)?", re.IGNORECASE)
_DECLINING = re.compile(
    r"\W*(?:(?:i['’]?m|i am) (?:very )?sorry\b|sorry[,.!]|as an? (?:ai|(?:large )?language model)\b"
    r"|i (?:cannot|can['’]t|won['’]t|am (?:not able|unable) to) (?:\w+ )?"
    r"(?:answer|assist|comply|create|discuss|do|engage|fulfil|generate|help|provide|rewrite|write)\b)",
    re.IGNORECASE,
)


def one_of(said: str, words: Mapping[str, Sequence[str]]) -> str | None:
    """Give the one label that a reply names by any of its words; None if it names none, or several at once.

    What a model thinks first, between marks, does not count; neither do explanations after the label.
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
    """Give the labels that a reply lists, in the order of `words`; none if it says so, None if it says anything else."""
    rest = spoken(said)
    pattern, named = _pattern(tuple((name, tuple(all_words)) for name, all_words in words.items()))
    found = {named[match] for match in pattern.findall(_plain(rest))}
    if found:
        return [name for name in words if name in found]
    return [] if re.match(rf"{NONE_OF_THEM}\b", _plain(rest)) else None


def questions_of(said: str, *, marked: bool = True) -> list[str]:
    """The questions of a reply, a line each, without what counts them; `marked`: only lines that end in a question mark."""
    lines = (_NUMBER.sub("", line.strip(), count=1).strip(' "*') for line in spoken(said).splitlines())
    return list(dict.fromkeys(line for line in lines if len(line) > 3 and (not marked or line.endswith(("?", "？")))))


def numbers_of(said: str, most: int) -> list[int]:
    """The whole numbers from 1 to `most` that a reply names, each once, in its order."""
    return [
        number for number in dict.fromkeys(map(int, re.findall(r"\b\d{1,4}\b", spoken(said)))) if 1 <= number <= most
    ]


def declines(said: str) -> bool:
    """Whether a reply begins as models do that will not answer."""
    return _DECLINING.match(spoken(said)) is not None


def spoken(said: str) -> str:
    """A reply without what the model thinks first, between marks."""
    return re.sub(r"(?s)^.*</think>", "", said).strip()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


@lru_cache(maxsize=16)
def _pattern(words: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    """What finds a word, the longest first, and the label of each word."""
    named = {_plain(word) or word: name for name, all_words in words for word in all_words}
    longest_first = sorted(named, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})s?\b"), named
