"""What ranking reads of passages: made from their texts alone, before any question is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import artifacts
from semclass.branch import SENTENCE, Branch
from semclass.bulk import CHUNK, encode_quietly
from semclass.encoder import open_models
from semclass.passages import PassageClassifier
from semclass.quantise import Codebooks
from semclass.ranking import unit
from semclass.sentences import split_sentences
from semclass.types import Encoder, FloatArray, Passage, Ragged, ragged
from semclass.validation import check_text
from semclass.views import STATES


@dataclass(frozen=True)
class Evidence:
    """The evidence of n passages.

    Attributes
    ----------
    pooled
        Vectors of the whole passages, as the encoder gives them, float32 of shape (n, dim).
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    tokens
        Ragged unit token vectors, one for each of `terms`, made sentence by sentence; float32 of item shape (token_dim,).
    sentences
        Ragged unit vectors of each passage's sentences, float32 of item shape (dim,); at least one for each passage.
    terms
        Ragged word-piece ids of the whole passages.
    """

    pooled: FloatArray
    probabilities: FloatArray
    tokens: Ragged
    sentences: Ragged
    terms: Ragged


@dataclass(frozen=True)
class PassageReader:
    """The models that read passages; many threads may share one.

    Attributes
    ----------
    classifier
        The passage heads, with their encoder.
    branch
        Makes the token vectors; None: they are the encoder's view ``tokens``.
    codebooks
        Keep vectors in few bytes; None: an index keeps them in int8.
    """

    classifier: PassageClassifier
    branch: Branch | None
    codebooks: Codebooks | None

    @classmethod
    def load(
        cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1
    ) -> PassageReader:
        """Load the models.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None. One without ``passages`` has no classes,
            one without ``entailment`` no branch, one without ``codebooks`` no codebooks.
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of what is loaded here.

        Returns
        -------
        PassageReader
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        root, used = open_models(models, encoder, threads)
        folder, branch = root / "entailment", None
        if (folder / artifacts.MANIFEST).exists():
            branch = Branch.load(folder, encoder=used.fingerprint, threads=threads)
        there = (root / "passages").exists()
        classifier = PassageClassifier.load(root, encoder=used) if there else PassageClassifier(used, None)
        reader = cls(classifier, branch, None)
        folder = root / "codebooks"
        if not (folder / artifacts.MANIFEST).exists():
            return reader
        books = Codebooks.load(folder, encoder=used.fingerprint, interaction=reader.interaction)
        return replace(reader, codebooks=books)

    @property
    def encoder(self) -> Encoder:
        """The encoder that all models share."""
        return self.classifier.encoder

    @property
    def interaction(self) -> str:
        """What makes the token vectors: questions and passages must have it in common."""
        return "tokens" if self.branch is None else self.branch.fingerprint

    def read(self, texts: Sequence[str]) -> tuple[Evidence, tuple[int, ...]]:
        """Gather the evidence of passages.

        The pooled vector of a passage is a mean, in which the sentence that answers a question is diluted by its
        neighbours; therefore sentences are read again, each by itself.

        Parameters
        ----------
        texts
            n texts, see :func:`searchable`.

        Returns
        -------
        tuple
            The evidence, in the order of `texts`, and which of them are longer than the encoder reads.
        """
        items = list(texts)
        encoding, cut = encode_quietly(self.encoder, items, ("pooled", *self.classifier.encoder_views))
        tokens, sentences, _ = self.read_sentences(items)
        evidence = Evidence(
            pooled=encoding.rows("pooled"),
            probabilities=self.classifier.probabilities(items, encoding).astype(np.float32),
            tokens=_for_each_term(tokens, encoding.terms),
            sentences=sentences,
            terms=encoding.terms,
        )
        return evidence, cut

    def read_sentences(self, texts: Sequence[str]) -> tuple[Ragged, Ragged, Ragged]:
        """Read passages sentence by sentence, and nothing else of them.

        Parameters
        ----------
        texts
            n texts.

        Returns
        -------
        tuple of Ragged
            Unit token vectors and unit vectors of the sentences of each passage, float32, and its word-piece ids, as many
            as token vectors.
        """
        view = "tokens" if self.branch is None else STATES
        rows = [split_sentences(text) for text in texts]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
        items = [sentence for row in rows for sentence in row]
        pooled: list[FloatArray] = []
        tokens: list[FloatArray] = []
        terms: list[npt.NDArray[Any]] = []
        for start in range(0, len(items), CHUNK):
            encoding, _ = encode_quietly(self.encoder, items[start : start + CHUNK], ("pooled", view))
            found = encoding.pieces(view)
            vectors = found if self.branch is None else self.branch.read(found, SENTENCE).vectors
            pooled.append(unit(encoding.rows("pooled")))
            tokens += [vectors.row(row) for row in range(len(vectors))]
            terms += [encoding.terms.row(row) for row in range(len(vectors))]
        empty = np.zeros((0, self.encoder.views["tokens"] if self.branch is None else self.branch.dim), np.float32)
        by_sentence, words = ragged(tokens, empty), ragged(terms, np.zeros(0, np.int32))
        words = Ragged(words.values, words.offsets[ends])
        joined = _for_each_term(Ragged(by_sentence.values, by_sentence.offsets[ends]), words)
        return joined, Ragged(np.concatenate(pooled), ends), words


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
