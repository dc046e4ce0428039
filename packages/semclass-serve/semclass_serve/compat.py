"""Routes that speak like other services, so that a client of these changes only its URL.

``/v2/rerank`` is Cohere's; ``/v1/rerank`` is Cohere's and Jina's, in one answer that both read; ``/rerank``, also as ``/``
and ``/invocations``, ``/predict`` and ``/info`` are those of text-embeddings-inference (TEI).

The score is the entailment head's, P(text answers query) *from the two texts alone*, not that of ``default``, which looks
at the other texts as well: these clients compare scores with a threshold, and merge the answers of several requests.
"""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from pydantic import JsonValue

import semclass
from semclass.core.checks import short
from semclass.core.types import Encoder, Passage, QuestionLabel
from semclass.documents.chunking import count_words
from semclass.encoders.onnx_encoder import MAX_WINDOWS, OnnxEncoder
from semclass.heads.entailment import CLASSES, EntailmentLabel
from semclass_serve import compat_schemas as schemas
from semclass_serve.answers import Json, ServiceError, invalid
from semclass_serve.bodies import check_length, check_texts, post
from semclass_serve.engine import Engine
from semclass_serve.queue import BATCH_TEXTS
from semclass_serve.settings import Settings

MODEL = "semclass"
"""Name of the model, where a client gives none."""

TEI_RERANK = ("/rerank", "/", "/invocations")
"""Where TEI re-ranks; clouds that run its container use the latter two."""

SEARCH_UNIT = 100
"""Documents of one of Cohere's search units."""

LEAST = 1e-7
"""Probability at which log-odds end: JSON has no infinity, and float32 none nearer to 1."""


TEI = "text-embeddings-inference"


def router(engine: Engine) -> APIRouter:
    """Routes of the shapes of Cohere, Jina and text-embeddings-inference."""
    routes, settings = APIRouter(), engine.settings

    @post(routes, "/v2/rerank", schemas.RerankRequest, schemas.CohereAnswer, tag="cohere")
    async def cohere_rerank(request: Request, body: schemas.RerankRequest) -> Any:
        """Re-rank documents for clients of Cohere, v2."""
        results = _results(await _scores(engine, request, body.query, _texts(body, settings)), body.top_n)
        return {"id": str(uuid.uuid4()), "results": results, "meta": _meta("2", len(body.documents))}

    @post(routes, "/v1/rerank", schemas.RerankRequest, schemas.JinaAnswer, tag="jina")
    async def jina_rerank(request: Request, body: schemas.RerankRequest) -> Any:
        """Re-rank documents for clients of Jina, and of Cohere, v1."""
        texts = _texts(body, settings)
        results = _results(await _scores(engine, request, body.query, texts), body.top_n)
        if body.return_documents is not False:  # Jina's default; Cohere's clients do not mind
            for result in results:
                place = result["index"]
                result["document"] = _document(body.documents[place], texts[place])
        tokens = await asyncio.to_thread(_count, engine.models.encoder, [body.query, *texts])
        return {
            "id": str(uuid.uuid4()),
            "model": MODEL if body.model is None else body.model,
            "results": results,
            "usage": {"total_tokens": tokens, "prompt_tokens": tokens},
            "meta": _meta("1", len(texts)),
        }

    async def tei_rerank(request: Request, body: schemas.TeiRerankRequest) -> Any:
        """Re-rank texts for clients of text-embeddings-inference."""
        scores = await _scores(engine, request, body.query, body.texts)
        return [
            {"index": place, "score": _log_odds(scores[place]) if body.raw_scores else scores[place]}
            | ({"text": body.texts[place]} if body.return_text else {})
            for place in _best_first(scores)
        ]

    for path in TEI_RERANK:
        post(routes, path, schemas.TeiRerankRequest, schemas.TeiRerankAnswer, tag=TEI)(tei_rerank)

    @post(routes, "/predict", schemas.PredictRequest, schemas.PredictAnswer, tag=TEI)
    async def tei_predict(request: Request, body: schemas.PredictRequest) -> Any:
        """Classify questions, and judge pairs of a question and a sentence, for clients of text-embeddings-inference."""
        inputs, one = _inputs(body.inputs)
        # a pair is one of the texts that a request may have, and each of its two as long as a text may be
        check_texts(request, [max(item, key=len) for item in inputs], settings)
        predictions = await _predictions(engine, inputs, raw=body.raw_scores)
        return predictions[0] if one else predictions

    @routes.get("/info", response_model=schemas.TeiInfo, tags=[TEI])
    async def tei_info() -> Json:
        """Describe what is served to clients of text-embeddings-inference."""
        return Json(_info(engine))

    return routes


