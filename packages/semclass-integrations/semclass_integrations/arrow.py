"""Classifies and encodes tables in Arrow record batches, for any engine that uses such batches (extra ``spark``).

A :class:`Job` maps Arrow record batches to record batches. Spark's ``mapInArrow`` calls the job for each partition; Ray
Data and Dask need one more line. A job is pickled as a few strings, and each worker process opens the models once. A
text that is null, empty or not valid UTF-8 has null outputs, and its row has the reason in the column ``error``. The
column is null in all other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from semclass.core.artifacts import models_folder
from semclass.core.checks import check_choice, check_positive, check_probability, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError, import_extra
from semclass.encoders.batching import quietly
from semclass.heads.texts import HUB
from semclass_integrations.arrow_models import Heads, identity_of, open_model, values_of

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = import_extra("pyarrow", "spark")

TYPES: Mapping[str, tuple[str, pa.DataType]] = {
    "label": ("string", pa.string()),
    "labels": ("array<string>", pa.list_(pa.string())),
    "probability": ("double", pa.float64()),
    "probabilities": ("map<string,double>", pa.map_(pa.string(), pa.float64())),
    "fine": ("string", pa.string()),
    "fine_probability": ("double", pa.float64()),
    "fine_probabilities": ("map<string,double>", pa.map_(pa.string(), pa.float64())),
    "vector": ("array<float>", pa.list_(pa.float32())),
    "asked": ("string", pa.string()),
    "truncated": ("boolean", pa.bool_()),
    "error": ("string", pa.string()),
}
"""Type of each output, for Spark and for Arrow. ``error`` is the reason why a row has no outputs."""

OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "questions": (
        "label",
        "probability",
        "fine",
        "fine_probability",
        "probabilities",
        "fine_probabilities",
        "asked",
        "truncated",
    ),
    "passages": ("labels", "probabilities", "truncated"),
    "texts": ("label", "probability", "labels", "probabilities", "truncated"),
    "pairs": ("label", "probability"),
    "encode": ("vector", "truncated"),
}
"""Possible outputs of each task, with the names and values of the classifiers' results."""

DEFAULTS = {task: names[:1] if task == "encode" else names[:2] for task, names in OUTPUTS.items()}
"""Default outputs of each task."""


