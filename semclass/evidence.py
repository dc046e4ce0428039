"""What ranking reads of passages: made from their texts alone, before any question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semclass.passages import PassageClassifier
from semclass.sentences import sentence_vectors
from semclass.types import Encoding, FloatArray, Passage, Ragged
from semclass.validation import check_text


@dataclass(frozen=True)
class Evidence:
    """The evidence of n passages.

    Attributes
    ----------
    pooled
        float32 of shape (n, dim).
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    tokens
        Ragged unit token vectors, float32 of item shape (token_dim,).
    sentences
        Ragged vectors of each passage's sentences, float32 of item shape (dim,).
    terms
        Ragged word-piece ids of the whole passages.
    """

    pooled: FloatArray
    probabilities: FloatArray
    tokens: Ragged
    sentences: Ragged
    terms: Ragged


def evidence_views(classifier: PassageClassifier) -> tuple[str, ...]:
    """Views that :func:`evidence_of` needs of a classifier's encoder."""
    return ("pooled", "tokens", *classifier.encoder_views)


def evidence_of(classifier: PassageClassifier, texts: Sequence[str], encoding: Encoding) -> Evidence:
    """Gather the evidence of encoded passages; their sentences are encoded here.

    Parameters
    ----------
    classifier
        Passage heads with their encoder.
    texts
        n texts, see :func:`searchable`.
    encoding
        Of the texts, with :func:`evidence_views`.

    Returns
    -------
    Evidence
        In the order of `texts`.
    """
    pooled = encoding.rows("pooled")
    return Evidence(
        pooled=pooled,
        probabilities=classifier.probabilities(list(texts), encoding).astype(np.float32),
        tokens=encoding.pieces("tokens"),
        sentences=sentence_vectors(classifier.encoder, texts, pooled),
        terms=encoding.terms,
    )


def searchable(passage: Passage) -> str:
    """Text of a passage that is encoded: its title, if ``metadata`` has one, and its text, as BEIR does."""
    text = check_text(passage.text, f"text of passage {passage.id!r}")
    title = passage.metadata.get("title")
    return f"{title} {text}" if isinstance(title, str) and title.strip() else text
