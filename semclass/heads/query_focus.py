"""Finds the sentences of a text that ask, and the sentences that belong to the question.

People describe a problem before they ask: "I have a Lumo router. Its light is red. How do I reset it?". Sentences that
belong to the question help to answer it. Other sentences, such as a forwarded message, drown the question. Rules find
the sentences that ask and the sentences to which they refer ("it"). Another sentence is kept if its vector is near the
vector of one of these sentences. A question that names no topic ("What is the best way?") is about the text before it,
so this text is kept. A head detects such a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from semclass.core.types import Encoder
from semclass.documents.sentences import MAX_SENTENCE_WORDS, sentence_spans
from semclass.heads.head import Head
from semclass.scoring.vectors import float_products, unit

SHORT = 25
"""A text of at most this number of words is read in full. Such a text has little besides its question, or is a heading
such as "Breast cancer clinics. Do they work?".
"""

SHORTEST = 4
"""Minimum number of characters of a sentence. "Why?" is a sentence, a single mark is not."""

NEAREST = 0.225
"""Minimum cosine with a sentence that asks, for another sentence to belong to the question. It was chosen on texts of 15
sentences on other subjects: in encyclopedia, medicine and policies, at most a tenth of these texts keep any of these
sentences.
"""

NEAR = 30
"""Maximum number of words between two questions that are kept together, whatever their topics."""

LAST = 5_000
"""Number of characters at the end of a text whose sentences are compared with the sentences that ask. It bounds the
time of long texts.
"""

PIECES = 254
"""Maximum number of word pieces of a question's sentences that are read. An encoder may read fewer."""

GENERIC = "generic"
"""The only class of the head that detects questions without a topic of their own; also the name of its folder."""

# none of these takes quadratic time for long runs of white space or of marks
_SEVERAL = re.compile(r"[.?!][\"')\]”’]*\s|[。！？\n]")
_ITEM = re.compile(
    r"(?<!\s)\s+(?:[-*•–]|\d{1,2}[.)])\s"
)  # in a line of its own: an item of a list stays with the sentence before
_WRAP = re.compile(r"\n(?=[^\S\n]*[a-z])")  # a sentence goes on in the next line
_PARAGRAPH = re.compile(r"\n\s*\n")
_INITIALS = re.compile(r"(?<!\.)\b(?:\w\.){2,}(?=\s)")  # "G.M.T." ends no sentence
_MARK = re.compile(r"\w\W{0,3}[?？](?!\w)")
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had)"
_PREPOSITION = r"(?:(?:about|at|by|for|from|in|of|on|to|under|with)\s+)?"
_BEGIN = rf"{_PREPOSITION}(?:who|whom|whose|what|which|why|how|(?:when|where)\s+{_AUXILIARY})\b"
_REQUEST = re.compile(
    r"\W*(?:(?:and|but|so|then|also|now|please|kindly|hello|hi)\W+)*"
    rf"(?:{_BEGIN}"
    rf"|{_AUXILIARY}\s+(?:i|you|we|he|she|it|they|there|the|this|that|these|those|an?|any|my|your|our|someone|anyone)"
    r"|tell|explain|describe|list|name|find|give|show|help|compare|summari[sz]e|looking for|interested in"
    r"|(?:(?:any|some)\s+)?(?:articles?|details|documents?|information|papers?|references?)\s+(?:about|concerning|on|that|which)"
    r"|(?:i|we)\s+(?:need|seek|want|wish|wonder|would)|(?:i|we)'d\s+(?:like|rather)"
    r"|(?:i|we)(?:'m|'re|\s+am|\s+are)\s+(?:\w+\s+)?(?:interested|looking|searching|trying|wondering))\b",
    re.IGNORECASE,
)
_ASKED = re.compile(rf"\b{_BEGIN}", re.IGNORECASE)
_CLOSING = re.compile(
    r"\W*(?:thanks|thank you|thx|cheers|best|kind|warm|regards|yours|sincerely|greetings)\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:'\w+)?")
