"""Heads of your own that :class:`semclass.TextClassifier` saved. They run without a training library."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from semclass.core.artifacts import default_models
from semclass.core.checks import check_probability, check_texts, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError
from semclass.core.types import ClassName, DoubleArray, Encoder, Encoding, Label
from semclass.encoders.batching import classify_in_chunks
from semclass.encoders.onnx_encoder import open_encoder
from semclass.heads.head import Head, decide, encoder_views, labelled, run_head

SHIPPED = ("in_scope",)  # heads that ship with semclass, by name


@dataclass(frozen=True)
class TextModel:
    """An encoder and a head trained on labels of your own. Threads may share one instance."""

    encoder: Encoder
    head: Head
    classes: tuple[ClassName, ...]  #: the labels of the training data, strings or integers, in column order
    multi_label: bool  #: whether a text may have several labels, or none
    label_thresholds: DoubleArray  #: probability from which a text gets each label, float64 of shape (n_classes,)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: Encoder | str | Path | None = None, threads: int = 1) -> TextModel:
        """Load a head that :meth:`semclass.TextClassifier.save` wrote.

        Raises an ArtifactError if the folder is damaged; an EncoderMismatchError if the head was trained with another
        encoder.

        Parameters
        ----------
        folder
            Folder of the head, or ``"in_scope"`` for a shipped head. It separates texts that documents can answer
            (questions, keywords, requests, claims) from chit-chat, commands, statements and fragments.
        encoder
            The encoder that the head was trained with: a loaded encoder, the folder of an exported encoder, the name of
            an installed package of models, such as ``"multilingual"``, or ``"hub:NAME"`` or ``"hub:FOLDER"`` for a
            sentence-transformers model. Defaults to the shipped encoder.
        threads
            Threads of an encoder that is loaded here.
        """
        place = _head_folder(folder)
        used = open_encoder(encoder, threads)
        head = Head.load(place, encoder=used.fingerprint)
        return cls(
            encoder=used,
            head=head,
            classes=tuple(head.artifact.manifest.get("labels", head.classes)),
            multi_label=head.artifact.field("link") == "sigmoid",
            label_thresholds=np.array(head.thresholds),
        )

    def classify(self, texts: Iterable[str], *, min_probability: float | None = None) -> list[Label]:
        """Classify texts.

        Raises an InputError or InputTypeError if a text is empty or not a string, or `min_probability` is not in [0,
        1].

        Parameters
        ----------
        texts
            Non-empty texts, also from a generator, but not a single string.
        min_probability
            Least probability of a label. Below it the model abstains. Defaults to the thresholds saved with the model.
        """
        return classify_all({"": self}, texts, min_probability=min_probability)[""]

    def predict(
        self, texts: Iterable[str], *, min_probability: float | None = None
    ) -> list[ClassName] | list[tuple[ClassName, ...]]:
        """Return the label of each text, or the tuple of its labels if texts may have several. See :meth:`classify`."""
        found = self.classify(texts, min_probability=min_probability)
        return [each.labels for each in found] if self.multi_label else [each.label for each in found]

    def predict_proba(self, texts: Iterable[str]) -> DoubleArray:
        """Return class probabilities, float64 of shape (n, n_classes). Rows sum to 1 if a text has one label."""
        return classify_in_chunks(
            self.encoder, check_texts(texts), encoder_views(self.head), partial(run_head, self.head)
        )

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the model. It is the same for the same network, encoder, labels and thresholds."""
        manifest = self.head.artifact.manifest
        network = manifest["files"]["model.onnx"]["sha256"]
        fields = [network, manifest.get("encoder"), self.classes, self.head.thresholds]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:16]

    def labels(self, texts: list[str], probabilities: DoubleArray, min_probability: float | None = None) -> list[Label]:
        """Return the labels of texts from their class probabilities. See :meth:`classify` for `min_probability`."""
        own = self.label_thresholds if self.multi_label or min_probability is None else 0.0
        chosen = decide(probabilities, np.maximum(own, min_probability or 0.0), multi_label=self.multi_label)
        return labelled(texts, self.classes, probabilities, chosen)


def classify_all(
    models: Mapping[str, TextModel], texts: Iterable[str], *, min_probability: float | None = None, quiet: bool = False
) -> dict[str, list[Label]]:
    """Classify texts by several models, given by name. Models with the same encoder share one encoding of the texts.

    Takes the same arguments and raises the same errors as :meth:`semclass.TextModel.classify`. If `quiet`, truncated texts
    cause no warning.
    """
    if min_probability is not None:
        check_probability(min_probability, "min_probability")
    checked = check_texts(texts)
    found: dict[str, list[Label]] = {}
    for fingerprint in dict.fromkeys(model.encoder.fingerprint for model in models.values()):
        some = {name: model for name, model in models.items() if model.encoder.fingerprint == fingerprint}
        views = tuple(dict.fromkeys(view for model in some.values() for view in encoder_views(model.head)))
        encoder = next(iter(some.values())).encoder

        def columns(
            chunk: list[str], encoding: Encoding, heads: Sequence[TextModel] = tuple(some.values())
        ) -> DoubleArray:
            return np.hstack([run_head(model.head, chunk, encoding) for model in heads])

        probabilities = classify_in_chunks(encoder, checked, views, columns, quiet=quiet)
        ends = np.cumsum([len(model.classes) for model in some.values()])[:-1]
        for (name, model), part in zip(some.items(), np.split(probabilities, ends, axis=1), strict=True):
            found[name] = model.labels(checked, part, min_probability)
    return {name: found[name] for name in models}


def open_heads(heads: Mapping[str, TextModel | str | Path] | None, encoder: Encoder) -> dict[str, TextModel]:
    """Load heads over an encoder, by the metadata field that each head fills. A loaded head is returned unchanged."""
    if heads is not None and not isinstance(heads, Mapping):
        raise InputTypeError(f'heads must be a mapping such as {{"topic": "my-head"}}, not {short(heads)}')
    found = {}
    for name, head in (heads or {}).items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
            raise InputError(
                f"{short(name)} is not a valid head name; use only letters, digits, _ and -. Reserved names: "
                f"{', '.join(_TAKEN)}"
            )
        found[name] = head if isinstance(head, TextModel) else TextModel.load(head, encoder=encoder)
    return found


def _head_folder(head: str | Path) -> Path:
    """Find a head by its folder or, if it ships with semclass, by its name."""
    folder = Path(head)
    if not folder.exists() and str(head) in SHIPPED:
        return default_models() / folder
    if not folder.exists():
        raise ArtifactError(
            f"there is no head {str(head)!r}. Shipped with semclass: {', '.join(SHIPPED)}. Train your own with "
            "`semclass train`"
        )
    return folder


_NAME = re.compile(r"(?!.*_probability$)[A-Za-z_][A-Za-z0-9_-]*")
"""Names of heads. A name with ``_probability`` behind it names a second field."""

_TAKEN = ("_id", "text", "title", "headings", "document")  # fields of passages that mean something already
