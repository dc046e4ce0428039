"""Why a passage stands where it stands: the parts of its score, the words that matched, the evidence of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semclass.candidates import Candidates, Order, Query
from semclass.types import ClassEvidence, Explanation, WordMatch

WORDS = 12
"""Words of a question that are shown at most: those that weigh most."""


def explain(
    query: Query, candidates: Candidates, found: Order, k: int, *, pieces: Sequence[str], classes: Sequence[str]
) -> list[Explanation]:
    """Explain the first k places of a new order.

    Parameters
    ----------
    query, candidates
        The question and its candidates.
    found
        Their order.
    k
        How many.
    pieces
        Text of each word piece of the vocabulary.
    classes
        Names of the classes.

    Returns
    -------
    list of Explanation
        In the new order.
    """
    explanations = []
    for place in found.order[:k].tolist():
        parts = {name: float(values[place]) for name, values in found.parts.items()}
        explanations.append(
            Explanation(
                parts=parts,
                total=sum(parts.values()),
                link="identity" if found.features is None else "sigmoid",
                words=word_matches(query, candidates, place, pieces),
                classes=class_evidence(query, candidates, place, classes),
            )
        )
    return explanations


def word_matches(query: Query, candidates: Candidates, place: int, pieces: Sequence[str]) -> tuple[WordMatch, ...]:
    """Find what met the question's words in one candidate.

    Parameters
    ----------
    query, candidates
        The question and its candidates.
    place
        Which candidate.
    pieces
        Text of each word piece of the vocabulary.

    Returns
    -------
    tuple of WordMatch
        At most `WORDS`, heaviest first; pieces that are no terms are left out.
    """
    terms, tokens = candidates.terms.row(place), candidates.tokens.row(place)
    read = len(query.tokens)
    idf = candidates.idf[query.terms[:read]].astype(np.float64)
    share = idf / max(idf.sum(), 1e-6)
    cosines = query.tokens @ tokens.T if len(tokens) else np.zeros((read, 0), np.float32)
    matches = []
    for row in np.argsort(-share, kind="stable")[:WORDS].tolist():
        if share[row] <= 0:
            break
        column = int(cosines[row].argmax()) if len(tokens) else -1
        matches.append(
            WordMatch(
                word=pieces[int(query.terms[row])],
                weight=float(share[row]),
                match=pieces[int(terms[column])] if len(tokens) else "",
                cosine=float(cosines[row, column]) if len(tokens) else 0.0,
                exact=bool((terms == query.terms[row]).any()),
            )
        )
    return tuple(matches)


def class_evidence(
    query: Query, candidates: Candidates, place: int, classes: Sequence[str]
) -> tuple[ClassEvidence, ...]:
    """Set the classes of the question beside those of one candidate, most asked for first."""
    asked, provided = query.probabilities.tolist(), candidates.probabilities[place].tolist()
    rows = [ClassEvidence(*row) for row in zip(classes, asked, provided, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.asked))
