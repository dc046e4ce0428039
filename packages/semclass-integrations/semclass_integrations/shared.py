"""Shared parts of the adapters for frameworks: options, re-ranking, and added metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from semclass import Hit, InputError, InputTypeError, Passage, Reranker, SearchOptions, SearchResult
from semclass.plugins import short

DETAILS = "semclass"
"""Metadata field of a returned document that contains the other fields of its hit."""

PACKAGE = "semclass-integrations"
"""Distribution whose extras install the frameworks."""

SEARCH = tuple(field.name for field in fields(SearchOptions))
"""Options of a search."""

RERANK = ("method", "weights", "explain")
"""Options of re-ranking."""

_OF_HIT = ("labels", "probabilities", "components", "rank_before")
_OF_RESULT = ("query_used", "certainty", "answerable", "language")


def check_has(value: object, method: str, name: str, kind: str) -> None:
    """Refuse an object that lacks the method of a semclass object."""
    if not callable(getattr(value, method, None)):
        raise InputTypeError(f"{name} must be a semclass.{kind}, not {short(value)}")


def check_options(options: Mapping[str, Any], allowed: Sequence[str], name: str) -> None:
    """Refuse options that are not allowed, and unknown methods. Each framework has its own name for `k`."""
    if unknown := [option for option in options if option not in allowed]:
        raise InputError(f"{name} has {', '.join(map(repr, unknown))}; allowed are {', '.join(allowed)}")
    SearchOptions(**options)


def check_documents(items: Iterable[Any], name: str, *kinds: type) -> list[Any]:
    """Copy a sequence of a framework's documents into a list. Refuses a single document, a common mistake."""
    single = isinstance(items, (str, Mapping, *kinds)) or not isinstance(items, Iterable)
    documents = [items] if single else list(items)
    if wrong := documents if single else [item for item in documents if not isinstance(item, kinds)]:
        library = kinds[0].__module__.partition(".")[0]
        raise InputTypeError(f"{name} must be a list of {library}.{kinds[0].__name__}, but contains {short(wrong[0])}")
    return documents


def rerank(
    reranker: Reranker,
    question: str,
    texts: Sequence[tuple[str, Mapping[str, Any]]],
    k: int | None,
    threshold: float | None,
    options: Mapping[str, Any],
) -> list[tuple[int, float | None, dict[str, Any]]]:
    """Re-rank texts with their metadata. Returns the place, score and added metadata of each text, best first.

    Blank texts come last, without a score. A threshold leaves out blank texts and texts with a smaller score.
    """
    # documents may lack ids or share them: their places are unique
    passages = [Passage(str(place), *text) for place, text in enumerate(texts) if text[0].strip()]
    result = reranker.rerank(question, passages, k=k, **options)
    ranked: list[tuple[int, float | None, dict[str, Any]]] = [
        (int(hit.id), hit.score, details_of(hit, result))
        for hit in result
        if threshold is None or hit.score >= threshold
    ]
    if threshold is None:
        ranked += [(place, None, {}) for place, (text, _) in enumerate(texts) if not text.strip()]
    return ranked[:k]


def details_of(hit: Hit, result: SearchResult) -> dict[str, Any]:
    """Return the other fields of a hit and of its result as metadata, if the hit is explained."""
    if hit.explanation is None:
        return {}
    values = {name: getattr(hit, name) for name in _OF_HIT} | {name: getattr(result, name) for name in _OF_RESULT}
    details = {name: value for name, value in values.items() if value is not None}
    return {DETAILS: {**details, "explanation": asdict(hit.explanation)}}
