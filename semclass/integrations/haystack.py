"""Components for Haystack 3 (extra ``haystack``): a ranker, a retriever, and a router and a classifier of queries.

Each keeps to what Haystack's own do. Constructors load nothing: models are loaded when a pipeline warms up, or with the
first run. Documents are copied, never changed. ``run_async`` leaves the event loop free. What is saved are names and
numbers, so that a pipeline of these components can be written as YAML and read again; Haystack imports only modules that it
is told to trust, so reading takes ``Pipeline.loads(text, allowed_modules=["semclass.integrations.haystack"])``, or
``allow_deserialization_module`` once in a process, or the variable ``HAYSTACK_DESERIALIZATION_ALLOWLIST``. A pipeline names
the folders and models that it opens: read only those of people whom you would let choose them.

Components that name the same encoder share it for as long as one of them is there.

Importing this module without haystack-ai raises the error that names the extra.
"""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from inspect import signature
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from semclass.core.checks import (
    check_choice,
    check_positive,
    check_probability,
    check_text,
    check_texts,
    check_unique,
    short,
)
from semclass.core.errors import InputError, InputTypeError, SemclassError, import_extra
from semclass.core.taxonomy import ABSTAIN, COARSE
from semclass.core.types import Encoder, Hit, Passage
from semclass.core.waiting import in_thread
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel, open_encoder
from semclass.index import filters as semclass_filters
from semclass.index.metadata import instant
from semclass.integrations.details import DETAILS, read_details, write_details
from semclass.ranking.models import RERANKERS, SIGNALS, Ranker
from semclass.ranking.reranker import Reranker, at_least
from semclass.ranking.retriever import CANDIDATES, HybridRetriever

import_extra("haystack", "haystack")

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.types import FilterPolicy
from haystack.errors import FilterError

UNMATCHED = "unmatched"
"""Output of a router for a query that goes to no other, as Haystack's own routers call it."""


class FilterInputError(InputError, FilterError):
    """A filter that is malformed, or says what the passages of an index cannot be asked for."""


