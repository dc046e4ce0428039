"""The protocols of Cohere, Jina and text-embeddings-inference, without a network."""

import math

import pytest
from serving import QUESTION, TEXTS, client_of, entailed

from semclass import EntailmentClassifier, Hit
from semclass_serve.engine import Engine
from semclass_serve.limits import Settings


class Scripted(Engine):
    """Gives fixed scores, by the place of a text, and remembers the texts."""

    def __init__(self, models, scores):
        super().__init__(models, None, Settings())
        self.scores, self.texts = dict(enumerate(scores)), []

    async def rerank(self, question, passages, **options):
        if question == QUESTION:  # not while the service warms up
            self.texts.append([item.text for item in passages])
        scores = [{"relevance": self.scores.get(int(item.id), 0.0)} for item in passages]
        return [
            Hit(item.id, item.text, {}, 0.0, 1, 1, score, (), {}) for item, score in zip(passages, scores, strict=True)
        ]


@pytest.fixture(scope="module")
def entailment(encoder):
    return EntailmentClassifier.load(encoder=encoder)


@pytest.fixture(scope="module")
def client(models, entailment):
    with client_of(Engine(models, None, Settings(), entailment=entailment)) as client:
        yield client


def scripted(models, scores, path, **body):
    """The answer of a service with fixed scores, and the texts that it read."""
    engine = Scripted(models, scores)
    with client_of(engine) as client:
        return client.post(path, {"query": QUESTION, **body}), engine.texts


def scores_of(answer):
    return {item["index"]: item["relevance_score"] for item in answer.json()["results"]}


