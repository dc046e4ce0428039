"""Corpora of any size, made of real sentences: a million passages without hours of encoding.

A made passage is 3 to 5 sentences, drawn with a seed from ``squad_sentences``. Text, word pieces, BM25 and the vectors
of tokens and sentences are those of a real build, as semclass reads each sentence by itself. Class probabilities (the
sentences' largest) are not. Such a corpus is good for measuring time and memory, not quality.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.types import FloatArray, Passage, Ragged, ragged
from semclass.documents.sentences import split_sentences
from semclass.encoders.batching import CHUNK
from semclass.index.columns import Columns
from semclass.index.ingest import IndexConfig, written_provides
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.passage_index import PassageIndex
from semclass.index.segment import Segment, hash_table, hashes_of
from semclass.scoring import postings
from semclass.scoring.dense import shares_of
from semclass.scoring.quantisation import to_quarter_bytes
from semclass.scoring.topk import unit

FEWEST, MOST = 3, 5  # sentences of a passage: about 130 word pieces
BLOCK = 20_000  # passages that are put together at a time: bounds memory, changes nothing else
_FOLLOWING = "this sentence stands for whichever comes next."


@dataclass(frozen=True)
class Pool:
    """Sentences that were read once, each by itself."""

    texts: list[str]
    vectors: FloatArray  # of length 1
    words: FloatArray
    probabilities: FloatArray
    provides: npt.NDArray[np.uint8]
    tokens: Ragged
    pieces: Ragged
    terms: Ragged


def sentences(data: Path, limit: int | None = None) -> list[str]:
    """Sentences of ``squad_sentences``, dev first, that stay sentences of their own when others stand beside them."""
    found: dict[str, None] = {}
    for name in ("dev", "train"):
        with gzip.open(data / "squad_sentences" / f"{name}.corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            found |= dict.fromkeys(json.loads(line)["text"] for line in lines)
    alone = [text for text in found if split_sentences(f"{text} {_FOLLOWING}") == [text, _FOLLOWING]]
    return alone[:limit]


def read_pool(texts: Sequence[str], passage_encoder: PassageEncoder) -> Pool:
    """Read sentences as the passages of an index are read."""
    parts = []
    for begin in range(0, len(texts), CHUNK):
        found, _ = passage_encoder.read([Passage("", text) for text in texts[begin : begin + CHUNK]])
        codes = passage_encoder.codebooks.encode(found.tokens.values, found.pieces.values)
        vectors = unit(found.sentences.values[found.sentences.offsets[:-1]])
        parts.append(
            (
                vectors,
                np.add.reduceat(found.words.values, found.words.offsets[:-1]),
                found.probabilities,
                written_provides(found, "standard").values,
                Ragged(codes, found.tokens.offsets),
                found.pieces,
                found.terms,
            )
        )
    columns = [*zip(*parts, strict=True)]
    return Pool(list(texts), *map(np.concatenate, columns[:4]), *map(_rows, columns[4:]))


def _rows(parts: Sequence[Ragged]) -> Ragged:
    rows = [part.row(place) for part in parts for place in range(len(part))]
    return ragged(rows, np.zeros(0, np.int32))


_ARRAYS = ("vectors", "words", "probabilities", "provides")


def save_pool(pool: Pool, path: Path) -> None:
    """Write what was read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with beside.open("wb") as file:
        np.savez(
            file,
            texts=np.array(pool.texts),
            tokens=pool.tokens.values,
            pieces=pool.pieces.values,
            piece_offsets=pool.pieces.offsets,
            terms=pool.terms.values,
            term_offsets=pool.terms.offsets,
            **{name: getattr(pool, name) for name in _ARRAYS},
        )
    beside.replace(path)


def load_pool(path: Path) -> Pool:
    with np.load(path) as found:
        return Pool(
            texts=found["texts"].tolist(),
            tokens=Ragged(found["tokens"], found["piece_offsets"]),
            pieces=Ragged(found["pieces"], found["piece_offsets"]),
            terms=Ragged(found["terms"], found["term_offsets"]),
            **{name: found[name] for name in _ARRAYS},
        )


