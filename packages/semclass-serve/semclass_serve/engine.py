"""Calls the library asynchronously, so that many small requests share a run of the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from semclass.core.checks import check_text, check_texts
from semclass.core.cpu import available_threads
from semclass.core.errors import InputError
from semclass.core.types import Passage, PassageLabels, QuestionLabel
from semclass.heads.entailment import EntailmentClassifier, EntailmentLabel, check_pairs
from semclass.heads.in_scope import ScopeClassifier
from semclass.heads.query_focus import LAST
from semclass.heads.texts import TextLabels, classify_all
from semclass.index.passage_encoder import searchable
from semclass.index.records import FOLDER
from semclass.ranking.ask import Answer, answer_from
from semclass.ranking.methods import DEFAULT, METHODS
from semclass.ranking.models import Models
from semclass.ranking.reranker import Reranker, check_passages
from semclass.ranking.result import SearchResult
from semclass.ranking.retriever import HybridRetriever
from semclass_serve.answers import ServiceError
from semclass_serve.queue import Kind, Queue
from semclass_serve.settings import Settings

SEARCH, CANDIDATES_OF_TEXT, EXPLAINED_OF_TEXT = 3, 16, 5
"""Cost of a search, in texts to classify: the cost of the search itself, the number of candidates that cost one text,
and the number of explained hits that cost one text.

Measured with one thread: a short question takes 2.8 ms, a search 7 ms, a candidate 0.16 ms and an explained hit 0.50
ms.
"""

COMPARED = 640
"""Characters of a question that double the cost of a candidate. Each word piece is compared with all of the passage."""

COMPARED_SENTENCES = 25
"""Number of texts that the sentences of the first hits cost, about: five hits of five sentences."""

SEARCHED_TEXT = 64
"""Characters of each text in which the cost of a search is counted."""

HITS = 10
"""Number of hits of a search without `k`, as in :meth:`semclass.ranking.retriever.HybridRetriever.search`."""

SHORT, WINDOW = 16, 1250
"""Number of characters that a text costs in addition to its own, and the most characters of one window of the encoder.
Every sentence of a passage is read.

Measured with one thread: 20 µs a character of 50 to 20,000, in texts of 50 characters 26 µs.
"""


SCANNED = 32
"""Number of characters that are only split into sentences and word pieces and cost as much as one character that is
read.
"""

STATES = 3
"""Cost of classifying a question that fills the encoder's window, in windows that are read."""

ASKED = 7
"""Characters of passages that one character of a question costs. Its sentences are read by themselves, and then
together with the sentences that belong to the question.

The cost holds for word pieces of one or two characters, as in texts made to slow a service down. For prose it is a
third.
"""