def _texts(body: schemas.RerankRequest, settings: Settings) -> list[str]:
    """What is read of each document."""
    # a name that is given twice is read once, or a short body could make a text of any length
    fields = tuple(dict.fromkeys(body.rank_fields or ()))
    for place, item in enumerate(body.documents):
        if not (fields or isinstance(item, str) or "text" in item.model_fields_set):
            raise invalid(f"documents.{place}: Input should be {schemas.DOCUMENT}")
    return [item if isinstance(item, str) else _text(item, fields, settings) for item in body.documents]


def _text(document: schemas.Document, fields: Sequence[str], settings: Settings) -> str:
    """The named fields that a document has, else its text; too long a text is refused before it is made."""
    values: Mapping[str, JsonValue] = document.model_dump(exclude_unset=True)
    named = [values[name] for name in fields if values.get(name) is not None]
    check_length(sum(len(value) for value in named if isinstance(value, str)), settings)
    written = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in named]
    return "\n".join(written) if written else document.text


def _document(document: str | schemas.Document, text: str) -> dict[str, Any]:
    """A document as it was sent; one without a text, which clients of Cohere want, gets what was read of it."""
    return {"text": text, **({} if isinstance(document, str) else document.model_dump(exclude_unset=True))}


def check_classes(engine: Engine) -> None:
    """Refuse to classify where there are no class heads."""
    if not engine.models.has_classes:
        raise _no_heads("class heads, so nothing can be classified; serve models with class heads")


def check_pairs(engine: Engine) -> None:
    """Refuse to re-rank where there are no pair heads."""
    if engine.models.pair_heads is None:
        raise _no_heads("pair heads, so nothing can be re-ranked; serve models with a folder pairs/")


def check_scope(engine: Engine) -> None:
    """Refuse to tell what is in scope where there is no head for it."""
    if engine.scope is None:
        raise _no_heads("head for what is in scope; serve models with a folder in_scope/")


def check_heads(engine: Engine, names: Sequence[str] | None) -> tuple[str, ...]:
    """Give the names of heads of one's own, all of them for None; refuse unknown ones."""
    known = engine.models.heads
    unknown = [name for name in names or () if name not in known]
    if unknown or not known:
        wanted = f"no head {short(unknown[0])}" if unknown else "no heads of your own"
        there = (
            f"; the heads are {', '.join(known)}"
            if known
            else "; start the service with semclass serve --head NAME=DIR"
        )
        raise ServiceError(404, "no_head", f"there is {wanted}{there}")
    return tuple(known if names is None else dict.fromkeys(names))


def _no_heads(message: str) -> ServiceError:
    return ServiceError(424, "backend", f"the served models have no {message}")


async def _scores(engine: Engine, request: Request, query: str, texts: Sequence[str]) -> list[float]:
    """P(text answers query) of each text, in [0, 1]; 0 for one that holds nothing but white space."""
    if not texts:
        raise ServiceError(400, "empty", "there is nothing to rank; give at least one text")
    check_pairs(engine)
    check_texts(request, [query], engine.settings)
    check_texts(request, texts, engine.settings)
    scores = [0.0] * len(texts)
    passages = [Passage(str(place), text) for place, text in enumerate(texts) if text.strip()]
    if passages:
        # this method computes entailment alone; its order does not matter
        for hit in await engine.rerank(query, passages, method="entail-stable"):
            scores[int(hit.id)] = hit.components["relevance"]
    return scores


