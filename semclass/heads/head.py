"""Heads: small ONNX networks from views of a text to calibrated probabilities, and from these to labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from semclass.core import artifacts
from semclass.core.artifacts import STATES, open_session
from semclass.core.errors import ArtifactError, InputError
from semclass.core.types import ClassName, DoubleArray, Encoding, FloatArray, Label, padded
from semclass.encoders.batching import STEP, batches_by_length, steps
from semclass.heads.surface import surface_features

LINKS = ("softmax", "sigmoid")
SURFACE = "surface"  # view of surface_features
BATCH = 32  # texts per run of a head that reads word-piece states; those of like length together, as padding costs time


@dataclass(frozen=True)
class Head:
    """A trained head, ready to run. Threads may share one instance."""

    artifact: artifacts.Artifact  # the verified folder
    classes: tuple[str, ...]  # names of the output columns
    inputs: Mapping[str, int]  # dimension of each view that it reads
    thresholds: tuple[float, ...]  # probability from which a text has each class; 0 where the manifest names none
    session: onnxruntime.InferenceSession

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str | None, features: Sequence[str] | None = None) -> Head:
        """Load a head and check it. See :func:`semclass.core.artifacts.load_artifact` for the arguments and errors."""
        artifact = artifacts.load_artifact(folder, "head", encoder=encoder, features=features)
        # heads are a few kilobytes of matrix product: more threads would only cost hand-overs
        session = open_session(artifact, "model.onnx", threads=1)
        head = cls(
            artifact=artifact,
            classes=tuple(artifact.field("classes")),
            inputs={str(name): int(dim) for name, dim in artifact.field("inputs").items()},
            thresholds=_thresholds(artifact),
            session=session,
        )
        _audit(head, artifact)
        return head

    @cached_property
    def ranks(self) -> Mapping[str, int]:
        """Dimensions of each input: 2, or 3 for a view with a vector for each word piece."""
        return {item.name: len(item.shape) for item in self.session.get_inputs()}

    def probabilities(self, views: Mapping[str, FloatArray]) -> DoubleArray:
        """Return class probabilities, float64 (n, n_classes), from views (n, dim), or (n, length, dim) for word pieces."""
        feeds = {}
        for name, dim in self.inputs.items():
            view = views.get(name)
            if view is None or view.ndim != self.ranks[name] or view.shape[-1] != dim:
                given = "none" if view is None else str(view.shape)
                wanted = ", ".join(["n", *["length"] * (self.ranks[name] - 2), str(dim)])
                raise InputError(f"this head needs the view {name!r} of shape ({wanted}), not {given}")
            feeds[name] = view
        return np.asarray(self.session.run(["probabilities"], feeds)[0], np.float64)


def _thresholds(artifact: artifacts.Artifact) -> tuple[float, ...]:
    """One threshold per class, from a list or from one number for all."""
    classes, given = artifact.field("classes"), artifact.manifest.get("threshold")
    if not isinstance(given, list):
        return (0.0 if given is None else float(given),) * len(classes)
    if len(given) != len(classes):
        raise ArtifactError(f"{artifact.folder}: {len(given)} thresholds for {len(classes)} classes")
    return tuple(map(float, given))


def _audit(head: Head, artifact: artifacts.Artifact) -> None:
    """Compare the network with its manifest, and run it once: a damaged one must fail here, not in a service."""
    path = artifact.path("model.onnx")
    if artifact.field("link") not in LINKS:
        raise ArtifactError(f"{path}: link {artifact.field('link')!r} is not one of {LINKS}")
    found = {item.name: item.shape[-1] for item in head.session.get_inputs()}
    if found != dict(head.inputs):
        raise ArtifactError(f"{path} has inputs {found}, but its manifest says {dict(head.inputs)}")
    if [item.name for item in head.session.get_outputs()] != ["probabilities"]:
        raise ArtifactError(f"{path} must have the output probabilities alone")
    shapes = {name: (*[1] * (head.ranks[name] - 1), dim) for name, dim in head.inputs.items()}
    probe = head.probabilities({name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    if probe.shape != (1, len(head.classes)) or not np.isfinite(probe).all():
        raise ArtifactError(f"{path} must return finite numbers of shape (1, {len(head.classes)}), not {probe.shape}")


def softmax(scores: DoubleArray) -> DoubleArray:
    """Turn scores into probabilities; rows sum to 1."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def log_odds(probabilities: DoubleArray, least: float) -> DoubleArray:
    """Return the log-odds of probabilities, which are first clipped to [least, 1 - least]."""
    given = np.clip(probabilities, least, 1 - least)
    return np.asarray(np.log(given / (1 - given)))


# -- over encoded texts -------------------------------------------------------------------------------------------------


def encoder_views(head: Head | None) -> tuple[str, ...]:
    """Return the sorted names of the views that a head needs from the encoder."""
    return () if head is None else tuple(sorted({*head.inputs} - {SURFACE}))


def gather(head: Head, texts: list[str], encoding: Encoding) -> dict[str, FloatArray]:
    """Collect the inputs of a head."""
    views: dict[str, FloatArray] = {}
    for name in head.inputs:
        if name == SURFACE:
            views[name] = surface_features(texts)
        else:
            views[name] = padded(encoding.pieces(name), step=STEP) if name == STATES else encoding.rows(name)
    return views


def run_head(head: Head | None, texts: list[str], encoding: Encoding) -> DoubleArray:
    """Return class probabilities of encoded texts, float64 of shape (n, n_classes), without columns if there is no head."""
    if head is None or not texts:
        return np.zeros((len(texts), 0 if head is None else len(head.classes)))
    if STATES not in head.inputs or len(texts) <= BATCH:
        return head.probabilities(gather(head, texts, encoding))
    found = np.zeros((len(texts), len(head.classes)))
    for batch in steps(batches_by_length(encoding.pieces(STATES).lengths(), BATCH)):
        part = Encoding(terms=encoding.terms.take(batch), states=encoding.pieces(STATES).take(batch))
        found[batch] = head.probabilities(gather(head, [texts[row] for row in batch.tolist()], part))
    return found


def decide(probabilities: DoubleArray, thresholds: float | DoubleArray, *, multi_label: bool) -> npt.NDArray[np.bool_]:
    """Choose all classes that reach their threshold, or only the most probable of these, bool (n, n_classes)."""
    chosen: npt.NDArray[np.bool_] = probabilities >= thresholds
    if not multi_label:
        chosen &= np.arange(probabilities.shape[1]) == probabilities.argmax(axis=1)[:, None]
    return chosen


def labelled(
    texts: Sequence[str], classes: Sequence[ClassName], probabilities: DoubleArray, chosen: npt.NDArray[np.bool_]
) -> list[Label]:
    """Return the chosen classes and the probabilities of all classes of each text. Both arrays are (n, n_classes)."""
    return [
        Label(
            text,
            tuple(name for name, yes in zip(classes, flags, strict=True) if yes),
            dict(zip(classes, row, strict=True)),
        )
        for text, flags, row in zip(texts, chosen.tolist(), probabilities.tolist(), strict=True)
    ]
