"""Retrieval beside its peers: each ranks as its documentation says."""

import json

import numpy as np
import pytest

from bench import pareto, retrieval, retrieval_systems
from bench.peers import fusion, lexical
from semclass import HybridRetriever
from semclass.core.types import Ragged
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.scoring import bm25
from semclass.scoring.postings import count_terms

TEXTS = ["The cat sat on the mat.", "A dog barks at a cat, and the cats run.", "Bridges are built of granite."]


@pytest.mark.parametrize("make", [lexical.by_bm25s, lexical.by_rank_bm25])
def test_peers_find_the_passage_with_the_questions_words(make):
    pytest.importorskip("Stemmer")
    search = make(TEXTS)
    assert search("What are bridges built of?", 1) == [2]
    assert sorted(search("cat", 3)) == [0, 1, 2]


def test_bm25s_stems_and_rank_bm25_does_not():
    pytest.importorskip("Stemmer")
    assert lexical.by_bm25s(TEXTS)("bridge", 1) == [2]
    assert lexical.rank_bm25([lexical.words(text) for text in TEXTS]).get_scores(["bridge"]).tolist() == [0, 0, 0]


def test_rank_bm25_gives_the_same_scores_with_the_same_idf():
    terms = [[1, 2, 2], [2, 3], [4, 1, 1, 1]]
    model = lexical.rank_bm25(terms, same_idf=True)
    ragged = Ragged(np.concatenate(terms), np.array([0, 3, 5, 9]))
    ours = [count_terms(ragged, np.ones(5, bool))]
    np.testing.assert_allclose(
        bm25.scores(ours, bm25.statistics(ours), np.array([1, 3])), model.get_scores([1, 3]), rtol=1e-5
    )


QUESTIONS = {
    "q1": "Who designed the lighthouse?",
    "q2": "When was the bridge opened?",
    "q3": "How many people live in the town?",
    "q4": "What do bees eat?",
}


class Network:
    """A cross-encoder that likes short passages."""

    def __init__(self):
        self.manifest = {"weight": 0.5, "slope": 1.0}

    def scores(self, question, passages):
        return np.array([-len(passage) for passage in passages], np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """The demonstration's passages as a BEIR folder, with four questions whose judgements are made up."""
    folder = tmp_path_factory.mktemp("beir") / "demo"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": item.id, "text": item.text, "title": ""}) for item in corpus]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": name, "text": text}) for name, text in QUESTIONS.items())
    )
    judged = [f"{name}\t{corpus[place].id}\t1" for place, name in enumerate(QUESTIONS)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged))
    return folder


@pytest.fixture(scope="module")
def systems(folder, models, tmp_path_factory):
    index = evaluate.cached_index(folder, tmp_path_factory.mktemp("cache"), models.passage_encoder)
    return retrieval_systems.Systems(HybridRetriever(index, models), 0.5, Network())


def test_what_is_timed_finds_what_is_measured(folder, systems):
    dataset = load_dataset(folder)
    rankings = evaluate.rank(dataset, systems.retriever, candidates=retrieval_systems.MORE, depth=10)
    jobs = systems.retrievers() | {name: systems.reranked(name) for name in retrieval_systems.RERANKERS}
    for name in ("hybrid", *retrieval_systems.RERANKERS):
        assert [jobs[name](text).ids for text in QUESTIONS.values()] == rankings[name], name


def test_the_cross_encoder_orders_the_first_ten_of_the_hybrid(systems, corpus):
    jobs = systems.retrievers() | systems.cross_encoders()
    lengths = {item.id: len(item.text) for item in corpus}
    for text in QUESTIONS.values():
        first = jobs["hybrid"](text).ids
        assert jobs["cross-encoder"](text).ids == sorted(first, key=lambda item: lengths[item])
        assert sorted(jobs["cross-encoder"](text).more["cross-encoder, integrated"]) == sorted(first)


def test_behind_learned_the_cross_encoder_moves_three(systems):
    learned, both = systems.reranked("learned"), systems.cross_encoders()["learned, then cross-encoder"]
    for text in QUESTIONS.values():
        assert sorted(learned(text).ids[:3]) == sorted(both(text).ids[:3])
        assert learned(text).ids[3:] == both(text).ids[3:]


def test_every_system_is_told_of(systems):
    names = {
        *systems.retrievers(),
        *retrieval_systems.RERANKERS,
        *systems.cross_encoders(),
        *retrieval_systems.LIBRARIES,
    }
    assert {*names, "cross-encoder, integrated"} == {*retrieval.SYSTEMS}


def test_questions_are_drawn_once_and_for_all(folder):
    dataset = load_dataset(folder)
    few = retrieval_systems.drawn(dataset, 2)
    assert len(few.questions) == 2
    assert few == retrieval_systems.drawn(dataset, 2)
    assert retrieval_systems.drawn(dataset, 100) == dataset