@component
class SemclassRanker:
    """Re-ranks documents for a query, by the probability that each answers it.

    Parameters
    ----------
    models, encoder
        Folder of the heads, and their encoder, see :meth:`semclass.ranking.models.Ranker.load`; the shipped ones if None.
    threads
        Threads of the encoder.
    top_k
        How many documents to give, at least 1.
    score_threshold
        Documents that answer the query with a lower probability are left out, or with a lower score where the method has
        no probability (``by="class"``); none if None.
    rerank, by
        Method, see :meth:`semclass.ranking.models.Ranker.order`.
    meta_fields_to_embed
        Fields of ``meta`` that are read before the content, such as ``["title"]``; a document that lacks one does without.
    embedding_separator
        What stands between them.
    details
        Whether ``meta["semclass"]`` of each copy tells how it came to its place: ``rank`` and ``rank_before``, from 1,
        ``labels``, the answer types that the document provides, their ``probabilities``, and ``components`` of the score.

    Raises
    ------
    InputError, InputTypeError
        If an argument is not allowed.

    Examples
    --------
    >>> from haystack import Document
    >>> ranker = SemclassRanker(top_k=1)
    >>> documents = [Document(content="It is painted red."), Document(content="It was opened in 1874.")]
    >>> ranker.run(query="When was the bridge opened?", documents=documents)["documents"][0].content
    'It was opened in 1874.'
    """

    def __init__(
        self,
        models: str | Path | None = None,
        *,
        encoder: str | Path | None = None,
        threads: int = 1,
        top_k: int = 10,
        score_threshold: float | None = None,
        rerank: str = "learned",
        by: str = "entailment",
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        details: bool = False,
    ) -> None:
        check_choice(rerank, RERANKERS[1:], "rerank")
        check_choice(by, SIGNALS, "by")
        self.models, self.encoder, self.threads = _origin(models, encoder, threads)
        self.top_k = check_positive(top_k, "top_k")
        self.score_threshold = None if score_threshold is None else _threshold(score_threshold)
        self.rerank = rerank
        self.by = by
        self.meta_fields_to_embed = check_texts(meta_fields_to_embed or [], "meta_fields_to_embed")
        self.embedding_separator = embedding_separator
        self.details = details
        self._reranker: Reranker | None = None

    def warm_up(self) -> None:
        """Load the models, unless they are loaded.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        self._ready()

    warm_up_async = in_thread(warm_up, name="warm_up_async")

    def close(self) -> None:
        """Let go of the models; a later run loads them again."""
        self._reranker = None

    def to_dict(self) -> dict[str, Any]:
        """Give class and arguments, which JSON can hold."""
        return _saved(self, SemclassRanker.__init__)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SemclassRanker:
        """Make the component that :meth:`to_dict` described."""
        made: SemclassRanker = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        score_threshold: float | None = None,
    ) -> dict[str, list[Document]]:
        """Re-rank documents.

        Parameters
        ----------
        query
            A non-empty text.
        documents
            In the order that they came in. Of several with one id the one with the highest score stays. Those without text
            come last, in their order and without a score.
        top_k, score_threshold
            As for the constructor, whose values hold where None is given.

        Returns
        -------
        dict
            ``documents``: copies with their new scores, best first; empty for none.

        Raises
        ------
        InputError, InputTypeError
            If the query is empty, `top_k` is less than 1, or the heads of the method are not there.
        """
        limit = self.top_k if top_k is None else check_positive(top_k, "top_k")
        least = self.score_threshold if score_threshold is None else _threshold(score_threshold)
        if not documents:
            return {"documents": []}
        check_text(query, "query")
        unique = _deduplicated(documents)
        texts = {item.id: self._text(item) for item in unique}
        passages = [Passage(name, text) for name, text in texts.items() if text.strip()]
        hits = self._ready().rerank(query, passages, rerank=self.rerank, by=self.by)
        found = {item.id: item for item in unique}
        ranked = [
            replace(found[hit.id], score=hit.score, meta=_meta(found[hit.id].meta, hit, details=self.details))
            for hit in at_least(hits, least)
        ]
        silent = [replace(item, score=None) for item in unique if not texts[item.id].strip() and least is None]
        return {"documents": [*ranked, *silent][:limit]}

    run_async = in_thread(run, name="run_async")

    def _ready(self) -> Reranker:
        found = self._reranker
        if found is None:
            shared = _encoder(self.models, self.encoder, self.threads)
            found = self._reranker = Reranker(Ranker.load(self.models, encoder=shared))
        return found

    def _text(self, document: Document) -> str:
        """What is read of a document."""
        fields = [document.meta.get(name) for name in self.meta_fields_to_embed]
        parts = [str(value) for value in fields if value is not None and value != ""]
        return self.embedding_separator.join([*parts, document.content or ""])


@component
class SemclassRetriever:
    """Finds the passages of a saved index that answer a query: BM25 and vectors, then re-ranking.

    It is a text retriever in Haystack's sense (``run(query, filters, top_k)``), and works wherever one is asked for, such
    as in ``MultiQueryTextRetriever``.

    Parameters
    ----------
    index
        Folder that :meth:`semclass.PassageIndex.save` or ``semclass index build`` wrote.
    models, encoder
        Heads, and the encoder that the index was built with, see :meth:`semclass.ranking.models.Ranker.load`.
    threads
        Threads of the encoder.
    filters
        Which passages may be found, in Haystack's filter language, see :func:`to_where`; all if None.
    filter_policy
        ``"replace"``: filters of a run take the place of these; ``"merge"``: both must match, always. (Haystack's own merge
        forgets these where a run's filters are of the same field, or joined by ``OR``.)
    top_k
        How many documents to give, at least 1.
    candidates
        How many are re-ranked; at least `top_k` are.
    rerank, by, match
        Methods, see :meth:`semclass.HybridRetriever.search`; ``rerank=None`` where a ranker follows.
    details
        As for :class:`SemclassRanker`.

    Raises
    ------
    InputError, InputTypeError
        If an argument is not allowed.
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
        candidates: int = CANDIDATES,
        rerank: str | None = "integrated",
        by: str = "entailment",
        match: str | None = None,
        details: bool = False,
    ) -> None:
        if index is None:
            raise InputTypeError("index must be the folder of a saved index, not None")
        check_choice(rerank, RERANKERS, "rerank")
        check_choice(by, SIGNALS, "by")
        if filters:
            to_where(filters)
        self.index = str(_name(index, "index"))
        self.models, self.encoder, self.threads = _origin(models, encoder, threads)
        self.filters = filters
        self.filter_policy = (
            filter_policy if isinstance(filter_policy, FilterPolicy) else FilterPolicy.from_str(filter_policy)
        )
        self.top_k = check_positive(top_k, "top_k")
        self.candidates = check_positive(candidates, "candidates")
        self.rerank = rerank
        self.by = by
        self.match = match
        self.details = details
        self._retriever: HybridRetriever | None = None

    def warm_up(self) -> None:
        """Open the index and load the models, unless that was done.

        Raises
        ------
        ArtifactError
            If the index or a model is damaged, or was made with another encoder.
        """
        self._ready()

    warm_up_async = in_thread(warm_up, name="warm_up_async")

    def close(self) -> None:
        """Let go of index and models; a later run loads them again."""
        self._retriever = None

    def refresh(self) -> None:
        """Search the index as its folder holds it now; one that is open stays as it was opened otherwise.

        Raises
        ------
        ArtifactError
            If the index is damaged, or was built again with another encoder.
        """
        self._retriever = self._ready().refresh()

    def to_dict(self) -> dict[str, Any]:
        """Give class and arguments, which JSON can hold."""
        return _saved(self, SemclassRetriever.__init__)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SemclassRetriever:
        """Make the component that :meth:`to_dict` described."""
        made: SemclassRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[Document]]:
        """Find documents.

        Parameters
        ----------
        query
            A non-empty text.
        filters
            In Haystack's filter language; what they do to those of the constructor is the policy's.
        top_k
            How many to give, at least 1; as the constructor has it if None.

        Returns
        -------
        dict
            ``documents``: passages with their ids, texts, metadata and scores, best first.

        Raises
        ------
        FilterInputError
            If a filter says what cannot be asked for; it is Haystack's ``FilterError``, too.
        InputError, InputTypeError
            If the query is empty or `top_k` is less than 1.
        """
        limit = self.top_k if top_k is None else check_positive(top_k, "top_k")
        asked = filters or self.filters
        if filters and self.filters and self.filter_policy is FilterPolicy.MERGE:
            asked = {"operator": "AND", "conditions": [self.filters, filters]}
        hits = self._ready().search(
            query,
            limit,
            rerank=self.rerank,
            by=self.by,
            match=self.match,
            candidates=self.candidates,
            where=to_where(asked) if asked else None,
        )
        return {
            "documents": [
                Document(
                    id=hit.id,
                    content=hit.text,
                    meta=_meta(hit.metadata, hit, details=self.details),
                    score=hit.score,
                )
                for hit in hits
            ]
        }

    run_async = in_thread(run, name="run_async")

    def _ready(self) -> HybridRetriever:
        found = self._retriever
        if found is None:
            shared = _encoder(self.models, self.encoder, self.threads)
            found = self._retriever = HybridRetriever.load(self.index, models=self.models, encoder=shared)
        return found


