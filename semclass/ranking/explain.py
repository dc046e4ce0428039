"""Why a passage stands where it stands: the parts of its score, the words that matched, the evidence of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semclass.core.types import ClassEvidence, Explanation, WordMatch
from semclass.index.records import Candidates, Query

WORDS = 12
"""Words of a question that are shown at most: those that weigh most."""


def explain(
    query: Query, found: Candidates, k: int, *, pieces: Sequence[str], classes: Sequence[str]
) -> list[Explanation]:
    """Explain the first k places of a ranking."""
    explanations = []
    for place in found.places[:k].tolist():
        parts = {name: float(values[place]) for name, values in found.parts.items()}
        explanations.append(
            Explanation(
                parts=parts,
                total=sum(parts.values()),
                link="identity" if found.features is None else "sigmoid",
                words=word_matches(query, found, place, pieces),
                classes=class_evidence(query, found, place, classes),
            )
        )
    return explanations


def word_matches(query: Query, candidates: Candidates, place: int, pieces: Sequence[str]) -> tuple[WordMatch, ...]:
    """Find what met the question's words in one candidate."""
    terms, tokens = candidates.terms.row(place), candidates.tokens.row(place)
    asked = query.terms[: len(query.tokens)]
    idf = candidates.idf[asked].astype(np.float64)
    found, firsts, owner = np.unique(asked, return_index=True, return_inverse=True)
    weights = np.bincount(owner, idf, len(found)) / max(idf.sum(), 1e-6)
    cosines = query.tokens @ tokens.T if len(tokens) else np.zeros((len(asked), 1), np.float32)
    nearest = cosines.max(axis=1, initial=-np.inf)
    matches = []
    for term in np.lexsort((firsts, -weights))[:WORDS].tolist():
        if weights[term] <= 0:
            break
        rows = np.flatnonzero(owner == term)
        row = int(rows[nearest[rows].argmax()])
        matches.append(
            WordMatch(
                word=pieces[int(found[term])],
                weight=float(weights[term]),
                match=pieces[int(terms[cosines[row].argmax()])] if len(tokens) else "",
                cosine=float(nearest[row]),
                exact=bool((terms == found[term]).any()),
            )
        )
    return tuple(matches)


def class_evidence(
    query: Query, candidates: Candidates, place: int, classes: Sequence[str]
) -> tuple[ClassEvidence, ...]:
    """Probabilities of the classes in the question and in one candidate, those of the question falling."""
    asked, provided = query.probabilities.tolist(), candidates.probabilities[place].tolist()
    rows = [ClassEvidence(*row) for row in zip(classes, asked, provided, strict=True)]
    return tuple(sorted(rows, key=lambda row: -row.asked))
