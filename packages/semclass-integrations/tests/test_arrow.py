"""Jobs on record batches: what comes out does not depend on how rows are cut, and one bad row stops nothing."""

from __future__ import annotations

import itertools
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import MODELS, ROOT

from semclass import (
    ABSTAIN,
    ArtifactError,
    EntailmentClassifier,
    InputError,
    InputTypeError,
    OnnxEncoder,
    PassageClassifier,
    QuestionClassifier,
    TextClassifier,
    TextModel,
    TruncationWarning,
)

pa = pytest.importorskip("pyarrow")

from semclass_integrations import arrow_models  # noqa: E402
from semclass_integrations.arrow import OUTPUTS, classify_job  # noqa: E402

QUESTIONS = ["Who built the bridge?", "How tall is it?", "wher is the lighthouse", "What does NATO stand for?"]
LONG = "When was it? " * 200


def table(**columns):
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def record_batches(rows, cuts):
    """Rows as batches that end at the cuts, some of them without any row."""
    places = [0, *sorted(cuts), len(rows)]
    whole = rows.combine_chunks().to_batches()[0] if len(rows) else pa.RecordBatch.from_pylist([], rows.schema)
    return [whole.slice(start, end - start) for start, end in itertools.pairwise(places)]


@pytest.fixture(scope="module")
def questions(encoder):
    return QuestionClassifier.load(MODELS, encoder=encoder)


def test_a_table_gets_what_the_classifier_gives(questions):
    job = classify_job("questions", outputs=OUTPUTS["questions"])
    found = job.table(table(id=[4, 3, 2, 1], text=QUESTIONS)).to_pylist()
    for row, number, item in zip(found, (4, 3, 2, 1), questions.classify(QUESTIONS), strict=True):
        assert (row["id"], row["text"], row["label"], row["fine"]) == (number, item.text, item.label, item.fine)
        assert row["probability"] == pytest.approx(item.probability, abs=1e-6)
        assert row["fine_probability"] == pytest.approx(item.fine_probability, abs=1e-6)
        assert dict(row["probabilities"]) == pytest.approx(item.probabilities, abs=1e-6)
        assert dict(row["fine_probabilities"]) == pytest.approx(item.fine_probabilities, abs=1e-6)
        assert (row["truncated"], row["error"]) == (False, None)


TEXTS = st.one_of(st.sampled_from([*QUESTIONS, None, "", " \t"]), st.text(max_size=12))


@settings(max_examples=25)
@given(st.lists(TEXTS, max_size=12).flatmap(lambda rows: st.tuples(st.just(rows), st.lists(st.integers(0, len(rows))))))
def test_no_cutting_into_batches_changes_a_row(rows_and_cuts):
    texts, cuts = rows_and_cuts
    rows = pa.table({"id": pa.array(range(len(texts)), pa.int32()), "text": pa.array(texts, pa.string())})
    job = classify_job("questions", outputs=["label", "fine", "probability"])
    whole, cut = job.table(rows), list(job(record_batches(rows, cuts)))
    assert [batch.num_rows for batch in cut] == [len(batch) for batch in record_batches(rows, cuts)]
    assert all(batch.schema == job.schema(rows.schema) for batch in cut)
    parts = pa.Table.from_batches(cut, job.schema(rows.schema))
    assert parts.drop_columns("probability").equals(whole.drop_columns("probability"))
    assert parts["id"].to_pylist() == list(range(len(texts)))
    ours, theirs = (np.array(item["probability"].to_pylist(), float) for item in (parts, whole))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_bad_row_gets_nulls_and_the_reason(questions):
    rows = table(text=["Who?", None, "", " \n", "How old is it?"])
    found = classify_job("questions").table(rows)
    assert found["error"].to_pylist() == [None, "text is null", "text is empty", "text is empty", None]
    assert found["label"].to_pylist() == [questions.classify(["Who?"])[0].label, None, None, None, "NUM"]
    assert found["probability"].null_count == 3
    vectors = classify_job("encode", outputs=["vector", "truncated"]).table(rows)
    assert [row and len(row) for row in vectors["vector"].to_pylist()] == [384, None, None, None, 384]
    assert vectors["truncated"].to_pylist() == [False, None, None, None, False]


def test_bytes_that_are_no_text_are_a_bad_row():
    # Parquet files that other programs wrote hold such
    text = pa.Array.from_buffers(pa.string(), 2, pa.array([b"Who\xff?", b"Who is it?"], pa.binary()).buffers())
    found = classify_job("questions").table(pa.table({"text": text}))
    assert found["error"].to_pylist() == ["text is not valid UTF-8", None]
    assert found["label"].to_pylist() == [None, "HUM"]


