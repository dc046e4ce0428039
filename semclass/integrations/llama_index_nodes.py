"""LlamaIndex's nodes as passages and hits, and passages as nodes.

Texts are read as LlamaIndex's own embedding models read them, with the metadata that ``excluded_embed_metadata_keys``
leaves (``MetadataMode.EMBED``), so that a context in a chunk's metadata counts. A title is read alone before the text.
"""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, import_extra
from semclass.core.types import Hit, Passage
from semclass.integrations import shared

import_extra("llama_index.core", "llama-index")

from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

_NODE, _TYPE, _SOURCE = "_node_content", "_node_type", "ref_doc_id"
"""Keys under which LlamaIndex's vector stores keep what a node is besides its text and metadata."""

_DOCUMENT_KEYS = ("document", "doc")
"""Metadata that names the document of a passage; :func:`semclass.documents.chunking.cut` writes the first."""

_PLACES = ("start", "end", "paragraph", "sentence", "window", "section", "headings", "table", "duplicate_of")
"""Metadata of chunking and of duplicates, which are of no use to a language model."""

_TITLE = "title"


def to_passages(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Passage]:
    """Make passages of nodes or documents, for an index whose hits a ``SemclassRetriever`` gives back as the same nodes.

    The text is what LlamaIndex's embedding models would read, but for the title. Metadata is the node's, so that filters
    find it; ``ref_doc_id``, the node's document; and ``_node_content`` and ``_node_type``, the rest of the node, as vector
    stores of LlamaIndex keep it. Vectors, and the object that an ``IndexNode`` leads to, are not kept: give the object to
    the retriever (`objects`). A node without text, such as a picture, is an ``InputError``.
    """
    return [_passage(_bare(node)) for node in _items(nodes)]


def to_hits(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Hit]:
    """Make hits of nodes, best first, for :func:`semclass.build_context`; ids must be unique.

    The score is 0 where a node has none. Texts are without metadata; ``document`` is the node's document, unless its
    metadata name one.
    """
    hits = []
    for rank, given in enumerate(_items(nodes), 1):
        node = _bare(given)
        source = {} if node.ref_doc_id is None else {_DOCUMENT_KEYS[0]: node.ref_doc_id}
        text, metadata = node.get_content(metadata_mode=MetadataMode.NONE), {**source, **deepcopy(node.metadata)}
        score = given.get_score() if isinstance(given, NodeWithScore) else None
        hits.append(shared.read_hit(node.node_id, text, metadata, score, rank))
    return hits


def note(node: BaseNode, values: dict[str, Any]) -> None:
    """Write values into the metadata of a copy, where neither embedding nor language models read them."""
    node.metadata.update(values)
    for keys in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        keys.extend(key for key in values if key not in keys)


def _items(nodes: Iterable[BaseNode | NodeWithScore]) -> list[BaseNode | NodeWithScore]:
    return shared.check_items(nodes, "nodes", BaseNode, NodeWithScore)


def _bare(node: BaseNode | NodeWithScore) -> BaseNode:
    return node.node if isinstance(node, NodeWithScore) else node


def has_text(node: BaseNode) -> bool:
    """Whether a node has text of its own; pictures have none."""
    return bool(node.get_content(metadata_mode=MetadataMode.NONE).strip())


def read(node: BaseNode) -> shared.Text:
    """Give the text of a node as embedding models read it, without the title, and the title as metadata."""
    title = node.metadata.get(_TITLE)
    if not isinstance(title, str) or _TITLE in node.excluded_embed_metadata_keys:
        return shared.Text(node.get_content(metadata_mode=MetadataMode.EMBED))
    alone = node.model_copy(update={"excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, _TITLE]})
    return shared.Text(alone.get_content(metadata_mode=MetadataMode.EMBED), {_TITLE: title})


def _passage(node: BaseNode) -> Passage:
    if isinstance(node, IndexNode):
        node = node.model_copy(update={"obj": None})
    if not has_text(node):
        raise InputError(f"the node {node.node_id!r} has no text; leave pictures and empty pages out")
    text, _ = read(node)
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


def to_node(hit: Hit) -> BaseNode:
    """Make a node of a hit."""
    metadata = deepcopy(dict(hit.metadata))
    if _NODE not in metadata:
        return _plain_node(hit, metadata)
    content, kind = metadata.pop(_NODE), metadata.pop(_TYPE, None)
    try:
        node = metadata_dict_to_node({_NODE: content, _TYPE: kind})
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the passage {hit.id!r} has a {_NODE!r} in its metadata that is no LlamaIndex node ({short(str(error))}); "
            "build the index again from to_passages(nodes)"
        ) from error
    if not has_text(node):
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
