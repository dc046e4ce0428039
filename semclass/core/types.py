"""The records that functions of semclass exchange, and the interface of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError

FloatArray: TypeAlias = npt.NDArray[np.float32]
DoubleArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

ClassName: TypeAlias = str | int
"""A label of training data."""

COARSE: tuple[str, ...] = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
"""The coarse answer types of Li and Roth (2002), "Learning Question Classifiers", in the column order of every matrix."""

ABSTAIN = "ABSTAIN"
"""The label of a text whose best class is less probable than the requested minimum. No class has this name."""


def coarse_of(label: str) -> str:
    """Return the coarse class of a label: ``"NUM"`` for ``"NUM:date"`` and for ``"NUM"``."""
    return label.partition(":")[0]


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, concatenated: row i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: npt.NDArray[Any]  #: all rows one after another, shape (total, ...)
    offsets: IntArray  #: int64 of shape (n + 1,)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.offsets) - 1

    def row(self, index: int) -> npt.NDArray[Any]:
        """Return one row, shape (length, ...), as a view."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self) -> IntArray:
        """Count each row's items, int64 of shape (n,)."""
        return self.offsets[1:] - self.offsets[:-1]  # which is quicker than np.diff

    def take(self, rows: IntArray) -> Ragged:
        """Copy the given rows, int64 of shape (m,), in their order. A row may come twice."""
        return spans(self.values, self.offsets[rows], self.offsets[rows + 1])

    def places(self, rows: IntArray) -> IntArray:
        """Return the positions in `values` of the items of the given rows, row after row."""
        return places_within(self.offsets[rows], self.offsets[rows + 1])


def places_within(starts: IntArray, ends: IntArray) -> IntArray:
    """Return the positions from each start up to its end, end excluded, one row after another, int64."""
    lengths = ends - starts
    places: IntArray = np.arange(int(lengths.sum())) + np.repeat(ends - np.cumsum(lengths), lengths)
    return places


def spans(values: npt.NDArray[Any], starts: IntArray, ends: IntArray) -> Ragged:
    """Return rows of the values, from each start up to its end, end excluded."""
    return Ragged(values[places_within(starts, ends)], offsets_of(ends - starts))


def offsets_of(lengths: npt.NDArray[np.integer]) -> IntArray:
    """Return the starts of rows of the given lengths, and the end of the last row, as int64 of shape (n + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def ragged(rows: Sequence[npt.NDArray[Any]], empty: npt.NDArray[Any]) -> Ragged:
    """Concatenate rows. `empty` sets dtype and item shape if there are no rows."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    values = np.concatenate(rows) if rows else empty
    return Ragged(values, offsets_of(lengths))


