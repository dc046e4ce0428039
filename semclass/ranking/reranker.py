"""Re-ranks passages from another source, such as a search engine, a database or a web page.

The last encoded texts are kept, so that re-ranking them for another question costs little.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import (
    check_choice,
    check_positive,
    check_text,
    check_texts,
    check_unique,
    check_weights,
    short,
)
from semclass.core.errors import InputError, InputTypeError
from semclass.core.types import Encoder, Explanation, Hit, Passage, Ragged, SearchResult, chained
from semclass.encoders.batching import CHUNK, concurrency_limit, warn_truncated
from semclass.encoders.words import language_of
from semclass.index.candidates import Candidates, Query, make_hits
from semclass.index.passage_encoder import PassageEncoder, has_text, parts_of, searchable
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Part, segment_of
from semclass.ranking.explain import explain as explained
from semclass.ranking.methods import DEFAULT, RERANKING, WEIGHTS, Method, method_for
from semclass.ranking.models import LANGUAGE_DEPTH, OTHER, SHARES, Models, warn_of_language

CACHE_MB = 64.0
"""Default megabytes of encoded texts that a reranker keeps."""

ENTRY_BYTES = 3_000
"""Approximate number of bytes that an entry takes besides its values."""

Text: TypeAlias = tuple[str, str]
"""Title and text of a passage."""

Key: TypeAlias = tuple[Text, bool, str]
"""A text, whether its classes are needed, and the language of its stems."""


class Entry(NamedTuple):
    """An encoded text."""

    arrays: dict[str, Ragged]  # see semclass.index.segment.segment_of
    is_long: bool  # whether it is longer than the encoder reads
    bytes: int


class Usage(NamedTuple):
    """Statistics of a cache since it was created."""

    hits: int = 0  #: texts that were not encoded again
    misses: int = 0  #: texts that were encoded
    bytes: int = 0  #: bytes that are in use


class TextCache:
    """Keeps the last encoded texts, up to a number of bytes. Threads may share one instance."""

    def __init__(self, megabytes: float) -> None:
        self.limit, self.usage = round(megabytes * 1e6), Usage()
        self._kept: OrderedDict[Key, Entry] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, passage_encoder: PassageEncoder, texts: Sequence[Text], *, classes: bool, language: str
    ) -> tuple[dict[str, Ragged], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return the arrays of n >= 1 texts, and for each text whether it is too long, and whether it was in the cache."""
        keys = [(text, classes, language) for text in texts]
        with self._lock:
            kept = {key: self._kept[key] for key in keys if key in self._kept}
            for key in kept:
                self._kept.move_to_end(key)
        reused = np.array([key in kept for key in keys])
        if missing := [key for key in keys if key not in kept]:
            passages = [Passage("", text, {"title": title}) for (title, text), _, _ in missing]
            header = passage_encoder.header(language=language)
            arrays, truncated = passage_encoder.arrays(passages, header, classes=classes)
            for row, key in enumerate(missing):
                mine = {name: rows.take(np.array([row])) for name, rows in arrays.items()}
                size = ENTRY_BYTES + sum(rows.values.nbytes for rows in mine.values()) + 4 * sum(map(len, key[0]))
                kept[key] = Entry(mine, row in truncated, size)
        with self._lock:
            hits, misses, used = self.usage
            for key in missing:
                if key not in self._kept and kept[key].bytes <= self.limit:
                    self._kept[key] = kept[key]
                    used += kept[key].bytes
            while used > self.limit:
                used -= self._kept.popitem(last=False)[1].bytes
            self.usage = Usage(hits + len(keys) - len(missing), misses + len(missing), used)
        entries = [kept[key] for key in keys]
        joined = {name: chained([entry.arrays[name] for entry in entries]) for name in entries[0].arrays}
        return joined, np.array([entry.is_long for entry in entries]), reused


