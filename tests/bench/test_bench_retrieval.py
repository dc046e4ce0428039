"""Retrieval beside its peers: each ranks as its documentation says."""

import json

import numpy as np
import pytest
from beir import write_beir

from bench import retrieval, retrieval_systems
from semclass import HybridRetriever
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.ranking.methods import METHODS

TEXTS = ["The cat sat on the mat.", "A dog barks at a cat, and the cats run.", "Bridges are built of granite."]


def test_a_peer_finds_the_passage_with_the_questions_words():
    pytest.importorskip("Stemmer")
    search = retrieval_systems.by_bm25s(TEXTS)
    assert search("What are bridges built of?", 1) == [2]
    assert sorted(search("cat", 3)) == [0, 1, 2]


QUESTIONS = {
    "q1": "Who designed the lighthouse?",
    "q2": "When was the bridge opened?",
    "q3": "How many people live in the town?",
    "q4": "What do bees eat?",
}


class Network:
    """A cross-encoder that likes short passages."""

    def __init__(self):
        self.manifest = {"weight": 0.5}

    def scores(self, question, passages):
        return np.array([-len(passage) for passage in passages], np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """The demonstration's passages as a BEIR folder, with four questions whose judgements are made up."""
    questions = {name: (text, item.id) for (name, text), item in zip(QUESTIONS.items(), corpus, strict=False)}
    return write_beir(tmp_path_factory.mktemp("beir") / "demo", corpus, questions)


@pytest.fixture(scope="module")
def systems(folder, models, tmp_path_factory):
    index = evaluate.cached_index(folder, tmp_path_factory.mktemp("cache"), models.passage_encoder)
    return retrieval_systems.Systems(HybridRetriever(index, models), Network())


def test_what_is_timed_finds_what_is_measured(folder, systems):
    dataset = load_dataset(folder)
    rankings = evaluate.rank(dataset, systems.retriever, depth=10)
    for name, (_, n) in retrieval_systems.RERANKERS.items():
        plain = name.partition("@")[0]
        rankings[name] = evaluate.rank(dataset, systems.retriever, [plain], candidates=n, depth=10)[plain]
    jobs = systems.methods() | {"convex": systems.ranked(METHODS["convex"], 10)}
    for name, job in jobs.items():
        expected = rankings[retrieval_systems.PLAIN.get(name, name)]
        assert [job(text).ids for text in QUESTIONS.values()] == expected, name


def test_the_cross_encoder_orders_the_first_ten_of_the_hybrid(systems, corpus):
    jobs = systems.methods() | systems.cross_encoders()
    lengths = {item.id: len(item.text) for item in corpus}
    for text in QUESTIONS.values():
        first = jobs["hybrid"](text).ids
        assert jobs["cross-encoder"](text).ids == sorted(first, key=lambda item: lengths[item])
        assert sorted(jobs["cross-encoder"](text).more["cross-encoder, integrated"]) == sorted(first)


def results(*, network: bool):
    """What a run writes, of one set."""
    intervals = {"mrr@10_ci": [0.7, 0.9], "error_removed_ci": [0, 0.2]}
    figures = {"mrr@10": 0.8, "ndcg@10": 0.75, "cond_mrr": 0.85, "error_removed": 0.1, **intervals}
    clock = {"p50_ms": 2.0, "p95_ms": 3.0}
    names = [name for name in retrieval.SYSTEMS if network or "cross-encoder" not in name]
    times = dict.fromkeys(names, clock)
    times |= {
        name: {**clock, "rerank_p50_ms": 100.0} for name in ("entail-integrated", "cross-encoder") if name in names
    }
    systems = dict.fromkeys(names, figures)
    part = {"questions": 500, "answered": 450, "systems": systems, "milliseconds": times, "missing": {}}
    full = {**part, "questions": 3000, "systems": {n: figures for n in names if "cross-encoder" not in n}}
    sets = {"squad4": {"what": "Wikipedia", "passages": 9, **retrieval.of_set(full, part)}}
    counted = {use: {"prompt": 500.0, "answer": 1.0} for use in retrieval.PROMPTS}
    found = {"sets": sets, "second_per_call": retrieval.second_per_call(sets, counted)}
    return json.loads(json.dumps({"retrieval": found}))


def test_tables_show_times_costs_and_what_was_skipped():
    assert "needs --cross-encoder FOLDER" in retrieval.table(results(network=False))
    found = results(network=True)
    for row in found["retrieval"]["sets"]["squad4"]["systems"]:
        row["train_s"] = {"cross-encoder": 1800.0}.get(row["name"])
    text = retrieval.table(found)
    assert "| entail-integrated | 0.800 | 2 | not recorded |" in text
    assert "| cross-encoder | 0.800 | 2 | 1,800 |" in text
    assert "| BM25 | 0.800 | 2 | - |" in text
    assert "10 s | 116 days |" in text
    assert "| 0.850 → 0.850 | 10% (0% to 20%) | 0.800 → 0.800 |" in retrieval.domains(found)


@pytest.mark.parametrize("network", [True, False])
def test_pictures_are_drawn_with_and_without_a_cross_encoder(network):
    pytest.importorskip("matplotlib")
    found = results(network=network)
    assert all(draw(found).startswith(b"\x89PNG") for draw in retrieval.PICTURES.values())