def test_convex_combination_from_one_score_to_the_other():
    dense, words = np.array([0.9, 0.5, 0.1, 0.0]), np.array([0.0, 9.0, 3.0, 0.0])
    assert fusion.convex(dense, words, 1.0, 4).tolist() == [0, 1, 2, 3]
    assert fusion.convex(dense, words, 0.0, 2).tolist() == [1, 2]
    assert fusion.convex(dense, words, 0.5, 1).tolist() == [1]  # 5/9 and 1 are more than 1 and 0


def test_reciprocal_ranks_count_from_one():
    # ranks 1 and 3 give 1/61 + 1/63, which is more than 2/62; ranks 3 and 1 as much, and the earlier passage is first
    dense, words = np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0])
    assert 1 / 61 + 1 / 63 > 2 / 62
    assert fusion.reciprocal_ranks(dense, words, 3).tolist() == [0, 2, 1]


def test_alpha_is_chosen_on_training_questions(data_folder):
    found = fusion.choose_alpha(str(data_folder), sentences=40, questions=10)
    assert 0 <= found["alpha"] <= 1
    assert found["mrr@10"][f"{found['alpha']:g}"] == max(found["mrr@10"].values())


def point(cost, quality, name="x"):
    return pareto.Point(name, "peer", cost, quality)


def test_the_front_leaves_out_what_something_cheaper_beats():
    cheap, dear, worse, equal = point(1, 0.5), point(10, 0.9), point(5, 0.4), point(20, 0.9)
    assert pareto.front([dear, worse, equal, cheap]) == [cheap, dear]


def results(*, network: bool):
    """What a run writes, of one set."""
    figures = {
        "mrr@10": 0.8,
        "mrr@10_ci": [0.7, 0.9],
        "cond_mrr": 0.85,
        "error_removed": 0.1,
        "error_removed_ci": [0, 0.2],
    }
    clock = {"p50_ms": 2.0, "p95_ms": 3.0}
    names = [name for name in retrieval.SYSTEMS if network or "cross-encoder" not in name]
    reranked = {"cross-encoder": 100.0, "learned": 0.5}
    part = {
        "questions": 500,
        "answered": 450,
        "systems": dict.fromkeys(names, figures),
        "milliseconds": {
            name: {**clock, "rerank_p50_ms": reranked[name], "rerank_p95_ms": 1.0} if name in reranked else clock
            for name in names
        },
        "missing": {},
    }
    full = {**part, "questions": 3000, "systems": {n: figures for n in names if "cross-encoder" not in n}}
    sets = {"squad4": {"what": "Wikipedia", "passages": 9, **retrieval.of_set(full, part)}}
    counted = {use: {"prompt": 500.0, "answer": 1.0} for use in retrieval.PROMPTS}
    found = {
        "sets": sets,
        "recorded": retrieval.recorded(),
        "second_per_call": retrieval.second_per_call(sets, counted),
    }
    return json.loads(json.dumps(found))


def test_the_ratio_is_of_re_ranking_alone_with_the_quality_of_both():
    found = results(network=True)["sets"]["squad4"]["ratios"]
    assert found["cross_encoder_over_learned"] == 200
    assert found["questions"] == 500
    assert found["learned"]["mrr@10"] == found["cross-encoder"]["mrr@10"] == 0.8


def test_rows_say_how_many_questions_they_are_of():
    rows = {row["name"]: row for row in results(network=True)["sets"]["squad4"]["systems"]}
    assert rows["learned"]["questions"] == 3000
    assert rows["cross-encoder"]["questions"] == 500


def test_a_system_that_is_skipped_is_in_the_table():
    assert "needs --cross-encoder FOLDER" in retrieval.table(results(network=False))


def test_the_table_has_a_second_for_each_call():
    text = retrieval.table(results(network=True))
    assert "| learned | 0.800 | 2 |" in text
    assert "10 s | 116 days |" in text


@pytest.mark.parametrize("network", [True, False])
def test_the_picture_is_drawn(network):
    pytest.importorskip("matplotlib")
    (picture,) = retrieval.pictures(results(network=network)).values()
    assert picture.startswith(b"\x89PNG")


def test_what_training_took_is_in_the_table_or_is_said_not_to_be_recorded():
    text = retrieval.table(results(network=True))
    assert "| learned | 0.800 | 2 | not recorded |" in text
    assert "| BM25 | 0.800 | 2 | - |" in text
    found = results(network=True)
    for row in found["sets"]["squad4"]["systems"]:
        row["train_s"] = {"learned": 2345.6, "cross-encoder": 1800.0}.get(row["name"])
    assert "| learned | 0.800 | 2 | 2,346 |" in retrieval.table(found)
    assert "| cross-encoder | 0.800 | 2 | 1,800 |" in retrieval.table(found)


def test_a_picture_of_one_panel_is_drawn():
    pytest.importorskip("matplotlib")
    points = [point(1, 0.5, "cheap"), point(10, 0.9, "dear")]
    assert pareto.draw_one("A task", points, [(0.4, 0.6), None], "accuracy").startswith(b"\x89PNG")


def test_points_without_a_front_are_drawn():
    pytest.importorskip("matplotlib")
    prompted = pareto.Point("model", "prompted", 1000.0, 0.9)
    assert pareto.draw_one("A task", [prompted], [None], "accuracy").startswith(b"\x89PNG")
