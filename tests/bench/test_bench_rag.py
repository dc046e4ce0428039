"""The pipeline around the search, measured: on the demonstration's passages, against a stub in place of a model."""

import gzip
import json
import shutil

import numpy as np
import pytest

pytest.importorskip("ir_measures")
pytest.importorskip("openai")
pytest.importorskip("rouge_score")
pytest.importorskip("sklearn")

from bench import rag, rag_budget, rag_tables
from bench.rag_encoders import ENCODERS
from bench.steps import Bench, write_beir
from bench.stub_endpoint import FILTERED, stub_endpoint
from semclass import Passage

FINISHED = "Work on the lighthouse began in the spring of 1871 and was finished in October 1874"
ASKED = {
    "when": ("When was the lighthouse finished?", "lighthouse-2", [FINISHED]),
    "who": ("Who designed the tower?", "lighthouse-3", ["Ada Merriweather"]),
    "cost": ("What does a return ticket for the ferry cost adults?", "ferry-2", ["12.40 euros"]),
    "high": ("How high is the lighthouse?", "lighthouse-4", ["41 metres"]),
}
RIGHT = {text: answers[0] for text, _, answers in ASKED.values()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """The demonstration's passages as a BEIR folder whose questions have answers."""
    lines = [json.dumps({"_id": item.id, "text": item.text}) + "\n" for item in corpus]
    queries = [
        json.dumps({"_id": name, "text": text, "answers": answers}) + "\n" for name, (text, _, answers) in ASKED.items()
    ]
    qrels = [f"{name}\t{right}\t1\n" for name, (_, right, _) in ASKED.items()]
    return write_beir(tmp_path_factory.mktemp("set"), lines, queries, qrels)


def measured(folder, place, rule=None, encoder="shipped"):
    where = {"folder": str(folder), "indices": str(place / "indices"), "encoder": encoder, "questions": 10}
    if rule is None:
        return rag.measure(**where, endpoint=None, model=None, key=None, replies="")
    with stub_endpoint(rule) as stub:
        replies = str(place / "replies.jsonl")
        return rag.measure(**where, endpoint=stub.url, model="m", key=None, replies=replies)


def rows_of(found):
    return {(row["search"], row["generator"]): row for row in found["systems"]}


def shown(found, **parts):
    """Results as the report reads them, of one set."""
    on = {"a set": {"by_encoder": {"shipped": found}}}
    return {"rag": {"on": on, **parts}}


def test_the_floor_is_the_best_sentence_of_the_best_passage(folder, tmp_path):
    found = measured(folder, tmp_path)
    rows = rows_of(found)
    assert {search for search, _ in rows} == {*rag.SEARCHES, rag.RIGHT}
    assert {kind for _, kind in rows} == {"first sentence", "best sentence"}
    best = rows[rag.RIGHT, "best sentence"]
    assert best["ndcg@10"] == 1
    assert 0 < best["f1"] < 1  # sentences hold more than the short answers do
    assert best["exact"] == 0
    table = rag_tables.table(shown(found))
    assert table.count("--endpoint URL") == 1
    assert "calls" not in table  # nobody was called
    assert rag_tables.picture(shown(found)).startswith(b"\x89PNG")


def test_a_model_that_knows_the_answers_is_right_and_what_it_took_is_counted(folder, tmp_path):
    def rule(prompt, before):
        question = prompt.rpartition("Question: ")[2].partition("\n")[0]
        if prompt.startswith("Answer"):
            return RIGHT[question] if RIGHT[question] in prompt else "No answer."
        return "yes" if prompt.rstrip().endswith(f"Answer: {RIGHT[question]}\nReply:") else "no"

    found = measured(folder, tmp_path, rule)
    row = rows_of(found)["default", "language model"]
    assert row["f1"] == row["exact"] == row["judged"] == 1
    assert rows_of(found)["default", "first sentence"]["judged"] == 0
    assert row["calls"] == len(ASKED)  # judgements count in the bill alone
    assert found["bill"]["calls"] > 2 * len(ASKED)
    assert row["prompt_tokens"] > 100
    ways = found["abstaining"]["ways"]
    assert ways["the language model"]["precision"] == ways["the language model"]["recall"] == 1
    assert ways["the language model"]["all_first_is_right"] >= ways["never"]["all_first_is_right"]
    table = rag_tables.table(shown(found))
    assert "not measured" not in table
    assert "judged right" in table


def test_a_model_that_refuses_answers_nothing_and_is_counted(folder, tmp_path):
    found = measured(folder, tmp_path, lambda prompt, before: FILTERED)
    row = rows_of(found)["convex", "language model"]
    assert row["f1"] == row["judged"] == 0
    assert row["refused"] == len(ASKED)
    assert rows_of(found)["convex", "best sentence"]["not_judged"] == len(ASKED)


def test_a_model_that_never_says_yes_or_no_judges_nothing(folder, tmp_path):
    row = rows_of(measured(folder, tmp_path, lambda prompt, before: "perhaps"))["dense", "best sentence"]
    assert (row["judged"], row["not_judged"]) == (0, len(ASKED))


def test_an_encoder_without_heads_is_searched_without_re_ranking(folder, tmp_path):
    found = measured(folder, tmp_path, encoder="its lower layers")
    assert {row["search"] for row in found["systems"]} == {"convex", "dense"}
    assert "abstaining" not in found
    vectors = ENCODERS["its lower layers"]().encoder.encode(["a lamp", "a lamp at night"]).rows("pooled")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_all_similarities_find_nearly_the_same(folder, tmp_path):
    rows = rag.similarities(str(folder), str(tmp_path / "indices"))["systems"]
    assert rows["cosine"] == rows["ip"]
    assert rows["l2"]["same_passages"] > 0.8
    assert "| l2 |" in rag_tables.table_of_similarities({"rag": {"similarities": {"systems": rows}}})


def test_silence_counts_where_there_is_no_answer():
    found = {"gone": [False, False, True, True], "told": [0.9, 0.3, 0.4, 0.1], "first_is_right": [1, 1, 0, 0]}
    never, half = rag.served(found, 0.0), rag.served(found, 0.35)
    assert (never["recall"], never["all_first_is_right"]) == (0, 0.5)
    assert (half["precision"], half["recall"], half["all_first_is_right"]) == (0.5, 0.5, 0.5)
    assert rag.elsewhere({"this": half, "other": found}, "this") == pytest.approx(0.11)
    table = rag_tables.table_of_abstaining(shown({"abstaining": {"ways": {"never": never, "half": half}}}))
    assert table.count("| a set |") == 2


def test_passages_of_an_article_hold_its_answers():
    rows = [
        {"question": "who?", "sentence": f"sentence {number}.", "label": str(int(number == 5))} for number in range(6)
    ] + [{"question": "why?", "sentence": "nothing.", "label": "0"}]
    corpus, queries, qrels = rag.windows(rows)
    assert [json.loads(line)["text"].count("sentence") for line in corpus] == [4, 2, 0]
    assert queries == [{"_id": "q0", "text": "who?", "answers": ["sentence 5."]}]
    assert qrels == ["q0\tp1\t1\n"]


def test_sets_have_the_sentences_that_answer_and_a_folder_of_ones_own_joins(folder, tmp_path):
    files = {
        "squad_sentences/dev.corpus.jsonl.gz": json.dumps({"_id": "s0", "text": "it is red."}) + "\n",
        "squad_sentences/dev.queries.jsonl.gz": json.dumps({"_id": "q", "text": "how?", "relevant": "s0"}) + "\n",
        "wikiqa/dev.tsv.gz": "question\tsentence\tlabel\nwho?\tshe did.\t1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    passage, question = (json.dumps({"_id": name, "text": "how?"}) + "\n" for name in ("p", "q"))
    write_beir(tmp_path / "beir" / "squad4", [passage], [question], ["q\tp\t1\n"])
    shutil.copytree(folder, tmp_path / "beir" / "mine")
    found = rag.sets(Bench(tmp_path, tmp_path / "work", tmp_path / "results"))
    assert list(found) == ["squad4", "wikiqa", "docs", "codebase", "mine"]
    assert rag.read_task(str(found["squad4"]), 5).answers == [["it is red."]]
    assert rag.read_task(str(found["wikiqa"]), 5).answers == [["she did."]]


def test_a_passage_that_is_cut_counts_by_its_share():
    store = rag_budget.Store([Passage(name, "word " * 10, {"document": name[0]}) for name in ("a1", "a2", "a3", "b1")])
    assert store.covered(["b1", "a2"], ["a2"], 10) == 0
    assert store.covered(["b1", "a2"], ["a2"], 15) == 0.5
    assert store.covered(["b1", "a2"], ["a2", "b1"], 12) == 1
    assert store.document("a2") == ["a1", "a2", "a3"]
    assert store.near("a3") == ["a2", "a3"]


def made_set(short, long):
    """Questions of two kinds: one is answered by so many words, the other by so many more."""
    kinds = ["short"] * 20 + ["long"] * 20
    covered = [[float(words >= (short if kind == "short" else long)) for words in rag_budget.GRID] for kind in kinds]
    places = [[0.0, 1.0, 1.0, 1.0] for _ in kinds]
    beside = {name: [[100, 1.0, 0.5]] * 40 for name in rag_budget.BESIDE}
    return {"class": kinds, "certainty": ["likely"] * 40, "covered": covered, "places": places, **beside}


def test_words_go_where_they_cover_most():
    sets = {"one": made_set(100, 500), "two": made_set(100, 500)}
    found = rag_budget.compared(sets)
    left = found["budgets"]["class"]["300"]["one"]["left out"]
    assert left["budgets"] == {"short": 100, "long": 500}
    assert (left["words"], left["one_for_all"], left["gain"]) == (300, 0.5, 0.5)
    assert found["budgets"]["certainty"]["300"]["one"]["own"]["gain"] == 0
    assert found["by_kind"]["class"]["long"] == {"questions": 40, "sets": 2, "shares": [0, 1, 1, 1]}
    assert found["documents"]["near"]["two"]["gain"] == 0.5
    results = {"rag": {"budget": found}}
    assert "long 500, short 100" in rag_tables.table_of_budgets(results)
    assert "| long | 40 of 2 | 0.0% |" in rag_tables.table_of_kinds(results)
    assert rag_tables.table_of_documents(results).count("| two |") == len(rag_budget.BESIDE)


def test_a_set_with_documents_is_measured(data_folder, tmp_path):
    found = rag_budget.measure("policyqa", str(data_folder), None, str(tmp_path), 3)
    assert len(found["class"]) == len(found["covered"]) == 3
    assert not any(found["document"])  # each is asked within one
    assert any(found["near"])
