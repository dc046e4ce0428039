"""The bodies of Cohere's (``cohere`` 7.3), Jina's and text-embeddings-inference's (TEI 1.7) re-ranking.

Unknown fields are ignored, as by these services, so that newer clients go on working.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    JsonValue,
    RootModel,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from semclass_serve.bodies import TEXT, TEXTS, WHOLE, WRITTEN

MOST_FIELDS = 32
"""Fields that are read of a document."""

_LONG = "Has no effect: a long text is always truncated at its end."

Written: TypeAlias = Annotated[str, Field(pattern=WRITTEN, json_schema_extra=TEXT)]
"""A text that says something."""

Text: TypeAlias = Annotated[str, Field(json_schema_extra=TEXT)]
"""A text among those to rank; one without a character is not refused, but has the score 0."""

Score: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="Probability that the text answers the query, from these two texts alone.")
]

Place: TypeAlias = Annotated[int, Field(ge=0, description="Position in the request, starting at 0.")]

Total: TypeAlias = Annotated[int, Field(ge=0)]

Pair: TypeAlias = Annotated[list[Written], Field(min_length=2, max_length=2)]

Alone: TypeAlias = Annotated[list[Written], Field(min_length=1, max_length=1)]


_INPUTS = "a question, a pair [question, sentence], or a list of [question] and [question, sentence]"


class Sent(BaseModel):
    """What clients send: each field of its own type, and others ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, ser_json_inf_nan="strings")


class Document(Sent):
    """A document with fields: its text is read, or those that `rank_fields` names. Nothing in it is opened or fetched.

    Where `rank_fields` names any, it need not have a text; one that has neither reads as an empty text.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    text: Text = ""


def _expecting(expected: str) -> WrapValidator:
    """Say in one line what is expected, not what each allowed type lacks."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("expected", "Input should be {expected}", {"expected": expected}) from None

    return WrapValidator(validate)


DOCUMENT = "a text, or an object with a text or, where rank_fields names any, with these fields; images are not read"

_WITH_TEXT: dict[str, Any] = {
    "anyOf": [
        {"properties": {"documents": {"items": {"if": {"type": "object"}, "then": {"required": ["text"]}}}}},
        {"properties": {"rank_fields": {"type": "array", "minItems": 1}}, "required": ["rank_fields"]},
    ]
}
"""Says that documents have a text unless other fields are to be read."""


class RerankRequest(Sent):
    """What Cohere's and Jina's clients send."""

    model_config = ConfigDict(json_schema_extra=_WITH_TEXT)

    query: Written
    documents: Annotated[
        list[Annotated[Text | Document, _expecting(DOCUMENT)]],
        FailFast(),
        Field(json_schema_extra={"minItems": 1, **TEXTS}),
    ]
    model: Annotated[str | None, Field(description="Returned unchanged. The service has only one model.")] = None
    top_n: Annotated[int, Field(ge=1, description="Maximum number of results; null: all."), WHOLE] | None = None
    return_documents: Annotated[
        bool | None,
        Field(
            description="False: results of /v1/rerank contain no documents. Results of /v2/rerank never contain any."
        ),
    ] = None
    rank_fields: Annotated[
        Annotated[list[str], Field(max_length=MOST_FIELDS)] | None,
        Field(
            description="Fields of a document to read instead of its text, in this order. Repeated names are read once."
        ),
    ] = None
    max_tokens_per_doc: Annotated[int | None, Field(description=_LONG), WHOLE] = None
    max_chunks_per_doc: Annotated[int | None, Field(description=_LONG), WHOLE] = None


class Result(BaseModel):
    """A document's place and score."""

    index: Place
    relevance_score: Score


class DocumentOut(BaseModel):
    """A document with the fields that it came with."""

    model_config = ConfigDict(extra="allow")

    text: str


class ResultWithDocument(Result):
    """The same with the document as it was sent; a string becomes an object with a text.

    One that has fields but no text gets as its text what was read of them.
    """

    document: DocumentOut


class BilledUnits(BaseModel):
    """What Cohere would count; nothing is billed."""

    search_units: Annotated[int, Field(ge=1, description="Number of documents divided by 100, rounded up.")]


class ApiVersion(BaseModel):
    """Version of the shape."""

    version: Literal["1", "2"]


class Meta(BaseModel):
    """About the answer."""

    api_version: ApiVersion
    billed_units: BilledUnits


class Usage(BaseModel):
    """Word pieces of the query, once, and of the documents."""

    total_tokens: Total
    prompt_tokens: Total


class CohereAnswer(BaseModel):
    """What Cohere's v2 clients read."""

    id: str
    results: Annotated[list[Result], Field(description="Best first; of equal scores, in the order of the request.")]
    meta: Meta


class JinaAnswer(BaseModel):
    """What Jina's and Cohere's v1 clients read: one answer for both."""

    id: str
    model: str
    results: Annotated[
        list[ResultWithDocument] | list[Result],
        Field(description="Best first; of equal scores, in the order of the request."),
    ]
    usage: Usage
    meta: Meta


class TeiRerankRequest(Sent):
    """What TEI's clients send to ``/rerank``."""

    query: Written
    texts: Annotated[list[Text], FailFast(), Field(json_schema_extra={"minItems": 1, **TEXTS})]
    raw_scores: Annotated[bool, Field(description="Return log-odds instead of probabilities.")] = False
    return_text: bool = False
    truncate: Annotated[bool | None, Field(description=_LONG)] = None
    truncation_direction: Annotated[str | None, Field(description=_LONG)] = None


class Rank(BaseModel):
    """A text's place and score: a probability, or the log-odds ln(p / (1 - p))."""

    index: Place
    score: float
    text: Annotated[str, Field(description="Only if return_text is true.")] = ""


class TeiRerankAnswer(RootModel[list[Rank]]):
    """Best first; of equal scores, in the order of the request."""


class PredictRequest(Sent):
    """What TEI's clients send to ``/predict``."""

    inputs: Annotated[
        Written
        | Alone
        | Pair
        | Annotated[list[Alone | Pair], Field(min_length=1, fail_fast=True, json_schema_extra=TEXTS)],
        _expecting(f"{_INPUTS}; write three questions as [[a], [b], [c]], without empty texts"),
        Field(description=f"{_INPUTS[0].upper()}{_INPUTS[1:]}. Questions get classes, pairs are judged by entailment."),
    ]
    raw_scores: Annotated[bool, Field(description="Return ln p instead of p; a softmax restores p.")] = False
    truncate: Annotated[bool | None, Field(description=_LONG)] = None
    truncation_direction: Annotated[str | None, Field(description=_LONG)] = None


class Prediction(BaseModel):
    """A label and its score: a calibrated probability, or its logarithm."""

    label: str
    score: float


class PredictAnswer(RootModel[list[Prediction] | list[list[Prediction]]]):
    """Labels, most probable first: of one input, or of each input of a list."""


class Labels(BaseModel):
    """Labels by number, and back."""

    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(BaseModel):
    """What kind of model is served."""

    reranker: Labels


class TeiInfo(BaseModel):
    """What is served, in TEI's words."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: ModelType
    max_concurrent_requests: Total
    max_input_length: Annotated[int, Field(ge=0, description="Maximum number of word pieces per text.")]
    max_batch_tokens: Total
    max_batch_requests: int | None
    max_client_batch_size: Total
    auto_truncate: bool
    tokenization_workers: Total
    version: str
    sha: str | None
    docker_label: str | None
