"""Loads the models that rank, all for the same encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semclass.core import artifacts
from semclass.core.errors import ArtifactError, InputError
from semclass.core.tools import Once
from semclass.core.types import Encoder
from semclass.encoders.onnx_encoder import fingerprint_of, open_models
from semclass.heads.asked import load_generic
from semclass.heads.head import Head
from semclass.heads.joint import JointHead
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel, open_encoder, open_heads
from semclass.index.passage_encoder import PassageEncoder
from semclass.index.records import Query
from semclass.ranking.answerable import load_answerable
from semclass.ranking.deep import WEIGHT
from semclass.ranking.language import LanguageTest, load_language
from semclass.ranking.options import check_weights
from semclass.ranking.pair_model import PairModel
from semclass.ranking.proximity import ProximityModel
from semclass.ranking.queries import read_questions
from semclass.scoring.fusion import ALPHA

BM25_WEIGHT = 0.1
"""The weight w in score = dense + w * BM25, as in the reference system."""

FUSION = "weights.json"
"""File of the folder ``fusion``."""

TRAIN_CLASSES = (
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
    """All models that a search or a re-ranking needs. Threads may share one instance.

    Attributes
    ----------
    questions
        The encoder and the question heads. Models have question heads and passage heads, or neither.
    passage_encoder
        Encodes passages with the same encoder, and labels them with the passage heads.
    pair_heads
        The pair heads. If None, a search finds passages, but does not re-rank them: its default method is ``convex``.
    proximity
        Model of the class match of the integrated method. If None, the class match is the inner product, see
        :func:`semclass.scoring.topk.class_match`.
    deep_folder
        Folder of the head that reads question and passage together, which is opened on first use. May be None.
    answerable
        Head that predicts whether an index answers a question, see ``semclass/ranking/answerable.py``. May be None.
    generic
        Head that detects questions that name no topic of their own, see :mod:`semclass.heads.asked`. May be None.
    language
        Tests whether passages are in the language of the models. None for an encoder of many languages.
    fusion
        Weights of fusion for this encoder, by name, in place of `BM25_WEIGHT` and ``ALPHA``.
    """

    questions: QuestionClassifier
    passage_encoder: PassageEncoder
    pair_heads: PairModel | None
    proximity: ProximityModel | None = None
    deep_folder: Path | None = None
    answerable: Head | None = None
    generic: Head | None = None
    language: LanguageTest | None = None
    fusion: Mapping[str, float] = field(default_factory=dict)

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
            ``"multilingual"``. The folder holds ``questions`` and ``passages``, or neither.
            ``pairs``, ``match``, ``deep`` and ``fusion`` are optional. If None, the shipped encoder gets the shipped heads,
            and any other `encoder` gets no heads.
        encoder
            A loaded encoder, the folder of an exported encoder, ``"hub:NAME"`` or ``"hub:FOLDER"``, see
            :func:`semclass.heads.texts.open_encoder`. Defaults to the encoder in `models`.
        heads
            Heads of your own, by the metadata field that each head fills. See
            :meth:`semclass.index.passage_encoder.PassageEncoder.load`.
        threads
            Threads of an encoder that is loaded here.

        Raises
        ------
        ArtifactError
            If a model folder is damaged, or a head was trained for another encoder.
        """
        given = open_encoder(encoder, threads) if isinstance(encoder, (str, Path)) else encoder
        if models is None and given is not None and given.fingerprint != _shipped_fingerprint():
            reader = PassageEncoder(PassageClassifier(given, None), None, open_heads(heads, given))
            return cls(QuestionClassifier(given, None), reader, None)
        root, used = open_models(models, given, threads)
        check_class_heads(root)
        passage_encoder = PassageEncoder.load(root, encoder=used, heads=heads, threads=threads)
        bare = passage_encoder.classifier.head is None
        questions = QuestionClassifier(used, None) if bare else QuestionClassifier.load(root, encoder=used)
        beside: dict[str, Any] = {
            "generic": load_generic(root, used.fingerprint),
            "language": load_language(root, used),
            "fusion": _fusion_weights(root),
        }
        if not (root / "pairs").exists():
            return cls(questions, passage_encoder, None, **beside)
        pairs = PairModel.load(root / "pairs", encoder_fingerprint=used.fingerprint)
        beside["deep_folder"] = root / "deep" if (root / "deep").exists() else None
        beside["answerable"] = load_answerable(root, used.fingerprint)
        if questions.head is not None and (root / "match").exists():
            match = root / "match"
            beside["proximity"] = ProximityModel.load(
                match, encoder_fingerprint=used.fingerprint, classes=questions.fine_classes
            )
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
        """Heads of your own, by name."""
        return self.passage_encoder.heads

    @property
    def has_classes(self) -> bool:
        """Whether these models classify questions and passages."""
        return self.questions.head is not None and self.passages.head is not None

    @property
    def pairs(self) -> PairModel:
        """The pair heads. Raises an InputError if the models have none."""
        if self.pair_heads is None:
            raise InputError(
                f"these models have no pair heads for this encoder, so they cannot re-rank: search with method='convex' "
                f"(--method convex), or {_TRAIN_PAIRS}"
            )
        return self.pair_heads

    @Once
    def deep(self) -> JointHead:
        """The head that reads question and passage together. Raises an InputError if the models have none."""
        if self.deep_folder is None:
            raise InputError(f"these models have no deep head for this encoder: use method='default', or {_TRAIN_DEEP}")
        return JointHead.load(self.deep_folder, self.encoder, threads=int(getattr(self.encoder, "threads", 1)))

    @property
    def answerable_from(self) -> float | None:
        """Least ``answerable`` from which an index seems to answer a question. None without a head for it."""
        return None if self.answerable is None else float(self.answerable.thresholds[0])

    @property
    def weights(self) -> dict[str, float]:
        """Default weights of fusion and, with pair heads, of re-ranking, by name. See ``PairModel``.

        The weight ``class`` comes from `proximity`, if the models have it.
        """
        pairs = {} if self.pair_heads is None else self.pair_heads.weights
        match = {} if self.proximity is None else {"class": self.proximity.weight}
        deep = {} if self.deep_folder is None else {"deep": WEIGHT}
        return {"bm25": BM25_WEIGHT, "alpha": ALPHA, **self.fusion, **pairs, **match, **deep}

    def encode(self, questions: Sequence[str], *, classes: bool = True, tokens: bool = True) -> list[Query]:
        """Encode and classify n questions.

        Without `classes`, encoding takes a quarter less time. Without both `classes` and `tokens` (token vectors), it
        takes less than half of the time. ``semclass.ranking.order.needs`` tells which of the two a method needs.

        Raises
        ------
        InputError
            If the encoder returns NaN or infinity.
        """
        classifier = self.questions if classes else None
        return read_questions(self.encoder, classifier, list(questions), generic=self.generic, tokens=tokens)


def _fusion_weights(models: Path) -> dict[str, float]:
    """Weights of fusion that were chosen for an encoder. Empty if there are none."""
    folder = models / "fusion"
    if not folder.exists():
        return {}
    artifact = artifacts.load_artifact(folder, "fusion")
    path = artifact.path(FUSION)
    return check_weights(artifacts.parse_json(artifact.read(FUSION), path, "restore the folder from its source"))


def check_class_heads(models: Path) -> None:
    """Refuse a models folder that does not exist, or that holds one class head without the other."""
    if not models.is_dir():
        raise ArtifactError(f"{models} is not a folder; name a folder with the layout of models/")
    there = [name for name in ("questions", "passages") if (models / name).exists()]
    if len(there) == 1:
        raise ArtifactError(f"{models} holds only {there[0]}/ of the two class heads; {TRAIN_CLASSES}")


def _shipped_fingerprint() -> str:
    """Fingerprint of the shipped encoder; empty if there is none. Its files are checked where they are read."""
    path = artifacts.default_models() / "encoder" / artifacts.MANIFEST
    return fingerprint_of(artifacts.read_json(path)["files"]) if path.is_file() else ""
