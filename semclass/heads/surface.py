"""Surface features: what can be read off a passage's spelling, without an encoder.

Vectors of an uncased encoder blur what spelling says plainly: a figure, a year, a capital letter in mid-sentence, an
acronym in parentheses behind its words, the bars of a table. A passage is cut into tokens by one regular expression;
every token gets a category from one look-up and a shape from its characters; features count tokens, and pairs of
neighbours, by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray
from semclass.heads.surface_tokens import CASELESS, CODES, DIGIT, KINDS, LEXICON, LOWER, TOKEN, UPPER

Flags = npt.NDArray[np.bool_]

_SKIPPED = frozenset({"a", "an", "and", "at", "for", "in", "of", "on", "the", "to"})
"""Function words that give an acronym no letter."""

LONGEST_ACRONYM = 8
"""Letters of the longest word between parentheses that is compared with the words before it."""

BLOCK = 256
"""Passages that are taken apart together: the tokens of a whole collection would fill the memory."""


def surface_features(texts: Sequence[str]) -> FloatArray:
    """Read surface features off passages."""
    features = np.zeros((len(texts), N_SURFACE), np.float32)
    for start in range(0, len(texts), BLOCK):
        columns = _features(texts[start : start + BLOCK])
        features[start : start + BLOCK] = np.stack(list(columns.values()), axis=1)
    return features


def _features(texts: Sequence[str]) -> dict[str, DoubleArray]:
    """Surface features of n > 0 texts in one pass: each column, float64 of shape (n,), by its name."""
    rows = [TOKEN.findall(text) for text in texts]
    for row in rows:
        row.append("\n")  # every text ends a line: no pair reaches over two texts, and no text is without tokens
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    starts = np.cumsum(lengths) - lengths
    tokens = list(chain.from_iterable(rows))
    total = len(tokens)

    code = np.fromiter(map(LEXICON.get, map(str.lower, tokens), repeat(0)), np.uint8, total)
    size = np.fromiter(map(len, tokens), np.int64, total)
    ends = np.cumsum(size)
    begins = ends - size
    # a lone surrogate is no valid text, but no reason to fail either
    characters = np.frombuffer("".join(tokens).encode("utf-32-le", "surrogatepass"), np.uint32)
    kind = KINDS[np.minimum(characters, len(KINDS) - 1)]
    first = kind[begins]
    uppers = np.add.reduceat(kind == UPPER, begins, dtype=np.int32)
    lowers = np.add.reduceat(kind == LOWER, begins, dtype=np.int32)
    humps = np.zeros(len(kind), np.bool_)
    humps[1:] = (kind[1:] == UPPER) & ((kind[:-1] == LOWER) | (kind[:-1] == DIGIT))
    humps[1:] |= (kind[1:] == DIGIT) & (kind[:-1] == UPPER)
    humps[begins] = False

    word = (first == LOWER) | (first == UPPER) | (first == CASELESS)
    year = code == CODES["year"]
    number = (first == DIGIT) & ~year
    citation = (characters[begins] == ord("[")) & (size > 1)
    plural = (lowers == 1) & (characters[ends - 1] == ord("s"))  # PCs
    acronym = word & (uppers >= 2) & ((lowers == 0) | plural)
    initial = (first == UPPER) & (size == 1)
    title = (first == UPPER) & ~acronym & ~initial
    mixed = word & np.logical_or.reduceat(humps, begins)
    capital = title | acronym | mixed
    month = code == CODES["month"]
    place_name = capital & ~month

    def category(name: str) -> Flags:
        return np.equal(code, CODES[name])

    def after(flags: Flags) -> Flags:
        """Whether the token before has the flag."""
        return np.concatenate([[False], flags[:-1]])

    def before(flags: Flags) -> Flags:
        """Whether the token behind has the flag."""
        return np.concatenate([flags[1:], [False]])

    line_end, stop, bar = category("line_end"), category("stop"), category("bar")
    opened, closed, comma = category("open"), category("close"), category("comma")
    article, preposition = category("article"), category("place_preposition")
    line_start = after(line_end)
    line_start[0] = True
    quantity = number | category("number_word")
    # which tokens each feature counts
    sizes = {"words": word, "sentences": stop & before(capital | line_end | citation), "lines": line_end}
    marks = {
        "bars": bar,
        "items": line_start & (category("bullet") | (number & before(stop | closed))),
        "colons": category("colon"),
        "links": category("link"),
        "numbers": number,
        "years": year,
        "months": month & capital,
        "number_words": category("number_word"),
        "percents": category("percent"),
        "money": (number & after(category("currency"))) | (category("money_word") & after(quantity)),
        "measures": category("unit") & after(quantity),
        "capitalised": title & after((word & (uppers == 0)) | comma),
        "names": capital & after(capital),
        "initials": initial & before(stop),
        "mixed_case": mixed,
        "acronyms": acronym,
        "acronyms_in_parentheses": acronym & after(opened) & before(closed),
        "acronyms_spelt_out": _spelt_out(tokens, word, acronym, opened, closed),
        "abbreviation_words": category("abbreviation"),
        "in_name": place_name & after(preposition | (article & after(preposition))),
        "name_comma_name": place_name & after(comma) & after(after(capital)),
        "place_words": category("place"),
        "by_name": capital & after(category("by")),
        "person_words": category("person"),
        "organisation_words": category("organisation"),
        "reason_words": category("reason"),
        "is_a": article & after(category("copula")),
    }
    shares = {
        "function_words": category("function") | article | preposition | category("copula"),
        "capitals": capital,
    }
    flags = sizes | marks | shares
    counts = np.add.reduceat(np.stack(list(flags.values())), starts, axis=1, dtype=np.int32).astype(np.float64)
    count = dict(zip(flags, counts, strict=True))
    count["lines"] -= 1  # the line end that was added; in place, so that logs have it too
    logs = dict(zip(flags, np.log1p(counts), strict=True))
    letters = np.add.reduceat(np.where(word, size, 0), starts)
    every = lengths.astype(np.float64)
    figures = count["numbers"] + count["years"]
    amounts = count["number_words"] + count["percents"] + count["money"] + count["measures"]
    return {
        "characters": np.log1p(np.fromiter(map(len, texts), np.int64, len(texts))),
        **{name: logs[name] for name in sizes},
        "line_words": np.log1p(every / (1 + count["lines"])),
        **{name: logs[name] for name in marks},
        "function_word_rate": count["function_words"] / every,
        "number_rate": figures / every,
        "capital_rate": count["capitals"] / every,
        "word_length": np.log1p(letters / np.maximum(count["words"], 1)),
        "bar_rate": count["bars"] / every,
        "line_rate": count["lines"] / every,
        "any_number": np.minimum(figures, 1),
        "any_quantity": np.minimum(figures + amounts, 1),
    }


def _spelt_out(tokens: list[str], word: Flags, acronym: Flags, opened: Flags, closed: Flags) -> Flags:
    """Find acronyms whose letters are initials of words beside: "Field Separator (FS)", "FS (Field Separator)".

    Alone between parentheses any short word may be one, so that "field separator (fs)" in a lower-cased text is found too;
    then every word but for function words must give its letter, where capitals may skip any word.
    The loop runs over such words only, a few per passage at most.
    """
    found = np.zeros(len(tokens), np.bool_)
    alone = np.zeros(len(tokens), np.bool_)
    alone[1:-1] = word[1:-1] & opened[:-2] & closed[2:]
    for place in np.flatnonzero(alone).tolist():
        letters = _letters(tokens[place])
        if 2 <= len(letters) <= LONGEST_ACRONYM:
            words = tokens[max(0, place - 1 - 2 * len(letters)) : place - 1]
            if not acronym[place]:
                words = [token for token in words if token.lower() not in _SKIPPED][-len(letters) :]
            found[place] = _initials_in(letters, words)
    for place in (np.flatnonzero(acronym[:-1] & opened[1:])).tolist():
        letters = _letters(tokens[place])
        found[place] |= _initials_in(letters, tokens[place + 2 : place + 2 + 2 * len(letters)])
    return found


def _letters(acronym: str) -> str:
    """Letters of an acronym, lower-cased, without the s of a plural; of mixed case, its capitals."""
    letters = "".join(filter(str.isalpha, acronym))
    if not letters.isupper() and not letters.islower():
        letters = "".join(filter(str.isupper, letters))
    return letters.lower()


def _initials_in(letters: str, words: list[str]) -> bool:
    """Whether the letters are, in order, initials of some of the words; parts of hyphenated words count as words."""
    initials = iter([part[0] for word in words for part in word.lower().split("-") if part])
    return all(letter in initials for letter in letters)


SURFACE_FEATURES = tuple(_features([""]))
"""Names of the columns of :func:`surface_features`.