def _best_first(scores: Sequence[float]) -> list[int]:
    """Places by score, largest first; of equal ones the first."""
    return sorted(range(len(scores)), key=lambda place: -scores[place])


def _results(scores: Sequence[float], top_n: int | None) -> list[dict[str, Any]]:
    return [{"index": place, "relevance_score": scores[place]} for place in _best_first(scores)[:top_n]]


def _meta(version: str, documents: int) -> dict[str, Any]:
    return {"api_version": {"version": version}, "billed_units": {"search_units": math.ceil(documents / SEARCH_UNIT)}}


def _count(encoder: Encoder, texts: Sequence[str]) -> int:
    """Word pieces of texts; words, where the encoder does not say what its pieces are."""
    written = [text for text in texts if text.strip()]
    return len(encoder.tokenize(written).values) if isinstance(encoder, OnnxEncoder) else sum(map(count_words, written))


def _log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST), 1 - LEAST)
    return math.log(inside / (1 - inside))


def _inputs(inputs: str | list[str] | list[list[str]]) -> tuple[list[list[str]], bool]:
    """Each input as a list of one or two texts, and whether it was given alone: two strings are a pair, as in TEI."""
    if isinstance(inputs, str):
        return [[inputs]], True
    nested = [item for item in inputs if isinstance(item, list)]
    return (nested, False) if nested else ([[item for item in inputs if isinstance(item, str)]], True)


async def _predictions(engine: Engine, inputs: Sequence[Sequence[str]], *, raw: bool) -> list[list[dict[str, Any]]]:
    """Labels of each input, most probable first."""
    questions = [item[0] for item in inputs if len(item) == 1]
    pairs = [(item[0], item[1]) for item in inputs if len(item) == 2]
    if questions:
        check_classes(engine)
    if pairs and engine.entailment is None:
        raise _no_heads("entailment head, so no pair can be judged; serve models with one")
    # one after another: they share the same processors
    labels = iter(await engine.classify_questions(questions) if questions else ())
    judged = iter(await engine.entails(pairs) if pairs else ())
    return [_prediction(next(labels) if len(item) == 1 else next(judged), raw=raw) for item in inputs]


def _prediction(found: QuestionLabel | EntailmentLabel, *, raw: bool) -> list[dict[str, Any]]:
    if isinstance(found, QuestionLabel):
        probabilities = dict(found.probabilities)
    else:
        probabilities = dict(zip(CLASSES, (1 - found.probability, found.probability), strict=True))
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    return [{"label": label, "score": math.log(max(p, LEAST)) if raw else p} for label, p in ordered]


def _info(engine: Engine) -> dict[str, Any]:
    encoder, settings = engine.models.encoder, engine.settings
    pieces = settings.max_characters
    if isinstance(encoder, OnnxEncoder):
        pieces = min(pieces, MAX_WINDOWS * (encoder.window))
    return {
        "model_id": MODEL,
        "model_sha": encoder.fingerprint,
        "model_dtype": "float32",
        "model_type": {"reranker": {"id2label": {"0": CLASSES[1]}, "label2id": {CLASSES[1]: 0}}},
        "max_concurrent_requests": settings.max_requests,
        "max_input_length": pieces,
        "max_batch_tokens": pieces * BATCH_TEXTS,
        "max_batch_requests": BATCH_TEXTS,
        "max_client_batch_size": settings.max_texts,
        "auto_truncate": True,
        "tokenization_workers": 1,
        "version": semclass.__version__,
        "sha": None,
        "docker_label": None,
    }
