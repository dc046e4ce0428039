"""Classifies and encodes tables in Arrow record batches, for any engine that uses such batches.

A :class:`TableJob` maps record batches to record batches. Spark's ``mapInArrow`` can call it for each partition. A job
is pickled as a few strings, and each worker process opens the models once. A text that is null, empty or not valid
UTF-8 does not stop the job. Its row has null outputs, and the reason in the column ``error``.
"""

# ruff: noqa: E402 - import_extra says how pyarrow is installed, before it is imported

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from semclass import (
    EntailmentClassifier,
    InputError,
    Models,
    PassageClassifier,
    QuestionClassifier,
    TextModel,
)
from semclass.plugins import check_choice, check_positive, import_extra, short

import_extra("pyarrow", "spark", "semclass-integrations")

import pyarrow as pa

TYPES: Mapping[str, pa.DataType] = {
    "label": pa.string(),
    "labels": pa.list_(pa.string()),
    "probability": pa.float64(),
    "probabilities": pa.map_(pa.string(), pa.float64()),
    "fine": pa.string(),
    "fine_probability": pa.float64(),
    "vector": pa.list_(pa.float32()),
}
"""Type of each output. The values are those of the classifiers' results."""

OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "questions": ("label", "probability", "fine", "fine_probability", "probabilities"),
    "passages": ("labels", "probabilities"),
    "texts": ("label", "probability", "labels", "probabilities"),
    "pairs": ("label", "probability"),
    "encode": ("vector",),
}
"""Outputs of each task. The first two are the default."""


@dataclass(frozen=True)
class TableJob:
    """A job that appends columns to record batches. Rows keep their order.

    The values of a row do not depend on partitions, batches or repeated tasks, except in the last digits of floats.

    Attributes
    ----------
    task
        ``"questions"`` appends the answer type that a question asks for, ``"passages"`` the answer types that a
        passage provides, ``"texts"`` labels of your own head, ``"pairs"`` whether a sentence answers a question, and
        ``"encode"`` vectors.
    column
        Column of the texts. For pairs, the columns of the question and of the sentence.
    models
        Folder of models, by default the shipped ``models/``. For ``"texts"``, the folder that
        :meth:`semclass.TextClassifier.save` wrote. The folder must have the same path on every worker.
    encoder
        See :meth:`semclass.Models.load`.
    outputs
        Names in ``OUTPUTS[task]``.
    prefix
        Prefix of the names of new columns.
    threads
        Threads of the encoder in each worker process.

    Raises
    ------
    InputError
        If an option is not allowed, or a column is missing or does not fit.
    ArtifactError
        If a worker does not find the models.
    """

    task: str = "questions"
    column: str | tuple[str, str] = "text"
    models: str | Path | None = None
    encoder: str | Path | None = None
    outputs: tuple[str, ...] | None = None
    prefix: str = ""
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice(self.task, tuple(OUTPUTS), "task")
        for name in self.outputs or ():
            check_choice(name, OUTPUTS[self.task], "outputs")
        check_positive(self.threads, "threads")
        if len(self._columns) != (2 if self.task == "pairs" else 1):
            raise InputError(
                f"column is {short(self.column)}; {self.task} needs {'two' if self.task == 'pairs' else 'one'}"
            )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run on the record batches of one partition. Yields an output batch for each, as :meth:`schema` describes it."""
        for batch in batches:
            schema = self.schema(batch.schema)
            yield pa.RecordBatch.from_arrays([*batch.columns, *self._new_columns(batch)], schema=schema)

    def table(self, table: pa.Table) -> pa.Table:
        """Run on a whole table, such as a partition of Ray or Dask."""
        return pa.Table.from_batches(self(table.to_batches()), self.schema(table.schema))

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the output for a schema of the input."""
        names = ", ".join(map(repr, schema.names))
        for name in self._columns:
            if schema.names.count(name) != 1:
                raise InputError(f"the table must have exactly one column {name!r}; the columns are {names}")
            if not _holds_strings(schema.field(name).type):
                raise InputError(f"column {name!r} has the type {schema.field(name).type}; name a column of strings")
        added = [*((self.prefix + name, TYPES[name]) for name in self._outputs), (self.prefix + "error", pa.string())]
        for name, _ in added:
            # Spark does not tell apart names that differ in case alone
            if name.casefold() in map(str.casefold, schema.names):
                raise InputError(f"the column {name!r} exists already, the columns are {names}; set a prefix")
        return pa.schema([*schema, *(pa.field(*field) for field in added)])

    @property
    def _columns(self) -> tuple[str, ...]:
        return (self.column,) if isinstance(self.column, str) else tuple(self.column)

    @property
    def _outputs(self) -> tuple[str, ...]:
        return OUTPUTS[self.task][:2] if self.outputs is None else self.outputs

    def _new_columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns = [_texts(batch.column(name)) for name in self._columns]
        faults = [[_fault(text, name) for text in texts] for name, texts in zip(self._columns, columns, strict=True)]
        error = [next(filter(None, row), None) for row in zip(*faults, strict=True)]
        rows = [row for row, fault in enumerate(error) if fault is None]
        items: list[Any] = [None] * batch.num_rows
        if rows:  # no models are opened for a partition without texts
            paths = tuple(None if path is None else str(path) for path in (self.models, self.encoder))
            run = _open(self.task, *paths, self.threads)
            for row, item in zip(rows, run(*([texts[row] for row in rows] for texts in columns)), strict=True):
                items[row] = item
        arrays = [pa.array([_value(item, name) for item in items], TYPES[name]) for name in self._outputs]
        return [*arrays, pa.array(error, pa.string())]


