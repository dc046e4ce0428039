"""Sentences that answer, and judgements of hits, over HTTP."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from asked import asked

from semclass import HybridRetriever, build_index
from semclass.index.feedback import FEEDBACK, read_judgements
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

QUESTION = "Who built the bridge?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models, corpus):
    folder = tmp_path_factory.mktemp("judged") / "index"
    build_index(folder, corpus, passage_encoder=models.passage_encoder)
    return folder


@pytest.fixture(scope="module")
def client(models, folder):
    retriever = HybridRetriever(HybridRetriever.load(folder).index, models)
    with asked(create_app(Engine(models, retriever, Settings()), Settings())) as found:
        yield found


def test_sentences_answer_as_the_library_does(client, folder, models):
    answer = client.post("/api/ask", {"question": QUESTION, "k": 2}).json()
    expected = HybridRetriever(HybridRetriever.load(folder).index, models).ask(QUESTION, 2)
    assert [one["text"] for one in answer["sentences"]] == [one.text for one in expected.sentences]
    assert answer["sentences"][0]["score"] == pytest.approx(expected.sentences[0].score, abs=1e-4)
    assert (answer["answered"], answer["certainty"]) == (expected.answered, expected.certainty)
    beside = client.post("/api/search", {"question": QUESTION, "sentences": 2}).json()
    assert (beside["sentences"], len(beside["hits"])) == (answer["sentences"], 10)
    assert client.post("/api/search", {"question": QUESTION}).json()["sentences"] is None
    for sentences in (0, 1001):
        assert client.post("/api/search", {"question": QUESTION, "sentences": sentences}).status_code == 422
    for change in ({"k": 0}, {"k": 1001}, {"question": " "}, {"where": {"$what": 1}}, {"more": 1}):
        assert client.post("/api/ask", {"question": QUESTION, **change}).status_code == 422


def test_a_hit_is_judged_and_the_judgement_withdrawn(client, folder):
    hit = client.post("/api/search", {"question": QUESTION, "k": 1}).json()["hits"][0]["id"]
    answer = client.post("/api/feedback", {"question": QUESTION, "passage": hit, "right": True}).json()
    assert {"question": QUESTION, "passage": hit, "right": True}.items() <= answer.items()
    assert [vars(judgement) for judgement in read_judgements(folder)] == [answer]
    client.post("/api/feedback", {"question": QUESTION, "passage": hit, "right": None})
    assert read_judgements(folder) == []


@pytest.mark.parametrize("change", [{"passage": ""}, {"right": 1}, {"right": "yes"}, {"question": " "}, {"more": 1}])
def test_what_is_no_judgement_is_refused(client, folder, change):
    body = {"question": QUESTION, "passage": "none", "right": True, **change}
    assert client.post("/api/feedback", body).status_code == 422
    assert read_judgements(folder) == []


def test_a_folder_that_cannot_be_written_is_no_fault_of_the_client(client, folder):
    (folder / FEEDBACK).unlink(missing_ok=True)
    (folder / FEEDBACK).mkdir()
    hit = client.post("/api/search", {"question": QUESTION, "k": 1}).json()["hits"][0]["id"]
    answer = client.post("/api/feedback", {"question": QUESTION, "passage": hit, "right": True})
    assert (answer.status_code, str(folder) in answer.text) == (503, False)
    (folder / FEEDBACK).rmdir()


def test_without_an_index_in_a_folder_nothing_is_judged(models, retriever):
    body = {"question": QUESTION, "passage": "1", "right": True}
    for index in (None, retriever):
        with asked(create_app(Engine(models, index, Settings()), Settings())) as found:
            assert found.post("/api/feedback", body).status_code == 404


def test_a_passage_that_is_not_there_is_not_found(client, folder):
    answer = client.post("/api/feedback", {"question": QUESTION, "passage": "none", "right": True})
    assert (answer.status_code, answer.json()["error_type"]) == (404, "no_passage")
    assert read_judgements(folder) == []
