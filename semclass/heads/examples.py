"""Training examples that are saved with a head, to find those nearest to a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt

from semclass.core.artifacts import Artifact, parse_json
from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray
from semclass.scoring.topk import unit

VECTORS, TEXTS = "examples.npy", "examples.json"  # files of a head's folder

_REMEDY = "train the head again"

_BATCH = 256  # texts that are compared at a time


@dataclass(frozen=True)
class Example:
    """A training example."""

    text: str  #: the training text
    labels: tuple[str | int, ...]  #: its labels
    #: Cosine with your text, in the view that the head reads, after the mean of all examples is subtracted.
    similarity: float


@dataclass(frozen=True)
class Examples:
    """n training examples."""

    texts: Sequence[str]
    labels: Sequence[tuple[str | int, ...]]
    view: str  # of the encoder
    vectors: npt.NDArray[np.int8]  # (n, dim), each row as long as 8 bits allow

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[tuple[str | int, ...]], view: str, rows: FloatArray) -> Examples:
        """Keep the vectors (n, dim) in 8 bits a number."""
        largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-12)
        return cls(texts, labels, view, np.rint(rows / largest * 127).astype(np.int8))

    @classmethod
    def read(cls, artifact: Artifact) -> Examples | None:
        """Read the examples of a head's folder. Returns None if the folder has no examples."""
        if TEXTS not in artifact.manifest["files"]:
            return None
        held, vectors = parse_json(artifact.read(TEXTS), artifact.path(TEXTS), _REMEDY), artifact.array(VECTORS)
        view, texts, labels = held.get("view"), held.get("texts"), held.get("labels")
        if not (isinstance(texts, list) and isinstance(labels, list) and len(labels) == len(texts)):
            raise ArtifactError(f"{artifact.path(TEXTS)} must hold as many labels as texts; {_REMEDY}")
        if vectors.dtype != np.int8 or vectors.shape != (len(texts), artifact.field("inputs").get(view)):
            raise ArtifactError(f"{artifact.path(VECTORS)} must hold one vector per text; {_REMEDY}")
        return cls(texts, [tuple(row) for row in labels], str(view), vectors)

    def files(self) -> dict[str, bytes]:
        """Files for the folder of a head."""
        buffer = BytesIO()
        np.save(buffer, self.vectors, allow_pickle=False)
        held = {"view": self.view, "labels": self.labels, "texts": self.texts}
        return {VECTORS: buffer.getvalue(), TEXTS: json.dumps(held, ensure_ascii=False).encode()}

    def nearest(
        self, texts: Sequence[str], rows: FloatArray | DoubleArray, count: int, *, others: bool = False
    ) -> list[list[Example]]:
        """Return the `count` examples nearest to each text, by its vector of `rows` (n, dim).

        With `others`, an example is not its own neighbour.
        """
        found, kept, rows = [], unit(self.vectors.astype(np.float32)), np.asarray(rows, np.float32)
        mean = kept.mean(axis=0)  # what all have in common says nothing
        kept = unit(kept - mean)
        for start in range(0, len(texts), _BATCH):
            similarity = unit(unit(rows[start : start + _BATCH]) - mean) @ kept.T
            for text, line in zip(texts[start : start + _BATCH], similarity, strict=True):
                order = np.argsort(-line, kind="stable")[: count + 100].tolist()
                same = " ".join(text.lower().split())
                shown = [row for row in order if not (others and " ".join(self.texts[row].lower().split()) == same)]
                found.append([Example(self.texts[row], self.labels[row], float(line[row])) for row in shown[:count]])
        return found