def test_columns_of_nulls_of_no_rows_and_of_other_kinds_of_strings():
    job = classify_job("questions")
    assert job.table(pa.table({"text": pa.nulls(2)}))["error"].to_pylist() == ["text is null"] * 2
    assert job.table(pa.table({"text": pa.array([], pa.string())})).num_rows == 0
    assert list(job([])) == []
    kinds = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
    for kind in kinds:
        rows = pa.table({"text": pa.array(QUESTIONS).cast(kind)})
        assert job.table(rows)["label"].to_pylist() == job.table(table(text=QUESTIONS))["label"].to_pylist()
        assert job.table(rows).schema.field("text").type == kind


def test_passages_and_pairs(encoder):
    texts = ["The tower is 324 metres tall.", "It was designed by Stephen Sauvestre."]
    found = classify_job("passages", column="body", keep=[]).table(table(body=texts))
    assert found.column_names == ["labels", "probabilities", "error"]
    for row, item in zip(
        found.to_pylist(), PassageClassifier.load(MODELS, encoder=encoder).classify(texts), strict=True
    ):
        assert row["labels"] == list(item.labels)
        assert dict(row["probabilities"]) == pytest.approx(item.probabilities, abs=1e-6)

    asked = ["Who designed it?", None, "Who designed it?"]
    found = classify_job("pairs", keep=["question"]).table(table(question=asked, sentence=[texts[1], texts[1], " "]))
    assert found["error"].to_pylist() == [None, "question is null", "sentence is empty"]
    (only,) = EntailmentClassifier.load(MODELS, encoder=encoder).classify([(asked[0], texts[1])])
    assert found["label"].to_pylist() == [only.label, None, None]
    assert found["probability"][0].as_py() == pytest.approx(only.probability, abs=1e-6)


def test_a_head_of_ones_own(encoder, tmp_path):
    texts = ["Can I renew my card?", "When do you open?", "Hello there!", "Good night."] * 2
    labels = [["library"], ["library", "hours"], [], ["chat"]] * 2
    TextClassifier(encoder=encoder, multi_label=True).fit(texts, labels).save(tmp_path)
    found = classify_job("texts", models=tmp_path, outputs=OUTPUTS["texts"]).table(table(text=texts))
    for row, item in zip(found.to_pylist(), TextModel.load(tmp_path, encoder=encoder).classify(texts), strict=True):
        assert (row["label"], row["labels"]) == (item.label, list(item.labels))
        assert row["probability"] == pytest.approx(item.probability, abs=1e-6)
        assert dict(row["probabilities"]) == pytest.approx(item.probabilities, abs=1e-6)


def test_several_heads_share_one_reading(encoder, tmp_path, monkeypatch):
    texts = [f"{text} {place}" for text in ("Can I renew my card?", "Good night!") for place in range(4)]
    for name, labels in {"topic": ["library"] * 4 + ["chat"] * 4, "parity": [0, 1] * 4}.items():
        TextClassifier(encoder=encoder, views=("pooled",)).fit(texts, labels).save(tmp_path / name)
    heads = {name: tmp_path / name for name in ("topic", "parity")}
    job = pickle.loads(pickle.dumps(classify_job("texts", heads=heads, outputs=["label", "truncated"], prefix="p_")))  # noqa: S301
    assert job.ddl == "p_topic_label string, p_parity_label string, p_truncated boolean, p_error string"
    read, encode = [], OnnxEncoder.encode
    monkeypatch.setattr(
        OnnxEncoder, "encode", lambda self, some, **views: read.extend(some) or encode(self, some, **views)
    )
    found = job.table(table(text=[*texts[:4], None]))
    assert read == texts[:4]
    alone = {name: TextModel.load(path, encoder=encoder).classify(texts[:4]) for name, path in heads.items()}
    for name, items in alone.items():
        assert found[f"p_{name}_label"].to_pylist() == [*(str(item.label) for item in items), None]
    shutil.rmtree(tmp_path / "parity")
    with pytest.raises(ArtifactError, match="parity"):
        job.table(table(text=texts))


def test_unsure_rows_abstain_where_asked(questions):
    found = classify_job("questions", min_probability=0.99).table(table(text=QUESTIONS))["label"].to_pylist()
    assert found == [item.label for item in questions.classify(QUESTIONS, min_probability=0.99)]
    assert ABSTAIN in found


