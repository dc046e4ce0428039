"""Questions made of passages by rules: headings, definitions, named things and numbers, first sentences, keywords.

The rules are English. Of a text in another language headings, first sentences and keywords give something.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from semclass.core.checks import check_choice
from semclass.core.types import FloatArray, Passage
from semclass.documents.sentences import split_sentences
from semclass.encoders.onnx_encoder import for_passages
from semclass.encoders.words import joined_pieces, mark_of
from semclass.heads.asked import asks
from semclass.index.passage_encoder import title_of
from semclass.ranking.models import Models

KINDS = ("heading", "definition", "entity", "first", "keywords")
"""What a question can be made of."""

QUESTIONS = KINDS[:3]
"""Kinds that ask for something. The others repeat their passage, and a search that is tuned on them trusts repetition."""

LONGEST = 24
"""Words of a question at most; of a longer sentence the clause around what is asked for is taken."""

SHORTEST = 5
"""Words of a question that a sentence is turned into, and of a first sentence, at least."""

KEYWORDS = 4
"""Words of a question of keywords."""

BETWEEN, BETWEEN_NUMBER = 8, 2
"""Words between the verb and what is asked for, and a number that is, at most: more of them make a tangle."""

CAPITAL, SMALL = -1.5, 0.0
"""Log-odds from which a word counts as part of a name, where names have capitals, and where nothing has."""

_TYPES = ("person", "organisation", "place", "date", "number")  # of the probe's first columns, in order
_GLUE = {"", " ", "-", ",", ".", ". "}  # what may stand between two words of one name
_ASKS = {"person": "who", "organisation": "which organisation", "place": "where", "date": "when"}
_SUBJECT = {"person": "Who", "organisation": "Which organisation", "place": "Which place"}
_FUNCTION_WORDS = r"the|an?|all|any|both|each|every|many|most|no|some"
_FUNCTION = re.compile(rf"(?:{_FUNCTION_WORDS}|\w+ing)\b", re.IGNORECASE)
_VAGUE_WORDS = (
    r"it|its|this|that|these|those|they|their|them|there|he|his|him|she|her|here|we|our|us|i|my|you|your|which|who|"
    r"what|where|when|if|such|another|other|also|but|and|however|following|example|one|since|because|while|although|"
    r"though|to|as|is|are|was|were"
)
_VAGUE = re.compile(rf"\b(?:{_VAGUE_WORDS})\b", re.IGNORECASE)
_BE = r"is|are|was|were"
_AUXILIARY = rf"{_BE}|has|have|had|can|could|will|would|should|must|may|might"
_SMALL = re.compile(
    rf"{_FUNCTION_WORDS}|{_AUXILIARY}|{_VAGUE_WORDS}|than|then|until|with|from|for|not|let", re.IGNORECASE
)
_NUMBER = re.compile(
    r"\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|dozen|hundred|thousand|million|billion"
)
_DATE = re.compile(
    r"(?:1[0-9]|20)\d\d|january|february|march|april|june|july|august|september|october|november|december"
)  # a word of a date
_DEFINITION = re.compile(
    rf"(?P<what>\S+(?:\s+\S+){{0,5}}?)\s+(?P<be>{_BE})\s+(?:an?|the|one\s+of|any)\s+\w", re.IGNORECASE
)
_MEANING = re.compile(r"(?P<what>\S+(?:\s+\S+){0,5}?)\s+(?P<verb>stands\s+for|refers\s+to|means)\s", re.IGNORECASE)
_CODE = re.compile(
    r"^\s*(?:pub(?:lic|\(\w+\))?\s+|export\s+|static\s+|async\s+|private\s+)*"
    r"(?P<kind>fn|def|func|function|class|struct|enum|trait|interface)\s+(?P<name>\w{3,})",
    re.MULTILINE,
)
_FUNCTIONS = ("fn", "def", "func", "function")
_CLAUSE = re.compile(
    rf"^(?P<subject>\S+(?:\s+\S+){{0,6}}?)\s+(?P<verb>{_AUXILIARY}|\w{{3,}}ed)(?:\s+(?P<rest>\S.*))?$", re.IGNORECASE
)
_BEGINS = r"in|on|at|by|since|during|from|for|with|after|before|under|of|about|some|nearly|over"
_LEADING = re.compile(rf"^(?:(?:{_BEGINS}|the|an?)\s+)+$", re.IGNORECASE)
_PHRASE = re.compile(rf"(?:{_BEGINS})\s", re.IGNORECASE)
_BARE = re.compile(r"\s*(?:the|a|about|some|nearly|over)?\s*", re.IGNORECASE)
_PREPOSITION = re.compile(r"\s+(?:in|at|on|since|during|near|until|around)(?:\s+the)?\s*$", re.IGNORECASE)
_LED = re.compile(
    r"(?:^|\s)(?:as|at|between|by|during|for|from|in|near|of|on|since|the|to|until|with)\s+$", re.IGNORECASE
)
_ENDED = re.compile(
    r"$|[,;:]|\s+(?:and|as|at|by|during|for|from|in|near|of|on|since|that|to|when|where|which|who|with)\b"
)
_VERB = re.compile(
    rf"\s+(?:also\s+|then\s+|later\s+)?(?:{_AUXILIARY}|\w{{2,}}ed|\w{{3,}}[^s]s|did|became|began|wrote|made|led|won)\s"
)
_COUNTED = re.compile(
    rf"\s+(?P<noun>[^\W\d_]{{3,}}(?:\s+[^\W\d_]{{3,}})??)(?=\s+(?:in|of|at|on|for|with|per|and|that|to|by|from|{_AUXILIARY})\b|$)"
)
_DANGLING = re.compile(r"\b(?:an?|and|of|the)$")
_SPACED = re.compile(r"\s+(?=[,.;:])")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_BREAK = re.compile(r"[,;:()]\s+|\s+--?\s+")
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_NUMBERED = re.compile(
    r"^(?:(?:(?:appendix|chapter|part|section)\s|§+)\s*(?:\d[\d.]*|[ivxlc]+|[a-z])(?:\s*[.:)–—-]\s*|\s+)"
    r"|\d+(?:\.\d+)*\s*[.:)]\s+|[ivx]+[.)]\s+|\d+(?:\.\d+)+\s+(?-i:(?=[^\W\d_a-z])))(?=\S)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[{}=<>;|\\`*_#&@\[\]]|://|\)\.|\w\.\w+\(")


@dataclass(frozen=True)
class Draft:
    """A question to a passage, before anything was checked."""

    text: str
    passage: str  #: its id
    kind: str  #: what it was made of
    answer: str = ""  #: words of the passage that answer it, where they are known


@dataclass(frozen=True)
class Span:
    """A named thing, a date or a number in a sentence."""

    start: int
    end: int
    kind: str


def write_by_rules(passages: Sequence[Passage], models: Models, kinds: Sequence[str] = QUESTIONS) -> Iterator[Draft]:
    """Write questions of some `KINDS` to each passage; those of names need models with a probe, ``models/match``."""
    for kind in kinds:
        check_choice(kind, KINDS, "kind")
    counts = Counter(word for passage in passages for word in set(_words(passage.text)))
    for passage in passages:
        sentences = split_sentences(passage.text) if passage.text.strip() else []
        sentences = [text for text in sentences if len(_MARKS.findall(text)) < 2]
        spans = find_spans(sentences if {"definition", "entity"} & set(kinds) else [], models)
        found = {
            "heading": ((text, "") for text in _headings(passage)),
            "definition": _definitions(passage.text, sentences, spans),
            "entity": _entities(sentences, spans, counts),
            "first": ((text, "") for text in _firsts(sentences)),
            "keywords": ((text, "") for text in _keywords(passage.text, counts, len(passages))),
        }
        for kind in kinds:
            for text, answer in dict(found[kind]).items():
                yield Draft(text, passage.id, kind, answer)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _headings(passage: Passage) -> Iterator[str]:
    """The heading, as a question where it tells how."""
    title, headings = _unnumbered(title_of(passage)), passage.metadata.get("headings")
    if isinstance(headings, list) and title and not passage.metadata.get("title"):
        named = [_unnumbered(heading) for heading in headings if isinstance(heading, str) and heading.strip()]
        title = ": ".join(named[-1 - (len(named[-1].split()) == 1) :])
    if len(_LETTERS.findall(title)) < 2 or len(title.split()) > LONGEST:
        return
    plain = title.rstrip(" .:")
    first, _, rest = plain.partition(" ")
    if first.lower() != "how" and asks(title):
        yield title
    elif first.lower() == "how" and rest.lower().startswith("to "):
        yield f"How do I {rest[3:]}?"
    elif first.lower().endswith("ing") and len(first) > 5 and rest:
        yield f"How do I go about {_inside(plain)}?"
    else:
        yield plain


def _unnumbered(heading: str) -> str:
    """A heading without its number, which nobody asks for."""
    return _NUMBERED.sub("", heading.strip())


def _definitions(text: str, sentences: Sequence[str], spans: Sequence[Sequence[Span]]) -> Iterator[tuple[str, str]]:
    """Ask what is defined: "X is a ...", "X stands for ...", or by name in source code."""
    for sentence, named in zip(sentences, spans, strict=True):
        if (found := _DEFINITION.match(sentence)) and _says_something(found["what"]):
            person = any(span.kind == "person" and span.start < found.end("what") for span in named)
            yield f"{'Who' if person else 'What'} {found['be'].lower()} {_inside(found['what'])}?", sentence
        elif (found := _MEANING.match(sentence)) and _says_something(found["what"]):
            verb, *others = found["verb"].lower().split()
            infinitive = " ".join([verb.removesuffix("s"), *others])
            yield f"What does {_inside(found['what'])} {infinitive}?", sentence
    for found in _CODE.finditer(text):
        kind, name = found["kind"], found["name"]
        yield (f"What does the function {name} do?" if kind in _FUNCTIONS else f"What is the {kind} {name} for?"), ""


def _says_something(what: str) -> bool:
    return bool(_LETTERS.search(what)) and not _VAGUE.search(what) and not re.search(r"[,;:()]", what)


def _entities(
    sentences: Sequence[str], spans: Sequence[Sequence[Span]], counts: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Ask for the named things, dates and numbers of each sentence."""
    for sentence, found in zip(sentences, spans, strict=True):
        for span in found:
            answer = sentence[span.start : span.end]
            question = None if _VAGUE.search(answer) else asked_for(sentence, span, counts)
            if question is not None and question.count("(") == question.count(")") and question.count('"') % 2 == 0:
                yield question, answer


