"""Chooses a threshold of ``answerable``, from which an index seems to answer a question, by judged hits.

Below this threshold, a question is more often unanswered than answered. The log-odds of the head are shifted to fit the
judgements. With many judgements, they are also scaled. Precision and recall follow from the fitted probabilities. On 40
judgements, this is more accurate than counting right hits among the few questions above the threshold.
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
from semclass.core.types import DoubleArray
from semclass.heads.head import log_odds
from semclass.ranking.methods import DEFAULT, METHODS, ByEvidence
from semclass.ranking.retriever import HybridRetriever

MIN_QUESTIONS = 5
"""Minimum number of answered questions, and of unanswered questions, for choosing a threshold."""

HITS = 10
"""Number of first hits. A question is answered if one of them is right."""

MAX_P_VALUE = 0.05
"""Maximum p-value of the separation of answered from unanswered questions, for choosing a threshold."""

PRIOR_DEVIATIONS = (0.5, 2.0)
"""Prior standard deviations of the slope around 1 and of the shift around 0."""

Z_95, EPSILON = 1.96, 1e-4  # EPSILON keeps probabilities from 0 and 1

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Share:
    """A share of some questions, with its 95 % interval (Wilson 1927)."""

    value: float
    low: float
    high: float
    of: int  #: number of questions


@dataclass(frozen=True)
class Calibration:
    """A threshold for ``answerable``, and how well it separates answered from unanswered questions.

    The answers to a question are shown if its value reaches the threshold. Without a threshold, all answers are shown.
    """

    threshold: float | None  #: None if answered and unanswered questions are not clearly separated
    questions: int  #: number of judged questions
    answered: int  #: number of questions with a right hit
    separation: float  #: share of pairs in which the answered question has the larger value; 0.5 is chance
    precision: Share  #: share of the shown questions that are answered
    recall: Share  #: share of the answered questions that are shown
    withheld: Share  #: share of all questions that are not shown

    def as_record(self, found_on: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record that an index stores. `found_on` describes the judged questions."""
        figures = asdict(self)
        date = datetime.now(timezone.utc).date().isoformat()
        return {"from": figures.pop("threshold"), **figures, "found_on": {**found_on, "date": date}}


def calibrate(values: Sequence[float], answered: Sequence[bool]) -> Calibration:
    """Choose a threshold by the values of questions, and by whether each question is answered."""
    if not len(values):
        raise InputError("no question has judged hits; judge the first hit of some questions, right or wrong")
    odds, truth = log_odds(np.asarray(values, np.float64), EPSILON), np.asarray(answered, bool)
    separation, p_value = _separation(odds, truth)
    slope, shift = _fitted(odds, truth)
    said, threshold = _sigmoid(slope * odds + shift), float(_sigmoid(-shift / slope)) if slope > 0 else 0.0
    shown = odds >= log_odds(np.asarray(threshold), EPSILON)
    enough = min(truth.sum(), (~truth).sum()) >= MIN_QUESTIONS
    clean = enough and p_value < MAX_P_VALUE and shown.any() and not shown.all()
    if not clean:
        said, shown = truth.astype(np.float64), np.ones(len(truth), bool)
    return Calibration(
        round(threshold, 4) if clean else None,
        len(truth),
        int(truth.sum()),
        separation,
        share(float(said[shown].mean()), int(shown.sum())),
        share(float(said[shown].sum() / max(said.sum(), EPSILON)), int(truth.sum())),
        share(float((~shown).mean()), len(shown)),
    )


def share(value: float, of: int) -> Share:
    """Return a share with its interval. Without questions, the interval is 0 to 1."""
    if not of:
        return Share(1.0, 0.0, 1.0, 0)
    wide = Z_95**2 / of
    middle, half = value + wide / 2, Z_95 * math.sqrt(value * (1 - value) / of + wide / (4 * of))
    return Share(value, max((middle - half) / (1 + wide), 0.0), min((middle + half) / (1 + wide), 1.0), of)


def _separation(odds: DoubleArray, truth: Flags) -> tuple[float, float]:
    """Share of pairs that are in order, and its one-sided p-value (Mann and Whitney 1947)."""
    right, wrong = odds[truth], np.sort(odds[~truth])
    if not len(right) or not len(wrong):
        return 0.5, 1.0
    below, ties = np.searchsorted(wrong, right), np.searchsorted(wrong, right, side="right")
    pairs = len(right) * len(wrong)
    share_in_order = float((below + ties).sum() / 2 / pairs)
    spread = math.sqrt((len(right) + len(wrong) + 1) / (12 * pairs))
    return share_in_order, 0.5 * math.erfc((share_in_order - 0.5) / spread / math.sqrt(2))


def _sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def _fitted(odds: DoubleArray, truth: Flags) -> tuple[float, float]:
    """Slope and shift of the log-odds of maximum posterior probability, by Newton's method."""
    inputs, expected = np.column_stack([odds, np.ones(len(odds))]), np.array([1.0, 0.0])
    prior, fit = np.diag(1 / np.square(PRIOR_DEVIATIONS)), np.array([1.0, 0.0])
    for _ in range(50):
        said = _sigmoid(inputs @ fit)
        gradient = inputs.T @ (truth - said) - prior @ (fit - expected)
        step = np.linalg.solve((inputs * (said * (1 - said))[:, None]).T @ inputs + prior, gradient)
        fit += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    return float(fit[0]), float(fit[1])


def judged_questions(
    retriever: HybridRetriever,
    judged: Mapping[str, Mapping[str, bool]],
    *,
    progress: Callable[[int], object] = lambda _: None,
) -> Iterator[tuple[float, bool]]:
    """Search questions, and yield ``answerable`` and whether one of the first `HITS` hits was judged right.

    `judged` maps questions to ids of passages and whether these are right. A question without a right hit is left out
    unless its first hit was judged wrong.
    """
    method = retriever.method if isinstance(METHODS[retriever.method], ByEvidence) else DEFAULT
    for question, passages in judged.items():
        result = retriever.search(question, HITS, method=method)
        progress(1)
        if result.answerable is None:
            raise InputError("these models have no head for `answerable`; use the shipped models")
        verdicts = [passages.get(hit.id) for hit in result]
        if any(verdicts) or verdicts[:1] == [False]:
            yield result.answerable, any(verdicts)
