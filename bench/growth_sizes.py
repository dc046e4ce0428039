"""Steps of section ``growth``: searches of an index of some size, and BM25 and the encoder beside peers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench import made_corpus, timing
from bench.peers.retrievers import rank_bm25
from bench.peers.rows import NO_ORIGINAL, original
from bench.steps import peak_megabytes
from datasets_io import read_jsonl
from semclass import HybridRetriever, OnnxEncoder, Passage
from semclass.core.errors import MissingExtraError, import_extra
from semclass.core.types import Ragged
from semclass.documents.readers import read_corpus
from semclass.index.commit import describe
from semclass.index.passage_encoder import PassageEncoder, searchable
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import NOTHING
from semclass.ranking.methods import METHODS
from semclass.scoring.topk import top_k

SEARCHES = 200  # searches after which the memory of a service is looked at
K = 10  # passages that a search gives
METHODS_TIMED = {"plain": "hybrid", "learned": "learned", "default": "default"}  # by the names of the results


def questions(data: str, limit: int) -> list[str]:
    """Questions of SQuAD's dev articles, whose sentences made corpora are drawn from, too."""
    texts = [row["text"] for row in read_jsonl(Path(data) / "beir" / "squad4" / "queries.jsonl")]
    return texts[:: max(len(texts) // limit, 1)][:limit]


def read(data: str, out: str, limit: int | None) -> dict[str, Any]:
    """Read the sentences that corpora are made of, once for each set of models."""
    path, passage_encoder = Path(out), PassageEncoder.load()
    pool = made_corpus.read_pool(made_corpus.sentences(Path(data), limit), passage_encoder)
    made_corpus.save_pool(pool, path)
    return {"sentences": len(pool.texts)}


def make(pool: str, n: int, folder: str) -> dict[str, Any]:
    passage_encoder, found = PassageEncoder.load(), made_corpus.load_pool(Path(pool))
    made_corpus.make(found, n, passage_encoder, Path(folder))
    lengths = PassageIndex.load(folder, verify=False).pieces.lengths()
    return {"passages": n, "pieces_per_passage": round(float(lengths.mean()), 1), "bytes": bytes_of(folder)}


def bytes_of(folder: str) -> int:
    return sum(describe(Path(folder))["bytes"].values())


def lean(index: str, folder: str) -> dict[str, Any]:
    """Write an index again without vectors of tokens, as a build of the form ``"lean"`` leaves them out."""
    opened = PassageIndex.load(index, verify=False)
    few = [
        replace(
            part, tokens=NOTHING, pieces=NOTHING, provides=Ragged(part.provides.values[:, :0], part.provides.offsets)
        )
        for part in opened.segments
    ]
    replace(opened, form="lean", codebooks="", segments=tuple(few)).save(folder)
    return {"passages": len(opened), "bytes": bytes_of(folder)}


def search(index: str, data: str, timed: int, searches: int = SEARCHES, every: bool = False) -> dict[str, Any]:
    """Time to open, peak memory after searches, times of searches, and what they miss."""
    asked = questions(data, searches)
    retriever = HybridRetriever.load(index)
    if every:  # without cells, so that a question is compared with every vector
        segments = tuple(replace(part, near=None) for part in retriever.embedded.segments)
        retriever = replace(retriever, index=replace(retriever.embedded, segments=segments))
    for text in asked:
        retriever.search(text)
    peak = peak_megabytes()
    texts = asked[:: max(len(asked) // timed, 1)][:timed]
    jobs = {name: partial(retriever.search, method=method) for name, method in METHODS_TIMED.items()}
    seconds = timing.by_turns(texts, jobs, block=10)
    started = time.perf_counter()
    PassageIndex.load(index)
    return {
        "passages": len(retriever.index),
        "open_s": round(time.perf_counter() - started, 3),
        "service_peak_mb": peak,
        "searches": len(asked),
        "timed": len(texts),
        **timing.percentiles({f"{name}_ms": values for name, values in seconds.items()}, 1e3, 3),
        "recall@10": recall(retriever, asked),
    }


def recall(retriever: HybridRetriever, texts: Sequence[str]) -> float:
    """Share of the ten best of all passages, each of which is scored here, that a search finds before it re-ranks."""
    index, weight, found = retriever.embedded, retriever.weights["bm25"], []
    for query in retriever.models.encode(texts, classes=False, tokens=False):
        dense, lexical = index.scores(query)
        best = top_k(dense + weight * lexical, K)
        found.append(len(np.intersect1d(best, retriever.retrieve(query, K, METHODS["hybrid"]))) / len(best))
    return round(float(np.mean(found)), 4)


def lexical(index: str, data: str, timed: int) -> dict[str, Any]:
    """BM25 of an index against rank-bm25 over the same word pieces, with the same scores, by turns."""
    opened = PassageIndex.load(index, verify=False)
    encoder = PassageEncoder.load().encoder
    words = np.array(encoder.vocabulary, dtype=object)

    def tokens(terms: Any) -> list[str]:
        return list(words[terms[encoder.is_term[terms]]])

    read = encoder.encode([searchable(passage) for passage in opened.passages(opened.rows)], views=()).terms
    reference = rank_bm25([tokens(read.row(row)) for row in range(len(read))], same_idf=True)
    asked = [row for row in (encoder.encode([text]).terms.row(0) for text in questions(data, timed)) if len(row)]
    pairs = [(terms, tokens(terms)) for terms in asked]
    found = timing.by_turns(
        pairs,
        {
            "semclass": lambda pair: top_k(opened.lexical_scores(pair[0]), K),
            "peer": lambda pair: top_k(reference.get_scores(pair[1]), K),
        },
        block=10,
    )
    apart = [np.abs(opened.lexical_scores(ids) - reference.get_scores(texts)).max() for ids, texts in pairs[:20]]
    return {
        "passages": len(opened),
        "questions": len(pairs),
        **timing.percentiles({f"{name}_ms": values for name, values in found.items()}, 1e3, 3),
        "ratio": round(float(np.median(found["peer"]) / np.median(found["semclass"])), 1),
        "largest_difference": round(float(max(apart)), 6),
    }


def real(data: str, n: int) -> Iterator[Passage]:
    """The first n passages of squad4, of four sentences, as a stream from the disk."""
    return islice(read_corpus(Path(data) / "beir" / "squad4" / "corpus.jsonl"), n)


def encoders(data: str, asked: int, batches: int, batch: int) -> dict[str, Any]:
    """The int8 encoder against sentence-transformers with float32 weights: questions one by one, passages in batches."""
    folder = original()
    if folder is None:
        raise MissingExtraError(NO_ORIGINAL["skipped"])
    library = import_extra("sentence_transformers", "bench")
    torch = import_extra("torch", "bench")
    torch.set_num_threads(1)
    peer, ours = library.SentenceTransformer(str(folder), device="cpu"), OnnxEncoder.load(batch_size=batch)

    def torch_encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return peer.encode(list(texts), batch_size=batch, normalize_embeddings=True, show_progress_bar=False)

    def our_encode(texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return ours.encode(texts).rows("pooled")

    jobs = {"semclass": our_encode, "peer": torch_encode}
    texts, read = questions(data, asked), [item.text for item in real(data, batch * batches)]
    single = timing.by_turns([[text] for text in texts], jobs)
    grouped = timing.by_turns([read[begin : begin + batch] for begin in range(0, len(read), batch)], jobs, block=1)
    rows = []
    for kind, taken, count in (("question", single, 1), ("passage", grouped, batch)):
        each = {name: [seconds / count for seconds in values] for name, values in taken.items()}
        rows.append(
            {
                "text": kind,
                "at_a_time": count,
                "texts": count * len(taken["peer"]),
                **timing.percentiles({f"{name}_ms": values for name, values in each.items()}, 1e3, 3),
                "ratio": round(float(np.median(each["peer"]) / np.median(each["semclass"])), 2),
            }
        )
    return {"rows": rows}
