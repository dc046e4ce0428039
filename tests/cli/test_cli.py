from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import click
import pytest
from beir import write_beir
from running import running
from stub_endpoint import stub_endpoint
from world import ROOT

from semclass.cli.main import cli, main
from semclass.ranking.methods import METHODS
from semclass.scoring.fusion import ALPHA

run = pytest.fixture(running)

CORPUS = ROOT / "semclass" / "demo_data" / "corpus.jsonl"


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "index"
    main(["index", "build", str(CORPUS), "--out", str(folder)])
    return folder


def test_questions_from_arguments(run):
    code, out, err = run("classify", "questions", "Who wrote Hamlet?", "How tall is it?", "--json")
    assert (code, err) == (0, "")
    records = json_lines(out)
    assert [record["label"] for record in records] == ["HUM", "NUM"]
    assert list(records[0]) == ["text", "label", "probability", "probabilities", "coarse", "fine"]


def test_questions_from_a_file_stay_in_order(run, tmp_path):
    questions = [f"Who wrote book {number}?" if number % 2 else f"When was {number} built?" for number in range(70)]
    (tmp_path / "plain.txt").write_text("\n".join(questions) + "\n")
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in questions))
    results = [
        run("classify", "questions", "--file", tmp_path / name, "--json") for name in ("plain.txt", "lines.jsonl")
    ]
    assert results[0] == results[1]
    assert [record["text"] for record in json_lines(results[0][1])] == questions


def test_fine_classes(run):
    code, out, _ = run("classify", "questions", "--fine", "When did it end?", "--json")
    assert code == 0
    (record,) = json_lines(out)
    assert (record["label"], record["coarse"]) == ("NUM:date", "NUM")
    assert record["probability"] == record["probabilities"]["NUM:date"]
    assert len(record["probabilities"]) == 50
    assert run("classify", "questions", "--fine", "When did it end?")[1].startswith("NUM:date ")


def test_the_classical_head_answers_on_demand(run):
    given = ("classify", "questions", "Who wrote Hamlet?", "How tall is it?", "--json")
    code, out, _ = run(*given, "--head", "questions-svm")
    assert code == 0
    assert [record["label"] for record in json_lines(out)] == ["HUM", "NUM"]
    assert out != run(*given)[1]
    assert run(*given, "--head", "questions-mlp")[0] == 2


def test_unsure_answers_can_be_declined(run):
    _, out, _ = run("classify", "questions", "--min-probability", 0.9, "When did it end?", "amber")
    assert [line.split()[0] for line in out.splitlines()] == ["NUM", "ABSTAIN"]
    assert out.splitlines()[1].endswith("amber")


def test_pairs(run, tmp_path):
    question, right, wrong = "When did it open?", "The bridge was opened in May 1932.", "It is painted red."
    code, out, _ = run("classify", "pairs", question, right, wrong, "--json")
    assert code == 0
    records = json_lines(out)
    assert [(record["question"], record["sentence"]) for record in records] == [(question, right), (question, wrong)]
    assert records[0]["probability"] > records[1]["probability"]
    lines = tmp_path / "pairs.jsonl"
    lines.write_text("".join(json.dumps({"question": question, "sentence": text}) + "\n" for text in (right, wrong)))
    assert run("classify", "pairs", "--file", lines, "--json")[1] == out
    lines.write_text('{"question": "Who?"}\n')
    code, _, err = run("classify", "pairs", "--file", lines)
    assert (code, "line 1: sentence is missing" in err) == (2, True)
    assert run("classify", "pairs", question)[0] == 2


def test_passages(run):
    code, out, _ = run("classify", "passages", "--file", CORPUS, "--json")
    assert code == 0
    records = json_lines(out)
    assert [record["_id"] for record in records][:2] == ["lighthouse-1", "lighthouse-2"]
    assert set(records[0]) == {"_id", "text", "probabilities", "labels"}
    assert "NUM" in records[1]["labels"]


def test_search_and_explain(run, index):
    code, out, _ = run("search", index, "Who designed the lighthouse?", "-k", 3, "--json", "--explain")
    assert code == 0
    (record,) = json_lines(out)
    assert {"query_used", "certainty", "answerable", "language"} < set(record)
    assert record["question"]["label"] == "HUM"
    first = record["hits"][0]
    assert first["id"] == "lighthouse-3"
    assert {"text", "score", "rank", "rank_before", "components", "labels", "probabilities", "metadata"} < set(first)
    code, out, _ = run("search", index, "Who designed the lighthouse?", "-k", 3, "--explain")
    assert out.splitlines()[0].startswith("asks for HUM")
    assert "BM25" in out


