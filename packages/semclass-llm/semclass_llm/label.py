"""Labels texts by a language model, from names and descriptions of the labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from semclass import InputError
from semclass.plugins import check_choice
from semclass_llm.endpoint import UNREADABLE, Bill, Chat
from semclass_llm.quoting import GUARD, quoted
from semclass_llm.reading import NONE_OF_THEM, YES_NO, all_of, one_of

WAYS = ("one", "several", "yes-no")  # for the best label, for all that fit in one call, or by a call per label

ESTIMATE_TEXTS = 16  # texts that are labelled to estimate the cost of all

ENTAILS = f"Does the passage hold the answer to the question? Reply with yes or no. {GUARD}"

_PROMPTS = {
    "one": "Which of these labels fits the text best? Reply with one label and nothing else.",
    "several": "Which of these labels fit the text? Reply with all that fit, with commas between them, or with "
    f'"{NONE_OF_THEM}", and with nothing else.',
    "yes-no": "Does this label fit the text? Reply with yes or no.",
}


@dataclass(frozen=True)
class LabelTask:
    """The labels to choose from, and the way to ask a model.

    Attributes
    ----------
    labels
        Descriptions by name. A description may be empty if the name is clear.
    way
        ``"one"`` asks for the best label, ``"several"`` for all labels that fit. ``"yes-no"`` asks about each label in
        a call.
    """

    labels: Mapping[str, str]
    way: str = "one"

    def __post_init__(self) -> None:
        check_choice(self.way, WAYS, "way")
        if len(self.labels) < (1 if self.multi_label else 2):
            raise InputError(f"there are {len(self.labels)} labels; at least two are needed, or one with way='several'")

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels or no label."""
        return self.way != "one"

    @property
    def calls(self) -> int:
        """Number of calls per text."""
        return len(self.labels) if self.way == "yes-no" else 1

    @property
    def max_tokens(self) -> int:
        """Most tokens that a reply needs. A character is at most one token."""
        longest, total = max(map(len, self.labels)), sum(len(name) + 2 for name in self.labels)
        return 8 + {"one": longest, "several": total, "yes-no": 0}[self.way]

    def prompts(self, text: str) -> Iterator[str]:
        """Return the prompts for a text. They begin with the part that all texts share, because services cache it."""
        lines = [f"{name}: {description}" if description else name for name, description in self.labels.items()]
        if self.way == "yes-no":
            for line in lines:
                yield f"{_PROMPTS[self.way]} {GUARD}\n\nLabel: {line}\n\nText: {quoted(text)}\nAnswer:"
        else:
            listed = "\n".join(f"- {line}" for line in lines)
            answer = "Labels" if self.multi_label else "Label"
            yield f"{_PROMPTS[self.way]} {GUARD}\n\n{listed}\n\nText: {quoted(text)}\n{answer}:"

    def read(self, replies: Sequence[str]) -> list[str] | None:
        """Read the labels from the replies to the prompts of a text. None if a reply has another form."""
        words = {name: (name,) for name in self.labels}
        if self.way == "several":
            return all_of(replies[0], words)
        if self.way == "one":
            name = one_of(replies[0], words)
            return None if name is None else [name]
        answers = [one_of(reply, YES_NO) for reply in replies]
        if None in answers:
            return None
        return [name for name, answer in zip(self.labels, answers, strict=True) if answer == "yes"]


class PairTask(LabelTask):
    """Asks whether a passage answers a question. `labels` are the label for no and the label for yes."""

    def prompts(self, text: str) -> Iterator[str]:
        """Return the prompt for a pair, as :func:`pair_text` writes it."""
        yield f"{ENTAILS}\n\n{text}\nAnswer:"

    def read(self, replies: Sequence[str]) -> list[str] | None:
        """Read yes or no from the reply. None if the reply is neither."""
        answer = one_of(replies[0], YES_NO)
        return None if answer is None else [list(self.labels)[answer == "yes"]]


def pair_text(question: str, passage: str) -> str:
    """Write a pair of question and passage as one text."""
    return f"Question: {quoted(question)}\nPassage: {quoted(passage)}"


@dataclass(frozen=True)
class ModelLabels:
    """The labels of a text from a model. If None, ``why`` is failed, refused or unreadable, and ``reply`` has details."""

    text: str
    labels: list[str] | None
    why: str = ""
    reply: str = ""


def label_texts(texts: Iterable[str], task: LabelTask, chat: Chat) -> Iterator[ModelLabels]:
    """Label texts with a model, in their order. ``chat.bill`` is the cost.

    If the service does not answer, the texts have no labels.
    """
    texts = list(texts)
    replies = chat.ask(chain.from_iterable(map(task.prompts, texts)), max_tokens=task.max_tokens)
    for text in texts:
        answers = list(islice(replies, task.calls))
        said = [answer.text or "" for answer in answers]
        if bad := next((answer for answer in answers if answer.why), None):
            yield ModelLabels(text, None, bad.why, bad.error or bad.finish)
        elif (labels := task.read(said)) is not None:
            yield ModelLabels(text, labels)
        else:
            chat.bill.unreadable += 1
            yield ModelLabels(text, None, UNREADABLE, " | ".join(said)[:200])


def estimate_cost(texts: Sequence[str], task: LabelTask, chat: Chat) -> Bill:
    """Label some evenly spread texts, and estimate the cost of all texts. With a cache, you do not pay for them again."""
    sampler = Chat(chat.endpoint)
    sample = list(texts[:: max(len(texts) // ESTIMATE_TEXTS, 1)][:ESTIMATE_TEXTS])
    for _ in label_texts(sample, task, sampler):
        pass
    return sampler.bill.scaled(len(texts) / max(len(sample), 1))
