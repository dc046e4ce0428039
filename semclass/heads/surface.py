"""Surface features: what can be read off a passage's spelling, without an encoder.

Vectors of an uncased encoder blur what spelling says plainly: a figure, a year, a capital letter in mid-sentence, an
acronym in parentheses behind its words, the bars of a table. A passage is cut into tokens by one regular expression;
every token gets a category from one look-up and a shape from its characters; features count tokens, and pairs of
neighbours, by both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray

Flags = npt.NDArray[np.bool_]

_TOKEN = re.compile(
    r"\[[\w* ]{1,4}\]"  # a citation mark, as [12] or [a]: no number, no acronym
    r"|\d+(?:[.,]\d+)*(?![^\W_])"  # a number: 7, 1,400, 3.83
    r"|[^\W_]+(?:['’-][^\W_]+)*"  # a word, perhaps with digits or hyphens: city, O'Brien, POWER8, 16-bit
    r"|[^\w\s]|\n"  # one punctuation mark, or the end of a line
)

_WORDS = {
    "citation": "",
    "line_end": "\n",
    "stop": ". ! ?",
    "comma": ",",
    "colon": ": ;",
    "open": "(",
    "close": ")",
    "bar": "|",
    "bullet": "- * • –",
    "percent": "% percent",
    "currency": "$ € £ ¥ ₹ us$",
    "money_word": "dollar dollars euro euros pound pounds yen usd eur gbp million billion trillion crore",
    "month": "january february march april june july august september october november december",
    "number_word": "two three four five six seven eight nine ten eleven twelve dozen hundred hundreds thousand thousands "
    "half third quarter second fourth twice",
    "unit": "km m cm mm nm kg g mg ml kb mb gb tb mhz ghz hz w kw mw v ft inches inch feet mile miles acre acres metres "
    "meters bit bits byte bytes second seconds minute minutes hour hours day days week weeks month months year years "
    "degrees people employees percent times",
    "abbreviation": "abbreviated abbreviation abbreviations acronym acronyms initialism stands stand short aka",
    "place_preposition": "in at near from to across throughout around",
    "by": "by",
    "place": "located headquarters headquartered city cities country countries state states town village river lake sea "
    "ocean island islands mountain region province county district capital street avenue road airport north south east "
    "west northern southern eastern western border coast united america europe asia africa",
    "person": "he she his her him who whose born died married wife husband son daughter founder founders co-founder "
    "ceo president chairman director minister king queen professor dr mr mrs sir author authors engineer scientist "
    "wrote invented",
    "organisation": "inc corp corporation ltd llc company companies group team university committee agency department "
    "bank association organization organisation acquired founded",
    "reason": "because since due therefore thus hence means refers called defined describes process allows enables used "
    "using such through order while although however",
    "copula": "is are was were",
    "article": "a an the",
    "function": "of and that for it as with on which be been has have had or not this these its their can may also but",
    "link": "http https www isbn doi pdf retrieved archived",
}
"""Categories of tokens, by lower-cased form. A form that two categories list has the first one's category."""

_CODES = {name: code for code, name in enumerate([*_WORDS, "year"], 1)}
_LEXICON = {
    word: _CODES[name] for name, words in reversed(_WORDS.items()) for word in (words.split(" ") if words else [])
} | {str(year): _CODES["year"] for year in range(1000, 2100)}

_SKIPPED = frozenset({"a", "an", "and", "at", "for", "in", "of", "on", "the", "to"})
"""Function words that give an acronym no letter."""

_LOWER, _UPPER, _DIGIT, _CASELESS = range(1, 5)


def _kind(character: str) -> int:
    """Kind of a character; 0 for punctuation."""
    if character.islower():
        return _LOWER
    if character.isupper():
        return _UPPER
    if character.isdecimal():
        return _DIGIT
    return _CASELESS if character.isalnum() else 0


# Latin, Greek and Cyrillic as Unicode has them; beyond, all are letters without case, but for the block of symbols
_KINDS = np.full(0x2C01, _CASELESS, np.uint8)
_KINDS[0x2000:0x2C00] = 0
_KINDS[:0x600] = [_kind(chr(place)) for place in range(0x600)]

SURFACE_FEATURES = (
    "characters",
    "words",
    "sentences",
    "lines",
    "line_words",
    "bars",
    "items",
    "colons",
    "links",
    "numbers",
    "years",
    "months",
    "number_words",
    "percents",
    "money",
    "measures",
    "capitalised",
    "names",
    "initials",
    "mixed_case",
    "acronyms",
    "acronyms_in_parentheses",
    "acronyms_spelt_out",
    "abbreviation_words",
    "in_name",
    "name_comma_name",
    "place_words",
    "by_name",
    "person_words",
    "organisation_words",
    "reason_words",
    "is_a",
    "function_word_rate",
    "number_rate",
    "capital_rate",
    "word_length",
    "bar_rate",
    "line_rate",
    "any_number",
    "any_quantity",
)
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

_BLOCK = 256
"""Passages that are taken apart together."""

LONGEST_ACRONYM = 8
"""Letters of the longest word between parentheses that is compared with the words before it."""


