"""Re-ranking: from a question and its candidates to a new order, by each of the methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass import artifacts, bm25
from semclass.encoder import OnnxEncoder
from semclass.errors import ArtifactError, InputTypeError
from semclass.heads import Head
from semclass.index import searchable
from semclass.pairs import PAIR_FEATURES, pair_features
from semclass.passages import PassageClassifier
from semclass.questions import QuestionClassifier
from semclass.ranking import class_match, stable_partition
from semclass.types import DoubleArray, Encoder, FloatArray, Hit, IntArray, Passage, Ragged
from semclass.validation import check_choice, check_positive, check_text, check_unique, check_weight, short

RERANKERS = (None, "stable", "integrated", "learned")
SIGNALS = ("entailment", "class")
MATCHES = (None, "soft", "hard")

BM25_WEIGHT = 0.1
"""w of score = dense + w * BM25, as the reference system has it."""


@dataclass(frozen=True)
class Query:
    """A question, encoded once.

    Attributes
    ----------
    text
        The question.
    pooled
        Unit vector, float32 of shape (dim,).
    probabilities
        P(class | question), float64 of shape (n_classes,).
    tokens
        Unit token vectors, float32 of shape (q, token_dim).
    terms
        Word-piece ids, shape (m,), m >= q.
    """

    text: str
    pooled: FloatArray
    probabilities: DoubleArray
    tokens: FloatArray
    terms: npt.NDArray[Any]


@dataclass(frozen=True)
class Candidates:
    """Passages to re-rank, in the order before re-ranking.

    Attributes
    ----------
    rows
        Place of each in its index, or in the list that was handed in; int64 of shape (n,).
    dense, bm25
        Cosine and BM25 score, float64 of shape (n,).
    match
        Class match, float64 of shape (n,); None where it was not asked for.
    score
        What they are ordered by, float64 of shape (n,).
    probabilities
        P(class | passage), float32 of shape (n, n_classes).
    thresholds
        Probability from which a passage has a class, float64 of shape (n_classes,).
    tokens
        Ragged token vectors: float32 unit vectors, or int8 with components times 127.
    terms
        Ragged word-piece ids.
    idf
        Inverse document frequency of each word piece, float32 of shape (vocabulary,); 0 for pieces that are no terms.
    """

    rows: IntArray
    dense: DoubleArray
    bm25: DoubleArray
    match: DoubleArray | None
    score: DoubleArray
    probabilities: FloatArray
    thresholds: DoubleArray
    tokens: Ragged
    terms: Ragged
    idf: FloatArray

    def __len__(self) -> int:
        """Count them."""
        return len(self.rows)


@dataclass(frozen=True)
class Order:
    """A new order of candidates.

    Attributes
    ----------
    order
        Places in the old order, best first; int64 of shape (n,).
    score
        New score of each candidate, in the *old* order, float64 of shape (n,).
    components
        Parts that were computed, by name, each float64 of shape (n,), in the old order.
    """

    order: IntArray
    score: DoubleArray
    components: dict[str, DoubleArray]


@dataclass(frozen=True)
class PairModel:
    """The heads that judge a question and a passage together.

    Attributes
    ----------
    entailment
        P(passage answers question) from the two texts alone; comparable between questions.
    learned
        The same from all evidence, retrieval scores included.
    idf
        Inverse document frequency of word pieces in general text, float32 of shape (vocabulary,), for passages that come
        from no index.
    weights
        ``entailment`` and ``class``: the weights of the integrated methods; ``match_soft`` and ``match_hard``: of the class
        match in retrieval. All found on training questions.
    """

    entailment: Head
    learned: Head
    idf: FloatArray
    weights: dict[str, float]

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str) -> PairModel:
        """Load the heads from ``folder/entailment`` and ``folder/learned``.

        Raises
        ------
        ArtifactError
            If a folder is damaged, or a head was trained for another encoder.
        """
        folder = Path(folder)
        entailment = Head.load(folder / "entailment", encoder=encoder)
        learned = Head.load(folder / "learned", encoder=encoder)
        for head in (entailment, learned):
            if tuple(head.artifact.field("features")) != PAIR_FEATURES:
                raise ArtifactError(
                    f"the head in {head.artifact.folder} was trained on other pair features than this version of "
                    "semclass computes; install the version that trained it, or train it again"
                )
        idf = np.load(learned.artifact.path("idf.npy"), allow_pickle=False)
        weights = {str(name): float(value) for name, value in learned.artifact.field("weights").items()}
        return cls(entailment, learned, idf, weights)


@dataclass(frozen=True)
class Ranker:
    """Everything that turns questions and passages into rankings; many threads may share one.

    Attributes
    ----------
    questions, passages
        The classifiers; both hold the same encoder.
    pairs
        The pair heads.
    """

    questions: QuestionClassifier
    passages: PassageClassifier
    pairs: PairModel

    @classmethod
    def load(cls, models: str | Path | None = None, *, encoder: Encoder | None = None, threads: int = 1) -> Ranker:
        """Load all models.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None.
        encoder
            An encoder to share; loaded from `models` if None.
        threads
            Threads of the encoder that is loaded here.

        Returns
        -------
        Ranker
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        root = artifacts.default_models() if models is None else Path(models)
        used = OnnxEncoder.load(root / "encoder", threads=threads) if encoder is None else encoder
        return cls(
            QuestionClassifier.load(root, encoder=used),
            PassageClassifier.load(root, encoder=used),
            PairModel.load(root / "pairs", encoder=used.fingerprint),
        )

    @property
    def encoder(self) -> Encoder:
        """The encoder that all heads share."""
        return self.questions.encoder

    def encode(self, questions: Sequence[str]) -> list[Query]:
        """Encode and classify questions.

        Parameters
        ----------
        questions
            n non-empty texts.

        Returns
        -------
        list of Query
            In the same order.
        """
        texts = list(questions)
        encoding = self.encoder.encode(texts, views=("pooled", "tokens", *self.questions.encoder_views))
        pooled, tokens = encoding.rows("pooled"), encoding.pieces("tokens")
        probabilities = self.questions.probabilities(texts, encoding)
        return [
            Query(text, pooled[row], probabilities[row], tokens.row(row), encoding.terms.row(row))
            for row, text in enumerate(texts)
        ]

    def order(
        self,
        query: Query,
        candidates: Candidates,
        *,
        rerank: str | None,
        by: str = "entailment",
        weight: float | None = None,
    ) -> Order:
        """Order candidates by one of the methods.

        Parameters
        ----------
        query
            The question.
        candidates
            n passages, best first.
        rerank
            ``None``: as they are. ``"stable"``: those with a positive label first, else unchanged; the score stays what it
            was. ``"integrated"``: by score + weight * signal. ``"learned"``: by the learned head's probability that the
            passage answers the question.
        by
            Signal of ``"stable"`` and ``"integrated"``: ``"entailment"``, P(passage answers question) (its label: at least
            the head's threshold), or ``"class"``, the soft class match (its label: the hard class match).
        weight
            Weight of the signal in ``"integrated"``; found on training questions if None.

        Returns
        -------
        Order
            Ties keep the order before.
        """
        parts: dict[str, DoubleArray] = {}
        score = candidates.score
        if rerank is None:
            return Order(np.arange(len(candidates)), score, parts)
        if by == "class" and rerank != "learned":
            kind = "hard" if rerank == "stable" else "soft"
            signal = class_match(query.probabilities, candidates.probabilities, candidates.thresholds, kind)
            label = signal > 0
            parts["match"] = signal
        else:
            head = self.pairs.learned if rerank == "learned" else self.pairs.entailment
            features = pair_features(query, candidates)
            signal = head.probabilities({"pairs": features})[:, 0]
            label = signal >= head.threshold
            parts["answers"] = signal
        if rerank == "stable":
            return Order(stable_partition(label), score, parts)
        if rerank == "learned":
            return Order(np.argsort(-signal, kind="stable"), signal, parts)
        score = score + (self.pairs.weights[by] if weight is None else weight) * signal
        return Order(np.argsort(-score, kind="stable"), score, parts)


