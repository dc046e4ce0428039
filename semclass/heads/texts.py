"""Your own taxonomy at run time: a head that :class:`semclass.TextClassifier` saved, without any training library."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from semclass.core.checks import check_positive, check_probability, check_texts, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError
from semclass.core.taxonomy import ABSTAIN
from semclass.core.types import DoubleArray, Encoder, Encoding
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.encoders.sentence_transformers import SentenceTransformerEncoder
from semclass.heads.examples import Example, Examples
from semclass.heads.head import Head
from semclass.heads.inputs import encoder_views, gather, labelled, run_head

Label: TypeAlias = str | int

HUB = "hub:"
"""What the name of a sentence-transformers model begins with, where an encoder is named."""


@dataclass(frozen=True)
class TextLabels:
    """The classes of one text.

    Attributes
    ----------
    labels
        Its classes: one, or none where the model abstains or no class fits; several where a text may have several
        labels.
    probabilities
        All classes with their calibrated probabilities.
    """

    text: str
    labels: tuple[Label, ...]
    probabilities: Mapping[Label, float]

    @property
    def label(self) -> Label:
        """The most probable of `labels`; ``semclass.ABSTAIN`` where there is none."""
        return max(self.labels, key=self.probabilities.__getitem__) if self.labels else ABSTAIN

    @property
    def probability(self) -> float:
        """Calibrated probability of the most probable class, whether it is among `labels` or not."""
        return max(self.probabilities.values())


@dataclass(frozen=True)
class TextModel:
    """An encoder and a head that was trained on labels of one's own; many threads may share one.

    Attributes
    ----------
    classes
        The labels as they were trained on, strings or integers, in column order.
    multi_label
        Whether a text may have several labels, or none.
    label_thresholds
        Probability from which a text gets each label, float64 of shape (n_classes,).
    min_probability
        Below this probability the model abstains.
    ood_threshold
        Support below which a text is out of domain, and gets no label; None where every text is of some class.
    examples
        The texts that it was trained on, with their vectors, if they were saved, too.
    """

    encoder: Encoder
    head: Head
    classes: tuple[Label, ...]
    multi_label: bool
    label_thresholds: DoubleArray
    min_probability: float = 0.0
    ood_threshold: float | None = None
    examples: Examples | None = None

    @classmethod
    def load(cls, folder: str | Path, *, encoder: Encoder | str | Path | None = None, threads: int = 1) -> TextModel:
        """Load what :meth:`semclass.TextClassifier.save` wrote.

        Parameters
        ----------
        folder
            Its folder.
        encoder
            The encoder that it was trained with: one that is loaded already, the folder of an exported one,
            ``"hub:NAME"`` or ``"hub:FOLDER"`` for a sentence-transformers model; the shipped one if None.
        threads
            Threads of an encoder that is loaded here.

        Raises
        ------
        ArtifactError
            If the folder is damaged.
        EncoderMismatchError
            If it was trained with another encoder.
        """
        used = open_encoder(encoder, threads)
        head = Head.load(folder, encoder_fingerprint=used.fingerprint)
        manifest = head.artifact.manifest
        classes = tuple(manifest.get("labels", head.classes))
        multi_label = head.artifact.field("link") == "sigmoid"
        thresholds = np.array(head.thresholds) if multi_label else np.zeros(len(classes))
        least = np.array(manifest.get("min_probability", 0.0), np.float64)
        if least.shape not in ((), (len(classes),)):
            raise ArtifactError(
                f"{head.artifact.folder}: min_probability has {least.size} numbers for {len(classes)} classes"
            )
        if least.ndim:  # one for each label
            thresholds, least = np.maximum(thresholds, least), np.zeros(())
        return cls(
            encoder=used,
            head=head,
            classes=classes,
            multi_label=multi_label,
            label_thresholds=thresholds,
            min_probability=float(least),
            ood_threshold=manifest.get("least_support"),
            examples=Examples.read(head.artifact),
        )

    def classify(self, texts: Iterable[str], *, min_probability: float | None = None) -> list[TextLabels]:
        """Classify texts.

        Parameters
        ----------
        texts
            Non-empty texts; a generator is fine, one string is refused.
        min_probability
            Abstain below this probability; what the model was saved with if None.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the probability is not one.
        """
        return classify_all({"": self}, texts, min_probability=min_probability)[""]

    def predict(
        self, texts: Iterable[str], *, min_probability: float | None = None
    ) -> list[Label] | list[tuple[Label, ...]]:
        """Give the label of each text, or the tuple of its labels where a text may have several.

        Arguments and errors are those of :meth:`classify`.
        """
        found = self.classify(texts, min_probability=min_probability)
        return [each.labels for each in found] if self.multi_label else [each.label for each in found]

    def nearest(self, texts: Iterable[str], count: int = 3) -> list[list[Example]]:
        """Give the training examples that are nearest to each text, in what the head reads of them: why it decided so.

        Parameters
        ----------
        texts
            Non-empty texts.
        count
            How many for each, nearest first.

        Raises
        ------
        InputError, InputTypeError
            If a text is empty or not a string, or the model was saved without its examples.
        """
        checked, examples = check_texts(texts), self.examples
        if examples is None:
            raise InputError(
                f"the head in {self.head.artifact.folder} was saved without examples; train it with --keep-examples, or "
                "save it with examples=True"
            )

        def rows_of(chunk: list[str], encoding: Encoding) -> DoubleArray:
            return gather(self.head, chunk, encoding)[examples.view].astype(np.float64)

        rows = classify_in_chunks(self.encoder, checked, encoder_views(self.head), rows_of)
        return examples.nearest(checked, rows, check_positive(count, "count"))

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """Class probabilities, float64 of shape (n, n_classes); rows sum to 1 where a text has one class."""
        views, job = encoder_views(self.head), partial(run_head, self.head)
        return classify_in_chunks(self.encoder, check_texts(texts), views, job)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of what it says of texts: the same for the same network, labels and thresholds."""
        manifest = self.head.artifact.manifest
        fields = [
            manifest["files"]["model.onnx"]["sha256"],
            manifest.get("encoder"),
            self.classes,
            np.array(manifest.get("min_probability", 0.0), np.float64).tolist(),
            self.ood_threshold,
            self.head.thresholds if self.multi_label else None,
        ]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]

    def labels(self, texts: list[str], found: DoubleArray, min_probability: float | None = None) -> list[TextLabels]:
        """Give the classes of texts from what :meth:`outputs` gave for them."""
        probabilities = found[:, : len(self.classes)]
        least = self.min_probability if min_probability is None else min_probability
        own = self.label_thresholds if self.multi_label or min_probability is None else 0.0
        chosen = decide(probabilities, np.maximum(own, least), multi_label=self.multi_label)
        if self.ood_threshold is not None:
            chosen &= found[:, -1:] >= self.ood_threshold
        return [TextLabels(*row) for row in labelled(texts, self.classes, probabilities, chosen)]

    @property
    def columns(self) -> int:
        """How many columns :meth:`outputs` gives."""
        return len(self.classes) + (self.ood_threshold is not None)

    def outputs(self, texts: list[str], encoding: Encoding) -> DoubleArray:
        """Class probabilities, and the support in a last column where some texts are of no class."""
        if self.ood_threshold is None:
            return run_head(self.head, texts, encoding)
        if not texts:
            return np.zeros((0, self.columns))
        return np.column_stack(self.head.outputs(gather(self.head, texts, encoding), "probabilities", "support"))


