"""Classifying and encoding tables that are cut into record batches, for any engine that does so (extra ``spark``).

A :class:`Job` takes an iterator of Arrow record batches and gives an iterator of record batches: what Spark's
``mapInArrow`` calls for each partition, and what Ray Data and Dask come to with one line. It is pickled as the few strings
that it holds; the models are opened where the rows are, once for each worker process, from a folder that must be there.
Whether it holds the same models as the folder that the job was made with is checked by their manifests.

One bad row among millions stops nothing: a text that is null, empty or not valid UTF-8 has null outputs, and the column
``error`` says why. It is null in all other rows.

Importing this module without pyarrow raises the error that names the extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semclass.core.checks import check_choice, check_positive, check_probability, short
from semclass.core.errors import ArtifactError, InputError, InputTypeError, import_extra
from semclass.encoders.batching import quietly
from semclass.heads.texts import HUB
from semclass.integrations.arrow_columns import EXTRA, array_of, arrow_type, fault_of, holds_strings, texts_of
from semclass.integrations.arrow_models import Values, identity_of, models_root, open_model

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = import_extra("pyarrow", EXTRA)

OUTPUTS: Mapping[str, Mapping[str, str]] = {
    "questions": {
        "label": "string",
        "probability": "double",
        "fine": "string",
        "fine_probability": "double",
        "probabilities": "map<string,double>",
        "fine_probabilities": "map<string,double>",
        "truncated": "boolean",
    },
    "passages": {"labels": "array<string>", "probabilities": "map<string,double>", "truncated": "boolean"},
    "texts": {
        "label": "string",
        "probability": "double",
        "labels": "array<string>",
        "probabilities": "map<string,double>",
        "truncated": "boolean",
    },
    "pairs": {"label": "string", "probability": "double"},
    "encode": {"vector": "array<float>", "truncated": "boolean"},
}
"""What each task can give, with its type in Spark's words; named and computed as in the results of the classifiers."""

DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "questions": ("label", "probability"),
    "passages": ("labels", "probabilities"),
    "texts": ("label", "probability"),
    "pairs": ("label", "probability"),
    "encode": ("vector",),
}
"""What each task gives if nothing else is asked for."""

ERROR = "error"
"""Column that says why a row has no outputs."""


