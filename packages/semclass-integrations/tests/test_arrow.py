"""Jobs on record batches: values do not depend on how rows are cut, and one bad row stops nothing."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import MODELS

from semclass import (
    ArtifactError,
    EntailmentClassifier,
    InputError,
    PassageClassifier,
    QuestionClassifier,
    TextClassifier,
    TextModel,
)

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from semclass_integrations.arrow import OUTPUTS, TableJob  # noqa: E402

QUESTIONS = ["Who built the bridge?", "How tall is it?", "wher is the lighthouse", "What does NATO stand for?"]


def table(**columns):
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def test_a_table_gets_the_values_of_the_classifier(encoder):
    found = TableJob(outputs=OUTPUTS["questions"]).table(table(id=[4, 3, 2, 1], text=QUESTIONS)).to_pylist()
    wanted = QuestionClassifier.load(MODELS, encoder=encoder).classify(QUESTIONS)
    for row, number, item in zip(found, (4, 3, 2, 1), wanted, strict=True):
        assert (row["id"], row["text"], row["label"], row["fine"]) == (number, item.text, item.label, item.fine)
        assert row["probability"] == pytest.approx(item.probability, abs=1e-6)
        assert dict(row["probabilities"]) == pytest.approx(item.probabilities, abs=1e-6)
        assert row["error"] is None


TEXTS = st.lists(st.one_of(st.sampled_from([*QUESTIONS, None, "", " \t"]), st.text(max_size=12)), max_size=12)


@settings(max_examples=25)
@given(TEXTS.flatmap(lambda rows: st.tuples(st.just(rows), st.lists(st.integers(0, len(rows))))))
def test_no_cutting_into_batches_changes_a_row(rows_and_cuts):
    texts, cuts = rows_and_cuts
    rows = pa.table({"id": pa.array(range(len(texts)), pa.int32()), "text": pa.array(texts, pa.string())})
    whole = rows.to_batches()[0] if texts else pa.RecordBatch.from_pylist([], rows.schema)
    job = TableJob(outputs=("label", "fine", "probability"))
    batches = [whole.slice(i, j - i) for i, j in itertools.pairwise([0, *sorted(cuts), len(texts)])]
    cut = pa.Table.from_batches(job(batches), job.schema(rows.schema))
    wanted = job.table(rows)
    assert cut.drop_columns("probability").equals(wanted.drop_columns("probability"))
    mine, theirs = (np.array(item["probability"].to_pylist(), float) for item in (cut, wanted))
    np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_a_bad_row_gets_nulls_and_the_reason():
    rows = table(text=["Who?", None, "", " \n", "How old is it?", "Who is it?"])
    found = TableJob().table(rows)
    assert found["error"].to_pylist() == [None, "text is null", "text is empty", "text is empty", None, None]
    assert found["label"].to_pylist() == ["HUM", None, None, None, "NUM", "HUM"]
    assert found["probability"].null_count == 3
    # Parquet files that other programs wrote hold such bytes
    text = pa.Array.from_buffers(pa.string(), 2, pa.array([b"Who\xff?", b"Who is it?"], pa.binary()).buffers())
    found = TableJob().table(pa.table({"text": text}))
    assert found["error"].to_pylist() == ["text is not valid UTF-8", None]
    assert found["label"].to_pylist() == [None, "HUM"]


def test_columns_of_nulls_of_no_rows_and_of_other_strings():
    job = TableJob()
    assert job.table(pa.table({"text": pa.nulls(2)}))["error"].to_pylist() == ["text is null"] * 2
    assert job.table(pa.table({"text": pa.array([], pa.string())})).num_rows == 0
    wanted = job.table(table(text=QUESTIONS))["label"].to_pylist()
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        rows = pa.table({"text": pa.array(QUESTIONS).cast(kind)})
        assert job.table(rows)["label"].to_pylist() == wanted


def test_passages_pairs_vectors_and_a_head_of_ones_own(encoder, tmp_path):
    texts = ["The tower is 324 metres tall.", "It was designed by Stephen Sauvestre."]
    found = TableJob("passages", "body").table(table(body=texts)).to_pylist()
    wanted = PassageClassifier.load(MODELS, encoder=encoder).classify(texts)
    assert [row["labels"] for row in found] == [list(item.labels) for item in wanted]

    rows = table(question=["Who designed it?", None], sentence=texts)
    found = TableJob("pairs", ("question", "sentence")).table(rows)
    assert found["error"].to_pylist() == [None, "question is null"]
    (only,) = EntailmentClassifier.load(MODELS, encoder=encoder).classify([("Who designed it?", texts[0])])
    assert found["label"].to_pylist() == [only.label, None]

    vectors = TableJob("encode").table(table(text=texts))["vector"].to_pylist()
    np.testing.assert_allclose(vectors, encoder.encode(texts, views=("pooled",)).pooled, atol=1e-6)

    examples = [f"{text} {place}" for place in range(4) for text in texts]
    TextClassifier(encoder=encoder, multi_label=True).fit(examples, [["height"], ["person"]] * 4).save(tmp_path)
    found = TableJob("texts", models=tmp_path, outputs=OUTPUTS["texts"], prefix="p_").table(table(text=texts))
    (first, _) = TextModel.load(tmp_path, encoder=encoder).classify(texts)
    assert found["p_label"][0].as_py() == first.label
    assert found.column_names == ["text", "p_label", "p_probability", "p_labels", "p_probabilities", "p_error"]


def test_a_job_is_small_and_runs_where_it_is_sent(tmp_path):
    sent = pickle.dumps(TableJob())
    assert len(sent) < 1000
    assert pickle.loads(sent).table(table(text=["Who built it?"]))["label"].to_pylist() == ["HUM"]  # noqa: S301
    with pytest.raises(ArtifactError, match=str(tmp_path)):
        TableJob(models=tmp_path).table(table(text=["Who?"]))


def test_a_wrong_option_is_refused():
    with pytest.raises(InputError, match="task is 'answers'; it must be one of 'questions'"):
        TableJob("answers")
    with pytest.raises(InputError, match="pairs needs two"):
        TableJob("pairs", "text")


def test_columns_that_do_not_fit_are_named():
    rows = table(text=["Who?"], size=[1], Label=["x"])
    for job, message in (
        (TableJob(), "the column 'label' exists already"),
        (TableJob("encode", "size"), "column 'size' has the type int64; name a column of strings"),
        (TableJob("encode", "body"), "the table must have exactly one column 'body'; the columns are 'text', 'size'"),
    ):
        with pytest.raises(InputError, match=message):
            job.table(rows)
    with pytest.raises(InputError, match=r"the folder that TextClassifier\.save wrote"):
        TableJob("texts").table(table(text=["Who?"]))
