"""Asks a language model for the labels of a text in three ways, by their names and descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from semclass.core.checks import check_choice
from semclass.core.errors import InputError
from semclass_llm.endpoint.reading import ENTAILS, NONE_OF_THEM, YES_NO, all_of, one_of

WAYS = ("one", "several", "yes-no")
"""Ways to ask: for the one label that fits, for all labels that fit in one call, or for yes or no in a call per
label.
"""

_ASKED = {
    "one": "Which of these labels fits the text best? Reply with one label and nothing else.",
    "several": "Which of these labels fit the text? Reply with all that fit, with commas between them, or with "
    f'"{NONE_OF_THEM}", and with nothing else.',
    "yes-no": "Does this label fit the text? Reply with yes or no.",
}


@dataclass(frozen=True)
class Task:
    """The labels to choose from, and the way to ask a model.

    Attributes
    ----------
    labels
        Descriptions by name. A description may be empty if the name is clear.
    way
        One of :data:`WAYS`.
    """

    labels: Mapping[str, str]
    way: str = "one"

    def __post_init__(self) -> None:
        check_choice(self.way, WAYS, "way")
        if len(self.labels) < (1 if self.multi_label else 2):
            raise InputError(f"there are {len(self.labels)} labels; at least two are needed, or one with way='several'")

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.way != "one"

    @property
    def calls(self) -> int:
        """Number of calls for a text."""
        return len(self.labels) if self.way == "yes-no" else 1

    @property
    def max_tokens(self) -> int:
        """Most tokens that a reply needs. A character is at most one token."""
        longest = max(map(len, self.labels))
        return {"one": 8 + longest, "several": 8 + sum(len(name) + 2 for name in self.labels), "yes-no": 8}[self.way]

    def prompts(self, text: str) -> Iterator[str]:
        """Return the prompts for a text.

        The part that is the same for all texts comes first, because services keep beginnings.
        """
        lines = [f"{name}: {described}" if described else name for name, described in self.labels.items()]
        if self.way == "yes-no":
            for line in lines:
                yield f"{_ASKED[self.way]}\n\nLabel: {line}\n\nText: {text}\nAnswer:"
        else:
            shown = "\n".join(f"- {line}" for line in lines)
            yield f"{_ASKED[self.way]}\n\n{shown}\n\nText: {text}\n{'Labels' if self.multi_label else 'Label'}:"

    def read(self, said: Sequence[str]) -> list[str] | None:
        """Read the labels from the replies to the prompts of a text. None if a reply says something else."""
        words = {name: (name,) for name in self.labels}
        if self.way == "several":
            return all_of(said[0], words)
        if self.way == "one":
            found = one_of(said[0], words)
            return None if found is None else [found]
        answers = [one_of(one, YES_NO) for one in said]
        if None in answers:
            return None
        return [name for name, answer in zip(self.labels, answers, strict=True) if answer == "yes"]


class PairTask(Task):
    """Asks whether a passage answers a question. The labels are those for no and for yes, in this order."""

    def prompts(self, text: str) -> Iterator[str]:
        """Return the prompt for a pair, as :meth:`text_of` writes it."""
        yield f"{ENTAILS}\n\n{text}\nAnswer:"

    def read(self, said: Sequence[str]) -> list[str] | None:
        """Read yes or no from the reply. None if it says something else."""
        answer = one_of(said[0], YES_NO)
        return None if answer is None else [list(self.labels)[answer == "yes"]]

    @staticmethod
    def text_of(question: str, passage: str) -> str:
        """Write a pair as one text."""
        return f"Question: {question}\nPassage: {passage}"