@component
class SemclassQueryRouter:
    """Sends a query to the output of its class: there is one output for each class, and ``unmatched``.

    Parameters
    ----------
    classes
        Names of the outputs. Of the shipped taxonomy any coarse and fine classes, such as ``["NUM:date", "NUM", "HUM"]``: a
        query goes to its fine class if that is among them, else to its coarse one. The six coarse classes if None.
    model
        Folder that :meth:`semclass.TextClassifier.save` wrote: a taxonomy of your own, whose classes must then be named.
    min_probability
        In [0, 1]; a query whose class is less probable goes to ``unmatched``. With a `model` that has a limit of its own,
        None keeps it.
    models, encoder
        Folder of the shipped taxonomy's heads, and the encoder, see :meth:`semclass.ranking.models.Ranker.load`.
    threads
        Threads of the encoder.

    Raises
    ------
    InputError, InputTypeError
        If an argument is not allowed; for a class that the model does not have, when it is loaded.

    Examples
    --------
    >>> router = SemclassQueryRouter(["NUM", "HUM"], min_probability=0.5)
    >>> router.run(query="When was the bridge opened?")
    {'NUM': 'When was the bridge opened?'}
    >>> router.run(query="Where is the bridge?")
    {'unmatched': 'Where is the bridge?'}
    """

    def __init__(
        self,
        classes: list[str] | None = None,
        *,
        model: str | Path | None = None,
        min_probability: float | None = None,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
    ) -> None:
        if classes is None and model is not None:
            raise InputError(f"name the classes of {model} that have an output: classes=[...]")
        self.classes = list(COARSE) if classes is None else check_texts(classes, "classes")
        check_unique(self.classes, "class")
        if reserved := {UNMATCHED, ABSTAIN}.intersection(self.classes):
            raise InputError(
                f"classes has {min(reserved)!r}, which is no class; queries of no class go to {UNMATCHED!r}"
            )
        self.model = _name(model, "model")
        self.min_probability = _limit(min_probability)
        self.models, self.encoder, self.threads = _origin(models, encoder, threads)
        self._classifier: QuestionClassifier | TextModel | None = None
        component.set_output_types(self, **dict.fromkeys([*self.classes, UNMATCHED], str))

    def warm_up(self) -> None:
        """Load the model, unless it is loaded.

        Raises
        ------
        ArtifactError
            If its folder is damaged, or it was trained for another encoder.
        InputError
            If it does not have one of the classes.
        """
        self._ready()

    warm_up_async = in_thread(warm_up, name="warm_up_async")

    def close(self) -> None:
        """Let go of the model; a later run loads it again."""
        self._classifier = None

    def to_dict(self) -> dict[str, Any]:
        """Give class and arguments, which JSON can hold."""
        return _saved(self, SemclassQueryRouter.__init__)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SemclassQueryRouter:
        """Make the component that :meth:`to_dict` described."""
        made: SemclassQueryRouter = default_from_dict(cls, data)
        return made

    def run(self, query: str) -> dict[str, str]:
        """Send a query on.

        Parameters
        ----------
        query
            A non-empty text.

        Returns
        -------
        dict
            The query, under the name of one output.

        Raises
        ------
        InputError, InputTypeError
            If the query is empty or not a string.
        """
        check_text(query, "query")
        labels = _labels(self._ready(), query, self.min_probability)
        return {next((name for name in labels if name in self.classes), UNMATCHED): query}

    run_async = in_thread(run, name="run_async")

    def _ready(self) -> QuestionClassifier | TextModel:
        found = self._classifier
        if found is None:
            found = _load_classifier(self.model, self.models, self.encoder, self.threads)
            known = [str(name) for name in found.classes]
            known += found.fine_classes if isinstance(found, QuestionClassifier) else ()
            if missing := [name for name in self.classes if name not in known]:
                raise InputError(
                    f"classes has {missing[0]!r}, which the model does not have; it has {', '.join(known)}"
                )
            self._classifier = found
        return found