@dataclass(frozen=True)
class Job:
    """A function from record batches to record batches. :func:`classify_job` makes it.

    Rows keep their order. The values of a row do not depend on an engine's partitions, batches or repeated tasks, except
    for the last digits of a float.
    """

    task: str  #: a key of :data:`OUTPUTS`
    columns: tuple[str, ...]  #: columns of the texts: one, or two for pairs
    keep: tuple[str, ...] | None  #: columns to copy, in this order; None for all
    outputs: tuple[str, ...]  #: some of ``OUTPUTS[task]``
    prefix: str
    models: str | None
    encoder: str | None
    identity: str  #: SHA-256 of the models' manifests; a sentence-transformers model has none
    min_probability: float | None
    threads: int
    heads: Heads = ()  #: names and folders of several heads for ``"texts"``, in place of `models`

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run on the record batches of one partition, with one schema; yields one batch for each, with :meth:`schema`.

        Missing, damaged or other models than those of the job are an ``ArtifactError``; columns that do not fit are an
        ``InputError``.
        """
        for batch in batches:
            schema = self.schema(batch.schema)
            kept = [batch.column(name) for name in self.kept(batch.schema.names)]
            yield pa.RecordBatch.from_arrays([*kept, *self._added(batch)], schema=schema)

    def table(self, table: pa.Table) -> pa.Table:
        """Run on a whole table, such as a partition of Ray or Dask."""
        return pa.Table.from_batches(self(table.to_batches()), self.schema(table.schema))

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the output for a schema of the input: the kept columns, then the added columns."""
        kept = [schema.field(name) for name in self.kept(schema.names)]
        for name in self.columns:
            if not _holds_strings(schema.field(name).type):
                raise InputError(f"column {name!r} holds {schema.field(name).type}; give a column of strings")
        return pa.schema([*kept, *(pa.field(name, TYPES[output][1]) for name, output in self.added.items())])

    @property
    def added(self) -> dict[str, str]:
        """The added columns, as keys of :data:`TYPES` by column name."""
        return {self.prefix + name: output for name, output in (*self._values.items(), ("error", "error"))}

    @property
    def _values(self) -> dict[str, str]:
        """Keys of :data:`TYPES` by the names of the outputs: those of several heads have the head's name before them."""
        if not self.heads:
            return {output: output for output in self.outputs}
        own = {f"{head}_{output}": output for head, _ in self.heads for output in self.outputs if output != "truncated"}
        return own | ({"truncated": "truncated"} if "truncated" in self.outputs else {})

    @property
    def ddl(self) -> str:
        """The added columns as a schema of Spark, such as ``"label string, probability double, error string"``."""
        return ", ".join(f"{quoted(name)} {TYPES[output][0]}" for name, output in self.added.items())

    def kept(self, names: Sequence[str]) -> Sequence[str]:
        """Check all column names, and return the names of the columns to copy."""
        kept = names if self.keep is None else self.keep
        for name in (*self.columns, *kept):
            if list(names).count(name) != 1:
                missing = f"there is no column {name!r}; the columns are {', '.join(map(repr, names))}"
                raise InputError(f"column {name!r} comes twice" if name in names else missing)
        # Spark does not tell apart names that differ in case alone
        taken = {name.casefold() for name in kept}
        for name in self.added:
            if name.casefold() in taken:
                raise InputError(
                    f"the output column {name!r} exists in the input already: leave it out of `keep`, or give a "
                    "`prefix` for the output columns"
                )
        return kept

    def _added(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The added columns of a batch."""
        columns: list[list[Any]] = [_texts_of(batch.column(name)) for name in self.columns]
        faults = [[_fault_of(text, name) for text in texts] for name, texts in zip(self.columns, columns, strict=True)]
        error = [next(filter(None, each), None) for each in zip(*faults, strict=True)]
        rows = [row for row, fault in enumerate(error) if fault is None]
        # no models are opened where there is nothing to classify
        values = self._run([[texts[row] for row in rows] for texts in columns]) if rows else {}
        arrays = []
        for name, output in self._values.items():
            spread: list[Any] = [None] * batch.num_rows
            for row, value in zip(rows, values.get(name, ()), strict=True):
                spread[row] = value
            arrays.append(pa.array(spread, TYPES[output][1]))
        return [*arrays, pa.array(error, pa.string())]

    def _run(self, columns: list[list[str]]) -> dict[str, list[Any]]:
        """Outputs of valid texts."""
        if identity_of(self.task, self.models, self.encoder, self.heads) != self.identity:
            where = ", ".join(folder for _, folder in self.heads) or models_folder(self.models)
            raise ArtifactError(
                f"the models in {where} differ from the models of the job: install the same version of semclass, and the "
                "same models, on every machine"
            )
        model = open_model(
            self.task, self.models, self.encoder, self.threads, self.min_probability, self.identity, self.heads
        )
        flagged = "truncated" in self.outputs
        items, cut = quietly(lambda: model(*columns)) if flagged else (model(*columns), [])
        parts = {f"{head}_": found for head, found in items.items()} if self.heads else {"": items}
        values = {
            before + name: column
            for before, found in parts.items()
            for name, column in values_of(found, self.outputs).items()
        }
        return values | ({"truncated": np.isin(np.arange(len(columns[0])), cut).tolist()} if flagged else {})


def classify_job(
    what: str = "questions",
    *,
    column: str | Sequence[str] | None = None,
    models: str | Path | None = None,
    heads: Mapping[str, str | Path] | None = None,
    encoder: str | Path | None = None,
    keep: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    prefix: str = "",
    min_probability: float | None = None,
    threads: int = 1,
) -> Job:
    """Make a job that classifies or encodes the texts of a column.

    This call opens the models once, so that their errors show here.

    Parameters
    ----------
    what
        The task. ``"questions"`` gives the answer type that a question asks for, ``"passages"`` the answer types that a
        passage provides, ``"texts"`` labels of your own head, ``"pairs"`` whether a sentence answers a question, and
        ``"encode"`` vectors.
    column
        The column of the texts, by default ``"text"``. For pairs, the columns of question and sentence, by default
        ``("question", "sentence")``.
    models
        Folder with the layout of the shipped ``models/``. Defaults to the shipped models. For ``"texts"``, give the
        folder that :meth:`semclass.TextClassifier.save` wrote. The folder must be at the same path on every machine.
    heads
        For ``"texts"``, you can give several such folders by name, in place of `models`. The texts are encoded once for
        all folders. Outputs get the name as a prefix: ``topic_label``, ``topic_probability``.
    encoder
        Folder of an exported encoder, ``"hub:NAME"`` or ``"hub:FOLDER"``. Defaults to the encoder of the models.
    keep
        Columns to copy. If None, all columns are copied.
    outputs
        Outputs to add, among ``OUTPUTS[what]``. Defaults to ``DEFAULTS[what]``.
    prefix
        Prefix of the names of the added columns.
    min_probability
        For questions and texts, in [0, 1]. If the best class is less probable, the label is ``semclass.ABSTAIN``.
    threads
        Threads of the encoder in each worker process. Engines run as many tasks as there are processors, so 1 is best.

    Raises
    ------
    InputError, InputTypeError, ArtifactError
        If an argument is not allowed, or the models are missing, damaged, or trained for another encoder.
    """
    check_choice(what, tuple(OUTPUTS), "what")
    if heads is not None and (what != "texts" or models is not None or not heads):
        raise InputError("heads need what='texts', no models, and at least one head, such as {'topic': 'my-head'}")
    if what == "texts" and models is None and heads is None:
        raise InputError(
            "what='texts' needs a trained head: set `models` to the folder that TextClassifier.save wrote, or give "
            "several such folders as `heads`"
        )
    if min_probability is not None:
        if what not in ("questions", "texts"):
            raise InputError(f"min_probability applies to questions and texts, not to {what}; leave it out")
        check_probability(min_probability, "min_probability")
    usual = ("question", "sentence") if what == "pairs" else ("text",)
    columns = usual if column is None else (column,) if isinstance(column, str) else _names(column, "column")
    if len(columns) != len(usual):
        raise InputError(f"column has {len(columns)} names, {short(columns)}; {what} needs {len(usual)}")
    wanted = DEFAULTS[what] if outputs is None else _names(outputs, "outputs")
    for name in wanted:
        check_choice(name, OUTPUTS[what], "outputs")
    if len(set(wanted)) < len(wanted) or not wanted:
        raise InputError(f"outputs is {short(wanted)}; name at least one output, and each only once")
    if not isinstance(prefix, str):
        raise InputTypeError(f"prefix must be a string, not {type(prefix).__name__}")
    # workers have working directories of their own
    where = None if models is None else str(models_folder(models).absolute())
    own = tuple((name, str(Path(folder).absolute())) for name, folder in (heads or {}).items())
    used = None if encoder is None else str(encoder)
    if used is not None and not used.startswith(HUB):
        used = str(Path(used).absolute())
    job = Job(
        task=what,
        columns=columns,
        keep=None if keep is None else _names(keep, "keep"),
        outputs=wanted,
        prefix=prefix,
        models=where,
        encoder=used,
        identity=identity_of(what, where, used, own),
        min_probability=min_probability,
        threads=check_positive(threads, "threads"),
        heads=own,
    )
    open_model(what, where, used, job.threads, min_probability, job.identity, own)
    return job


def quoted(name: str) -> str:
    """Return a name as it is written in a schema of Spark."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def _names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Copy names of columns; one bare string is refused, as it is a common slip."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InputTypeError(f"{argument} must be a list of column names, not {short(names)}")
    for name in (found := tuple(names)):
        if not isinstance(name, str):
            raise InputTypeError(f"{argument} must be a list of strings, but holds {short(name)}")
    return found


def _holds_strings(kind: pa.DataType) -> bool:
    """Whether a column may hold texts; one of nulls alone may."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def _texts_of(column: pa.Array) -> list[str | bytes | None]:
    """Texts of a column: strings, None for nulls, and bytes where a text is not valid UTF-8."""
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


def _fault_of(text: str | bytes | None, name: str) -> str | None:
    """What is wrong with a text of a column, if anything."""
    if text is None:
        return f"{name} is null"
    if isinstance(text, bytes):
        return f"{name} is not valid UTF-8"
    return None if text.strip() else f"{name} is empty"
