"""Retrieval beside its peers: each ranks as its documentation says."""

import numpy as np
import pytest
from beir import write_beir

from bench import retrieval_systems

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


def test_the_cross_encoder_orders_the_first_ten_of_the_hybrid(folder, models, corpus, tmp_path):
    retriever = retrieval_systems.open_retriever(folder, tmp_path, models)
    plain = retrieval_systems.methods(retriever)["hybrid"]
    network = retrieval_systems.cross_encoders(retriever, Network())["cross-encoder"]
    lengths = {item.id: len(item.text) for item in corpus}
    for text in QUESTIONS.values():
        first, found = plain(text).ids, network(text)
        assert found.ids == sorted(first, key=lambda item: lengths[item])
        assert sorted(found.more["cross-encoder, integrated"]) == sorted(first)