_REFERRING = "he him his she her it its they them their theirs this that these those one ones so"
_EMPTY = (
    "a about advice an and any anybody anyone are as at be been best but by can could did do does for from get go "
    "going had happen happened happening happens has have help how i idea ideas if in is know may me mean means "
    "might must my need of on or other our please should somebody someone suggestions the then there think thoughts "
    "to us was we were what when where which who whom whose why will with would wrong you your"
)
_REFERENCES = frozenset(_REFERRING.split())
_SAY_LITTLE = _REFERENCES.union(_EMPTY.split())
_REFERRING_WORDS = 3  # other words of a sentence that refers to the one before


@dataclass(frozen=True)
class Focus:
    """The part of a text that a search reads."""

    text: str  #: the sentences that ask and the sentences that belong to them: the search reads them
    question: str  #: the sentences that ask: these are classified


@dataclass(frozen=True)
class _Parts:
    """The sentences of a text, by their places."""

    sentences: list[str]
    asks: list[int]  #: places of the sentences that ask
    needed: list[int]  #: places of these sentences, and of the sentences to which they refer
    context: list[int]  #: places of the sentences before them, if they name no topic
    question: str  #: the sentences that ask, at most their last `MAX_SENTENCE_WORDS` words


def is_question(text: str) -> bool:
    """Return whether a text asks for something, by a question mark or by its words, and does not only name a topic."""
    return bool(_MARK.search(text) or _ASKED.search(text) or _REQUEST.match(text))


def questions_of(texts: Sequence[str]) -> list[str]:
    """Return the sentences of each text that ask. A short text, or a text of one sentence, is returned in full."""
    parts = [_parts(text) for text in texts]
    return [text if each is None else each.question for text, each in zip(texts, parts, strict=True)]


def load_generic(models: Path, encoder_fingerprint: str) -> Head | None:
    """Load the head that detects generic questions, trained for an encoder. Returns None if there is no head."""
    folder = models / GENERIC
    return Head.load(folder, encoder=encoder_fingerprint) if folder.exists() else None


def query_focus(encoder: Encoder, texts: Sequence[str], generic: Head | None = None) -> list[Focus]:
    """Find the part of each text that asks. The encoder runs only for texts of several sentences and over `SHORT` words."""
    found = []
    for text in texts:
        parts = _parts(text)
        if parts is None:
            found.append(Focus(text, text))
            continue
        kept = _belonging(encoder, parts, generic)
        whole = len(kept) == len(parts.sentences)
        found.append(Focus(text if whole else " ".join(parts.sentences[place] for place in kept), parts.question))
    return found


def _parts(text: str) -> _Parts | None:
    """The sentences of a text and which of them ask; None for a single one, or a short text."""
    count = len(text.split())
    if count <= SHORT or (count <= MAX_SENTENCE_WORDS and not _SEVERAL.search(text.strip())):
        return None  # the common case, and the one where microseconds count
    hidden = _ITEM.sub(lambda found: "," * len(found[0]) if "\n" in found[0] else found[0], text)
    hidden = _WRAP.sub(" ", hidden)
    hidden = _INITIALS.sub(lambda found: "," * len(found[0]), hidden)
    spans = list(sentence_spans(hidden, shortest=SHORTEST))
    sentences = [" ".join(text[start:end].split()) for start, end in spans]
    if len(sentences) < 2:
        return None
    marked = [place for place, sentence in enumerate(sentences) if _MARK.search(sentence)]
    behind = range(marked[-1] + 1 if marked else 0, len(sentences))
    asks = marked + [place for place in behind if _REQUEST.match(sentences[place])]
    asking = bool(asks)
    if not asking:
        said = [place for place in behind if not _CLOSING.match(sentences[place])]
        asks = [(said or behind)[-1]]
    lengths = [len(sentence.split()) for sentence in sentences]
    apart = [number for number, (one, other) in enumerate(pairwise(asks), 1) if sum(lengths[one + 1 : other]) > NEAR]
    asks = asks[apart[-1] if apart else 0 :]
    needed = set(asks)
    for place in asks:
        while place > 0 and place - 1 not in needed and _refers_back(sentences[place]):
            place -= 1
            needed.add(place)
    ends = [bool(_PARAGRAPH.search(text, end, start)) for (_, end), (start, _) in pairwise(spans)]
    if not asking:
        needed.update(_said(sentences, _before(asks[0], ends)))
    question = " ".join(sentences[place] for place in _last(lengths, asks, MAX_SENTENCE_WORDS))
    return _Parts(sentences, asks, sorted(needed), _said(sentences, _about(asks[0], ends)), question)


