"""The models that rank, together: from a question and its candidates to a new order, by each of the methods."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from semclass.core import artifacts
from semclass.core.cpu import available_threads
from semclass.core.errors import ArtifactError, InputError
from semclass.core.once import Once
from semclass.core.types import DoubleArray, Encoder, Explanation, Passage
from semclass.encoders.batching import is_watched
from semclass.encoders.onnx_encoder import fingerprint_of, open_models
from semclass.heads.asked import load_generic
from semclass.heads.head import Head
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel, open_encoder, open_heads
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.records import Candidates, Query, sum_of, summed
from semclass.ranking.answerable import answerable, answerable_features, load_answerable
from semclass.ranking.certainty import certainty
from semclass.ranking.deep import WEIGHT, DeepHead, gain_of
from semclass.ranking.explain import explain
from semclass.ranking.features import pair_features
from semclass.ranking.language import OTHER, WORDS, LanguageTest, load_language
from semclass.ranking.methods import Method, weight_of
from semclass.ranking.pair_model import PairModel, evidence_parts
from semclass.ranking.proximity import ProximityModel, placed_match
from semclass.ranking.queries import read_questions
from semclass.scoring.fusion import ALPHA
from semclass.scoring.topk import class_match, stable_partition

BM25_WEIGHT = 0.1
"""w of score = dense + w * BM25, as the reference system has it."""


_LENGTH_TOLERANCE = 1e-3
"""Difference from 1 up to which a vector counts as of length 1."""

_TRAIN_CLASSES = (
    "train both for this encoder with `python training/train_questions.py --data DATA/trec --encoder ENCODER --out "
    "MODELS/questions` and `python training/train_passages.py --data DATA --encoder ENCODER --out MODELS/passages`"
)

_TRAIN_DEEP = (
    "make one for this encoder with `python training/tune_deep.py` and `python training/export_deep.py`, and name MODELS "
    "(--models)"
)

_TRAIN_PAIRS = (
    "train them for this encoder with `python training/train_pairs.py --data DATA --encoder ENCODER --out MODELS/pairs`, "
    "and name MODELS (--models)"
)


@dataclass(frozen=True)
class Models:
    """Everything that turns questions and passages into rankings; many threads may share one.

    Attributes
    ----------
    questions
        The question heads, with the encoder; they and the passage heads are both there, or neither.
    passage_encoder
        What reads passages, with the same encoder and the passage heads.
    pair_heads
        The pair heads; None: passages are found, but not re-ranked.
    placed
        What the class match of the integrated method reads; None: it is the inner product, see
        :func:`semclass.scoring.topk.class_match`.
    deep_folder
        Folder of the head that reads question and passage together, which is opened on its first use; None: there is none.
    answerable
        The head that tells whether an index answers a question, see ``semclass/ranking/answerable.py``; None: none does.
    generic
        The head that tells questions which name nothing of their own, see :mod:`semclass.heads.asked`; None: none does.
    language
        What tells whether passages are in the language of the models, see ``semclass/ranking/language.py``; None: nothing
        does, as for an encoder of many languages.
    """

    questions: QuestionClassifier
    passage_encoder: PassageEncoder
    pair_heads: PairModel | None
    placed: ProximityModel | None = None
    deep_folder: Path | None = None
    answerable: Head | None = None
    generic: Head | None = None
    language: LanguageTest | None = None

    @classmethod
    def load(
        cls,
        models: str | Path | None = None,
        *,
        encoder: Encoder | str | Path | None = None,
        heads: Mapping[str, TextModel | str | Path] | None = None,
        threads: int = 1,
    ) -> Models:
        """Load all models that there are for an encoder.

        Parameters
        ----------
        models
            Folder laid out like the shipped ``models/``: with ``questions`` and ``passages`` or neither, with ``pairs``,
            ``match`` and ``deep`` or not. None: the shipped heads, if `encoder` is the shipped one, and no heads for any
            other.
        encoder
            An encoder to share, or what :func:`semclass.heads.texts.open_encoder` takes: the folder of an exported one,
            ``"hub:NAME"`` or ``"hub:FOLDER"``; loaded from `models` if None.
        heads
            Heads of your own, by the field of the metadata that each fills, see
            :meth:`semclass.index.passage_encoder.PassageEncoder.load`.
        threads
            Threads of the encoder that is loaded here.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        given = open_encoder(encoder, threads) if isinstance(encoder, (str, Path)) else encoder
        if models is None and given is not None and given.fingerprint != _shipped_fingerprint():
            bare = PassageEncoder(PassageClassifier(given, None), None, open_heads(heads, given))
            return cls(QuestionClassifier(given, None), bare, None)
        root, used = open_models(models, given, threads)
        check_class_heads(root)
        passage_encoder = PassageEncoder.load(root, encoder=used, heads=heads, threads=threads)
        questions = (
            QuestionClassifier(used, None)
            if passage_encoder.classifier.head is None
            else QuestionClassifier.load(root, encoder=used)
        )
        beside: dict[str, Any] = {
            "generic": load_generic(root, used.fingerprint),
            "language": load_language(root, used),
        }
        if not (root / "pairs").exists():
            return cls(questions, passage_encoder, None, **beside)
        pairs = PairModel.load(root / "pairs", encoder=used.fingerprint)
        beside["deep_folder"] = root / "deep" if (root / "deep").exists() else None
        beside["answerable"] = load_answerable(root, used.fingerprint)
        if questions.head is not None and (root / "match").exists():
            match = root / "match"
            beside["placed"] = ProximityModel.load(match, encoder=used.fingerprint, classes=questions.fine_classes)
        return cls(questions, passage_encoder, pairs, **beside)

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
        """Heads of one's own, by name."""
        return self.passage_encoder.heads

    @property
    def has_classes(self) -> bool:
        """Whether questions and passages are classified."""
        return self.questions.head is not None and self.passages.head is not None

    @property
    def pairs(self) -> PairModel:
        """The pair heads; an InputError if there are none."""
        if self.pair_heads is None:
            raise InputError(
                f"there are no pair heads for this encoder, so passages are found but not re-ranked: search with "
                f"method='convex' (--method convex), or {_TRAIN_PAIRS}"
            )
        return self.pair_heads

    @Once
    def deep(self) -> DeepHead:
        """The head that reads question and passage together; an InputError if there is none."""
        if self.deep_folder is None:
            raise InputError(f"there is no deep head for this encoder: search with method='default', or {_TRAIN_DEEP}")
        return DeepHead.load(self.deep_folder, self.encoder, threads=int(getattr(self.encoder, "threads", 1)))

    @property
    def weights(self) -> dict[str, float]:
        """Weights of fusion, and those of the pair heads where they are there, by name; see ``PairModel``.

        That of the class match goes with what it is read by.
        """
        pairs = {} if self.pair_heads is None else self.pair_heads.weights
        match = {} if self.placed is None else {"class": self.placed.weight}
        deep = {} if self.deep_folder is None else {"deep": WEIGHT}
        return {"bm25": BM25_WEIGHT, "alpha": ALPHA, **pairs, **match, **deep}

    def check_similarity(self, similarity: str) -> None:
        """Refuse an index whose similarity gives scores of another scale than the pair heads were trained on.

        For vectors of length 1 all similarities are the same.
        """
        if self.pair_heads is None or similarity == self.pair_heads.similarity:
            return
        length = float(np.linalg.norm(self.encoder.encode(["length"]).rows("pooled")))
        if abs(length - 1) > _LENGTH_TOLERANCE:
            raise InputError(
                f"the pair heads were trained with the similarity {self.pair_heads.similarity!r}, but vectors of this "
                f"encoder (of length {length:.2f}) would be compared by {similarity!r}: build the index with --similarity "
                f"{self.pair_heads.similarity}, or train pair heads with --similarity {similarity}"
            )

    def require(self, method: Method) -> None:
        """Refuse a method whose heads are not there, with how they are trained."""
        if method.uses_classes and not self.has_classes:
            raise InputError(f"there are no class heads for this encoder, so classes match nothing; {_TRAIN_CLASSES}")
        if method.uses_pairs:
            self.pairs  # noqa: B018 - says what is missing
        if method.together:
            self.deep  # noqa: B018 - likewise

    @property
    def turns(self) -> AbstractContextManager[object]:
        """To be held while a question is worked on: as many at a time as there are processors.

        More threads would wait for one another in the middle of their work: eight together did 1.2 times what one does on
        two processors, where two did 1.7 times. Who watches the work, see :func:`semclass.encoders.batching.watched`,
        counts for itself.
        """
        return nullcontext() if is_watched() else self._places

    @Once
    def _places(self) -> threading.Semaphore:
        return threading.Semaphore(available_threads())

    def encode(self, questions: Sequence[str], *, classes: bool = True, tokens: bool = True) -> list[Query]:
        """Encode and classify n questions.

        Without `classes`, it takes a quarter less time; with neither these nor `tokens` (token vectors), less than half of
        it. :meth:`needs` tells what a method reads.

        Raises
        ------
        InputError
            If the encoder gives numbers that are not finite.
        """
        classifier = self.questions if classes else None
        return read_questions(self.encoder, classifier, list(questions), generic=self.generic, tokens=tokens)

    def signals(self, query: Query, candidates: Candidates) -> dict[str, DoubleArray]:
        """Everything that any method reads of n candidates, each float64 of shape (n,).

        ``match_soft`` and ``match_hard``: the class matches of the integrated method, 0 without class heads.
        ``entailment``: P(passage answers question) from the two texts alone. ``entails``: whether it reaches the head's
        threshold, 0 or 1. ``evidence``: what the default method adds, of weight 1. ``learned``: the probability of the
        learned head.
        """
        query.check(classes=self.has_classes, tokens=True)
        features = {"pairs": pair_features(query, candidates, self.pairs.words)}
        entailment = self.pairs.entailment.probabilities(features)[:, 0]
        kinds = {
            f"match_{kind}": self._match(query, candidates, kind) if self.has_classes else np.zeros(len(candidates))
            for kind in ("soft", "hard")
        }
        return {
            **kinds,
            "entailment": entailment,
            "entails": (entailment >= self.pairs.entailment.thresholds[0]).astype(np.float64),
            "evidence": sum_of(evidence_parts(features["pairs"])),
            "learned": self.pairs.learned.probabilities(features)[:, 0],
        }

    def order(
        self,
        query: Query,
        candidates: Candidates,
        method: Method,
        *,
        weights: Mapping[str, float] | None = None,
        passages: Sequence[Passage] = (),
    ) -> Candidates:
        """Rank candidates by a method: the same with `order`, `score` and what it was made of.

        Parameters
        ----------
        query
            The question.
        candidates
            n passages, best first; ties keep their order.
        method
            How. The class match of ``"integrated"`` is read near the question's words, see
            ``semclass.ranking.proximity.placed_match``, where there is a model for that.
        weights
            Weights of signals by name; those of :attr:`weights` if None.
        passages
            Those of the candidates, n; only a method that reads them ``together`` with the question needs them.

        Raises
        ------
        InputError
            If the heads that the method needs are not there, or the question was encoded without what it needs.
        """
        if method.rerank is None:
            return candidates
        self.require(method)
        used = self.weights if weights is None else weights
        if method.rerank == "evidence":
            return self._by_evidence(query, candidates, method, used, passages)
        if method.uses_pairs:
            pairs = self.pairs
            head = pairs.learned if method.rerank == "learned" else pairs.entailment
            query.check(classes=self.has_classes and self._weighs_classes(method), tokens=True)
            features = pair_features(query, candidates, pairs.words)
            signal = head.probabilities({"pairs": features})[:, 0]
            components = {"answers": signal}
            if method.rerank == "learned":
                order = np.argsort(-signal, kind="stable")
                return replace(
                    candidates, order=order, score=signal, parts={}, components=components, features=features
                )
            label = signal >= head.thresholds[0]
        else:
            signal = self._match(query, candidates, "hard" if method.rerank == "stable" or method.hard else "soft")
            label, components = signal > 0, {"match": signal}
        if method.rerank == "stable":
            return replace(candidates, order=stable_partition(label), components=components)
        if method.hard and method.uses_pairs:
            signal = components["entails"] = label.astype(np.float64)
        return summed(candidates, {method.signal: weight_of(used, method.signal_weight) * signal}, components)

    def _by_evidence(
        self,
        query: Query,
        candidates: Candidates,
        method: Method,
        weights: Mapping[str, float],
        passages: Sequence[Passage],
    ) -> Candidates:
        """Rank by evidence; passages in a language that the models do not read by the words that they share."""
        pairs = self.pairs
        query.check(classes=self.has_classes and self._weighs_classes(method), tokens=True)
        features = pair_features(query, candidates, pairs.words)
        if candidates.language == OTHER:
            return summed(candidates, evidence_parts(features, shares=WORDS), {})
        components = {"answers": pairs.entailment.probabilities({"pairs": features})[:, 0]}
        ranked = summed(candidates, evidence_parts(features, weight_of(weights, "evidence")), components)
        if self.answerable is not None and len(ranked):
            learned = pairs.learned.probabilities({"pairs": features})[:, 0]
            inputs = answerable_features(query, ranked, features, learned)
            ranked = replace(ranked, answerable=answerable(self.answerable, inputs))
        if method.together:
            return self._together(query, ranked, method.together, weight_of(weights, "deep"), passages)
        measured = pairs.similarity == "cosine" and all(weights[n] == self.weights[n] for n in method.weights)
        return replace(ranked, certainty=certainty(ranked, features, method) if measured else None)

    def _together(
        self, query: Query, ranked: Candidates, count: int, weight: float, passages: Sequence[Passage]
    ) -> Candidates:
        """Rank the first few again, of which none falls behind the others, by what the deep head adds to their scores."""
        first = ranked.places[:count]
        odds = self.deep.log_odds(query, ranked.sentences.take(first), [passages[place] for place in first])
        added, answers = np.zeros(len(ranked)), ranked.components["answers"].copy()
        gain = gain_of(odds)
        added[first] = weight * (gain - gain.min(initial=np.inf))
        answers[first] = 1 / (1 + np.exp(-odds))
        return summed(ranked, {"deep": added}, {**ranked.components, "answers": answers})

    def _match(self, query: Query, candidates: Candidates, kind: str) -> DoubleArray:
        """Class match of a kind as re-ranking has it."""
        if kind == "soft" and self.placed is not None:
            query.check(classes=True, tokens=True)
            return placed_match(query, candidates, self.placed)
        query.check(classes=True)
        return class_match(query.probabilities, candidates.probabilities, candidates.thresholds, kind)

    def has_heads_for(self, method: Method) -> bool:
        """Whether the heads are there that a method and its weights come from."""
        if method.together and self.deep_folder is None:
            return False
        if method.rerank is None and method.match is None:
            return True
        return self.pair_heads is not None and (self.has_classes or not method.uses_classes)

    def needs(self, method: Method, *, explain: bool = False) -> dict[str, bool]:
        """What a method looks at of a question and of passages, as arguments for :meth:`encode`, and for ``read``.

        ``tokens`` also stands for what is asked, provided and expected. That of a
        :class:`semclass.index.passage_encoder.PassageEncoder` also takes ``vectors``: BM25 alone needs none.
        """
        near = method.rerank == "integrated" and not method.hard and self.placed is not None
        return {
            "classes": explain or method.uses_classes or self._weighs_classes(method),
            "tokens": explain or method.uses_pairs or near,
        }

    def _weighs_classes(self, method: Method) -> bool:
        """Whether the pair head of a method weighs the class match."""
        if not method.uses_pairs:
            return False
        terms = self.pairs.learned_terms if method.rerank == "learned" else self.pairs.entailment_terms
        return terms is None or terms.weighs("match")

    def explain(self, query: Query, found: Candidates, k: int, passages: Sequence[Passage]) -> list[Explanation]:
        """Explain the first k places of a ranking of some passages; see ``semclass.ranking.explain.explain``."""
        query.check(classes=self.has_classes, tokens=True)
        if found.features is not None:
            found = replace(found, parts=self.pairs.learned_terms.parts(found.features))
        return explain(query, found, k, passages, pieces=self.encoder.vocabulary, classes=self.passages.classes)


def check_class_heads(models: Path) -> None:
    """Refuse a models folder that is not there, or that holds one class head without the other."""
    if not models.is_dir():
        raise ArtifactError(f"{models} is no folder; name one laid out like the shipped models/")
    there = [name for name in ("questions", "passages") if (models / name).exists()]
    if len(there) == 1:
        raise ArtifactError(f"{models} holds {there[0]}/ alone, but classes match between two heads; {_TRAIN_CLASSES}")


def _shipped_fingerprint() -> str:
    """Fingerprint of the shipped encoder; empty if there is none. Its files are checked where they are read."""
    path = artifacts.default_models() / "encoder" / artifacts.MANIFEST
    return fingerprint_of(artifacts.read_json(path)["files"]) if path.is_file() else ""