def surface_features(texts: Sequence[str]) -> FloatArray:
    """Read surface features off passages.

    Parameters
    ----------
    texts
        n passages; any text, also an empty one.

    Returns
    -------
    ndarray
        float32 of shape (n, N_SURFACE), all finite and >= 0; columns are `SURFACE_FEATURES`. A row depends on its own text
        alone.
    """
    features = np.zeros((len(texts), N_SURFACE), np.float32)
    for start in range(0, len(texts), _BLOCK):  # tokens of a whole collection would fill the memory
        features[start : start + _BLOCK] = _features(texts[start : start + _BLOCK])
    return features


def _features(texts: Sequence[str]) -> FloatArray:
    """Surface features of at least one text, in one pass."""
    rows = [_TOKEN.findall(text) for text in texts]
    for row in rows:
        row.append("\n")  # every text ends a line: no pair reaches over two texts, and no text is without tokens
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    starts = np.cumsum(lengths) - lengths
    tokens = list(chain.from_iterable(rows))
    total = len(tokens)

    code = np.fromiter(map(_LEXICON.get, map(str.lower, tokens), repeat(0)), np.uint8, total)
    size = np.fromiter(map(len, tokens), np.int64, total)
    ends = np.cumsum(size)
    begins = ends - size
    # a lone surrogate is no valid text, but no reason to fail either
    characters = np.frombuffer("".join(tokens).encode("utf-32-le", "surrogatepass"), np.uint32)
    kind = _KINDS[np.minimum(characters, len(_KINDS) - 1)]
    first = kind[begins]
    uppers = np.add.reduceat(kind == _UPPER, begins, dtype=np.int32)
    lowers = np.add.reduceat(kind == _LOWER, begins, dtype=np.int32)
    humps = np.zeros(len(kind), np.bool_)
    humps[1:] = (kind[1:] == _UPPER) & ((kind[:-1] == _LOWER) | (kind[:-1] == _DIGIT))
    humps[1:] |= (kind[1:] == _DIGIT) & (kind[:-1] == _UPPER)
    humps[begins] = False

    word = (first == _LOWER) | (first == _UPPER) | (first == _CASELESS)
    year = code == _CODES["year"]
    number = (first == _DIGIT) & ~year
    citation = (characters[begins] == ord("[")) & (size > 1)
    plural = (lowers == 1) & (characters[ends - 1] == ord("s"))  # PCs
    acronym = word & (uppers >= 2) & ((lowers == 0) | plural)
    initial = (first == _UPPER) & (size == 1)
    title = (first == _UPPER) & ~acronym & ~initial
    mixed = word & np.logical_or.reduceat(humps, begins)
    capital = title | acronym | mixed
    month = code == _CODES["month"]
    place_name = capital & ~month

    def category(name: str) -> Flags:
        return np.equal(code, _CODES[name])

    def after(flags: Flags) -> Flags:
        """Whether the token before has the flag."""
        return np.concatenate([[False], flags[:-1]])

    def before(flags: Flags) -> Flags:
        """Whether the token behind has the flag."""
        return np.concatenate([flags[1:], [False]])

    line_end, stop, bar = category("line_end"), category("stop"), category("bar")
    opened, closed, comma, article = category("open"), category("close"), category("comma"), category("article")
    line_start = after(line_end)
    line_start[0] = True
    quantity = number | category("number_word")
    counted = np.stack(
        [
            word,
            stop & before(capital | line_end | citation),
            line_end,
            bar,
            line_start & (category("bullet") | (number & before(stop | closed))),
            category("colon"),
            category("link"),
            number,
            year,
            month & capital,
            category("number_word"),
            category("percent"),
            (number & after(category("currency"))) | (category("money_word") & after(quantity)),
            category("unit") & after(quantity),
            title & after((word & (uppers == 0)) | comma),
            capital & after(capital),
            initial & before(stop),
            mixed,
            acronym,
            acronym & after(opened) & before(closed),
            _spelt_out(tokens, word, acronym, opened, closed),
            category("abbreviation"),
            place_name & after(category("place_preposition") | (article & after(category("place_preposition")))),
            place_name & after(comma) & after(after(capital)),
            category("place"),
            capital & after(category("by")),
            category("person"),
            category("organisation"),
            category("reason"),
            article & after(category("copula")),
            category("function") | article | category("place_preposition") | category("copula"),
            capital,
        ]
    )
    count = np.add.reduceat(counted, starts, axis=1, dtype=np.int32).astype(np.float64)
    count[2] -= 1  # the line end that was added
    letters = np.add.reduceat(np.where(word, size, 0), starts)
    text_sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    every = lengths.astype(np.float64)
    words, lines, bars, numbers, years = count[0], count[2], count[3], count[7], count[8]
    function, capitals = count[-2], count[-1]
    features = np.stack(
        [
            np.log1p(text_sizes),
            *np.log1p(count[:3]),
            np.log1p(every / (1 + lines)),
            *np.log1p(count[3:-2]),
            function / every,
            (numbers + years) / every,
            capitals / every,
            np.log1p(letters / np.maximum(words, 1)),
            bars / every,
            lines / every,
            np.minimum(numbers + years, 1),
            np.minimum(count[7:9].sum(axis=0) + count[10:14].sum(axis=0), 1),
        ],
        axis=1,
    )
    return features.astype(np.float32)


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