@component
class SemclassQueryClassifier:
    """Tells which type of answer a query asks for, with calibrated probabilities.

    Its outputs can be conditions of a ``ConditionalRouter``, or part of a prompt.

    Parameters
    ----------
    model
        Folder that :meth:`semclass.TextClassifier.save` wrote: a taxonomy of your own, which has no fine classes. The
        shipped taxonomy if None.
    min_probability
        In [0, 1]; the label of a query whose class is less probable is ``"ABSTAIN"``. With a `model` that has a limit of
        its own, None keeps it.
    models, encoder, threads
        As for :class:`SemclassQueryRouter`.

    Raises
    ------
    InputError, InputTypeError
        If an argument is not allowed.

    Examples
    --------
    >>> found = SemclassQueryClassifier().run(query="When was the bridge opened?")
    >>> found["label"], found["fine_label"], round(found["probability"], 2)
    ('NUM', 'NUM:date', 0.98)
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        min_probability: float | None = None,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
    ) -> None:
        self.model = _name(model, "model")
        self.min_probability = _limit(min_probability)
        self.models, self.encoder, self.threads = _origin(models, encoder, threads)
        self._classifier: QuestionClassifier | TextModel | None = None
        outputs: dict[str, Any] = {"label": str, "probability": float, "probabilities": dict[str, float]}
        fine = {f"fine_{name}": kind for name, kind in outputs.items()} if model is None else {}
        component.set_output_types(self, **outputs, **fine)

    def warm_up(self) -> None:
        """Load the model, unless it is loaded.

        Raises
        ------
        ArtifactError
            If its folder is damaged, or it was trained for another encoder.
        """
        self._ready()

    warm_up_async = in_thread(warm_up, name="warm_up_async")

    def close(self) -> None:
        """Let go of the model; a later run loads it again."""
        self._classifier = None

    def to_dict(self) -> dict[str, Any]:
        """Give class and arguments, which JSON can hold."""
        return _saved(self, SemclassQueryClassifier.__init__)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SemclassQueryClassifier:
        """Make the component that :meth:`to_dict` described."""
        made: SemclassQueryClassifier = default_from_dict(cls, data)
        return made

    def run(self, query: str) -> dict[str, Any]:
        """Classify a query.

        Parameters
        ----------
        query
            A non-empty text.

        Returns
        -------
        dict
            ``label``, its ``probability``, and ``probabilities``, those of all classes; for the shipped taxonomy also
            ``fine_label``, ``fine_probability`` and ``fine_probabilities``.

        Raises
        ------
        InputError, InputTypeError
            If the query is empty or not a string.
        """
        check_text(query, "query")
        classifier = self._ready()
        if isinstance(classifier, TextModel):
            (named,) = classifier.predict([query], min_probability=self.min_probability)
            return {
                "label": str(named.label),
                "probability": named.probability,
                "probabilities": {str(name): value for name, value in named.probabilities.items()},
            }
        (found,) = classifier.predict([query], min_probability=self.min_probability or 0.0)
        return {
            "label": found.label,
            "probability": found.probability,
            "probabilities": dict(found.probabilities),
            "fine_label": found.fine,
            "fine_probability": found.fine_probability,
            "fine_probabilities": dict(found.fine_probabilities),
        }

    run_async = in_thread(run, name="run_async")

    def _ready(self) -> QuestionClassifier | TextModel:
        found = self._classifier
        if found is None:
            found = self._classifier = _load_classifier(self.model, self.models, self.encoder, self.threads)
        return found


def to_where(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Write a filter of Haystack in the language of :mod:`semclass.index.filters`.

    Fields are those of ``meta`` (``"meta.page"``, or ``"page"``) and ``"id"``; a passage has no other. What is found is
    what would be found among Haystack's documents, but for this: a list in ``meta`` matches by one of its elements, and an
    empty one counts as missing; 1 is not equal to ``True``; a value of another type than the one it is compared with does
    not match, and is no error; and a time without a zone is UTC.

    Parameters
    ----------
    filters
        ``{"field": ..., "operator": ..., "value": ...}`` with one of ``== != > >= < <= in`` and ``not in``, or
        ``{"operator": ..., "conditions": [...]}`` with ``AND``, ``OR`` or ``NOT``, which holds where not all conditions do.

    Returns
    -------
    dict
        For :meth:`semclass.HybridRetriever.search`.

    Raises
    ------
    FilterInputError
        Naming what is malformed, or cannot be said.

    Examples
    --------
    >>> to_where({"field": "meta.page", "operator": ">=", "value": 3})
    {'page': {'$gte': 3}}
    """
    where = _where(filters, "filters", 0)
    try:
        semclass_filters.parse(where)
    except SemclassError as error:
        raise FilterInputError(f"the filters {short(filters)} cannot be applied: {error}") from error
    return where


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents, for :meth:`semclass.PassageIndex.build` and :class:`semclass.IndexWriter`.

    Parameters
    ----------
    documents
        n documents with content; ``meta`` must be such that JSON can hold it. A ``title`` in it is read before the content.

    Returns
    -------
    list of Passage
        With the ids, contents and metadata of the documents, in their order.

    Raises
    ------
    InputError, InputTypeError
        If one is no document, or has no text.
    """
    return [
        Passage(item.id, check_text(item.content or "", f"content of document {item.id!r}"), _told_apart(item.meta))
        for item in _checked(documents)
    ]


def to_hits(documents: Iterable[Document]) -> list[Hit]:
    """Make hits of documents, best first, for :func:`semclass.build_context` and its steps.

    Parameters
    ----------
    documents
        n documents with content, as a retriever or a ranker gives them.

    Returns
    -------
    list of Hit
        With ranks from 1, and the score 0 where a document has none.

    Raises
    ------
    InputError, InputTypeError
        If one is no document, or has no text.
    """
    given = _checked(documents)
    hits = []
    for rank, (passage, item) in enumerate(zip(to_passages(given), given, strict=True), 1):
        hits.append(
            Hit(
                id=passage.id,
                text=passage.text,
                metadata=passage.metadata,
                score=0.0 if item.score is None else float(item.score),
                **read_details(item.meta, rank),
            )
        )
    return hits


_DEPTH = 50
_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_COMPARISONS = ("==", "!=", *_ORDER, "in", "not in")
_LOGIC = ("AND", "OR", "NOT")
_NOTHING: dict[str, Any] = {"$not": {}}
_NOT_PASSAGES = ("content", "blob", "score", "embedding", "sparse_embedding")


def _where(condition: object, at: str, depth: int) -> dict[str, Any]:
    """Write one condition."""
    if not isinstance(condition, Mapping):
        raise FilterInputError(f"{at} must be a mapping, not {short(condition)}")
    if depth > _DEPTH:
        raise FilterInputError(f"the filter is nested more than {_DEPTH} deep; write it flatter")
    if "field" in condition:
        return _comparison(condition, at)
    operator = _part(condition, "operator", at)
    parts = _part(condition, "conditions", at)
    if operator not in _LOGIC:
        raise FilterInputError(f"{at} has the operator {short(operator)}; between conditions it is one of {_LOGIC}")
    if not isinstance(parts, (list, tuple)):
        raise FilterInputError(f"{at}['conditions'] must be a list, not {short(parts)}")
    inside = [_where(part, f"{at}['conditions'][{place}]", depth + 1) for place, part in enumerate(parts)]
    if not inside:
        return {} if operator == "AND" else dict(_NOTHING)
    return {"$not": {"$and": inside}} if operator == "NOT" else {f"${operator.lower()}": inside}


def _comparison(condition: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Write what is asked of one field."""
    path = _path(condition["field"], at)
    operator = _part(condition, "operator", at)
    value = _part(condition, "value", at)
    if operator in _ORDER:
        return _ordered(path, operator, value, at)
    if operator not in _COMPARISONS:
        raise FilterInputError(f"{at} has the operator {short(operator)}; for a field it is one of {_COMPARISONS}")
    many = operator in ("in", "not in")
    if many and not isinstance(value, list):
        raise FilterInputError(f"{at}['value'] must be a list for {operator!r}, not {short(value)}")
    found = _among(path, value if many else [value], at)
    return found if operator in ("==", "in") else {"$not": found}