def test_vectors_are_those_of_the_encoder_in_chunks_too(encoder, monkeypatch):
    monkeypatch.setattr(arrow_models, "CHUNK", 3)
    found = classify_job("encode").table(table(text=QUESTIONS))["vector"].combine_chunks()
    assert found.type == pa.list_(pa.float32())
    vectors = found.values.to_numpy().reshape(len(QUESTIONS), -1)
    np.testing.assert_allclose(vectors, encoder.encode(QUESTIONS, views=("pooled",)).pooled, atol=1e-6)


def test_texts_that_are_cut_are_said_by_row_or_by_a_warning():
    rows = table(text=["Who?", None, LONG.replace(" ", "-"), "The cat sat on the mat. " * 80 + "Who?"])
    with pytest.warns(TruncationWarning):
        classify_job("questions").table(rows)
    found = classify_job("questions", outputs=["label", "asked", "truncated"]).table(rows)
    assert found["truncated"].to_pylist() == [False, None, True, False]
    assert found["asked"].to_pylist() == [None, None, None, "Who?"]


def test_a_job_is_small_and_runs_where_it_is_sent():
    sent = pickle.dumps(classify_job("questions"))
    assert len(sent) < 1000
    again = pickle.loads(sent)  # noqa: S301 - written a moment ago
    assert again.table(table(text=["Who built it?"]))["label"].to_pylist() == ["HUM"]


def test_a_relative_folder_is_found_from_any_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for job in (classify_job("questions", models="models"), classify_job("encode", encoder="models/encoder")):
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(tmp_path)
            assert job.table(table(text=["Who?"]))["error"].to_pylist() == [None]


def test_models_that_changed_or_are_gone_are_refused_where_the_rows_are(tmp_path):
    models = tmp_path / "models"
    for name in ("encoder", "questions"):
        shutil.copytree(MODELS / name, models / name)
    job, rows = classify_job("questions", models=models), table(text=["Who?"])
    assert job.table(rows)["label"].to_pylist() == ["HUM"]
    manifest = models / "questions" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(ArtifactError, match="differ from the models of the job"):
        job.table(rows)
    assert classify_job("questions", models=models).table(rows)["label"].to_pylist() == ["HUM"]
    shutil.rmtree(models)
    with pytest.raises(ArtifactError, match="put the models at the same path on every machine"):
        job.table(rows)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"what": "answers"}, InputError, "what is 'answers'; it must be one of 'questions'"),
        ({"what": "texts"}, InputError, "the folder that TextClassifier.save wrote"),
        ({"what": "texts", "heads": {}}, InputError, "at least one"),
        ({"what": "texts", "heads": {"a": "head"}, "models": "head"}, InputError, "no models"),
        ({"heads": {"a": "head"}}, InputError, "heads need what=.texts."),
        ({"what": "passages", "min_probability": 0.5}, InputError, "min_probability applies to questions and texts"),
        ({"what": "pairs", "column": "text"}, InputError, "column has 1 names, .* pairs needs 2"),
        ({"column": [1]}, InputTypeError, "column must be a list of strings, but holds 1"),
        ({"keep": "id"}, InputTypeError, "keep must be a list of column names, not 'id'"),
        ({"outputs": ["labels"]}, InputError, "outputs is 'labels'; it must be one of 'label'"),
        ({"outputs": ["label", "label"]}, InputError, "each only once"),
        ({"prefix": 1}, InputTypeError, "prefix must be a string, not int"),
        ({"models": "nowhere"}, ArtifactError, r"manifest\.json cannot be read"),
    ],
)
def test_mistakes_show_when_the_job_is_made(given, error, message):
    with pytest.raises(error, match=message):
        classify_job(**given)


def test_columns_that_do_not_fit_are_named():
    rows = table(text=["Who?"], size=[1], Label=["x"])
    with pytest.raises(InputError, match="the output column 'label' exists in the input already"):
        classify_job().table(rows)
    assert classify_job(keep=["size"]).table(rows).column_names == ["size", "label", "probability", "error"]
    with pytest.raises(InputError, match="column 'size' holds int64; give a column of strings"):
        classify_job("encode", column="size").table(rows)
    with pytest.raises(InputError, match="there is no column 'body'; the columns are 'text', 'size', 'Label'"):
        classify_job("encode", column="body").table(rows)
    twice = pa.table([pa.array(["Who?"])] * 2, ["text", "text"])
    with pytest.raises(InputError, match="column 'text' comes twice"):
        classify_job("encode").table(twice)


def test_without_pyarrow_the_command_that_installs_it_is_given():
    code = "import sys; sys.modules['pyarrow'] = None; import semclass_integrations.arrow"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert 'pip install "semclass[spark]"' in found.stderr.splitlines()[-1]
