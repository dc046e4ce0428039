"""Token vectors for matching a question with a sentence: layers tuned for it go on from the encoder's states.

Each text is read alone, so that the vectors of sentences can be made and kept before any question is asked. The entailment
head and re-ranking both compare them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from semclass.core import artifacts
from semclass.core.onnx_sessions import open_session
from semclass.core.types import FloatArray, Ragged, offsets_of, padded
from semclass.encoders.batching import batches_by_length, steps
from semclass.encoders.onnx_encoder import STATES, check_encoder, scatter

BATCH = 32
"""Texts per run of the network."""

QUESTION, SENTENCE = 0, 1
"""Kinds of text that the network reads in different ways."""


@dataclass(frozen=True)
class BranchVectors:
    """What the network gives for n texts; special tokens are left out."""

    vectors: Ragged  # float32 of item shape (dim,), unit length: one for each word piece
    weights: Ragged  # float32: log of each piece's weight, up to a constant; for questions
    slots: FloatArray  # what the question asks for, float32 of shape (n, slot_dim); for questions


@dataclass(frozen=True)
class TokenEncoder:
    """The network; many threads may share one."""

    fingerprint: str  # SHA-256 of its file, cut to 12 digits
    session: onnxruntime.InferenceSession

    @classmethod
    def load(cls, folder: str | Path, *, encoder: str, threads: int = 1) -> TokenEncoder:
        """Load the network from the folder of the entailment model, for the encoder with this fingerprint."""
        return cls.of(artifacts.load(folder, "entailment"), encoder=encoder, threads=threads)

    @classmethod
    def of(cls, artifact: artifacts.Artifact, *, encoder: str, threads: int) -> TokenEncoder:
        """Open the network of a verified entailment model."""
        check_encoder(artifact.folder, str(artifact.field("encoder")), encoder, (STATES,))
        # it is written with fused operators already, and loads faster as it is
        session = open_session(artifact, "branch.onnx", threads, optimise=False)
        return cls(str(artifact.manifest["files"]["branch.onnx"]["sha256"])[:12], session)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return int(next(item.shape[-1] for item in self.session.get_outputs() if item.name == "vectors"))

    def read(self, states: Ragged, kind: int) -> BranchVectors:
        """The vectors of n texts by their ``states``; `kind` is :data:`QUESTION` or :data:`SENTENCE`."""
        lengths = states.lengths() - 2
        offsets = offsets_of(lengths)
        outputs = {item.name: item.shape[-1] for item in self.session.get_outputs()}
        vectors = Ragged(np.zeros((offsets[-1], outputs["vectors"]), np.float32), offsets)
        weights = Ragged(np.zeros(offsets[-1], np.float32), offsets)
        slots = np.zeros((len(states), outputs["slots"]), np.float32)
        for batch in steps(batches_by_length(lengths, BATCH)):
            found = self.session.run(
                ["vectors", "weights", "slots"],
                {"states": padded(states.take(batch)), "kind": np.array(kind, np.int64)},
            )
            scatter(vectors, batch, found[0][:, 1:])
            scatter(weights, batch, found[1][:, 1:])
            slots[batch] = found[2]
        return BranchVectors(vectors, weights, slots)