def test_cohere_v2_gets_places_and_scores(client):
    answer = client.post("/v2/rerank", {"model": "any", "query": QUESTION, "documents": TEXTS, "top_n": 2, "new": 1})
    body = answer.json()
    assert set(body) == {"id", "results", "meta"}
    assert body["meta"] == {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    assert [set(item) for item in body["results"]] == [{"index", "relevance_score"}] * 2
    assert body["results"][0]["index"] == 1


def test_jina_and_cohere_v1_read_one_answer(client):
    documents = [TEXTS[0], {"text": TEXTS[1], "page": 4}]
    body = client.post("/v1/rerank", {"model": "any", "query": QUESTION, "documents": documents}).json()
    assert set(body) == {"id", "model", "results", "usage", "meta"}
    assert body["model"] == "any"
    assert [item["document"] for item in body["results"]] == [{"text": TEXTS[1], "page": 4}, {"text": TEXTS[0]}]
    assert body["usage"]["total_tokens"] == len(" ".join([QUESTION, *TEXTS[:2]]).split())
    plain = client.post("/v1/rerank", {"query": QUESTION, "documents": documents, "return_documents": False}).json()
    assert all(set(item) == {"index", "relevance_score"} for item in plain["results"])


def test_all_protocols_give_the_scores_of_two_texts(client, models):
    cohere = scores_of(client.post("/v2/rerank", {"query": QUESTION, "documents": TEXTS}))
    jina = scores_of(client.post("/v1/rerank", {"query": QUESTION, "documents": TEXTS}))
    ranks = [client.post(path, {"query": QUESTION, "texts": TEXTS}).json() for path in ("/rerank", "/", "/invocations")]
    assert ranks[0] == ranks[1] == ranks[2]
    tei = {item["index"]: item["score"] for item in ranks[0]}
    assert cohere == jina == tei == pytest.approx(entailed(models))
    alone = scores_of(client.post("/v2/rerank", {"query": QUESTION, "documents": TEXTS[:1]}))
    assert alone[0] == pytest.approx(cohere[0], abs=1e-6)


def test_tei_gets_texts_and_log_odds_on_request(client):
    plain = client.post("/rerank", {"query": QUESTION, "texts": TEXTS, "truncate": True}).json()
    raw = client.post("/rerank", {"query": QUESTION, "texts": TEXTS, "raw_scores": True, "return_text": True}).json()
    assert [item["text"] for item in raw] == [TEXTS[item["index"]] for item in plain]
    assert [1 / (1 + math.exp(-item["score"])) for item in raw] == pytest.approx([item["score"] for item in plain])


def test_log_odds_are_finite(models):
    answer, _ = scripted(models, [0, 1], "/rerank", texts=["a", "b", ""], raw_scores=True)
    assert [item["index"] for item in answer.json()] == [1, 0, 2]
    assert answer.json()[0]["score"] == pytest.approx(-answer.json()[1]["score"])


def test_equal_scores_keep_the_order_of_the_request(models):
    answer, _ = scripted(models, [0.5, 0.9, 0.5], "/v2/rerank", documents=["a", "b", "a"])
    assert list(scores_of(answer)) == [1, 0, 2]


def test_a_blank_text_is_last_and_not_read(models):
    answer, texts = scripted(models, [0.25, 1, 0.75], "/v1/rerank", documents=["a", " \n", "c"])
    assert scores_of(answer) == {2: 0.75, 0: 0.25, 1: 0}
    assert texts == [["a", "c"]]


def test_named_fields_are_read_in_their_order(models):
    documents = [{"text": "body", "title": "Head", "tags": ["a", "é"], "gone": None}, {"title": "Only"}, "plain"]
    fields = ["title", "tags", "gone", "title", "text"]
    answer, texts = scripted(models, [1, 0.5, 0], "/v1/rerank", documents=documents, rank_fields=fields)
    assert texts == [['Head\n["a", "é"]\nbody', "Only", "plain"]]
    assert [item["document"] for item in answer.json()["results"]] == [
        documents[0],
        {"title": "Only", "text": "Only"},
        {"text": "plain"},
    ]
    refused, _ = scripted(models, [1], "/v1/rerank", documents=["a", {"title": "Head"}])
    assert refused.status_code == 422
    assert "documents.1" in refused.json()["error"]


def test_fields_are_as_long_as_a_text_may_be(models):
    document = {"text": "x", "a": "y" * 60_000, "b": "z" * 60_000}
    for fields, status in ((["a"] * 32, 200), (["a"] * 33, 422), (["a", "b"], 413)):
        answer, _ = scripted(models, [0.5], "/v1/rerank", documents=[document], rank_fields=fields)
        assert answer.status_code == status


def test_predict_classifies_questions_and_judges_pairs(client, models, entailment):
    inputs = [["Who built it?"], ["Who built it?", "Ada built it."], ["How tall is it?"]]
    together = client.post("/predict", {"inputs": inputs}).json()
    assert [item[0]["label"] for item in together] == ["HUM", "entailment", "NUM"]
    (label,) = models.questions.classify(["Who built it?"])
    (pair,) = entailment.classify([("Who built it?", "Ada built it.")])
    for alone in ("Who built it?", ["Who built it?"]):
        labels = client.post("/predict", {"inputs": alone}).json()
        assert {item["label"]: item["score"] for item in labels} == pytest.approx(dict(label.probabilities))
    (first, *_) = client.post("/predict", {"inputs": inputs[1]}).json()
    assert first == {"label": "entailment", "score": pytest.approx(pair.probability)}


def test_info_has_the_fields_of_tei(client):
    info = client.get("/info").json()
    assert info["model_type"] == {"reranker": {"id2label": {"0": "entailment"}, "label2id": {"entailment": 0}}}
    assert info["max_client_batch_size"] == Settings().max_texts


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
        ("/predict", {"inputs": ["a", ["b"]]}, 422, "validation"),
        ("/predict", {"inputs": [["a"]] * 1001}, 413, "too_large"),
    ],
)
def test_a_refusal_has_the_fields_of_all_clients(client, path, body, status, kind):
    answer = client.post(path, body)
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)
    assert answer.json()["error"] == answer.json()["message"] == answer.json()["detail"]
