"""Provides a router for LangChain, by answer type or by a head of your own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass_integrations import shared
from semclass_integrations.langchain import PathText

try:
    from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableLambda, RunnableSerializable
    from langchain_core.runnables.base import coerce_to_runnable
    from langchain_core.runnables.utils import get_unique_config_specs
    from pydantic import ConfigDict, Field, field_validator, model_validator
except ImportError:
    import_extra("langchain_core", "langchain")  # names the extra
    raise


class SemclassRouter(RunnableSerializable[Any, Any]):
    """Passes its input to one of several runnables, chosen by the answer type of the question, or by your labels.

    It chooses the runnable of the fine class, or else the runnable of the coarse class, or else the default. Runs get
    the tag ``route:CLASS``, and the metadata ``semclass_label`` (the class) and ``semclass_probability``.

    Attributes
    ----------
    routes
        Runnables by class, such as ``"NUM"`` or ``"NUM:date"``, or by label of the `model`. LangChain also makes
        runnables from functions and dicts.
    default
        Runnable for all other questions, and for classes below `min_probability`.
    min_probability
        Least probability of a class for its route, in [0, 1]. Defaults to the limit of the `model`.
    model
        Folder that :meth:`semclass.TextClassifier.save` wrote, for your own labels. Defaults to the shipped taxonomy.
    input_key
        Key of the question if the input is a mapping. If the input is a string, the string is the question.
    models, threads, classifier
        See :meth:`semclass.QuestionClassifier.load`. In place of paths, you can give a loaded
        :class:`semclass.QuestionClassifier` or :class:`semclass.TextModel`.
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
        """Whether LangChain may write the object as JSON."""
        return True

    def to_json(self) -> Any:
        """Return the fields for LangChain to write. A loaded classifier cannot be written."""
        return self.to_json_not_implemented() if self.classifier is not None else super().to_json()

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The configurable fields of all routes."""
        steps = [*self.routes.values(), *([] if self.default is None else [self.default])]
        specs: list[ConfigurableFieldSpec] = get_unique_config_specs(
            spec for step in steps for spec in step.config_specs
        )
        return specs

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and invoke it with the input. `kwargs` go to the route."""
        return self._step().invoke(input, config, **kwargs)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
        """Choose a route and await it."""
        return await self._step().ainvoke(input, config, **kwargs)

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: A002
        """Choose a route and stream its output."""
        yield from self._step().stream(input, config, **kwargs)

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Choose a route and stream its output."""
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
            why = unsure if name == ABSTAIN else f"which has no route; the routes are {routes}"
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
