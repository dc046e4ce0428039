"""Reads the replies of a language model: labels, questions and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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


def one_of(text: str, words: Mapping[str, Sequence[str]]) -> str | None:
    """Return the only label that a reply names by any of its words. None if the reply names no label or several labels.

    Explanations after the label do not count.
    """
    line = spoken(text).partition("\n")[0]
    pattern, named = _pattern(words)
    if (whole := named.get(_plain(line))) is not None:  # marks may be part of a label
        return whole
    for part in re.split(r"[.:;!?]", line):
        found = {named[match] for match in pattern.findall(_plain(part))}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def all_of(text: str, words: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return the labels that a reply lists, in the order of `words`: empty for "none", None for anything else."""
    plain = _plain(spoken(text))
    pattern, named = _pattern(words)
    if found := {named[match] for match in pattern.findall(plain)}:
        return [name for name in words if name in found]
    return [] if re.match(rf"{NONE_OF_THEM}\b", plain) else None


def questions_of(text: str, *, marked: bool = True) -> list[str]:
    """Return the questions of a reply, one per line, without numbers. `marked` keeps only lines with a question mark."""
    lines = (_NUMBER.sub("", line.strip(), count=1).strip(' "*') for line in spoken(text).splitlines())
    return list(dict.fromkeys(line for line in lines if len(line) > 3 and (not marked or line.endswith(("?", "？")))))


def numbers_of(text: str, limit: int) -> list[int]:
    """Return the whole numbers from 1 to `limit` that a reply names, each once, in the order of the reply."""
    numbers = dict.fromkeys(map(int, re.findall(r"\b\d{1,4}\b", spoken(text))))
    return [number for number in numbers if 1 <= number <= limit]


def declines(text: str) -> bool:
    """Whether a reply begins like a refusal."""
    return _DECLINING.match(spoken(text)) is not None


def spoken(text: str) -> str:
    """Return a reply without the thoughts of the model, which are between marks."""
    return re.sub(r"(?s)^.*</think>", "", text).strip()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip()


def _pattern(words: Mapping[str, Sequence[str]]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern of all words, longest first, and the label of each word."""
    named = {_plain(word) or word: name for name, synonyms in words.items() for word in synonyms}
    longest_first = sorted(named, key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})s?\b"), named