@lru_cache(maxsize=4)
def _open(task: str, models: str | None, encoder: str | None, threads: int) -> Callable[..., Iterable[Any]]:
    """Open the models of a task, once for each process. The function takes a list of texts for each column."""
    if task == "texts":
        if models is None:
            raise InputError("the task 'texts' needs models=FOLDER, the folder that TextClassifier.save wrote")
        return TextModel.load(models, encoder=encoder, threads=threads).classify
    if task == "encode":
        all_models = Models.load(models, encoder=encoder, threads=threads)
        return lambda texts: all_models.encoder.encode(texts, views=("pooled",)).rows("pooled")
    kinds: dict[str, Any] = {
        "questions": QuestionClassifier,
        "passages": PassageClassifier,
        "pairs": EntailmentClassifier,
    }
    used = None if encoder is None else Models.load(models, encoder=encoder, threads=threads).encoder
    model = kinds[task].load(models, encoder=used, threads=threads)
    if task == "pairs":
        return lambda questions, sentences: model.classify(zip(questions, sentences, strict=True))
    classify: Callable[..., Iterable[Any]] = model.classify
    return classify


def _value(item: Any, name: str) -> Any:
    """Return the value of an output for one text."""
    if item is None or name == "vector":
        return item
    value = getattr(item, name)
    if name == "probabilities":
        return [(str(label), probability) for label, probability in value.items()]
    return [str(label) for label in value] if name == "labels" else str(value) if name == "label" else value


def _holds_strings(kind: pa.DataType) -> bool:
    """Whether a column may contain texts. A column with only nulls may."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def _texts(column: pa.Array) -> list[str | bytes | None]:
    """Return the texts of a column: strings, None for nulls, and bytes for texts that are not valid UTF-8."""
    try:
        texts: list[str | bytes | None] = column.to_pylist()
    except UnicodeDecodeError:  # Spark and Parquet let any bytes pass as a string
        return [_decoded(item) for item in column.cast(pa.large_binary()).to_pylist()]
    return texts


def _decoded(item: bytes | None) -> str | bytes | None:
    try:
        return None if item is None else item.decode()
    except UnicodeDecodeError:
        return item


def _fault(text: str | bytes | None, name: str) -> str | None:
    """Reason why a text of a column has no outputs."""
    if text is None:
        return f"{name} is null"
    if isinstance(text, bytes):
        return f"{name} is not valid UTF-8"
    return None if text.strip() else f"{name} is empty"
