"""Provides a retriever for LlamaIndex, and a node postprocessor that re-ranks. Both return copies of nodes.

Nodes are read in the same way as by LlamaIndex's embedding models, with all metadata except
``excluded_embed_metadata_keys`` (``MetadataMode.EMBED``). So a context in a chunk's metadata is read too. A title is
read separately before the text.
"""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from semclass.core.checks import check_positive, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.tools import in_thread
from semclass.core.types import Hit, Passage
from semclass.ranking.reranker import Reranker
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import HybridRetriever
from semclass_integrations import shared

import_extra("llama_index.core", "llama-index")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_serializer
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

_dispatcher = get_dispatcher(__name__)

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

# keys under which LlamaIndex's vector stores keep the rest of a node
_NODE, _TYPE, _SOURCE = "_node_content", "_node_type", "ref_doc_id"
_TITLE = "title"
_DOCUMENT_KEYS = ("document", "doc")  # metadata that names a passage's document
# metadata of chunking and of duplicates, which are of no use to a language model
_PLACES = ("start", "end", "paragraph", "sentence", "window", "section", "headings", "table", "duplicate_of")
_CONTAINERS = ("metadata", "relationships", "excluded_embed_metadata_keys", "excluded_llm_metadata_keys")  # of a node


class SemclassRetriever(BaseRetriever):
    """Finds the nodes that answer a question, in an index of semclass.

    Nodes that you indexed with ``to_passages`` are returned unchanged, with their current metadata in the index. Other
    passages are returned as ``TextNode``. The source of such a node is the document in its metadata (``document`` or
    ``doc``).

    If a query has texts for embedding, as from ``HyDEQueryTransform``, their mean vector replaces the question's vector.
    Candidates are re-ranked for the question itself. The vector of a ``QueryBundle`` is not used, because it may come from
    another encoder.

    Parameters
    ----------
    retriever, similarity_top_k
        The index with its models, and how many nodes to return.
    filters
        Which passages the search may find, see :func:`to_where`. If you give `where`, it must match too.
    details
        Whether to add all other fields of a :class:`semclass.Hit` as ``metadata["semclass"]``. No model reads these
        fields.
    callback_manager, objects, verbose
        The arguments of any retriever of LlamaIndex.
    **options
        Options of :meth:`semclass.HybridRetriever.search` except `k`, such as ``method="convex"`` or
        ``rewrite=rewriter``. If `history` is a list, it is read again at each question.
    """

    def __init__(
        self,
        retriever: HybridRetriever,
        *,
        similarity_top_k: int = 10,
        filters: MetadataFilters | None = None,
        details: bool = False,
        callback_manager: Any = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        shared.check_kind(retriever, HybridRetriever, "retriever")
        shared.check_options(options, shared.SEARCH, "SemclassRetriever")
        if filters is not None:
            options["where"] = {"$and": [to_where(filters), options.get("where") or {}]}
        self._retriever = retriever
        self._top_k = check_positive(similarity_top_k, "similarity_top_k")
        self._details = details
        self._options = options
        super().__init__(callback_manager=callback_manager, objects=objects, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        question, texts = query_bundle.query_str, query_bundle.custom_embedding_strs
        if texts and texts != [question]:
            options = {name: value for name, value in self._options.items() if name not in ("rewrite", "history")}
            result = self._retriever.search_by_texts(question, texts, self._top_k, **options)
        else:
            result = shared.search(self._retriever, question, self._top_k, self._options)
        nodes = []
        for hit in result:
            node = _to_node(hit)
            _note(node, shared.details_of(hit, result, wanted=self._details))
            nodes.append(NodeWithScore(node=node, score=hit.score))
        return nodes

    _aretrieve = in_thread(_retrieve)


class SemclassRerank(BaseNodePostprocessor):
    """Re-ranks nodes by whether they answer the question, with :class:`semclass.Reranker`.

    Nodes without text, such as pictures, come last, in their order and without a score. With a `score_threshold`, they
    are left out. A repeated node is ranked twice.

    Parameters
    ----------
    reranker
        A loaded re-ranker in place of `models`, `encoder` and `threads`. Such a postprocessor cannot be written as
        JSON.
    top_n
        How many nodes to return, at least 1.
    score_threshold
        Least probability that a node answers the question, in [0, 1], or least score if the method has no probability.
    details
        See :class:`SemclassRetriever`.
    models, encoder, threads, options
        See :meth:`semclass.Reranker.load`. `options` are the options of :meth:`semclass.Reranker.rerank`, such as
        ``{"method": "default"}``.
    """

    model_config = ConfigDict(extra="forbid")

    top_n: int = Field(default=10, ge=1)
    score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    details: bool = False
    models: str | None = None
    encoder: str | None = None
    threads: int = Field(default=1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    _loaded: shared.Lazy = PrivateAttr(default_factory=shared.Lazy)

    def __init__(self, reranker: Reranker | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        if reranker is None:
            return
        shared.check_kind(reranker, Reranker, "reranker")
        if named := [name for name in ("models", "encoder", "threads") if name in fields]:
            raise InputError(f"{named[0]} and reranker cannot be combined; give only one of the two")
        self._loaded = shared.Lazy(reranker)

    @field_validator("options")
    @classmethod
    def _known(cls, options: dict[str, Any]) -> dict[str, Any]:
        shared.check_options(options, shared.RERANK, "options")
        return options

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in serialised forms."""
        return "SemclassRerank"

    @model_serializer(mode="wrap")
    def custom_model_dump(self, handler: Any, info: Any) -> dict[str, Any]:
        """Write the fields. Loaded models cannot be written."""
        self._check_paths()
        written: dict[str, Any] = super().custom_model_dump(handler, info)
        return written

    def __getstate__(self) -> dict[str, Any]:
        self._check_paths()
        state: dict[str, Any] = super().__getstate__()
        return state

    def _check_paths(self) -> None:
        if self._loaded.given is not None:
            raise InputError("loaded models cannot be saved; name folders instead, with models= and encoder=")

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("re-ranking needs a question; give query_bundle or query_str")
        if not nodes:
            return []
        name = self.class_name()
        _dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=name))
        ranked = self._ranked(nodes, query_bundle.query_str)
        _dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _ranked(self, nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
        model = self._loaded.get(shared.load_reranker, self.models, self.encoder, self.threads)
        texts = [_read(node.node) if _has_text(node.node) else shared.Text("") for node in nodes]
        ranked, result = shared.rerank(model, question, texts, self.top_n, self.score_threshold, self.options)
        return [self._copy(nodes[place], hit, result) for place, hit in ranked]

    def _copy(self, found: NodeWithScore, hit: Hit | None, result: SearchResult) -> NodeWithScore:
        """Copy a node; the object that an index node leads to stays the same one."""
        node = found.node.model_copy(update={name: deepcopy(getattr(found.node, name)) for name in _CONTAINERS})
        _note(node, shared.details_of(hit, result, wanted=self.details))
        return NodeWithScore(node=node, score=hit and hit.score)


def to_where(filters: MetadataFilters) -> dict[str, Any]:
    """Translate LlamaIndex's metadata filters to a filter of :mod:`semclass.index.filters`.

    All operators except ``text_match`` and ``text_match_insensitive`` can be translated. ``any``, ``all`` and ``contains``
    compare the elements of a list. ``not`` matches if none of its filters does.

    Raises
    ------
    InputError, InputTypeError
        If a filter cannot be translated, a key begins with ``$``, or `filters` is not a ``MetadataFilters``.
    """
    if not isinstance(filters, MetadataFilters):
        raise InputTypeError(f"filters must be LlamaIndex MetadataFilters, not {short(filters)}")
    parts = [to_where(each) if isinstance(each, MetadataFilters) else _term(each) for each in filters.filters]
    if not parts:
        return {}
    if filters.condition in (None, FilterCondition.AND):
        return {"$and": parts}
    return {"$or": parts} if filters.condition == FilterCondition.OR else {"$not": {"$or": parts}}


def _term(term: MetadataFilter) -> dict[str, Any]:
    key, value, operator = term.key, term.value, term.operator
    if not key or key.startswith("$"):
        raise InputError(f"a filter has the key {key!r}; give the name of a field, which may not begin with '$'")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"$exists": False}}
    if operator == FilterOperator.ALL:
        if not isinstance(value, list) or not value:
            raise InputError(f"the filter on {key!r} has {operator.value!r} with {short(value)}; give a list of values")
        return {"$and": [{key: {"$eq": each}} for each in value]}
    if operator not in _OPERATORS:
        raise InputError(f"the filter on {key!r} has {operator.value!r}, which cannot search within texts; use '=='")
    return {key: {_OPERATORS[operator]: value}}


def to_passages(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Passage]:
    """Make passages of nodes or documents. A ``SemclassRetriever`` over these passages returns the same nodes.

    The text of a passage is the text that LlamaIndex's embedding models read, without the title. The metadata are the
    metadata of the node, for filters, with ``ref_doc_id`` (the node's document), and with ``_node_content`` and
    ``_node_type`` (the rest of the node, as in vector stores of LlamaIndex). Vectors, and the object of an
    ``IndexNode``, are not kept. Give the object to the retriever (`objects`). A node without text, such as a picture,
    raises an ``InputError``.
    """
    return [_passage(item.node) for item in _items(nodes)]


def to_hits(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Hit]:
    """Make hits of nodes, best first, for :func:`semclass.build_context`. Ids must be unique.

    A missing score becomes 0. Texts hold no metadata. ``document`` is the node's document, unless its metadata name
    another document.
    """
    hits = []
    for rank, item in enumerate(_items(nodes), 1):
        node = item.node
        source = {} if node.ref_doc_id is None else {_DOCUMENT_KEYS[0]: node.ref_doc_id}
        text, metadata = node.get_content(metadata_mode=MetadataMode.NONE), {**source, **deepcopy(node.metadata)}
        hits.append(shared.read_hit(node.node_id, text, metadata, item.score, rank))
    return hits


def _note(node: BaseNode, values: dict[str, Any]) -> None:
    """Write values into the metadata of a copy, where neither embedding nor language models read them."""
    node.metadata.update(values)
    for keys in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        keys.extend(key for key in values if key not in keys)


def _items(nodes: Iterable[BaseNode | NodeWithScore]) -> list[NodeWithScore]:
    given = shared.check_items(nodes, "nodes", BaseNode, NodeWithScore)
    return [each if isinstance(each, NodeWithScore) else NodeWithScore(node=each) for each in given]


def _has_text(node: BaseNode) -> bool:
    """Whether a node has text of its own; pictures have none."""
    return bool(node.get_content(metadata_mode=MetadataMode.NONE).strip())


def _read(node: BaseNode) -> shared.Text:
    """Give the text of a node as embedding models read it, without the title, and the title as metadata."""
    title = node.metadata.get(_TITLE)
    if not isinstance(title, str) or _TITLE in node.excluded_embed_metadata_keys:
        return shared.Text(node.get_content(metadata_mode=MetadataMode.EMBED))
    alone = node.model_copy(update={"excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, _TITLE]})
    return shared.Text(alone.get_content(metadata_mode=MetadataMode.EMBED), {_TITLE: title})


def _passage(node: BaseNode) -> Passage:
    if isinstance(node, IndexNode):
        node = node.model_copy(update={"obj": None})
    if not _has_text(node):
        raise InputError(f"the node {node.node_id!r} has no text; leave out pictures and empty pages")
    text, _ = _read(node)
    own = node.get_content(metadata_mode=MetadataMode.NONE)
    kept = node_to_metadata_dict(node, remove_text=text == own)
    content = json.loads(kept[_NODE])
    metadata = content.pop("metadata")
    if "text_resource" in content:
        content.pop("text", None)  # a document writes its text twice
    source = {} if node.ref_doc_id is None else {_SOURCE: node.ref_doc_id}
    return Passage(
        node.node_id, text, {**source, **metadata, _NODE: json.dumps(content, ensure_ascii=False), _TYPE: kept[_TYPE]}
    )


def _to_node(hit: Hit) -> BaseNode:
    """Make a node of a hit."""
    metadata = deepcopy(dict(hit.metadata))
    if _NODE not in metadata:
        return _plain_node(hit, metadata)
    content, kind = metadata.pop(_NODE), metadata.pop(_TYPE, None)
    try:
        node = metadata_dict_to_node({_NODE: content, _TYPE: kind})
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{_NODE!r} in the metadata of the passage {hit.id!r} is not a LlamaIndex node ({short(str(error))}); "
            "build the index again from to_passages(nodes)"
        ) from error
    if not _has_text(node):
        node.set_content(hit.text)
    if _SOURCE in metadata and metadata[_SOURCE] == node.ref_doc_id:
        del metadata[_SOURCE]
    node.id_, node.metadata = hit.id, metadata
    return node


def _plain_node(hit: Hit, metadata: dict[str, Any]) -> TextNode:
    """Make a node of a passage that was not made of one."""
    document = next((metadata[key] for key in _DOCUMENT_KEYS if isinstance(metadata.get(key), str)), None)
    source = {} if document is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    start, end = (metadata.get(name) if type(metadata.get(name)) is int else None for name in ("start", "end"))
    return TextNode(
        id_=hit.id,
        text=hit.text,
        metadata=metadata,
        relationships=source,
        start_char_idx=start,
        end_char_idx=end,
        excluded_embed_metadata_keys=[name for name in metadata if name != _TITLE],
        excluded_llm_metadata_keys=[name for name in _PLACES if name in metadata],
    )
