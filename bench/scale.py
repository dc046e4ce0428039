"""Cost of a search as an index grows: time, memory and bytes of 100 to a million passages.

Passages are made up: three sentences of SQuAD's training articles each, drawn by chance. Each sentence is read once. The
vector of an excerpt is the sum of the vectors of its sentences, and the learnt words of a passage are those of another
sentence, so that a large index is built in minutes; what reading takes is measured apart, on real passages. So the figures
are of time, memory and bytes, and say nothing about quality.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import figures, measures, readme
from bench.labels import Kept, kept
from bench.steps import Bench
from datasets_io import read_jsonl, sentence_windows, squad_train
from semclass import HybridRetriever, Models, Passage, PassageIndex, build_index
from semclass.core.types import Encoding, Ragged, offsets_of
from semclass.documents.sentences import split_sentences

SIZES, QUICK = (100, 1_000, 10_000, 100_000, 1_000_000), (100, 1_000)
POOL, SENTENCES = 4000, 3  # sentences that are drawn from, and those of a passage
READ = 600  # real passages that are read and built
ASKED = 200
METHODS = ("default", "bm25")


@dataclass(frozen=True)
class MadeWords:
    """Gives a passage the learnt words of some sentence, by its word pieces."""

    fingerprint: str
    found: Ragged

    def encode(self, pieces: Ragged) -> Ragged:
        """Learnt words of n passages."""
        return self.found.take(np.add.reduceat(pieces.values.astype(np.int64), pieces.offsets[:-1]) % len(self.found))


class Joined(Kept):
    """Reads excerpts whose sentences are known: sums of their vectors, and all of their word pieces."""

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """The views of n excerpts."""
        parts = [split_sentences(text) for text in texts]
        of = super().encode([text for part in parts for text in part], views=views)
        offsets = offsets_of(np.array([len(part) for part in parts], np.int64))

        def joined(rows: Ragged) -> Ragged:
            return Ragged(rows.values, rows.offsets[offsets])

        given: dict[str, Any] = {"kept": joined(of.pieces_read())} if "tokens" in views else {}
        for name in views:
            given[name] = joined(of.pieces(name)) if name == "tokens" else np.add.reduceat(of.rows(name), offsets[:-1])
        return Encoding(joined(of.terms), **given)


def made(sentences: list[str], count: int, seed: int = 0) -> Iterator[Passage]:
    rng = np.random.default_rng(seed)
    for place in range(count):
        rows = rng.integers(len(sentences), size=SENTENCES)
        yield Passage(str(place), " ".join(sentences[row] for row in rows))


def build(data: str, folder: str, passages: int) -> dict[str, Any]:
    """Build an index of made passages, and say its bytes and what building takes beside reading."""
    models = Models.load(threads=1).passage_encoder
    head, few = models.classifier, squad_train(Path(data))[0][:POOL]
    sentences = [text for text in few if split_sentences(f"{text} {few[0]} {text}") == [text, few[0], text]]
    views = ("tokens", "pooled", "provides", *head.encoder_views)
    encoder = Joined(**vars(kept(sentences, models.encoder.for_passages, views)))
    words = MadeWords(models.sparse.fingerprint, models.sparse.encode(encoder.found.terms)) if models.sparse else None
    quick = replace(models, classifier=replace(head, encoder=encoder), sparse=words)
    started = time.perf_counter()
    build_index(folder, made(sentences, passages), passage_encoder=quick, replace=True)
    seconds = time.perf_counter() - started
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {"passages": passages, "per_second_beside_reading": passages / seconds, "bytes": size / passages}


def search(data: str, folder: str) -> dict[str, Any]:
    """Open an index, and ask it questions by two methods in turns; the step says the memory of the process."""
    models, started = Models.load(threads=1), time.perf_counter()
    retriever = HybridRetriever(PassageIndex.load(folder), models)
    asked = [row["text"] for row in read_jsonl(Path(data) / "beir" / "squad4" / "queries.jsonl")[:ASKED]]
    retriever.search(asked[0])
    opened = time.perf_counter() - started
    jobs = {name: lambda text, name=name: retriever.search(text, method=name) for name in METHODS}
    seconds = measures.by_turns(asked, jobs)
    return {"open_s": opened, **{name: measures.milliseconds(values) for name, values in seconds.items()}}


def real(data: str, folder: str) -> dict[str, Any]:
    """Passages a second of a build that reads each of them, by all processors."""
    texts = sentence_windows(squad_train(Path(data))[0], SENTENCES)[:READ]
    started = time.perf_counter()
    passages = (Passage(str(place), text) for place, text in enumerate(texts))
    build_index(folder, passages, passage_encoder=Models.load(threads=1).passage_encoder, replace=True)
    return {"per_second": len(texts) / (time.perf_counter() - started)}


def of_size(bench: Bench, size: int) -> dict[str, Any]:
    where = {"data": bench.data, "folder": bench.work / "scale" / str(size)}
    row = bench.step(f"scale/build/{size}", "bench.scale:build", wrote=where["folder"], passages=size, **where)
    return {**row, **bench.step(f"scale/search/{size}", "bench.scale:search", **where)}


def run(bench: Bench) -> dict[str, Any]:
    """Build an index of each size, and search it."""
    read = bench.step("scale/real", "bench.scale:real", data=bench.data, folder=bench.work / "scale" / "real")
    rows = {str(size): of_size(bench, size) for size in (QUICK if bench.quick else SIZES)}
    return {"task": {"what": "time, memory and bytes of an index of made passages"}, "rows": rows, "read": read}


def table(found: Mapping[str, Any]) -> str:
    rows = []
    for row in sorted(found["scale"]["rows"].values(), key=lambda row: row["passages"]):
        times = (f"{row[name][f'{part}_ms']:.3g}" for name in METHODS for part in ("p50", "p95"))
        rest = (f"{row['per_second_beside_reading']:,.0f}", f"{row['open_s']:.2g}", f"{row['peak_mb']:,.0f}")
        rows.append((f"{row['passages']:,}", *times, *rest, f"{row['bytes']:,.0f}"))
    columns = (f"{name}, {part}" for name in METHODS for part in ("ms", "95 %"))
    head = ("passages", *columns, "built a second beside reading", "to open, s", "memory, MB", "bytes a passage")
    each = f"{found['scale']['read']['per_second']:.0f}"
    said = f"With reading, a build takes {each} passages a second, whatever the size of the index."
    return f"{readme.markdown(head, rows)}\n\n{said}"


def picture(found: Mapping[str, Any]) -> bytes:
    """Time, memory, bytes and speed of a build, by the number of passages."""
    rows = sorted(found["scale"]["rows"].values(), key=lambda row: row["passages"])
    panels = {
        "milliseconds a search": {name: [row[name]["p50_ms"] for row in rows] for name in METHODS},
        "memory, MB": {"": [row["peak_mb"] for row in rows]},
        "bytes a passage": {"": [row["bytes"] for row in rows]},
        "built a second": {"beside reading": [row["per_second_beside_reading"] for row in rows],
                           "with it": [found["scale"]["read"]["per_second"]] * len(rows)},
    }  # fmt: skip
    return figures.curves([row["passages"] for row in rows], "passages", panels)


TABLES = {"": table}
PICTURES = {"scale.png": picture}