def _said(sentences: Sequence[str], places: Iterable[int]) -> list[int]:
    """Places of sentences, without thanks and greetings."""
    return [place for place in places if not _CLOSING.match(sentences[place])]


def _before(place: int, ends: Sequence[bool]) -> range:
    """Sentences before one in its paragraph; `ends` says for each but the last whether a paragraph ends there."""
    start = place
    while start > 0 and not ends[start - 1]:
        start -= 1
    return range(start, place)


def _about(place: int, ends: Sequence[bool]) -> range:
    """Subject of a generic question: its paragraph or, where it begins that, the one before; else all that follows."""
    if place == 0:
        return range(1, len(ends) + 1)
    return range(_before(place - 1, ends).start, place)


def _refers_back(sentence: str) -> bool:
    """Whether a sentence says little without the one before: "It is red.", "How do I reset it?", "What should I do?"."""
    words = _WORD.findall(sentence.lower())
    others = sum(word not in _SAY_LITTLE for word in words)
    return not others or words[0] in _REFERENCES or (others <= _REFERRING_WORDS and not _REFERENCES.isdisjoint(words))


def _last(sizes: Sequence[int], places: Sequence[int], most: int) -> list[int]:
    """The last ones of some places whose sizes add up to `most` or less, at least one."""
    ends = np.cumsum([sizes[place] for place in reversed(places)])
    return list(places[-max(int(np.searchsorted(ends, most, side="right")), 1) :])


def _belonging(encoder: Encoder, parts: _Parts, generic: Head | None) -> list[int]:
    """Places of the sentences that are needed or near those, as many as the encoder reads, the needed first."""
    texts, sizes = parts.sentences, [len(sentence) for sentence in parts.sentences]
    needed = _last(sizes, parts.needed, LAST)
    looked = sorted({*needed, *_last(sizes, parts.context, LAST), *_last(sizes, range(len(texts)), LAST)})
    encoding = encoder.encode([texts[place] for place in looked], views=("pooled",))
    vectors, pieces = encoding.rows("pooled"), encoding.terms.lengths().tolist()
    if generic is None:  # questions of function words alone: "Any ideas?"
        whole = all(_SAY_LITTLE.issuperset(_WORD.findall(texts[place].lower())) for place in parts.asks)
    else:
        asking = vectors[np.isin(looked, parts.asks)]
        whole = bool((generic.probabilities({"pooled": asking}) >= generic.thresholds[0]).all())
    subject = np.isin(looked, parts.context if whole else needed)  # a generic question is near to anything
    wanted = subject | np.isin(looked, needed)
    said = np.isin(looked, _said(texts, looked))
    units = unit(vectors)
    near = said & (float_products(units, units[subject]).max(axis=1, initial=-1) >= NEAREST)
    room = min(PIECES, encoding.limit or PIECES)
    kept: list[int] = []
    for row in [*np.flatnonzero(wanted)[::-1], *np.flatnonzero(near & ~wanted)[::-1]]:
        room -= pieces[row]
        if room < 0 and kept:
            break
        kept.append(looked[row])
    return sorted(kept)
