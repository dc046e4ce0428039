"""LlamaIndex: a retriever over an index, a node postprocessor that re-ranks, and a selector for routers.

Nodes that are handed in are never changed: what comes back are copies. Texts are read as LlamaIndex's own embedding models
read them, with the metadata that ``excluded_embed_metadata_keys`` leaves (`MetadataMode.EMBED`), so that a context that a
chunk was given in its metadata counts; but a title stands alone before the text, as semclass has it everywhere.
"""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from semclass.core.checks import check_positive, check_probability, check_text, check_texts, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.taxonomy import coarse_of
from semclass.core.types import Hit, Passage
from semclass.core.waiting import in_thread
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass.index.records import make_hits
from semclass.integrations.details import DETAILS, read_details, write_details
from semclass.ranking.reranker import Reranker, at_least
from semclass.ranking.retriever import CANDIDATES, HybridRetriever
from semclass.scoring.topk import unit

import_extra("llama_index.core", "llama-index")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_serializer
from llama_index.core.callbacks import CBEventType, EventPayload
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
from llama_index.core.tools.types import ToolMetadata
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

_loading = threading.Lock()
_dispatcher = get_dispatcher(__name__)

_NODE, _TYPE, _SOURCE = "_node_content", "_node_type", "ref_doc_id"
"""Keys under which LlamaIndex's vector stores keep what a node is besides its text and metadata."""

_DOCUMENT_KEYS = ("document", "doc")
"""Metadata that names the document of a passage that was no node: what :func:`semclass.documents.chunking.cut` writes
comes first."""

_PLACES = ("start", "end", "paragraph", "sentence", "window", "section", "headings", "table", "duplicate_of")
"""Metadata of :mod:`semclass.documents.chunking` and :mod:`semclass.documents.duplicates` that tells a language model
nothing."""

TITLE = "title"
"""Metadata that is read before the text, as BEIR does."""

RETRIEVAL_SCORE = "retrieval_score"
"""Metadata that keeps a node's score from before, under the name that LlamaIndex's own postprocessors give it."""

