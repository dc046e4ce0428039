"""LangChain: a router by answer type, or by a head of your own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass.integrations import shared
from semclass.integrations.langchain import PathText

try:
    from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableLambda, RunnableSerializable
    from langchain_core.runnables.base import coerce_to_runnable
    from langchain_core.runnables.utils import get_unique_config_specs
    from pydantic import ConfigDict, Field, field_validator, model_validator
except ImportError:
    import_extra("langchain_core", "langchain")  # names the extra
    raise


class SemclassRouter(RunnableSerializable[Any, Any]):
    """Hands its input on to one of several runnables, by the type of answer that the question asks for, or your labels.

    The runnable of the fine class is taken if there is one, then that of the coarse class, then the default. Its runs have
    the tag ``route:CLASS``, and in their metadata the class as ``semclass_label`` and its ``semclass_probability``.

    Attributes
    ----------
    routes
        Class, such as ``"NUM"`` or ``"NUM:date"``, or a label of the `model`, to runnable, or what LangChain makes one
        of: a function, a dict.
    default
        For all other questions, and for those that are less certain than `min_probability`.
    min_probability
        In [0, 1]; the probability that a class must have to choose its route. None keeps the limit of the `model`.
    model
        Folder that :meth:`semclass.TextClassifier.save` wrote, for labels of your own; the shipped taxonomy if None.
    input_key
        Key of the question in an input that is a mapping; an input that is a string is the question.
    models, threads, classifier
        As for :meth:`semclass.QuestionClassifier.load`, or a loaded classifier in place of paths: that one or a
        :class:`semclass.TextModel`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    routes: dict[str, Runnable]
    default: Runnable | None = None
    min_probability: float | None = Field(default=None, ge=0, le=1)
    input_key: str = "question"
    model: PathText = None
    models: PathText = None
    threads: int = Field(default=1, ge=1)
    classifier: Any = Field(default=None, exclude=True, repr=False)
    loaded: Any = Field(default_factory=shared.Lazy, exclude=True, repr=False)

    @field_validator("routes", "default", mode="before")
    @classmethod
    def _coerce(cls, value: Any, info: Any) -> Any:
        if info.field_name == "routes":
            is_table = isinstance(value, Mapping)
            return {name: coerce_to_runnable(step) for name, step in value.items()} if is_table else value
        return None if value is None else coerce_to_runnable(value)

    @model_validator(mode="after")
    def _check(self) -> SemclassRouter:
        if self.classifier is not None:
            shared.check_kind(self.classifier, (QuestionClassifier, TextModel), "classifier")
        return self

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether LangChain may write this as JSON."""
        return True

    def to_json(self) -> Any:
        """Give what LangChain writes: the fields; a loaded classifier cannot be written."""
        return self.to_json_not_implemented() if self.classifier is not None else super().to_json()

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What can be configured: what can be in the routes."""
        steps = [*self.routes.values(), *([] if self.default is None else [self.default])]
        specs: list[ConfigurableFieldSpec] = get_unique_config_specs(
            spec for step in steps for spec in step.config_specs
        )
        return specs

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and invoke it with the input; `kwargs` are for the route."""
        return self._step().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and await it."""
        return await self._step().ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Choose a route and give what it streams."""
        yield from self._step().stream(input, config, **kwargs)

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Choose a route and give what it streams."""
        async for chunk in self._step().astream(input, config, **kwargs):
            yield chunk

    def _step(self) -> RunnableLambda:
        """The choice as a runnable: LangChain runs what a function gives, with its callbacks, and streams it."""
        return RunnableLambda(self._choose, name=self.get_name())

    def _choose(self, value: Any, **kwargs: Any) -> Runnable:
        load = shared.load_classifier
        model = self.classifier or self.loaded.get(load, self.models, None, self.threads, self.model)
        shared.check_classes(model, self.routes, "routes")
        found = shared.classify(model, self._question(value), self.min_probability)
        name, probability = shared.route(found, self.routes, self.min_probability)
        step = self.routes.get(name, self.default)
        if step is None:
            best = max(found["probabilities"], key=found["probabilities"].__getitem__)
            unsure, routes = "which is below min_probability", ", ".join(map(repr, self.routes)) or "none"
            why = unsure if name == ABSTAIN else f"which has no route; routes are {routes}"
            raise InputError(f"the question asks for {best} ({found['probability']:.2f}), {why}; give a default")
        bound = step.bind(**kwargs) if kwargs else step
        return bound.with_config(
            tags=[f"route:{name if name in self.routes else 'default'}"],
            metadata={"semclass_label": name, "semclass_probability": probability},
        )

    def _question(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if self.input_key not in value:
            keys = ", ".join(map(repr, value)) or "nothing"
            raise InputError(
                f"the input has no key {self.input_key!r}, only {keys}; name the key of the question with input_key="
            )
        return value[self.input_key]
