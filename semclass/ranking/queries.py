"""Encodes and classifies questions."""

from __future__ import annotations

import numpy as np

from semclass.core.errors import InputError
from semclass.core.types import Encoder, FloatArray, Ragged
from semclass.encoders.batching import warn_truncated
from semclass.encoders.bigrams import bigrams
from semclass.heads.asked import LAST, PIECES, Asked, find_asked
from semclass.heads.head import Head
from semclass.heads.questions import QuestionClassifier
from semclass.index.passage_encoder import no_rows
from semclass.index.records import Query

LONGEST = LAST
"""Most characters of a question that are read. A sentence with more characters is not real text."""


def read_questions(
    encoder: Encoder,
    classifier: QuestionClassifier | None,
    texts: list[str],
    *,
    generic: Head | None = None,
    tokens: bool = True,
) -> list[Query]:
    """Encode and classify questions.

    In a text of several sentences, only the sentences that ask and belong to the question count, see
    :mod:`semclass.heads.asked`.

    At most :data:`LONGEST` characters and :data:`semclass.heads.asked.PIECES` word pieces of a question are read,
    because each word piece is compared with the word pieces of all candidates.
    """
    found = find_asked(encoder, texts, generic)
    asked = [Asked(each.text[:LONGEST], each.question[:LONGEST], each.generic) for each in found]
    read = [each.text for each in asked]
    compared = [name for name in ("tokens", "weights", "asks", "expects") if tokens and name in encoder.views]
    heads = () if classifier is None else classifier.encoder_views
    encoding = encoder.encode(read, views=tuple(dict.fromkeys(["pooled", *compared, *heads])))
    cut = [row for row, (each, whole) in enumerate(zip(read, found, strict=True)) if len(each) < len(whole.text)]
    warn_truncated(sorted({*encoding.truncated, *cut}), len(texts), encoding)
    pooled = encoding.rows("pooled")
    if not (finite := np.isfinite(pooled).all(axis=1)).all():
        text = read[int(finite.argmin())]
        raise InputError(f"the encoder returned NaN or infinity for {text!r}; use an encoder with finite vectors")
    classes = fine = np.zeros((len(texts), 0))
    if classifier is not None:
        fine = classifier.fine_probabilities([each.question for each in asked], read, encoding)
        classes = classifier.coarse(fine)
    nothing = no_rows(len(texts))
    vectors = encoding.pieces("tokens") if tokens else nothing
    logs = Ragged(np.zeros((len(vectors.values), 1), np.float32), vectors.offsets)
    if "weights" in compared:
        logs = encoding.pieces("weights")
    asks_for, expects = (encoding.rows(name) if name in compared else nothing.values for name in ("asks", "expects"))
    pairs = bigrams(encoder, read)
    return [
        Query(
            text=text,
            pooled=pooled[row],
            probabilities=classes[row],
            fine=fine[row],
            tokens=vectors.row(row)[:PIECES],
            weights=_softmax(logs.row(row)[:PIECES, 0]) if tokens else np.zeros(0, np.float32),
            terms=encoding.terms.row(row)[:PIECES],
            need_vector=asks_for[row] if len(asks_for) else np.zeros(0, np.float32),
            expects=expects[row].reshape(-1, vectors.values.shape[1]) if len(expects) else vectors.values[:0],
            query_used=read[row],
            bigrams=pairs.row(row)[:PIECES],
        )
        for row, text in enumerate(texts)
    ]


def _softmax(logs: FloatArray) -> FloatArray:
    shares = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(shares / shares.sum() if len(shares) else shares, np.float32)
