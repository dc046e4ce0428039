"""Two classifiers in a row: a head decides what it is sure of, and a language model gets the other texts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from semclass.core import artifacts
from semclass.core.checks import check_probability, short
from semclass.core.errors import InputError
from semclass.core.taxonomy import MEANINGS, PROVIDED
from semclass.core.types import DoubleArray
from semclass.documents.json_lines import read_json_lines
from semclass.heads.described import ZeroShotClassifier
from semclass.heads.entailment import EntailmentClassifier
from semclass.heads.passages import PassageClassifier
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import Label, TextModel
from semclass_llm.endpoint.bill import FAILED
from semclass_llm.endpoint.client import Endpoint, EndpointError
from semclass_llm.labelling.tasks import PairTask, Task
from semclass_llm.labelling.teacher import Bill, Taught, estimate, labelled_record, teach

if TYPE_CHECKING:
    from semclass.train.estimators import TextClassifier

Classifier: TypeAlias = (
    "QuestionClassifier | PassageClassifier | EntailmentClassifier | TextModel | TextClassifier | ZeroShotClassifier"
)

Item: TypeAlias = "str | tuple[str, str]"
"""A text, or a pair of question and passage."""

PAIR = ("question", "sentence")
"""Fields of a pair in JSON."""

ALL = 2.0  # a threshold above every confidence


@dataclass(frozen=True)
class CascadeLabels:
    """The labels of one text, and who gave them.

    The confidence of a text with one label is the probability of this label, or 0 if the head abstains. That of a text with
    several labels, or of a pair, is the distance of the least sure label from the threshold, 0 at the threshold.
    """

    item: Item  #: the text, or the pair of a question and a passage
    labels: tuple[Label, ...]  #: the labels of the model if it was asked and answered, else those of the head
    by: str  #: ``"head"`` or ``"model"``
    head_labels: tuple[Label, ...]  #: the labels of the head
    confidence: float  #: how sure the head is, in [0, 1]
    sent: bool = False  #: whether the text goes to the model
    why: str = ""  #: why the model gave no label to a text that was sent: ``"failed"``, ``"refused"`` or ``"nonsense"``


@dataclass(frozen=True)
class Cascade:
    """A head that decides what it is sure of, and a language model that gets the other texts (extra ``label``).

    Attributes
    ----------
    head
        Any classifier of semclass. A :class:`semclass.QuestionClassifier` gives coarse classes.
    endpoint
        The language model. With ``cache``, it is never paid twice for the same question. Use few retries: if the model
        does not answer, the label of the head stays.
    share, accuracy
        Either the part of the texts to send, least sure texts first, or the wanted accuracy, for which :meth:`calibrate`
        finds the smallest share. Without :meth:`calibrate`, `share` is the part of every call of :meth:`classify`.
    labels
        Descriptions of labels for the prompt, by name. Names that explain themselves need none.
    threshold
        Confidence below which a text is sent. :meth:`calibrate` sets it.
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
        """Set the threshold on texts, or pairs, that the head was not trained on.

        With `accuracy`, the model is asked about these texts, least sure texts first, until the accuracy is reached. If no
        share reaches it, an InputError says what is reached.

        Parameters
        ----------
        labels
            The right label of each text, or the collection of its right labels, all of which then count.
        model_accuracy
            Accuracy of the model on the texts that are sent, if you know it. The model is then not asked.

        Returns
        -------
        tuple
            The cascade with its threshold, and a report in JSON types: ``texts``, ``share``, ``threshold``, the accuracy
            of the head (``head``), and with `accuracy` also that of both (``both``), and the number of texts that the
            model was asked about (``asked``).
        """
        found, right = replace(self, threshold=ALL).decide(items), [_names(one) for one in labels]
        if not found or len(found) != len(right):
            raise InputError(
                f"there are {len(found)} texts and {len(right)} labels; give at least one text, and its label"
            )
        self._known(set().union(*right), "held-out labels")
        expected = None if model_accuracy is None else check_probability(model_accuracy, "model_accuracy")
        pairs = sorted(zip(found, right, strict=True), key=lambda pair: pair[0].confidence)
        sure = [one.confidence for one, _ in pairs] + [ALL]
        head = np.array([_names(one.labels) == true for one, true in pairs], np.float64)
        # equal confidences are sent together
        cuts = [cut for cut, one in enumerate(sure) if not cut or one > sure[cut - 1]]
        report: dict[str, Any] = {"texts": len(pairs), "head": float(head.mean())}
        if self.share is not None:
            wanted = self.share * len(pairs)
            sent = min(cuts, key=lambda cut: abs(cut - wanted))
        else:
            bill = Bill(self.task)
            with closing(self._ask([one.item for one, _ in pairs], bill)) as answers:
                # without an answer, the label of the head stays
                gained: Iterator[float] = (
                    own if taught.labels is None else float(set(taught.labels) == true)
                    for own, (_, true), taught in zip(head.tolist(), pairs, answers, strict=False)
                )
                sent, reached = self._reach(head, set(cuts), gained if expected is None else repeat(expected))
            report |= {"both": reached, "asked": bill.texts}
        return replace(self, threshold=sure[sent]), {**report, "share": sent / len(pairs), "threshold": sure[sent]}

    def _reach(self, head: DoubleArray, cuts: set[int], gained: Iterator[float]) -> tuple[int, float]:
        """How many items, the least sure first, must be sent to reach `accuracy`, and what is then reached."""
        by_head = np.append(head[::-1].cumsum()[::-1], 0.0)  # right without the first 0, 1, ... items
        by_model = best = 0.0
        for sent, rest in enumerate(by_head.tolist()):
            reached = (by_model + rest) / len(head)
            if sent in cuts:
                best = max(best, reached)
                if reached >= float(self.accuracy or 0.0):
                    return sent, reached
            by_model += next(gained, 0.0)
        raise InputError(
            f"accuracy is {self.accuracy:g}; whatever share is sent, {best:.4g} is reached at most; choose a lower accuracy"
        )

    def decide(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of the head, and which items go to the model. The model is not asked.

        Raises an InputError if `accuracy` is given and :meth:`calibrate` was not called, or the head refuses an item.
        """
        if self.threshold is None and self.share is None:
            raise InputError("accuracy needs held-out labels; use the cascade that calibrate(texts, labels) returns")
        given: Any = items if isinstance(items, (str, bytes)) or not isinstance(items, Iterable) else list(items)
        found: Sequence[Any] = self.head.classify(given)
        confidence = _confidence(self.head, found)
        if self.threshold is None:
            order = np.argsort(confidence, kind="stable")
            sent = np.isin(np.arange(len(found)), order[: round((self.share or 0.0) * len(found))])
        else:
            sent = confidence < self.threshold
        labels = [tuple(one.labels) if hasattr(one, "labels") else (one.label,) for one in found]
        return [
            CascadeLabels(item if isinstance(item, str) else tuple(item), some, "head", some, sure, goes)
            for item, some, sure, goes in zip(given, labels, confidence.tolist(), sent.tolist(), strict=True)
        ]

    def estimate(self, decided: Sequence[CascadeLabels], prices: tuple[float, float] | None = None) -> dict[str, Any]:
        """Ask about a few of the items that :meth:`decide` sends, and estimate the cost of all of them.

        `prices` are USD for a million tokens of prompts and of answers. Raises EndpointError if the model does not answer.
        """
        return estimate(list(map(text_of, _sent(decided))), self.task, self.endpoint, prices)

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
            taught = answers[one.item] if one.sent else Taught("", None)
            if taught.labels is None:
                found.append(replace(one, why=taught.why))
            else:
                found.append(replace(one, labels=tuple(names[label] for label in taught.labels), by="model"))
        return found

    def classify(self, items: Iterable[Item]) -> list[CascadeLabels]:
        """Return the labels of texts, or of pairs of question and passage.

        If the model does not answer, the label of the head stays, and ``why`` holds the reason.
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
    new = (labelled_record(record_of(one.item), one.labels, multi_label) for one in found if one.by == "model")
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
