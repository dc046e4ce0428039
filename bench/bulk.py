"""Measure classifying questions in bulk: one process, and Spark with worker processes, from Parquet to Parquet.

Spark's cluster is on this machine: a master and two workers, each with an executor of one core. What it takes to start is
told apart, as is the first run, in which the workers open the models. The questions are ``questions/natural.tsv`` of DATA,
again and again until there are enough; every label must be the one that a single process gives.

Needs the extra ``spark``, and Java.
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme
from bench.steps import ROOT, Bench
from semclass.core.errors import MissingExtraError, import_extra

ROWS, FILES, WORKERS = 20_000, 8, 2

RUNS = 2
"""Runs on Spark; the first opens the models."""


def run(bench: Bench) -> dict[str, Any]:
    """One step: both ways on the same files."""
    rows = 400 if bench.quick else ROWS
    return {"questions": bench.step("bulk/questions", "bench.bulk:measure", data=bench.data, rows=rows)}


def measure(data: str, rows: int) -> dict[str, Any]:
    """Rows a second in one process and on Spark, and how far the two differ."""
    parquet, spark = import_extra("pyarrow.parquet", "spark"), import_extra("semclass.integrations.spark", "spark")
    if shutil.which("java") is None:
        raise MissingExtraError("Spark needs Java, and there is no `java` on the path")
    with tempfile.TemporaryDirectory() as folder:
        given, alone, out = (str(Path(folder) / name) for name in ("in", "alone", "out"))
        write(Path(data), rows, Path(given))
        job = spark.classify_job("questions", column="question")
        job.table(parquet.read_table(given).slice(0, 64))
        started = time.perf_counter()
        parquet.write_table(job.table(parquet.read_table(given)), alone)
        single = time.perf_counter() - started
        started = time.perf_counter()
        session = open_cluster()
        try:
            opened, runs = time.perf_counter() - started, []
            for _ in range(RUNS):
                started = time.perf_counter()
                found = spark.classify(session.read.parquet(given), "questions", column="question")
                found.write.mode("overwrite").parquet(out)
                runs.append(time.perf_counter() - started)
        finally:
            session.stop()
        ours, theirs = (parquet.read_table(path).sort_by("id") for path in (out, alone))
    same = ours["id"].equals(theirs["id"]) and ours["label"].equals(theirs["label"])
    differ = np.abs(ours["probability"].to_numpy() - theirs["probability"].to_numpy())
    return {
        "rows": rows,
        "workers": WORKERS,
        "single_s": round(single, 2),
        "single_per_second": round(rows / single, 1),
        "cluster_start_s": round(opened, 2),
        "spark_s": [round(seconds, 2) for seconds in runs],
        "spark_per_second": [round(rows / seconds, 1) for seconds in runs],
        "ratio": round(single / runs[-1], 2),
        "same_labels": bool(same),
        "largest_difference": float(f"{differ.max():.2g}"),
        "pyspark": import_extra("pyspark", "spark").__version__,
        "load_average": [round(value, 1) for value in os.getloadavg()],
    }


def write(data: Path, rows: int, folder: Path) -> None:
    """Write questions with their numbers as files of Parquet."""
    pa, parquet = import_extra("pyarrow", "spark"), import_extra("pyarrow.parquet", "spark")
    with (data / "questions" / "natural.tsv").open(encoding="utf-8", newline="") as file:
        texts = [row["question"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    table = pa.table({"id": np.arange(rows), "question": [texts[row % len(texts)] for row in range(rows)]})
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), FILES)):
        parquet.write_table(table.slice(part[0], len(part)), folder / f"{number}.parquet")


def open_cluster() -> Any:
    """A master and two workers on this machine, whose Python is this one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    sql = import_extra("pyspark.sql", "spark")
    session = (
        sql.SparkSession.builder.master(f"local-cluster[{WORKERS},1,1024]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.range(WORKERS).count()  # so that the executors are there
    return session


def table(results: dict[str, Any]) -> str:
    """The README's table."""
    found = results["questions"]
    head = ("questions from Parquet to Parquet", "a second")
    if "skipped" in found:
        return readme.markdown(head, [("not measured", found["skipped"])])
    rows = [
        ("one process, one thread", f"{found['single_per_second']:,.0f}"),
        (f"Spark, {found['workers']} worker processes", f"{found['spark_per_second'][-1]:,.0f}"),
        ("the same, first run: models are opened", f"{found['spark_per_second'][0]:,.0f}"),
    ]
    return readme.markdown(head, rows)