@pytest.mark.parametrize("method", METHODS)
def test_every_method_searches(run, index, method):
    code, out, _ = run("search", index, "Who designed the lighthouse?", "--method", method, "--json")
    assert code == 0
    assert len(json_lines(out)[0]["hits"]) == 10


def test_re_ranking_a_file(run, tmp_path):
    passages = tmp_path / "p.jsonl"
    passages.write_text('{"text": "It is red."}\n{"text": "Ada Merriweather designed the tower."}\n')
    code, out, _ = run("rerank", "Who designed the tower?", "--passages", passages, "--json")
    assert code == 0
    assert [(hit["id"], hit["rank_before"]) for hit in json_lines(out)[0]["hits"]] == [("2", 2), ("1", 1)]


def test_models_are_listed_and_verified(run):
    code, out, _ = run("models", "--json")
    assert code == 0
    assert {"encoder", "questions", "passages", "pairs/entailment", "pairs/learned"} <= {
        record["name"] for record in json_lines(out)
    }


def test_demo(run):
    code, out, _ = run("demo")
    assert code == 0
    assert "Who leads the museum?" in out
    assert "a person or a group" in out
    before, after = (next(line for line in out.splitlines() if word in line) for word in ("before  ", "after  "))
    assert "four metres" in after
    assert "four metres" not in before
    assert "now likely" in out
    assert len(out.splitlines()) <= 25


@pytest.fixture
def beir(tmp_path, corpus):
    """A BEIR folder of the demonstration's passages."""
    questions = {
        "q1": ("Who designed the lighthouse?", "lighthouse-3"),
        "q2": ("When was the lighthouse finished?", "lighthouse-2"),
        "q3": ("Where is the museum?", "museum-2"),
        "q4": ("Which bird digs a burrow?", "birds-2"),
    }
    return write_beir(tmp_path / "beir", corpus, questions)


def test_evaluate_measures_every_method(run, beir, tmp_path, monkeypatch):
    monkeypatch.setenv("SEMCLASS_CACHE", str(tmp_path / "cache"))
    code, out, _ = run("evaluate", beir, "--json")
    assert code == 0
    (record,) = json_lines(out)
    assert list(record) == list(METHODS)
    fields = {
        "mrr@10", "top1", "top_k", "recall@10", "ndcg@10", "cond_mrr", "cond_top1", "error_removed", "p_value",
        "mrr@10_ci", "error_removed_ci", "measures", "weights",
    }  # fmt: skip
    for name, values in record.items():
        assert set(values) == fields | ({"candidates"} if METHODS[name].kind else set())
        assert values["measures"]["nDCG@10"] == values["ndcg@10"]
    assert record["hybrid"]["error_removed"] == 0
    assert record["learned"]["mrr@10"] == 1.0
    assert record["default"]["candidates"] == METHODS["default"].candidates
    assert record["convex"]["weights"] == {"alpha": ALPHA}
    assert record["bm25"]["weights"] == record["dense"]["weights"] == {}
    assert len(list((tmp_path / "cache").iterdir())) == 1
    again = run("evaluate", beir, "--json")
    assert again[1] == out
    code, out, _ = run("evaluate", beir, "--limit", 2)
    assert "2 questions, 30 passages" in out


def test_evaluate_takes_measures_slices_runs_and_candidates(run, beir, tmp_path, monkeypatch):
    monkeypatch.setenv("SEMCLASS_CACHE", str(tmp_path / "cache"))
    options = ("--measures", "AP@100 F1@1", "--slices", "--candidates", 20)
    code, out, _ = run("evaluate", beir, *options, "--runs", tmp_path / "runs", "--json")
    assert code == 0
    (record,) = json_lines(out)
    assert {"learned", "learned@20"} < set(record)
    assert record["learned@20"]["candidates"] == 20
    assert "hybrid@20" not in record
    for values in record.values():
        assert set(values["measures"]) == {"AP@100", "F1@1"}
        assert values["measures"]["F1@1"] == values["top1"]
        assert sum(found["questions"] for found in values["slices"]["question class"].values()) == 4
        assert list(values["slices"]["passage kind"]) == ["text"]
    assert sorted(path.stem for path in (tmp_path / "runs").iterdir()) == sorted(record)
    code, out, _ = run("evaluate", beir, *options)
    assert "error removed by passage kind" in out
    assert "AP@100" in out

    foreign = tmp_path / "other.trec"
    foreign.write_bytes((tmp_path / "runs" / "learned.trec").read_bytes())
    code, out, _ = run("evaluate", beir, "--run", foreign, "--run", tmp_path / "runs" / "hybrid.trec", "--json")
    (record,) = json_lines(out)
    for run_name, method in (("other", "learned"), (str(tmp_path / "runs" / "hybrid.trec"), "hybrid")):
        settings = {key: record[method][key] for key in ("weights", "candidates") if key in record[method]}
        assert {**settings, **record[run_name]} == record[method]


