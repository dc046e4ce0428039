"""What the adapters for frameworks share: loading models, options, searching, routing, and hits as metadata."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from semclass.core.checks import check_text, short
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Encoder, Hit, Passage
from semclass.encoders.onnx_encoder import open_models
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel, open_encoder
from semclass.ranking.methods import find_method
from semclass.ranking.options import SearchOptions
from semclass.ranking.reranker import Reranker, at_least
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import HybridRetriever
from semclass_llm.endpoint.client import KEY_VARIABLE, Endpoint
from semclass_llm.rewriting.retriever import RewritingRetriever
from semclass_llm.rewriting.rewriter import Rewriter

DETAILS = "semclass"  # field of a document's metadata that holds the details of a hit

SEARCH = (*(field.name for field in fields(SearchOptions)), "rewrite", "history")
"""Options of a search; `rewrite` and `history` are those of :class:`semclass.RewritingRetriever`."""

RESULT = ("query_used", "certainty", "answerable", "language")
"""Fields of a result that documents bear, as frameworks have no other place for them."""

RERANK = ("method", "fusion", "weights", "explain")
"""Options of re-ranking."""

T = TypeVar("T")

_ENCODERS: WeakValueDictionary[tuple[str | None, str | None, int], Encoder] = WeakValueDictionary()
_LOADING = threading.Lock()


def load_encoder(models: str | None, encoder: str | None, threads: int) -> Encoder:
    """Load an encoder, the largest part of all models, unless something in this process holds it already."""
    key = (models if encoder is None else None, encoder, threads)
    with _LOADING:
        found = _ENCODERS.get(key)
        if found is None:
            found = open_encoder(encoder, threads) if encoder is not None else open_models(models, None, threads)[1]
            _ENCODERS[key] = found
        return found


def load_reranker(models: str | None, encoder: str | None, threads: int) -> Reranker:
    """Load a re-ranker over the shared encoder."""
    return Reranker.load(models, encoder=load_encoder(models, encoder, threads))


def load_retriever(index: str, models: str | None, encoder: str | None, threads: int) -> HybridRetriever:
    """Open an index, with models over the shared encoder."""
    return HybridRetriever.load(index, models=models, encoder=load_encoder(models, encoder, threads))


def load_classifier(
    models: str | None, encoder: str | None, threads: int, model: str | None = None
) -> QuestionClassifier | TextModel:
    """Load the question classifier, or the text model in the folder `model`, over the shared encoder."""
    used = load_encoder(models, encoder, threads)
    return QuestionClassifier.load(models, encoder=used) if model is None else TextModel.load(model, encoder=used)


def load_rewriter(fields: Mapping[str, Any] | None) -> Rewriter | None:
    """Make what rewrites questions of ``way``, ``url`` and ``model``; the key of the service is in the environment."""
    if fields is None:
        return None
    if not {"way", "url", "model"} <= fields.keys() <= {"way", "url", "model", "timeout", "retries"}:
        raise InputError(f"rewrite has {', '.join(fields)}; give way, url, model, and optionally timeout, retries")
    service = {"retries": 1, **{name: value for name, value in fields.items() if name != "way"}}
    return Rewriter(fields["way"], Endpoint(key=os.environ.get(KEY_VARIABLE), **service))


class Lazy:
    """Loads a value once, in whichever thread is first, unless one is `given`; copies share it, and a pickle holds none."""

    def __init__(self, given: Any = None) -> None:
        self.given = given
        self._lock = threading.Lock()
        self._values: dict[tuple[Any, ...], Any] = {}

    def get(self, load: Callable[..., T], *key: Any) -> T:
        """Give the value of ``load(*key)``, which is called at the first time only."""
        with self._lock:
            if self.given is None and key not in self._values:
                self._values[key] = load(*key)
            value: T = self._values[key] if self.given is None else self.given
            return value

    def clear(self) -> None:
        """Let go of all values."""
        self._values.clear()

    def __eq__(self, other: object) -> bool:
        """All are equal: what is loaded follows from other fields of the owner."""
        return isinstance(other, Lazy)

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Lazy:
        return self

    def __reduce__(self) -> tuple[type[Lazy], tuple[()]]:
        return Lazy, ()


def path_text(path: object, name: str) -> str | None:
    """Write a path as text, which JSON can hold."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise InputTypeError(f"{name} must be a path or a name, not {short(path)}")
    return None if path is None else os.fspath(path)


