"""Components for Haystack 3 (extra ``haystack``) that route or classify queries by the type of answer they ask for.

They follow the conventions in :mod:`semclass_integrations.haystack`.
"""

# ruff: noqa: E402 - import_extra says how Haystack is installed, before it is imported

from __future__ import annotations

from pathlib import Path
from typing import Any

from semclass.core.checks import check_probability, check_texts, check_unique
from semclass.core.errors import InputError, import_extra
from semclass.core.taxonomy import ABSTAIN, COARSE
from semclass.core.tools import in_thread
from semclass.heads.questions import QuestionClassifier
from semclass.heads.texts import TextModel
from semclass_integrations import shared

import_extra("haystack", "haystack")

from haystack import component

from semclass_integrations.haystack import HaystackComponent

UNMATCHED = "unmatched"  # output for queries that go to no other, as Haystack's own routers call it


class _Classifying(HaystackComponent):
    """A component that classifies queries."""

    def _take_classifier(self, model: str | Path | None, min_probability: float | None) -> None:
        self.model = shared.path_text(model, "model")
        self.min_probability = (
            None if min_probability is None else check_probability(min_probability, "min_probability")
        )

    def _model(self) -> QuestionClassifier | TextModel:
        return self._loaded.get(shared.load_classifier, self.models, self.encoder, self.threads, self.model)


@component
class SemclassQueryRouter(_Classifying):
    """Sends a query to the output of its class. Other queries go to the output ``unmatched``.

    Parameters
    ----------
    classes
        Names of the outputs, which are coarse and fine classes of the shipped taxonomy, such as ``["NUM:date", "NUM",
        "HUM"]``. A query goes to its fine class if this class has an output, or else to its coarse class. Defaults to
        the six coarse classes.
    model
        Folder that :meth:`semclass.TextClassifier.save` wrote, for labels of your own. If you give a model, `classes`
        is required.
    min_probability
        Least probability of a query's class, in [0, 1]. Below it, the query goes to ``unmatched``. Defaults to the
        limit of the `model`.
    models, encoder, threads
        Folder of the shipped taxonomy's heads, their encoder, and the threads of the encoder. See
        :meth:`semclass.Models.load`.
    """

    def __init__(
        self,
        classes: list[str] | None = None,
        *,
        model: str | Path | None = None,
        min_probability: float | None = None,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
    ) -> None:
        self._take_models(models, encoder, threads)
        self._take_classifier(model, min_probability)
        if classes is None and model is not None:
            raise InputError(f"give classes=[...]: the classes of {model} that get an output each")
        self.classes = list(COARSE) if classes is None else check_texts(classes, "classes")
        check_unique(self.classes, "class")
        if reserved := {UNMATCHED, ABSTAIN}.intersection(self.classes):
            raise InputError(
                f"classes has the reserved name {min(reserved)!r}; queries without a class go to {UNMATCHED!r}"
            )
        component.set_output_types(self, **dict.fromkeys([*self.classes, UNMATCHED], str))

    def run(self, query: str) -> dict[str, str]:
        """Return a non-empty query under the name of one output."""
        found = shared.classify(self._model(), query, self.min_probability)
        name, _ = shared.route(found, self.classes, self.min_probability)
        return {name if name in self.classes else UNMATCHED: query}

    run_async = in_thread(run, name="run_async")

    def _model(self) -> QuestionClassifier | TextModel:
        found = _Classifying._model(self)
        shared.check_classes(found, self.classes, "classes")
        return found


@component
class SemclassQueryClassifier(_Classifying):
    """Classifies a query by the type of answer it asks for, with calibrated probabilities.

    Use its outputs in conditions of a ``ConditionalRouter``, or in a prompt.

    Parameters
    ----------
    model
        See :class:`SemclassQueryRouter`. Such a model has no fine classes. Defaults to the shipped taxonomy.
    min_probability
        Least probability of the label, in [0, 1]. Below it, the label is ``"ABSTAIN"``. Defaults to the limit of the
        `model`.
    models, encoder, threads
        See :class:`SemclassQueryRouter`.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        min_probability: float | None = None,
        models: str | Path | None = None,
        encoder: str | Path | None = None,
        threads: int = 1,
    ) -> None:
        self._take_models(models, encoder, threads)
        self._take_classifier(model, min_probability)
        outputs: dict[str, Any] = {"label": str, "probability": float, "probabilities": dict[str, float]}
        fine = {f"fine_{name}": kind for name, kind in outputs.items()} if model is None else {}
        component.set_output_types(self, **outputs, **fine)

    def run(self, query: str) -> dict[str, Any]:
        """Return ``label``, ``probability`` and ``probabilities``.

        With the shipped taxonomy, the result also holds ``fine_label`` and so on.
        """
        return shared.classify(self._model(), query, self.min_probability)

    run_async = in_thread(run, name="run_async")
