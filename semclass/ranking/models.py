"""Loads the models for ranking, which share one encoder, and tests the language of passages.

The test is naive Bayes. A table holds, for each word piece, how much more frequent it is in English than in other
languages. The shipped models read English. The test averages the table over the best candidates. Passages decide, because
a question may be too short, and because evidence finds the names in a foreign question better than fusion does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_weights
from semclass.core.errors import ArtifactError, InputError, warn
from semclass.core.types import Encoder, FloatArray, Ragged, ragged
from semclass.encoders.batching import warn_truncated
from semclass.heads.head import Head
from semclass.heads.passages import PassageClassifier
from semclass.heads.query_focus import LAST, PIECES, load_generic, query_focus
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass.index.candidates import Candidates, Query, no_rows
from semclass.index.passage_encoder import PassageEncoder, shipped_fingerprint
from semclass.ranking.features import PairModel
from semclass.scoring.fusion import ALPHA, ALPHA_OF_TWO, SPARSE_SHARE

Weights: TypeAlias = Mapping[str, float]

BM25_WEIGHT = 0.1  #: the weight w in score = dense + w * BM25, as in the reference system
CLASS_WEIGHT = 0.631  #: weight of the class match without a pair head, fitted to training questions
SHARES = ("alpha", "sparse", "coverage")  #: weights of fusion that are from 0 to 1
MAX_CHARACTERS = LAST  #: maximum characters that are read of a question; a longer sentence is not real text

FOLDER = "language"  #: folder of the table, and kind of its manifest
UNITS = 16  #: the table holds int8 numbers: logarithms in units of 1 / UNITS
ENGLISH, OTHER = "en", "other"
LANGUAGE_DEPTH = 10  #: number of candidates that the test reads
MIN_PIECES = 50  #: minimum number of word pieces for the test, because names outweigh other words in fewer

UNREAD = -4.0
"""Mean over a question up to which it is in another language, whatever its candidates. Most letters are then unknown."""

MIN_ENGLISH = -0.8
"""Mean from which candidates are English. Ten passages together have 0.4 or more in nine English sets, 0.0 in one set
of source code, and -0.7 if each passage has the foreign name of a hotel. They have -1.0 or less in 13 other languages,
see ``training/train_language.py``.
"""

TRAIN_CLASSES = (
    "train both for this encoder with `python training/train_questions.py --data DATA --encoder ENCODER --out "
    "MODELS/questions` and `python training/train_passages.py --data DATA --encoder ENCODER --out MODELS/passages`"
)


class LanguageWarning(UserWarning):
    """Passages are in a language that the models do not read."""


@dataclass(frozen=True)
class LanguageTest:
    """Distinguishes English from other languages by word pieces."""

    logs: FloatArray  # how much more frequent each word piece is in English, natural logarithms, (vocabulary,)

    @classmethod
    def load(cls, folder: Path, encoder: Encoder) -> LanguageTest:
        """Read the table of an encoder's word pieces."""
        artifact = artifacts.load_artifact(folder, FOLDER, encoder=encoder.fingerprint)
        return cls((artifact.array("pieces.npy", (len(encoder.is_term),)) / UNITS).astype(np.float32))

    def language(self, query: Query, candidates: Candidates) -> str:
        """Return the language of the first candidates, or of a question in unknown letters: `ENGLISH` or `OTHER`."""
        rows = candidates.evidence.pieces
        pieces = rows.values[: rows.offsets[min(LANGUAGE_DEPTH, len(candidates))]]
        tests = ((pieces, MIN_PIECES, MIN_ENGLISH), (query.terms, 1, UNREAD))
        foreign = (len(some) >= least and float(self.logs[some].mean()) < limit for some, least, limit in tests)
        return OTHER if any(foreign) else ENGLISH


def warn_of_language() -> None:
    """Warn that passages are in a language that the models do not read."""
    warn(
        LanguageWarning(
            "the passages seem not to be in English, the language of these models; they are ranked by the words that they "
            "share with the question, and less by their vectors"
        )
    )


@dataclass(frozen=True)
class Needs:
    """The parts of questions and passages that a ranking reads. They determine the heads that it needs."""

    vectors: bool = True  #: the vector of the question
    sparse: bool = False  #: learnt words, where the models have a head for them
    classes: bool = False  #: class probabilities of question and passages
    tokens: bool = False  #: token vectors, vectors of excerpts, and word pieces, which the pair head reads

    def encoded(self, explain: bool = False) -> dict[str, bool]:
        """Return the parts of questions and passages to encode. Explanations need all parts."""
        wanted = {name: getattr(self, name) for name in ("vectors", "tokens", "classes")}
        return {**{name: explain or value for name, value in wanted.items()}, "sparse": self.sparse}


