"""Provides a retriever for LangChain, and a compressor that re-ranks the documents of any retriever.

Returned documents are copies, best first, with their ids and metadata, and with the score in
``metadata["relevance_score"]``.
"""

# ruff: noqa: E402 - import_extra says how LangChain is installed, before it is imported

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from semclass import HybridRetriever, Models, Passage
from semclass.plugins import import_extra
from semclass_integrations import shared

import_extra("langchain_core", "langchain", shared.PACKAGE)

from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field, model_validator

SCORE = "relevance_score"
"""Metadata key of a document's score, as in other re-rankers of LangChain."""


class SemclassRetriever(BaseRetriever):
    """Finds the passages that answer a question, in an index of semclass.

    A call also accepts `k` and the options of :meth:`semclass.HybridRetriever.search`, for this call only:
    ``retriever.invoke("Who built it?", k=2, where={"page": {"$gte": 3}})``.

    Attributes
    ----------
    retriever
        A :class:`semclass.HybridRetriever`, or an object with the same method ``search``.
    k, search_kwargs
        Options of :meth:`semclass.HybridRetriever.search`, such as ``{"method": "convex", "where": {...}}``. With
        ``"explain": True``, ``metadata["semclass"]`` has the other fields of a :class:`semclass.Hit`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    retriever: Any = Field(exclude=True, repr=False)
    k: int = Field(default=10, ge=1)
    search_kwargs: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], *, models: Models | None = None, **fields: Any
    ) -> SemclassRetriever:
        """Index documents in memory by :func:`to_passages`. `fields` are attributes of the retriever, such as `k`."""
        return cls(retriever=HybridRetriever.from_passages(to_passages(documents), models=models), **fields)

    @model_validator(mode="after")
    def _check(self) -> SemclassRetriever:
        shared.check_has(self.retriever, "search", "retriever", "HybridRetriever")
        shared.check_options(self.search_kwargs, shared.SEARCH, "search_kwargs")
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        options.pop("verbose", None)  # LangChain's own
        k = options.pop("k", self.k)
        shared.check_options(options, shared.SEARCH, "invoke")
        result = self.retriever.search(query, k, **{**self.search_kwargs, **options})
        return [
            Document(
                id=hit.id,
                page_content=hit.text,
                metadata={**hit.metadata, SCORE: hit.score, **shared.details_of(hit, result)},
            )
            for hit in result
        ]


class SemclassCompressor(BaseDocumentCompressor):
    """Re-ranks documents of any retriever by whether they answer the question.

    Documents need no ids, and two documents may have the same text. Documents without text come last, without a score.

    Attributes
    ----------
    reranker
        A :class:`semclass.Reranker`.
    top_n
        How many documents to return. If None, all documents are returned.
    score_threshold
        Smallest score of a returned document.
    rerank_kwargs
        Options of :meth:`semclass.Reranker.rerank`, such as ``{"method": "entail-stable"}``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Any = Field(exclude=True, repr=False)
    top_n: int | None = Field(default=3, ge=1)
    score_threshold: float | None = None
    rerank_kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> SemclassCompressor:
        shared.check_has(self.reranker, "rerank", "reranker", "Reranker")
        shared.check_options(self.rerank_kwargs, shared.RERANK, "rerank_kwargs")
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return copies of the documents that answer the question, best first. `callbacks` are not used."""
        texts = [(document.page_content, document.metadata) for document in documents]
        ranked = shared.rerank(self.reranker, query, texts, self.top_n, self.score_threshold, self.rerank_kwargs)
        return [
            documents[place].model_copy(
                update={"metadata": {**documents[place].metadata, **({} if score is None else {SCORE: score}), **added}}
            )
            for place, score, added in ranked
        ]


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents to index. A document without an id gets its place, from 0, as id."""
    return [
        Passage(str(place) if document.id is None else document.id, document.page_content, dict(document.metadata))
        for place, document in enumerate(shared.check_documents(documents, "documents", Document))
    ]
