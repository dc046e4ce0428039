"""Provides a retriever for LangChain, and a compressor that re-ranks the documents of any retriever.

Returned documents are copies, best first, with their ids and metadata, and with the score in
``metadata["relevance_score"]``. Models are loaded on first use, and copies of an object share its models. You can
pickle an object made from paths, and write it as JSON with ``langchain_core.load.dumps``. You cannot do this with an
object made from loaded models.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from semclass.core.errors import InputError, SemclassError, import_extra
from semclass.core.tools import in_thread
from semclass.core.types import Hit, Passage
from semclass.ranking.models import Models
from semclass.ranking.reranker import Reranker
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import HybridRetriever
from semclass_integrations import shared

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import BeforeValidator, ConfigDict, Field, model_validator
except ImportError:
    import_extra("langchain_core", "langchain")  # names the extra
    raise

SCORE = "relevance_score"
"""Metadata key of a document's score, as in other re-rankers of LangChain."""


PathText = Annotated[str | None, BeforeValidator(lambda path, info: shared.path_text(path, info.field_name))]


class SemclassRetriever(BaseRetriever):
    """Finds the passages that answer a question, in an index of semclass.

    Each call also takes `k` and the options of :meth:`semclass.HybridRetriever.search`, for this call only:
    ``retriever.invoke("Who built it?", k=2, where={"page": {"$gte": 3}})``.

    Attributes
    ----------
    index, models, encoder, threads
        See :meth:`semclass.HybridRetriever.load`.
    retriever
        A loaded retriever in place of a folder, for example over a :class:`semclass.QdrantIndex`.
    k, search_kwargs
        Options of :meth:`semclass.HybridRetriever.search`, such as ``{"method": "convex", "where": {...}}``. A retriever
        with ``rewrite`` cannot be written as JSON.
    details
        Whether to add all other fields of a :class:`semclass.Hit` as ``metadata["semclass"]``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: PathText = None
    models: PathText = None
    encoder: PathText = None
    threads: int = Field(default=1, ge=1)
    retriever: Any = Field(default=None, exclude=True, repr=False)
    k: int = Field(default=10, ge=1)
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    details: bool = False
    loaded: Any = Field(default_factory=shared.Lazy, exclude=True, repr=False)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], *, models: Models | None = None, **fields: Any
    ) -> SemclassRetriever:
        """Index documents in memory. See :func:`to_passages`. `fields` are attributes of the retriever, such as `k`.

        ``retriever.retriever.index.save("my-index")`` saves the index. `models` defaults to the shipped models.
        """
        return cls(retriever=HybridRetriever.from_passages(to_passages(documents), models=models), **fields)

    @model_validator(mode="after")
    def _check(self) -> SemclassRetriever:
        if self.retriever is not None:
            shared.check_kind(self.retriever, HybridRetriever, "retriever")
        if (self.index is None) == (self.retriever is None):
            raise InputError("give either index (the folder of an index) or retriever (a semclass.HybridRetriever)")
        shared.check_options(self.search_kwargs, shared.SEARCH, "search_kwargs")
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether LangChain may write the object as JSON."""
        return True

    def to_json(self) -> Any:
        """Return the fields for LangChain to write. A loaded retriever cannot be written."""
        return self.to_json_not_implemented() if self.retriever is not None else super().to_json()

    def batch(self, inputs: list[str], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any) -> Any:
        """Search for several questions. The questions are encoded together before their runs begin."""
        found = self._search_many(inputs, kwargs)
        return super().batch(inputs, config, return_exceptions=return_exceptions, found=found, **kwargs)

    def _get_relevant_documents(
        self,
        /,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        found: Mapping[str, SearchResult] | None = None,
        **options: Any,
    ) -> list[Document]:
        k = options.get("k", self.k)
        result = found[query] if found else shared.search(self._opened(), query, k, self._options(options))
        return [
            Document(id=hit.id, page_content=hit.text, metadata=_metadata(hit, result, details=self.details))
            for hit in result
        ]

    _aget_relevant_documents = in_thread(_get_relevant_documents)

    def _search_many(self, queries: Sequence[str], given: Mapping[str, Any]) -> dict[str, SearchResult]:
        """Search for all; gives nothing if one is refused or each is rewritten, so that each run does and reports it."""
        try:
            options = self._options(given)
            if "rewrite" in options or "history" in options:
                return {}
            found = self._opened().search_many(queries, given.get("k", self.k), **options)
        except SemclassError:
            return {}
        return dict(zip(queries, found, strict=True))

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call; `verbose` is LangChain's own."""
        options = {name: value for name, value in given.items() if name not in ("k", "verbose")}
        shared.check_options(options, shared.SEARCH, "invoke")
        return {**self.search_kwargs, **options}

    def _opened(self) -> HybridRetriever:
        paths = self.index, self.models, self.encoder, self.threads
        used: HybridRetriever = self.retriever or self.loaded.get(shared.load_retriever, *paths)
        return used


