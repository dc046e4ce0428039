"""Chooses from which ``answerable`` an index seems to answer, by questions whose first hit is known to be right or wrong.

Below the threshold the first hit is more often wrong than right. The threshold is that of a logistic curve with two
parameters, so that a few dozen judgements are enough. Precision and recall are cross-validated: the questions of a fold
are shown by the threshold of the other folds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from semclass.core.errors import InputError
from semclass.core.types import DoubleArray, Passage
from semclass.evaluation.question_headings import write_from_headings
from semclass.evaluation.weight_search import fold_of
from semclass.ranking.retriever import HybridRetriever

FOLDS = 10
"""Folds of the cross-validation, or as many as there are questions."""

FEW = 5
"""Least number of right, and of wrong, first hits from which a threshold is chosen."""

CHANCE = 0.05
"""Greatest probability, if right and wrong first hits did not differ, of values that are at least as well separated."""

_Z = 1.96
_LEAST = 1e-4

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Share:
    """A share of some questions, with its 95 % interval (Wilson 1927)."""

    value: float
    low: float
    high: float
    of: int


@dataclass(frozen=True)
class Calibration:
    """A threshold for ``answerable``, and how well it separates right from wrong first hits.

    Attributes
    ----------
    threshold
        Value from which hits are shown. None if right and wrong first hits are not separated.
    questions, right
        Number of questions whose first hit is known to be right or wrong, and of those where it is right.
    separation
        Share of pairs of a right and a wrong first hit in which the right one has the larger value. 0.5 is chance.
    precision, recall, withheld
        Cross-validated, with the threshold: share of the shown first hits that are right, of the right first hits that
        are shown, and of all that are not shown. Without a threshold, all are shown.
    """

    threshold: float | None
    questions: int
    right: int
    separation: float
    precision: Share
    recall: Share
    withheld: Share

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that an index stores; `found_on` says on which questions."""
        figures = asdict(self)
        date = datetime.now(timezone.utc).date().isoformat()
        return {"from": figures.pop("threshold"), **figures, "found_on": {**found_on, "date": date}}


def calibrate(values: Sequence[float], right: Sequence[bool]) -> Calibration:
    """Choose a threshold by the values of questions, and by whether their first hits are right.

    Raises
    ------
    InputError
        If there are no questions.
    """
    if not len(values):
        raise InputError(
            "there is no question whose first hit was judged; judge first hits, the right and the wrong ones"
        )
    odds, truth = _log_odds(np.asarray(values, np.float64)), np.asarray(right, bool)
    separation, chance = _separation(odds, truth)
    clean = min(truth.sum(), (~truth).sum()) >= FEW and chance < CHANCE
    threshold = _threshold(odds, truth) if clean else None
    shown = np.ones(len(truth), bool)
    if threshold is not None:
        fold = fold_of(len(truth), min(FOLDS, len(truth)), 0)
        for part in range(fold.max() + 1):
            inside = fold == part
            shown[inside] = odds[inside] >= _log_odds(_threshold(odds[~inside], truth[~inside]))
    return Calibration(
        None if threshold is None else round(threshold, 4),
        len(truth),
        int(truth.sum()),
        separation,
        share(int((shown & truth).sum()), int(shown.sum())),
        share(int((shown & truth).sum()), int(truth.sum())),
        share(int((~shown).sum()), len(shown)),
    )


def share(count: int, of: int) -> Share:
    """Return a share with its interval; of nothing, any share is possible."""
    if not of:
        return Share(1.0, 0.0, 1.0, 0)
    value, wide = count / of, _Z**2 / of
    middle, half = value + wide / 2, _Z * math.sqrt(value * (1 - value) / of + wide / (4 * of))
    return Share(value, max((middle - half) / (1 + wide), 0.0), min((middle + half) / (1 + wide), 1.0), of)


def _log_odds(values: Any) -> Any:
    given = np.clip(values, _LEAST, 1 - _LEAST)
    return np.log(given / (1 - given))


def _separation(odds: DoubleArray, truth: Flags) -> tuple[float, float]:
    """Share of pairs that are in order, and the probability of so large a share by chance (Mann and Whitney 1947)."""
    right, wrong = odds[truth], np.sort(odds[~truth])
    if not len(right) or not len(wrong):
        return 0.5, 1.0
    below, ties = np.searchsorted(wrong, right), np.searchsorted(wrong, right, side="right")
    pairs = len(right) * len(wrong)
    found = float((below + ties).sum() / 2 / pairs)
    spread = math.sqrt((len(right) + len(wrong) + 1) / (12 * pairs))
    return found, 0.5 * math.erfc((found - 0.5) / spread / math.sqrt(2))


def _threshold(odds: DoubleArray, truth: Flags) -> float:
    """Value at which a first hit is as often right as wrong; 0 where that does not grow with the value.

    The curve is fitted to the smoothed targets of Platt (1999), by Newton's method.
    """
    many, few = int(truth.sum()), int((~truth).sum())
    targets = np.where(truth, (many + 1) / (many + 2), 1 / (few + 2))
    inputs = np.column_stack([odds, np.ones(len(odds))])
    found = np.zeros(2)
    for _ in range(50):
        said = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        curvature = (inputs * (said * (1 - said))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, inputs.T @ (targets - said))
        found += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    slope, intercept = found.tolist()
    return 0.0 if slope <= 0 else float(1 / (1 + math.exp(min(max(intercept / slope, -30), 30))))


def judged_first_hits(
    retriever: HybridRetriever,
    judged: Mapping[str, Mapping[str, bool]],
    *,
    complete: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> Iterator[tuple[float, bool]]:
    """Search questions, and yield ``answerable`` and whether the first hit is right.

    Parameters
    ----------
    retriever
        The retriever. Its models need the head for ``answerable``.
    judged
        By question: whether passages are right, by their ids.
    complete
        Whether all other passages are wrong. Otherwise, questions whose first hit was not judged are left out.
    progress
        Function that is called with the number of questions done.
    """
    for question, passages in judged.items():
        result = retriever.search(question, 1)
        progress(1)
        first = result[0].id if result else None
        if result.answerable is None:
            raise InputError("these models have no head that tells whether an index answers; use the shipped models")
        if complete or first in passages:
            yield result.answerable, first is not None and passages.get(first, False)


def made_first_hits(
    retriever: HybridRetriever, passages: Sequence[Passage], *, progress: Callable[[int], object] = lambda _: None
) -> Iterator[tuple[float, bool]]:
    """As :func:`judged_first_hits`, of questions made of the headings of passages.

    For every second question its passage is left out of the search, so that nothing answers.
    """
    for number, draft in enumerate(write_from_headings(passages)):
        where = {"_id": {"$ne": draft.passage}} if number % 2 else None
        result = retriever.search(draft.text, 1, where=where)
        progress(1)
        if result and result.answerable is not None:
            yield result.answerable, result[0].id == draft.passage
