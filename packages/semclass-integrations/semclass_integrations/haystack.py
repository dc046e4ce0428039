"""Components for Haystack 3: a retriever and a ranker.

``warm_up`` or the first run loads the models. Components with the same folders share the models. Documents are copied.
Components save only names and numbers, so that Haystack can write a pipeline as YAML. To read such a YAML file,
Haystack must trust this module: call ``Pipeline.loads(text, allowed_modules=["semclass_integrations.*"])``. A pipeline
opens the folders and models that it names, so read only pipelines of people that you trust.
"""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from semclass import HybridRetriever, InputError, Models, Passage, PassageIndex, Reranker
from semclass.plugins import check_positive, check_text, import_extra, short
from semclass_integrations import shared

import_extra("haystack", "haystack", shared.PACKAGE)

from haystack import Document, component
from haystack.errors import FilterError

_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_NOTHING: dict[str, Any] = {"$not": {}}


class FilterInputError(InputError, FilterError):
    """A filter is malformed, or cannot be translated."""


@lru_cache(maxsize=4)
def _models(models: str | None, encoder: str | None, threads: int) -> Models:
    return Models.load(models, encoder=encoder, threads=threads)


class HaystackComponent:
    """Base class of both components, which loads models on first use. Haystack saves attributes named like arguments."""

    models: str | None
    encoder: str | None
    threads: int
    top_k: int
    method: str
    explain: bool
    _loaded: Any

    # no __init__: Haystack's decorator makes a new class of each component, in which super() fails
    def _take(
        self,
        models: str | Path | None,
        encoder: str | Path | None,
        threads: int,
        top_k: int,
        method: str,
        explain: bool,
    ) -> None:
        shared.check_options({"method": method}, shared.RERANK, type(self).__name__)
        self.models, self.encoder = (None if path is None else str(path) for path in (models, encoder))
        self.threads, self.top_k = check_positive(threads, "threads"), check_positive(top_k, "top_k")
        self.method, self.explain, self._loaded = method, explain, None

    def _open(self, models: Models) -> Any:
        raise NotImplementedError

    def warm_up(self) -> None:
        """Load the models, unless they are loaded."""
        if self._loaded is None:
            self._loaded = self._open(_models(self.models, self.encoder, self.threads))


@component
class SemclassRetriever(HaystackComponent):
    """Finds the passages of a saved index that answer a query.

    It is a text retriever (``run(query, filters, top_k)``), so it also works in ``MultiQueryTextRetriever``.

    Parameters
    ----------
    index
        Folder that :meth:`semclass.PassageIndex.save` or ``semclass index build`` wrote.
    models, encoder, threads
        See :meth:`semclass.Models.load`. The encoder must be the one that built the index.
    filters
        Filter of the passages that the search may find, see :func:`to_where`.
    top_k, method
        See :meth:`semclass.HybridRetriever.search`. Use the method ``"convex"`` if a ranker follows.
    explain
        Whether to add the other fields of a :class:`semclass.Hit` as ``meta["semclass"]``.
    """

    def __init__(
        self,
        index: str | Path,
        *,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        method: str = "default",
        explain: bool = False,
    ) -> None:
        self._take(models, encoder, threads, top_k, method, explain)
        self.index, self.filters = str(index), filters
        if filters:
            to_where(filters)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Return the passages as ``documents`` with ids, texts, metadata and scores, best first.

        `filters` and `top_k` replace those of the constructor. A filter that cannot be applied raises a
        ``FilterInputError``, a subclass of Haystack's ``FilterError``.
        """
        self.warm_up()
        chosen = filters or self.filters
        where = to_where(chosen) if chosen else None
        limit = self.top_k if top_k is None else top_k
        result = self._loaded.search(query, limit, method=self.method, where=where, explain=self.explain)
        added = [shared.details_of(hit, result) for hit in result]
        return {
            "documents": [
                Document(id=hit.id, content=hit.text, meta={**hit.metadata, **more}, score=hit.score)
                for hit, more in zip(result, added, strict=True)
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Await :meth:`run`, which runs in a thread."""
        return await asyncio.to_thread(self.run, query, filters, top_k)

    def _open(self, models: Models) -> HybridRetriever:
        return HybridRetriever(PassageIndex.load(self.index), models)