def _ordered(path: str, operator: str, value: Any, at: str) -> dict[str, Any]:
    """Write a bound; nothing is more or less than None."""
    if isinstance(value, str) and not _is_date(value):
        raise FilterInputError(
            f"{at} has the value {short(value)} for {operator!r}; of texts only dates in ISO 8601 have an order"
        )
    return dict(_NOTHING) if value is None else {path: {_ORDER[operator]: value}}


def _among(path: str, values: Sequence[Any], at: str) -> dict[str, Any]:
    """Write that a field has one of some values: None for a missing one, a date however it is written."""
    nested = [value for value in values if isinstance(value, (list, tuple, dict, set))]
    if nested:
        raise FilterInputError(
            f"{at} compares with {short(nested[0])}; a field is compared with one value, and with several by 'in'"
        )
    dates = [each for each in values if path != semclass_filters.ID and isinstance(each, str) and _is_date(each)]
    plain = [each for each in values if each is not None and not (isinstance(each, str) and each in dates)]
    parts: list[dict[str, Any]] = [{path: {"$gte": each, "$lte": each}} for each in dates]
    parts += [{path: {"$in": plain}}] if plain else []
    parts += [{path: None}] if any(each is None for each in values) else []
    return parts[0] if len(parts) == 1 else {"$or": parts} if parts else dict(_NOTHING)