def find_spans(sentences: Sequence[str], models: Models) -> list[list[Span]]:
    """Where each sentence names people, organisations, places, dates and numbers, by the probe for token vectors."""
    if models.placed is None or not sentences:
        return [[] for _ in sentences]
    probe = models.placed.probe
    encoding = for_passages(models.encoder).encode(list(sentences), views=("tokens",))
    tokens, pieces, vocabulary = encoding.pieces("tokens"), encoding.pieces_read(), models.encoder.vocabulary
    mark, cased = mark_of(vocabulary), any(text[1:] != text[1:].lower() for text in sentences)
    found = []
    for row, sentence in enumerate(sentences):
        evidence = (tokens.row(row) @ probe[:-1] + probe[-1])[:, : len(_TYPES)]
        words, owner = joined_pieces([vocabulary[piece] for piece in pieces.row(row)], mark)
        most = np.full((len(words), len(_TYPES)), -np.inf, np.float32)
        np.maximum.at(most, owner, evidence)
        found.append(list(_spans(sentence, words, most, cased=cased)))
    return found


def _spans(sentence: str, words: Sequence[str], evidence: FloatArray, *, cased: bool) -> Iterator[Span]:
    """Runs of words of one type that stand beside one another."""
    plain = "".join(unicodedata.normalize("NFD", character.lower())[0] for character in sentence)
    place, runs = 0, list[Span]()
    for word, row in zip(words, evidence, strict=True):
        start = plain.find(word, place)
        if start < 0 or not any(map(str.isalnum, word)):
            continue
        place = start + len(word)
        kind = _kind(word, row, cased=cased, capital=sentence[start].isupper(), first=not start)
        joins = runs and kind == runs[-1].kind and (_GLUE | {", "} if kind == "date" else _GLUE)
        if joins and plain[runs[-1].end : start] in joins:
            start = runs.pop().start
        runs.append(Span(start, place, kind))
    return (span for span in runs if span.kind)


