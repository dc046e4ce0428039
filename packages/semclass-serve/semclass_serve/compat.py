"""Routes in the formats of other services. Clients of these services change only the address.

``/v2/rerank`` has the format of Cohere. ``/v1/rerank`` has one response for Cohere and Jina. ``/rerank`` (also as
``/`` and ``/invocations``), ``/predict`` and ``/info`` have the format of text-embeddings-inference (TEI). As in these
services, unknown fields and fields without effect are ignored. A long text is truncated at its end.

The score is the probability that the text answers the query. It depends only on these two texts, because clients
compare scores with a threshold, and merge the responses of several requests.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue, RootModel, field_validator
from pydantic_core import PydanticCustomError

import semclass
from semclass import EntailmentClassifier, EntailmentLabel, Passage, QuestionLabel
from semclass_serve.engine import Engine
from semclass_serve.errors import Json, ServiceError, invalid
from semclass_serve.limits import Settings, check_texts
from semclass_serve.queue import RUN_ITEMS

MODEL = "semclass"  #: name of the model if a request has none
SEARCH_UNIT = 100  #: documents in one of Cohere's search units
MIN_PROBABILITY = 1e-7  #: least probability for log-odds, because JSON has no infinity

TOKENS_PER_TEXT = 16 * 254
"""Most word pieces that the shipped encoder reads of a text: 16 windows of 254. Longer texts are truncated."""

_FORMS: Final = (
    "Input should be a question, a pair [question, sentence], or a list of these; write several questions as [[a], [b]]"
)

Query: TypeAlias = Annotated[str, Field(min_length=1, pattern=r"\S")]
Score: TypeAlias = Annotated[float, Field(description="Probability that the text answers the query.")]


class Sent(BaseModel):
    """A request. Fields must have the declared types. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Document(Sent):
    """A document with fields. The service reads its text, or the fields that `rank_fields` names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    text: str | None = None


class RerankRequest(Sent):
    """A request of Cohere's and Jina's clients."""

    query: Query
    documents: Annotated[list[str | Document], FailFast()]
    model: Annotated[str | None, Field(description="Returned unchanged. The service has only one model.")] = None
    top_n: Annotated[int, Field(ge=1, description="Maximum number of results; null: all.")] | None = None
    return_documents: Annotated[
        bool | None, Field(description="False: results of /v1/rerank contain no documents. /v2/rerank returns none.")
    ] = None
    rank_fields: Annotated[
        Annotated[list[str], Field(max_length=32)] | None,
        Field(description="Fields of a document to read instead of its text, in this order."),
    ] = None


class DocumentOut(BaseModel):
    """A document with its fields."""

    model_config = ConfigDict(extra="allow")

    text: str


class Result(BaseModel):
    """The place of a document in the request, from 0, its score, and the document on request."""

    index: int
    relevance_score: Score
    document: DocumentOut | None = None


class CohereAnswer(BaseModel):
    """Results for Cohere's v2 clients, best first."""

    id: str
    results: list[Result]
    meta: dict[str, Any]


class JinaAnswer(CohereAnswer):
    """Results for Jina's and Cohere's v1 clients, best first."""

    model: str
    usage: dict[str, int]


class TeiRerankRequest(Sent):
    """A request of TEI's clients to ``/rerank``."""

    query: Query
    texts: Annotated[list[str], FailFast()]
    raw_scores: Annotated[bool, Field(description="Return log-odds instead of probabilities.")] = False
    return_text: bool = False


class Rank(BaseModel):
    """The place of a text in the request, from 0, its score, and the text on request."""

    index: int
    score: float
    text: str | None = None


class TeiRerankAnswer(RootModel[list[Rank]]):
    """Texts, best first."""


class PredictRequest(Sent):
    """A request of TEI's clients to ``/predict``. Questions get classes; pairs are judged by entailment."""

    inputs: Annotated[
        Query | list[Query | list[Query]],
        Field(
            min_length=1,
            description="A question, a pair [question, sentence], or a list of [question] and [question, sentence].",
        ),
    ]
    raw_scores: Annotated[bool, Field(description="Return the logarithms of the probabilities.")] = False

    @field_validator("inputs", mode="before")
    @classmethod
    def _are_texts(cls, value: Any) -> Any:
        """Refuse other values with one error. Otherwise the error would list every value for every allowed form."""
        for item in value if isinstance(value, list) else ():
            if not all(isinstance(text, str) and text.strip() for text in (item if isinstance(item, list) else [item])):
                raise PydanticCustomError("inputs", _FORMS)
        return value


