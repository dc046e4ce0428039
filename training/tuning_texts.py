"""The texts that ``tune_encoder.py`` learns from: encoded by the lower part of the encoder, and which answer which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from answer_groups import Group
from bert_torch import EXTRA
from kept_pieces import kept_pieces
from semclass.core.errors import import_extra
from semclass.core.types import IntArray, Ragged, padded
from semclass.encoders.batching import batches_by_length
from semclass.encoders.onnx_encoder import PASSAGE, STATES, OnnxEncoder
from semclass.scoring.bm25 import statistics
from semclass.scoring.postings import count_terms

Array = npt.NDArray[Any]

PAIRED = ("squad", "wikiqa")  # domains of questions that the pair head learns from
LONGEST = 96  # word pieces of a text that are read: one in a hundred is longer, and takes the time of many
STRETCH = 50  # groups of a domain that follow one another
HELD_OUT = 10  # every tenth stretch is held out, from the first on


@dataclass(frozen=True)
class Texts:
    """Distinct texts as the lower part reads them."""

    states: Ragged  # float16, special tokens included
    ids: IntArray  # word-piece ids of all of them, special tokens included
    kept: npt.NDArray[np.bool_]  # which of these are read of a passage
    original: Array  # unit vectors of the original encoder, float32 (n, dim)
    layers: Array  # its means and first states of the layers above the lower part, float16 (n, layers * dim)
    deviation: Array  # standard deviation of each of these, float32 (layers * dim,)
    idf: Array  # of pieces over texts, 0 for what is no term, float32 (vocabulary,)

    @classmethod
    def read(cls, texts: Sequence[str], encoder: OnnxEncoder, original: onnxruntime.InferenceSession) -> Texts:
        """Encode texts; `original` is the encoder that they are to stay near."""
        first, last = encoder.special
        encoding = encoder.encode(texts, views=(STATES,))
        states = encoding.pieces(STATES)
        most = encoder.max_length - 2
        rows = [[first, *encoding.terms.row(row)[:most].tolist(), last] for row in range(len(texts))]
        ids = np.concatenate([np.array(row, np.int64) for row in rows])
        kept = kept_pieces(encoder.vocabulary)[ids]
        dim = encoder.views["pooled"]
        vectors = np.zeros((len(rows), dim), np.float32)
        layers = np.zeros((len(rows), encoder.views["layers"] - dim), np.float16)
        for batch in batches_by_length(states.lengths(), encoder.batch_size):
            some = Ragged(ids, states.offsets).take(batch)
            feeds = {
                "input_ids": padded(some, dtype=np.int64),
                "attention_mask": padded(some, dtype=np.int64).clip(0, 1),
            }
            vectors[batch], found = original.run(["pooled", "layers"], feeds)
            layers[batch] = found[:, dim:]  # the first is the mean of the lower part
        idf = statistics([count_terms(encoding.terms, encoder.is_term)]).idf.astype(np.float32)
        deviation = layers[:: max(1, len(rows) // 2000)].astype(np.float32).std(axis=0)
        deviation = np.maximum(deviation, np.median(deviation) / 10)  # some hardly differ between texts
        packed = Ragged(states.values.astype(np.float16), states.offsets)
        return cls(packed, ids, kept, vectors, layers, deviation, idf)

    def layers_of(self, rows: IntArray) -> Any:
        """The view ``layers`` of the original encoder, of some texts, as a tensor."""
        return import_extra("torch", EXTRA).from_numpy(self.layers[rows].astype(np.float32))

    def take(self, rows: IntArray, kind: int) -> tuple[Ragged, Ragged]:
        """States and ids of the pieces that are read of some texts."""
        states = self.states.take(rows)
        ids = Ragged(self.ids, self.states.offsets).take(rows).values
        offsets = states.offsets
        kept = np.arange(len(ids)) - np.repeat(offsets[:-1], states.lengths()) < LONGEST
        if kind == PASSAGE:
            kept &= Ragged(self.kept, self.states.offsets).take(rows).values
        offsets = np.concatenate([[0], np.cumsum(kept)])[offsets]
        return Ragged(states.values[kept], offsets), Ragged(ids[kept], offsets)


@dataclass(frozen=True)
class Rows:
    """A group by the rows of its texts."""

    domain: str
    question: int
    passages: tuple[tuple[int, ...], ...]
    answers: frozenset[int]


def rows_of(groups: Sequence[Group], further: Sequence[str]) -> tuple[list[str], list[Rows]]:
    """Distinct texts of groups and further ones, and the groups by their rows."""
    places: dict[str, int] = {}

    def at(text: str) -> int:
        return places.setdefault(text, len(places))

    found = [
        Rows(
            group.domain,
            at(group.question),
            tuple(tuple(map(at, passage)) for passage in group.passages),
            group.answers,
        )
        for group in groups
    ]
    for text in further:
        at(text)
    return list(places), found


def pairs_of(
    groups: Sequence[Rows], place: Mapping[int, int], unrelated: int, rng: np.random.Generator
) -> tuple[IntArray, Array]:
    """Pairs (n, 2) of a group's number and the place of a passage of one sentence, and which answer, bool (n,).

    So many passages of any other group are added to those of each.
    """
    found = [
        (number, place[passage[0]], at in group.answers)
        for number, group in enumerate(groups)
        if group.domain in PAIRED
        for at, passage in enumerate(group.passages)
        if len(passage) == 1
    ]
    others = list(place)
    for number in sorted({row[0] for row in found}):
        right = {row for at in groups[number].answers for row in groups[number].passages[at]}
        drawn = [others[at] for at in rng.integers(len(others), size=unrelated).tolist()]
        found += [(number, place[row], False) for row in drawn if row not in right]
    table = np.array(found, np.int64).reshape(-1, 3)
    return table[:, :2], table[:, 2] > 0


def held_out(groups: Sequence[Group]) -> Array:
    """Which groups are not learnt from: some stretches of each domain, bool (n,)."""
    seen: Counter[str] = Counter()
    found = []
    for group in groups:
        found.append(seen[group.domain] // STRETCH % HELD_OUT == 0)
        seen[group.domain] += 1
    return np.array(found)


def tables(groups: Sequence[Rows]) -> tuple[Array, Array, Array]:
    """Which passages are a question's own, answer it, and count as wrong; bool (questions, passages).

    A passage that also stands elsewhere as an answer of the question does not count as wrong there.
    """
    passages = [passage for group in groups for passage in group.passages]
    owner = np.repeat(np.arange(len(groups)), [len(group.passages) for group in groups])
    own = owner[None, :] == np.arange(len(groups))[:, None]
    answers = np.concatenate([[place in group.answers for place in range(len(group.passages))] for group in groups])
    right = own & answers[None, :]
    keys = {passage: number for number, passage in enumerate(dict.fromkeys(passages))}
    key = np.array([keys[passage] for passage in passages])
    wrong = np.stack([~np.isin(key, key[row]) for row in right])
    return own, right, wrong