def _is_date(text: str) -> bool:
    return instant(text) is not None


def _path(field: object, at: str) -> str:
    """Give the path of a field in a passage's metadata."""
    if not isinstance(field, str) or not field:
        raise FilterInputError(f"{at} has the field {short(field)}; a field is a name such as 'meta.page'")
    if field == "id":
        return semclass_filters.ID
    path = field.removeprefix("meta.")
    if field == "meta" or (path == field and field.partition(".")[0] in _NOT_PASSAGES):
        raise FilterInputError(f"{at} has the field {field!r}; passages are found by fields of meta and by id alone")
    if path == semclass_filters.ID or path.startswith("$"):
        raise FilterInputError(f"{at} has the field {field!r}, a name that fields of an index cannot be asked for by")
    return path


def _part(condition: Mapping[str, Any], key: str, at: str) -> Any:
    if key not in condition:
        raise FilterInputError(f"{at} has no {key!r}: {short(dict(condition))}")
    return condition[key]


_SHARED: WeakValueDictionary[tuple[str | None, str | None, int], Encoder] = WeakValueDictionary()
_LOADING = threading.Lock()


def _encoder(models: str | None, encoder: str | None, threads: int) -> Encoder:
    """Load an encoder, or give the one that another component holds: it is the largest part of all models."""
    key = (models if encoder is None else None, encoder, threads)
    with _LOADING:
        found = _SHARED.get(key)
        if found is None:
            found = open_encoder(encoder, threads) if encoder is not None else open_models(models, None, threads)[1]
            _SHARED[key] = found
        return found