class Prediction(BaseModel):
    """A label and its score."""

    label: str
    score: float


class PredictAnswer(RootModel[list[Prediction] | list[list[Prediction]]]):
    """Labels of an input, most probable first, or a list of labels for each input."""


def router(engine: Engine) -> APIRouter:
    """Make the routes of Cohere, Jina and text-embeddings-inference."""
    routes, settings = APIRouter(), engine.settings

    @routes.post("/v2/rerank", response_model=CohereAnswer, tags=["cohere"])
    async def cohere_rerank(body: RerankRequest) -> Json:
        """Re-rank documents for clients of Cohere, v2."""
        results = _results(await _scores(engine, body.query, _texts(body, settings)), body.top_n)
        return Json({"id": str(uuid.uuid4()), "results": results, "meta": _meta("2", len(body.documents))})

    @routes.post("/v1/rerank", response_model=JinaAnswer, tags=["jina"])
    async def jina_rerank(body: RerankRequest) -> Json:
        """Re-rank documents for clients of Jina, and of Cohere, v1."""
        texts = _texts(body, settings)
        results = _results(await _scores(engine, body.query, texts), body.top_n)
        if body.return_documents is not False:  # the default of Jina; Cohere's clients accept it
            for result in results:
                place = result["index"]
                result["document"] = _document(body.documents[place], texts[place])
        words = sum(len(text.split()) for text in [body.query, *texts])
        return Json(
            {
                "id": str(uuid.uuid4()),
                "model": MODEL if body.model is None else body.model,
                "results": results,
                "usage": {"total_tokens": words, "prompt_tokens": words},
                "meta": _meta("1", len(texts)),
            }
        )

    async def tei_rerank(body: TeiRerankRequest) -> Json:
        """Re-rank texts for clients of text-embeddings-inference."""
        scores = await _scores(engine, body.query, body.texts)
        return Json(
            [
                {"index": place, "score": _log_odds(scores[place]) if body.raw_scores else scores[place]}
                | ({"text": body.texts[place]} if body.return_text else {})
                for place in _best_first(scores)
            ]
        )

    for path in ("/rerank", "/", "/invocations"):  # clouds that run TEI's container call the latter two
        routes.add_api_route(path, tei_rerank, methods=["POST"], response_model=TeiRerankAnswer, tags=["tei"])

    @routes.post("/predict", response_model=PredictAnswer, tags=["tei"])
    async def tei_predict(body: PredictRequest) -> Json:
        """Classify questions, and judge pairs of a question and a sentence, for clients of text-embeddings-inference."""
        inputs, alone = _inputs(body.inputs)
        check_texts([max(item, key=len) for item in inputs], settings)
        predictions = await _predictions(engine, inputs, raw=body.raw_scores)
        return Json(predictions[0] if alone else predictions)

    @routes.get("/info", response_model=dict[str, Any], tags=["tei"])
    async def tei_info() -> Json:
        """Describe the service to clients of text-embeddings-inference."""
        return Json(_info(engine))

    return routes


def _texts(body: RerankRequest, settings: Settings) -> list[str]:
    """Return the text to rank of each document."""
    # a repeated name is read once, or a short body could make a text of any length
    fields = tuple(dict.fromkeys(body.rank_fields or ()))
    for place, item in enumerate(body.documents):
        if not (fields or isinstance(item, str) or item.text is not None):
            raise invalid(f"documents.{place}: Input should be a text, or an object with a text; images are not read")
    texts = [item if isinstance(item, str) else _text(item, fields) for item in body.documents]
    check_texts(texts, settings)
    return texts


def _text(document: Document, fields: Sequence[str]) -> str:
    """Return the named fields of a document, one per line, or its text if it has none of these fields."""
    values: Mapping[str, JsonValue] = document.model_dump(exclude_unset=True)
    lines = [values[name] for name in fields if values.get(name) is not None]
    written = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in lines]
    return "\n".join(written) if written else document.text or ""


