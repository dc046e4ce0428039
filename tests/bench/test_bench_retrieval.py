"""Retrieval beside its peers: each ranks as its documentation says."""

import pytest
from beir import write_beir

from bench import retrieval_systems

QUESTIONS = {"q1": "Who designed the lighthouse?", "q2": "When was the bridge opened?", "q3": "What do bees eat?"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    """The demonstration's passages as a BEIR folder, with questions whose judgements are made up."""
    questions = {name: (text, item.id) for (name, text), item in zip(QUESTIONS.items(), corpus, strict=False)}
    return write_beir(tmp_path_factory.mktemp("beir") / "demo", corpus, questions)


@pytest.mark.parametrize("name", retrieval_systems.LIBRARIES)
def test_another_library_finds_words_of_the_question(folder, corpus, name):
    pytest.importorskip({"BM25, bm25s": "bm25s", "BM25, rank-bm25": "rank_bm25"}[name])
    search = retrieval_systems.job(folder, None, name)
    texts = {item.id: item.text.lower() for item in corpus}
    for word in ("granite", "harbour", "engineer"):
        found = search(word)
        assert len(found) == 10
        assert word in texts[found[0]]
