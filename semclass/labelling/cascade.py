"""Two classifiers in a row: a head decides what it is sure of, and a language model gets the other texts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_probability, short
from semclass.core.errors import InputError
from semclass.core.taxonomy import MEANINGS, PROVIDED
from semclass.core.types import DoubleArray, IntArray
from semclass.documents.json_lines import read_json_lines
from semclass.endpoint.bill import FAILED
from semclass.endpoint.client import Endpoint, EndpointError
from semclass.heads.described import ZeroShotClassifier
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import Label, TextModel
from semclass.labelling.tasks import PairTask, Task
from semclass.labelling.teacher import Bill, Taught, estimate, teach

if TYPE_CHECKING:
    from semclass.train.estimators import TextClassifier

Classifier: TypeAlias = (
    "QuestionClassifier | PassageClassifier | EntailmentClassifier | TextModel | TextClassifier | ZeroShotClassifier"
)

Item: TypeAlias = "str | tuple[str, str]"
"""A text, or a pair of question and passage."""

HEAD, MODEL = "head", "model"
"""Who gave a label."""

PAIR = ("question", "sentence")
"""Fields of a pair in JSON."""

ALL = 2.0  # a threshold above every confidence


@dataclass(frozen=True)
class CascadeLabels:
    """The labels of one text, and who gave them.

    Attributes
    ----------
    item
        The text, or the pair of a question and a passage.
    labels
        The labels: those of the model if it was asked and answered, else those of the head.
    by
        ``"head"`` or ``"model"``.
    head_labels
        The labels of the head.
    confidence
        How sure the head is, in [0, 1]. Text with one label: the probability of this label, or 0 if the head abstains.
        Text with several labels, or pair: the distance from the threshold, 0 at the threshold, of the least sure label.
    sent
        Whether the text goes to the model.
    why
        Why the model gave no label to a text that was sent: ``"failed"``, ``"refused"`` or ``"nonsense"``.
    """

    item: Item
    labels: tuple[Label, ...]
    by: str
    head_labels: tuple[Label, ...]
    confidence: float
    sent: bool = False
    why: str = ""


@dataclass(frozen=True)
class Cascade:
    """A head that decides what it is sure of, and a language model that gets the other texts (extra ``label``).

    Give either `share` or `accuracy`.

    Attributes
    ----------
    head
        A classifier of semclass: :class:`semclass.TextModel`, :class:`semclass.TextClassifier`,
        :class:`semclass.QuestionClassifier` (coarse classes), :class:`semclass.PassageClassifier`,
        :class:`semclass.EntailmentClassifier` or :class:`semclass.ZeroShotClassifier`.
    endpoint
        The language model. With ``cache``, it is never paid twice for the same question. Use few retries: if the model
        does not answer, the label of the head stays.
    share
        Part of the texts that is sent to the model, least sure texts first, in [0, 1]. Without :meth:`calibrate`, it is
        this part of every call of :meth:`classify`.
    accuracy
        Wanted accuracy, in [0, 1]. :meth:`calibrate` then finds the smallest share that reaches it.
    labels
        Descriptions of labels for the prompt, by name. Names that explain themselves need none.
    threshold
        Confidence below which a text is sent. :meth:`calibrate` sets it.

    Raises
    ------
    InputError, InputTypeError
        If `share` and `accuracy` are both given or both missing, one is not in [0, 1], or `labels` names a label that
        the head does not have.
    """

    head: Classifier
    endpoint: Endpoint
    share: float | None = None
    accuracy: float | None = None
    labels: Mapping[str, str] | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if (self.share is None) == (self.accuracy is None):
            raise InputError("give either share, the part of the texts to send, or accuracy, which is to be reached")
        name = "accuracy" if self.share is None else "share"
        check_probability(getattr(self, name), name)
        self._known(self.labels or (), "labels")

    @cached_property
    def task(self) -> Task:
        """The question that the model is asked."""
        head, told = self.head, {str(name): "" for name in self.head.classes}
        if isinstance(head, EntailmentClassifier):
            return PairTask(told)
        if isinstance(head, QuestionClassifier):
            told |= {name: f"asks for {MEANINGS[name]}" for name in told if name in MEANINGS}
        elif isinstance(head, PassageClassifier):
            told |= {name: f"tells {PROVIDED[name]}" for name in told if name in PROVIDED}
        return Task({**told, **(self.labels or {})}, "one" if _thresholds(head) is None else "several")

    def calibrate(
        self, items: Iterable[Item], labels: Iterable[Any], *, model_accuracy: float | None = None
    ) -> tuple[Cascade, dict[str, Any]]:
        """Set the threshold on labelled texts that the head was not trained on.

        With `accuracy`, the model is asked about these texts, least sure texts first, until the accuracy is reached.

        Parameters
        ----------
        items
            Texts, or pairs of question and passage.
        labels
            The right label of each text, or the collection of its right labels. A text counts as right if all of its
            labels are.
        model_accuracy
            Accuracy of the model on the texts that are sent, if you know it. The model is then not asked.

        Returns
        -------
        tuple
            The cascade with its threshold, and a report in JSON types: ``texts``, ``share``, ``threshold``, the accuracy
            of the head (``head``), and with `accuracy` also that of both (``both``), and the number of texts that the
            model was asked about (``asked``).

        Raises
        ------
        InputError, InputTypeError
            If there are no texts, there are not as many labels as texts, the head does not know a label, or no share
            reaches the accuracy.
        """
        found, right = self._decide(items, np.inf), [_names(one) for one in labels]
        if not found or len(found) != len(right):
            raise InputError(
                f"there are {len(found)} texts and {len(right)} labels; give at least one text, and its label"
            )
        self._known(set().union(*right), "held-out labels")
        order = _least_sure(np.array([one.confidence for one in found]))
        found, right = [found[row] for row in order], [right[row] for row in order]
        sure = np.array([one.confidence for one in found])
        head = np.array([_names(one.labels) == true for one, true in zip(found, right, strict=True)], np.float64)
        # equal confidences are sent together
        cuts = [0, *(np.flatnonzero(np.diff(sure) > 0) + 1).tolist(), len(sure)]
        report: dict[str, Any] = {"texts": len(found), "head": float(head.mean())}
        if self.accuracy is None:
            wanted = (self.share or 0.0) * len(found)
            sent = min(cuts, key=lambda cut: abs(cut - wanted))
        else:
            sent, more = self._reach([one.item for one in found], right, head, set(cuts), model_accuracy)
            report |= more
        threshold = float(sure[sent]) if sent < len(sure) else ALL
        return replace(self, threshold=threshold), {**report, "share": sent / len(found), "threshold": threshold}

    def _reach(
        self, items: Sequence[Item], right: Sequence[set[str]], head: DoubleArray, cuts: set[int], told: float | None
    ) -> tuple[int, dict[str, Any]]:
        """How many items, the least sure first, must be sent to reach `accuracy`, and what is then reached."""
        by_head = np.append(head[::-1].cumsum()[::-1], 0.0)  # right without the first 0, 1, ... items
        by_model, best, bill = 0.0, 0.0, Bill(self.task)
        expected = None if told is None else check_probability(told, "model_accuracy")
        with closing(self._ask(items, bill)) as answers:
            for sent, rest in enumerate(by_head.tolist()):
                reached = (by_model + rest) / len(items)
                if sent in cuts:
                    best = max(best, reached)
                    if reached >= float(self.accuracy or 0.0):
                        return sent, {"both": reached, "asked": bill.texts}
                if sent == len(items):
                    break
                taught = None if expected is not None else next(answers)
                if taught is None:
                    by_model += float(expected or 0.0)
                else:  # without an answer, the label of the head stays
                    by_model += head[sent] if taught.labels is None else set(taught.labels) == right[sent]
        raise InputError(
            f"accuracy is {self.accuracy:g}; whatever share is sent, {best:.4g} is reached at most; choose a lower accuracy"
        )

    def decide(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of the head, and which items go to the model. The model is not asked.

        Raises
        ------
        InputError, InputTypeError
            If the head refuses an item, or `accuracy` is given and :meth:`calibrate` was not called.
        """
        if self.threshold is None and self.share is None:
            raise InputError("accuracy needs held-out labels; use the cascade that calibrate(texts, labels) returns")
        return self._decide(items, self.threshold)

    def _decide(self, items: Iterable[Item], threshold: float | None) -> list[CascadeLabels]:
        """The head's labels; without a threshold, `share` of the items is sent."""
        given: Any = items if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) else list(items)
        found: Sequence[Any] = self.head.classify(given)
        confidence = _confidence(self.head, found)
        rows = _least_sure(confidence)[: round((self.share or 0.0) * len(found))]
        sent = np.isin(np.arange(len(found)), rows) if threshold is None else confidence < threshold
        labels = [tuple(one.labels) if hasattr(one, "labels") else (one.label,) for one in found]
        return [
            CascadeLabels(item if isinstance(item, str) else tuple(item), some, HEAD, some, sure, goes)
            for item, some, sure, goes in zip(given, labels, confidence.tolist(), sent.tolist(), strict=True)
        ]

    def estimate(self, decided: Sequence[CascadeLabels], prices: tuple[float, float] | None = None) -> dict[str, Any]:
        """Ask about a few of the items that :meth:`decide` sends, and estimate the cost of all of them.

        `prices` are USD for a million tokens of prompts and of answers. Raises EndpointError if the model does not answer.
        """
        return estimate(list(map(text_of, _sent(decided))), self.task, self.endpoint, prices)[0]

    def ask(
        self, decided: Sequence[CascadeLabels], bill: Bill | None = None, step: Callable[[int], object] | None = None
    ) -> list[CascadeLabels]:
        """Ask the model about the items that :meth:`decide` sends, each item once, and return the labels of all items.

        `bill` counts the cost, and `step` is called with 1 after each item.
        """
        items = _sent(decided)
        answers: dict[Item, Taught] = {}
        for item, taught in zip(items, self._ask(items, bill or Bill(self.task)), strict=True):
            answers[item] = taught
            if step is not None:
                step(1)
        names = {str(name): name for name in self.head.classes}
        found = []
        for one in decided:
            if one.sent:
                taught = answers[one.item]
                said = None if taught.labels is None else tuple(names[label] for label in taught.labels)
                one = replace(one, why=taught.why) if said is None else replace(one, labels=said, by=MODEL)
            found.append(one)
        return found

    def classify(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of texts, or of pairs of question and passage.

        If the model does not answer, the label of the head stays, and ``why`` holds the reason. Raises the same errors as
        :meth:`decide`, and MissingExtraError if openai is not installed.
        """
        return self.ask(self.decide(items))

    def _ask(self, items: Sequence[Item], bill: Bill) -> Generator[Taught, None, None]:
        """The model's labels of items. If the service goes away, the other calls have failed."""
        texts, done = list(map(text_of, items)), 0
        try:
            for taught in teach(texts, self.task, self.endpoint, bill):
                yield taught
                done += 1
        except EndpointError as error:
            yield from (Taught(text, None, FAILED, str(error)) for text in texts[done:])

    def _known(self, labels: Iterable[str], name: str) -> None:
        known = list(map(str, self.head.classes))
        if strange := sorted(set(labels).difference(known)):
            raise InputError(f"{name} has {short(strange)}; the labels of the head are {short(known, 300)}")


def save_labels(found: Iterable[CascadeLabels], path: Path, *, multi_label: bool) -> int:
    """Add the model's labels to a file of JSON lines, which ``semclass train`` reads, and return how many it holds.

    The file holds each text once, with the latest labels.
    """
    old = (record for _, record in read_json_lines(path)) if path.is_file() else ()
    new = (
        {
            **record_of(one.item),
            **({"labels": list(one.labels)} if multi_label else {"label": one.labels[0]}),
            "by": MODEL,
        }
        for one in found
        if one.by == MODEL
    )
    kept = {tuple(record.get(name) for name in ("text", *PAIR)): record for record in chain(old, new)}
    artifacts.write_atomic(path, artifacts.dump_json_lines(kept.values()))
    return len(kept)


def record_of(item: Item) -> dict[str, Any]:
    """An item in JSON types: its ``text``, or its ``question`` and ``sentence``."""
    return {"text": item} if isinstance(item, str) else dict(zip(PAIR, item, strict=True))


def text_of(item: Item) -> str:
    """An item as a prompt shows it."""
    return item if isinstance(item, str) else PairTask.text_of(*item)


def _sent(decided: Iterable[CascadeLabels]) -> list[Item]:
    """The items that go to the model, each once."""
    return list(dict.fromkeys(one.item for one in decided if one.sent))


def _names(labels: Any) -> set[str]:
    """The names of one label or of several."""
    return set(map(str, [labels] if isinstance(labels, (str, int, np.integer)) else labels))


def _least_sure(confidence: DoubleArray) -> IntArray:
    return np.argsort(confidence, kind="stable")


def _thresholds(head: Classifier) -> DoubleArray | None:
    """From which probability a text has each label; None if it has one label, the most probable one."""
    if isinstance(head, EntailmentClassifier):
        return np.array([head.threshold])
    if isinstance(head, PassageClassifier):
        return head.thresholds
    if not getattr(head, "multi_label", False):
        return None
    own = head.label_thresholds if isinstance(head, TextModel) else head.label_thresholds_  # type: ignore[union-attr]
    return np.maximum(own, head.min_probability)  # type: ignore[union-attr]


def _confidence(head: Classifier, found: Sequence[Any]) -> DoubleArray:
    """How sure a head is of the labels that it gave, as :class:`CascadeLabels` says it, (n,)."""
    least = _thresholds(head)
    if least is None:
        return np.array([one.probability * bool(getattr(one, "labels", True)) for one in found])
    if isinstance(head, EntailmentClassifier):
        given = np.array([[one.probability] for one in found])
    else:
        given = np.array([list(one.probabilities.values()) for one in found])
    given, tiny = given.reshape(len(found), len(least)), np.finfo(float).tiny
    away = np.where(given >= least, (given - least) / np.maximum(1 - least, tiny), 1 - given / np.maximum(least, tiny))
    return np.asarray(away.min(axis=1))
