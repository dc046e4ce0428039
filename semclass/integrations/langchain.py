"""LangChain: a retriever, a compressor that re-ranks what any retriever found, and a router by answer type.

They keep LangChain's conventions. A score stands in ``metadata["relevance_score"]`` of a copy; documents that are handed in
stay as they are, and copies keep ids and metadata. Documents come best first. ``invoke``, ``ainvoke``, ``batch``,
``stream``, callbacks, tags and ``configurable_fields`` work as for any runnable.

Models are loaded when they are first needed. What is set by paths can be pickled and, as
``langchain_core.load.dumps`` does it, written as JSON; what holds loaded objects cannot. Copies share loaded models.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from semclass.core.checks import short
from semclass.core.errors import InputError, InputTypeError, SemclassError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import Hit, Passage, QuestionLabel
from semclass.core.waiting import in_thread
from semclass.heads.questions import QuestionClassifier
from semclass.index.passage_index import PassageIndex
from semclass.integrations.details import DETAILS, read_details, write_details
from semclass.ranking.models import Ranker
from semclass.ranking.reranker import Reranker, at_least
from semclass.ranking.retriever import HybridRetriever

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun, Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableLambda, RunnableSerializable
    from langchain_core.runnables.base import coerce_to_runnable
    from langchain_core.runnables.utils import get_unique_config_specs
    from pydantic import ConfigDict, Field, field_validator, model_validator
except ImportError:
    import_extra("langchain_core", "langchain")  # says what to install
    raise

SCORE = "relevance_score"
"""Metadata of a document: its score, as LangChain's other re-rankers name it."""


def _as_text(path: Any) -> Any:
    """A path as text, which JSON can hold."""
    return os.fspath(path) if isinstance(path, os.PathLike) else path


def _check_kind(value: object, kind: type, name: str) -> None:
    """Refuse what is no such object; pydantic itself would look into its fields."""
    if value is not None and not isinstance(value, kind):
        raise InputTypeError(f"{name} must be a semclass.{kind.__name__}, not {type(value).__name__}")


