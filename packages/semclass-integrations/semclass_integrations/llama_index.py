"""Provides a retriever for LlamaIndex, and a node postprocessor that re-ranks. Both return copies of nodes.

semclass reads nodes as LlamaIndex's embedding models do, with all metadata except ``excluded_embed_metadata_keys``.
Only a title is not part of the text, but is read before each sentence.
"""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from semclass import Hit, HybridRetriever, InputError, InputTypeError, Passage
from semclass.plugins import check_positive, import_extra, short
from semclass_integrations import shared

import_extra("llama_index.core", "llama-index", shared.PACKAGE)

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import ConfigDict, Field, model_validator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.ANY: "$in",
    FilterOperator.CONTAINS: "$eq",
}

_NODE = "_node_content"  # key under which LlamaIndex's vector stores keep a node
_TITLE = "title"


class SemclassRetriever(BaseRetriever):
    """Finds the nodes that answer a question, in an index of semclass.

    Nodes that you indexed with :func:`to_passages` are returned unchanged. Other passages become ``TextNode``.

    If a query has texts to embed, for example from ``HyDEQueryTransform``, their mean vector replaces the vector of
    the question. Candidates are re-ranked for the question itself. The vector of a ``QueryBundle`` is ignored, because
    it may come from another encoder.

    Parameters
    ----------
    retriever
        A :class:`semclass.HybridRetriever`, or an object with the same method ``search``.
    similarity_top_k
        How many nodes to return.
    filters
        Filter of the passages that the search may find, see :func:`to_where`. Passages must also match `where`.
    callback_manager
        Callback manager, as in any retriever of LlamaIndex.
    **options
        Options of :meth:`semclass.HybridRetriever.search` except `k`, such as ``method="convex"``. With
        ``explain=True``, ``metadata["semclass"]``, which models ignore, has the other fields of a
        :class:`semclass.Hit`.
    """

    def __init__(
        self,
        retriever: HybridRetriever,
        *,
        similarity_top_k: int = 10,
        filters: MetadataFilters | None = None,
        callback_manager: Any = None,
        **options: Any,
    ) -> None:
        shared.check_has(retriever, "search", "retriever", "HybridRetriever")
        shared.check_options(options, shared.SEARCH, "SemclassRetriever")
        if filters is not None:
            options["where"] = {"$and": [to_where(filters), options.get("where") or {}]}
        self._retriever, self._options = retriever, options
        self._top_k = check_positive(similarity_top_k, "similarity_top_k")
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question, texts = query_bundle.query_str, query_bundle.custom_embedding_strs
        if texts and texts != [question]:
            result = self._retriever.search(question, self._top_k, texts=texts, **self._options)
        else:
            result = self._retriever.search(question, self._top_k, **self._options)
        return [
            NodeWithScore(node=_noted(_to_node(hit), shared.details_of(hit, result)), score=hit.score) for hit in result
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class SemclassRerank(BaseNodePostprocessor):
    """Re-ranks nodes by whether they answer the question.

    Nodes without text, such as pictures, come last, in their order and without a score.

    Attributes
    ----------
    reranker
        A :class:`semclass.Reranker`.
    top_n
        How many nodes to return, at least 1.
    score_threshold
        Smallest score of a returned node.
    options
        Options of :meth:`semclass.Reranker.rerank`, such as ``{"method": "entail-stable"}``.
    """

    model_config = ConfigDict(extra="forbid")

    reranker: Any = Field(exclude=True, repr=False)
    top_n: int = Field(default=10, ge=1)
    score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> SemclassRerank:
        shared.check_has(self.reranker, "rerank", "reranker", "Reranker")
        shared.check_options(self.options, shared.RERANK, "options")
        return self

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in serialised forms."""
        return "SemclassRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("re-ranking needs a question; pass query_bundle or query_str")
        texts = [_read(node.node) if _has_text(node.node) else ("", {}) for node in nodes]
        ranked = shared.rerank(
            self.reranker,
            query_bundle.query_str,
            texts,
            self.top_n,
            self.score_threshold,
            self.options,
        )
        return [
            NodeWithScore(node=_noted(deepcopy(nodes[place].node), added), score=score)
            for place, score, added in ranked
        ]


def to_where(filters: MetadataFilters) -> dict[str, Any]:
    """Translate LlamaIndex's metadata filters to a filter of semclass.

    All operators except ``text_match`` and ``text_match_insensitive`` can be translated. ``any``, ``all`` and
    ``contains`` compare the elements of a list. ``not`` matches if none of its filters matches.

    Raises
    ------
    InputError, InputTypeError
        If a filter cannot be translated, a key begins with ``$``, or `filters` is not a ``MetadataFilters``.
    """
    if not isinstance(filters, MetadataFilters):
        raise InputTypeError(f"filters must be LlamaIndex MetadataFilters, not {short(filters)}")
    parts = [to_where(part) if isinstance(part, MetadataFilters) else _term(part) for part in filters.filters]
    if not parts or filters.condition in (None, FilterCondition.AND):
        return {"$and": parts} if parts else {}
    return {"$or": parts} if filters.condition == FilterCondition.OR else {"$not": {"$or": parts}}


def _term(term: MetadataFilter) -> dict[str, Any]:
    key, value, operator = term.key, term.value, term.operator
    if not key or key.startswith("$"):
        raise InputError(f"a filter has the key {key!r}; use the name of a field, which may not begin with '$'")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"$exists": False}}
    if operator == FilterOperator.ALL:
        if not isinstance(value, list) or not value:
            raise InputError(f"the filter on {key!r} has {operator.value!r} with {short(value)}; give a list of values")
        return {"$and": [{key: {"$eq": item}} for item in value]}
    if operator not in _OPERATORS:
        raise InputError(f"the filter on {key!r} has {operator.value!r}, which cannot search within texts; use '=='")
    return {key: {_OPERATORS[operator]: value}}


def to_passages(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Passage]:
    """Make passages of nodes or documents. A ``SemclassRetriever`` over these passages returns the same nodes.

    The text of a passage is the text that LlamaIndex's embedding models read, without the title. Its metadata are the
    same as in LlamaIndex's vector stores. A node without text, such as a picture, raises an ``InputError``.
    """
    passages = []
    for item in shared.check_documents(nodes, "nodes", BaseNode, NodeWithScore):
        node = item.node if isinstance(item, NodeWithScore) else item
        if not _has_text(node):
            raise InputError(f"the node {node.node_id!r} has no text; leave out pictures and empty pages")
        passages.append(Passage(node.node_id, _read(node)[0], node_to_metadata_dict(node)))
    return passages


def _to_node(hit: Hit) -> BaseNode:
    """Make a node of a hit."""
    metadata = deepcopy(dict(hit.metadata))
    if _NODE not in metadata:
        return TextNode(id_=hit.id, text=hit.text, metadata=metadata)
    try:
        return metadata_dict_to_node(metadata)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{_NODE!r} in the metadata of the passage {hit.id!r} is not a LlamaIndex node ({short(str(error))}); "
            "build the index again from to_passages(nodes)"
        ) from error


def _noted(node: BaseNode, values: Mapping[str, Any]) -> BaseNode:
    """Write values into the metadata of a copy, and hide them from embedding and language models."""
    node.metadata.update(values)
    for keys in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        keys.extend(key for key in values if key not in keys)
    return node


def _has_text(node: BaseNode) -> bool:
    """Whether a node has its own text. Pictures have none."""
    return bool(node.get_content(metadata_mode=MetadataMode.NONE).strip())


def _read(node: BaseNode) -> tuple[str, Mapping[str, Any]]:
    """Return the text that embedding models read of a node, without the title, and metadata with the title."""
    title = node.metadata.get(_TITLE)
    if not isinstance(title, str) or _TITLE in node.excluded_embed_metadata_keys:
        return node.get_content(metadata_mode=MetadataMode.EMBED), {}
    alone = node.model_copy(update={"excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, _TITLE]})
    return alone.get_content(metadata_mode=MetadataMode.EMBED), {_TITLE: title}
