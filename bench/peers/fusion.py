"""Two customary ways to make one ranking of two scores, to compare the library's plain sum with.

Both look at the first so many passages of each score, as a search engine that keeps two indices does.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core.types import DoubleArray, IntArray
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.evaluation.candidate_scores import CUTOFF
from semclass.scoring import bm25, fusion
from semclass.scoring.postings import count_terms
from semclass.scoring.topk import top_k

DEPTH = 100  # passages of each ranking that are fused
SENTENCES = 4  # sentences of a passage on which alpha is chosen
ALPHAS: DoubleArray = np.arange(21) / 20


def convex(dense: DoubleArray, lexical: DoubleArray, alpha: float, n: int) -> IntArray:
    """Order by alpha * dense + (1 - alpha) * lexical, each brought to 0 ... 1 over the passages that are looked at."""
    rows = fusion.pool(dense, lexical, DEPTH)
    return rows[top_k(fusion.fused(dense[rows], lexical[rows], "convex", alpha=alpha).score, n)]


def reciprocal_ranks(dense: DoubleArray, lexical: DoubleArray, n: int) -> IntArray:
    """Order by the sum of 1 / (K + rank) over both rankings; arguments and result as for :func:`convex`."""
    rows = fusion.pool(dense, lexical, DEPTH)
    return rows[top_k(fusion.fused(dense[rows], lexical[rows], "rrf", depth=DEPTH).score, n)]


def choose_alpha(data: str, sentences: int | None, questions: int, seed: int = 0) -> dict[str, Any]:
    """Find alpha on training questions: of ``squad_sentences/train``, asked of its passages of four sentences."""
    folder = Path(data) / "squad_sentences"
    records = _read(folder / "train.corpus.jsonl.gz")[:sentences]
    place = {record["_id"]: row for row, record in enumerate(records)}
    asked = [record for record in _read(folder / "train.queries.jsonl.gz") if record["relevant"] in place]
    texts = [
        " ".join(record["text"] for record in records[start : start + SENTENCES])
        for start in range(0, len(records), SENTENCES)
    ]
    drawn = np.random.default_rng(seed).permutation(len(asked))[:questions]
    chosen = [asked[row] for row in np.sort(drawn)]
    answers = np.array([place[record["relevant"]] // SENTENCES for record in chosen])
    scores = list(both_scores(OnnxEncoder.load(), texts, [record["text"] for record in chosen]))
    found = {}
    for alpha in ALPHAS.tolist():
        ranked = [convex(*pair, alpha, CUTOFF) == answer for pair, answer in zip(scores, answers, strict=True)]
        found[alpha] = float(np.mean([1 / (1 + hits.argmax()) if hits.any() else 0.0 for hits in ranked]))
    best = max(found, key=lambda alpha: found[alpha])
    return {
        "alpha": best,
        "found_on": f"{len(chosen)} questions of squad_sentences/train",
        "mrr@10": {f"{alpha:g}": round(mrr, 4) for alpha, mrr in found.items()},
    }


def _read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


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
