"""BM25 as the libraries that are made for it do it, each set up as its own documentation shows.

A search takes a question and a number, and gives so many places in the corpus, best first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import bm25s

from semclass.core.errors import import_extra

Search = Callable[[str, int], list[int]]

_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-cased runs of letters and digits: what most people give to rank-bm25, which brings no tokeniser."""
    return _WORD.findall(text.lower())


def by_bm25s(texts: Sequence[str]) -> Search:
    """bm25s with its own tokeniser, English stop words and the Snowball stemmer; everything else as it comes."""
    stemmer = import_extra("Stemmer", "bench").Stemmer("english")
    model = bm25s.BM25()
    model.index(bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def search(question: str, n: int) -> list[int]:
        asked = bm25s.tokenize(question, stemmer=stemmer, show_progress=False)
        rows, _ = model.retrieve(asked, k=min(n, len(texts)), show_progress=False)
        return [int(row) for row in rows[0]]

    return search


def rank_bm25(corpus: Sequence[Sequence[Hashable]], *, same_idf: bool = False) -> Any:
    """``BM25Okapi`` of rank-bm25, k1 = 1.5 and b = 0.75 as it comes."""
    model = import_extra("rank_bm25", "bench").BM25Okapi(corpus)
    if same_idf:
        found = Counter(word for passage in model.doc_freqs for word in passage)
        model.idf = {word: math.log1p((len(corpus) - df + 0.5) / (df + 0.5)) for word, df in found.items()}
    return model


def by_rank_bm25(texts: Sequence[str]) -> Search:
    """rank-bm25 over :func:`words`."""
    model = rank_bm25([words(text) for text in texts])
    rows = list(range(len(texts)))

    def search(question: str, n: int) -> list[int]:
        return list(model.get_top_n(words(question), rows, n=n))

    return search
