"""Combines a head and a language model: the head labels texts that it is sure of, the model labels the others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from semclass import EntailmentClassifier, InputError, PassageClassifier, QuestionClassifier, TextModel
from semclass.plugins import check_probability, short
from semclass_llm.endpoint import Bill, Chat, Endpoint
from semclass_llm.label import LabelTask, ModelLabels, PairTask, estimate_cost, label_texts, pair_text

Item: TypeAlias = "str | tuple[str, str]"
"""A text, or a pair of question and passage."""

Array = npt.NDArray[np.float64]

MEANINGS: dict[str, str] = {
    "ABBR": "what letters stand for, or the short form of a name",
    "DESC": "what something is or means, why it is so, or how it is done",
    "ENTY": "a thing that has a name: an animal, a plant, a product, a work, an event, a disease, a colour, a word",
    "HUM": "a person, a group or an organisation",
    "LOC": "a place",
    "NUM": "a count, a date, a sum, a measure, a rank or a code",
}
"""Meaning of each coarse class of questions, in words for a language model."""

PROVIDED: dict[str, str] = {
    "ABBR": "what an abbreviation stands for, or how something is abbreviated",
    "DESC": "what something is or means, how it works or is done, or why it happened",
    "ENTY": "a certain thing by its name, such as a product, a work, an award, an animal or a substance, and neither a "
    "person, an organisation nor a place",
    "HUM": "who did, owns or is something: a person, a group or an organisation by its name",
    "LOC": "where something is or happened: a place by its name",
    "NUM": "when, how many or how much: a date, a count, a sum, a measure or a code",
}
"""Content of a passage of each coarse class, in words for a language model."""

EVERYTHING = 2.0  # a threshold above every confidence


@dataclass(frozen=True)
class CascadeLabels:
    """The labels of a text, and whether the head or the model chose them.

    If a text has one label, the confidence is the probability of this label, or 0 if the head abstains. For a pair, or
    a text with several labels, the confidence is the distance of the least sure label from the threshold.
    """

    item: Item  #: the text, or the pair of a question and a passage
    labels: tuple[Any, ...]  #: the labels of the model if it answered, else the labels of the head
    by: str  #: ``"head"`` or ``"model"``
    head_labels: tuple[Any, ...]  #: the labels of the head
    confidence: float  #: how sure the head is, in [0, 1]
    sent: bool = False  #: whether the text goes to the model
    why: str = ""  #: why the model gave no label to a sent text: failed, refused or unreadable


@dataclass(frozen=True)
class Cascade:
    """A head that labels the texts that it is sure of, and a language model that labels the others.

    Attributes
    ----------
    head
        Any classifier of semclass. A :class:`semclass.QuestionClassifier` gives coarse classes.
    endpoint
        The language model. With ``cache``, you never pay twice for the same call. Use few retries, because a text
        keeps the label of the head if the model does not answer.
    share, accuracy
        Set one of them. `share` is the share of the texts to send, least sure texts first. `accuracy` is the required
        accuracy, for which :meth:`calibrate` finds the smallest share. Without :meth:`calibrate`, `share` applies to
        each call of :meth:`classify`.
    labels
        Descriptions of labels for the prompt, by name. Clear names need no description.
    threshold
        Confidence below which a text is sent. :meth:`calibrate` sets it.
    chat
        Calls the model. ``chat.bill`` is the cost so far.
    """

    head: Any
    endpoint: Endpoint
    share: float | None = None
    accuracy: float | None = None
    labels: Mapping[str, str] | None = None
    threshold: float | None = None
    chat: Chat = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.share is None) == (self.accuracy is None):
            raise InputError("set either share (the share of the texts to send) or accuracy (the accuracy to reach)")
        name = "accuracy" if self.share is None else "share"
        check_probability(getattr(self, name), name)
        self._check_known(self.labels or (), "labels")
        object.__setattr__(self, "chat", Chat(self.endpoint))

    @cached_property
    def task(self) -> LabelTask:
        """The task of the prompt for the model."""
        head, labels = self.head, {str(name): "" for name in self.head.classes}
        if isinstance(head, EntailmentClassifier):
            return PairTask(labels)
        if isinstance(head, QuestionClassifier):
            labels |= {name: f"asks for {MEANINGS[name]}" for name in labels if name in MEANINGS}
        elif isinstance(head, PassageClassifier):
            labels |= {name: f"tells {PROVIDED[name]}" for name in labels if name in PROVIDED}
        return LabelTask({**labels, **(self.labels or {})}, "one" if _thresholds(head) is None else "several")

    def calibrate(self, items: Iterable[Item], labels: Iterable[Any]) -> tuple[Cascade, dict[str, Any]]:
        """Set the threshold by labelled texts, or pairs, that the head was not trained on.

        With `accuracy`, the model is asked about these texts, least sure texts first, until the accuracy is reached. If no
        share reaches it, an InputError names the best accuracy.

        Parameters
        ----------
        labels
            The right label of each text, or a collection of all its right labels.

        Returns
        -------
        cascade, report
            The cascade with its threshold. The report contains ``texts``, ``share``, ``threshold`` and ``head``, the
            accuracy of the head. With `accuracy`, it also contains ``both``, the accuracy of the cascade, and
            ``asked``, the number of texts that the model was asked about.
        """
        decided, right = replace(self, threshold=EVERYTHING).decide(items), [_names(one) for one in labels]
        if not decided or len(decided) != len(right):
            raise InputError(
                f"there are {len(decided)} texts and {len(right)} labels; give at least one text, and one label per text"
            )
        self._check_known(set().union(*right), "held-out labels")
        pairs = sorted(zip(decided, right, strict=True), key=lambda pair: pair[0].confidence)
        sure = [one.confidence for one, _ in pairs] + [EVERYTHING]
        head = np.array([_names(one.labels) == true for one, true in pairs], np.float64)
        # equal confidences are sent together
        cuts = [cut for cut, one in enumerate(sure) if not cut or one > sure[cut - 1]]
        report: dict[str, Any] = {"texts": len(pairs), "head": float(head.mean())}
        if self.share is not None:
            wanted = self.share * len(pairs)
            sent = min(cuts, key=lambda cut: abs(cut - wanted))
        else:
            calls = self.chat.bill.calls
            texts = [_text(one.item) for one, _ in pairs]
            answers = label_texts(texts, self.task, self.chat)
            with closing(_gains(answers, head, [true for _, true in pairs])) as asked:
                sent, reached = self._reach(head, set(cuts), asked)
            report |= {"both": reached, "asked": (self.chat.bill.calls - calls) // self.task.calls}
        calibrated = replace(self, threshold=sure[sent])
        object.__setattr__(calibrated, "chat", self.chat)
        return calibrated, {**report, "share": sent / len(pairs), "threshold": sure[sent]}

    def _reach(self, head: Array, cuts: set[int], gains: Iterator[float]) -> tuple[int, float]:
        """Return how many of the least sure items must be sent to reach `accuracy`, and the accuracy that this reaches."""
        by_head = np.append(head[::-1].cumsum()[::-1], 0.0)  # right without the first 0, 1, ... items
        by_model = best = 0.0
        for sent, rest in enumerate(by_head.tolist()):
            reached = (by_model + rest) / len(head)
            if sent in cuts:
                best = max(best, reached)
                if reached >= float(self.accuracy or 0.0):
                    return sent, reached
            by_model += next(gains, 0.0)
        raise InputError(
            f"accuracy is {self.accuracy:g}, but no share to send reaches more than {best:.4g}; choose a lower accuracy"
        )

    def decide(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of the head, and which items go to the model. The model is not called.

        Raises an InputError if `accuracy` is given and :meth:`calibrate` was not called, or the head refuses an item.
        """
        if self.threshold is None and self.share is None:
            raise InputError("accuracy needs held-out labels; use the cascade that calibrate(texts, labels) returns")
        own: Any = items if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) else list(items)
        classified: Sequence[Any] = self.head.classify(own)
        confidence = _confidence(self.head, classified)
        if self.threshold is None:
            order = np.argsort(confidence, kind="stable")
            sent = np.isin(np.arange(len(order)), order[: round((self.share or 0.0) * len(order))])
        else:
            sent = confidence < self.threshold
        labels = [tuple(one.labels) if hasattr(one, "labels") else (one.label,) for one in classified]
        return [
            CascadeLabels(item if isinstance(item, str) else tuple(item), some, "head", some, sure, goes)
            for item, some, sure, goes in zip(own, labels, confidence.tolist(), sent.tolist(), strict=True)
        ]

    def estimate(self, decided: Sequence[CascadeLabels]) -> Bill:
        """Ask the model about a few of the items that :meth:`decide` sends, and estimate the cost of all these items."""
        return estimate_cost(list(map(_text, _sent(decided))), self.task, self.chat)

    def ask(
        self, decided: Sequence[CascadeLabels], progress: Callable[[int], object] = lambda _: None
    ) -> list[CascadeLabels]:
        """Ask the model about the items that :meth:`decide` sends, each item once, and return the labels of all items.

        `progress` is called with 1 after each item.
        """
        items = _sent(decided)
        answers: dict[Item, ModelLabels] = {}
        for item, answer in zip(items, label_texts(map(_text, items), self.task, self.chat), strict=True):
            answers[item] = answer
            progress(1)
        names = {str(name): name for name in self.head.classes}
        labelled = []
        for one in decided:
            answer = answers[one.item] if one.sent else ModelLabels("", None)
            if answer.labels is None:
                labelled.append(replace(one, why=answer.why))
            else:
                labelled.append(replace(one, labels=tuple(names[label] for label in answer.labels), by="model"))
        return labelled

    def classify(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of texts, or of pairs of question and passage.

        If the model does not answer, a text keeps the label of the head, and ``why`` is the reason.
        """
        return self.ask(self.decide(items))

    def _check_known(self, labels: Iterable[str], name: str) -> None:
        known = list(map(str, self.head.classes))
        if strange := sorted(set(labels).difference(known)):
            raise InputError(f"{name} contain {short(strange)}; use the labels of the head: {short(known, 300)}")


def _gains(answers: Iterator[ModelLabels], head: Array, right: Sequence[set[str]]) -> Generator[float, None, None]:
    """Yield 1 for each right answer, else 0. Without an answer, the label of the head counts."""
    for answer, own, true in zip(answers, head.tolist(), right, strict=False):
        yield own if answer.labels is None else float(set(answer.labels) == true)


def _text(item: Item) -> str:
    return item if isinstance(item, str) else pair_text(*item)


def _sent(decided: Iterable[CascadeLabels]) -> list[Item]:
    """Return the items that go to the model, each item once."""
    return list(dict.fromkeys(one.item for one in decided if one.sent))


def _names(labels: Any) -> set[str]:
    """Return the names of a label or of several labels."""
    return set(map(str, [labels] if isinstance(labels, (str, int, np.integer)) else labels))


def _thresholds(head: Any) -> Array | None:
    """Return the probability from which a text has each label; None if a text has only its most probable label."""
    if isinstance(head, EntailmentClassifier):
        return np.array([head.threshold])
    if isinstance(head, PassageClassifier):
        return head.thresholds
    if not getattr(head, "multi_label", False):
        return None
    own = head.label_thresholds if isinstance(head, TextModel) else head.label_thresholds_
    return np.asarray(own, np.float64)


def _confidence(head: Any, classified: Sequence[Any]) -> Array:
    """Return the confidence of a head in its labels, as in :class:`CascadeLabels`, of shape (n,)."""
    least = _thresholds(head)
    if least is None:
        return np.array([one.probability * bool(getattr(one, "labels", True)) for one in classified])
    if isinstance(head, EntailmentClassifier):
        rows = np.array([[one.probability] for one in classified])
    else:
        rows = np.array([list(one.probabilities.values()) for one in classified])
    rows, tiny = rows.reshape(len(classified), len(least)), np.finfo(float).tiny
    away = np.where(rows >= least, (rows - least) / np.maximum(1 - least, tiny), 1 - rows / np.maximum(least, tiny))
    return np.asarray(away.min(axis=1))
