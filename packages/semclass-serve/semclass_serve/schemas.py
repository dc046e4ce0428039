"""Requests and answers of the native API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from semclass.ranking.ask import MAX_SENTENCES
from semclass.ranking.methods import DEFAULT, METHODS, RERANKING
from semclass_serve.bodies import HITS, TEXT, TEXTS, WHOLE, WRITTEN
from semclass_serve.filter_schema import FILTER

Text = Annotated[str, Field(min_length=1, pattern=WRITTEN, json_schema_extra=TEXT)]
Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, json_schema_extra=HITS), WHOLE]


class Request(BaseModel):
    """A request. Only the listed fields are allowed, with their types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        """Refuse many unknown fields with one error, which would otherwise name each field."""
        if isinstance(value, dict) and len(value) > 2 * len(cls.model_fields):
            raise PydanticCustomError("fields", "Input should have only known fields")
        return value


class PassagesRequest(Request):
    """Passages to classify."""

    texts: Annotated[list[Text], FailFast(), Field(min_length=1, json_schema_extra=TEXTS)]


class QuestionsRequest(PassagesRequest):
    """Questions to classify. `in_scope` asks for the probability that documents may answer a question at all."""

    min_probability: Probability = 0.0
    in_scope: bool = False


class TextsRequest(PassagesRequest):
    """Texts to classify by heads of your own.

    Without `heads`, all heads classify the texts. Without `min_probability`, each head uses its own limit.
    """

    heads: Annotated[list[Annotated[str, Field(max_length=512)]], Field(min_length=1)] | None = None
    min_probability: Probability | None = None


class Weights(Request):
    """Weights in place of the default weights. Weights that the method does not read have no effect."""

    bm25: Weight | None = None
    alpha: Probability | None = None
    coverage: Probability | None = None
    document: Weight | None = None
    entailment: Weight | None = None
    evidence: Weight | None = None
    class_: Annotated[Weight | None, Field(alias="class")] = None
    deep: Weight | None = None


class SearchRequest(Request):
    """A question to search for in the index. `sentences` asks for so many sentences of the first hits as well."""

    question: Text
    k: Count = 10
    method: Literal[tuple(METHODS)] = DEFAULT  # type: ignore[valid-type]
    weights: Weights | None = None
    candidates: Count | None = None
    where: Annotated[dict[str, Any], WithJsonSchema(FILTER)] | None = None
    boost: Annotated[dict[str, Weight], Field(max_length=16)] | None = None
    explain: bool = False
    classify: bool = True
    sentences: Count | None = None


class FilterRequest(Request):
    """Conditions as `semclass search --where` takes them, which must all hold."""

    terms: Annotated[list[Annotated[str, Field(min_length=1, max_length=2000)]], Field(min_length=1, max_length=50)]


class FilterAnswer(BaseModel):
    """The same conditions as a filter."""

    where: Annotated[dict[str, Any], WithJsonSchema(FILTER)]


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
    weights: Weights | None = None
    explain: bool = False
    classify: bool = True


class AskRequest(Request):
    """A question to answer by sentences of the index."""

    question: Text
    k: Count = MAX_SENTENCES
    where: Annotated[dict[str, Any], WithJsonSchema(FILTER)] | None = None


class SentenceOut(BaseModel):
    """A sentence, the id and metadata of its passage, and its place there: first character, and the one after its last."""

    text: str
    id: str
    metadata: dict[str, Any]
    start: int
    end: int
    score: float


class AskAnswer(BaseModel):
    """The sentences that answer a question, best first.

    `answered` is false if nothing in the index seems to answer. `answerable` and `certainty` are those of the search.
    """

    question: str
    sentences: list[SentenceOut]
    answered: bool
    answerable: float | None
    certainty: str | None
    milliseconds: float


class FeedbackRequest(Request):
    """A judgement of a hit: whether the passage with the id `passage` answers the question. Null withdraws it."""

    question: Text
    passage: Annotated[str, Field(min_length=1, max_length=512, pattern=WRITTEN)]
    right: bool | None


class FeedbackAnswer(BaseModel):
    """The judgement as it was stored, and when: date and time, UTC."""

    question: str
    passage: str
    right: bool | None
    when: str


