"""Compares a head with the teacher whose labels it learned from, on texts that a person checked."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.checks import counted
from semclass.core.errors import InputError, import_extra
from semclass.train.data import Targets
from semclass.train.estimators import TextClassifier
from semclass_llm.labelling.combine import Labels, combine

FOLDS = 5


def compare(
    taught: Mapping[str, Labels],
    checked: Mapping[str, Labels],
    *,
    multi_label: bool,
    encoder: Any = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure a head and its teacher on the checked texts.

    The checked texts are split into five parts. For each part, labels are combined and a head is trained without the
    labels of the person and of the teacher for this part. Then both label this part.

    Parameters
    ----------
    taught, checked
        Labels by text, of the teacher and of a person.
    multi_label
        Whether a text may have several labels, or none.
    encoder, seed
        See :class:`semclass.TextClassifier`.

    Returns
    -------
    dict
        The number of ``texts``, and the figures of ``teacher``, ``head`` and ``head_by_hand``, which learned from the
        checked labels alone. The figures are ``accuracy`` (of labels, if a text has several labels), and ``macro_f1``
        with ``f1`` by label. ``head_seconds_per_text`` is the time on this machine.

    Raises
    ------
    InputError
        If fewer than five texts are in both mappings, or the checked labels are too few for a head.
    """
    both = [text for text in checked if text in taught]
    if len(both) < FOLDS:
        raise InputError(
            f"{counted(len(both), 'checked text')} with a label of the language model; at least {FOLDS} are needed"
        )
    parts = np.random.default_rng(seed).permutation(len(both)) % FOLDS
    said: dict[str, dict[str, Labels]] = {"head": {}, "head_by_hand": {}}
    seconds = 0.0
    for part in range(FOLDS):
        out = {text for text, number in zip(both, parts, strict=True) if number == part}
        kept = [{text: row for text, row in source.items() if text not in out} for source in (taught, checked)]
        by_hand = head_of(kept[1], multi_label, encoder, seed)
        model = head_of(combine(kept[0], kept[1], by_hand), multi_label, encoder, seed)
        held = [text for text in both if text in out]
        for name, head in (("head_by_hand", by_hand), ("head", model)):
            started = time.perf_counter()
            said[name] |= dict(zip(held, labels_of(head.predict(held)), strict=True))
        seconds += time.perf_counter() - started
    truth = [checked[text] for text in both]
    rows = {name: [found[text] for text in both] for name, found in {"teacher": dict(taught), **said}.items()}
    return {
        "texts": len(both),
        **{name: figures(truth, row, multi_label) for name, row in rows.items()},
        "head_seconds_per_text": round(seconds / len(both), 6),
    }


def head_of(labels: Mapping[str, Labels], multi_label: bool, encoder: Any = None, seed: int = 0) -> TextClassifier:
    """Fit a head to labels by text, as `semclass train` does."""
    targets = [row if multi_label else row[0] for row in labels.values()]
    return TextClassifier(encoder, multi_label=multi_label, seed=seed).fit(list(labels), targets)


def labels_of(predicted: Any) -> list[Labels]:
    """Return the predictions of a classifier as a tuple for each text."""
    return [row if isinstance(row, tuple) else (str(row),) for row in predicted]


def figures(truth: list[Labels], said: list[Labels], multi_label: bool) -> dict[str, Any]:
    """Return the accuracy and the F1 of the labels that somebody gave."""
    metrics = import_extra("sklearn.metrics", "label")
    classes = sorted({name for row in truth for name in row})
    true, found = (_matrix(rows, classes) for rows in (truth, said))
    f1 = metrics.f1_score(true, found, average=None, zero_division=0).tolist()
    same = (true == found) if multi_label else (true & found).any(axis=1)
    return {
        "accuracy": round(float(same.mean()), 4),
        "macro_f1": round(float(np.mean(f1)), 4),
        "f1": {name: round(value, 4) for name, value in zip(classes, f1, strict=True)},
    }


def _matrix(rows: list[Labels], classes: list[str]) -> npt.NDArray[np.bool_]:
    return Targets(rows, tuple(classes), multi_label=True, indicator=False).matrix()