@dataclass(frozen=True)
class Models:
    """All models that a search or a re-ranking needs. Threads may share one instance."""

    questions: QuestionClassifier  #: the encoder and the question heads; without them there are no passage heads
    passage_encoder: PassageEncoder  #: encodes passages with the same encoder, and labels them with the passage heads
    #: the pair head; None: a search finds passages, but does not re-rank them, and its default method is ``convex``
    pair_heads: PairModel | None
    generic: Head | None = None  #: detects questions without a topic, see :mod:`semclass.heads.query_focus`
    language: LanguageTest | None = None  #: tests for the language of the models; None for an encoder of many languages
    fusion: Mapping[str, float] = field(default_factory=dict)  #: weights in place of `BM25_WEIGHT` and ``ALPHA``

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        heads: Mapping[str, TextModel | str | Path] | None = None,
        threads: int = 1,
    ) -> Models:
        """Load all models of a folder that fit an encoder.

        Parameters
        ----------
        models
            Folder with the layout of the shipped ``models/``, or the name of an installed package of models, such as
            ``"multilingual"``. The folder holds ``questions`` and ``passages``, or neither; ``pairs`` and
            ``fusion`` are optional. If None, the shipped heads are used with the shipped encoder, and none with another.
        encoder
            A loaded encoder, or a name for :func:`semclass.encoders.onnx_encoder.open_encoder`. Defaults to the encoder in
            `models`.
        heads
            Heads of your own, by the metadata field that each head fills.
        threads
            Threads of an encoder that is loaded here.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        root = artifacts.models_folder(models)
        if models is not None and not root.is_dir():
            raise ArtifactError(f"{root} is not a folder; name a folder with the layout of models/")
        class_heads = [name for name in ("questions", "passages") if (root / name).exists()]
        if len(class_heads) == 1:
            raise ArtifactError(f"{root} holds only {class_heads[0]}/ of the two class heads; {TRAIN_CLASSES}")
        passage_encoder = PassageEncoder.load(models, encoder=encoder, heads=heads, threads=threads)
        used = passage_encoder.encoder
        if models is None and used.fingerprint != shipped_fingerprint():
            return cls(QuestionClassifier(used, None), passage_encoder, None)
        bare = passage_encoder.classifier.head is None
        questions = QuestionClassifier(used, None) if bare else QuestionClassifier.load(root, encoder=used)
        pairs, language = (path if (path := root / name).exists() else None for name in ("pairs", FOLDER))
        return cls(
            questions,
            passage_encoder,
            None if pairs is None else PairModel.load(pairs, encoder_fingerprint=used.fingerprint),
            load_generic(root, used.fingerprint),
            None if language is None else LanguageTest.load(language, used),
            _fusion_weights(root),
        )

    @property
    def encoder(self) -> Encoder:
        """The encoder that all heads share."""
        return self.questions.encoder

    @property
    def passages(self) -> PassageClassifier:
        """The passage heads."""
        return self.passage_encoder.classifier

    @property
    def heads(self) -> Mapping[str, TextModel]:
        """Heads of your own, by name."""
        return self.passage_encoder.heads

    @property
    def has_classes(self) -> bool:
        """Whether these models classify questions and passages."""
        return self.questions.head is not None and self.passages.head is not None

    @property
    def pairs(self) -> PairModel:
        """The pair head. Raises an InputError if the models have none."""
        if self.pair_heads is None:
            raise InputError(
                "these models have no pair head for this encoder, so they cannot re-rank or explain: search with "
                "method='convex' (--method convex), or train a pair head with `python training/train_pairs.py --data DATA "
                "--encoder ENCODER --out MODELS/pairs`, and name MODELS (--models)"
            )
        return self.pair_heads

    @property
    def weights(self) -> dict[str, float]:
        """Default weights by name: those of fusion, and those of re-ranking if the models have the heads for it."""
        classes = {"class": CLASS_WEIGHT} if self.has_classes else {}
        pairs = {} if self.pair_heads is None else self.pair_heads.weights
        learnt = self.passage_encoder.sparse is not None
        shares = {"alpha": ALPHA if learnt else ALPHA_OF_TWO, "sparse": SPARSE_SHARE if learnt else 0.0}
        return {"bm25": BM25_WEIGHT, **shares, **self.fusion, **classes, **pairs}

    def has(self, needs: Needs) -> bool:
        """Return whether the models have the heads that a ranking needs."""
        return self.has_classes >= needs.classes and (self.pair_heads is not None) >= needs.tokens

    def check(self, needs: Needs) -> None:
        """Raise an InputError if heads that a ranking needs are missing. The message explains how to train them."""
        if needs.classes and not self.has_classes:
            raise InputError(
                f"there are no class heads for this encoder, but this method needs two class heads; {TRAIN_CLASSES}"
            )
        if needs.tokens:
            self.pairs  # noqa: B018 - says what is missing

    def encode(
        self,
        questions: Sequence[str],
        *,
        vectors: bool = True,
        classes: bool = True,
        tokens: bool = True,
        sparse: bool = True,
    ) -> list[Query]:
        """Encode and classify questions. Raises an InputError if the encoder returns NaN or infinity.

        Without `classes`, encoding takes a quarter less time. Without `tokens` (token vectors) as well, it takes less than
        half the time. Without `vectors`, the encoder only serves to find the sentences that ask, and ranking can use only
        words.
        """
        if not vectors:
            none, focus = np.zeros(0, np.float32), query_focus(self.encoder, questions, self.generic)
            empty = none, np.zeros(0), none[:, None], none, np.zeros(0, np.int64), none, none[:, None]
            return [
                Query(text, *empty, part.text[:MAX_CHARACTERS]) for text, part in zip(questions, focus, strict=True)
            ]
        classifier = self.questions if classes else None
        queries = read_questions(self.encoder, classifier, list(questions), generic=self.generic, tokens=tokens)
        if sparse and self.passage_encoder.sparse is not None:
            learnt = self.passage_encoder.sparse.encode(
                ragged([query.terms for query in queries], np.zeros(0, np.int64))
            )
            queries = [replace(query, sparse=learnt.row(row)) for row, query in enumerate(queries)]
        return queries


def read_questions(
    encoder: Encoder,
    classifier: QuestionClassifier | None,
    texts: list[str],
    *,
    generic: Head | None = None,
    tokens: bool = True,
) -> list[Query]:
    """Encode and classify questions. Of long texts, only the sentences from :mod:`semclass.heads.query_focus` are read.

    At most `MAX_CHARACTERS` characters and `PIECES` word pieces are read, because all are compared with all candidates.
    """
    focus = query_focus(encoder, texts, generic)
    read = [part.text[:MAX_CHARACTERS] for part in focus]
    compared = [name for name in ("tokens", "weights", "asks", "expects") if tokens and name in encoder.views]
    heads = () if classifier is None else classifier.encoder_views
    encoding = encoder.encode(read, views=tuple(dict.fromkeys(["pooled", *compared, *heads])))
    cut = [row for row, part in enumerate(focus) if len(part.text) > MAX_CHARACTERS]
    warn_truncated(sorted({*encoding.truncated, *cut}), len(texts), encoding)
    pooled = encoding.rows("pooled")
    if not (finite := np.isfinite(pooled).all(axis=1)).all():
        text = read[int(finite.argmin())]
        raise InputError(f"the encoder returned NaN or infinity for {text!r}; use an encoder with finite vectors")
    classes = np.zeros((len(texts), 0))
    if classifier is not None:
        questions = [part.question[:MAX_CHARACTERS] for part in focus]
        classes = classifier.coarse(classifier.fine_probabilities(questions, read, encoding))
    nothing = no_rows(len(texts))
    vectors = encoding.pieces("tokens") if tokens else nothing
    logs = Ragged(np.zeros((len(vectors.values), 1), np.float32), vectors.offsets)
    if "weights" in compared:
        logs = encoding.pieces("weights")
    needs, expects = (encoding.rows(name) if name in compared else nothing.values for name in ("asks", "expects"))
    return [
        Query(
            text=text,
            pooled=pooled[row],
            probabilities=classes[row],
            tokens=vectors.row(row)[:PIECES],
            weights=_softmax(logs.row(row)[:PIECES, 0]) if tokens else np.zeros(0, np.float32),
            terms=encoding.terms.row(row)[:PIECES],
            need_vector=needs[row] if len(needs) else np.zeros(0, np.float32),
            expects=expects[row].reshape(-1, vectors.values.shape[1]) if len(expects) else vectors.values[:0],
            query_used=read[row],
        )
        for row, text in enumerate(texts)
    ]


def _softmax(logs: FloatArray) -> FloatArray:
    shares = np.exp(logs - logs.max(initial=-np.inf))
    return np.asarray(shares / shares.sum() if len(shares) else shares, np.float32)


def _fusion_weights(models: Path) -> dict[str, float]:
    """Read the weights of fusion that were chosen for an encoder, if there are any."""
    folder = models / "fusion"
    if not folder.exists():
        return {}
    artifact = artifacts.load_artifact(folder, "fusion")
    name, remedy = "weights.json", "restore the folder from its source"
    weights = artifacts.parse_json(artifact.read(name), artifact.path(name), remedy)
    return check_weights(weights, ("bm25", *SHARES), SHARES)
