"""Tokens of passages as surface features see them: what a token is, the category of its form, the kind of a character."""

from __future__ import annotations

import re

import numpy as np

TOKEN = re.compile(
    r"\[[\w* ]{1,4}\]"  # a citation mark, as [12] or [a]: no number, no acronym
    r"|\d+(?:[.,]\d+)*(?![^\W_])"  # a number: 7, 1,400, 3.83
    r"|[^\W_]+(?:['’-][^\W_]+)*"  # a word, perhaps with digits or hyphens: city, O'Brien, POWER8, 16-bit
    r"|[^\w\s]|\n"  # one punctuation mark, or the end of a line
)

WORDS = {
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

CODES = {name: code for code, name in enumerate([*WORDS, "year"], 1)}
LEXICON = {
    word: CODES[name] for name, words in reversed(WORDS.items()) for word in (words.split(" ") if words else [])
} | {str(year): CODES["year"] for year in range(1000, 2100)}

LOWER, UPPER, DIGIT, CASELESS = range(1, 5)


def _kind(character: str) -> int:
    """Kind of a character; 0 for punctuation."""
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
