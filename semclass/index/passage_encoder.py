"""What ranking reads of passages: made from their texts alone, before any question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_text
from semclass.core.types import Encoder, Encoding, FloatArray, IntArray, Passage, Ragged, chained
from semclass.documents.sentences import split_sentences
from semclass.encoders.batching import CHUNK
from semclass.encoders.onnx_encoder import STATES, open_models
from semclass.encoders.token_encoder import SENTENCE, TokenEncoder
from semclass.heads.passages import PassageClassifier
from semclass.scoring.quantisation import Codebooks
from semclass.scoring.topk import unit

_NOTHING = Ragged(np.zeros((0, 0), np.float32), np.zeros(1, np.int64))


@dataclass(frozen=True)
class PassageFeatures:
    """The evidence of n passages."""

    pooled: FloatArray  #: vectors of the whole passages, as the encoder gives them, (n, dim)
    probabilities: FloatArray  #: P(class | passage), (n, n_classes)
    tokens: Ragged  #: unit token vectors, one for each of `terms`, made sentence by sentence; float32
    sentences: Ragged  #: unit vectors of each passage's sentences, at least one, float32 of item shape (dim,)
    terms: Ragged  #: word-piece ids of the whole passages

    def take(self, rows: IntArray) -> PassageFeatures:
        """PassageFeatures of some passages, in the order asked for; a passage may come twice."""
        return PassageFeatures(
            pooled=self.pooled[rows],
            probabilities=self.probabilities[rows],
            tokens=self.tokens.take(rows),
            sentences=self.sentences.take(rows),
            terms=self.terms.take(rows),
        )


@dataclass(frozen=True)
class PassageEncoder:
    """What reads passages: the encoder with the passage heads; many threads may share one."""

    classifier: PassageClassifier  #: the passage heads, with their encoder
    token_encoder: TokenEncoder | None  #: makes the token vectors; None: they are the encoder's view ``tokens``
    codebooks: Codebooks | None  #: store vectors in few bytes; None: an index stores them in int8

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> PassageEncoder:
        """Load the models.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None. ``passages``, ``entailment`` and
            ``codebooks`` may be missing: then there are no classes, token vectors of the encoder's own, and no codes.
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of what is loaded here.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        root, used = open_models(models, encoder, threads)
        folder, token_encoder = root / "entailment", None
        if (folder / artifacts.MANIFEST).exists():
            token_encoder = TokenEncoder.load(folder, encoder=used.fingerprint, threads=threads)
        there = (root / "passages").exists()
        classifier = PassageClassifier.load(root, encoder=used) if there else PassageClassifier(used, None)
        passage_encoder = cls(classifier, token_encoder, None)
        folder = root / "codebooks"
        if not (folder / artifacts.MANIFEST).exists():
            return passage_encoder
        books = Codebooks.load(folder, encoder=used.fingerprint, interaction=passage_encoder.interaction)
        return replace(passage_encoder, codebooks=books)

    @property
    def encoder(self) -> Encoder:
        """The encoder that all models share."""
        return self.classifier.encoder

    @property
    def interaction(self) -> str:
        """What makes the token vectors: questions and passages must have it in common."""
        return "tokens" if self.token_encoder is None else self.token_encoder.fingerprint

    @property
    def token_dim(self) -> int:
        """Dimensions of token vectors."""
        return int(self.encoder.views["tokens"]) if self.token_encoder is None else self.token_encoder.dim

    def read(self, texts: Sequence[str], *, sentences: bool = True) -> tuple[PassageFeatures, tuple[int, ...]]:
        """PassageFeatures of n texts, see :func:`searchable`, and which of them are longer than the encoder reads.

        The pooled vector of a passage is a mean, in which the sentence that answers a question is diluted by its
        neighbours; therefore sentences are read again, each by itself. Without `sentences`, which take as long as all else,
        token and sentence vectors are empty.
        """
        items = list(texts)
        if not sentences:
            return self._read(items, None, at_once=False)
        rows = [split_sentences(text) for text in items]
        # a passage that is one sentence is read once, and not once as either
        one = np.array([row == [text] for row, text in zip(rows, items, strict=True)], np.bool_)
        if one.all() or not one.any():
            return self._read(items, rows, at_once=bool(one.all()))
        groups = [np.flatnonzero(one), np.flatnonzero(~one)]
        found = []
        for group, at_once in zip(groups, (True, False), strict=True):
            places = group.tolist()
            found.append(self._read([items[i] for i in places], [rows[i] for i in places], at_once=at_once))
        cut = sorted(int(group[row]) for group, (_, some) in zip(groups, found, strict=True) for row in some)
        return _joined([part for part, _ in found]).take(np.argsort(np.concatenate(groups))), tuple(cut)

    def _read(
        self, items: list[str], rows: Sequence[Sequence[str]] | None, *, at_once: bool
    ) -> tuple[PassageFeatures, tuple[int, ...]]:
        """Read passages that all are one sentence, or of which none is; without sentences if there are no `rows`."""
        views = ("pooled", *self.classifier.encoder_views, *((self._view,) if at_once else ()))
        encoding = self.encoder.encode(items, views=tuple(dict.fromkeys(views)))
        tokens = sentences = _NOTHING
        if at_once:
            tokens, sentences, _ = self._of_sentences(encoding)
        elif rows is not None:
            tokens, sentences, _ = self._read_sentences(rows)
        evidence = PassageFeatures(
            pooled=encoding.rows("pooled"),
            probabilities=self.classifier.probabilities(items, encoding).astype(np.float32),
            tokens=tokens if tokens is _NOTHING else _for_each_term(tokens, encoding.terms),
            sentences=sentences,
            terms=encoding.terms,
        )
        return evidence, tuple(encoding.truncated)

    def read_sentences(self, texts: Sequence[str]) -> tuple[Ragged, Ragged, Ragged]:
        """Unit token vectors, unit vectors of the sentences, and word-piece ids of passages, read by sentences."""
        return self._read_sentences([split_sentences(text) for text in texts])

    def _read_sentences(self, rows: Sequence[Sequence[str]]) -> tuple[Ragged, Ragged, Ragged]:
        """Read the sentences of passages, each one once however often it comes."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
        places: dict[str, int] = {}
        which = np.array([places.setdefault(sentence, len(places)) for row in rows for sentence in row], np.int64)
        items = list(places)
        parts = []
        for start in range(0, len(items), CHUNK):
            encoding = self.encoder.encode(items[start : start + CHUNK], views=("pooled", self._view))
            parts.append(self._of_sentences(encoding))
        tokens, sentences, terms = (chained(found) for found in zip(*parts, strict=True))
        if len(items) < len(which):
            tokens, sentences, terms = (found.take(which) for found in (tokens, sentences, terms))
        words = Ragged(terms.values, terms.offsets[ends])
        joined = _for_each_term(Ragged(tokens.values, tokens.offsets[ends]), words)
        return joined, Ragged(sentences.values, ends), words

    def _of_sentences(self, encoding: Encoding) -> tuple[Ragged, Ragged, Ragged]:
        """Token vectors of texts that are sentences, the vector of each as a row of one, and their terms."""
        found = encoding.pieces(self._view)
        vectors = found if self.token_encoder is None else self.token_encoder.read(found, SENTENCE).vectors
        pooled = unit(encoding.rows("pooled"))
        return vectors, Ragged(pooled, np.arange(len(pooled) + 1)), encoding.terms

    @property
    def _view(self) -> str:
        """What token vectors are made of."""
        return "tokens" if self.token_encoder is None else STATES


def _joined(parts: Sequence[PassageFeatures]) -> PassageFeatures:
    """PassageFeatures of several groups of passages, one group after another."""
    return PassageFeatures(
        pooled=np.concatenate([part.pooled for part in parts]),
        probabilities=np.concatenate([part.probabilities for part in parts]),
        tokens=chained([part.tokens for part in parts]),
        sentences=chained([part.sentences for part in parts]),
        terms=chained([part.terms for part in parts]),
    )


def _for_each_term(tokens: Ragged, terms: Ragged) -> Ragged:
    """Token vectors for all terms: pieces beyond what the encoder read of a sentence take the passage's last vector."""
    if np.array_equal(tokens.offsets, terms.offsets):
        return tokens
    within = np.arange(len(terms.values)) - np.repeat(terms.offsets[:-1], terms.lengths())
    last = np.repeat(np.maximum(tokens.lengths() - 1, 0), terms.lengths())
    return Ragged(
        tokens.values[np.repeat(tokens.offsets[:-1], terms.lengths()) + np.minimum(within, last)], terms.offsets
    )


def searchable(passage: Passage) -> str:
    """Text of a passage that is encoded: its title, if ``metadata`` has one, and its text, as BEIR does."""
    text = check_text(passage.text, f"text of passage {passage.id!r}")
    title = passage.metadata.get("title")
    return f"{title} {text}" if isinstance(title, str) and title.strip() else text
