"""Answers a question with the best sentences of the first hits. The sentences are re-ranked as short passages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.types import DoubleArray, Passage, SearchResult
from semclass.documents.sentences import MAX_SENTENCE_WORDS, Span, sentence_spans, unwrapped_spans
from semclass.encoders.onnx_encoder import for_passages
from semclass.heads.head import log_odds
from semclass.ranking.models import Models
from semclass.ranking.reranker import Reranker
from semclass.scoring.vectors import float_products, unit

MAX_SENTENCES = 5  #: default number of sentences
READ_HITS = 5  #: number of first hits whose sentences are compared
MAX_OF_PASSAGE = 3  #: maximum number of sentences from one passage
RELEVANCE_WEIGHT = 0.4  #: weight of the log-odds that a sentence answers, next to the scores of sentence and passage
_MIN_PROBABILITY = 1e-4  # a probability is kept so far from 0 and 1
_HEADINGS = re.compile(r"(?:#{1,6} [^\n]*(?:\n\s*|$))+")
_CODE = re.compile(
    r"^[ \t]*(`{3,}(?!`)|~{3,}(?!~))[^\n]*\n(?P<code>.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_FENCE = re.compile(r"^[ \t]*(?:```+|~~~+)[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class AnswerSentence:
    """A sentence that answers a question, and its passage."""

    text: str  #: the sentence, in one line
    id: str  #: id of its passage
    metadata: Mapping[str, Any]  #: metadata of its passage
    start: int  #: position of its first character in the text of the passage
    end: int  #: position of the character after its last
    score: float  #: the number by which sentences are sorted


@dataclass(frozen=True)
class Answer:
    """The sentences that answer a question, and the text that a language model wrote from them."""

    question: str
    sentences: tuple[AnswerSentence, ...]  #: best first; may be empty
    answered: bool  #: whether there is an answer, by the threshold of the index or by the language model
    answerable: float | None = None  #: see :class:`semclass.SearchResult`
    certainty: str | None = None  #: see :class:`semclass.SearchResult`
    text: str = ""  #: the answer of a language model, which cites sentences by number, such as ``[1]``
    cited: tuple[int, ...] = ()  #: numbers of the cited sentences, from 1
    #: why the language model gave no answer: ``"failed"``, ``"refused"``, or ``"nonsense"`` if it cited no sentence
    why: str = ""


def answer_from(models: Models, question: str, result: SearchResult, k: int, answerable_from: float | None) -> Answer:
    """Choose the k best sentences from the hits of a search. See :meth:`semclass.HybridRetriever.ask`."""
    found = [(hit, span) for hit in result[:READ_HITS] for span in _spans(hit.text)]
    texts = [" ".join(_FENCE.sub("", hit.text[slice(*span)]).split()) for hit, span in found]
    scores = _scores(models, question, texts) if texts else np.zeros(0)
    if models.pair_heads is not None:
        scores = scores + [hit.score for hit, _ in found]
    chosen: dict[str, AnswerSentence] = {}
    used: Counter[str] = Counter()
    for place in np.argsort(-scores, kind="stable").tolist():
        (hit, (start, end)), text = found[place], texts[place]
        key = text.casefold()
        if len(chosen) < k and key not in chosen and used[hit.id] < MAX_OF_PASSAGE:
            used[hit.id] += 1
            chosen[key] = AnswerSentence(text, hit.id, hit.metadata, start, end, float(scores[place]))
    probability = result.answerable
    answered = bool(chosen) and (probability is None or answerable_from is None or probability >= answerable_from)
    return Answer(question, tuple(chosen.values()), answered, result.answerable, result.certainty)


def _spans(text: str) -> list[Span]:
    """Find sentences, without headings. Code belongs to the sentence before it if that ends in a colon."""
    spans, at = list[Span](), 0
    for code in _CODE.finditer(text):
        spans += _prose(text, at, code.start())
        introduced = spans and spans[-1][0] >= at and text[spans[-1][0] : code.start()].rstrip().endswith(":")
        spans.append((spans.pop()[0], code.end("code")) if introduced else code.span("code"))
        at = code.end()
    spans += _prose(text, at, len(text))
    return [(start, end) for start, end in spans if any(map(str.isalnum, text[start:end]))]


def _prose(text: str, begin: int, end: int) -> Iterator[Span]:
    part = text[begin:end]
    for first, last in unwrapped_spans(part) if part.strip() else ():
        heading = _HEADINGS.match(part, first, last)
        first = first if heading is None else heading.end()
        inside = (
            [(0, last - first)]
            if len(part[first:last].split()) <= MAX_SENTENCE_WORDS
            else sentence_spans(part[first:last])
        )
        yield from ((begin + first + one, begin + first + other) for one, other in inside)


def _scores(models: Models, question: str, texts: list[str]) -> DoubleArray:
    """Score sentences without their passages; by their vectors where there are no pair heads."""
    scores = np.zeros(len(texts))
    if models.pair_heads is None:
        (query,) = models.encode([question], classes=False, tokens=False)
        vectors = unit(for_passages(models.encoder).encode(texts).rows("pooled"))
        return np.asarray(float_products(unit(query.pooled[None]), vectors)[0], np.float64)
    for hit in Reranker(models).rerank(question, [Passage(str(place), text) for place, text in enumerate(texts)]):
        scores[hit.index] = hit.score + RELEVANCE_WEIGHT * log_odds(
            np.asarray(hit.components.get("relevance", 0.5)), _MIN_PROBABILITY
        )
    return scores