def _document(document: str | Document, text: str) -> dict[str, Any]:
    """Return a document as in the request, with a text, which Cohere's clients require."""
    fields = {} if isinstance(document, str) else document.model_dump(exclude_unset=True)
    return {**fields, "text": text if fields.get("text") is None else fields["text"]}


async def _scores(engine: Engine, query: str, texts: Sequence[str]) -> list[float]:
    """Return the probability that each text answers the query, in [0, 1]; 0 for white space."""
    if not texts:
        raise ServiceError(400, "empty", "there is nothing to rank; give at least one text")
    check_texts([query], engine.settings)
    check_texts(texts, engine.settings)
    scores = [0.0] * len(texts)
    passages = [Passage(str(place), text) for place, text in enumerate(texts) if text.strip()]
    if passages:
        # this method computes entailment alone; its order does not matter
        for hit in await engine.rerank(query, passages, method="entail-stable"):
            scores[int(hit.id)] = hit.components["relevance"]
    return scores


def _best_first(scores: Sequence[float]) -> list[int]:
    """Return places by score, largest first. Equal scores keep their order."""
    return sorted(range(len(scores)), key=lambda place: -scores[place])


def _results(scores: Sequence[float], top_n: int | None) -> list[dict[str, Any]]:
    return [{"index": place, "relevance_score": scores[place]} for place in _best_first(scores)[:top_n]]


def _meta(version: str, documents: int) -> dict[str, Any]:
    return {"api_version": {"version": version}, "billed_units": {"search_units": math.ceil(documents / SEARCH_UNIT)}}


def _log_odds(probability: float) -> float:
    inside = min(max(probability, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(inside / (1 - inside))


def _inputs(inputs: str | Sequence[str | list[str]]) -> tuple[list[list[str]], bool]:
    """Return each input as one or two texts, and whether there is only one input. As in TEI, two strings are a pair."""
    nested = [[inputs]] if isinstance(inputs, str) else [item for item in inputs if isinstance(item, list)]
    alone = not nested or isinstance(inputs, str)
    items = nested or [[item for item in inputs if isinstance(item, str)]]
    if any(len(item) not in (1, 2) for item in items) or (not alone and len(nested) < len(inputs)):
        raise invalid(f"inputs: {_FORMS}")
    return items, alone


async def _predictions(engine: Engine, inputs: Sequence[Sequence[str]], *, raw: bool) -> list[list[dict[str, Any]]]:
    """Return the labels of each input, most probable first."""
    questions = [item[0] for item in inputs if len(item) == 1]
    pairs = [(item[0], item[1]) for item in inputs if len(item) == 2]
    labels = iter(await engine.classify_questions(questions) if questions else ())
    judged = iter(await engine.entails(pairs) if pairs else ())
    return [_prediction(next(labels) if len(item) == 1 else next(judged), raw=raw) for item in inputs]


def _prediction(label: QuestionLabel | EntailmentLabel, *, raw: bool) -> list[dict[str, Any]]:
    if isinstance(label, QuestionLabel):
        probabilities = dict(label.probabilities)
    else:
        shares = (1 - label.probability, label.probability)
        probabilities = dict(zip(EntailmentClassifier.classes, shares, strict=True))
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    return [{"label": name, "score": math.log(max(p, MIN_PROBABILITY)) if raw else p} for name, p in ordered]


def _info(engine: Engine) -> dict[str, Any]:
    label = EntailmentClassifier.classes[1]
    return {
        "model_id": MODEL,
        "model_sha": engine.models.encoder.fingerprint,
        "model_dtype": "float32",
        "model_type": {"reranker": {"id2label": {"0": label}, "label2id": {label: 0}}},
        "max_concurrent_requests": engine.settings.max_requests,
        "max_input_length": TOKENS_PER_TEXT,
        "max_batch_tokens": TOKENS_PER_TEXT * RUN_ITEMS,
        "max_batch_requests": RUN_ITEMS,
        "max_client_batch_size": engine.settings.max_texts,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": semclass.__version__,
        "sha": None,
        "docker_label": None,
    }