def _kind(word: str, evidence: FloatArray, *, cased: bool, capital: bool, first: bool) -> str:
    """Type of a word; empty if it is none."""
    best = int(evidence.argmax())
    if _DATE.fullmatch(word):
        return "date"
    if _NUMBER.fullmatch(word):
        return "number"
    least = CAPITAL if cased and not first else SMALL
    return _TYPES[best] if best < 3 and evidence[best] > least and (capital or not cased) else ""


def asked_for(sentence: str, span: Span, counts: Mapping[str, int]) -> str | None:
    """A question whose answer is a span of a sentence, None where no form fits; `counts` of the words of all passages."""
    before, after = sentence[: span.start], sentence[span.end :].rstrip(" .!?;:")
    if len(sentence.split()) > LONGEST:
        before, after = _BREAK.split(before)[-1], _BREAK.split(after, maxsplit=1)[0]
    asked, subject = _ASKS.get(span.kind, ""), _SUBJECT.get(span.kind, "")
    if span.kind == "number":
        asked, after = _how_many(after)
        subject = asked.capitalize()
    if not asked:
        return None
    text = ""
    if before.strip() and not _LEADING.match(f"{before.rstrip()} "):
        if span.kind == "number" or (_LED.search(before) and _ENDED.match(after)):
            text = _inverted(asked, before, after, counts)
    elif subject and _BARE.fullmatch(before) and _VERB.match(after):
        text = subject + after
    elif span.kind in ("place", "date") and before.strip():
        text = _inverted(asked, after.lstrip(" ,"), "", counts)
    text = _SPACED.sub("", " ".join(text.split())).rstrip(" .,;:")
    if not SHORTEST <= len(text.split()) <= LONGEST or _DANGLING.search(text):
        return None
    return f"{text}?"


