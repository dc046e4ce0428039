"""The shapes of Cohere, Jina and text-embeddings-inference, over ASGI without a server."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from asked import Asked, asked

from semclass import Models, Passage
from semclass.core.types import Hit
from semclass.heads.entailment import EntailmentClassifier
from semclass.ranking.reranker import Reranker
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

QUESTION = "When was the bridge opened?"
TEXTS = [
    "The bridge was built of granite by the engineer Ada Merriweather.",
    "Work on it began in 1871; after three winters of storms the bridge was opened in October 1874.",
    "Trams cross the bridge.",
]


class Scripted(Engine):
    """Gives the scores that it is told, by the place of a text, and remembers what it was asked."""

    def __init__(self, models: Models, scores: list[float]):
        super().__init__(models, None, Settings())
        self.scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    async def rerank(self, question: str, passages, **options: Any) -> list[Hit]:
        if question == QUESTION:  # and not what a service asks itself before it is ready
            self.asked.append((question, [item.text for item in passages]))
        scores = dict(enumerate(self.scores))
        return [
            Hit(item.id, item.text, {}, 0.0, place, place, {"relevance": scores.get(int(item.id), 0.0)}, (), {})
            for place, item in enumerate(passages, 1)
        ]


def post(service: Asked | Engine, path: str, body: object, method: str = "POST") -> httpx.Response:
    """One request to a service, or to one of its own over an engine."""
    if isinstance(service, Asked):
        return service.request(method, path, json=body)
    with asked(create_app(service, service.settings)) as client:
        return client.request(method, path, json=body)


@pytest.fixture(scope="session")
def entailment(encoder) -> EntailmentClassifier:
    return EntailmentClassifier.load(encoder=encoder)


@pytest.fixture(scope="module")
def engine(models: Models, entailment: EntailmentClassifier) -> Engine:
    return Engine(models, None, Settings(), entailment=entailment)


@pytest.fixture(scope="module")
def service(engine: Engine) -> Iterator[Asked]:
    with asked(create_app(engine, engine.settings)) as client:
        yield client


def scores_of(answer: httpx.Response) -> dict[int, float]:
    return {item["index"]: item["relevance_score"] for item in answer.json()["results"]}


def test_cohere_v2_gives_places_and_scores_best_first(service):
    answer = post(service, "/v2/rerank", {"model": "rerank-v3.5", "query": QUESTION, "documents": TEXTS, "top_n": 2})
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"id", "results", "meta"}
    assert body["meta"] == {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    assert [set(item) for item in body["results"]] == [{"index", "relevance_score"}] * 2
    assert body["results"][0]["index"] == 1
    assert 1 >= body["results"][0]["relevance_score"] > body["results"][1]["relevance_score"] >= 0


def test_jina_and_cohere_v1_read_one_answer(service, engine):
    documents = [TEXTS[0], {"text": TEXTS[1], "page": 4}]
    body = post(service, "/v1/rerank", {"model": "any", "query": QUESTION, "documents": documents}).json()
    assert set(body) == {"id", "model", "results", "usage", "meta"}
    assert body["model"] == "any"
    assert [item["document"] for item in body["results"]] == [{"text": TEXTS[1], "page": 4}, {"text": TEXTS[0]}]
    plain = post(service, "/v1/rerank", {"query": QUESTION, "documents": documents, "return_documents": False}).json()
    assert all(set(item) == {"index", "relevance_score"} for item in plain["results"])
    pieces = len(engine.models.encoder.tokenize([QUESTION, *TEXTS[:2]]).values)
    assert body["usage"] == {"total_tokens": pieces, "prompt_tokens": pieces}


def test_a_score_is_that_of_the_two_texts_in_any_company(service):
    together = scores_of(post(service, "/v2/rerank", {"query": QUESTION, "documents": TEXTS}))
    alone = [scores_of(post(service, "/v2/rerank", {"query": QUESTION, "documents": [text]}))[0] for text in TEXTS]
    assert [together[place] for place in range(3)] == pytest.approx(alone, abs=1e-6)


def test_all_three_shapes_give_the_scores_of_the_entailment_head(service, models):
    hits = Reranker(models).rerank(QUESTION, [Passage(str(n), t) for n, t in enumerate(TEXTS)], method="entail-stable")
    cohere = scores_of(post(service, "/v2/rerank", {"query": QUESTION, "documents": TEXTS}))
    jina = scores_of(post(service, "/v1/rerank", {"query": QUESTION, "documents": TEXTS}))
    tei = {
        item["index"]: item["score"] for item in post(service, "/rerank", {"query": QUESTION, "texts": TEXTS}).json()
    }
    assert cohere == jina == tei == pytest.approx({int(hit.id): hit.components["relevance"] for hit in hits})


def test_tei_gives_texts_and_log_odds_where_they_are_asked_for(service):
    plain = post(service, "/rerank", {"query": QUESTION, "texts": TEXTS, "truncate": True}).json()
    assert [set(item) for item in plain] == [{"index", "score"}] * 3
    raw = post(service, "/rerank", {"query": QUESTION, "texts": TEXTS, "raw_scores": True, "return_text": True}).json()
    assert [item["text"] for item in raw] == [TEXTS[item["index"]] for item in plain]
    assert [1 / (1 + math.exp(-item["score"])) for item in raw] == pytest.approx([item["score"] for item in plain])


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_equal_scores_keep_the_order_of_the_request(models, path):
    answer = post(Scripted(models, [0.5, 0.9, 0.5]), path, {"query": QUESTION, "documents": ["a", "b", "a"]})
    assert [item["index"] for item in answer.json()["results"]] == [1, 0, 2]


def test_a_text_without_a_character_is_last_and_not_read(models):
    engine = Scripted(models, [0.25, 1, 0.75])
    assert scores_of(post(engine, "/v1/rerank", {"query": QUESTION, "documents": ["a", " \n", "c"]})) == {
        2: 0.75,
        0: 0.25,
        1: 0,
    }
    assert engine.asked == [(QUESTION, ["a", "c"])]
    assert post(engine, "/rerank", {"query": QUESTION, "texts": ["", ""]}).json() == [
        {"index": 0, "score": 0},
        {"index": 1, "score": 0},
    ]
    assert len(engine.asked) == 1


def test_log_odds_are_finite_at_both_ends(models):
    body = {"query": QUESTION, "texts": ["a", "b", ""], "raw_scores": True}
    found = post(Scripted(models, [0, 1]), "/rerank", body).json()
    assert [item["index"] for item in found] == [1, 0, 2]
    assert found[0]["score"] == pytest.approx(-found[1]["score"])
    assert found[0]["score"] < 17


def test_fields_make_no_text_longer_than_its_document(models):
    scripted = Scripted(models, [0.5])
    body = {"query": QUESTION, "documents": [{"text": "x", "a": "y" * 60_000, "b": "z" * 60_000}]}
    for names, status in ((["a"] * 32, 200), (["a"] * 33, 422), (["a", "b"], 413)):
        assert post(scripted, "/v1/rerank", {**body, "rank_fields": names}).status_code == status
    assert scripted.asked == [(QUESTION, ["y" * 60_000])]


def test_fields_of_documents_are_read_in_the_order_named(models):
    engine = Scripted(models, [1, 1, 1])
    documents = [
        {"text": "body", "title": "Head", "tags": ["a", "é"], "gone": None},
        {"text": "only"},
        "plain",
    ]
    body = {"query": QUESTION, "documents": documents, "rank_fields": ["title", "tags", "gone", "text"]}
    post(engine, "/v1/rerank", body)
    post(engine, "/v1/rerank", {**body, "rank_fields": ["title"]})
    assert [texts for _, texts in engine.asked] == [
        ['Head\n["a", "é"]\nbody', "only", "plain"],
        ["Head", "only", "plain"],
    ]


def test_documents_without_a_text_are_read_by_the_fields_that_are_named(models):
    engine = Scripted(models, [0.9, 0.5, 0.1])
    documents = [{"Title": "Head", "Content": "Body"}, {"Content": "Only"}, {"Author": "Ada"}]
    body = {"query": QUESTION, "documents": documents, "rank_fields": ["Title", "Content", "text"]}
    answer = post(engine, "/v1/rerank", body)
    assert engine.asked == [(QUESTION, ["Head\nBody", "Only"])]
    told = {item["index"]: item["document"] for item in answer.json()["results"]}
    read = ["Head\nBody", "Only", ""]
    assert [told[place] for place in range(3)] == [documents[place] | {"text": read[place]} for place in range(3)]
    for fields in ({}, {"rank_fields": []}, {"rank_fields": None}):
        refused = post(engine, "/v1/rerank", {"query": QUESTION, "documents": ["a", *documents], **fields})
        assert refused.status_code == 422
        assert "documents.1" in refused.json()["error"]


@pytest.mark.parametrize("path", ["/", "/invocations"])
def test_tei_is_asked_where_its_container_is(service, path):
    body = {"query": QUESTION, "texts": TEXTS, "return_text": True}
    assert post(service, path, body).json() == post(service, "/rerank", body).json()
    assert post(service, "/", None, "GET").headers["content-type"].startswith("text/html")
    assert post(service, "/", body, "PUT").headers["allow"] == "GET, HEAD, POST"


def test_texts_are_data_whatever_they_look_like(models):
    engine = Scripted(models, [0.5, 0.5])
    documents = ["/etc/hostname", "http://localhost/health"]
    assert post(engine, "/v2/rerank", {"query": QUESTION, "documents": documents}).status_code == 200
    assert engine.asked == [(QUESTION, documents)]


def test_a_hundred_documents_are_a_search_unit(models):
    engine = Scripted(models, [0.5] * 101)
    units = [
        post(engine, "/v2/rerank", {"query": QUESTION, "documents": ["text"] * n}).json()["meta"]["billed_units"]
        for n in (1, 100, 101)
    ]
    assert units == [{"search_units": 1}, {"search_units": 1}, {"search_units": 2}]


@pytest.mark.parametrize("inputs", ["Who built it?", ["Who built it?"]])
def test_a_question_gets_its_classes(service, engine, inputs):
    found = post(service, "/predict", {"inputs": inputs}).json()
    (label,) = engine.models.questions.classify(["Who built it?"])
    assert found[0] == {"label": "HUM", "score": pytest.approx(label.probability)}
    assert {item["label"]: item["score"] for item in found} == pytest.approx(dict(label.probabilities))
    assert found == sorted(found, key=lambda item: -item["score"])


def test_a_pair_is_judged_by_entailment(service, entailment):
    (judged,) = entailment.classify([("Who built it?", "Ada built it.")])
    found = post(service, "/predict", {"inputs": ["Who built it?", "Ada built it."]}).json()
    assert found[0] == {"label": "entailment", "score": pytest.approx(judged.probability)}
    assert sum(item["score"] for item in found) == pytest.approx(1)


def test_a_list_of_inputs_is_answered_in_its_order(service):
    inputs = [["Who built it?"], ["Who built it?", "Ada built it."], ["How tall is it?"]]
    found = post(service, "/predict", {"inputs": inputs}).json()
    assert [item[0]["label"] for item in found] == ["HUM", "entailment", "NUM"]
    alone = [post(service, "/predict", {"inputs": item}).json() for item in inputs]
    assert [[item["label"] for item in one] for one in found] == [[item["label"] for item in one] for one in alone]


def test_info_has_what_clients_of_tei_look_up(service, engine):
    info = post(service, "/info", None, "GET").json()
    assert info["model_type"] == {"reranker": {"id2label": {"0": "entailment"}, "label2id": {"entailment": 0}}}
    assert info["max_client_batch_size"] == engine.settings.max_texts
    assert info["max_input_length"] == 16 * 254
    assert info["auto_truncate"] is True


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/v2/rerank", {"query": QUESTION, "documents": []}, 400, "empty"),
        ("/rerank", {"query": QUESTION, "texts": []}, 400, "empty"),
        ("/v1/rerank", {"query": " ", "documents": ["a"]}, 422, "validation"),
        ("/v1/rerank", {"query": QUESTION}, 422, "validation"),
        ("/v1/rerank", {"query": QUESTION, "documents": [{"image": "http://localhost/a.png"}]}, 422, "validation"),
        ("/v2/rerank", {"query": QUESTION, "documents": ["a"], "top_n": 0}, 422, "validation"),
        ("/v2/rerank", {"query": QUESTION, "documents": ["a"] * 1001}, 413, "too_large"),
        ("/rerank", {"query": QUESTION, "texts": ["a" * 100_001]}, 413, "too_large"),
        ("/predict", {"inputs": []}, 422, "validation"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "validation"),
        ("/predict", {"inputs": [["a"]] * 1001}, 413, "too_large"),
    ],
)
def test_what_is_not_allowed_is_refused_in_the_words_of_all_clients(service, path, body, status, kind):
    answer = post(service, path, body)
    assert answer.status_code == status
    told = answer.json()
    assert set(told) == {"error", "error_type", "message", "detail", "request_id"}
    assert told["error_type"] == kind
    assert told["error"] == told["message"] == told["detail"]


def test_unknown_fields_are_passed_over(service):
    body = {"query": QUESTION, "documents": TEXTS, "relevant_spans": {"mode": "enabled"}, "priority": 1, "new": None}
    assert post(service, "/v2/rerank", body).status_code == 200


def test_models_without_heads_are_told_as_tei_does(models):
    bare = replace(models, pair_heads=None)
    answer = post(Engine(bare, None, Settings()), "/rerank", {"query": QUESTION, "texts": TEXTS})
    assert (answer.status_code, answer.json()["error_type"]) == (424, "backend")
    answer = post(Engine(bare, None, Settings()), "/predict", {"inputs": ["Who?", "Ada."]})
    assert (answer.status_code, answer.json()["error_type"]) == (424, "backend")