def _load_classifier(
    model: str | None, models: str | None, encoder: str | None, threads: int
) -> QuestionClassifier | TextModel:
    shared = _encoder(models, encoder, threads)
    if model is not None:
        return TextModel.load(model, encoder=shared)
    return QuestionClassifier.load(models, encoder=shared)


def _labels(classifier: QuestionClassifier | TextModel, query: str, least: float | None) -> list[str]:
    """Classes of a query, the narrowest first; ``"ABSTAIN"`` where it has none."""
    if isinstance(classifier, TextModel):
        return [str(classifier.predict([query], min_probability=least)[0].label)]
    (found,) = classifier.predict([query], min_probability=least or 0.0)
    return [found.fine, found.label]


def _threshold(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputTypeError(f"score_threshold must be a number, not {short(value)}")
    if math.isnan(value):
        raise InputError("score_threshold is NaN, which no score reaches; give a number, or None for all documents")
    return float(value)


def _limit(value: float | None) -> float | None:
    return None if value is None else check_probability(value, "min_probability")


def _origin(models: str | Path | None, encoder: str | Path | None, threads: int) -> tuple[str | None, str | None, int]:
    """Check where models come from, and how many threads their encoder has."""
    return _name(models, "models"), _name(encoder, "encoder"), check_positive(threads, "threads")


def _saved(made: object, constructor: Callable[..., None]) -> dict[str, Any]:
    """Describe a component: its class, and the arguments of its constructor, which are attributes, too."""
    named = [name for name in signature(constructor).parameters if name != "self"]
    values = {name: getattr(made, name) for name in named}
    data: dict[str, Any] = default_to_dict(
        made, **{name: value.value if isinstance(value, Enum) else value for name, value in values.items()}
    )
    return data


def _name(value: object, name: str) -> str | None:
    """Give a path as a text, which can be saved."""
    if value is not None and not isinstance(value, (str, Path)):
        raise InputTypeError(f"{name} must be a path or a name, so that it can be saved, not {short(value)}")
    return None if value is None else str(value)


def _checked(documents: Iterable[Document]) -> list[Document]:
    """Refuse what are no documents."""
    given = [documents] if isinstance(documents, (str, Document)) else list(documents)
    wrong = [item for item in given if not isinstance(item, Document)]
    if wrong or isinstance(documents, Document):
        raise InputTypeError(
            f"documents must be a list of haystack.Document, not {short(wrong[0] if wrong else documents)}"
        )
    return given


def _told_apart(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Copy metadata without the details of an earlier ranking."""
    return {key: value for key, value in meta.items() if key != DETAILS}


def _deduplicated(documents: Iterable[Document]) -> list[Document]:
    """Keep of each id the document with the highest score, the first of equals, where the first of them stands."""
    best: dict[str, Document] = {}
    for item in _checked(documents):
        known = best.get(item.id)
        if known is None or _score(item) > _score(known):
            best[item.id] = item
    return list(best.values())


def _score(document: Document) -> float:
    return float("-inf") if document.score is None else float(document.score)


def _meta(meta: Mapping[str, Any], hit: Hit, *, details: bool) -> dict[str, Any]:
    """Copy metadata, with what a hit tells if that is wanted."""
    if not details:
        return dict(meta)
    return {**meta, DETAILS: write_details(hit)}
