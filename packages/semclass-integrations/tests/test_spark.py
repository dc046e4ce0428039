"""Spark: a master, two executors with Python worker processes of their own, Parquet in and out, tasks that fail."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from semclass import (
    ArtifactError,
    InputError,
    InputTypeError,
    QuestionClassifier,
)

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parent.parent.parent
SUBJECTS = ("the bridge", "the old lighthouse", "a comet", "the first printed book", "Lake Geneva")
ASKED = ("Who built {}?", "How old is {}?", "Where is {}?", "why do people visit {}", "What is {} made of?")
QUESTIONS = [form.format(subject) for subject in SUBJECTS for form in ASKED] * 8
ODD = {7: None, 50: "  ", 151: ""}


@pytest.fixture(scope="module")
def spark():
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyspark or pyarrow is not installed (extra spark)")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        # a master and two workers, each of which starts an executor: processes of their own, as on two machines
        session = (
            SparkSession.builder.master("local-cluster[2,1,1024]")
            .appName("semclass")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "32")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    """Questions as four files of Parquet, a few of them without a text."""
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path_factory.mktemp("questions")
    rows = pa.table({"id": range(len(QUESTIONS)), "question": [ODD.get(*item) for item in enumerate(QUESTIONS)]})
    for part in range(4):
        parquet.write_table(rows.slice(part * 50, 50), path / f"{part}.parquet")
    return path


@pytest.fixture(scope="module")
def expected(encoder):
    """Label and probability of each question on one machine."""
    found = QuestionClassifier.load(ROOT / "models", encoder=encoder).classify(QUESTIONS)
    return [(None, None) if place in ODD else (item.label, item.probability) for place, item in enumerate(found)]


def check(rows, expected):
    rows = sorted(rows, key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(len(expected)))
    assert [row["label"] for row in rows] == [label for label, _ in expected]
    ours = np.array([row["probability"] for row in rows], float)
    np.testing.assert_allclose(ours, np.array([value for _, value in expected], float), atol=1e-6)


def test_parquet_in_and_out_gives_what_one_machine_gives(spark, folder, expected, tmp_path):
    from semclass_integrations.spark import classify

    rows = spark.read.parquet(str(folder))
    found = classify(rows, "questions", column="question")
    assert found.columns == ["id", "question", "label", "probability", "error"]
    found.write.parquet(str(tmp_path / "out"))
    written = spark.read.parquet(str(tmp_path / "out")).collect()
    check(written, expected)
    errors = {row["id"]: row["error"] for row in written if row["error"] is not None}
    assert errors == {7: "question is null", 50: "question is empty", 151: "question is empty"}


@pytest.mark.parametrize("how", ["raises", "is killed"])
def test_a_task_that_fails_once_is_run_again_and_no_row_is_lost_or_doubled(spark, folder, expected, tmp_path, how):
    from semclass_integrations.arrow import classify_job

    marker, killed = str(tmp_path / "failed"), how == "is killed"
    job = classify_job("questions", column="question")

    def failing(batches):
        # within the task that classifies: it has given rows away already when it fails
        import pathlib
        import signal

        for place, batch in enumerate(job(batches)):
            yield batch
            if place == 0 and not pathlib.Path(marker).exists():
                pathlib.Path(marker).write_text(str(os.getpid()))
                if killed:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("the disk of this machine is gone")

    rows = spark.read.parquet(str(folder)).coalesce(2)
    rows.mapInArrow(failing, f"id long, question string, {job.ddl}").write.parquet(str(tmp_path / "out"))
    assert int(Path(marker).read_text()) != os.getpid()
    check(spark.read.parquet(str(tmp_path / "out")).collect(), expected)


def test_models_are_opened_once_for_each_worker_process(spark, folder):
    from semclass_integrations import arrow as module

    job = module.classify_job("questions", column="question")

    def counting(batches):
        import pyarrow as pa

        from semclass_integrations.arrow_models import open_model

        for _ in job(batches):
            pass
        pids = pa.array([os.getpid()], pa.int64())
        yield pa.RecordBatch.from_arrays([pids, pa.array([open_model.cache_info().misses])], ["pid", "opened"])

    rows = spark.read.parquet(str(folder)).repartition(8).mapInArrow(counting, "pid long, opened long").collect()
    assert len(rows) == 8
    pids = {row["pid"] for row in rows}
    assert os.getpid() not in pids
    assert len(pids) == 2
    assert {row["opened"] for row in rows} == {1}


def test_vectors(spark, encoder):
    from semclass_integrations.spark import encode

    rows = spark.createDataFrame(list(enumerate(QUESTIONS[:20])), "id long, text string")
    vectors = encode(rows, keep=["id"], prefix="p_").orderBy("id").collect()
    np.testing.assert_allclose([row["p_vector"] for row in vectors], encoder.encode(QUESTIONS[:20]).pooled, atol=1e-6)


def test_a_head_of_ones_own_is_shipped_with_the_session(spark, encoder, tmp_path):
    from semclass import TextClassifier, TextModel
    from semclass_integrations.spark import classify

    asked, chatted = ["Can I renew my card?", "When do you open?"] * 2, ["Hello there!", "Good night."] * 2
    labels = [1] * 4 + [2] * 4
    TextClassifier(encoder=encoder).fit(asked + chatted, labels).save(tmp_path / "head")
    shutil.make_archive(str(tmp_path / "own-head"), "zip", tmp_path / "head")
    spark.sparkContext.addArchive(str(tmp_path / "own-head.zip"))
    texts = ["Is there a reading room?", "How are you today?"]
    rows = spark.createDataFrame([(text,) for text in texts], "text string")
    found = {row["text"]: row["label"] for row in classify(rows, "texts", models="own-head.zip").collect()}
    alone = TextModel.load(tmp_path / "head", encoder=encoder).classify(texts)
    assert found == {item.text: str(item.label) for item in alone}
    heads = {"topic": "own-head.zip", "again": tmp_path / "head"}  # one shipped, one at the same path everywhere
    both = classify(rows, "texts", heads=heads).collect()
    assert {row["text"]: row["topic_label"] for row in both} == found
    assert [row["again_label"] for row in both] == [row["topic_label"] for row in both]
    assert [row["again_probability"] for row in both] == [row["topic_probability"] for row in both]


def test_columns_of_any_type_are_copied_as_they_are(spark):
    from semclass_integrations.spark import encode

    rows = spark.sql(
        "select 'Who?' as text, date'2024-02-29' as day, timestamp'2024-02-29 12:00:00' as time, 1.50 as price, "
        "struct(1 as a, array('x', null) as b) as nested, map('k', 2) as pairs, cast(null as binary) as bytes, "
        "interval '1' day as span, true as `b c`"
    )
    found = encode(rows).drop("vector", "error")
    assert found.schema.simpleString() == rows.schema.simpleString()
    assert found.collect() == rows.collect()


def test_mistakes_show_before_anything_runs(spark, tmp_path):
    from semclass_integrations.spark import classify, encode

    rows = spark.createDataFrame([("Who?", 1, "x")], "text string, size long, Label string")
    with pytest.raises(InputError, match="output column 'label'"):
        classify(rows)
    with pytest.raises(InputError, match="column 'size' holds bigint; give a string column"):
        encode(rows, column="size")
    with pytest.raises(ArtifactError, match=r"manifest\.json cannot be read"):
        classify(rows, keep=["size"], models=tmp_path)
    with pytest.raises(InputError, match=r"column 'a\.b' has a dot"):
        encode(rows.withColumn("a.b", rows["size"]))
    with pytest.raises(InputTypeError, match="df must be a Spark data frame, not list"):
        classify([])