@component
class SemclassRanker(HaystackComponent):
    """Re-ranks documents by whether they answer the query. Documents without text come last, without a score.

    Parameters
    ----------
    models, encoder, threads, explain
        See :class:`SemclassRetriever`.
    top_k
        How many documents to return, at least 1.
    score_threshold
        Smallest score of a returned document.
    method
        A method of :meth:`semclass.Reranker.rerank`.
    meta_fields_to_embed
        Fields of ``meta`` to read before the content, one per line, such as ``["title"]``.
    """

    def __init__(
        self,
        models: str | Path | None = None,
        *,
        encoder: str | Path | None = None,
        threads: int = 1,
        top_k: int = 10,
        score_threshold: float | None = None,
        method: str = "default",
        meta_fields_to_embed: list[str] | None = None,
        explain: bool = False,
    ) -> None:
        self._take(models, encoder, threads, top_k, method, explain)
        self.score_threshold = score_threshold
        self.meta_fields_to_embed = list(meta_fields_to_embed or [])

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None, score_threshold: float | None = None
    ) -> dict[str, list[Document]]:
        """Return copies of the ``documents`` with new scores, best first.

        `top_k` and `score_threshold` replace those of the constructor.
        """
        self.warm_up()
        items = shared.check_documents(documents, "documents", Document)
        least = self.score_threshold if score_threshold is None else score_threshold
        limit = self.top_k if top_k is None else check_positive(top_k, "top_k")
        options = {"method": self.method, "explain": self.explain}
        texts: list[tuple[str, dict[str, Any]]] = [(self._text(item), {}) for item in items]
        ranked = shared.rerank(self._loaded, query, texts, limit, least, options)
        return {
            "documents": [
                replace(items[place], score=score, meta={**items[place].meta, **added})
                for place, score, added in ranked
            ]
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, documents: list[Document], top_k: int | None = None, score_threshold: float | None = None
    ) -> dict[str, list[Document]]:
        """Await :meth:`run`, which runs in a thread."""
        return await asyncio.to_thread(self.run, query, documents, top_k, score_threshold)

    def _open(self, models: Models) -> Reranker:
        return Reranker(models)

    def _text(self, document: Document) -> str:
        fields = [document.meta.get(name) for name in self.meta_fields_to_embed]
        return "\n".join([*(str(value) for value in fields if value not in (None, "")), document.content or ""])


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents with content. They keep ids and metadata. A ``title`` is read before the content."""
    return [
        Passage(item.id, check_text(item.content or "", f"content of document {item.id!r}"), dict(item.meta))
        for item in shared.check_documents(documents, "documents", Document)
    ]


def to_where(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a filter of Haystack to a filter of semclass. Raises a :class:`FilterInputError` if this is impossible.

    You can filter by fields of ``meta`` (``"meta.page"``, or ``"page"``) and by ``"id"``. The filter selects the same
    documents as in Haystack with three exceptions. A list in ``meta`` matches if one of its elements matches, 1 is not
    equal to ``True``, and values of different types do not match.
    """
    try:
        operator, of_field = filters["operator"], "field" in filters
        value = filters["value" if of_field else "conditions"]
        if of_field:
            return _comparison(filters["field"], operator, value)
        parts = [to_where(part) for part in value]
        if operator not in ("AND", "OR", "NOT"):
            raise FilterInputError(f"the filters have the operator {short(operator)}; use 'AND', 'OR' or 'NOT'")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FilterInputError(
            f"the filters {short(filters)} are malformed; set field, operator and value, or operator and conditions"
        ) from error
    if operator == "NOT":
        return {"$not": {"$and": parts}} if parts else {}
    return {f"${operator.lower()}": parts} if parts else {} if operator == "AND" else _NOTHING


def _comparison(field: str, operator: str, value: Any) -> dict[str, Any]:
    """Compare a field. None means a missing field. A date is equal to the same instant in another notation."""
    path = "_id" if field == "id" else field.removeprefix("meta.")
    if operator in _ORDER:
        if isinstance(value, list) or (isinstance(value, str) and not _is_date(value)):
            raise FilterInputError(f"the filter on {field!r} has {short(value)}; give a number, or a date in ISO 8601")
        return _NOTHING if value is None else {path: {_ORDER[operator]: value}}  # nothing is more than None
    if operator not in ("==", "!=", "in", "not in") or ("in" in operator and not isinstance(value, list)):
        raise FilterInputError(f"{field!r} has {operator!r} with {short(value)}; use a known operator, a list for 'in'")
    values = value if "in" in operator else [value]
    dates = [item for item in values if path != "_id" and isinstance(item, str) and _is_date(item)]
    parts: list[dict[str, Any]] = [{path: {"$gte": date, "$lte": date}} for date in dates]
    parts += [{path: None}] if None in values else []
    plain = [item for item in values if item is not None and item not in dates]
    parts += [{path: {"$in": plain}}] if plain else []
    equal = {"$or": parts} if parts else _NOTHING
    return equal if operator in ("==", "in") else {"$not": equal}


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
