"""Surface features: counts from a passage's spelling, which need no encoder.

Vectors of an uncased encoder blur figures, capital letters, acronyms in parentheses, and the bars of a table. A passage is
cut into tokens. Each token gets a category from one look-up, and a shape from its characters. The features count both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from semclass.core.types import DoubleArray, FloatArray

Flags = npt.NDArray[np.bool_]

TOKEN = re.compile(
    r"\[[\w* ]{1,4}\]"  # a citation mark, as [12] or [a]: no number, no acronym
    r"|\d+(?:[.,]\d+)*(?![^\W_])"  # a number: 7, 1,400, 3.83
    r"|[^\W_]+(?:['’-][^\W_]+)*"  # a word, perhaps with digits or hyphens: city, O'Brien, POWER8, 16-bit
    r"|[^\w\s]|\n"  # one punctuation mark, or the end of a line
)

WORD_KINDS = {
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
"""Categories of tokens, by lower-cased form. A form that is listed in two categories belongs to the first."""

CODES = {name: code for code, name in enumerate([*WORD_KINDS, "year"], 1)}
LEXICON = {word: CODES[name] for name, words in reversed(WORD_KINDS.items()) for word in words.split(" ")} | {
    str(year): CODES["year"] for year in range(1000, 2100)
}

LOWER, UPPER, DIGIT, CASELESS = range(1, 5)  # kinds of characters; 0: punctuation


def _kind(character: str) -> int:
    if character.islower():
        return LOWER
    if character.isupper():
        return UPPER
    if character.isdecimal():
        return DIGIT
    return CASELESS if character.isalnum() else 0


# Latin, Greek and Cyrillic as Unicode has them; beyond, all are letters without case, but for the block of symbols
KINDS = np.full(0x2C01, CASELESS, np.uint8)
KINDS[0x2000:0x2C00] = 0
KINDS[:0x600] = [_kind(chr(place)) for place in range(0x600)]

SKIPPED = frozenset({"a", "an", "and", "at", "for", "in", "of", "on", "the", "to"})  # they give an acronym no letter

LONGEST_ACRONYM = 8  # letters

BATCH = 256  # passages at a time: the tokens of a whole collection would fill the memory


def surface_features(texts: Sequence[str]) -> FloatArray:
    """Compute the surface features of passages."""
    features = np.zeros((len(texts), len(SURFACE_FEATURES)), np.float32)
    for start in range(0, len(texts), BATCH):
        columns = _features(texts[start : start + BATCH])
        features[start : start + BATCH] = np.stack(list(columns.values()), axis=1)
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
    form = {name: code == number for name, number in CODES.items()}
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
    number = (first == DIGIT) & ~form["year"]
    citation = (characters[begins] == ord("[")) & (size > 1)
    plural = (lowers == 1) & (characters[ends - 1] == ord("s"))  # PCs
    acronym = word & (uppers >= 2) & ((lowers == 0) | plural)
    initial = (first == UPPER) & (size == 1)
    title = (first == UPPER) & ~acronym & ~initial
    mixed = word & np.logical_or.reduceat(humps, begins)
    capital = title | acronym | mixed
    place_name = capital & ~form["month"]

    def after(flags: Flags) -> Flags:
        """Return whether the token before each token has the flag."""
        return np.concatenate([[False], flags[:-1]])

    def before(flags: Flags) -> Flags:
        """Return whether the token after each token has the flag."""
        return np.concatenate([flags[1:], [False]])

    line_end, stop, opened, closed = (form[name] for name in ("line_end", "stop", "open", "close"))
    comma, article, preposition = (form[name] for name in ("comma", "article", "place_preposition"))
    line_start = after(line_end)
    line_start[0] = True
    quantity = number | form["number_word"]
    # which tokens each feature counts
    sizes = {"words": word, "sentences": stop & before(capital | line_end | citation), "lines": line_end}
    marks = {
        "bars": form["bar"],
        "items": line_start & (form["bullet"] | (number & before(stop | closed))),
        "colons": form["colon"],
        "links": form["link"],
        "numbers": number,
        "years": form["year"],
        "months": form["month"] & capital,
        "number_words": form["number_word"],
        "percents": form["percent"],
        "money": (number & after(form["currency"])) | (form["money_word"] & after(quantity)),
        "measures": form["unit"] & after(quantity),
        "capitalised": title & after((word & (uppers == 0)) | comma),
        "names": capital & after(capital),
        "initials": initial & before(stop),
        "mixed_case": mixed,
        "acronyms": acronym,
        "acronyms_in_parentheses": acronym & after(opened) & before(closed),
        "acronyms_spelt_out": _spelt_out(tokens, word, acronym, opened, closed),
        "abbreviation_words": form["abbreviation"],
        "in_name": place_name & after(preposition | (article & after(preposition))),
        "name_comma_name": place_name & after(comma) & after(after(capital)),
        "place_words": form["place"],
        "by_name": capital & after(form["by"]),
        "person_words": form["person"],
        "organisation_words": form["organisation"],
        "reason_words": form["reason"],
        "is_a": article & after(form["copula"]),
    }
    shares = {"function_words": form["function"] | article | preposition | form["copula"], "capitals": capital}
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

    Alone between parentheses any short word may be one, as in "field separator (fs)"; then every word but for function
    words must give its letter. The loops run over such words only, a few per passage at most.
    """
    found = np.zeros(len(tokens), np.bool_)
    alone = np.zeros(len(tokens), np.bool_)
    alone[1:-1] = word[1:-1] & opened[:-2] & closed[2:]
    for place in np.flatnonzero(alone).tolist():
        letters = _letters(tokens[place])
        if 2 <= len(letters) <= LONGEST_ACRONYM:
            words = tokens[max(0, place - 1 - 2 * len(letters)) : place - 1]
            if not acronym[place]:
                words = [token for token in words if token.lower() not in SKIPPED][-len(letters) :]
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
"""Names of the columns: counts as ln(1 + count), then rates. The tests show an example of each."""