def check_kind(value: object, kind: type | tuple[type, ...], name: str) -> None:
    """Refuse what is not an object of a class, or of one of several, of semclass."""
    if not isinstance(value, kind):
        names = " or ".join(f"semclass.{each.__name__}" for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise InputTypeError(f"{name} must be a {names}, not {short(value)}")


def check_items(items: Iterable[Any], name: str, *kinds: type) -> list[Any]:
    """Copy a sequence of a framework's documents into a list; one bare document is refused, as it is a common slip."""
    single = isinstance(items, (str, Mapping, *kinds)) or not isinstance(items, Iterable)
    given = [items] if single else list(items)
    if wrong := given if single else [item for item in given if not isinstance(item, kinds)]:
        library = kinds[0].__module__.partition(".")[0]
        raise InputTypeError(f"{name} must be a list of {library}.{kinds[0].__name__}, but holds {short(wrong[0])}")
    return given


def check_options(options: Mapping[str, Any], allowed: Sequence[str], name: str) -> None:
    """Refuse options that are not allowed (`k` has a name of its own in each framework), and unknown methods."""
    if unknown := [option for option in options if option not in allowed]:
        raise InputError(f"{name} has {', '.join(map(repr, unknown))}; allowed are {', '.join(allowed)}")
    if "method" in options:
        find_method(options["method"], options.get("fusion"), reranking=allowed is RERANK)


class Text(NamedTuple):
    """What is read of a document: its text, and the metadata that count, such as a title."""

    text: str
    metadata: Mapping[str, Any] = {}


def search(retriever: HybridRetriever, question: str, k: int, options: Mapping[str, Any]) -> SearchResult:
    """Search with the options `SEARCH`."""
    own = {name: value for name, value in options.items() if name not in ("rewrite", "history")}
    rewrite, history = options.get("rewrite"), options.get("history") or ()
    if rewrite is not None:
        return RewritingRetriever(retriever, rewrite).search(question, k, history=history, **own)
    if history:
        raise InputError("history needs rewrite; give both, or neither")
    return retriever.search(question, k, **own)


def rerank(
    reranker: Reranker,
    question: str,
    texts: Sequence[Text],
    k: int | None,
    threshold: float | None,
    options: Mapping[str, Any],
) -> tuple[list[tuple[int, Hit | None]], SearchResult]:
    """Re-rank texts: the place of each and its hit, best first; without a threshold, blank ones follow without hits.

    Also gives the result that the hits are of.
    """
    # documents may lack ids or share them: their places are unique
    passages = [Passage(str(place), *each) for place, each in enumerate(texts) if each.text.strip()]
    result = reranker.rerank(question, passages, k=k, **options)
    ranked: list[tuple[int, Hit | None]] = [(int(hit.id), hit) for hit in at_least(result, threshold)]
    if threshold is None:
        ranked += [(place, None) for place, each in enumerate(texts) if not each.text.strip()]
    return ranked[:k], result


def check_classes(model: QuestionClassifier | TextModel, names: Iterable[str], argument: str) -> None:
    """Refuse names that are no classes of a model."""
    known = [*map(str, model.classes), *(model.fine_classes if isinstance(model, QuestionClassifier) else ())]
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{argument} has the unknown class {unknown[0]!r}; known classes are {', '.join(known)}")


def classify(model: QuestionClassifier | TextModel, question: str, least: float | None) -> dict[str, Any]:
    """Classify a question: ``label``, its ``probability``, ``probabilities`` of all; ``fine_...`` where there are any."""
    texts = [check_text(question, "question")]
    if isinstance(model, TextModel):
        (text,) = model.classify(texts, min_probability=least)
        probabilities = {str(name): value for name, value in text.probabilities.items()}
        return {"label": str(text.label), "probability": text.probability, "probabilities": probabilities}
    (found,) = model.classify(texts, min_probability=least or 0.0)
    return {
        "label": found.label,
        "probability": found.probability,
        "probabilities": dict(found.probabilities),
        "fine_label": found.fine,
        "fine_probability": found.fine_probability,
        "fine_probabilities": dict(found.fine_probabilities),
    }


def route(found: Mapping[str, Any], names: Container[str], least: float | None) -> tuple[str, float]:
    """The class to route by: the fine one if it has a route and at least the `least` probability, else the coarse one."""
    if found.get("fine_label") in names and found["fine_probability"] >= (least or 0.0):
        return found["fine_label"], found["fine_probability"]
    return found["label"], found["probability"]


def details_of(hit: Hit | None, result: SearchResult, *, wanted: bool) -> dict[str, Any]:
    """Give the other fields of a hit and of its result as metadata, if they are `wanted` or there is an explanation."""
    if hit is None or not (wanted or hit.explanation):
        return {}
    details: dict[str, Any] = {
        "labels": list(hit.labels),
        "probabilities": dict(hit.probabilities),
        "components": dict(hit.components),
        "rank": hit.rank,
        "rank_before": hit.rank_before,
    }
    details |= {name: value for name in RESULT if (value := getattr(result, name)) is not None}
    return {DETAILS: details if hit.explanation is None else {**details, "explanation": asdict(hit.explanation)}}


def read_hit(
    name: str, text: str, metadata: Mapping[str, Any], score: object, rank: int, *, drop: Sequence[str] = ()
) -> Hit:
    """Make a hit of a document at place `rank`, from 1, with the details that an earlier step wrote."""
    written = metadata.get(DETAILS)
    known: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
    return Hit(
        id=name,
        text=text,
        metadata={key: value for key, value in metadata.items() if key != DETAILS and key not in drop},
        score=float(score) if isinstance(score, (int, float)) else 0.0,
        rank=rank,
        rank_before=known.get("rank_before", rank),
        components=known.get("components", {}),
        labels=tuple(known.get("labels", ())),
        probabilities=known.get("probabilities", {}),
    )