_CONTAINERS = ("metadata", "relationships", "excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
"""What of a node can be changed in place."""

_SCORING = ("match", "bm25_weight", "match_weight", "fusion", "alpha")
_SEARCH = tuple(
    name for name in signature(HybridRetriever.search).parameters if name not in ("self", "question", "k", "explain")
)
_RERANK = tuple(
    name
    for name in signature(Reranker.rerank).parameters
    if name not in ("self", "question", "passages", "k", "explain")
)


def to_passages(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Passage]:
    """Make passages of nodes, for an index whose hits :class:`SemclassRetriever` gives back as the same nodes.

    Parameters
    ----------
    nodes
        As a node parser such as ``SentenceSplitter`` gives them, documents, or what a retriever found.

    Returns
    -------
    list of Passage
        In the same order, with the nodes' ids. The text is what LlamaIndex's embedding models would read, but for the
        title. Metadata is the node's, as JSON has it, so that filters find it; ``ref_doc_id``, the node's document, if it
        has one; and ``_node_content`` and ``_node_type``, what the node is besides, as vector stores of LlamaIndex keep it.
        The object that an ``IndexNode`` leads to is not kept: hand it to the retriever (`objects`). Vectors are not kept.

    Raises
    ------
    InputError
        If a node has no text: leave pictures and empty pages out.
    InputTypeError
        If something is not a node.
    """
    return [_passage(_checked(node)) for node in nodes]


def to_hits(nodes: Iterable[BaseNode | NodeWithScore]) -> list[Hit]:
    """Make hits of nodes, best first, for :func:`semclass.build_context` and the steps in :mod:`semclass.context`.

    Parameters
    ----------
    nodes
        As a retriever or a postprocessor gives them. Ids must be unique.

    Returns
    -------
    list of Hit
        With ranks from 1, and the score 0 where a node has none. Texts are those that the nodes have for language models
        without metadata; ``document`` is the node's document, unless its metadata name one.

    Raises
    ------
    InputTypeError
        If something is not a node.
    """
    hits = []
    for rank, given in enumerate(nodes, 1):
        node = _checked(given)
        source = {} if node.ref_doc_id is None else {_DOCUMENT_KEYS[0]: node.ref_doc_id}
        kept = {key: value for key, value in node.metadata.items() if key not in (DETAILS, RETRIEVAL_SCORE)}
        hits.append(
            Hit(
                id=node.node_id,
                text=node.get_content(metadata_mode=MetadataMode.NONE),
                metadata={**source, **deepcopy(kept)},
                score=given.get_score() if isinstance(given, NodeWithScore) else 0.0,
                **read_details(node.metadata, rank),
            )
        )
    return hits


def to_where(filters: MetadataFilters) -> dict[str, Any]:
    """Write LlamaIndex's metadata filters as semclass has them, see :mod:`semclass.index.filters`.

    Parameters
    ----------
    filters
        With any operators but ``text_match`` and ``text_match_insensitive``; nested ones are fine. ``any``, ``all`` and
        ``contains`` look at the elements of a list. ``not`` is true where none of its filters is.

    Returns
    -------
    dict
        What `where` of a search takes.

    Raises
    ------
    InputError
        If a filter cannot be said, or a key begins with ``$``.
    InputTypeError
        If `filters` are no ``MetadataFilters``.
    """
    if not isinstance(filters, MetadataFilters):
        raise InputTypeError(f"filters must be LlamaIndex MetadataFilters, not {short(filters)}")
    parts = [to_where(each) if isinstance(each, MetadataFilters) else _term(each) for each in filters.filters]
    if not parts:
        return {}
    if filters.condition in (None, FilterCondition.AND):
        return parts[0] if len(parts) == 1 else {"$and": parts}
    return {"$or": parts} if filters.condition == FilterCondition.OR else {"$not": {"$or": parts}}


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


def _term(term: MetadataFilter) -> dict[str, Any]:
    key, value, operator = term.key, term.value, term.operator
    if not key or key.startswith("$"):
        raise InputError(f"a filter has the key {key!r}; keys must be names of fields, which do not begin with '$'")
    if operator == FilterOperator.IS_EMPTY:
        return {key: {"$exists": False}}
    if operator == FilterOperator.ALL:
        if not isinstance(value, list) or not value:
            raise InputError(f"the filter on {key!r} is {operator.value!r} of {short(value)}; give a list of values")
        return {"$and": [{key: {"$eq": each}} for each in value]}
    if operator not in _OPERATORS:
        raise InputError(
            f"the filter on {key!r} is {operator.value!r}, and texts are compared as a whole here; allowed are "
            f"{', '.join(repr(each.value) for each in (*_OPERATORS, FilterOperator.ALL, FilterOperator.IS_EMPTY))}"
        )
    return {key: {_OPERATORS[operator]: value}}


class SemclassRetriever(BaseRetriever):
    """Retrieves from a semclass index.

    Nodes have the ids of passages. Those that :func:`to_passages` made an index of come back as they were, with the
    metadata that the index has of them now; other passages as ``TextNode``, whose source is the document that their
    metadata name (``document`` or ``doc``). Scores are those of :class:`semclass.Hit`.

    Texts that stand in for the question, as ``HyDEQueryTransform`` writes them, choose the candidates: the mean of their
    vectors takes the place of the question's. What is re-ranked is re-ranked for the question itself. A vector that a
    ``QueryBundle`` brings is not looked at: it may come from another encoder.

    Parameters
    ----------
    retriever
        The index and the models.
    similarity_top_k
        How many nodes to give, at least 1.
    filters
        Which passages may be found, see :func:`to_where`; together with `where`, if both are there.
    details
        Whether ``metadata["semclass"]`` tells the rest of a hit: ``labels``, ``probabilities``, ``components``, ``rank``,
        ``rank_before``. Neither embedding nor language models read it.
    callback_manager, object_map, objects, verbose
        As other retrievers of LlamaIndex take them.
    **options
        Any of :meth:`semclass.HybridRetriever.search` but `explain`, such as ``rerank=None`` or ``candidates=20``.

    Raises
    ------
    InputError, InputTypeError
        If an option is not known, or something is of the wrong kind.
    """

    def __init__(
        self,
        retriever: HybridRetriever,
        *,
        similarity_top_k: int = 10,
        filters: MetadataFilters | None = None,
        details: bool = False,
        callback_manager: Any = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(retriever, HybridRetriever):
            raise InputTypeError(f"retriever must be a semclass.HybridRetriever, not {short(retriever)}")
        _check_options(options, _SEARCH)
        wheres = [options["where"]] if options.get("where") is not None else []
        if filters is not None:
            wheres.append(to_where(filters))
        self._retriever = retriever
        self._top_k = check_positive(similarity_top_k, "similarity_top_k")
        self._details = details
        self._options = {**options, "where": {"$and": wheres} if len(wheres) > 1 else wheres[0] if wheres else None}
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self._hits(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(await self._ahits(query_bundle))

    def _nodes(self, hits: Sequence[Hit]) -> list[NodeWithScore]:
        nodes = [_node(hit) for hit in hits]
        if self._details:
            for node, hit in zip(nodes, hits, strict=True):
                _note(node, DETAILS, write_details(hit))
        return [NodeWithScore(node=node, score=hit.score) for node, hit in zip(nodes, hits, strict=True)]

    def _hits(self, query: QueryBundle) -> list[Hit]:
        texts = query.custom_embedding_strs
        if not texts or texts == [query.query_str]:
            return self._retriever.search(query.query_str, self._top_k, **self._options)
        return _search_by(self._retriever, query.query_str, texts, self._top_k, self._options)

    _ahits = in_thread(_hits)


def _search_by(
    retriever: HybridRetriever, question: str, texts: Sequence[str], k: int, options: Mapping[str, Any]
) -> list[Hit]:
    """Search with the mean vector of some texts in place of the question's, and re-rank for the question."""
    check_text(question, "question")
    encode = retriever.ranker.encode
    vectors = [read.pooled for read in encode([check_text(each) for each in texts], classes=False, tokens=False)]
    mean = np.asarray(np.mean([unit(vector) for vector in vectors], axis=0), np.float32)
    asked = encode([question], classes=options.get("match") is not None, tokens=False)
    query = replace(asked[0], pooled=mean)
    rerank = options.get("rerank", "integrated")
    depth = k if rerank is None else max(k, check_positive(options.get("candidates", CANDIDATES), "candidates"))
    scoring = {name: options[name] for name in _SCORING if name in options}
    found = retriever.candidates(query, depth, evidence=False, where=options.get("where"), **scoring)
    passages = retriever.index.passages(found.rows) if found.passages is None else found.passages
    if rerank is None:
        return make_hits(passages, found, retriever.order(query, found, rerank=None), retriever.index.classes, k)
    ids = [passage.id for passage in passages]
    return retriever.search(question, k, **{**options, "where": {"_id": {"$in": ids}}})


class SemclassRerank(BaseNodePostprocessor):
    """Re-ranks nodes by what the question asks and what they answer, with :class:`semclass.Reranker`.

    Nodes without text, such as pictures, cannot be judged: they come after the others, in their order and without a score,
    and not at all where there is a `score_threshold`. A node that comes twice is ranked twice.

    Parameters
    ----------
    reranker
        Models that are loaded already, to share with others; such a postprocessor cannot be written as JSON, and `models`,
        `encoder` and `threads` are not for it.
    top_n
        How many nodes to give, at least 1.
    score_threshold
        Least probability that a node answers the question, in [0, 1], or least score where the method has no probability
        (``{"by": "class"}``).
    keep_retrieval_score
        Whether ``metadata["retrieval_score"]`` tells the score that a node had before. Neither embedding nor language
        models read it.
    details
        Whether ``metadata["semclass"]`` tells classes and parts of the score, as :class:`SemclassRetriever` has it.
    models, encoder, threads
        What :meth:`semclass.Reranker.load` takes, as strings; loaded when nodes are first re-ranked.
    options
        Options of :meth:`semclass.Reranker.rerank` but `k` and `explain`, such as ``{"rerank": "integrated"}``.

    Raises
    ------
    ValueError
        If a field is not allowed, as pydantic tells it, or there is no question, or it is empty.
    ArtifactError
        When nodes are first re-ranked: if a model folder is damaged.
    """

    model_config = ConfigDict(extra="forbid")

    top_n: int = Field(default=10, ge=1)
    score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    keep_retrieval_score: bool = False
    details: bool = False
    models: str | None = None
    encoder: str | None = None
    threads: int = Field(default=1, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)
    _reranker: Reranker | None = PrivateAttr(default=None)
    _given: bool = PrivateAttr(default=False)

    def __init__(self, reranker: Reranker | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        if reranker is None:
            return
        if not isinstance(reranker, Reranker):
            raise InputTypeError(f"reranker must be a semclass.Reranker, not {short(reranker)}")
        if named := [name for name in ("models", "encoder", "threads") if name in fields]:
            raise InputError(f"{named[0]} is given with a reranker, which has its models; give one of them")
        self._reranker, self._given = reranker, True

    @field_validator("options")
    @classmethod
    def _known(cls, options: dict[str, Any]) -> dict[str, Any]:
        _check_options(options, _RERANK)
        return options

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in serialised forms."""
        return "SemclassRerank"

    @model_serializer(mode="wrap")
    def custom_model_dump(self, handler: Any, info: Any) -> dict[str, Any]:
        """Write the fields; models that were handed in have no folder that could be written."""
        self._check_written()
        written: dict[str, Any] = super().custom_model_dump(handler, info)
        return written

    def __getstate__(self) -> dict[str, Any]:
        self._check_written()
        state: dict[str, Any] = super().__getstate__()
        return state

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> SemclassRerank:
        """Copy the fields; models are shared, as nothing changes them."""
        shared = {} if memo is None else memo
        shared[id(self._reranker)] = self._reranker
        copy: SemclassRerank = super().__deepcopy__(shared)
        return copy

    def _check_written(self) -> None:
        if self._given:
            raise InputError(
                "this SemclassRerank was made with a reranker that is in memory, so it cannot be written; name folders "
                "instead: SemclassRerank(models=..., encoder=...)"
            )

    def _model(self) -> Reranker:
        with _loading:
            if self._reranker is None:
                self._reranker = Reranker.load(self.models, encoder=self.encoder, threads=self.threads)
        return self._reranker

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("there is no question to re-rank for; give query_bundle or query_str")
        given = list(nodes)
        if not given:
            return []
        name, query = self.class_name(), query_bundle.query_str
        _dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=given, top_n=self.top_n, model_name=name))
        payload = {
            EventPayload.NODES: given,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query,
            EventPayload.TOP_K: self.top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            ranked = self._ranked(given, query)
            event.on_end(payload={EventPayload.NODES: ranked})
        _dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _ranked(self, nodes: list[NodeWithScore], question: str) -> list[NodeWithScore]:
        silent = [place for place, node in enumerate(nodes) if not _has_text(node.node)]
        left_out = set(silent)
        places = [place for place in range(len(nodes)) if place not in left_out]
        passages = [_candidate(nodes[place].node, place) for place in places]
        hits = self._model().rerank(question, passages, k=self.top_n, **self.options)
        if self.score_threshold is not None:
            hits, silent = at_least(hits, self.score_threshold), []
        ranked = [self._copy(nodes[places[hit.rank_before - 1]], hit) for hit in hits]
        return [*ranked, *(self._copy(nodes[place], None) for place in silent)][: self.top_n]

    def _copy(self, found: NodeWithScore, hit: Hit | None) -> NodeWithScore:
        """Copy a node; the object that an index node leads to stays the same one."""
        node = found.node.model_copy(update={name: deepcopy(getattr(found.node, name)) for name in _CONTAINERS})
        if self.keep_retrieval_score:
            _note(node, RETRIEVAL_SCORE, None if found.score is None else float(found.score))
        if self.details and hit is not None:
            _note(node, DETAILS, write_details(hit))
        return NodeWithScore(node=node, score=None if hit is None else hit.score)


class SemclassSelector(BaseSelector):
    """Chooses among tools or query engines by the type of answer that a question asks for, without a language model.

    Parameters
    ----------
    classes
        The classes of questions that each tool is for, coarse (``"NUM"``) or fine (``"NUM:date"``), by the tool's name, or
        by its description where it has none. A tool is as probable as its classes together.
    default
        Name of the tool for all other questions: it is as probable as all classes that no tool is for, and chosen where no
        tool has `min_probability`.
    min_probability
        In [0, 1]. Least probability of a tool, of calibrated ones: at 0.8, about 80 % of the choices or more are right.
    multi
        Whether to choose every tool that has `min_probability`, the most probable first, and the most probable alone, or
        the default, where none has. Otherwise the most probable one; of equals, the first.
    classifier
        Classifies questions: the shipped one if None, or a :class:`semclass.TextModel` of one class a text, which has
        no fine classes.

    Raises
    ------
    InputError, InputTypeError
        If a class is not known, or an option is not allowed.
    """

    def __init__(
        self,
        classes: Mapping[str, str | Sequence[str]],
        *,
        default: str | None = None,
        min_probability: float = 0.0,
        multi: bool = False,
        classifier: QuestionClassifier | TextModel | None = None,
    ) -> None:
        self._least = check_probability(min_probability, "min_probability")
        if multi and not self._least:
            raise InputError("multi chooses every tool that has min_probability; give one above 0, such as 0.2")
        if self._least and not multi and default is None:
            raise InputError("min_probability is given without default; name the tool that is chosen where none has it")
        self._classifier = QuestionClassifier.load() if classifier is None else classifier
        self._fine = _fine_classes(classes, _known_classes(self._classifier), default)
        self._said = {name: ", ".join([given] if isinstance(given, str) else given) for name, given in classes.items()}
        self._said |= {} if default is None else {default: "all else"}
        self._default = default
        self._multi = multi
        super().__init__()

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        """There are none."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        names = self._names(choices)
        chances = _probabilities(self._classifier, query.query_str)
        shares = [sum(chances[fine] for fine in self._fine[name]) for name in names]
        order = sorted(range(len(names)), key=lambda place: -shares[place])
        sure = [place for place in order if shares[place] >= self._least]
        if sure:
            chosen = sure if self._multi else sure[:1]
        else:
            chosen = order[:1] if self._default is None else [names.index(self._default)]
        likely = max(chances, key=chances.__getitem__)
        asked = f"the question asks for {likely} (probability {chances[likely]:.2f})"
        return SelectorResult(
            selections=[
                SingleSelection(
                    index=place,
                    reason=f"{asked}; {names[place]!r} is for {self._said[names[place]]} ({shares[place]:.2f})",
                )
                for place in chosen
            ]
        )

    _aselect = in_thread(_select)

    def _names(self, choices: Sequence[ToolMetadata]) -> list[str]:
        """Name the choices, and see that each has its classes."""
        names = [choice.name or choice.description for choice in choices]
        if len(set(names)) < len(names):
            raise InputError(
                f"two choices have the same name: {short(sorted(names))}; give each tool a name of its own"
            )
        if missing := [name for name in names if name not in self._fine]:
            raise InputError(
                f"no classes are given for the choice {missing[0]!r}; give it some, or make it the default"
            )
        if absent := [name for name in self._fine if name not in names]:
            raise InputError(f"classes are given for {absent[0]!r}, but the choices are {short(names)}")
        return names


def _fine_classes(
    classes: Mapping[str, str | Sequence[str]], known: Mapping[str, tuple[str, ...]], default: str | None
) -> dict[str, tuple[str, ...]]:
    """Give the fine classes that each tool is for; the default is for those that no other is for."""
    if not isinstance(classes, Mapping):
        raise InputTypeError(f'classes must be a mapping such as {{"figures": ["NUM"]}}, not {short(classes)}')
    found: dict[str, tuple[str, ...]] = {}
    for name, given in classes.items():
        check_text(name, "the name of a tool")
        wanted = check_texts([given] if isinstance(given, str) else given, f"classes[{name!r}]")
        if unknown := [each for each in wanted if each not in known]:
            raise InputError(f"classes[{name!r}] has {unknown[0]!r}; it must be one of {', '.join(known)}")
        found[name] = tuple(dict.fromkeys(fine for each in wanted for fine in known[each]))
    if default is not None:
        if default in found:
            raise InputError(f"the default {default!r} has classes of its own; leave them out, or name another default")
        taken = {fine for each in found.values() for fine in each}
        every = dict.fromkeys(fine for each in known.values() for fine in each)
        found[check_text(default, "default")] = tuple(fine for fine in every if fine not in taken)
    if not found:
        raise InputError("no tool has classes; give at least one, or a default")
    return found


def _known_classes(classifier: QuestionClassifier | TextModel) -> dict[str, tuple[str, ...]]:
    """Give the finest classes that each class of a classifier consists of."""
    if isinstance(classifier, TextModel):
        if classifier.thresholds is not None:
            raise InputError(
                "the classifier gives several classes a text; take one that gives one, to choose a tool by"
            )
        return {str(name): (str(name),) for name in classifier.classes}
    if not isinstance(classifier, QuestionClassifier):
        raise InputTypeError(
            f"classifier must be a semclass.QuestionClassifier or semclass.TextModel, not {short(classifier)}"
        )
    fine = classifier.fine_classes
    broad = {name: tuple(each for each in fine if coarse_of(each) == name) for name in classifier.classes}
    return {**broad, **{name: (name,) for name in fine}}


def _probabilities(classifier: QuestionClassifier | TextModel, question: str) -> dict[str, float]:
    """Give the probability of each of the finest classes."""
    check_text(question, "question")
    if isinstance(classifier, TextModel):
        return {str(name): chance for name, chance in classifier.predict([question])[0].probabilities.items()}
    return dict(classifier.predict([question])[0].fine_probabilities)


def _check_options(options: Mapping[str, Any], allowed: Sequence[str]) -> None:
    if unknown := [name for name in options if name not in allowed]:
        raise InputError(f"{unknown[0]!r} is no option; allowed are {', '.join(allowed)}")


def _note(node: BaseNode, key: str, value: Any) -> None:
    """Write something into the metadata of a copy that neither embedding nor language models are to read."""
    node.metadata[key] = value
    for keys in (node.excluded_embed_metadata_keys, node.excluded_llm_metadata_keys):
        if key not in keys:
            keys.append(key)


def _checked(node: object) -> BaseNode:
    found = node.node if isinstance(node, NodeWithScore) else node
    if not isinstance(found, BaseNode):
        raise InputTypeError(f"nodes must be a sequence of LlamaIndex nodes, and one is {short(node)}")
    return found


def _has_text(node: BaseNode) -> bool:
    return bool(node.get_content(metadata_mode=MetadataMode.NONE).strip())


def _read(node: BaseNode) -> tuple[str, dict[str, Any]]:
    """Give the text of a node as embedding models read it, without the title, and the title as metadata."""
    title = node.metadata.get(TITLE)
    if not isinstance(title, str) or TITLE in node.excluded_embed_metadata_keys:
        return node.get_content(metadata_mode=MetadataMode.EMBED), {}
    alone = node.model_copy(update={"excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, TITLE]})
    return alone.get_content(metadata_mode=MetadataMode.EMBED), {TITLE: title}


def _candidate(node: BaseNode, place: int) -> Passage:
    """Make a passage to re-rank; places keep ids apart that come twice."""
    text, title = _read(node)
    return Passage(f"{place} {node.node_id}", text, title)


def _passage(node: BaseNode) -> Passage:
    """Make a passage to index."""
    if isinstance(node, IndexNode):
        node = node.model_copy(update={"obj": None})
    if not _has_text(node):
        raise InputError(f"the node {node.node_id!r} has no text; leave pictures and empty pages out")
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


def _node(hit: Hit) -> BaseNode:
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
    if not _has_text(node):
        node.set_content(hit.text)
    if _SOURCE in metadata and metadata[_SOURCE] == node.ref_doc_id:
        del metadata[_SOURCE]
    node.id_, node.metadata = hit.id, metadata
    return node


def _plain_node(hit: Hit, metadata: dict[str, Any]) -> TextNode:
    """Make a node of a passage that was none."""
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
        excluded_embed_metadata_keys=[name for name in metadata if name != TITLE],
        excluded_llm_metadata_keys=[name for name in _PLACES if name in metadata],
    )