class _Loaded:
    """Loads what is asked for once, however many threads ask; a pickle of it has loaded nothing, a copy shares it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[Any, ...], Any] = {}

    def get(self, key: tuple[Any, ...], load: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._values:
                self._values[key] = load()
            return self._values[key]

    def __eq__(self, other: object) -> bool:
        """What is loaded follows from the other fields, so that it tells no two apart."""
        return isinstance(other, _Loaded)

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> _Loaded:
        return self

    def __reduce__(self) -> tuple[type[_Loaded], tuple[()]]:
        return _Loaded, ()


# a field, not a private attribute: `configurable_fields` makes a new object of the fields for every call
_CACHE: Any = Field(default_factory=_Loaded, exclude=True, repr=False)


class SemclassRetriever(BaseRetriever):
    """Finds the passages that answer a question, in an index of semclass.

    Its invocations take `k` and the options of :meth:`semclass.HybridRetriever.search` too, which hold for that call:
    ``retriever.invoke("Who built it?", k=2, where={"page": {"$gte": 3}})``.

    Attributes
    ----------
    index
        Folder of an index, as ``semclass index build`` writes it.
    models, encoder, threads
        See :meth:`semclass.HybridRetriever.load`.
    retriever
        A loaded retriever in place of a folder: one over a :class:`semclass.QdrantIndex`, say.
    k
        How many documents to give; fewer if the index holds fewer.
    search_kwargs
        Other options of :meth:`semclass.HybridRetriever.search`, such as ``{"rerank": None, "where": {...}}``.
    details
        Whether ``metadata["semclass"]`` tells the rest of a hit: ``labels``, ``probabilities``, ``components``, ``rank``,
        ``rank_before``; with the option ``explain`` also the ``explanation``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: str | None = None
    models: str | None = None
    encoder: str | None = None
    threads: int = Field(default=1, ge=1)
    retriever: Any = Field(default=None, exclude=True, repr=False)
    k: int = Field(default=10, ge=1)
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    details: bool = False
    loaded: Any = _CACHE

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], *, ranker: Ranker | None = None, **fields: Any
    ) -> SemclassRetriever:
        """Index documents in memory.

        Parameters
        ----------
        documents
            See :func:`to_passages`.
        ranker
            The models; the shipped ones if None.
        fields
            Fields of the retriever, such as `k`.

        Returns
        -------
        SemclassRetriever
            Ready to use; ``retriever.retriever.index.save("my-index")`` keeps the index.

        Raises
        ------
        InputError, InputTypeError
            If there are no documents, one has no text, an id comes twice, or metadata are not JSON.
        """
        used = Ranker.load() if ranker is None else ranker
        index = PassageIndex.build(to_passages(documents), reader=used.reader)
        return cls(retriever=HybridRetriever(index, used), **fields)

    _paths = field_validator("index", "models", "encoder", mode="before")(_as_text)

    @model_validator(mode="after")
    def _check(self) -> SemclassRetriever:
        _check_kind(self.retriever, HybridRetriever, "retriever")
        if (self.index is None) == (self.retriever is None):
            raise InputError("give either index, the folder of an index, or retriever, a semclass.HybridRetriever")
        _check_options(self.search_kwargs, HybridRetriever.search, "search_kwargs")
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether LangChain may write this as JSON: yes, where it is set by paths."""
        return True

    def to_json(self) -> Any:
        """Give what LangChain writes: the fields; of a loaded retriever no more than that it cannot be written."""
        return self.to_json_not_implemented() if self.retriever is not None else super().to_json()

    def batch(self, inputs: list[str], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any) -> Any:
        """Search for several questions, which are encoded together, before the run of each begins."""
        found = self._search_many(inputs, kwargs)
        return super().batch(inputs, config, return_exceptions=return_exceptions, found=found, **kwargs)

    async def abatch(
        self, inputs: list[str], config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
    ) -> Any:
        """Search for several questions, which are encoded together, before the run of each begins."""
        found = await in_thread(SemclassRetriever._search_many)(self, inputs, kwargs)
        return await super().abatch(inputs, config, return_exceptions=return_exceptions, found=found, **kwargs)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        found: Mapping[str, list[Hit]] | None = None,
        **options: Any,
    ) -> list[Document]:
        hits = found[query] if found else self._search(query, options)
        return [_document(hit, details=self.details) for hit in hits]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        found: Mapping[str, list[Hit]] | None = None,
        **options: Any,
    ) -> list[Document]:
        hits = found[query] if found else await in_thread(SemclassRetriever._search)(self, query, options)
        return [_document(hit, details=self.details) for hit in hits]

    def _search(self, query: str, given: Mapping[str, Any]) -> list[Hit]:
        return self._opened().search(query, **self._options(given))

    def _search_many(self, queries: Sequence[str], given: Mapping[str, Any]) -> dict[str, list[Hit]]:
        """Search for all; nothing where one is refused, so that each tells in its own run what is wrong with it."""
        try:
            return dict(zip(queries, self._opened().search_many(queries, **self._options(given)), strict=True))
        except SemclassError:
            return {}

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a call; `verbose` is LangChain's own."""
        asked = {name: value for name, value in given.items() if name not in ("k", "verbose")}
        _check_options(asked, HybridRetriever.search, "invoke")
        return {"k": given.get("k", self.k), **self.search_kwargs, **asked}

    def _opened(self) -> HybridRetriever:
        used: HybridRetriever = self.retriever or self.loaded.get(
            (self.index, self.models, self.encoder, self.threads),
            lambda: HybridRetriever.load(
                str(self.index), models=self.models, encoder=self.encoder, threads=self.threads
            ),
        )
        return used


class SemclassCompressor(BaseDocumentCompressor):
    """Re-ranks documents that any retriever found, by whether they answer the question.

    Documents need no ids, and two may have the same text. One without text answers nothing and is left out.

    Attributes
    ----------
    models, encoder, threads
        See :meth:`semclass.Reranker.load`.
    reranker
        A loaded re-ranker in place of paths.
    top_n
        How many documents to give; None for all.
    score_threshold
        Documents that answer the question with a lower probability are left out, or with a lower score where the method
        has no probability (``by="class"``); None keeps all.
    rerank_kwargs
        Options of :meth:`semclass.Reranker.rerank`, such as ``{"rerank": "integrated"}``.
    details
        As for :class:`SemclassRetriever`; ``rank_before`` counts the documents that have text.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    models: str | None = None
    encoder: str | None = None
    threads: int = Field(default=1, ge=1)
    reranker: Any = Field(default=None, exclude=True, repr=False)
    top_n: int | None = Field(default=3, ge=1)
    score_threshold: float | None = None
    rerank_kwargs: dict[str, Any] = Field(default_factory=dict)
    details: bool = False
    loaded: Any = _CACHE

    _paths = field_validator("models", "encoder", mode="before")(_as_text)

    @model_validator(mode="after")
    def _check(self) -> SemclassCompressor:
        _check_kind(self.reranker, Reranker, "reranker")
        _check_options(self.rerank_kwargs, Reranker.rerank, "rerank_kwargs")
        return self

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Give the documents that answer the question best.

        Parameters
        ----------
        documents
            In the order in which they were found.
        query
            The question.
        callbacks
            Not used: what is computed here calls nothing that could tell of itself.

        Returns
        -------
        list of Document
            Copies, best first, with ``metadata["relevance_score"]``. Empty for no documents.

        Raises
        ------
        InputError, InputTypeError
            If the question is empty, or an option is not allowed.
        """
        given = [document for document in documents if document.page_content.strip()]
        # ids of LangChain's documents may be absent or come twice: places are unique
        passages = [
            Passage(str(place), document.page_content, document.metadata) for place, document in enumerate(given)
        ]
        hits = self._opened().rerank(query, passages, k=self.top_n, **self.rerank_kwargs)
        return [
            given[int(hit.id)].model_copy(update={"metadata": _metadata(hit, details=self.details)})
            for hit in at_least(hits, self.score_threshold)
        ]

    acompress_documents = in_thread(compress_documents)

    def _opened(self) -> Reranker:
        used: Reranker = self.reranker or self.loaded.get(
            (self.models, self.encoder, self.threads),
            lambda: Reranker.load(self.models, encoder=self.encoder, threads=self.threads),
        )
        return used


