"""Explains the place of a passage: the parts of its score, the words that matched, and the evidence of classes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semclass.core.types import ClassEvidence, Explanation, IntArray, Passage, WordMatch, offsets_of
from semclass.documents.sentences import LONGEST, Span, sentence_spans, unwrapped_spans
from semclass.encoders.batching import steps
from semclass.encoders.words import joined_pieces, mark_of
from semclass.index.records import Candidates, Query
from semclass.ranking.models import Models
from semclass.scoring.matmul import float_products

MAX_WORDS = 12
"""Most words of a question to show. The words with the largest weights are shown."""

WORD = re.compile(r"[^\W_]+")
"""Matches a word as it is written."""


@dataclass(frozen=True)
class _QuestionWords:
    """The words of a question that are shown: of each its occurrences, of each of these its pieces, in one row."""

    names: list[str]  #: as the text has them
    weights: list[float]
    rows: IntArray  #: pieces of all occurrences, places among those of the question that have token vectors
    occurrences: IntArray  #: where the rows of each occurrence begin
    words: IntArray  #: where the occurrences of each word begin


def explain(
    models: Models, query: Query, found: Candidates, places: IntArray, passages: Sequence[Passage]
) -> list[Explanation]:
    """Explain some places of a ranking of `passages`."""
    query.check(classes=models.has_classes, tokens=True)
    pieces, classes = models.encoder.vocabulary, models.passages.classes
    read = np.unique(np.concatenate([query.terms, *(found.evidence.pieces.row(place) for place in places)]))
    mark = mark_of([pieces[piece] for piece in read.tolist()])
    words = _question_words(query, found, pieces, mark)
    return [
        Explanation(
            parts=(parts := {name: float(values[place]) for name, values in found.parts.items()}),
            total=sum(parts.values()),
            words=_word_matches(query, words, found, place, pieces, mark, passages[place].text),
            classes=class_evidence(query, found, place, classes),
            sentence=nearest_sentence(query, found, place, passages[place].text),
        )
        for place in steps(places.tolist())
    ]


def _question_words(query: Query, candidates: Candidates, pieces: Sequence[str], mark: str) -> _QuestionWords:
    """Find the words of a question that weigh most."""
    terms = query.terms[: len(query.tokens)]
    idf = candidates.idf[terms].astype(np.float64)
    words, owner = joined_pieces([pieces[piece] for piece in terms.tolist()], mark)
    _, which = np.unique([folded(word) for word in words], return_inverse=True)
    weights = np.bincount(which[owner], idf) / max(idf.sum(), 1e-6)
    firsts = np.unique(which, return_index=True)[1]
    shown = [word for word in np.lexsort((firsts, -weights))[:MAX_WORDS].tolist() if weights[word] > 0]
    occurrences = [np.flatnonzero(which == word) for word in shown]
    rows = [np.flatnonzero(owner == one) for one in np.concatenate([*occurrences, np.zeros(0, np.int64)])]
    written = as_written(query.text)
    return _QuestionWords(
        [_written(words[ones[0]], "", written) for ones in occurrences],
        weights[shown].tolist(),
        np.concatenate([*rows, np.zeros(0, np.int64)]),
        offsets_of(np.array([len(row) for row in rows], np.int64)),
        offsets_of(np.array([len(ones) for ones in occurrences], np.int64)),
    )


def _word_matches(
    query: Query, words: _QuestionWords, candidates: Candidates, place: int, pieces: Sequence[str], mark: str, text: str
) -> tuple[WordMatch, ...]:
    """Find what met the question's words in one candidate, whose text is given."""
    if not words.names:
        return ()
    terms, tokens = candidates.evidence.pieces.row(place), candidates.evidence.tokens.row(place)
    theirs = [pieces[piece] for piece in terms.tolist()]
    others, other_of = joined_pieces(theirs, mark)
    mine = query.tokens[words.rows]
    cosines = float_products(mine, tokens) if len(tokens) else np.zeros((len(mine), 1), np.float32)
    nearest = cosines.max(axis=1, initial=-np.inf)
    there = np.isin(query.terms[words.rows], terms)
    # of the occurrence that is met best, the piece that is met worst
    worst = np.minimum.reduceat(nearest, words.occurrences[:-1])
    passage = as_written(text)
    matches = []
    for name, weight, first, last in zip(words.names, words.weights, words.words, words.words[1:], strict=False):
        best = first + int(worst[first:last].argmax())
        start, end = words.occurrences[best], words.occurrences[best + 1]
        row = start + int(nearest[start:end].argmin())
        column = int(cosines[row].argmax())
        matches.append(
            WordMatch(
                word=name,
                weight=weight,
                match=_written(others[other_of[column]], theirs[column], passage) if len(tokens) else "",
                cosine=float(nearest[row]),
                exact=bool(there[words.occurrences[first] : words.occurrences[last]].all()),
            )
        )
    return tuple(matches)


def as_written(text: str) -> dict[str, str]:
    """Return the words of a text, by their forms from :func:`folded`."""
    return {folded(word): word for word in reversed(WORD.findall(text))}


def folded(word: str) -> str:
    """Return a word in small letters without accents, as in many word pieces."""
    small = word.lower()
    if small.isascii():
        return small
    return "".join(letter for letter in unicodedata.normalize("NFD", small) if not unicodedata.combining(letter))


def _written(word: str, piece: str, words: dict[str, str]) -> str:
    """A word as a text has it; where its first pieces are not compared, the one that holds a later piece."""
    key = folded(word)
    if key in words or not piece.startswith("##"):
        return words.get(key, word)
    later = folded(piece[2:])
    return next((words[held] for held in words if later in held), word)


def nearest_sentence(query: Query, candidates: Candidates, place: int, text: str) -> Span | None:
    """Return the place of the candidate's sentence whose vector is nearest to the question's, with all of its lines."""
    vectors, spans = candidates.evidence.sentences.row(place), sentence_spans(text)
    if not len(spans) == len(vectors) > 0:
        return None
    read = spans[int((vectors @ query.pooled).argmax())]
    whole = next(span for span in unwrapped_spans(text) if span[0] <= read[0] < span[1])
    return whole if len(text[slice(*whole)].split()) <= LONGEST else read


def class_evidence(
    query: Query, candidates: Candidates, place: int, classes: Sequence[str]
) -> tuple[ClassEvidence, ...]:
    """Return the class probabilities of the question and of one candidate, most probable for the question first."""
    asked, provided = query.probabilities.tolist(), candidates.probabilities[place].tolist()
    rows = [ClassEvidence(*row) for row in zip(classes, asked, provided, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.asked))