def padded(
    rows: Ragged, *, fill: float = 0.0, shortest: int = 0, step: int = 1, dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """Pad ragged rows to one array (n, length, ...). The length is at least `shortest`, and a multiple of `step`."""
    lengths = rows.lengths()
    inside = np.arange(-(-lengths.max(initial=shortest) // step) * step) < lengths[:, None]
    matrix = np.full((*inside.shape, *rows.values.shape[1:]), fill, dtype)
    matrix[inside] = rows.values
    return matrix


def chained(parts: Sequence[Ragged]) -> Ragged:
    """Concatenate at least one ragged array. A single array is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths() for part in parts])
    return Ragged(np.concatenate([part.values for part in parts]), offsets_of(lengths))


@dataclass(frozen=True)
class Encoding:
    """The outputs of an encoder for n texts. A view that was not requested is None."""

    terms: Ragged  #: Ragged int32: the word-piece ids of each whole text, without special tokens
    #: float32 of shape (n, dim): the vectors that retrieval compares. Vectors of exported encoders have unit length.
    pooled: FloatArray | None = None
    #: float32 of shape (n, layers_dim): features from several layers, for classification.
    layers: FloatArray | None = None
    #: Ragged float32 of item shape (token_dim,): a vector of unit length for each word piece that the encoder read.
    tokens: Ragged | None = None
    #: float32 of shape (n, n_entity_types): the strongest evidence in the text for each type of named entity.
    entities: FloatArray | None = None
    #: Ragged float32 of item shape (hidden,): the states of a lower layer, with special tokens, for other networks.
    states: Ragged | None = None
    #: Ragged float32 of item shape (1,): the log weight of each word piece of a question, up to a constant.
    weights: Ragged | None = None
    #: float32 of shape (n, d): the answer that a question asks for. Its inner product with `provides` is large if a
    #: text gives this answer, and small if the text only resembles the question.
    asks: FloatArray | None = None
    provides: FloatArray | None = None  #: float32 of shape (n, d): the answer that a text provides
    #: float32 of shape (n, k * token_dim): k unit vectors near the token vectors of an answer.
    expects: FloatArray | None = None
    limit: int | None = None  #: number of word pieces of a text that the encoder reads; None if it reads all
    #: Ragged int32: ids of the word pieces whose vectors `tokens` holds. If None, these are the first ids of `terms`.
    kept: Ragged | None = None

    @property
    def truncated(self) -> list[int]:
        """Rows of texts that are longer than the encoder reads."""
        return [] if self.limit is None else np.flatnonzero(self.terms.lengths() > self.limit).tolist()

    def pieces_read(self) -> Ragged:
        """Return the ids of the word pieces whose vectors ``tokens`` holds, int32.

        Raises an InputError if the vectors were not encoded.
        """
        offsets = self.pieces("tokens").offsets
        if self.kept is not None or np.array_equal(offsets, self.terms.offsets):
            return self.terms if self.kept is None else self.kept
        return spans(self.terms.values, self.terms.offsets[:-1], self.terms.offsets[:-1] + np.diff(offsets))

    def rows(self, name: str) -> FloatArray:
        """Return a view with one row per text. Raises an InputError if the view was not encoded."""
        view: FloatArray = self._view(name)
        return view

    def pieces(self, name: str) -> Ragged:
        """Return a view with one row per word piece. Raises an InputError if the view was not encoded."""
        view: Ragged = self._view(name)
        return view

    def _view(self, name: str) -> Any:
        view = getattr(self, name, None)
        if view is None:
            raise InputError(f"the view {name!r} was not encoded; this encoder may not have it")
        return view


class Encoder(Protocol):
    """Turns texts into vectors. Any object with these five members can replace the shipped encoder."""

    @property
    def fingerprint(self) -> str:
        """Identity of the encoder. Heads and indices of another encoder are refused."""

    @property
    def views(self) -> Mapping[str, int]:
        """Name and dimension of each view. ``"pooled"`` is required, and an index also needs ``"tokens"``."""

    @property
    def is_term(self) -> npt.NDArray[np.bool_]:
        """Whether each word piece counts as a term, bool of shape (vocabulary,). Terms have a letter or a digit."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """Text of each word piece, by id."""

    def encode(self, texts: Sequence[str], *, views: Sequence[str] = ("pooled",)) -> Encoding:
        """Encode n non-empty texts. A text's row does not depend on the other texts.

        Parameters
        ----------
        texts
            The texts.
        views
            Views of the encoder to return besides ``terms``. If empty, texts are only split into word pieces.

        Returns
        -------
        Encoding
            The outputs, with rows in the order of `texts`.
        """


@dataclass(frozen=True)
class Passage:
    """A text that a search can find."""

    id: str  #: your name for the passage, unique in an index
    text: str  #: the text that is encoded and searched
    #: Any values that JSON can hold, such as document, page, position or title.
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QuestionLabel:
    """The answer type of one question."""

    text: str  #: the question
    label: str  #: the most probable coarse class, or ``semclass.ABSTAIN`` below the requested probability
    probability: float  #: calibrated probability of the most probable coarse class, in [0, 1]
    fine: str  #: the most probable fine class of that coarse class, or ``semclass.ABSTAIN``
    fine_probability: float  #: calibrated probability of `fine`, in [0, `probability`]
    probabilities: Mapping[str, float]  #: Probabilities of all coarse classes. They sum to 1.
    #: Probabilities of all fine classes. The fine classes of a coarse class sum to the probability of the coarse class.
    fine_probabilities: Mapping[str, float]
    #: The sentences of the text that ask, if only these sentences were classified. None if the whole text was
    #: classified.
    asked: str | None = None


@dataclass(frozen=True)
class Label:
    """The labels of one text."""

    text: str  #: the text
    #: The classes whose probability reaches their threshold: one or none, unless a text may have several.
    labels: tuple[ClassName, ...]
    #: Calibrated probability of each class, in [0, 1]. They sum to 1 unless a text may have several labels.
    probabilities: Mapping[ClassName, float]

    @property
    def label(self) -> ClassName:
        """The most probable of `labels`, or ``semclass.ABSTAIN`` if `labels` is empty."""
        return max(self.labels, key=self.probabilities.__getitem__) if self.labels else ABSTAIN

    @property
    def probability(self) -> float:
        """Probability of the most probable class, even if it is not among `labels`."""
        return max(self.probabilities.values())


@dataclass(frozen=True)
class WordMatch:
    """The match of a passage with one word of the question."""

    word: str  #: the word as written
    weight: float  #: share in the question's sum of inverse document frequencies, in [0, 1], over all occurrences
    match: str  #: the word of the passage with the nearest token vector; empty for a passage without token vectors
    cosine: float  #: cosine of the two words, in [-1, 1]: the smallest cosine among the word pieces
    exact: bool  #: whether all word pieces of the word are among the compared word pieces of the passage


@dataclass(frozen=True)
class ClassEvidence:
    """The probabilities P(class | question) and P(class | passage) of a class."""

    name: str  #: name of the class
    asked: float  #: P(class | question)
    provided: float  #: P(class | passage)


@dataclass(frozen=True)
class Explanation:
    """Explains the score of a hit."""

    parts: Mapping[str, float]  #: the summands of `total`: the weighted terms of the score
    #: Sum of `parts`, which is the score. The ``stable`` methods put passages with a label first, and leave the scores
    #: unchanged.
    total: float
    #: The words of the question with the largest weights, and their matches. The largest weight comes first, and each
    #: word comes once.
    words: tuple[WordMatch, ...]
    classes: tuple[ClassEvidence, ...]  #: the classes, most probable for the question first
    #: Position of the sentence nearest to the question in the passage's text: its first character, and the character
    #: after its last. None for a passage with only a title.
    sentence: tuple[int, int] | None
    reused: bool | None = None  #: whether a re-ranker had encoded the text for an earlier question; None for an index


@dataclass(frozen=True)
class Hit:
    """A passage in a ranking, with its score and the components of the score."""

    id: str  #: id of the passage
    text: str  #: text of the passage
    metadata: Mapping[str, Any]  #: metadata of the passage
    score: float  #: the number by which the ranking is sorted; its meaning depends on the method
    rank: int  #: place in the ranking, from 1
    rank_before: int  #: place before re-ranking, from 1
    #: The computed components: ``dense`` (cosine of the vectors), ``bm25`` (unbounded, >= 0), ``match`` (class match,
    #: in [0, 1]; in integrated re-ranking with a model of the class match, the log-odds of a match near the question's
    #: words), ``relevance`` (probability that the passage answers the question), ``entails`` (1 if `relevance` reaches
    #: the threshold of the head, else 0).
    components: Mapping[str, float]
    labels: tuple[str, ...]  #: the answer types that the passage provides
    probabilities: Mapping[str, float]  #: calibrated probability of each answer type
    explanation: Explanation | None = None  #: explanation of the score; None without ``explain=True``

    @property
    def index(self) -> int:
        """Place before re-ranking, from 0: after :class:`semclass.Reranker`, the place in your list of passages."""
        return self.rank_before - 1


@dataclass(frozen=True)
class SearchResult(Sequence[Hit]):
    """The hits of a search, best first, and statements about the whole ranking.

    It is a sequence of hits.

    Attributes
    ----------
    hits
        The hits, best first. The tuple may be empty.
    query_used
        The part of the question that the search read. If a question has several sentences, these are the sentences that
        ask and the sentences that belong to them. After rewriting, it holds the rewritten questions, one per line.
    certainty
        How certain ``default`` is of the first hit: ``"strong"``, ``"likely"`` or ``"weak"``, see
        ``semclass/ranking/methods.py``. None with other methods, and for fewer than two passages.
    answerable
        Probability that the passages answer the question at all. The entailment head estimates it from the first hit of
        ``default``. 0 if there is no passage. None with methods other than ``default``.
    language
        Language of the passages: ``"en"``, or ``"other"`` for a language that the models do not read. Passages in such
        a language are ranked by words, and less by vectors. None with methods other than ``default``, and
        with an encoder of your own.
    """

    hits: tuple[Hit, ...]
    query_used: str
    certainty: str | None = None
    answerable: float | None = None
    language: str | None = None

    def __len__(self) -> int:
        """Count the hits."""
        return len(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        """Return the hit at a place, from 0, or the hits of a slice."""
        return self.hits[place]
