"""Heads of one class, yes or no: fitted to texts, and saved with their card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from command import seconds_so_far
from question_data import same_but_for_marks
from semclass.core.artifacts import HeadCard, save_head
from semclass.core.types import FloatArray
from semclass.train.fit import Choice, fit_head
from semclass.train.fitted import FittedHead, head_to_onnx


def fit_one_class(
    views: Mapping[str, FloatArray],
    truth: npt.NDArray[np.bool_],
    texts: Sequence[str],
    name: str,
    *,
    choices: Sequence[Choice],
    seed: int,
    folds: int = 5,
    sample_weight: npt.NDArray[Any] | None = None,
) -> FittedHead:
    """Fit a head to the views of n texts, of which `truth` tells the class; near-duplicates share a fold."""
    return fit_head(
        views,
        truth[:, None].astype(int),
        link="sigmoid",
        names=[name],
        choices=choices,
        groups=[same_but_for_marks(text) or text for text in texts],
        sample_weight=sample_weight,
        seed=seed,
        folds=folds,
        progress=lambda line: print(f"  {line}", flush=True),
    )


def save_one_class(
    out: Path,
    head: FittedHead,
    task: str,
    *,
    encoder: str,
    examples: int,
    seed: int,
    metrics: Mapping[str, Any],
    threshold: float,
    title: str,
    sections: Callable[[HeadCard], Sequence[tuple[str, str]]],
) -> None:
    """Write a head with its manifest and model card, whose sections are made from the manifest."""
    card = HeadCard(
        task=task,
        classes=head.classes,
        link="sigmoid",
        inputs=head.inputs,
        encoder=encoder,
        calibration={
            "method": "platt",
            "on": f"out-of-fold scores, {head.report['folds']} folds, of the training texts",
        },
        training={"examples": examples, "seed": seed, "chosen": head.report["chosen"], "seconds": seconds_so_far()},
        metrics=metrics,
        threshold=threshold,
    )
    save_head(out, head_to_onnx(head), card, title=title, sections=sections(card))
