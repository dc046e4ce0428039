"""Requests and responses of the native API. Responses contain the dataclasses of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from semclass import Hit, Label, QuestionLabel

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Texts = Annotated[list[Text], FailFast(), Field(min_length=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Weights = Annotated[dict[str, Annotated[float, Field(ge=0, le=1e6)]], Field(max_length=16)]
Count = Annotated[int, Field(ge=1)]
Where = Annotated[
    dict[str, JsonValue] | Annotated[list[str], Field(min_length=1, max_length=50)],
    Field(description='A filter, such as {"page": {"$gte": 3}}, or conditions as on the command line: ["page>=3"].'),
]


class Request(BaseModel):
    """A request. Only the listed fields are allowed, with their types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        """Refuse many unknown fields with one error. Otherwise the error would list every field."""
        if isinstance(value, dict) and len(value) > 2 * len(cls.model_fields):
            raise PydanticCustomError("fields", "Input should have only known fields")
        return value


class PassagesRequest(Request):
    """Passages to classify."""

    texts: Texts


class QuestionsRequest(PassagesRequest):
    """Questions to classify. `in_scope` asks for the probability that documents may answer a question at all."""

    min_probability: Probability = 0.0
    in_scope: bool = False


class TextsRequest(PassagesRequest):
    """Texts to classify by your own heads.

    Without `heads`, all heads classify the texts. Without `min_probability`, each head uses its own limit.
    """

    heads: Annotated[list[Annotated[str, Field(max_length=512)]], Field(min_length=1)] | None = None
    min_probability: Probability | None = None


class Ranked(Request):
    """Options of a ranking, as in `semclass.SearchOptions`."""

    question: Text
    method: Annotated[str, Field(max_length=64)] | None = None
    weights: Weights | None = None
    explain: bool = False


class SearchRequest(Ranked):
    """A question to search for in the index."""

    k: Count = 10
    candidates: Count | None = None
    where: Where | None = None
    boost: Weights | None = None


class PassageIn(Request):
    """A passage to re-rank. A passage without text ranks last."""

    text: str
    id: Annotated[str, Field(max_length=512)] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)


class RerankRequest(Ranked):
    """A question, and passages to re-rank for this question."""

    passages: Annotated[list[str | PassageIn], FailFast(), Field(min_length=1)]
    k: Count | None = None


class AskRequest(Request):
    """A question to answer with sentences of the index."""

    question: Text
    k: Count = 5
    where: Where | None = None


class FacetsRequest(Request):
    """A filter that selects the passages to count."""

    where: Where | None = None


class Judgement(Request):
    """A judgement of a hit: whether the passage with the id `passage` answers the question; null withdraws it."""

    question: Text
    passage: Annotated[str, Field(min_length=1, max_length=512)]
    right: bool | None


class TextLabel(BaseModel):
    """The label of a head: ABSTAIN if the head is not certain. `labels` holds all labels of a text."""

    label: str | int
    probability: float
    labels: list[str | int]
    probabilities: dict[str, float]


class TextClasses(BaseModel):
    """A text, and the label of each head, by the name of the head."""

    text: str
    heads: dict[str, TextLabel]


class QuestionsAnswer(BaseModel):
    """Classes of questions, in the order of the request, and the probabilities `in_scope`, or null."""

    results: list[QuestionLabel]
    in_scope: list[float] | None


class PassagesAnswer(BaseModel):
    """Classes of passages, in the order of the request."""

    results: list[Label]


class TextsAnswer(BaseModel):
    """Labels of texts, in the order of the request."""

    results: list[TextClasses]


@dataclass(frozen=True)
class SearchHit(Hit):
    """A hit. `url` opens its document, relative to the service; null if the document is not served."""

    url: str | None = None


class SearchAnswer(BaseModel):
    """The hits of a search, best first, and the fields of `semclass.SearchResult`."""

    query_used: str
    certainty: str | None
    answerable: float | None
    language: str | None
    hits: list[SearchHit]


@dataclass(frozen=True)
class RerankedHit(Hit):
    """A passage of the request. `index` is its place in the request, from 0, and the id of a passage without an id."""

    index: int = 0


class RerankAnswer(SearchAnswer):
    """The passages of the request, best first."""

    hits: list[RerankedHit]  # type: ignore[assignment] # in place of hits of an index


class Sentence(BaseModel):
    """A sentence, the id and metadata of its passage, and its place in the passage: first character, and end."""

    text: str
    id: str
    metadata: dict[str, Any]
    start: int
    end: int
    score: float


class AskAnswer(BaseModel):
    """The sentences that answer a question, best first. `answered` is false if nothing in the index seems to answer."""

    question: str
    sentences: list[Sentence]
    answered: bool
    answerable: float | None
    certainty: str | None


class IndexInfo(BaseModel):
    """The index that is searched. `local` is false for an index on a server."""

    passages: int
    local: bool


class ServiceInfo(BaseModel):
    """The configuration of the service: encoder, classes, your own heads and their classes, default weights, index, limits.

    `answerable_from` is the least value of `answerable` at which the index seems to answer, or null if it was not
    chosen. `judgements` is true if the service stores judgements.
    """

    version: str
    encoder: str
    classes: list[str]
    fine_classes: list[str]
    heads: dict[str, list[str]]
    weights: dict[str, float]
    answerable_from: float | None
    index: IndexInfo | None
    judgements: bool
    limits: dict[str, float]


class Examples(BaseModel):
    """Questions that the index answers."""

    questions: list[str]


class Facet(BaseModel):
    """A metadata field that divides the passages into a few groups. `head` is true if a head wrote this field."""

    field: str
    head: bool
    values: list[tuple[str | bool | int | float, int]]


class Facets(BaseModel):
    """Fields to filter by, with their values and numbers of passages, the most frequent first."""

    facets: list[Facet]


class Status(BaseModel):
    """The state of the service."""

    status: Literal["ok", "ready", "stored"]