def test_evaluate_lets_a_model_re_rank_where_the_default_is_unsure(run, beir, tmp_path, monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("SEMCLASS_CACHE", str(tmp_path / "cache"))
    with stub_endpoint(lambda prompt, before: "no") as stub:
        asked = ("evaluate", beir, "--endpoint", stub.url, "--model", "m", "--prices", 1, 2)
        shares = ("--send", 0.5, "--send", 1)
        code, out, err = run(*asked, *shares, "--estimate")
        assert (code, out, "20 calls" in err, "USD" in err, len(stub.asked)) == (0, "", True, True, 0)
        code, out, err = run(*asked, *shares, "--json", "--runs", tmp_path / "runs")
        (record,) = json_lines(out)
        assert code == 0
        assert record["sent-0.5"]["mrr@10"] == record["sent-1"]["mrr@10"] == record["default"]["mrr@10"]
        assert "sent-0.5: 2 of 4 questions; --send-below " in err
        assert (tmp_path / "runs" / "sent-1.trec").is_file()
        assert "20 of them kept" in run(*asked, *shares)[2]  # no reply is paid for twice
    assert set(stub.asked.values()) == {1}
    for wrong in (("--send", 0.5), ("--prices", 1, 2), ("--prompt", "listwise"), ("--send", 0.5, "--model", "m")):
        code, out, err = run("evaluate", beir, *wrong)
        assert (code, out, err.startswith("error: ")) == (2, "", True)


def test_evaluate_names_what_is_wrong_before_the_work(run, beir, tmp_path):
    code, _, err = run("evaluate", beir, "--measures", "nDCG@10 Speed@5")
    assert (code, "ir-measures cannot compute 'Speed@5'" in err) == (2, True)
    (tmp_path / "run.trec").write_text("q1 Q0 lighthouse-3 1\n")
    code, _, err = run("evaluate", beir, "--run", tmp_path / "run.trec")
    assert (code, "run.trec, line 1" in err) == (2, True)


def test_weights_are_tuned_stored_used_and_removed(run, beir, index, tmp_path):
    copy = tmp_path / "index"
    shutil.copytree(index, copy)
    given = ("--queries", beir / "queries.jsonl", "--qrels", beir / "qrels" / "test.tsv", "--folds", 2)
    before = (copy / "manifest.json").read_bytes()
    figure = ("--out-figure", tmp_path / "curve.png") if find_spec("matplotlib") else ()
    code, out, _ = run("tune", copy, *given, "--dry-run", "--json", *figure)
    assert (code, (copy / "manifest.json").read_bytes()) == (0, before)
    assert not figure or figure[1].read_bytes().startswith(b"\x89PNG")
    (record,) = json_lines(out)
    assert set(record) == {"index", "stored", "weights", "found_on", "searches"}
    assert record["found_on"]["questions"] == 4
    assert len(record["found_on"]["queries"]["sha256"]) == 64
    assert set(record["searches"]["bm25"]) >= {"default", "best", "mrr_cross_validated", "standard_error", "learned"}
    code, out, _ = run("tune", copy, *given)
    assert code == 0
    assert out.startswith("4 questions, MRR@10;")
    assert "default kept" in out
    code, out, _ = run("tune", copy, "--reset", "--json")
    assert json_lines(out) == [{"index": str(copy), "weights": {}}]
    assert (copy / "manifest.json").read_bytes() == before


@pytest.mark.filterwarnings("default")
def test_a_tuned_index_is_measured_and_its_own_questions_are_named(run, beir, index, tmp_path, monkeypatch):
    from semclass.core.artifacts import sha256_of
    from semclass.index.commit import store_tuned

    monkeypatch.setenv("SEMCLASS_CACHE", str(tmp_path / "cache"))
    copy = tmp_path / "index"
    shutil.copytree(index, copy)
    plain = run("evaluate", beir, "--json")[1]
    assert run("evaluate", beir, "--index", copy, "--json")[1] == plain
    found_on = {"qrels": {"sha256": sha256_of(beir / "qrels" / "test.tsv")}}
    store_tuned(copy, {"weights": {"bm25": 0.0}, "found_on": found_on})
    code, out, err = run("evaluate", beir, "--index", copy, "--json")
    assert code == 0
    assert out != plain
    assert "tuned on" in err
    (beir / "qrels" / "test.tsv").rename(beir / "qrels" / "other.tsv")
    with (beir / "qrels" / "other.tsv").open("a") as file:
        file.write("q1\tlighthouse-1\t1\n")
    assert run("evaluate", beir, "--index", copy, "--split", "other", "--json")[2] == ""


def test_what_an_index_holds_is_told(run, index, tmp_path):
    from semclass.index.commit import store_tuned

    copy = tmp_path / "index"
    shutil.copytree(index, copy)
    code, out, _ = run("index", "info", copy)
    assert code == 0
    assert out.startswith("30 passages, ")
    assert "weights: the defaults" in out
    store_tuned(copy, {"weights": {"bm25": 0.03}, "found_on": {"questions": 200, "date": "2030-01-02"}})
    out = run("index", "info", copy)[1]
    assert "weights: bm25 0.03" in out
    assert "200 questions, 2030-01-02" in out
    (record,) = json_lines(run("index", "info", copy, "--json")[1])
    assert (record["passages"], record["tuned"]["weights"]) == (30, {"bm25": 0.03})
    code, _, err = run("index", "info", tmp_path)
    assert (code, "holds no index" in err) == (2, True)


def test_an_index_is_changed_looked_through_and_compacted(run, index, tmp_path):
    copy, new = tmp_path / "index", tmp_path / "new.jsonl"
    shutil.copytree(index, copy)
    lines = [{"_id": "new", "text": "A submarine is a boat that can dive.", "page": 7}]
    new.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = run("index", "add", copy, new, "--json")
    assert (code, json_lines(out)) == (0, [{"index": str(copy), "added": 1, "passages": 31, "segments": 2}])
    code, _, err = run("index", "add", copy, new)
    assert (code, "'new' is in the index already" in err) == (2, True)
    assert json_lines(run("index", "add", copy, new, "--update", "--json")[1])[0]["changed"] == 0
    (hit,) = json_lines(run("search", copy, "What dives?", "--where", "page>=7", "--json")[1])[0]["hits"]
    assert (hit["id"], hit["metadata"]) == ("new", {"page": 7})
    code, out, _ = run("index", "delete", copy, "lighthouse-1", "lighthouse-2")
    assert out == "2 removed: 29 passages in 2 segments\n"
    assert "2 segments, 2 removed passages still stored" in run("index", "info", copy)[1]
    code, out, _ = run("index", "verify", copy)
    assert (code, out) == (0, "29 passages in 2 segments: files, shapes, ids, statistics are right\n")
    assert run("index", "delete", copy, "nobody")[0] == 2
    (tmp_path / "ids").write_text("nobody\n\nlighthouse-3\n")
    code, out, _ = run("index", "delete", copy, "--file", tmp_path / "ids", "--ignore-missing", "--json")
    assert json_lines(out)[0]["removed"] == 1
    assert json_lines(run("index", "delete", copy, "--where", "page=7", "--json")[1])[0]["passages"] == 27
    assert run("index", "compact", copy)[1] == "27 passages in 1 segment\n"
    assert run("index", "delete", copy)[0] == 2
    (records,) = copy.glob("segment-*/records.npy")
    records.write_bytes(records.read_bytes()[:-1] + b" ")
    code, _, err = run("index", "verify", copy)
    assert (code, "records.npy was changed" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "both --queries FILE and --qrels FILE"),
        (["--queries", "q.jsonl"], "both --queries FILE and --qrels FILE"),
        (["--queries", "q.jsonl", "--reset"], "--reset only removes"),
        (["--queries", "q.jsonl", "--qrels", "q.tsv"], "q.tsv cannot be read"),
    ],
)
def test_tuning_says_what_it_needs(run, index, options, says):
    code, _, err = run("tune", index, *options)
    assert (code, says in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["classify", "questions", ""], "questions[0] is empty"),
        (["classify", "questions"], "or with --file"),
        (["classify", "questions", "--file", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["search", "nowhere", "Who?"], "nowhere does not exist; build an index there with `semclass index build"),
        (["search", "http://localhost:6333/", "Who?"], "e.g. http://localhost:6333/passages"),
        (["index", "build", "nowhere", "--out", "x"], "nowhere does not exist"),
        (["evaluate", "nowhere"], "corpus.jsonl is missing"),
        (["models", "--models", "nowhere"], "no folder 'nowhere'"),
        (["rerank", "Who?", "--passages", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
    ],
)
def test_bad_input_is_named_and_exits_with_2(run, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert list(tmp_path.iterdir()) == []


def test_k_must_be_positive_and_is_clamped(run, index):
    code, _, err = run("search", index, "Who?", "-k", 0)
    assert code == 2
    assert "k is 0; it must be at least 1" in err
    code, out, _ = run("search", index, "Who?", "-k", 500, "--json")
    assert code == 0
    assert len(json_lines(out)[0]["hits"]) == 30


def test_unknown_options_exit_with_2(run):
    assert run("search", "--frobnicate")[0] == 2
    assert run("classify", "questions", "x", "--threads", 0)[0] == 2


@pytest.mark.filterwarnings("default")
def test_long_passages_are_cut_with_one_warning(run, tmp_path):
    source = tmp_path / "long.jsonl"
    source.write_text(json.dumps({"text": "\u4e00" * 5_000}) + "\n")
    code, out, err = run("index", "build", source, "--out", tmp_path / "index", "--json")
    assert code == 0
    assert err.count("warning:") == 1
    assert "1 of 1 passage has a sentence" in err
    assert json_lines(out)[0]["passages"] == 1


def test_an_index_is_replaced_only_when_that_is_asked_for(run, tmp_path):
    (tmp_path / "first.txt").write_text("Tea is made of leaves.\n")
    (tmp_path / "second.txt").write_text(
        "Coffee is made of the beans of a shrub.\n\nBefore they are ground, the beans are roasted.\n"
    )
    assert run("index", "build", tmp_path / "first.txt", "--out", tmp_path / "index")[0] == 0
    code, out, err = run("index", "build", tmp_path / "second.txt", "--out", tmp_path / "index")
    assert (code, out) == (2, "")
    assert "holds an index of 1 passage already; give --replace" in err
    assert json_lines(run("index", "info", tmp_path / "index", "--json")[1])[0]["passages"] == 1
    assert run("index", "build", tmp_path / "second.txt", "--out", tmp_path / "index", "--replace")[0] == 0
    assert json_lines(run("index", "info", tmp_path / "index", "--json")[1])[0]["passages"] == 2


def test_a_build_that_was_stopped_goes_on_without_being_told_so(run, tmp_path):
    source = tmp_path / "p.jsonl"
    source.write_text('{"text": "Tea is made of leaves."}\n{"text": "broken\n')
    assert run("index", "build", source, "--out", tmp_path / "index")[0] == 2
    source.write_text('{"text": "Tea is made of leaves."}\n{"text": "Coffee is made of beans."}\n')
    code, out, _ = run("index", "build", source, "--out", tmp_path / "index", "--json")
    assert (code, json_lines(out)[0]["passages"]) == (0, 2)


def test_passages_are_read_from_a_pipe(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "semclass", "index", "build", "-", "--out", str(tmp_path / "index")],
        cwd=ROOT, capture_output=True, text=True, check=False, input='{"text": "Tea is made of leaves."}\n',
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("1 passage indexed")


def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("Who wrote it?\n" * 600)
    command = f'"{sys.executable}" -m semclass classify questions --file "{file}" --json | head -n 1'
    process = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    assert len(process.stdout.splitlines()) == 1


def test_texts_come_by_a_pipe():
    command = [sys.executable, "-m", "semclass", "classify", "questions", "--file", "-", "--json"]
    asked = subprocess.run(command, input="Who wrote it?\nHow tall is it?\n", capture_output=True, text=True, cwd=ROOT)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert [record["label"] for record in json_lines(asked.stdout)] == ["HUM", "NUM"]


def test_texts_are_sorted_by_labels_that_are_described(run, tmp_path):
    labels = tmp_path / "labels.json"
    labels.write_text('{"refund": "Somebody wants money back.", "parking": "Where to leave the car."}')
    code, out, _ = run("classify", "texts", "--labels", labels, "Give me my money back!", "--json")
    assert (code, json_lines(out)[0]["label"]) == (0, "refund")
    assert run("classify", "texts", "Hello!")[0] == 2  # neither labels nor a model


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("x.csv", 'id,text,label\n1,"Who wrote it, and why?",a\n2,How tall is it?,b\n', []),
        ("x.tsv", "label\ttext\na\tWho wrote it, and why?\n\nb\tHow tall is it?\n", []),
        ("x.tsv", "Who wrote it, and why?\ta\nHow tall is it?\tb\n", []),
        ("x.csv", 'text\n"Who wrote it, and why?"\nHow tall is it?\n', []),
        ("x.txt", "text\tlabel\nWho wrote it, and why?\ta\nHow tall is it?\tb\n", []),
        ("x.csv", "label;question\na;Who wrote it, and why?\nb;How tall is it?\n", ["--text", "question"]),
        ("x.jsonl", '{"q": "Who wrote it, and why?"}\n{"q": "How tall is it?"}\n', ["--text", "q"]),
    ],
)
def test_columns_of_a_file_are_those_that_train_reads(run, tmp_path, name, content, options):
    (tmp_path / name).write_text(content)
    (tmp_path / "labels.json").write_text('{"person": "Who it is.", "height": "How tall it is."}')
    for kind in (["texts", "--labels", tmp_path / "labels.json"], ["questions"]):
        code, out, err = run("classify", *kind, "--file", tmp_path / name, *options, "--json")
        assert (code, err) == (0, "")
        assert [record["text"] for record in json_lines(out)] == ["Who wrote it, and why?", "How tall is it?"]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"text,label\n", [], "contains no texts"),
        (b"text,label\n,a\n", [], "line 2 has no text in column 1"),
        (b"text,label\nb,a\n", ["--text", "body"], "there is no column 'body'"),
        (b"text,label\ncaf\xe9,a\n", [], "--encoding"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(run, tmp_path, content, options, says):
    (tmp_path / "x.csv").write_bytes(content)
    code, out, err = run("classify", "questions", "--file", tmp_path / "x.csv", *options)
    assert (code, out) == (2, "")
    assert says in err


def test_options_of_a_file_need_one(run, tmp_path):
    assert run("classify", "questions", "Who?", "--text", "body")[0] == 2
    (tmp_path / "x.csv").write_bytes(b"text,label\nWho sells caf\xe9?,a\n")
    code, out, _ = run("classify", "questions", "--file", tmp_path / "x.csv", "--encoding", "cp1252", "--json")
    assert (code, json_lines(out)[0]["text"]) == (0, "Who sells caf\u00e9?")


def commands(group=cli, words=()):
    """All commands, by the words that call them."""
    for name, command in group.commands.items():
        yield (*words, name), command
        yield from commands(command, (*words, name)) if isinstance(command, click.Group) else ()


def test_a_head_has_one_name_in_all_commands():
    options = {
        words: {name for one in command.params if isinstance(one, click.Option) for name in one.opts}
        for words, command in commands()
    }
    for words in (("train",), ("classify", "texts"), ("labels", "next"), ("index", "build"), ("search",), ("serve",)):
        assert "--head" in options[words]
    assert all("--endpoint" in names for names in options.values() if "--model" in names)


def test_what_asks_nothing_of_a_corpus_is_told(run):
    found = json_lines(run("classify", "questions", "--in-scope", "--json", "Who wrote Hamlet?", "Tell me a joke")[1])
    assert found[0]["in_scope"] > 0.9 > 0.5 > found[1]["in_scope"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(run, shell):
    assert "_SEMCLASS_COMPLETE" in run("completion", shell)[1]


def test_completion_knows_commands_and_options():
    def completed(words):
        given = {"_SEMCLASS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        command = [sys.executable, "-c", "from semclass.cli.main import main; main()"]
        return subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, cwd=ROOT).stdout

    assert completed("semclass tu").splitlines() == ["plain,tune"]
    assert "plain,--method" in completed("semclass search --me").splitlines()


def test_nothing_is_coloured():
    variables = {**os.environ, "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}
    for arguments in (["models"], ["--help"], ["nosuch"]):
        command = [sys.executable, "-m", "semclass", *arguments]
        said = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=ROOT)
        assert "\x1b" not in said.stdout + said.stderr