def classify_all(
    models: Mapping[str, TextModel], texts: Iterable[str], *, min_probability: float | None = None
) -> dict[str, list[TextLabels]]:
    """Classify texts by several models, each by its name; an encoder that they share reads the texts once.

    Arguments and errors are those of :meth:`semclass.TextModel.classify`.
    """
    if min_probability is not None:
        check_probability(min_probability, "min_probability")
    checked = check_texts(texts)
    found: dict[str, list[TextLabels]] = {}
    for fingerprint in dict.fromkeys(model.encoder.fingerprint for model in models.values()):
        some = {name: model for name, model in models.items() if model.encoder.fingerprint == fingerprint}
        probabilities = classify_in_chunks(
            next(iter(some.values())).encoder, checked, _views(some.values()), partial(_columns, tuple(some.values()))
        )
        ends = np.cumsum([model.columns for model in some.values()])[:-1]
        for (name, model), part in zip(some.items(), np.split(probabilities, ends, axis=1), strict=True):
            found[name] = model.labels(checked, part, min_probability)
    return {name: found[name] for name in models}


def _views(models: Iterable[TextModel]) -> tuple[str, ...]:
    """Names of the views of the encoder that some models read, each once."""
    return tuple(dict.fromkeys(view for model in models for view in encoder_views(model.head)))


def _columns(models: tuple[TextModel, ...], texts: list[str], encoding: Encoding) -> DoubleArray:
    """What all models give, side by side."""
    return np.hstack([model.outputs(texts, encoding) for model in models])


def open_heads(heads: Mapping[str, TextModel | str | Path] | None, encoder: Encoder) -> dict[str, TextModel]:
    """Load heads, given by the names of the fields that they fill, over an encoder; one that is loaded stays as it is."""
    if heads is not None and not isinstance(heads, Mapping):
        raise InputTypeError(f'heads must be a mapping such as {{"topic": "my-head"}}, not {short(heads)}')
    found = {}
    for name, head in (heads or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
            raise InputError(
                f"{short(name)} is no valid head name; use letters, digits, _ and -, except {', '.join(_TAKEN)}"
            )
        found[name] = head if isinstance(head, TextModel) else TextModel.load(head, encoder=encoder)
    return found


_NAME = re.compile(r"(?!.*_probability$)[A-Za-z_][A-Za-z0-9_-]*")
"""Names of heads; with ``_probability`` behind it, each is the name of a second field."""

_TAKEN = ("_id", "text", "title", "headings", "document")
"""Fields of passages that mean something already."""


def open_encoder(encoder: Encoder | str | Path | None, threads: int = 1) -> Encoder:
    """Load an encoder by its name, as :meth:`semclass.TextModel.load` takes it; one that is loaded is given back."""
    if isinstance(encoder, str) and encoder.startswith(HUB):
        return SentenceTransformerEncoder.load(encoder.removeprefix(HUB))
    if encoder is None or isinstance(encoder, (str, Path)):
        return OnnxEncoder.load(encoder, threads=threads)
    return encoder


def decide(probabilities: DoubleArray, thresholds: float | DoubleArray, *, multi_label: bool) -> npt.NDArray[np.bool_]:
    """Choose classes, bool (n, n_classes): those that reach their threshold; of these the most probable, or all."""
    chosen: npt.NDArray[np.bool_] = probabilities >= thresholds
    if not multi_label:
        chosen &= np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None]
    return chosen
