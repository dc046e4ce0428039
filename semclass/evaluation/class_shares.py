"""Counts which classes your questions ask for, and which classes the passages of an index provide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semclass.core.checks import check_choice, check_positive, check_texts
from semclass.core.errors import InputError
from semclass.core.types import DoubleArray
from semclass.ranking.methods import DEFAULT
from semclass.ranking.retriever import HybridRetriever

METHODS = ("convex", DEFAULT)
"""The compared methods: the plain fusion, and the default method of a search."""


@dataclass(frozen=True)
class ClassShares:
    """Shares of classes, each in [0, 1], of p passages and q questions.

    Attributes
    ----------
    classes
        The c classes.
    provided
        Share of the passages that provide each class, float64 of shape (c,). A passage may provide several, or none.
    asked
        Share of the questions that ask for each class, float64 of shape (c,).
    met
        Share of the hits at each place that provide the class of the question, by method, float64 of shape (k,). There
        are fewer places if the index has fewer passages.
    found
        Share of the questions that ask for a class (row) whose first hit provides a class (column), of shape (c, c).
    confusion
        Number of questions of a true class (row) that were classified as a class (column), int64 of shape (c, c). None
        if no true classes are known.
    passages, questions
        The numbers p and q.
    """

    classes: tuple[str, ...]
    provided: DoubleArray
    asked: DoubleArray
    met: dict[str, DoubleArray]
    found: DoubleArray
    confusion: Any
    passages: int
    questions: int


def class_shares(
    retriever: HybridRetriever, questions: Sequence[str], truth: Sequence[str] | None = None, *, k: int = 10
) -> ClassShares:
    """Count classes over the passages of an index, and over questions and their hits.

    Parameters
    ----------
    retriever
        The index with its models.
    questions
        Questions to search for.
    truth
        The class that each question asks for. None if the classes are unknown.
    k
        Number of first places of each ranking to count.

    Raises
    ------
    InputError
        If models or index have no classes, or `truth` names an unknown class.
    """
    index, texts = retriever.local_index, check_texts(questions, "questions")
    classes = index.classes
    if not classes or not retriever.models.has_classes:
        raise InputError(
            "counting classes needs class heads, which these models do not have; name models with class heads (--models)"
        )
    if truth is not None and len(truth) != len(texts):
        raise InputError(f"there are {len(texts)} questions and {len(truth)} classes; give one class per question")
    count, places = len(classes), {name: place for place, name in enumerate(classes)}
    labels = [label.label for label in retriever.models.questions.classify(texts)]
    asked = np.array([places[label] for label in labels], np.int64)
    depth, met = min(check_positive(k, "k"), len(index)), {}
    first = np.zeros((len(texts), count))
    for method in METHODS:
        provides, there = np.zeros(depth), np.zeros(depth)
        for row, hits in enumerate(retriever.search_many(texts, depth, method=method)):
            there[: len(hits)] += 1
            provides[: len(hits)] += [labels[row] in hit.labels for hit in hits]
            if method == DEFAULT and hits:
                first[row] = [name in hits[0].labels for name in classes]
        met[method] = provides / np.maximum(there, 1)
    chosen = np.eye(count)[asked]
    confusion = None
    if truth is not None:
        for name in truth:
            check_choice(name, classes, "a class")
        confusion = np.zeros((count, count), np.int64)
        np.add.at(confusion, (np.array([places[name] for name in truth]), asked), 1)
    return ClassShares(
        classes=classes,
        provided=np.asarray((index.probabilities[index.rows] >= index.thresholds).mean(axis=0)),
        asked=chosen.mean(axis=0),
        met=met,
        found=chosen.T @ first / np.maximum(chosen.sum(axis=0), 1)[:, None],
        confusion=confusion,
        passages=len(index),
        questions=len(texts),
    )