def make_hits(
    passages: Sequence[Passage], candidates: Candidates, found: Order, classes: Sequence[str], k: int
) -> list[Hit]:
    """Describe the first k of a ranking.

    Parameters
    ----------
    passages
        One for each of `candidates`, in the old order.
    candidates
        What was ranked.
    found
        How.
    classes
        Names of the passage classes.
    k
        How many.

    Returns
    -------
    list of Hit
        Best first.
    """
    columns: dict[str, list[float]] = {"dense": candidates.dense.tolist(), "bm25": candidates.bm25.tolist()}
    if candidates.match is not None:
        columns["match"] = candidates.match.tolist()
    columns |= {name: values.tolist() for name, values in found.components.items()}
    labelled = (candidates.probabilities >= candidates.thresholds).tolist()
    probabilities = candidates.probabilities.tolist()
    scores = found.score.tolist()
    hits = []
    for rank, place in enumerate(found.order[:k].tolist(), 1):
        passage = passages[place]
        hits.append(
            Hit(
                id=passage.id,
                text=passage.text,
                metadata=passage.metadata,
                score=scores[place],
                rank=rank,
                rank_before=place + 1,
                components={name: values[place] for name, values in columns.items()},
                labels=tuple(name for name, yes in zip(classes, labelled[place], strict=True) if yes),
                probabilities=dict(zip(classes, probabilities[place], strict=True)),
            )
        )
    return hits


