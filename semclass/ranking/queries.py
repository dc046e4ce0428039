"""Encoding and classifying questions."""

from __future__ import annotations

import numpy as np

from semclass.core.errors import InputError
from semclass.core.types import Encoder, Encoding, FloatArray, Ragged
from semclass.encoders.batching import warn_truncated
from semclass.encoders.onnx_encoder import STATES
from semclass.encoders.token_encoder import QUESTION, TokenEncoder
from semclass.heads.asked import find_asked
from semclass.heads.questions import QuestionClassifier
from semclass.index.records import Query


def read_questions(
    encoder: Encoder,
    classifier: QuestionClassifier | None,
    token_encoder: TokenEncoder | None,
    texts: list[str],
    *,
    tokens: bool = True,
) -> list[Query]:
    """Encode and classify questions; of texts of several sentences what they ask, see :mod:`semclass.heads.asked`."""
    asked = find_asked(encoder, texts)
    read = [each.text for each in asked]
    wanted = (
        "pooled",
        *((_token_view(token_encoder),) if tokens else ()),
        *(() if classifier is None else classifier.encoder_views),
    )
    encoding = encoder.encode(read, views=tuple(dict.fromkeys(wanted)))
    warn_truncated(encoding.truncated, len(texts), encoding)
    pooled = encoding.rows("pooled")
    if not (finite := np.isfinite(pooled).all(axis=1)).all():
        text = read[int(finite.argmin())]
        raise InputError(
            f"the encoder gives a vector with NaN or infinity for {text!r}; use one whose numbers are finite"
        )
    classes = fine = np.zeros((len(texts), 0))
    if classifier is not None:
        fine = classifier.fine_probabilities([each.question for each in asked], read, encoding)
        classes = classifier.coarse(fine)
    vectors, weights = _token_vectors(encoding, token_encoder) if tokens else _no_tokens(len(texts))
    return [
        Query(
            text=text,
            pooled=pooled[row],
            probabilities=classes[row],
            fine=fine[row],
            tokens=vectors.row(row),
            weights=_softmax(weights.row(row)),
            terms=encoding.terms.row(row),
            asked=None if read[row] == text else read[row],
        )
        for row, text in enumerate(texts)
    ]


def _token_view(token_encoder: TokenEncoder | None) -> str:
    return "tokens" if token_encoder is None else STATES


def _token_vectors(encoding: Encoding, token_encoder: TokenEncoder | None) -> tuple[Ragged, Ragged]:
    """Token vectors of questions, and the logarithms of their weights."""
    pieces = encoding.pieces(_token_view(token_encoder))
    if token_encoder is None:
        return pieces, Ragged(np.zeros(len(pieces.values), np.float32), pieces.offsets)
    found = token_encoder.read(pieces, QUESTION)
    return found.vectors, found.weights


def _no_tokens(n: int) -> tuple[Ragged, Ragged]:
    offsets = np.zeros(n + 1, np.int64)
    return Ragged(np.zeros((0, 1), np.float32), offsets), Ragged(np.zeros(0, np.float32), offsets)


def _softmax(logs: FloatArray) -> FloatArray:
    shares = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(shares / shares.sum() if len(shares) else shares, np.float32)