@dataclass(frozen=True)
class Reranker:
    """Re-ranks passages for a question. Threads may share one instance.

    Passages without text and title rank last, in their order, with the relevance 0. Both methods that re-rank raise an
    ``InputError`` or ``InputTypeError`` if a question is empty, a text is of the wrong type, an id comes twice, an option
    is not allowed, or the models lack the heads of the method.
    """

    models: Models
    cache: TextCache = field(default_factory=lambda: TextCache(CACHE_MB), repr=False, compare=False)

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        threads: int = 1,
        cache_mb: float = CACHE_MB,
    ) -> Reranker:
        """Load the models, which must include a pair head. See :meth:`semclass.Models.load`.

        `cache_mb` limits the megabytes of encoded texts that are kept for the next questions. A text of 100 words takes
        about 10 kB. With 0, no texts are kept.
        """
        return cls(Models.load(models, encoder=encoder, threads=threads), TextCache(cache_mb))

    def rerank(
        self,
        question: str,
        passages: Sequence[Passage | str],
        *,
        k: int | None = None,
        method: str = DEFAULT,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Re-rank passages for a question.

        Parameters
        ----------
        passages
            Passages in their original order, which stay unchanged. Plain strings get their places, from 0, as ids.
        k
            Most hits to return. If None, all passages are returned.
        method
            A method of :data:`semclass.ranking.methods.RERANKING`. The ``"stable"`` methods start from the original
            order. The other methods start from the fused scores of vectors and BM25 among the passages.
        weights, explain
            See :class:`semclass.SearchOptions`.

        Returns
        -------
        SearchResult
            The hits, best first. ``index`` of a hit is its place in `passages`, from 0; ``rank_before`` counts from 1.
        """
        texts, items = [check_text(question, "question")], [check_passages(passages, "passages")]
        return self._ranked(texts, items, k, method, weights, explain)[0]

    def rerank_many(
        self,
        questions: Sequence[str],
        passages: Sequence[Sequence[Passage | str]],
        *,
        k: int | None = None,
        method: str = DEFAULT,
        weights: Mapping[str, float] | None = None,
        explain: bool = False,
    ) -> list[SearchResult]:
        """Re-rank the passages of n questions in one call, and return one result per question, in the same order.

        `passages` holds n sequences. Repeated texts are encoded once. The scores agree with those of :meth:`rerank` up to
        1e-6, because the last bits may depend on the texts that are encoded together.
        """
        texts = check_texts(questions, "questions")
        items = [check_passages(some, f"passages[{row}]") for row, some in enumerate(passages)]
        if len(items) != len(texts):
            raise InputError(
                f"there are {len(texts)} questions and {len(items)} sequences of passages; give one sequence per question"
            )
        return self._ranked(texts, items, k, method, weights, explain)

    def _ranked(
        self,
        questions: list[str],
        passages: list[list[Passage]],
        k: int | None,
        name: str,
        weights: Mapping[str, float] | None,
        explain: bool,
    ) -> list[SearchResult]:
        """Re-rank the passages of questions, all of which are checked."""
        limit = None if k is None else check_positive(k, "k")
        check_choice(name, RERANKING, "method")
        models, method = self.models, method_for(self.models, name)
        used = {**models.weights, **check_weights(weights or {}, WEIGHTS, SHARES)}
        needed = method.needs.encoded(explain)
        results = [SearchResult((), question) for question in questions]
        truncated, count = list[int](), 0
        read = [[item for item in items if has_text(item)] for items in passages]
        for rows in _chunks([len(items) for items in read]):
            items = [read[row] for row in rows]
            with concurrency_limit():  # for each chunk, so that other threads get their turns in between
                queries = models.encode([questions[row] for row in rows], **needed)
                candidates = self.candidates(queries, items, method, used, needed)
                for row, query, some, (found, long, reused) in zip(rows, queries, items, candidates, strict=True):
                    ranked, told = method.order(models, query, found, used), None
                    places = ranked.order[:limit].tolist()
                    shown = [some[place] for place in places]
                    if explain:
                        told = explained(models, query, ranked, shown, models.pairs.idf[query.terms])
                        told = [
                            replace(one, reused=bool(reused[place])) for one, place in zip(told, places, strict=True)
                        ]
                    hits = make_hits(query, ranked, shown, told)
                    results[row] = SearchResult(
                        hits, query.query_used, ranked.certainty, ranked.answerable, ranked.language
                    )
                    truncated += (count + np.flatnonzero(long)).tolist()
                    count += len(some)
        warn_truncated(truncated, count)
        if any(result.language == OTHER for result in results):
            warn_of_language()
        return [
            result if len(some) == len(items) else _with_empty(result, items, limit, explained=explain)
            for result, some, items in zip(results, read, passages, strict=True)
        ]

    def candidates(
        self,
        queries: list[Query],
        passages: list[list[Passage]],
        method: Method,
        weights: Mapping[str, float],
        needed: Mapping[str, bool],
    ) -> list[tuple[Candidates, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
        """Encode passages, and score them as an index would, with word statistics of only these passages.

        Also returns for each passage whether one of its sentences is too long to be read, and whether the passage was
        encoded for an earlier question.
        """
        encoder, places = self.models.passage_encoder, dict[Text, int]()
        rows_of = [[places.setdefault(parts_of(item)[:2], len(places)) for item in some] for some in passages]
        language = language_of([" ".join(text) for text in islice(places, LANGUAGE_DEPTH)])
        texts, too_long, reused = self.cache.read(encoder, list(places), classes=needed["classes"], language=language)
        header, scoring = encoder.header(language=language).header(), method.scoring(weights)
        found = []
        for query, rows in zip(queries, map(np.array, rows_of), strict=True):
            segment = segment_of({name: array.take(rows) for name, array in texts.items()})
            index = PassageIndex(**header, parts=(Part(segment),))
            found.append((index.scored(query, scoring, encoder), too_long[rows], reused[rows]))
        return found


def as_passages(passages: Iterable[Passage | str], name: str = "passages") -> Iterator[Passage]:
    """Turn texts into passages whose ids are their places, and refuse items that are neither texts nor passages."""
    if not isinstance(passages, Iterable) or isinstance(passages, (str, bytes)):
        raise InputTypeError(f"{name} must be a sequence of semclass.Passage or of strings, not {short(passages)}")
    for place, item in enumerate(passages):
        if not isinstance(item, (Passage, str)):
            raise InputTypeError(f"{name}[{place}] must be a semclass.Passage or a string, not {short(item)}")
        yield Passage(str(place), item) if isinstance(item, str) else item


def check_passages(passages: Sequence[Passage | str], name: str) -> list[Passage]:
    """Turn texts into passages. Refuse a value that is not a sequence of texts or of passages with unique ids."""
    items = list(as_passages(passages, name))
    check_unique([item.id for item in items], "passage id")
    for item in filter(has_text, items):
        searchable(item)
    return items


def _with_empty(result: SearchResult, passages: list[Passage], k: int | None, *, explained: bool) -> SearchResult:
    """Add the passages without text behind the others, and count the places of all."""
    places = [place for place, item in enumerate(passages) if has_text(item)]
    hits = [replace(hit, rank_before=1 + places[hit.index]) for hit in result]
    score = min([0.0, *(hit.score for hit in hits)])
    components = dict.fromkeys(hits[0].components if hits else ("dense", "bm25", "relevance"), 0.0)
    explanation = Explanation({"empty": score}, score, (), (), None) if explained else None
    for place in sorted({*range(len(passages))}.difference(places)):
        item, rank = passages[place], len(hits) + 1
        hit = Hit(item.id, item.text, item.metadata, score, rank, 1 + place, components, (), {}, explanation)
        hits.append(hit)
    return replace(result, hits=tuple(hits[:k]))


def _chunks(counts: Sequence[int]) -> Iterator[list[int]]:
    """Cut questions with passages into chunks of at most `CHUNK` passages, or one question."""
    rows: list[int] = []
    total = 0
    for row, count in enumerate(counts):
        if rows and total + count > CHUNK:
            yield rows
            rows, total = [], 0
        if count:
            rows.append(row)
            total += count
    if rows:
        yield rows
