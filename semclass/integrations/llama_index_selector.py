"""LlamaIndex: a selector that chooses tools and query engines by answer type."""

# ruff: noqa: E402 - import_extra says how LlamaIndex is installed, before it is imported

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semclass.core.asynchronous import in_thread
from semclass.core.checks import check_probability, check_text, check_texts, short
from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.core.taxonomy import coarse_of
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass.integrations import shared

import_extra("llama_index.core", "llama-index")

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata


class SemclassSelector(BaseSelector):
    """Chooses among tools or query engines by the type of answer that a question asks for, without a language model.

    Parameters
    ----------
    classes
        The classes of questions that each tool is for, coarse (``"NUM"``) or fine (``"NUM:date"``), by the tool's name, or
        by its description where it has none. A tool is as probable as its classes together.
    default
        Name of the tool for all other questions: it is as probable as all classes that no tool is for, and chosen where no
        tool has `min_probability`.
    min_probability
        In [0, 1]. Least probability of a tool, of calibrated ones: at 0.8, about 80 % of the choices or more are right.
    multi
        Whether to choose every tool that has `min_probability`, the most probable first, and the most probable alone, or
        the default, where none has. Otherwise the most probable one; of equals, the first.
    classifier
        Classifies questions: the shipped one if None, or a :class:`semclass.TextModel` of one class a text, which has
        no fine classes.

    Raises
    ------
    InputError, InputTypeError
        If a class is not known, or an option is not allowed.
    """

    def __init__(
        self,
        classes: Mapping[str, str | Sequence[str]],
        *,
        default: str | None = None,
        min_probability: float = 0.0,
        multi: bool = False,
        classifier: QuestionClassifier | TextModel | None = None,
    ) -> None:
        self._least = check_probability(min_probability, "min_probability")
        if multi and not self._least:
            raise InputError("multi chooses every tool that has min_probability; give one above 0, such as 0.2")
        if self._least and not multi and default is None:
            raise InputError("min_probability is given without default; name the tool that is chosen where none has it")
        self._classifier = shared.load_classifier(None, None, 1) if classifier is None else classifier
        self._fine = _fine_classes(classes, _known_classes(self._classifier), default)
        self._said = {name: ", ".join([given] if isinstance(given, str) else given) for name, given in classes.items()}
        self._said |= {} if default is None else {default: "all else"}
        self._default = default
        self._multi = multi
        super().__init__()

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        """There are none."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        names = self._names(choices)
        chances = _probabilities(self._classifier, query.query_str)
        shares = [sum(chances[fine] for fine in self._fine[name]) for name in names]
        order = sorted(range(len(names)), key=lambda place: -shares[place])
        sure = [place for place in order if shares[place] >= self._least]
        if sure:
            chosen = sure if self._multi else sure[:1]
        else:
            chosen = order[:1] if self._default is None else [names.index(self._default)]
        likely = max(chances, key=chances.__getitem__)
        asked = f"the question asks for {likely} (probability {chances[likely]:.2f})"
        return SelectorResult(
            selections=[
                SingleSelection(
                    index=place,
                    reason=f"{asked}; {names[place]!r} is for {self._said[names[place]]} ({shares[place]:.2f})",
                )
                for place in chosen
            ]
        )

    _aselect = in_thread(_select)

    def _names(self, choices: Sequence[ToolMetadata]) -> list[str]:
        """Name the choices, and see that each has its classes."""
        names = [choice.name or choice.description for choice in choices]
        if len(set(names)) < len(names):
            raise InputError(
                f"two choices have the same name: {short(sorted(names))}; give each tool a name of its own"
            )
        if missing := [name for name in names if name not in self._fine]:
            raise InputError(
                f"no classes are given for the choice {missing[0]!r}; give it some, or make it the default"
            )
        if absent := [name for name in self._fine if name not in names]:
            raise InputError(f"classes are given for {absent[0]!r}, but the choices are {short(names)}")
        return names


def _fine_classes(
    classes: Mapping[str, str | Sequence[str]], known: Mapping[str, tuple[str, ...]], default: str | None
) -> dict[str, tuple[str, ...]]:
    """Give the fine classes that each tool is for; the default is for those that no other is for."""
    if not isinstance(classes, Mapping):
        raise InputTypeError(f'classes must be a mapping such as {{"figures": ["NUM"]}}, not {short(classes)}')
    found: dict[str, tuple[str, ...]] = {}
    for name, given in classes.items():
        check_text(name, "the name of a tool")
        wanted = check_texts([given] if isinstance(given, str) else given, f"classes[{name!r}]")
        if unknown := [each for each in wanted if each not in known]:
            raise InputError(f"classes[{name!r}] has {unknown[0]!r}; it must be one of {', '.join(known)}")
        found[name] = tuple(dict.fromkeys(fine for each in wanted for fine in known[each]))
    if default is not None:
        if default in found:
            raise InputError(f"the default {default!r} has classes of its own; leave them out, or name another default")
        taken = {fine for each in found.values() for fine in each}
        every = dict.fromkeys(fine for each in known.values() for fine in each)
        found[check_text(default, "default")] = tuple(fine for fine in every if fine not in taken)
    if not found:
        raise InputError("no tool has classes; give at least one, or a default")
    return found


def _known_classes(classifier: QuestionClassifier | TextModel) -> dict[str, tuple[str, ...]]:
    """Give the finest classes that each class of a classifier consists of."""
    if isinstance(classifier, TextModel):
        if classifier.thresholds is not None:
            raise InputError(
                "the classifier gives several classes a text; take one that gives one, to choose a tool by"
            )
        return {str(name): (str(name),) for name in classifier.classes}
    if not isinstance(classifier, QuestionClassifier):
        raise InputTypeError(
            f"classifier must be a semclass.QuestionClassifier or semclass.TextModel, not {short(classifier)}"
        )
    fine = classifier.fine_classes
    broad = {name: tuple(each for each in fine if coarse_of(each) == name) for name in classifier.classes}
    return {**broad, **{name: (name,) for name in fine}}


def _probabilities(classifier: QuestionClassifier | TextModel, question: str) -> dict[str, float]:
    """Give the probability of each of the finest classes."""
    check_text(question, "question")
    if isinstance(classifier, TextModel):
        return {str(name): chance for name, chance in classifier.predict([question])[0].probabilities.items()}
    return dict(classifier.predict([question])[0].fine_probabilities)