@dataclass(frozen=True)
class Reranker:
    """Re-ranks passages that come from elsewhere: another search engine, a database, a web page.

    Attributes
    ----------
    ranker
        The models.
    """

    ranker: Ranker

    @classmethod
    def load(cls, models: str | Path | None = None, *, threads: int = 1) -> Reranker:
        """Load the models.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``; the shipped one if None.
        threads
            Threads of the encoder.

        Returns
        -------
        Reranker
            Ready to use.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        return cls(Ranker.load(models, threads=threads))

    def rerank(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        k: int | None = None,
        rerank: str = "learned",
        by: str = "entailment",
        bm25_weight: float = BM25_WEIGHT,
        rerank_weight: float | None = None,
    ) -> list[Hit]:
        """Re-rank passages for a question.

        Parameters
        ----------
        question
            A non-empty text.
        passages
            In the order that they came in; ids must be unique. Nothing of them is changed.
        k
            How many to give; all if None or larger than there are.
        rerank, by, rerank_weight
            Method, see :meth:`Ranker.order`. ``"stable"`` starts from the order that the passages came in,
            ``"integrated"`` from dense + w * BM25 among them.
        bm25_weight
            w.

        Returns
        -------
        list of Hit
            Best first; ``rank_before`` is the place in `passages`, from 1. Empty for no passages.

        Raises
        ------
        InputError, InputTypeError
            If the question or a passage is empty or of the wrong kind, an id comes twice, or an option is not allowed.
        """
        check_text(question, "question")
        check_choice(rerank, RERANKERS[1:], "rerank")
        check_choice(by, SIGNALS, "by")
        weight = None if rerank_weight is None else check_weight(rerank_weight, "rerank_weight")
        if isinstance(passages, (str, Passage)) or not all(isinstance(item, Passage) for item in passages):
            raise InputTypeError(f"passages must be a sequence of semclass.Passage, not {short(passages)}")
        items = list(passages)
        check_unique([item.id for item in items], "passage id")
        if not items:
            return []
        limit = len(items) if k is None else check_positive(k, "k")
        (query,) = self.ranker.encode([question])
        candidates = self._candidates(query, items, check_weight(bm25_weight, "bm25_weight"))
        found = self.ranker.order(query, candidates, rerank=rerank, by=by, weight=weight)
        return make_hits(items, candidates, found, self.ranker.passages.classes, limit)

    def _candidates(self, query: Query, passages: list[Passage], bm25_weight: float) -> Candidates:
        """Encode passages, and score them as an index would, with the word statistics of general text."""
        classifier = self.ranker.passages
        texts = [searchable(passage) for passage in passages]
        encoding = self.ranker.encoder.encode(texts, views=("pooled", "tokens", *classifier.encoder_views))
        dense = (encoding.rows("pooled") @ query.pooled).astype(np.float64)
        lexical = bm25.score_few(encoding.terms, query.terms, self.ranker.pairs.idf)
        return Candidates(
            rows=np.arange(len(passages)),
            dense=dense,
            bm25=lexical,
            match=None,
            score=dense + bm25_weight * lexical,
            probabilities=classifier.probabilities(texts, encoding).astype(np.float32),
            thresholds=classifier.thresholds,
            tokens=encoding.pieces("tokens"),
            terms=encoding.terms,
            idf=self.ranker.pairs.idf,
        )