class Engine(Queue):
    """The models and the index of a service.

    Parameters
    ----------
    models
        The models. Give their encoder one thread, because two runs in parallel are faster than one run with two
        threads.
    retriever
        The index with its models. If None, searches are refused. You can replace the retriever at any time.
    settings
        Limits.
    entailment
        The entailment heads. If None, pairs are refused.
    scope
        The head for ``in_scope``. If None, requests with ``in_scope`` are refused.
    workers
        Number of threads that run the models. By default, as many threads as the processors allow.
    """

    def __init__(
        self,
        models: Models,
        retriever: HybridRetriever | None,
        settings: Settings,
        *,
        entailment: EntailmentClassifier | None = None,
        scope: ScopeClassifier | None = None,
        workers: int | None = None,
    ) -> None:
        threads = int(getattr(models.encoder, "threads", 1))
        super().__init__(settings, workers or max(available_threads() // threads, 1))
        self.models = models
        self.retriever = retriever
        self.entailment = entailment
        self.scope = scope
        self._reranker = Reranker(models)

    @property
    def searched(self) -> HybridRetriever:
        """The retriever. Raises an error of status 404 without an index."""
        if self.retriever is None:
            message = "this service has no index, so there is nothing to search; start it with semclass serve INDEX"
            raise ServiceError(404, "no_index", message)
        return self.retriever

    async def classify_questions(self, texts: Sequence[str], *, min_probability: float = 0.0) -> list[QuestionLabel]:
        """See :meth:`semclass.heads.questions.QuestionClassifier.classify`."""
        items, classify = check_texts(texts, "questions"), self.models.questions.classify
        kind = Kind("questions", repr(min_probability), lambda some: classify(some, min_probability=min_probability))
        return await self.do(kind, [(item, 1, len(item), _classified(item)) for item in items])

    async def in_scope(self, texts: Sequence[str]) -> list[float]:
        """See :meth:`semclass.heads.in_scope.ScopeClassifier.predict_proba`."""
        if self.scope is None:
            raise InputError("there is no head for this; serve models with a folder in_scope/")
        kind, scope = Kind("scope", "", lambda some: scope.predict_proba(some)[:, 1].tolist()), self.scope
        return await self.do(
            kind, [(item, 1, len(item), len(item) + SHORT) for item in check_texts(texts, "questions")]
        )

    async def classify_passages(self, texts: Sequence[str]) -> list[PassageLabels]:
        """See :meth:`semclass.heads.passages.PassageClassifier.classify`."""
        items = check_texts(texts, "passages")
        kind = Kind("passages", "", self.models.passages.classify)
        return await self.do(kind, [(item, 1, len(item), len(item) + SHORT) for item in items])

    async def classify_texts(
        self, texts: Sequence[str], heads: Sequence[str], *, min_probability: float | None = None
    ) -> list[dict[str, TextLabels]]:
        """Classify texts by heads of your own, given by name. See :func:`semclass.heads.texts.classify_all`."""
        used = {name: self.models.heads[name] for name in heads}

        def call(some: list[str]) -> list[dict[str, TextLabels]]:
            found = classify_all(used, some, min_probability=min_probability)
            return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]

        kind = Kind("texts", repr((tuple(heads), min_probability)), call)
        return await self.do(kind, [(item, 1, len(item), len(item) + SHORT) for item in check_texts(texts)])

    async def entails(self, pairs: Sequence[tuple[str, str]]) -> list[EntailmentLabel]:
        """See :meth:`semclass.heads.entailment.EntailmentClassifier.classify`."""
        if self.entailment is None:
            raise InputError("there is no head for pairs; serve models with a folder entailment/")
        kind = Kind("pairs", "", self.entailment.classify)
        items = check_pairs(pairs)
        return await self.do(
            kind, [(item, 2, sum(map(len, item)), _asked(item[0]) + _read(item[1], WINDOW)) for item in items]
        )

    async def rerank(self, question: str, passages: Sequence[Passage], **options: Any) -> SearchResult:
        """See :meth:`semclass.ranking.reranker.Reranker.rerank`."""
        item = (check_text(question, "question"), check_passages(passages, "passages"))

        def call(some: list[tuple[str, list[Passage]]]) -> list[SearchResult]:
            return self._reranker.rerank_many([item[0] for item in some], [item[1] for item in some], **options)

        texts = 1 + len(item[1]) + _explained(min(options.get("k") or len(item[1]), len(item[1])), options)
        lengths = [len(searchable(passage)) for passage in item[1]]
        cost = _asked(question) + sum(lengths) + SHORT * len(lengths)
        kind = Kind("rerank", _key(options), call)
        result: SearchResult = (await self.do(kind, [(item, texts, len(question) + sum(lengths), cost)]))[0]
        return result

    async def search(self, question: str, **options: Any) -> SearchResult:
        """See :meth:`semclass.ranking.retriever.HybridRetriever.search`."""
        check_text(question, "question")

        def call(some: list[str]) -> list[SearchResult]:
            # the index of the moment the run begins, so that those who waited find what is new
            return self.searched.search_many(some, **options)

        kind = Kind("search", _key(options), call, away=self.searched.index.kind != FOLDER)
        texts = _searched(question, options)
        cost = texts * SEARCHED_TEXT + _asked(question)
        result: SearchResult = (await self.do(kind, [(question, texts, len(question), cost)]))[0]
        return result

    async def answer(self, question: str, found: SearchResult, k: int) -> Answer:
        """Choose the k best sentences of a search. See :meth:`semclass.ranking.retriever.HybridRetriever.ask`."""

        def call(some: list[tuple[str, SearchResult]]) -> list[Answer]:
            least = self.searched.answerable_from
            return [answer_from(self.models, each, result, k, least) for each, result in some]

        cost = COMPARED_SENTENCES * SEARCHED_TEXT + _asked(question)
        items = [((question, found), COMPARED_SENTENCES, len(question), cost)]
        answer: Answer = (await self.do(Kind("ask", str(k), call), items))[0]
        return answer


def _read(text: str, most: int) -> int:
    """Cost of a text of which only so many characters are read, about."""
    return min(len(text), most) + SHORT + len(text) // SCANNED


def _classified(question: str) -> int:
    """Cost of a question's class: the head compares all word pieces with one another."""
    read = min(len(question), WINDOW)
    return _read(question, WINDOW) + STATES * read * read // WINDOW


def _asked(question: str) -> int:
    """Cost of a question, of several sentences or not, see :mod:`semclass.heads.query_focus`."""
    return ASKED * min(len(question), LAST) + SHORT + len(question) // SCANNED


def _explained(hits: int, options: dict[str, Any]) -> int:
    """Texts that explanations of some hits cost, if there are any."""
    return ceil(hits / EXPLAINED_OF_TEXT) if options.get("explain") else 0


def _searched(question: str, options: dict[str, Any]) -> int:
    """Texts that a search costs."""
    limit: int = options.get("k", HITS)
    candidates = options.get("candidates") or METHODS[options.get("method", DEFAULT)].candidates
    compared = 1 + min(len(question), WINDOW) / COMPARED
    return SEARCH + ceil(max(limit, candidates) * compared / CANDIDATES_OF_TEXT) + _explained(limit, options)


def _key(options: dict[str, Any]) -> str:
    """What options of requests are compared by that may share a run."""
    return repr(sorted(options.items()))
