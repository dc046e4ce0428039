"""Nearly the dense scores of all passages of a segment, from reduced vectors of their sentences.

Passages of equally many sentences are compared together: the first sentences of all of them, then the second ones, and so
on. The best of each passage and their mean are then taken of whole rows, while the products are still in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnxruntime

from semclass.core.types import FloatArray, IntArray
from semclass.scoring.dense import MEAN
from semclass.scoring.matmul import half_byte_product_with
from semclass.scoring.reduction import Reduced

WIDE = 65_536
"""Sentences of one product: of fewer, the calls take longer; the products of more do not stay in the cache."""


@dataclass(frozen=True)
class Block:
    """Passages whose sentences are compared in one product."""

    session: onnxruntime.InferenceSession
    shares: list[FloatArray]  # of passages of equally many sentences: weights in the score, (sentences, passages)


@dataclass(frozen=True)
class Approximation:
    """The passages of a segment, by their number of sentences. Threads may share one instance."""

    reduced: Reduced  # without clusters: a row of levels for each sentence, in their order
    rows: IntArray  # the passages in the order of their scores, (n,)
    blocks: list[Block]

    @classmethod
    def of(cls, reduced: Reduced, shares: FloatArray, offsets: IntArray) -> Approximation:
        """Lay out the sentences of passages, which have `shares` in their means: half a second for a million."""
        found, blocks = list(_blocks(np.diff(offsets))), []
        for groups in found:
            places = [offsets[rows] + np.arange(count)[:, None] for count, rows in groups]
            levels = reduced.levels[np.concatenate([each.ravel() for each in places])]
            blocks.append(Block(half_byte_product_with(levels), [MEAN * shares[each] for each in places]))
        return cls(reduced, np.concatenate([rows for groups in found for _, rows in groups]), blocks)

    def scores(self, question: FloatArray) -> FloatArray:
        """Nearly the scores of the passages in `rows` with a question's vector, float32 of shape (n,)."""
        query, common = self.reduced.projected(question)
        found, end = np.empty(len(self.rows), np.float32), 0
        for block in self.blocks:
            products = block.session.run(["c"], {"a": query[None]})[0][0]
            products += common
            first = 0
            for shares in block.shares:
                similar = products[first : first + shares.size].reshape(shares.shape)
                begin, end, first = end, end + shares.shape[1], first + shares.size
                best = similar.max(axis=0, out=found[begin:end])
                best *= 1 - MEAN
                similar *= shares
                best += similar.sum(axis=0)
        return found


def _blocks(counts: IntArray) -> Iterator[list[tuple[int, IntArray]]]:
    """Passages by their number of sentences, as many in a block as fit in one product, but at least one."""
    order = np.argsort(counts, kind="stable")
    block: list[tuple[int, IntArray]] = []
    room = WIDE
    for rows in np.split(order, np.flatnonzero(np.diff(counts[order])) + 1):
        count = int(counts[rows[0]])
        while len(rows):
            if block and room < count:
                yield block
                block, room = [], WIDE
            fit = max(room // count, 1)
            block.append((count, rows[:fit]))
            rows, room = rows[fit:], room - count * min(fit, len(rows))
    yield block
