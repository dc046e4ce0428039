"""What a language model is asked of a text: labels with their names and descriptions, in three ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from semclass.core.checks import check_choice
from semclass.core.errors import InputError
from semclass.endpoint.reading import NONE_OF_THEM, YES_NO, all_of, one_of

WAYS = ("one", "several", "yes-no")
"""The one label that fits; all that fit, in one call; or yes and no, in a call for each label."""

_ASKED = {
    "one": "Which of these labels fits the text best? Reply with one label and nothing else.",
    "several": "Which of these labels fit the text? Reply with all that fit, with commas between them, or with "
    f'"{NONE_OF_THEM}", and with nothing else.',
    "yes-no": "Does this label fit the text? Reply with yes or no.",
}


@dataclass(frozen=True)
class Task:
    """Labels to choose from, and how a model is asked.

    Attributes
    ----------
    labels
        Descriptions by name; empty where the name says it all.
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
        """Calls for a text."""
        return len(self.labels) if self.way == "yes-no" else 1

    @property
    def max_tokens(self) -> int:
        """Tokens that a reply may need; a character is a token at most."""
        longest = max(map(len, self.labels))
        return {"one": 8 + longest, "several": 8 + sum(len(name) + 2 for name in self.labels), "yes-no": 8}[self.way]

    def prompts(self, text: str) -> Iterator[str]:
        """What is asked of a text; what is the same for all texts comes first, as services keep beginnings."""
        lines = [f"{name}: {described}" if described else name for name, described in self.labels.items()]
        if self.way == "yes-no":
            for line in lines:
                yield f"{_ASKED[self.way]}\n\nLabel: {line}\n\nText: {text}\nAnswer:"
        else:
            shown = "\n".join(f"- {line}" for line in lines)
            yield f"{_ASKED[self.way]}\n\n{shown}\n\nText: {text}\n{'Labels' if self.multi_label else 'Label'}:"

    def read(self, said: Sequence[str]) -> list[str] | None:
        """Labels by the replies to the prompts of a text; None if one of these says something else."""
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