class SemclassRouter(RunnableSerializable[Any, Any]):
    """Hands its input on to one of several runnables, by the type of answer that the question asks for.

    The runnable of the fine class is taken if there is one, then that of the coarse class, then the default. Its runs have
    the tag ``route:CLASS``, and in their metadata the class as ``semclass_label`` and its ``semclass_probability``.

    Attributes
    ----------
    routes
        Class, such as ``"NUM"`` or ``"NUM:date"``, to runnable, or what LangChain makes one of: a function, a dict.
    default
        For all other questions, and for those that are less certain than `min_probability`.
    min_probability
        In [0, 1]; the probability that a class must have to choose its route.
    input_key
        Where the question stands in an input that is a mapping; an input that is a string is the question.
    models, threads
        See :meth:`semclass.QuestionClassifier.load`.
    classifier
        A loaded classifier in place of a path: ``ranker.questions`` shares one encoder with the rest.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    routes: dict[str, Runnable]
    default: Runnable | None = None
    min_probability: float = Field(default=0.0, ge=0, le=1)
    input_key: str = "question"
    models: str | None = None
    threads: int = Field(default=1, ge=1)
    classifier: Any = Field(default=None, exclude=True, repr=False)
    loaded: Any = _CACHE

    _paths = field_validator("models", mode="before")(_as_text)

    @field_validator("routes", mode="before")
    @classmethod
    def _coerce_routes(cls, routes: Any) -> Any:
        is_table = isinstance(routes, Mapping)
        return {name: coerce_to_runnable(step) for name, step in routes.items()} if is_table else routes

    @field_validator("default", mode="before")
    @classmethod
    def _coerce_default(cls, default: Any) -> Any:
        return None if default is None else coerce_to_runnable(default)

    @model_validator(mode="after")
    def _check(self) -> SemclassRouter:
        _check_kind(self.classifier, QuestionClassifier, "classifier")
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether LangChain may write this as JSON: yes, where it is set by a path."""
        return True

    def to_json(self) -> Any:
        """Give what LangChain writes: the fields; of a loaded classifier no more than that it cannot be written."""
        return self.to_json_not_implemented() if self.classifier is not None else super().to_json()

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured: what can be in the routes."""
        steps = [*self.routes.values(), *([] if self.default is None else [self.default])]
        specs: list[ConfigurableFieldSpec] = get_unique_config_specs(
            spec for step in steps for spec in step.config_specs
        )
        return specs

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and invoke it with the input; `kwargs` are for the route."""
        return self._step().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and await it."""
        return await self._step().ainvoke(input, config, **kwargs)

    def stream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Choose a route and give what it streams."""
        yield from self._step().stream(input, config, **kwargs)

    async def astream(
        self,
        input: Any,  # noqa: A002
        config: Any = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Choose a route and give what it streams."""
        async for chunk in self._step().astream(input, config, **kwargs):
            yield chunk

    def _step(self) -> RunnableLambda:
        """The choice as a runnable: LangChain runs what a function gives, with its callbacks, and streams it."""
        return RunnableLambda(self._choose, name=self.get_name())

    def _choose(self, value: Any, **kwargs: Any) -> Runnable:
        label = self._opened().predict([self._question(value)], min_probability=self.min_probability)[0]
        sure = label.label != ABSTAIN
        fine = sure and label.fine in self.routes and label.fine_probability >= self.min_probability
        name = label.fine if fine else label.label
        step = self.routes.get(name, self.default)
        if step is None:
            raise InputError(_lost(label, self.routes))
        chance = label.fine_probability if fine else label.probability
        bound = step.bind(**kwargs) if kwargs else step
        return bound.with_config(
            tags=[f"route:{name if name in self.routes else 'default'}"],
            metadata={"semclass_label": name, "semclass_probability": chance},
        )

    def _question(self, value: Any) -> str:
        if not isinstance(value, Mapping):
            return value if isinstance(value, str) else _refused(value, self.input_key)
        if self.input_key not in value:
            raise InputError(
                f"the input has no {self.input_key!r}, only {', '.join(map(repr, value)) or 'nothing'}; name the key of "
                "the question with input_key="
            )
        question: str = value[self.input_key]
        return question

    def _opened(self) -> QuestionClassifier:
        used: QuestionClassifier = self.classifier or self.loaded.get(
            (self.models, self.threads), lambda: QuestionClassifier.load(self.models, threads=self.threads)
        )
        known = {*used.classes, *used.fine_classes}
        if unknown := [name for name in self.routes if name not in known]:
            raise InputError(
                f"routes has {', '.join(map(repr, unknown))}, which is no class of the models; they have "
                f"{', '.join(sorted(known))}"
            )
        return used


def to_passages(documents: Iterable[Document]) -> list[Passage]:
    """Make passages of documents, to index them.

    Parameters
    ----------
    documents
        n documents. One without id gets one that follows from its text and metadata, so that it has the same one the next
        time; equal documents are told apart by a number.

    Returns
    -------
    list of Passage
        In the order of `documents`.
    """
    given = _checked(documents)
    return [
        Passage(name, document.page_content, dict(document.metadata))
        for name, document in zip(_ids(given), given, strict=True)
    ]


def to_hits(documents: Iterable[Document]) -> list[Hit]:
    """Make hits of documents, best first, for :func:`semclass.build_context` and its steps.

    Parameters
    ----------
    documents
        n documents, as a retriever or a compressor gives them.

    Returns
    -------
    list of Hit
        With ranks from 1, and the score 0 where a document tells none.
    """
    given = _checked(documents)
    hits = []
    for rank, (name, document) in enumerate(zip(_ids(given), given, strict=True), 1):
        metadata = {key: value for key, value in document.metadata.items() if key not in (SCORE, DETAILS)}
        score = document.metadata.get(SCORE, 0.0)
        hits.append(
            Hit(
                id=name,
                text=document.page_content,
                metadata=metadata,
                score=float(score) if isinstance(score, (int, float)) else 0.0,
                **read_details(document.metadata, rank),
            )
        )
    return hits


def _document(hit: Hit, *, details: bool) -> Document:
    return Document(id=hit.id, page_content=hit.text, metadata=_metadata(hit, details=details))


def _metadata(hit: Hit, *, details: bool) -> dict[str, Any]:
    """A copy of the passage's metadata, with the score; what an earlier step wrote there is overwritten."""
    metadata = {**hit.metadata, SCORE: hit.score}
    if details or hit.explanation is not None:
        metadata[DETAILS] = {
            **write_details(hit),
            **({} if hit.explanation is None else {"explanation": asdict(hit.explanation)}),
        }
    return metadata


def _checked(documents: Iterable[Document]) -> list[Document]:
    given = [documents] if isinstance(documents, (str, Mapping)) else list(documents)
    for item in given:
        if not isinstance(item, Document):
            raise InputTypeError(
                f"documents must be a sequence of langchain_core.documents.Document, and has {short(item)}"
            )
    return given


def _ids(documents: Sequence[Document]) -> list[str]:
    """The ids of documents, and for those without one made ones, unique among themselves."""
    seen: Counter[str] = Counter()
    names = []
    for document in documents:
        name = document.id
        if name is None:
            told = json.dumps([document.page_content, document.metadata], sort_keys=True, default=str)
            name = hashlib.sha256(told.encode()).hexdigest()[:16]
            seen[name] += 1
            name = name if seen[name] == 1 else f"{name}-{seen[name]}"
        names.append(name)
    return names


def _check_options(given: Mapping[str, Any], method: Callable[..., Any], where: str) -> None:
    """Refuse an option that the method does not have, now and not at the first call."""
    allowed = [name for name, value in inspect.signature(method).parameters.items() if value.kind is value.KEYWORD_ONLY]
    unknown = [name for name in given if name not in allowed or name == "k"]
    if unknown:
        raise InputError(
            f"{where} has {', '.join(map(repr, unknown))}; it takes {', '.join(n for n in allowed if n != 'k')}"
        )


def _lost(label: QuestionLabel, routes: Mapping[str, Any]) -> str:
    best = max(label.probabilities, key=label.probabilities.__getitem__)
    why = (
        "less certain than min_probability"
        if label.label == ABSTAIN
        else f"for which there is no route among {', '.join(map(repr, routes)) or 'none'}"
    )
    return f"the question asks for {best} ({label.probability:.2f}), {why}; give a default"


def _refused(value: object, key: str) -> str:
    raise InputTypeError(f"the input must be a question or a mapping with {key!r}, not {type(value).__name__}")