def _how_many(after: str) -> tuple[str, str]:
    """How a number is asked for by what it counts, and what follows; empty where that is not told."""
    if percent := re.match(r"\s*(?:%|per\s?cent)", after):
        return "what percentage", after[percent.end() :]
    counted = _COUNTED.match(after)
    return ("", after) if counted is None else (f"how many {counted['noun']}", after[counted.end() :])


def _inverted(asked: str, before: str, after: str, counts: Mapping[str, int]) -> str:
    """Put the auxiliary before the subject, "did" where there is none; empty if no verb comes before what is asked for."""
    found = _CLAUSE.match(before.strip())
    if found is None or not _says_something(found["subject"]) or _PHRASE.match(found["subject"]):
        return ""
    verb, rest = found["verb"].lower(), found["rest"] or ""
    if len(rest.split()) > (BETWEEN_NUMBER if asked.startswith(("how many", "what percentage")) else BETWEEN):
        return ""
    if verb.endswith("ed"):
        infinitive = _infinitive(verb, counts)
        if not infinitive:
            return ""
        verb, rest = "did", f"{infinitive} {rest}"
    if asked in ("where", "when"):
        rest = _PREPOSITION.sub("", f" {rest}")
    return f"{asked.capitalize()} {verb} {_inside(found['subject'])} {rest} {after}"


def _infinitive(past: str, counts: Mapping[str, int]) -> str:
    """The infinitive of a regular past: of the possible ones that which the passages have most often; empty if none."""
    stem = past[:-2]
    forms = [stem, f"{stem}e"]
    if stem.endswith("i"):
        forms.append(f"{stem[:-1]}y")
    if stem[-1] == stem[-2]:
        forms.append(stem[:-1])
    best = max(forms, key=lambda form: counts.get(form, 0))
    return best if best in counts else ""


def _firsts(sentences: Sequence[str]) -> Iterator[str]:
    """The first sentence, as a statement."""
    for sentence in sentences[:1]:
        words = sentence.rstrip(" .").split()
        if len(words) >= SHORTEST and len(_LETTERS.findall(sentence)) >= SHORTEST:
            yield " ".join(words[:LONGEST])


def _keywords(text: str, counts: Mapping[str, int], passages: int) -> Iterator[str]:
    """The words that say most of a text, in its order."""
    words = [word for word in _words(text) if _LETTERS.search(word) and not _SMALL.fullmatch(word)]
    weight = {word: log(1 + count) * log(1 + passages / counts[word]) for word, count in Counter(words).items()}
    best = sorted(weight, key=lambda word: (-weight[word], words.index(word)))[:KEYWORDS]
    if len(best) == KEYWORDS:
        yield " ".join(sorted(best, key=words.index))


def _inside(text: str) -> str:
    """A text as it stands inside a sentence: an article or the like at its beginning is lower-cased."""
    return text[0].lower() + text[1:] if _FUNCTION.match(text) else text
