"""Class match read at a place: whether a passage holds what a question asks for where it speaks of the same things.

A number, a name or a date is found in most passages, so that presence says little; what stands near the question's own
words says more. Notation in the formulas, for one passage:

* j runs over its word pieces; h_j is 1 if the question holds the piece, else 0, and w_j its inverse document frequency;
* z_tj in [0, 1] is the evidence that piece j belongs to what questions of type t ask for, read off its token vector by a
  linear probe, 1 / (1 + exp(-x_j a_t - b_t)); 0 where h_j = 1, as a question does not ask for what it holds;
* n_j = ``sum over i with |i - j| <= 32 of h_i w_i exp(-|i - j| / 8) + 1e-6`` is how near piece j is to the question's
  words, and r_j = (1 - h_j) n_j / max over i with h_i = 0 of n_i; the place p is the first piece with the largest n.

The evidence of type t is log(e + 0.03) for each of three readings e: the largest z_tj with ``|j - p| <= 16``, the mean
of z_tj weighted by r_j ** 4, and the largest z_tj r_j. It is the same however similar question and passage are as a
whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semclass.core import artifacts
from semclass.core.errors import ArtifactError
from semclass.core.types import DoubleArray, FloatArray
from semclass.index.records import Candidates, Query
from semclass.scoring.matmul import float_products

READINGS = 3
"""Numbers for each type of evidence."""

REACH, DECAY = 32, 8.0
"""Pieces over which nearness reaches, and over which it falls to 1 / e."""

WINDOW = 16
"""Pieces on each side of the place."""

SHARPNESS = 4
"""Power of the relative nearness in the weighted mean."""

FLOOR = 0.03
"""Added to evidence before its logarithm is taken."""

CLIP = 2.5
"""Standard deviations from the mean beyond which evidence counts no more."""

_NEARNESS = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / DECAY).astype(np.float32)


@dataclass(frozen=True)
class ProximityModel:
    """What :func:`placed_match` was fitted to.

    Attributes
    ----------
    probe
        Weights of the types of evidence, and their bias in the last row, float32 of shape (token_dim + 1, types).
    usual
        Mean of P(fine class | question) over training questions, float64 of shape (fine classes,).
    centre, scale
        Mean and standard deviation of the evidence, float64 of shape (READINGS * types,).
    table
        What evidence counts for a class, in log-odds, float64 of shape (fine classes, READINGS * types).
    weight
        Weight of the match in the integrated method, found on training questions.
    """

    probe: FloatArray
    usual: DoubleArray
    centre: DoubleArray
    scale: DoubleArray
    table: DoubleArray
    weight: float

    @classmethod
    def load(cls, folder: str | Path, *, encoder_fingerprint: str, classes: tuple[str, ...]) -> ProximityModel:
        """Load the model."""
        artifact = artifacts.load_artifact(folder, "match", encoder=encoder_fingerprint)
        if artifact.field("classes") != list(classes):
            raise ArtifactError(
                f"{artifact.folder} was made for other question classes than those of these models; make it again with "
                "training/train_match.py"
            )
        arrays = {name: artifact.array(f"{name}.npy") for name in ARRAYS}
        columns = READINGS * arrays["probe"].shape[-1]
        wanted = {"usual": (len(classes),), "centre": (columns,), "scale": (columns,), "table": (len(classes), columns)}
        for name, shape in wanted.items():
            if arrays[name].shape != shape:
                raise ArtifactError(f"{artifact.path(f'{name}.npy')} has shape {arrays[name].shape}, not {shape}")
        return cls(**arrays, weight=float(artifact.field("weight")))


ARRAYS = ("probe", "usual", "centre", "scale", "table")
"""Fields of :class:`ProximityModel` that are arrays, each a file of the folder."""


def placed_match(query: Query, candidates: Candidates, model: ProximityModel) -> DoubleArray:
    """How much the evidence at the place speaks for the class that the question asks for.

    (P(fine class | question) - usual) @ table @ clip((evidence - centre) / scale): a question of no class in particular
    has a match of 0 with everything, so that nothing enters which serves all questions alike.
    """
    evidence = evidence_at_place(query, candidates, model.probe)
    relative = np.clip((evidence - model.centre) / model.scale, -CLIP, CLIP)
    return np.asarray(relative @ ((query.fine - model.usual) @ model.table))


def evidence_at_place(query: Query, candidates: Candidates, probe: FloatArray) -> DoubleArray:
    """Read the evidence of each passage at its place; see the formulas above."""
    types, lengths = probe.shape[1], candidates.evidence.pieces.lengths()
    found = np.full((len(lengths), READINGS * types), np.log(FLOOR))
    there = np.flatnonzero(lengths)
    if not len(there):
        return found
    starts, pieces = candidates.evidence.pieces.offsets[there], candidates.evidence.pieces.values
    passage = np.repeat(np.arange(len(there)), lengths[there])
    asked = np.zeros(len(candidates.idf), np.bool_)
    asked[query.terms] = True
    held = asked[pieces]
    # passages lie apart by more than nearness reaches, so that one convolution serves all
    places = np.arange(len(pieces)) + (REACH + 1) * passage
    spread = np.zeros(len(pieces) + (REACH + 1) * len(there), np.float32)
    spread[places[held]] = candidates.idf[pieces[held]]
    near = np.convolve(spread, _NEARNESS)[places + REACH] + np.float32(1e-6)

    free = np.where(held, np.float32(0), near)
    relative = free / np.maximum(np.maximum.reduceat(free, starts), np.float32(1e-9))[passage]
    share = relative**SHARPNESS
    share /= np.maximum(np.add.reduceat(share, starts), np.float32(1e-9))[passage]
    # equal places may differ in their last digits, which depend on where in the array they stand
    peaks = np.flatnonzero(near >= (1 - 1e-5) * np.maximum.reduceat(near, starts)[passage])
    first = peaks[np.searchsorted(peaks, starts)]
    inside = np.abs(np.arange(len(pieces)) - first[passage]) <= WINDOW

    evidence = 1 / (1 + np.exp(-float_products(probe[:-1].T, candidates.evidence.tokens.values) - probe[-1][:, None]))
    evidence[:, held] = 0
    readings = (
        np.maximum.reduceat(evidence * inside, starts, axis=1),
        np.add.reduceat(evidence * share, starts, axis=1),
        np.maximum.reduceat(evidence * relative, starts, axis=1),
    )
    found[there] = np.log(np.concatenate(readings).T.astype(np.float64) + FLOOR)
    return found