def draw(pool: Pool, n: int, seed: int) -> Ragged:
    """Numbers of the sentences that n passages are made of."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(FEWEST, MOST + 1, n)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Ragged(rng.integers(0, len(pool.texts), int(ends[-1])), ends)


def text(pool: Pool, drawn: npt.NDArray[Any]) -> str:
    return " ".join(pool.texts[number] for number in drawn.tolist())


def blocks(drawn: Ragged) -> Iterator[tuple[int, Ragged]]:
    """The passages, :data:`BLOCK` at a time, each block with the number of its first one."""
    for begin in range(0, len(drawn), BLOCK):
        offsets = drawn.offsets[begin : begin + BLOCK + 1]
        yield begin, Ragged(drawn.values[offsets[0] : offsets[-1]], offsets - offsets[0])


def joined(rows: Ragged, drawn: Ragged) -> Ragged:
    """Rows of the sentences of a passage as one row."""
    found = rows.take(drawn.values)
    return Ragged(found.values, found.offsets[drawn.offsets])


class _Growing:
    """Arrays that grow on the disk, and are read through memory maps: those of a million passages fit no service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}

    def add(self, **arrays: npt.NDArray[Any]) -> None:
        for name, array in arrays.items():
            self.kinds[name] = (array.dtype, array.shape[1:])
            with (self.folder / name).open("ab") as file:
                np.ascontiguousarray(array).tofile(file)

    def get(self, name: str) -> npt.NDArray[Any]:
        dtype, item = self.kinds[name]
        found = np.memmap(self.folder / name, dtype, mode="r")
        return np.asarray(found).reshape(-1, *item)


def make(pool: Pool, n: int, passage_encoder: PassageEncoder, folder: Path, *, seed: int = 0) -> None:
    drawn, (codes, scales) = draw(pool, n, seed), to_quarter_bytes(pool.vectors)
    kind = np.min_scalar_type(len(passage_encoder.encoder.is_term))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:  # gigabytes, which fit no memory
        arrays, parts, lengths = _Growing(Path(beside)), [], []
        for begin, some in blocks(drawn):
            terms, tokens, pieces = (joined(each, some) for each in (pool.terms, pool.tokens, pool.pieces))
            lines = [_line(begin + row, text(pool, some.row(row))) for row in range(len(some))]
            parts.append(postings.count_terms(terms, passage_encoder.encoder.is_term))
            arrays.add(
                sentences=codes[some.values],
                scales=scales[some.values],
                shares=shares_of(pool.vectors[some.values], pool.words[some.values], some.offsets),
                probabilities=np.maximum.reduceat(pool.probabilities[some.values], some.offsets[:-1], axis=0),
                tokens=tokens.values,
                pieces=pieces.values.astype(kind),
                records=np.frombuffer(b"".join(lines), np.uint8),
            )
            lengths.append(np.stack([pieces.lengths(), [len(line) for line in lines]]))
        ends = np.cumsum(np.concatenate([np.zeros((2, 1), np.int64), *lengths], axis=1), axis=1)
        hashes, rows = hash_table(hashes_of([str(number) for number in range(n)]))
        segment = Segment(
            **{name: Ragged(arrays.get(name), drawn.offsets) for name in ("sentences", "scales", "shares")},
            probabilities=arrays.get("probabilities"),
            titles=np.zeros(n, np.uint16),
            tokens=Ragged(arrays.get("tokens"), ends[0]),
            pieces=Ragged(arrays.get("pieces"), ends[0]),
            provides=Ragged(pool.provides[drawn.values], drawn.offsets),
            postings=postings.merge(parts),
            records=Ragged(arrays.get("records"), ends[1]),
            columns=Columns(n, {}),
            id_hashes=hashes,
            id_rows=rows,
        )
        header = IndexConfig.of(passage_encoder, "cosine", "standard").header()
        index = PassageIndex(**header, segments=(segment,), deleted=(None,))
        index.save(folder)


def _line(number: int, passage: str) -> bytes:
    """A passage as an index keeps it."""
    return (json.dumps({"_id": str(number), "text": passage, "metadata": {}}, ensure_ascii=False) + "\n").encode()
