"""Requests and answers of the native API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from semclass.ranking.methods import DEFAULT, METHODS, RERANKING
from semclass.service.bodies import HITS, TEXT, TEXTS, WHOLE, WRITTEN
from semclass.service.filter_schema import FILTER

Text = Annotated[str, Field(min_length=1, pattern=WRITTEN, json_schema_extra=TEXT)]
Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, json_schema_extra=HITS), WHOLE]


class Request(BaseModel):
    """A request: nothing but its own fields, of their own types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        """Refuse many unknown fields at once: the error would name each."""
        if isinstance(value, dict) and len(value) > 2 * len(cls.model_fields):
            raise PydanticCustomError("fields", "Input should have no fields but its own")
        return value


class PassagesRequest(Request):
    """Passages to classify."""

    texts: Annotated[list[Text], FailFast(), Field(min_length=1, json_schema_extra=TEXTS)]


class QuestionsRequest(PassagesRequest):
    """Questions to classify; `in_scope`: tell, too, how likely each asks something of a corpus at all."""

    min_probability: Probability = 0.0
    in_scope: bool = False


class TextsRequest(PassagesRequest):
    """Texts to classify by heads of your own; all heads where none are named, their own limits where none is given."""

    heads: Annotated[list[Annotated[str, Field(max_length=512)]], Field(min_length=1)] | None = None
    min_probability: Probability | None = None


class Weights(Request):
    """Weights in place of the usual ones; those that the method does not read change nothing."""

    bm25: Weight | None = None
    alpha: Probability | None = None
    document: Weight | None = None
    entailment: Weight | None = None
    evidence: Weight | None = None
    entailment_hard: Weight | None = None
    class_: Annotated[Weight | None, Field(alias="class")] = None
    class_hard: Weight | None = None
    match_soft: Weight | None = None
    match_hard: Weight | None = None


class SearchRequest(Request):
    """A question to an index."""

    question: Text
    k: Count = 10
    method: Literal[tuple(METHODS)] = DEFAULT  # type: ignore[valid-type]
    fusion: Literal["linear", "convex", "rrf"] | None = None
    weights: Weights | None = None
    candidates: Count | None = None
    where: Annotated[dict[str, Any], WithJsonSchema(FILTER)] | None = None
    boost: Annotated[dict[str, Weight], Field(max_length=16)] | None = None
    explain: bool = False
    classify: bool = True


class PassageIn(Request):
    """A passage to re-rank."""

    text: Text
    id: Annotated[str, Field(max_length=512)] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class RerankRequest(Request):
    """A question and the passages to re-rank for it."""

    question: Text
    passages: Annotated[list[Text | PassageIn], FailFast(), Field(min_length=1, json_schema_extra=TEXTS)]
    k: Count | None = None
    method: Literal[RERANKING] = DEFAULT  # type: ignore[valid-type]
    fusion: Literal["linear", "convex", "rrf"] | None = None
    weights: Weights | None = None
    explain: bool = False
    classify: bool = True


class Question(BaseModel):
    """A question and its classes; `asked`: the sentences of it that ask, null where that is all."""

    text: str
    label: str
    probability: float
    fine: str
    fine_probability: float
    probabilities: dict[str, float]
    fine_probabilities: dict[str, float]
    asked: str | None


class ClassifiedQuestion(Question):
    """A question and its classes; `in_scope`: P(it asks something of a corpus), null where nobody wanted it."""

    in_scope: float | None


class PassageClasses(BaseModel):
    """What a passage provides."""

    text: str
    labels: list[str]
    probabilities: dict[str, float]


class TextLabel(BaseModel):
    """What a head says of a text: its label, ABSTAIN where it is not sure, and all of them where it may have several."""

    label: str | int
    probability: float
    labels: list[str | int]
    probabilities: dict[str, float]


class TextClasses(BaseModel):
    """A text, and what each head says of it, by the head's name."""

    text: str
    heads: dict[str, TextLabel]


class Word(BaseModel):
    """How a word of the question is met."""

    word: str
    weight: float
    match: str
    cosine: float
    exact: bool


class ClassOf(BaseModel):
    """What question and passage say of a class."""

    name: str
    asked: float
    provided: float


class ExplanationOut(BaseModel):
    """What a score was made of; `sentence`: characters of the text, from and to, that are nearest to the question."""

    parts: dict[str, float]
    total: float
    link: Literal["identity", "sigmoid"]
    words: list[Word]
    classes: list[ClassOf]
    sentence: tuple[int, int] | None


class HitOut(BaseModel):
    """A passage in a ranking."""

    id: str
    text: str
    metadata: dict[str, Any]
    score: float
    rank: int
    rank_before: int
    components: dict[str, float]
    labels: list[str]
    probabilities: dict[str, float]
    explanation: ExplanationOut | None


class QuestionsAnswer(BaseModel):
    """Classes of questions, in their order."""

    results: list[ClassifiedQuestion]
    milliseconds: float


class PassagesAnswer(BaseModel):
    """Classes of passages, in their order."""

    results: list[PassageClasses]
    milliseconds: float


class TextsAnswer(BaseModel):
    """Labels of texts, in their order."""

    results: list[TextClasses]
    milliseconds: float


class Ranking(BaseModel):
    """What holds for a whole ranking.

    `query_used`: the part of the question that was read. `certainty`: how sure the first place is by the default method:
    strong, likely or weak; else null. `answerable`: probability that the index answers the question at all; null where no
    head says so. `language`: of the passages: "en", or "other", which the models do not read; null where it is not known.
    `question`: its classes; null without class heads or where not wanted. `weights`: those that were used.
    """

    query_used: str
    certainty: str | None
    answerable: float | None
    language: str | None
    question: Question | None
    weights: dict[str, float]
    milliseconds: float


class SearchAnswer(Ranking):
    """Passages of the index, best first."""

    hits: list[HitOut]


class RerankedHit(HitOut):
    """A passage that was sent: its place in the request, from 0, and its own id, or its place as a text."""

    index: int


class RerankAnswer(Ranking):
    """The passages, best first."""

    hits: list[RerankedHit]


class Class(BaseModel):
    """A class of questions and passages."""

    name: str
    description: str | None


class IndexInfo(BaseModel):
    """The index that is searched."""

    passages: int
    kind: Literal["folder", "qdrant"]


class Limits(BaseModel):
    """The limits of requests."""

    max_body: int
    max_texts: int
    max_characters: int
    max_hits: int
    request_seconds: float


class Info(BaseModel):
    """What is served: the encoder's fingerprint, the methods that have their heads, the weights where none are given.

    `heads` are those of your own, with their classes. `answerable_from`: least `answerable` of hits of the default method
    from which the index seems to answer; null where none is told.
    """

    version: str
    encoder: str
    heads: dict[str, list[str]]
    classes: list[Class]
    fine_classes: list[str]
    index: IndexInfo | None
    methods: list[str]
    weights: dict[str, float]
    answerable_from: float | None
    limits: Limits


class Examples(BaseModel):
    """Questions that the index answers; after a change of the index there may be others."""

    questions: list[str]


class Status(BaseModel):
    """How the service is."""

    status: Literal["ok", "ready"]
