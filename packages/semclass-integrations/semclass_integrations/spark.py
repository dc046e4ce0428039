"""Classifies and encodes Spark data frames, and adds the outputs as columns (extra ``spark``).

Spark's ``mapInArrow`` calls a :class:`semclass_integrations.arrow.Job` for each partition, so rows stay in Arrow.
Install semclass on every machine of the cluster, for the Python that ``PYSPARK_PYTHON`` names. Without this variable
Spark runs the first ``python3``, also in a virtual environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semclass.core.errors import InputError, InputTypeError, import_extra
from semclass.heads.texts import HUB
from semclass_integrations.arrow import Job, classify_job, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    import pyspark
    import pyspark.sql
    import pyspark.sql.types
else:
    pyspark = import_extra("pyspark", "spark")
    import_extra("pyspark.sql.types", "spark")
    import_extra("pandas", "spark")  # Spark needs it wherever a Python function is run


def classify(
    df: pyspark.sql.DataFrame,
    what: str = "questions",
    *,
    models: str | Path | None = None,
    heads: Mapping[str, str | Path] | None = None,
    encoder: str | Path | None = None,
    **options: Any,
) -> pyspark.sql.DataFrame:
    """Classify the texts of a column. Returns the kept columns, then the columns of the job.

    Parameters
    ----------
    df
        Data frame with a string column of texts, or with two columns for pairs.
    what, encoder, **options
        See :func:`semclass_integrations.arrow.classify_job`.
    models, heads
        See :func:`semclass_integrations.arrow.classify_job`. Put a folder at the same path on every machine, or let the
        session send it. To send a folder, zip its content to ``my-head.zip``, call
        ``spark.sparkContext.addArchive("my-head.zip")`` (or submit with ``--archives my-head.zip``), and give
        ``"my-head.zip"`` here.

    Raises
    ------
    InputError, InputTypeError, ArtifactError
        For the same reasons as in :func:`semclass_integrations.arrow.classify_job`, or if columns do not fit. A task
        fails with an ``ArtifactError`` if its worker lacks these models.
    """
    if not isinstance(df, pyspark.sql.DataFrame):
        raise InputTypeError(f"df must be a Spark data frame, not {type(df).__name__}")
    here = None if heads is None else {name: str(_located(folder)) for name, folder in heads.items()}
    job = classify_job(what, models=_located(models), heads=here, encoder=_located(encoder), **options)
    types = pyspark.sql.types
    kept = job.kept(df.columns)
    for name in job.columns:
        if not isinstance(df.schema[name].dataType, types.StringType):
            raise InputError(f"column {name!r} holds {df.schema[name].dataType.simpleString()}; give a string column")
    schema = types.StructType([*(df.schema[name] for name in kept), *types.StructType.fromDDL(job.ddl)])
    read = tuple(dict.fromkeys((*kept, *job.columns)))
    for name in read:
        if "." in name or "`" in name:
            raise InputError(
                f"column {name!r} has a dot or a backtick in its name, which Spark refuses in Python functions; rename "
                "it, or leave it out of `keep`"
            )
    there = tuple((name, str(_sent(folder))) for name, folder in (heads or {}).items())
    sent = replace(job, keep=tuple(kept), models=_sent(models), encoder=_sent(encoder), heads=there)
    return df.select(*map(quoted, read)).mapInArrow(partial(_run, sent), schema)


def encode(df: pyspark.sql.DataFrame, **options: Any) -> pyspark.sql.DataFrame:
    """Encode the texts of a column.

    Adds the columns ``vector``, an array of floats that retrieval compares, and ``error``.

    `options` are the options of :func:`classify` except `what` and `min_probability`.
    """
    return classify(df, "encode", **options)


def _run(job: Job, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Run a job on a partition, in a worker."""
    heads = tuple((name, str(_located(folder))) for name, folder in job.heads)
    return replace(job, models=_located(job.models), encoder=_located(job.encoder), heads=heads)(batches)


def _shipped(path: str | Path) -> Path | None:
    """Where a file or folder is that the session ships to every machine; None where it ships none of this name."""
    if Path(path).is_absolute() or str(path).startswith(HUB):
        return None
    try:
        found = Path(pyspark.SparkFiles.get(str(path)))
    except AssertionError:  # no session of this process has files, as with a remote one
        return None
    return found if found.exists() else None


def _located(path: str | Path | None) -> str | None:
    """The path of a folder on this machine; the name of a sentence-transformers model as it is."""
    if path is None or str(path).startswith(HUB):
        return None if path is None else str(path)
    return str(_shipped(path) or Path(path).absolute())


def _sent(path: str | Path | None) -> str | None:
    """What a job names on a worker: the name of what the session ships, or an absolute path."""
    return str(path) if path is not None and _shipped(path) else _located(path)