class SemclassCompressor(BaseDocumentCompressor):
    """Re-ranks documents of any retriever by whether they answer the question.

    Documents need no ids, and two documents may have the same text. Documents without text are left out.

    Attributes
    ----------
    models, encoder, threads, reranker
        See :meth:`semclass.Reranker.load`. In place of paths, you can give a loaded `reranker`.
    top_n
        How many documents to return. If None, all documents are returned.
    score_threshold
        Least probability that a document answers the question. If the method has no probability, the least score.
    rerank_kwargs
        Options of :meth:`semclass.Reranker.rerank`, such as ``{"method": "default"}``.
    details
        See :class:`SemclassRetriever`. ``rank_before`` counts the documents that have text.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    models: PathText = None
    encoder: PathText = None
    threads: int = Field(default=1, ge=1)
    reranker: Any = Field(default=None, exclude=True, repr=False)
    top_n: int | None = Field(default=3, ge=1)
    score_threshold: float | None = None
    rerank_kwargs: dict[str, Any] = Field(default_factory=dict)
    details: bool = False
    loaded: Any = Field(default_factory=shared.Lazy, exclude=True, repr=False)

    @model_validator(mode="after")
    def _check(self) -> SemclassCompressor:
        if self.reranker is not None:
            shared.check_kind(self.reranker, Reranker, "reranker")
        shared.check_options(self.rerank_kwargs, shared.RERANK, "rerank_kwargs")
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Return copies of the documents that answer the question, best first. `callbacks` are not used."""
        texts = [shared.Text(document.page_content, document.metadata) for document in documents]
        paths = self.models, self.encoder, self.threads
        used = self.reranker or self.loaded.get(shared.load_reranker, *paths)
        ranked, result = shared.rerank(used, query, texts, self.top_n, self.score_threshold, self.rerank_kwargs)
        return [
            documents[place].model_copy(update={"metadata": _metadata(hit, result, details=self.details)})
            for place, hit in ranked
            if hit is not None
        ]

    acompress_documents = in_thread(compress_documents)


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents, to index them.

    A document without an id gets a hash of its text and metadata as id. Equal documents are numbered.
    """
    given = shared.check_items(documents, "documents", Document)
    return [
        Passage(name, document.page_content, dict(document.metadata))
        for name, document in zip(_ids(given), given, strict=True)
    ]


def to_hits(documents: Iterable[Document]) -> list[Hit]:
    """Make hits of documents, best first, for :func:`semclass.build_context`. A missing score becomes 0."""
    given = shared.check_items(documents, "documents", Document)
    return [
        shared.read_hit(name, item.page_content, item.metadata, item.metadata.get(SCORE), rank, drop=[SCORE])
        for rank, (name, item) in enumerate(zip(_ids(given), given, strict=True), 1)
    ]


def _metadata(hit: Hit, result: SearchResult, *, details: bool) -> dict[str, Any]:
    """A copy of the passage's metadata with the score, which replaces one of an earlier step."""
    return {**hit.metadata, SCORE: hit.score, **shared.details_of(hit, result, wanted=details)}


def _ids(documents: Sequence[Document]) -> list[str]:
    """The ids of documents; one without an id gets a hash of its content, made unique."""
    seen: Counter[str] = Counter()
    names = []
    for document in documents:
        name = document.id
        if name is None:
            content = json.dumps([document.page_content, document.metadata], sort_keys=True, default=str)
            digest = hashlib.sha256(content.encode()).hexdigest()[:16]
            seen[digest] += 1
            name = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
        names.append(name)
    return names
