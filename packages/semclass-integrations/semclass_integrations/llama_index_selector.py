"""Provides a selector for LlamaIndex that chooses tools and query engines by answer type."""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semclass.core.checks import check_choice, check_probability, check_texts, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.taxonomy import coarse_of
from semclass.core.tools import in_thread
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass_integrations import shared

import_extra("llama_index.core", "llama-index")

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata


class SemclassSelector(BaseSelector):
    """Chooses among tools or query engines by the type of answer that a question asks for, without a language model.

    Parameters
    ----------
    classes
        The question classes of each tool, coarse (``"NUM"``) or fine (``"NUM:date"``). Use the tool's name as the key,
        or its description if the tool has no name. The probability of a tool is the sum over its classes.
    default
        Name of the tool for all other questions. Its probability is the sum over all classes that no other tool has. It
        is also chosen if no tool reaches `min_probability`.
    min_probability
        Least calibrated probability of a tool, in [0, 1]. At 0.8, about 80 % of the choices or more are right.
    classifier
        A question classifier, or a :class:`semclass.TextModel` with one class per text and no fine classes. Defaults to
        the shipped classifier.
    """

    def __init__(
        self,
        classes: Mapping[str, str | Sequence[str]],
        *,
        default: str | None = None,
        min_probability: float = 0.0,
        classifier: QuestionClassifier | TextModel | None = None,
    ) -> None:
        self._least = check_probability(min_probability, "min_probability")
        if self._least and default is None:
            raise InputError("min_probability needs default, the tool to choose below this probability")
        self._classifier = shared.load_classifier(None, None, 1) if classifier is None else classifier
        if not isinstance(classes, Mapping):
            raise InputTypeError(f'classes must be a mapping such as {{"figures": ["NUM"]}}, not {short(classes)}')
        given = {name: [each] if isinstance(each, str) else each for name, each in classes.items()}
        self._finest = _finest_classes(given, _known_classes(self._classifier), default)
        self._purpose = {name: ", ".join(each) for name, each in given.items()}
        self._purpose |= {} if default is None else {default: "all else"}
        self._default = default
        super().__init__()

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        """There are none."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        names = self._names(choices)
        found = shared.classify(self._classifier, query.query_str, None)
        chances = found.get("fine_probabilities", found["probabilities"])
        shares = [sum(chances[each] for each in self._finest[name]) for name in names]
        place = max(range(len(names)), key=shares.__getitem__)
        if shares[place] < self._least and self._default is not None:
            place = names.index(self._default)
        likely = max(chances, key=chances.__getitem__)
        reason = (
            f"the question asks for {likely} (probability {chances[likely]:.2f}); "
            f"{names[place]!r} is for {self._purpose[names[place]]} ({shares[place]:.2f})"
        )
        return SelectorResult(selections=[SingleSelection(index=place, reason=reason)])

    _aselect = in_thread(_select)

    def _names(self, choices: Sequence[ToolMetadata]) -> list[str]:
        """Name the choices, each of which has its classes."""
        names = [choice.name or choice.description for choice in choices]
        if sorted(names) != sorted(self._finest):
            raise InputError(f"the tools are {short(names)}, but classes has {short(list(self._finest))}")
        return names


def _finest_classes(
    classes: Mapping[str, Sequence[str]], known: Mapping[str, tuple[str, ...]], default: str | None
) -> dict[str, tuple[str, ...]]:
    """Give the finest classes that each tool is for; the default is for those that no other is for."""
    found: dict[str, tuple[str, ...]] = {}
    for name, given in classes.items():
        for each in check_texts(given, f"classes[{name!r}]"):
            check_choice(each, tuple(known), f"classes[{name!r}]")
        found[name] = tuple(dict.fromkeys(fine for each in given for fine in known[each]))
    if default is not None:
        if default in found:
            raise InputError(f"the default {default!r} is also in classes; leave it out there, or name another default")
        taken = {fine for each in found.values() for fine in each}
        every = dict.fromkeys(fine for each in known.values() for fine in each)
        found[default] = tuple(fine for fine in every if fine not in taken)
    if not found:
        raise InputError("classes is empty; give at least one tool, or a default")
    return found


def _known_classes(classifier: QuestionClassifier | TextModel) -> dict[str, tuple[str, ...]]:
    """Give the finest classes that each class of a classifier consists of."""
    if isinstance(classifier, QuestionClassifier):
        fine = classifier.fine_classes
        broad = {name: tuple(each for each in fine if coarse_of(each) == name) for name in classifier.classes}
        return {**broad, **{name: (name,) for name in fine}}
    shared.check_kind(classifier, TextModel, "classifier")
    if classifier.multi_label:
        raise InputError("this classifier gives several classes per text; give a classifier with one class per text")
    return {str(name): (str(name),) for name in classifier.classes}