class Question(BaseModel):
    """A question and its classes. `asked` holds the sentences that ask, or null if the whole text was classified."""

    text: str
    label: str
    probability: float
    fine: str
    fine_probability: float
    probabilities: dict[str, float]
    fine_probabilities: dict[str, float]
    asked: str | None


class ClassifiedQuestion(Question):
    """A question and its classes.

    `in_scope` is the probability that documents may answer the question, or null if the request does not ask for it.
    """

    in_scope: float | None


class PassageClasses(BaseModel):
    """The answer types that a passage provides."""

    text: str
    labels: list[str]
    probabilities: dict[str, float]


class TextLabel(BaseModel):
    """The label that a head gives a text.

    The label is ABSTAIN if the head is not certain. `labels` holds all labels of a text that may have several.
    """

    label: str | int
    probability: float
    labels: list[str | int]
    probabilities: dict[str, float]


class TextClasses(BaseModel):
    """A text, and the label of each head, by the name of the head."""

    text: str
    heads: dict[str, TextLabel]


class Word(BaseModel):
    """How a passage matches a word of the question."""

    word: str
    weight: float
    match: str
    cosine: float
    exact: bool


class ClassOf(BaseModel):
    """The probabilities of a class for the question and for the passage."""

    name: str
    asked: float
    provided: float


class ExplanationOut(BaseModel):
    """The parts of a score.

    `sentence` is the position of the sentence nearest to the question in the text: its first character, and the
    character after its last.
    """

    parts: dict[str, float]
    total: float
    words: list[Word]
    classes: list[ClassOf]
    sentence: tuple[int, int] | None


class HitOut(BaseModel):
    """A passage in a ranking. `url` is where its document opens, relative to the service; null if it is not served."""

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
    url: str | None


class QuestionsAnswer(BaseModel):
    """Classes of questions, in the order of the request."""

    results: list[ClassifiedQuestion]
    milliseconds: float


class PassagesAnswer(BaseModel):
    """Classes of passages, in the order of the request."""

    results: list[PassageClasses]
    milliseconds: float


class TextsAnswer(BaseModel):
    """Labels of texts, in the order of the request."""

    results: list[TextClasses]
    milliseconds: float


class Ranking(BaseModel):
    """Statements about a whole ranking.

    `query_used` is the part of the question that the search read. `certainty` tells how certain the default method is
    of the first hit: strong, likely, weak, or null if it was not measured. `answerable` is the probability that the
    index answers the question at all, or null without a head for it. `language` is the language of the passages: "en",
    "other" for a language that the models do not read, or null if it is unknown. `question` holds the classes of the
    question, or null without class heads or if the request does not want them. `weights` holds the weights that were
    used.
    """

    query_used: str
    certainty: str | None
    answerable: float | None
    language: str | None
    question: Question | None
    weights: dict[str, float]
    milliseconds: float


class SearchAnswer(Ranking):
    """Passages of the index, best first, and the sentences that answer, or null if the request does not want them."""

    hits: list[HitOut]
    sentences: list[SentenceOut] | None


class RerankedHit(HitOut):
    """A passage of the request, with its place in the request, from 0.

    Its id is that of the request, or else this place as a text.
    """

    index: int


class RerankAnswer(Ranking):
    """The passages of the request, best first."""

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
    """What the service offers.

    `encoder` is the encoder's fingerprint. `methods` are the methods whose heads are loaded. `weights` are the default
    weights.

    `heads` are your own heads, with their classes. `answerable_from` is the least `answerable` from which the index
    seems to answer, for the default method. It is null if none is known.
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
    """Questions that the index answers. They may change when the index changes."""

    questions: list[str]


class Facet(BaseModel):
    """A metadata field that divides the passages into a few groups. `head` tells whether a head filled it."""

    field: str
    head: bool
    values: list[tuple[str | bool | int | float, int]]


class Facets(BaseModel):
    """Fields to filter by. Their values stand with the number of passages, the most frequent first."""

    facets: list[Facet]


class Status(BaseModel):
    """The state of the service."""

    status: Literal["ok", "ready"]
