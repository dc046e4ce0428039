"""Peers of retrieval: BM25 of other libraries, and customary ways to make one ranking of two scores.

A search takes a question and a number, and gives so many places in the corpus, best first.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets_io import read_jsonl, sentence_windows
from semclass.core.errors import import_extra
from semclass.core.types import DoubleArray, IntArray
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.evaluation.candidate_scores import CUTOFF
from semclass.scoring import bm25, fusion
from semclass.scoring.postings import count_terms
from semclass.scoring.topk import top_k

Search = Callable[[str, int], list[int]]

DEPTH = 100  # passages of each ranking that are fused, as a search engine with two indices does
SENTENCES = 4  # sentences of a passage on which alpha is chosen
ALPHAS: DoubleArray = np.arange(21) / 20


def words(text: str) -> list[str]:
    """Lower-cased runs of letters and digits: rank-bm25 brings no tokeniser."""
    return re.findall(r"\w+", text.lower())


def by_bm25s(texts: Sequence[str]) -> Search:
    """bm25s with its own tokeniser, English stop words and the Snowball stemmer; everything else as it comes."""
    bm25s = import_extra("bm25s", "bench")
    stemmer = import_extra("Stemmer", "bench").Stemmer("english")
    model = bm25s.BM25()
    model.index(bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)

    def search(question: str, n: int) -> list[int]:
        asked = bm25s.tokenize(question, stemmer=stemmer, show_progress=False)
        rows, _ = model.retrieve(asked, k=min(n, len(texts)), show_progress=False)
        return [int(row) for row in rows[0]]

    return search


def rank_bm25(corpus: Sequence[Sequence[Hashable]], *, same_idf: bool = False) -> Any:
    """``BM25Okapi`` of rank-bm25, k1 = 1.5 and b = 0.75 as it comes; `same_idf`: with the idf of semclass."""
    model = import_extra("rank_bm25", "bench").BM25Okapi(corpus)
    if same_idf:
        found = Counter(word for passage in model.doc_freqs for word in passage)
        model.idf = {word: math.log1p((len(corpus) - df + 0.5) / (df + 0.5)) for word, df in found.items()}
    return model


def by_rank_bm25(texts: Sequence[str]) -> Search:
    """rank-bm25 over :func:`words`."""
    model, rows = rank_bm25([words(text) for text in texts]), list(range(len(texts)))
    return lambda question, n: list(model.get_top_n(words(question), rows, n=n))


LIBRARIES = {"BM25, bm25s": by_bm25s, "BM25, rank-bm25": by_rank_bm25}


def convex(dense: DoubleArray, lexical: DoubleArray, alpha: float, n: int) -> IntArray:
    """Order by alpha * dense + (1 - alpha) * lexical, each brought to 0 ... 1 over the passages that are looked at."""
    rows = fusion.pool(dense, lexical, DEPTH)
    return rows[top_k(fusion.fused(dense[rows], lexical[rows], "convex", alpha=alpha).score, n)]


def reciprocal_ranks(dense: DoubleArray, lexical: DoubleArray, n: int) -> IntArray:
    """Order by the sum of 1 / (K + rank) over both rankings."""
    rows = fusion.pool(dense, lexical, DEPTH)
    return rows[top_k(fusion.fused(dense[rows], lexical[rows], "rrf", depth=DEPTH).score, n)]


def choose_alpha(data: str, sentences: int | None, questions: int, seed: int = 0) -> dict[str, Any]:
    """Find alpha on training questions: of ``squad_sentences/train``, asked of its passages of four sentences."""
    folder = Path(data) / "squad_sentences"
    records = read_jsonl(folder / "train.corpus.jsonl.gz")[:sentences]
    place = {record["_id"]: row for row, record in enumerate(records)}
    asked = [row for row in read_jsonl(folder / "train.queries.jsonl.gz") if row["relevant"] in place]
    texts = sentence_windows([record["text"] for record in records], SENTENCES)
    drawn = np.random.default_rng(seed).permutation(len(asked))[:questions]
    chosen = [asked[row] for row in np.sort(drawn)]
    answers = np.array([place[record["relevant"]] // SENTENCES for record in chosen])
    scores = list(both_scores(OnnxEncoder.load(), texts, [record["text"] for record in chosen]))
    found = {}
    for alpha in ALPHAS.tolist():
        ranked = [convex(*pair, alpha, CUTOFF) == answer for pair, answer in zip(scores, answers, strict=True)]
        found[alpha] = float(np.mean([1 / (1 + hits.argmax()) if hits.any() else 0.0 for hits in ranked]))
    return {
        "alpha": max(found, key=lambda alpha: found[alpha]),
        "found_on": f"{len(chosen)} questions of squad_sentences/train",
        "mrr@10": {f"{alpha:g}": round(mrr, 4) for alpha, mrr in found.items()},
    }


def both_scores(
    encoder: OnnxEncoder, texts: Sequence[str], questions: Sequence[str]
) -> Iterator[tuple[DoubleArray, DoubleArray]]:
    """Similarity and BM25 score of every passage, each float64 (passages,), for one question after another."""
    passages = encoder.encode(texts)
    parts = [count_terms(passages.terms, encoder.is_term)]
    known, pooled = bm25.statistics(parts), passages.rows("pooled")
    asked = encoder.encode(questions)
    for row, vector in enumerate(asked.rows("pooled")):
        yield (pooled @ vector).astype(np.float64), bm25.scores(parts, known, asked.terms.row(row)).astype(np.float64)
