"""What ranking reads of passages: made from their texts alone, before any question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_text
from semclass.core.types import Encoder, Encoding, FloatArray, IntArray, Passage, Ragged, chained
from semclass.encoders.batching import CHUNK
from semclass.encoders.onnx_encoder import STATES, open_models
from semclass.encoders.sentences import Sentences
from semclass.encoders.token_encoder import SENTENCE, TokenEncoder
from semclass.heads.passages import PassageClassifier
from semclass.scoring.quantisation import Codebooks


@dataclass(frozen=True)
class PassageFeatures:
    """The evidence of n passages; what was not asked for has empty rows."""

    sentences: Ragged  #: vectors of each passage's sentences, at least one, as the encoder gives them; float32 (dim,)
    words: Ragged  #: how many words each of them has without the title, float32
    probabilities: FloatArray  #: P(class | passage), (n, n_classes)
    tokens: Ragged  #: unit token vectors, one for each of `terms`; float32
    terms: Ragged  #: word-piece ids of title and text

    def take(self, rows: IntArray) -> PassageFeatures:
        """PassageFeatures of some passages, in the order asked for; a passage may come twice."""
        parts = {name: getattr(self, name).take(rows) for name in ("sentences", "words", "tokens", "terms")}
        return PassageFeatures(**parts, probabilities=self.probabilities[rows])


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

    def read(
        self, passages: Sequence[Passage], *, vectors: bool = True, tokens: bool = True, classes: bool = True
    ) -> tuple[PassageFeatures, tuple[int, ...]]:
        """PassageFeatures of n passages, and which of them have a sentence that is longer than the encoder reads.

        Each distinct sentence is read once, with its passage's title before it. `vectors` of sentences, vectors of `tokens`
        and probabilities of `classes` that are not asked for are not computed: their rows are empty.
        """
        items = Sentences.of([passage.text for passage in passages], [title_of(passage) for passage in passages])
        head = self.classifier.encoder_views if classes else ()
        views = [*(("pooled",) if vectors else ()), *head, *((self._view,) if tokens else ())]
        rows: dict[str, list[FloatArray]] = {name: [] for name in views if name != self._view}
        terms, found, cut = [], [], []
        for start in range(0, max(len(items.texts), 1), CHUNK):
            encoding = self.encoder.encode(items.texts[start : start + CHUNK], views=tuple(dict.fromkeys(views)))
            cut += [start + row for row in encoding.truncated]
            terms.append(encoding.terms)
            found += [self._tokens(encoding)] if tokens else []
            for name, parts in rows.items():
                parts.append(encoding.rows(name))
        read = {name: np.concatenate(parts) for name, parts in rows.items()}
        pieces, of_pieces = items.pieces(self.encoder, chained(terms), chained(found) if tokens else None)
        probabilities = np.zeros((len(items), 0))
        if classes:
            given: dict[str, Any] = {name: items.view(name, read[name]) for name in head}
            encoded = Encoding(pieces, **given)
            probabilities = self.classifier.probabilities([searchable(passage) for passage in passages], encoded)
        evidence = PassageFeatures(
            sentences=Ragged(read["pooled"][items.which], items.offsets) if vectors else no_rows(len(items)),
            words=Ragged(items.words, items.offsets),
            probabilities=probabilities.astype(np.float32),
            tokens=no_rows(len(items)) if of_pieces is None else of_pieces,
            terms=pieces,
        )
        return evidence, items.passages(cut)

    def _tokens(self, encoding: Encoding) -> Ragged:
        """Vectors of the word pieces of what was read."""
        found = encoding.pieces(self._view)
        return found if self.token_encoder is None else self.token_encoder.read(found, SENTENCE).vectors

    @property
    def _view(self) -> str:
        """What token vectors are made of."""
        return "tokens" if self.token_encoder is None else STATES


def no_rows(n: int) -> Ragged:
    """Vectors of n passages that nothing will look at: empty rows."""
    return Ragged(np.zeros((0, 0), np.float32), np.zeros(n + 1, np.int64))


def title_of(passage: Passage) -> str:
    """The title that is read before each sentence of a passage, as ``metadata`` has it; empty for none."""
    title = passage.metadata.get("title")
    return title if isinstance(title, str) and title.strip() else ""


def searchable(passage: Passage) -> str:
    """Title and text of a passage, as BEIR joins them; an InputError if there is neither."""
    title = title_of(passage)
    if title and isinstance(passage.text, str) and not passage.text.strip():
        return title
    text = check_text(passage.text, f"text of passage {passage.id!r}")
    return f"{title} {text}" if title else text
