"""What the cross-encoder learns from: the questions that ``learned`` learns from, with the hybrid's first ten passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.peers.retrievers import both_scores
from pair_domains import Domain, read_domains
from semclass.encoders.onnx_encoder import OnnxEncoder
from semclass.ranking.models import BM25_WEIGHT
from semclass.scoring.topk import top_k
from train_pairs import N_CANDIDATES

Array = npt.NDArray[Any]

STRETCHES, HELD_OUT = 50, (3, 13, 23, 33, 43)
"""The passages of a domain are cut into stretches; questions that these answer are held out."""


@dataclass(frozen=True)
class Task:
    """Questions whose answer is among their candidates."""

    data: str
    questions: list[str]
    passages: list[str]
    rows: Array
    score: Array
    answers: Array
    weight: Array
    held_out: Array

    def pairs(self, question: int, places: Sequence[int]) -> list[tuple[str, str]]:
        """A question with some of its candidates."""
        return [(self.questions[question], self.passages[self.rows[question, place]]) for place in places]


def find_candidates(domain: Domain) -> tuple[Array, Array]:
    """Ask the questions of a domain of its passages; gives rows, int64 (n, 10), and scores, float64 (n, 10)."""
    rows, scores = [], []
    for dense, lexical in both_scores(OnnxEncoder.load(), domain.passages, domain.questions):
        score = dense + BM25_WEIGHT * lexical
        rows.append(top_k(score, N_CANDIDATES))
        scores.append(score[rows[-1]])
    print(f"{domain.name}: {len(domain.passages)} passages, {len(domain.questions)} questions", flush=True)
    return np.stack(rows), np.stack(scores)


def read_task(data: Path, seed: int) -> Task:
    domains = read_domains(data, seed)
    return joined(domains, [find_candidates(domain) for domain in domains])


def joined(domains: Sequence[Domain], found: Sequence[tuple[Array, Array]]) -> Task:
    """Put the questions of all domains together, and leave out those without an answer among their candidates."""
    questions: list[str] = []
    passages: list[str] = []
    parts: list[tuple[Array, ...]] = []
    for domain, (rows, score) in zip(domains, found, strict=True):
        answers = np.array([np.isin(row, list(right)) for row, right in zip(rows, domain.answers, strict=True)])
        known = np.flatnonzero(answers.any(axis=1))
        first = np.array([min(domain.answers[row]) for row in known])
        held_out = np.isin(first * STRETCHES // len(domain.passages), HELD_OUT)
        weight = np.full(len(known), 1 / np.sqrt(len(known)))
        parts.append((rows[known] + len(passages), score[known], answers[known], weight, held_out))
        questions += [domain.questions[row] for row in known]
        passages += domain.passages
    rows, score, answers, weight, held_out = (np.concatenate(values) for values in zip(*parts, strict=True))
    data = ", ".join(domain.name for domain in domains)
    return Task(data, questions, passages, rows, score, answers, weight / weight.mean(), held_out)


def drawn(task: Task, question: int, negatives: int, rng: np.random.Generator) -> list[int]:
    """Places of a question's candidates for one step: the first one that answers, and others that do not."""
    others = np.flatnonzero(~task.answers[question])
    chance = 1 / (1 + others)
    chosen = rng.choice(others, negatives, replace=False, p=chance / chance.sum())
    return [int(task.answers[question].argmax()), *chosen.tolist()]
