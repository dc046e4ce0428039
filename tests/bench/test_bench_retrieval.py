"""Retrieval beside its peers: each ranks as its documentation says."""

import numpy as np
import pytest
from beir import write_beir

from bench import retrieval_systems
from semclass.evaluation import evaluate
from semclass.evaluation.dataset import load_dataset
from semclass.ranking.methods import METHODS

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
    retriever = retrieval_systems.open_retriever(folder, tmp_path_factory.mktemp("cache"), models)
    return retrieval_systems.Systems(retriever, Network())


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
