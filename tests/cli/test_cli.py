"""Every command of the core but those of an index: one contract each, and what all commands share."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import click
import pytest
from beir import QUESTIONS, write_beir
from world import ROOT

from semclass.cli.main import cli, main
from semclass.core import plugins
from semclass.index.folder import store
from semclass.ranking.methods import METHODS
from semclass.scoring.fusion import ALPHA, SPARSE_SHARE

CORPUS = ROOT / "semclass" / "demo_data" / "corpus.jsonl"


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "index"
    main(["index", "build", str(CORPUS), "--out", str(folder)])
    return folder


@pytest.fixture
def copy(index, tmp_path):
    """An index that a test may change."""
    return shutil.copytree(index, tmp_path / "index")


@pytest.fixture
def beir(tmp_path, corpus):
    """A BEIR folder of the demonstration's passages."""
    pairs = list(QUESTIONS.items())[:5]
    return write_beir(tmp_path / "beir", corpus, {f"q{place}": pair for place, pair in enumerate(pairs, 1)})


# -- the commands themselves


def leaves(group=cli, words=()):
    """All commands of the core, by the words that call them."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


def test_commands_and_flags_stay_few():
    flags = {flag for _, command in leaves() for param in command.params for flag in param.opts if flag[0] == "-"}
    assert len(list(leaves())) <= 17
    assert len(flags) <= 62


def test_a_command_of_a_missing_package_says_how_to_install_it(run, monkeypatch):
    monkeypatch.setattr(plugins, "installed", lambda group: {})
    code, out, err = run("serve", "my-index")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "run: pip install semclass-serve (in a checkout: pip install ./packages/semclass-serve)" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["classify", "questions", ""], "questions[0] is empty"),
        (["classify", "questions"], "or with --file"),
        (["classify", "questions", "--file", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["classify", "questions", "x", "--head", "h"], "--head does not apply to questions, but to texts"),
        (["classify", "questions", "x", "--text-column", "body"], "apply only to a file"),
        (["classify", "pairs", "Who?"], "at least one sentence"),
        (["classify", "texts", "Hello!"], "either --head FOLDER or --labels FILE"),
        (["search", "nowhere", "Who?"], "nowhere does not exist; build an index there with `semclass index build"),
        (["index", "build", "nowhere", "--out", "x"], "nowhere does not exist"),
        (["evaluate", "nowhere"], "semclass index build nowhere --out INDEX"),
        (["evaluate", "nowhere", "--index", "x"], "queries.jsonl is missing"),
        (["evaluate", "nowhere", "--sweep", "--index", "x"], "--sweep compares plain vectors"),
        (["tune", "x"], "exactly one of --judgements FILE, --method NAME and --reset"),
        (["calibrate", "x", "--judgements", "j.jsonl", "--reset"], "either --judgements FILE or --reset"),
        (["calibrate", "x", "--judgements", "j.jsonl"], "j.jsonl cannot be read"),
        (["models", "--models", "nowhere"], "no folder 'nowhere'"),
        (["rerank", " ", "--passages", str(ROOT / "README.md")], "question is empty"),
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


def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path):
    file = tmp_path / "many.txt"
    file.write_text("Who wrote it?\n" * 600)
    command = f'"{sys.executable}" -m semclass classify questions --file "{file}" --json | head -n 1'
    process = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    assert len(process.stdout.splitlines()) == 1


# -- classify


def test_questions(run, tmp_path):
    code, out, err = run("classify", "questions", "Who wrote Hamlet?", "When did it end?", "--json")
    assert (code, err) == (0, "")
    records = json_lines(out)
    assert [(record["label"], record["fine"]) for record in records] == [("HUM", "HUM:ind"), ("NUM", "NUM:date")]
    assert records[1]["fine_probability"] == records[1]["fine_probabilities"]["NUM:date"]
    _, out, _ = run("classify", "questions", "--min-probability", 0.9, "When did it end?", "amber")
    assert [line.split()[0] for line in out.splitlines()] == ["NUM", "ABSTAIN"]


def test_what_documents_may_answer_is_in_scope(run):
    code, out, _ = run("classify", "texts", "--head", "in_scope", "Who wrote Hamlet?", "Tell me a joke")
    assert (code, [line[:14].strip() for line in out.splitlines()]) == (0, ["in scope", "ABSTAIN"])
    code, out, err = run("classify", "texts", "--head", "inscope", "Who wrote Hamlet?")
    assert (code, out, "Shipped with semclass: in_scope" in err) == (2, "", True)


def test_passages(run, tmp_path):
    code, out, _ = run("classify", "passages", "--file", CORPUS, "--json")
    records = json_lines(out)
    assert (code, "NUM" in records[1]["labels"]) == (0, True)
    assert run("classify", "passages", "It opened in 1932.")[1] == "NUM            It opened in 1932.\n"


def test_pairs(run, tmp_path):
    question, right, wrong = "When did it open?", "The bridge was opened in May 1932.", "It is painted red."
    code, out, _ = run("classify", "pairs", question, right, wrong, "--json")
    records = json_lines(out)
    assert (code, [record["sentence"] for record in records]) == (0, [right, wrong])
    assert records[0]["probability"] > records[1]["probability"]
    lines = tmp_path / "pairs.jsonl"
    lines.write_text("".join(json.dumps({"question": question, "sentence": text}) + "\n" for text in (right, wrong)))
    assert run("classify", "pairs", "--file", lines, "--json")[1] == out
    lines.write_text('{"question": "Who?"}\n')
    assert "line 1: sentence is missing" in run("classify", "pairs", "--file", lines)[2]


def test_texts_by_labels_that_are_described(run, tmp_path):
    labels = tmp_path / "labels.json"
    labels.write_text('{"refund": "Somebody wants money back.", "parking": "Where to leave the car."}')
    code, out, _ = run("classify", "texts", "--labels", labels, "Give me my money back!", "--json")
    assert (code, json_lines(out)[0]["label"]) == (0, "refund")


def test_a_file_has_a_column_of_texts(run, tmp_path):
    (tmp_path / "x.csv").write_text("label;question\na;Who wrote it, and why?\nb;How tall is it?\n")
    code, out, err = run("classify", "questions", "--file", tmp_path / "x.csv", "--text-column", "question", "--json")
    texts = [record["text"] for record in json_lines(out)]
    assert (code, err, texts) == (0, "", ["Who wrote it, and why?", "How tall is it?"])


# -- search, rerank, models, demo


def test_search_and_explain(run, index):
    code, out, _ = run("search", index, "Who designed the lighthouse?", "-k", 3, "--json", "--explain")
    (record,) = json_lines(out)
    assert code == 0
    assert {"query_used", "certainty", "answerable", "language"} < set(record)
    assert record["question"]["label"] == "HUM"
    first = record["hits"][0]
    assert (len(record["hits"]), first["id"]) == (3, "lighthouse-3")
    assert {"text", "score", "rank", "rank_before", "components", "labels", "metadata", "explanation"} < set(first)
    out = run("search", index, "Who designed the lighthouse?", "-k", 3, "--explain")[1]
    assert out.splitlines()[0].startswith("answer type of the question: HUM")
    assert "bm25" in out


def test_re_ranking_a_file(run, tmp_path):
    passages = tmp_path / "p.jsonl"
    passages.write_text('{"text": "It is red."}\n{"text": "Ada Merriweather designed the tower."}\n')
    code, out, _ = run("rerank", "Who designed the tower?", "--passages", passages, "--json")
    assert code == 0
    assert [(hit["id"], hit["rank_before"]) for hit in json_lines(out)[0]["hits"]] == [("2", 2), ("1", 1)]


def test_models_are_listed_and_verified(run):
    code, out, _ = run("models", "--json")
    records = {record["name"]: record for record in json_lines(out)}
    assert code == 0
    assert {"encoder", "questions", "passages", "pairs/entailment"} <= set(records)
    assert all(record["verified"] for record in records.values())


def test_demo(run):
    code, out, _ = run("demo")
    assert code == 0
    before, after = (next(line for line in out.splitlines() if word in line) for word in ("before  ", "after  "))
    assert "Helena Voss" in after
    assert "Helena Voss" not in before
    assert len(out.splitlines()) <= 25


# -- evaluate, tune, calibrate


def test_evaluate_measures_every_method(run, beir, index, tmp_path):
    code, out, _ = run("evaluate", beir, "--index", index, "--runs", tmp_path / "runs", "--json")
    (record,) = json_lines(out)
    assert (code, list(record)) == (0, list(METHODS))
    assert record["hybrid"]["error_removed"] == 0
    assert record["default"]["mrr@10"] == 1.0
    assert record["convex"]["weights"] == {"alpha": ALPHA, "sparse": SPARSE_SHARE}
    assert sorted(path.stem for path in (tmp_path / "runs").iterdir()) == sorted(record)
    assert "2 questions, 30 passages" in run("evaluate", beir, "--index", index, "--limit", 2)[1]
    (record,) = json_lines(run("evaluate", beir, "--index", index, "--quick", "--json")[1])
    assert {*record} == {"hybrid", "convex", "default"}


def test_evaluate_reads_judgements(run, index, tmp_path):
    judged = tmp_path / "judged.jsonl"
    rows = [{"question": question, "passage": passage, "right": True} for question, passage in QUESTIONS.items()]
    judged.write_text("\n".join(map(json.dumps, rows)))
    (record,) = json_lines(run("evaluate", judged, "--index", index, "--quick", "--json")[1])
    assert record["default"]["top1"] >= record["hybrid"]["top1"]
    assert run("evaluate", judged, "--sweep")[0] == 2


def test_the_best_method_becomes_that_of_the_index(run, beir, copy):
    out = run("evaluate", beir, "--index", copy)[1]
    assert [line.split()[0] for line in out.splitlines() if line[:6] in ("defaul", "convex")] == [
        "default", "convex",
    ]  # fmt: skip
    assert "best on these questions: default" in out
    before, question = (copy / "manifest.json").read_bytes(), "Who built the bridge?"
    assert run("tune", copy, "--method", "bm25")[1] == f"{copy} uses the method bm25\n"
    assert "default method: bm25" in run("index", "info", copy)[1]
    assert run("search", copy, question, "--json")[1] == run("search", copy, question, "--method", "bm25", "--json")[1]
    assert run("tune", copy, "--reset")[0] == 0
    assert (copy / "manifest.json").read_bytes() == before


def test_evaluate_compares_plain_vectors(run, beir):
    code, out, _ = run("evaluate", beir, "--sweep", "--json")
    (record,) = json_lines(out)
    assert (code, list(record)) == (0, ["cosine", "ip", "l2"])
    assert record["cosine"]["measures"]["R@10"]["value"] > 0.5
    assert record["cosine"]["p_value"] == 1
    assert "RR@10" in run("evaluate", beir, "--sweep")[1]


def test_weights_are_tuned_stored_and_removed(run, copy, tmp_path):
    before = (copy / "manifest.json").read_bytes()
    rows = [{"question": question, "passage": passage, "right": True} for question, passage in QUESTIONS.items()]
    (tmp_path / "judged.jsonl").write_text("\n".join(map(json.dumps, rows[:5])))
    given = ("--judgements", tmp_path / "judged.jsonl")
    code, out, _ = run("tune", copy, *given, "--dry-run", "--json")
    assert (code, (copy / "manifest.json").read_bytes()) == (0, before)
    (record,) = json_lines(out)
    assert set(record) == {"index", "stored", "weights", "found_on", "searches"}
    assert record["found_on"]["questions"] == 5
    assert record["found_on"]["judgements"] == "judged.jsonl"
    assert set(record["searches"]["alpha"]) >= {"default", "best", "mrr_cross_validated", "standard_error"}
    code, out, _ = run("tune", copy, *given)
    assert (code, out.startswith("5 questions, MRR@10;"), "default kept" in out) == (0, True, True)
    store(copy, weights={"bm25": 0.03}, found_on={"questions": 200, "date": "2030-01-02"})
    out = run("index", "info", copy)[1]
    assert "weights: bm25 0.03" in out
    assert "200 questions, 2030-01-02" in out
    assert json_lines(run("tune", copy, "--reset", "--json")[1]) == [{"index": str(copy), "weights": {}}]
    assert (copy / "manifest.json").read_bytes() == before


def test_judgements_tune_and_calibrate(run, copy, tmp_path):
    wrong = [f"What is the melting point of {metal}?" for metal in ("tungsten", "iron", "zinc", "tin", "gold", "lead")]
    rows = [(question, passage, True) for question, passage in QUESTIONS.items()]
    for question in wrong:
        (hit,) = json_lines(run("search", copy, question, "-k", 1, "--json")[1])[0]["hits"]
        rows.append((question, hit["id"], False))
    lines = [json.dumps(dict(zip(("question", "passage", "right"), row, strict=True))) for row in rows]
    (tmp_path / "judged.jsonl").write_text("\n".join(lines))
    judged = ("--judgements", tmp_path / "judged.jsonl")
    (record,) = json_lines(run("tune", copy, *judged, "--json")[1])
    assert (record["found_on"]["questions"], record["stored"]) == (7, True)
    code, out, _ = run("calibrate", copy, *judged, "--json")
    (record,) = json_lines(out)
    assert (code, record["stored"], record["questions"], record["answered"]) == (0, True, 13, 7)
    assert f"below answerable {record['from']:.2f}" in run("index", "info", copy)[1]
    (tmp_path / "right.jsonl").write_text("\n".join(lines[:7]))
    out = run("calibrate", copy, "--judgements", tmp_path / "right.jsonl", "--dry-run")[1]
    assert "there are only\n0 of 5 unanswered ones" in out
    assert run("calibrate", copy, "--reset")[1] == f"{copy} has no threshold\n"
    assert "threshold of answerable" in run("calibrate", copy, *judged, "--dry-run")[1]
