"""Explains the place of a passage: the parts of its score, the words that matched, and the evidence of classes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from semclass.core.types import ClassEvidence, Explanation, FloatArray, IntArray, Passage, WordMatch
from semclass.documents.sentences import MAX_SENTENCE_WORDS, Span, sentence_spans, unwrapped_spans
from semclass.encoders.batching import steps
from semclass.encoders.onnx_encoder import for_passages
from semclass.encoders.words import joined_pieces, mark_of
from semclass.encoders.words import words as stem_words
from semclass.index.candidates import Candidates, Query
from semclass.index.remote import SearchIndex
from semclass.ranking.models import Models
from semclass.scoring.vectors import float_products

MAX_WORDS = 12  #: maximum number of words of a question to show, by weight
GENERAL_PASSAGES = 20
"""Number of passages of general text that are added to word frequencies."""

WORD = re.compile(r"[^\W_]+")

_Word: TypeAlias = tuple[str, float, list[IntArray]]
"""A word as the question writes it, its weight, and for each occurrence the places of its word pieces in the question."""


def explain(
    models: Models, query: Query, found: Candidates, passages: Sequence[Passage], idf: FloatArray
) -> list[Explanation]:
    """Explain the first places of a ranking, which hold `passages`. `idf` belongs to the question's word pieces, (m,)."""
    places = found.order[: len(passages)]
    pieces, classes = models.encoder.vocabulary, models.passages.classes
    read = np.unique(np.concatenate([query.terms, *(found.evidence.pieces.row(place) for place in places)]))
    mark = mark_of([pieces[piece] for piece in read.tolist()])
    words = _question_words(query, idf, pieces, mark)
    return [
        Explanation(
            parts=(parts := {name: float(values[place]) for name, values in found.parts.items()}),
            total=sum(parts.values()),
            words=_word_matches(query, words, found, place, pieces, mark, passage.text),
            classes=class_evidence(query, found, place, classes),
            sentence=best_sentence(models, query, words, found, place, passage.text),
        )
        for place, passage in zip(steps(places.tolist()), passages, strict=True)
    ]


def question_idf(query: Query, index: SearchIndex, models: Models) -> FloatArray:
    """Return the inverse document frequency in an index of the word of each word piece of a question, float32 (m,).

    No index counts function words, so they have the frequency of general text, or 0 if there is no pair head.
    """
    vocabulary = models.encoder.vocabulary
    pieces, stems = [vocabulary[piece] for piece in query.terms.tolist()], stem_words(index.language)
    texts, owner = joined_pieces(pieces, mark_of(pieces))
    first = np.array([next(iter(stems[text]), -1) for text in texts], np.int64)
    known = first[owner]
    own: FloatArray = index.statistics.idf(known.astype(np.uint32)) * (known >= 0)
    if models.pair_heads is None:
        return own
    usual, share = models.pairs.idf[query.terms], np.float32(len(index) / (len(index) + GENERAL_PASSAGES))
    return np.asarray(np.where(known >= 0, usual + share * (own - usual), usual), np.float32)


def _question_words(query: Query, idf: FloatArray, pieces: Sequence[str], mark: str) -> list[_Word]:
    """Find the words of a question that weigh most."""
    terms = query.terms[: len(query.tokens)]
    idf = idf[: len(terms)]
    words, owner = joined_pieces([pieces[piece] for piece in terms.tolist()], mark)
    _, firsts, which = np.unique([folded(word) for word in words], return_index=True, return_inverse=True)
    weights = np.bincount(which[owner], idf) / max(idf.sum(), 1e-6)
    written, shown = as_written(query.text), list[_Word]()
    for word in np.lexsort((firsts, -weights))[:MAX_WORDS].tolist():
        if weights[word] > 0:
            occurrences = [np.flatnonzero(owner == place) for place in np.flatnonzero(which == word)]
            shown.append((_written(words[firsts[word]], "", written), float(weights[word]), occurrences))
    return shown


def _word_matches(
    query: Query, words: list[_Word], candidates: Candidates, place: int, pieces: Sequence[str], mark: str, text: str
) -> tuple[WordMatch, ...]:
    """Find what met the question's words in one candidate."""
    terms, tokens = candidates.evidence.pieces.row(place), candidates.evidence.tokens.row(place)
    theirs = [pieces[piece] for piece in terms.tolist()]
    others, other_of = joined_pieces(theirs, mark)
    cosines = float_products(query.tokens, tokens) if len(tokens) else np.zeros((len(query.tokens), 1), np.float32)
    nearest, there = cosines.max(axis=1, initial=-np.inf), np.isin(query.terms[: len(query.tokens)], terms)
    passage, matches = as_written(text), list[WordMatch]()
    for name, weight, occurrences in words:
        # of the occurrence that is met best, the piece that is met worst
        best = max(occurrences, key=lambda rows: float(nearest[rows].min()))
        row = best[nearest[best].argmin()]
        column = int(cosines[row].argmax())
        match = _written(others[other_of[column]], theirs[column], passage) if len(tokens) else ""
        exact = all(there[rows].all() for rows in occurrences)
        matches.append(WordMatch(name, weight, match, float(nearest[row]), exact))
    return tuple(matches)


def as_written(text: str) -> dict[str, str]:
    """Return the words of a text, by their forms from :func:`folded`."""
    return {folded(word): word for word in reversed(WORD.findall(text))}


def folded(word: str) -> str:
    """Return a word in lower case and without accents, as the word pieces of many tokenizers are written."""
    small = word.lower()
    if small.isascii():
        return small
    return "".join(letter for letter in unicodedata.normalize("NFD", small) if not unicodedata.combining(letter))


def _written(word: str, piece: str, words: dict[str, str]) -> str:
    """Return a word as a text has it; where its first pieces are not compared, the one that holds a later piece."""
    key = folded(word)
    if key in words or not piece.startswith("##"):
        return words.get(key, word)
    later = folded(piece[2:])
    return next((written for form, written in words.items() if later in form), word)


def best_sentence(
    models: Models, query: Query, words: Sequence[_Word], candidates: Candidates, place: int, text: str
) -> Span | None:
    """Return the position of the candidate's sentence that is nearest to the question, with all of its lines.

    It has the largest sum of its late interaction with the question and the weights of the question's words in it.
    """
    spans, tokens = sentence_spans(text), candidates.evidence.tokens.row(place)
    theirs = [text[slice(*span)] for span in spans]
    written = map(as_written, theirs)
    values = np.array([sum(weight for word, weight, _ in words if folded(word) in own) for own in written])
    if spans and len(tokens) and len(query.tokens):
        found = for_passages(models.encoder).encode(theirs, views=())
        ends = (found.kept or found.terms).offsets[1:]
        ends = np.maximum(ends + len(tokens) - ends[-1], 0)  # a title, and a heading that it repeats, come first
        parts = np.split(float_products(query.tokens, tokens), ends[:-1], axis=1)
        values = values + [float(query.weights @ part.max(axis=1, initial=0)) for part in parts]
    if not values.any():
        return None
    read = spans[int(values.argmax())]
    whole = next(span for span in unwrapped_spans(text) if span[0] <= read[0] < span[1])
    return whole if len(text[slice(*whole)].split()) <= MAX_SENTENCE_WORDS else read


def class_evidence(
    query: Query, candidates: Candidates, place: int, classes: Sequence[str]
) -> tuple[ClassEvidence, ...]:
    """Return the class probabilities of the question and of one candidate, most probable for the question first."""
    asked, provided = query.probabilities.tolist(), candidates.probabilities[place].tolist()
    rows = [ClassEvidence(*row) for row in zip(classes, asked, provided, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.asked))