Counts, as ln(1 + count), each >= 0:

``characters``, ``words``
    Size of the passage. Words are tokens that start with a letter.
``sentences``, ``lines``, ``line_words``
    Full stops, question and exclamation marks before a capital letter or the end of a line; line breaks; tokens per line.
``bars``, ``items``, ``colons``, ``links``
    Marks of tables, lists, key-value lines and reference sections: ``|``; lines that start with a bullet or a number and a
    full stop; ``:`` and ``;``; ``http``, ``ISBN``, ``Retrieved`` and the like.
``numbers``, ``years``, ``months``, ``number_words``, ``percents``, ``money``, ``measures``
    Tokens that start with a digit, years apart; 1000 to 2099; names of months (not ``May``, which is mostly a verb);
    ``two``, ``dozen``; ``%``; amounts with a currency or ``million``; numbers before a unit. Citation marks do not count.
``capitalised``, ``names``, ``initials``, ``mixed_case``
    Capitalised words after a lower-case word or a comma; capitalised words after a capitalised word; single capitals before
    a full stop; words such as ``iPhone`` or ``POWER8``.
``acronyms``, ``acronyms_in_parentheses``, ``acronyms_spelt_out``, ``abbreviation_words``
    Words of two or more capitals; those between parentheses; those between parentheses whose letters are initials of the
    words before, or before parentheses with words of such initials; ``acronym``, ``stands``, ``short``.
``in_name``, ``name_comma_name``, ``place_words``
    ``in``, ``at``, ``near`` before a capitalised word that is no month; ``Armonk, New``; ``city``, ``headquartered``.
``by_name``, ``person_words``, ``organisation_words``
    ``by`` before a capitalised word; ``she``, ``founder``; ``Inc``, ``committee``.
``reason_words``, ``is_a``
    ``because``, ``refers``; ``is a``, ``are the``.

Rates, in [0, 1] but for the word length:

``function_word_rate``, ``number_rate``, ``capital_rate``, ``bar_rate``, ``line_rate``
    Share of all tokens that are function words (high in prose, low in lists), numbers, capitalised, bars, line breaks.
``word_length``
    ln(1 + mean length of a word in characters).
``any_number``, ``any_quantity``
    1 where a number or a year is there at all, else 0: the first one says more than all the others; the same with number
    words, percent signs, amounts of money and measures.
"""

N_SURFACE = len(SURFACE_FEATURES)
"""How many there are."""
