"""Components for Haystack 3 (extra ``haystack``): a ranker and a retriever.

``warm_up`` or the first run loads the models, and constructors do not. Components with the same encoder share it.
``close`` releases the models. Documents are copied. Components save only names and numbers, so that a pipeline can be
written as YAML. To read such a YAML file, Haystack must trust these modules. Call ``Pipeline.loads(text,
allowed_modules=["semclass_integrations.*"])``, or set the variable ``HAYSTACK_DESERIALIZATION_ALLOWLIST``. A pipeline
names the folders and models that it opens, so read only pipelines from people whom you trust to choose these.
"""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from semclass.core.checks import check_positive, check_text, check_texts, check_weight
from semclass.core.errors import InputTypeError, import_extra
from semclass.core.tools import in_thread
from semclass.core.types import Hit, Passage
from semclass.ranking.methods import DEFAULT
from semclass.ranking.reranker import Reranker
from semclass.ranking.retriever import HybridRetriever
from semclass_integrations import shared

import_extra("haystack", "haystack")

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy

from semclass_integrations.haystack_filters import to_where


class HaystackComponent:
    """Base class of all components.

    It holds paths of models, loads models on first use, and saves and reads components.
    """

    # no __init__: Haystack's decorator makes a new class of each component, in which super() fails
    def _take_models(self, models: str | Path | None, encoder: str | Path | None, threads: int) -> None:
        self.models = shared.path_text(models, "models")
        self.encoder = shared.path_text(encoder, "encoder")
        self.threads = check_positive(threads, "threads")
        self._loaded = shared.Lazy()

    def _model(self) -> Any:
        raise NotImplementedError

    def warm_up(self) -> None:
        """Load the models, unless they are already loaded."""
        self._model()

    warm_up_async = in_thread(warm_up, name="warm_up_async")

    def close(self) -> None:
        """Release the models. A later run loads the models again."""
        self._loaded.clear()

    def to_dict(self) -> dict[str, Any]:
        """Return the class and the arguments as JSON values."""
        names = [name for name in signature(type(self).__init__).parameters if name != "self"]
        data: dict[str, Any] = default_to_dict(self, **{name: getattr(self, name) for name in names})
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Make a component from the result of :meth:`to_dict`."""
        return default_from_dict(cls, data)


@component
class SemclassRanker(HaystackComponent):
    """Re-ranks documents by whether they answer the query.

    Parameters
    ----------
    models, encoder, threads
        Folder of the heads, their encoder, and the threads of the encoder. See :meth:`semclass.Models.load`. Defaults
        to the shipped models.
    top_k
        How many documents to return, at least 1.
    score_threshold
        Least probability that a document answers the query. If the method has no probability, the least score.
    method
        A method that re-ranks, see :data:`semclass.ranking.methods.METHODS`.
    meta_fields_to_embed
        Fields of ``meta`` to read before the content, one per line, such as ``["title"]``.
    details
        Whether to add all other fields of a :class:`semclass.Hit` to each copy as ``meta["semclass"]``.
    """

    def __init__(
        self,
        models: str | Path | None = None,
        *,
        encoder: str | Path | None = None,
        threads: int = 1,
        top_k: int = 10,
        score_threshold: float | None = None,
        method: str = DEFAULT,
        meta_fields_to_embed: list[str] | None = None,
        details: bool = False,
    ) -> None:
        self._take_models(models, encoder, threads)
        self.top_k = check_positive(top_k, "top_k")
        threshold = score_threshold
        self.score_threshold = None if threshold is None else check_weight(threshold, "score_threshold")
        self.method = method
        shared.check_options({"method": method}, shared.RERANK, "the ranker")
        self.meta_fields_to_embed = check_texts(meta_fields_to_embed or [], "meta_fields_to_embed")
        self.details = details

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None, score_threshold: float | None = None
    ) -> dict[str, list[Document]]:
        """Return ``documents``, which are copies with new scores, best first.

        If several documents have the same id, only the document with the highest score is kept. Documents without text
        come last and have no score. With a threshold, they are left out. `top_k` and `score_threshold` default to the
        values of the constructor.
        """
        limit = self.top_k if top_k is None else check_positive(top_k, "top_k")
        threshold = (
            self.score_threshold if score_threshold is None else check_weight(score_threshold, "score_threshold")
        )
        if not documents:
            return {"documents": []}
        check_text(query, "query")
        unique = _deduplicated(documents)
        texts = [shared.Text(self._text(item)) for item in unique]
        found, result = shared.rerank(self._model(), query, texts, limit, threshold, {"method": self.method})
        ranked = []
        for place, hit in found:
            meta = {**unique[place].meta, **shared.details_of(hit, result, wanted=self.details)}
            ranked.append(replace(unique[place], score=hit and hit.score, meta=meta))
        return {"documents": ranked}

    run_async = in_thread(run, name="run_async")

    def _model(self) -> Reranker:
        return self._loaded.get(shared.load_reranker, self.models, self.encoder, self.threads)

    def _text(self, document: Document) -> str:
        """What is read of a document."""
        fields = [document.meta.get(name) for name in self.meta_fields_to_embed]
        return "\n".join([*(str(value) for value in fields if value not in (None, "")), document.content or ""])


@component
class SemclassRetriever(HaystackComponent):
    """Finds the passages of a saved index that answer a query, by BM25, vectors and re-ranking.

    It is a text retriever (``run(query, filters, top_k)``), and works in ``MultiQueryTextRetriever``. Until ``close()`` it
    searches the index as it was opened.

    Parameters
    ----------
    index
        Folder that :meth:`semclass.PassageIndex.save` or ``semclass index build`` wrote.
    models, encoder, threads
        See :class:`SemclassRanker`. The encoder must be the one that built the index.
    filters
        Which passages the search may find, see :func:`semclass_integrations.haystack_filters.to_where`.
    filter_policy
        With ``"replace"``, filters of a run replace `filters`. With ``"merge"``, both must match.
    top_k, candidates, method
        See :meth:`semclass.HybridRetriever.search`. Use the method ``"convex"`` if a ranker follows.
    details
        See :class:`SemclassRanker`.
    rewrite
        A language model that rewrites the query first, given by ``way``, ``url`` and ``model``, such as ``{"way":
        "hyde", "url": "http://localhost:8000/v1", "model": "NAME"}``. ``timeout`` and ``retries`` are optional. See
        :class:`semclass_llm.rewriting.rewriter.Rewriter`. The key of the service is read from ``SEMCLASS_ENDPOINT_KEY``,
        and is never saved.

    Attributes
    ----------
    rewriter
        The rewriter, with the ``bill`` of all queries. None without `rewrite`.
    """

    def __init__(
        self,
        index: str | Path,
        *,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
        filters: dict[str, Any] | None = None,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
        top_k: int = 10,
        candidates: int | None = None,
        method: str = DEFAULT,
        details: bool = False,
        rewrite: dict[str, Any] | None = None,
    ) -> None:
        self._take_models(models, encoder, threads)
        if index is None:
            raise InputTypeError("index must be the folder of a saved index, not None")
        if filters:
            to_where(filters)
        self.index = shared.path_text(index, "index")
        self.filters = filters
        self.filter_policy = FilterPolicy(filter_policy).value
        self.top_k = check_positive(top_k, "top_k")
        self.candidates = None if candidates is None else check_positive(candidates, "candidates")
        self.method = method
        shared.check_options({"method": method}, shared.SEARCH, "the retriever")
        self.details = details
        self.rewrite, self.rewriter = rewrite, shared.load_rewriter(rewrite)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        history: list[str] | None = None,
    ) -> dict[str, list[Document]]:
        """Return ``documents``, which are passages with their ids, texts, metadata and scores, best first.

        `filter_policy` defines how `filters` combine with the filters of the constructor. A filter that cannot be
        applied raises a ``FilterInputError``, which is also Haystack's ``FilterError``. `top_k` defaults to the value
        of the constructor. `history` holds earlier questions and answers in turn, for `rewrite`.
        """
        limit = self.top_k if top_k is None else check_positive(top_k, "top_k")
        chosen = filters or self.filters
        if filters and self.filters and self.filter_policy == FilterPolicy.MERGE.value:
            chosen = {"operator": "AND", "conditions": [self.filters, filters]}
        where = to_where(chosen) if chosen else None
        options = {"method": self.method, "candidates": self.candidates, "where": where}
        result = shared.search(self._model(), query, limit, {**options, "rewrite": self.rewriter, "history": history})
        documents = []
        for hit in result:
            meta = {**hit.metadata, **shared.details_of(hit, result, wanted=self.details)}
            documents.append(Document(id=hit.id, content=hit.text, meta=meta, score=hit.score))
        return {"documents": documents}

    run_async = in_thread(run, name="run_async")

    def _model(self) -> HybridRetriever:
        return self._loaded.get(shared.load_retriever, self.index, self.models, self.encoder, self.threads)


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents with content, for :meth:`semclass.PassageIndex.build` and :func:`semclass.change_index`.

    Passages get the ids, contents and metadata of the documents. A ``title`` in ``meta`` is read before the content.
    """
    return [Passage(hit.id, hit.text, hit.metadata) for hit in to_hits(documents)]


def to_hits(documents: Iterable[Document]) -> list[Hit]:
    """Make hits of documents with content, best first, for :func:`semclass.build_context`.

    A missing score becomes 0.
    """
    given = shared.check_items(documents, "documents", Document)
    texts = [check_text(item.content or "", f"content of document {item.id!r}") for item in given]
    return [
        shared.read_hit(item.id, text, item.meta, item.score, rank)
        for rank, (item, text) in enumerate(zip(given, texts, strict=True), 1)
    ]


def _deduplicated(documents: Iterable[Document]) -> list[Document]:
    """Keep of each id the document with the highest score, the first of equals, where the first of them stands."""
    best: dict[str, Document] = {}
    for item in shared.check_items(documents, "documents", Document):
        other = best.setdefault(item.id, item)
        if item.score is not None and (other.score is None or item.score > other.score):
            best[item.id] = item
    return list(best.values())