@dataclass(frozen=True)
class Job:
    """A function from record batches to record batches; made by :func:`classify_job` or :func:`encode_job`.

    The rows come out in the order in which they went in, one for one, batch by batch, so nothing that an engine does with
    partitions, batches and tasks that are tried again changes what a row gets, but for the last digits of a float.

    Attributes
    ----------
    task
        A key of :data:`OUTPUTS`.
    columns
        Columns that hold the texts: one, or two for pairs.
    keep
        Columns to copy, in this order; None for all.
    outputs
        Keys of ``OUTPUTS[task]``.
    prefix
        What the names of the added columns begin with.
    models, encoder
        As in :func:`classify_job`.
    identity
        SHA-256 over the models' manifests. A sentence-transformers model has none: heads know theirs by its weights, but
        nothing compares the vectors of :func:`encode_job` between machines.
    min_probability
        As in :func:`classify_job`.
    threads
        Threads of the encoder in each worker process.
    """

    task: str
    columns: tuple[str, ...]
    keep: tuple[str, ...] | None
    outputs: tuple[str, ...]
    prefix: str
    models: str | None
    encoder: str | None
    identity: str
    min_probability: float | None
    threads: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run on the record batches of one partition.

        Parameters
        ----------
        batches
            Any number of record batches of one schema, which holds the columns that are read and kept.

        Yields
        ------
        pyarrow.RecordBatch
            One for each that comes in, of the schema that :meth:`schema` gives.

        Raises
        ------
        ArtifactError
            If the models are not where the job runs, are damaged, or are others than those it was made with.
        InputError
            If a column is missing, holds no strings, or has the name of a column that is added.
        """
        for batch in batches:
            schema = self.schema(batch.schema)
            kept = [batch.column(name) for name in self.kept(batch.schema.names)]
            yield pa.RecordBatch.from_arrays([*kept, *self._added(batch)], schema=schema)

    def table(self, table: pa.Table) -> pa.Table:
        """Run on a whole table; a partition of Ray or Dask is one.

        Parameters
        ----------
        table
            Rows in any number of chunks.

        Returns
        -------
        pyarrow.Table
            As many rows, in the same order.

        Raises
        ------
        ArtifactError, InputError
            As for calling the job.
        """
        return pa.Table.from_batches(self(table.to_batches()), self.schema(table.schema))

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Schema of what comes out.

        Parameters
        ----------
        schema
            Of what goes in.

        Returns
        -------
        pyarrow.Schema
            The kept columns as they are, then the added ones.

        Raises
        ------
        InputError
            As for calling the job.
        """
        kept = [schema.field(name) for name in self.kept(schema.names)]
        for name in self.columns:
            if not holds_strings(schema.field(name).type):
                raise InputError(f"column {name!r} holds {schema.field(name).type}; texts must be strings")
        return pa.schema([*kept, *(pa.field(name, arrow_type(kind)) for name, kind in self.added.items())])

    @property
    def added(self) -> dict[str, str]:
        """Names of the added columns, with their types in Spark's words."""
        kinds = OUTPUTS[self.task]
        return {**{self.prefix + name: kinds[name] for name in self.outputs}, self.prefix + ERROR: "string"}

    @property
    def ddl(self) -> str:
        """The added columns as Spark writes a schema, such as ``"label string, probability double, error string"``."""
        return ", ".join(f"{quoted(name)} {kind}" for name, kind in self.added.items())

    def kept(self, names: Sequence[str]) -> Sequence[str]:
        """Names of the columns to copy, once all names are checked."""
        kept = names if self.keep is None else self.keep
        for name in (*self.columns, *kept):
            if list(names).count(name) != 1:
                found = "comes twice" if name in names else f"is not there; there are {', '.join(map(repr, names))}"
                raise InputError(f"column {name!r} {found}")
        # Spark does not tell apart names that differ in case alone
        taken = {name.casefold() for name in kept}
        for name in self.added:
            if name.casefold() in taken:
                raise InputError(
                    f"a column {name!r} would be added, but there is one already: leave it out of `keep`, or give a "
                    "`prefix` for the added columns"
                )
        return kept

    def _added(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The added columns of a batch."""
        columns = [texts_of(batch.column(name)) for name in self.columns]
        wrong = [[fault_of(text, name) for text in texts] for name, texts in zip(self.columns, columns, strict=True)]
        error = [next(filter(None, faults), None) for faults in zip(*wrong, strict=True)]
        rows = [row for row, fault in enumerate(error) if fault is None]
        found = self._run([[texts[row] for row in rows] for texts in columns])
        arrays = [array_of(found[name], rows, batch.num_rows, OUTPUTS[self.task][name]) for name in self.outputs]
        return [*arrays, pa.array(error, pa.string())]

    def _run(self, columns: list[list[str]]) -> Values:
        """Outputs of texts without fault; no models are opened where there are none."""
        if not columns[0]:
            return {name: [] for name in self.outputs}
        found = identity_of(self.task, self.models, self.encoder)
        if found != self.identity:
            raise ArtifactError(
                f"the models in {models_root(self.models)} are others than those that the job was made with: install the "
                "same version of semclass, and the same models, on every machine"
            )
        model = open_model(self.task, self.models, self.encoder, self.threads, self.min_probability, self.identity)
        if "truncated" not in self.outputs:
            return model(*columns)
        values, cut = quietly(lambda: model(*columns))
        flags = np.zeros(len(columns[0]), np.bool_)
        flags[cut] = True
        return {**values, "truncated": flags.tolist()}


def classify_job(
    what: str = "questions",
    *,
    column: str | Sequence[str] | None = None,
    models: str | Path | None = None,
    encoder: str | Path | None = None,
    keep: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    prefix: str = "",
    min_probability: float | None = None,
    threads: int = 1,
) -> Job:
    """Make a job that classifies the texts of a column.

    Parameters
    ----------
    what
        ``"questions"``: what kind of answer each asks for; ``"passages"``: which each provides; ``"texts"``: the classes
        of a model of your own; ``"pairs"``: whether a sentence answers a question.
    column
        The column of the texts, ``"text"`` if None; for pairs the columns of question and sentence,
        ``("question", "sentence")`` if None.
    models
        Folder laid out like the shipped ``models/``, the shipped one if None. For ``"texts"``, the folder that
        :meth:`semclass.TextClassifier.save` wrote. It must be at the same path on every machine.
    encoder
        Folder of an exported encoder, ``"hub:NAME"`` or ``"hub:FOLDER"``; that of the models if None.
    keep
        Columns to copy; all if None.
    outputs
        Which of ``OUTPUTS[what]`` to add; ``DEFAULTS[what]`` if None.
    prefix
        What the names of the added columns begin with.
    min_probability
        For questions and texts: in [0, 1]; where the best class has less, the label is ``semclass.ABSTAIN``.
    threads
        Threads of the encoder in each worker process. Engines run as many tasks as there are processors, so 1 is best.

    Returns
    -------
    Job
        Ready to be sent to the workers. The models were opened once, so that mistakes show here and not there.

    Raises
    ------
    InputError, InputTypeError
        If an argument is not allowed.
    ArtifactError
        If the models are missing or damaged, or a head was trained for another encoder.
    """
    check_choice(what, [task for task in OUTPUTS if task != "encode"], "what")
    if what == "texts" and models is None:
        raise InputError(
            "no classes of your own are shipped: name the folder that TextClassifier.save wrote as `models`"
        )
    if min_probability is not None:
        if what not in ("questions", "texts"):
            raise InputError(f"min_probability is for questions and texts, not for {what}")
        check_probability(min_probability, "min_probability")
    return _job(what, column, models, encoder, keep, outputs, prefix, min_probability, threads)


def encode_job(
    *,
    column: str | None = None,
    models: str | Path | None = None,
    encoder: str | Path | None = None,
    keep: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    prefix: str = "",
    threads: int = 1,
) -> Job:
    """Make a job that gives the vectors of texts: the encoder's view ``pooled``, which retrieval compares, as float32.

    Parameters
    ----------
    column, models, encoder, keep, outputs, prefix, threads
        As for :func:`classify_job`.

    Returns
    -------
    Job
        Ready to be sent to the workers.

    Raises
    ------
    InputError, InputTypeError, ArtifactError
        As for :func:`classify_job`.
    """
    return _job("encode", column, models, encoder, keep, outputs, prefix, None, threads)


def _job(
    task: str,
    column: str | Sequence[str] | None,
    models: str | Path | None,
    encoder: str | Path | None,
    keep: Sequence[str] | None,
    outputs: Sequence[str] | None,
    prefix: str,
    min_probability: float | None,
    threads: int,
) -> Job:
    """Check the arguments, and open the models once."""
    count = 2 if task == "pairs" else 1
    usual = ("question", "sentence") if task == "pairs" else ("text",)
    columns = usual if column is None else (column,) if isinstance(column, str) else _names(column, "column")
    if len(columns) != count:
        raise InputError(f"column names {len(columns)} columns, {short(columns)}; {task} needs {count}")
    wanted = DEFAULTS[task] if outputs is None else _names(outputs, "outputs")
    for name in wanted:
        check_choice(name, tuple(OUTPUTS[task]), "outputs")
    if len(set(wanted)) < len(wanted) or not wanted:
        raise InputError(f"outputs is {short(wanted)}; name each once, and at least one")
    if not isinstance(prefix, str):
        raise InputTypeError(f"prefix must be a string, not {type(prefix).__name__}")
    # workers have working directories of their own
    where = None if models is None else str(Path(models).absolute())
    used = None if encoder is None else str(encoder)
    if used is not None and not used.startswith(HUB):
        used = str(Path(used).absolute())
    job = Job(
        task=task,
        columns=columns,
        keep=None if keep is None else _names(keep, "keep"),
        outputs=wanted,
        prefix=prefix,
        models=where,
        encoder=used,
        identity=identity_of(task, where, used),
        min_probability=min_probability,
        threads=check_positive(threads, "threads"),
    )
    open_model(job.task, job.models, job.encoder, job.threads, job.min_probability, job.identity)
    return job


def _names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Copy names of columns; one bare string is refused, as it is a common slip."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InputTypeError(f"{argument} must be a list of names, not {short(names)}")
    for name in (found := tuple(names)):
        if not isinstance(name, str):
            raise InputTypeError(f"{argument} must be a list of strings, but holds {short(name)}")
    return found


def quoted(name: str) -> str:
    """A name as it stands in a schema of Spark's."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"
