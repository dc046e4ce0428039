"""Why a passage stands where it stands: the parts of its score, the words that matched, the evidence of classes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from semclass.core.types import ClassEvidence, Explanation, Passage, WordMatch
from semclass.documents.sentences import LONGEST, Span, sentence_spans, unwrapped_spans
from semclass.encoders.words import joined_pieces, mark_of
from semclass.index.records import Candidates, Query

WORDS = 12
"""Words of a question that are shown at most: those that weigh most."""

WORD = re.compile(r"[^\W_]+")
"""A word as it is written."""


def explain(
    query: Query,
    found: Candidates,
    k: int,
    passages: Sequence[Passage],
    *,
    pieces: Sequence[str],
    classes: Sequence[str],
) -> list[Explanation]:
    """Explain the first k places of a ranking; `passages` are those of `found`."""
    explanations = []
    for place in found.places[:k].tolist():
        parts = {name: float(values[place]) for name, values in found.parts.items()}
        explanations.append(
            Explanation(
                parts=parts,
                total=sum(parts.values()),
                link="identity" if found.features is None else "sigmoid",
                words=word_matches(query, found, place, pieces, passages[place].text),
                classes=class_evidence(query, found, place, classes),
                sentence=nearest_sentence(query, found, place, passages[place].text),
            )
        )
    return explanations


def word_matches(
    query: Query, candidates: Candidates, place: int, pieces: Sequence[str], text: str
) -> tuple[WordMatch, ...]:
    """Find what met the question's words in one candidate, whose text is given."""
    terms, tokens = candidates.terms.row(place), candidates.tokens.row(place)
    asked = query.terms[: len(query.tokens)]
    idf = candidates.idf[asked].astype(np.float64)
    mine, theirs = ([pieces[piece] for piece in some.tolist()] for some in (asked, terms))
    mark = mark_of([*mine, *theirs])
    words, owner = joined_pieces(mine, mark)
    others, other_of = joined_pieces(theirs, mark)
    _, which = np.unique([folded(word) for word in words], return_inverse=True)
    of_pieces = which[owner]
    weights = np.bincount(of_pieces, idf) / max(idf.sum(), 1e-6)
    firsts = np.unique(which, return_index=True)[1]
    cosines = query.tokens @ tokens.T if len(tokens) else np.zeros((len(asked), 1), np.float32)
    nearest = cosines.max(axis=1, initial=-np.inf)
    there = np.isin(asked, terms)
    question, passage = as_written(query.text), as_written(text)
    matches = []
    for word in np.lexsort((firsts, -weights))[:WORDS].tolist():
        if weights[word] <= 0:
            break
        rows = np.flatnonzero(of_pieces == word)
        # of the occurrence that is met best, the piece that is met worst
        worst = [min(rows[owner[rows] == one], key=lambda row: nearest[row]) for one in np.unique(owner[rows])]
        row = max(worst, key=lambda row: nearest[row])
        column = int(cosines[row].argmax())
        matches.append(
            WordMatch(
                word=_written(words[owner[row]], "", question),
                weight=float(weights[word]),
                match=_written(others[other_of[column]], theirs[column], passage) if len(tokens) else "",
                cosine=float(nearest[row]),
                exact=bool(there[rows].all()),
            )
        )
    return tuple(matches)


def as_written(text: str) -> dict[str, str]:
    """The words of a text, by what :func:`folded` gives."""
    return {folded(word): word for word in reversed(WORD.findall(text))}


def folded(word: str) -> str:
    """A word in small letters without accents, as word pieces often have it."""
    return "".join(letter for letter in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(letter))


def _written(word: str, piece: str, words: dict[str, str]) -> str:
    """A word as a text has it; where its first pieces are not compared, the one that holds a later piece."""
    key = folded(word)
    if key in words or not piece.startswith("##"):
        return words.get(key, word)
    return next((words[held] for held in words if folded(piece[2:]) in held), word)


def nearest_sentence(query: Query, candidates: Candidates, place: int, text: str) -> Span | None:
    """Where the sentence of a candidate is whose vector is nearest to the question's, with all of its lines."""
    vectors, spans = candidates.sentences.row(place), sentence_spans(text)
    if not len(spans) == len(vectors) > 0:
        return None
    read = spans[int((vectors @ query.pooled).argmax())]
    whole = next(span for span in unwrapped_spans(text) if span[0] <= read[0] < span[1])
    return whole if len(text[slice(*whole)].split()) <= LONGEST else read


def class_evidence(
    query: Query, candidates: Candidates, place: int, classes: Sequence[str]
) -> tuple[ClassEvidence, ...]:
    """Probabilities of the classes in the question and in one candidate, those of the question falling."""
    asked, provided = query.probabilities.tolist(), candidates.probabilities[place].tolist()
    rows = [ClassEvidence(*row) for row in zip(classes, asked, provided, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.asked))
