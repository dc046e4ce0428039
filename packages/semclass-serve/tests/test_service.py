"""The HTTP service: what it answers, what it refuses, what it tells."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Annotated

import pytest

pytest.importorskip("fastapi")

from asked import asked, logged
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter
from world import Counting, FakeEncoder

from semclass import HybridRetriever, InputError, Models, Passage, PassageIndex, ScopeClassifier, TextClassifier
from semclass.core.errors import ArtifactError
from semclass_serve.access import is_loopback, read_keys
from semclass_serve.app import create_app
from semclass_serve.bodies import WRITTEN
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

log = pytest.fixture(logged)

QUESTION = "Who built the bridge?"
POSTS = (
    "/api/classify/questions", "/api/classify/passages", "/api/classify/texts", "/api/search", "/api/rerank",
)  # fmt: skip
KEY = "a-key-that-is-long-enough"


def service(models, retriever=None, **limits):
    settings = Settings(**limits)
    return asked(create_app(Engine(models, retriever, settings), settings))


@pytest.fixture(scope="module")
def client(models, retriever):
    with service(models, retriever) as found:
        yield found


# -- answers ----------------------------------------------------------------------------------------------------------


def test_questions_are_classified_as_the_library_does(client, models):
    answer = client.post("/api/classify/questions", {"texts": [QUESTION, "How tall is it?"], "min_probability": 0.9})
    expected = models.questions.classify([QUESTION, "How tall is it?"], min_probability=0.9)
    found = answer.json()["results"]
    assert [item["label"] for item in found] == [label.label for label in expected]
    assert found[0]["probabilities"] == pytest.approx(dict(expected[0].probabilities), abs=1e-6)
    assert set(found[0]) == {*vars(expected[0]), "in_scope"}
    assert found[0]["in_scope"] is None


def test_questions_are_told_from_chit_chat(models):
    scope = ScopeClassifier.load(encoder=models.encoder)
    with asked(create_app(Engine(models, None, Settings(), scope=scope), Settings())) as found:
        texts = [QUESTION, "Tell me a joke"]
        answer = found.post("/api/classify/questions", {"texts": texts, "in_scope": True})
        chances = [item["in_scope"] for item in answer.json()["results"]]
        assert chances == pytest.approx(scope.predict_proba(texts)[:, 1].tolist(), abs=1e-3)
        assert chances[0] > scope.threshold > chances[1]


def test_a_head_that_is_not_served_is_said(client):
    check_error(client.post("/api/classify/questions", {"texts": [QUESTION], "in_scope": True}), 424)


def test_passages_are_classified_as_the_library_does(client, models):
    text = "It was opened in October 1874 by Ada Merriweather."
    found = client.post("/api/classify/passages", {"texts": [text]}).json()["results"][0]
    assert found["labels"] == list(models.passages.classify([text])[0].labels)


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Two heads over a made-up encoder."""
    folder, encoder = tmp_path_factory.mktemp("heads"), FakeEncoder()
    texts = [f"{words} {number}" for words in ("the red boat", "a sweet cake") for number in range(6)]
    for name, labels in {"topic": ["boat"] * 6 + ["cake"] * 6, "parity": [0, 1] * 6}.items():
        TextClassifier(encoder, views=("pooled",), kind="logistic", cv=2).fit(texts, labels).save(folder / name)
    return {"topic": folder / "topic", "parity": folder / "parity"}


def test_several_heads_answer_one_request_over_one_reading(heads):
    encoder, texts = Counting(), ["the red boat 9", "a sweet cake 9"]
    models = Models.load(None, encoder=encoder, heads=heads)
    with service(models) as client:
        encoder.seen.clear()
        answer = client.post("/api/classify/texts", {"texts": texts}).json()["results"]
        assert encoder.seen == texts
        expected = models.heads["topic"].classify(texts)
        assert [row["text"] for row in answer] == texts
        assert (
            [row["heads"]["topic"]["label"] for row in answer] == [item.label for item in expected] == ["boat", "cake"]
        )
        assert answer[0]["heads"]["topic"]["probabilities"] == pytest.approx(dict(expected[0].probabilities))
        assert {row["heads"]["parity"]["label"] for row in answer} <= {0, 1}
        sure = client.post("/api/classify/texts", {"texts": texts[:1], "heads": ["parity"], "min_probability": 1})
        assert [*sure.json()["results"][0]["heads"]] == ["parity"]
        assert sure.json()["results"][0]["heads"]["parity"]["label"] == "ABSTAIN"
        assert client.get("/api/info").json()["heads"] == {"topic": ["boat", "cake"], "parity": ["0", "1"]}
        told = check_error(client.post("/api/classify/texts", {"texts": texts, "heads": ["tone"]}), 404)
        assert "topic, parity" in told


def test_texts_are_refused_without_heads(client):
    assert "--head" in check_error(client.post("/api/classify/texts", {"texts": [QUESTION]}), 404)


def test_a_search_is_filtered_and_boosted_by_labels(heads, fake_encoder):
    models = Models.load(None, encoder=fake_encoder, heads=heads)
    some = [Passage("boat", "the red boat 7"), Passage("cake", "a sweet cake 7")]
    retriever = HybridRetriever(PassageIndex.build(some, passage_encoder=models.passage_encoder), models)
    with service(models, retriever) as client:
        body = {"question": "the red cake", "method": "convex"}
        found = client.post("/api/search", {**body, "where": {"topic": "cake"}}).json()["hits"]
        assert [hit["id"] for hit in found] == ["cake"]
        found = client.post("/api/search", {**body, "boost": {"topic": 100}}).json()["hits"]
        assert [hit.id for hit in retriever.search("the red cake", method="convex", boost={"topic": 100})] == [
            hit["id"] for hit in found
        ]
        assert found[0]["components"]["boost:topic"] > 0
        check_error(client.post("/api/search", {**body, "boost": {"tone": 1}}), 404)


def test_a_search_gives_hits_with_all_that_made_them(client, retriever):
    body = {"question": QUESTION, "k": 3, "explain": True, "method": "class-integrated", "weights": {"class": 0.5}}
    answer = client.post("/api/search", body).json()
    expected = retriever.search(QUESTION, 3, explain=True, method="class-integrated", weights={"class": 0.5})
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in expected]
    assert set(answer["hits"][0]) == {*vars(expected[0]), "url"}
    assert answer["hits"][0]["explanation"]["parts"] == pytest.approx(dict(expected[0].explanation.parts), abs=1e-5)
    weights = retriever.weights
    assert answer["weights"] == {"bm25": weights["bm25"], "class": 0.5}
    default = client.post("/api/search", {"question": QUESTION, "classify": False}).json()
    assert default["question"] is None
    assert default["weights"] == {name: weights[name] for name in ("alpha", "evidence")}
    assert answer["question"]["label"] == "HUM"
    assert answer["milliseconds"] > 0


def test_the_weights_of_an_answer_can_be_sent_again(client, retriever):
    body = {"question": QUESTION, "method": "class-integrated"}
    found = client.post("/api/search", body).json()["weights"]
    assert found == {name: retriever.weights[name] for name in ("bm25", "class")}
    assert client.post("/api/search", {**body, "weights": found}).json()["weights"] == found


def test_passages_are_reranked_and_told_by_place_and_by_the_ids_that_were_given(client):
    passages = ["A ferry leaves at noon.", {"text": "Ada built the bridge.", "id": "x", "metadata": {"page": 3}}]
    found = client.post("/api/rerank", {"question": QUESTION, "passages": [*passages, passages[1]]}).json()["hits"]
    assert [(hit["index"], hit["id"]) for hit in found] == [(1, "x"), (2, "x"), (0, "0")]
    assert found[0]["metadata"] == {"page": 3}
    assert found[0]["rank_before"] == 2


def test_a_filter_limits_what_is_found(client):
    body = {"question": QUESTION, "where": {"_id": {"$in": ["no-such-id"]}}}
    assert client.post("/api/search", body).json()["hits"] == []


@pytest.mark.filterwarnings("ignore:no passage has the field")
@pytest.mark.parametrize(
    ("where", "status"),
    [
        ({"$or": [{"a": 1}] * 500}, 422),
        ({"a": {"$in": list(range(10_000))}}, 200),
        ({"$and": [{"$not": {"$or": [{"a": {"$in": [1] * 6000}}]}}] * 2}, 422),
    ],
)
def test_a_filter_has_a_size(client, where, status):
    answer = client.post("/api/search", {"question": QUESTION, "where": where})
    assert answer.status_code == status
    assert status == 200 or "at most 500 and 10000" in answer.json()["message"]


def test_what_is_served_is_told(client, retriever):
    found = client.get("/api/info").json()
    assert found["encoder"] == retriever.models.encoder.fingerprint
    assert {"name": "HUM", "description": "human"} in found["classes"]
    assert found["index"] == {"passages": len(retriever.index), "kind": "folder"}
    assert found["weights"] == retriever.weights
    assert found["answerable_from"] == retriever.models.answerable_from
    assert found["limits"]["max_texts"] == Settings().max_texts


def test_without_an_index_there_is_nothing_to_search_but_passages_are_reranked(models):
    with service(models) as client:
        refused = client.post("/api/search", {"question": QUESTION})
        assert (refused.status_code, refused.json()["error_type"]) == (404, "no_index")
        assert client.post("/api/rerank", {"question": QUESTION, "passages": ["Ada built it."]}).status_code == 200
        assert client.get("/api/info").json()["index"] is None


def test_an_encoder_without_heads_still_searches(fake_encoder, corpus):
    models = Models.load(None, encoder=fake_encoder)
    retriever = HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)
    with service(models, retriever) as client:
        found = client.post("/api/search", {"question": QUESTION, "method": "convex"}).json()
        assert found["question"] is None
        assert len(found["hits"]) == 10
        default = client.post("/api/search", {"question": QUESTION}).json()
        assert [hit["id"] for hit in default["hits"]] == [hit["id"] for hit in found["hits"]]
        refused = client.post("/api/search", {"question": QUESTION, "method": "entail-stable"})
        assert (refused.status_code, refused.json()["error_type"]) == (422, "validation")
        assert client.get("/api/info").json()["methods"] == ["bm25", "dense", "convex", "rrf", "hybrid"]
        refused = client.post("/api/rerank", {"question": QUESTION, "passages": ["Ada built it."]})
        assert (refused.status_code, refused.json()["error_type"]) == (424, "backend")
        for path in ("/api/classify/questions", "/api/classify/passages"):
            refused = client.post(path, {"texts": [QUESTION]})
            assert (refused.status_code, refused.json()["error_type"]) == (424, "backend")


def test_a_method_whose_heads_are_not_served_is_refused_in_the_words_of_the_service(models, corpus):
    passage_encoder = replace(models.passage_encoder, classifier=replace(models.passages, head=None))
    bare = replace(models, questions=replace(models.questions, head=None), passage_encoder=passage_encoder)
    retriever = HybridRetriever(PassageIndex.build(corpus, passage_encoder=passage_encoder), bare)
    body = {"question": QUESTION, "method": "class-stable"}
    with service(bare, retriever) as client:
        assert "semclass serve --models" in check_error(client.post("/api/search", body), 422)
        body["passages"] = ["Ada built it."]
        check_error(client.post("/api/rerank", body), 422)
        assert client.post("/api/rerank", {**body, "method": "entail-stable"}).status_code == 200


# -- refusals ---------------------------------------------------------------------------------------------------------


def check_error(answer, status):
    """Every error has one body, and says which request it was."""
    body = answer.json()
    assert answer.status_code == status
    assert set(body) == {"error", "error_type", "message", "detail", "request_id"}
    assert body["error"] == body["message"] == body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    return body["message"]


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"question": Infinity}', "application/json", 400),
        (b'"\xff"', "application/json", 400),
        (b'{"question": "\\ud800"}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"null", "application/json; charset=utf-8", 422),
        (b'{"a": 1}', "application/json", 422),
        (b'{"texts": ["a"]}', "text/plain", 415),
    ],
)
def test_what_is_no_request_is_refused(client, path, content, kind, status):
    check_error(client.request("POST", path, content=content, headers={"content-type": kind}), status)


@pytest.mark.parametrize(
    "body",
    [
        {"question": " \n"},
        {"question": QUESTION, "k": 0},
        {"question": QUESTION, "k": 10**30},
        {"question": QUESTION, "k": "5"},
        {"question": QUESTION, "candidates": 100_000},
        {"question": QUESTION, "method": "best"},
        {"question": QUESTION, "weights": {"bm25": -1}},
        {"question": QUESTION, "weights": {"lambda": 1}},
        {"question": QUESTION, "method": "sum"},
        {"question": QUESTION, "where": {"page": {"$near": 3}}},
        {"question": QUESTION, "place": "/etc/passwd"},
    ],
)
def test_options_that_are_not_allowed_are_named(client, body):
    assert check_error(client.post("/api/search", body), 422)


@pytest.mark.parametrize(
    ("path", "field", "item"),
    [
        ("/api/classify/passages", "texts", ""),
        ("/api/rerank", "passages", {"text": 1, "id": 2, "other": 3}),
        ("/v2/rerank", "documents", {"image": 1}),
        ("/rerank", "texts", 1),
        ("/predict", "inputs", 1),
    ],
)
def test_only_the_first_of_many_wrong_items_is_named(client, path, field, item):
    words = {"question" if "api" in path else "query": QUESTION} if "rerank" in path else {}
    assert f"{field}.1" not in check_error(client.post(path, {**words, field: [item] * 1000}), 422)


def test_of_many_unknown_fields_none_is_told(client):
    body = {"question": QUESTION, **{f"field {place}": place for place in range(50_000)}}
    assert "only known fields" in check_error(client.post("/api/search", body), 422)


@pytest.mark.parametrize("item", ["[]", "1", '"a"', '{"a":1}', '"\\\\",1', '"\\"",1'])
def test_a_body_of_many_values_is_not_decoded(client, item):
    content = f'{{"question": "?", "passages": ["a", {",".join([item] * 100_001)}]}}'.encode()
    headers = {"content-type": "application/json"}
    message = check_error(client.request("POST", "/api/rerank", content=content, headers=headers), 413)
    assert "too many values" in message


@pytest.mark.parametrize("text", [",", "[{", '\\",', "\\,"])
def test_marks_in_a_text_are_no_values(client, text):
    # the text is read, and only then too long
    message = check_error(client.post("/api/classify/passages", {"texts": [text * 150_000]}), 413)
    assert "characters is too long" in message


def test_a_whole_number_may_be_written_with_a_point(client):
    content = b'{"question": "Who built it?", "k": 2.0}'
    answer = client.request("POST", "/api/search", content=content, headers={"content-type": "application/json"})
    assert len(answer.json()["hits"]) == 2


@pytest.mark.parametrize(("number", "told"), [("1e400", "Infinity"), ("-1e400", "-Infinity"), ("1e300", 1e300)])
def test_a_number_that_is_too_large_for_a_number_is_given_back_as_a_text(client, number, told):
    headers = {"content-type": "application/json"}
    passage = f'{{"text": "Ada built it.", "metadata": {{"n": {number}}}}}'
    content = f'{{"question": "Who?", "passages": [{passage}]}}'
    found = client.request("POST", "/api/rerank", content=content, headers=headers).json()
    assert found["hits"][0]["metadata"] == {"n": told}
    content = f'{{"query": "Who?", "documents": [{{"text": "Ada built it.", "n": {number}}}]}}'
    found = client.request("POST", "/v1/rerank", content=content, headers=headers).json()
    assert found["results"][0]["document"]["n"] == told


@pytest.mark.filterwarnings("ignore::semclass.TruncationWarning")
@pytest.mark.parametrize("text", ["\x00", "\u200b", "\ufffd\uffff", "a\x00b", "\U0010ffff", "?" * 1000])
def test_odd_texts_are_texts(client, text):
    assert client.post("/api/classify/questions", {"texts": [text]}).status_code == 200
    assert client.post("/api/search", {"question": text}).status_code == 200
    assert client.post("/api/rerank", {"question": text, "passages": [text]}).status_code == 200


FIELDS = st.sampled_from(["texts", "question", "passages", "k", "where", "text", "id"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
    max_leaves=8,
)


@given(VALUES)
def test_no_body_is_an_error_of_the_service(client, body):
    try:
        content = json.dumps(body).encode()
    except UnicodeEncodeError:
        return
    for path in POSTS:
        answer = client.request("POST", path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400, 413, 422)


def test_an_unknown_path_and_a_wrong_method_are_told(client):
    assert "GET /openapi.json" in check_error(client.get("/api/nothing"), 404)
    wrong = client.get("/api/search")
    assert "POST" in check_error(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    check_error(client.get("/api/search/"), 404)


def test_what_fails_unexpectedly_tells_the_client_nothing_and_the_log_no_text(client, log, monkeypatch):
    async def fail(*_, **__):
        raise ZeroDivisionError("secret " + QUESTION)

    monkeypatch.setattr(Engine, "search", fail)
    answer = client.post("/api/search", {"question": QUESTION})
    assert "secret" not in check_error(answer, 500)
    assert (log.last["level"], log.last["exception"]) == ("error", "ZeroDivisionError")
    assert any("fail" in frame for frame in log.last["trace"])
    assert log.last["request_id"] == answer.json()["request_id"]
    assert not any("secret" in line or QUESTION in line for line in log.written)


def test_an_index_that_does_not_answer_is_unavailable(client, log, monkeypatch):
    async def fail(*_, **__):
        raise ArtifactError("the server http://user:password@host does not answer")

    monkeypatch.setattr(Engine, "search", fail)
    assert "password" not in check_error(client.post("/api/search", {"question": QUESTION}), 503)
    assert log.last["exception"] == "ArtifactError"
    assert not any("password" in line for line in log.written)


# -- operations -------------------------------------------------------------------------------------------------------


def test_readiness_ends_before_the_service_does(models):
    with service(models) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/ready").json() == {"status": "ready"}
        client.app.state.draining = True
        check_error(client.get("/ready"), 503)
        assert client.get("/health").status_code == 200
        assert client.post("/api/classify/questions", {"texts": [QUESTION]}).status_code == 200


def test_a_request_is_one_line_of_json_without_a_word_of_its_user(client, log):
    headers = {"x-request-id": "abc-1.2_3"}
    client.post("/api/classify/questions?secret=1", {"texts": [QUESTION, "How?"]}, headers=headers)
    found = log.last
    assert len(log.written) == 1
    assert found.pop("milliseconds") > 0
    assert found.pop("time").endswith("+00:00")
    assert found == {
        "level": "info",
        "event": "request",
        "request_id": "abc-1.2_3",
        "method": "POST",
        "route": "/api/classify/questions",
        "status": 200,
        "texts": 2,
    }


@pytest.mark.parametrize(
    "given_id",
    ["", "x" * 65, "a b", "ä".encode(), "a\r\nX-Forged: 1", 'a"}\n{"event": "stopped"}', "a\x1b[2J"],
)
def test_an_odd_request_id_is_replaced(client, log, given_id):
    answer = client.get("/health", headers={"x-request-id": given_id})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    assert "x-forged" not in answer.headers
    assert [json.loads(line)["request_id"] for line in log.written] == [answer.headers["x-request-id"]]
    assert "\n" not in log.written[0]


def test_paths_and_methods_that_the_service_does_not_have_are_not_told_apart(client, log):
    client.request("BREW", "/secret/path")
    assert (log.last["route"], log.last["method"], log.last["status"]) == ("-", "-", 404)
    client.get("/api/search")
    assert (log.last["route"], log.last["status"]) == ("/api/search", 405)


def test_metrics_count_requests_by_route_and_status(models):
    with service(models) as client:
        client.post("/api/classify/questions", {"texts": [QUESTION, "How?"]})
        client.post("/api/classify/questions", {"texts": []})
        for path in ("/a", "/b"):
            client.get(path)
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    assert 'semclass_requests_total{route="/api/classify/questions",status="200"} 1.0' in lines
    assert 'semclass_requests_total{route="/api/classify/questions",status="422"} 1.0' in lines
    assert 'semclass_requests_total{route="-",status="404"} 2.0' in lines
    assert 'semclass_texts_total{route="/api/classify/questions"} 2.0' in lines
    assert any(line.startswith("semclass_queue_texts ") for line in lines)


def test_every_answer_tells_browsers_to_be_careful(client):
    for answer in (client.get("/"), client.get("/api/info"), client.get("/nothing")):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


# -- OpenAPI ----------------------------------------------------------------------------------------------------------


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def test_the_description_has_the_limits_that_hold_and_every_error(models):
    with service(models, max_texts=7, max_characters=99, max_hits=5) as client:
        document = client.get("/openapi.json").json()
        texts = document["paths"]["/api/classify/questions"]["post"]["requestBody"]["content"]["application/json"]
        assert texts["schema"]["properties"]["texts"]["maxItems"] == 7
        assert texts["schema"]["properties"]["texts"]["items"]["maxLength"] == 99
        assert client.post("/api/classify/questions", {"texts": ["a" * 99] * 7}).status_code == 200
        check_error(client.post("/api/classify/questions", {"texts": ["a"] * 8}), 413)
        check_error(client.post("/api/classify/questions", {"texts": ["a" * 100]}), 413)
        check_error(client.post("/api/rerank", {"question": "a", "passages": ["a"], "k": 6}), 422)
    for path, method, operation in operations(document):
        statuses = set(operation["responses"])
        assert {"200", "400", "500"} <= statuses
        assert method == "get" or {"408", "413", "415", "422", "429", "503", "504"} <= statuses, path
        told_when = {status for status, told in operation["responses"].items() if "Retry-After" in told["headers"]}
        assert told_when == statuses & {"429", "503"}
    assert not re.search(r'": "max_', json.dumps(document))


def test_every_reference_of_the_description_is_there(client):
    document = client.get("/openapi.json").json()
    names = [part.partition('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]]
    assert names
    assert set(names) <= set(document["components"]["schemas"])
    assert "$defs" not in json.dumps(document)


# -- keys and names ---------------------------------------------------------------------------------------------------


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# of the two teams\n{KEY}\n\n  another-key-of-someone\n")
    path.chmod(0o600)
    return path


def test_a_key_is_asked_for_where_keys_are_set(models, key_file, log):
    with service(models, keys=read_keys(key_file)) as client:
        for path in ("/health", "/ready", "/", "/page.js", "/text.js", "/page.css"):
            assert client.get(path).status_code == 200
        for path in ("/api/info", "/metrics", "/openapi.json", "/nothing"):
            refused = client.get(path)
            check_error(refused, 401)
            assert refused.headers["www-authenticate"] == "Bearer"
        # the page is open, re-ranking at the same path is not
        check_error(client.post("/", {"query": QUESTION, "texts": ["a"]}), 401)
        for value in (f"Bearer {KEY}", "bearer another-key-of-someone"):
            assert client.get("/api/info", headers={"authorization": value}).status_code == 200
        for value in (KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer", "Bearer # of the two teams", "Bearer \xff"):
            check_error(client.get("/api/info", headers={"authorization": value.encode("latin-1")}), 401)
        document = client.get("/openapi.json", headers={"authorization": f"Bearer {KEY}"}).json()
    assert document["paths"]["/api/search"]["post"]["security"] == [{"key": []}]
    assert "security" not in document["paths"]["/health"]["get"]
    assert not any(KEY in line for line in log.written)


@pytest.mark.parametrize(
    "content", ["", "# none\n", "short\n", "a key with many spaces in it\n", "schlüssel-mit-umlaut\n"]
)
def test_a_file_without_good_keys_is_refused(tmp_path, content):
    path = tmp_path / "keys"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InputError):
        read_keys(path)


def test_a_file_of_keys_that_everybody_can_read_is_warned_of(key_file):
    key_file.chmod(0o644)
    with pytest.warns(UserWarning, match="chmod 600"):
        assert len(read_keys(key_file)) == 2


def test_another_name_than_the_services_is_refused(models):
    with service(models, hosts=("localhost", "127.0.0.1", "[::1]")) as client:
        for host in ("localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]:8080", "[::1]"):
            assert client.get("/api/info", headers={"host": host}).status_code == 200
        for host in (
            "evil.example",
            "localhost.evil.example",
            "evil.example:80",
            "",
            "localhost:x",
            "localhost:²",
            ":80",
        ):
            check_error(client.get("/api/info", headers={"host": host.encode("latin-1")}), 400)
            # what orchestrators ask by address
            assert client.get("/health", headers={"host": host.encode("latin-1")}).status_code == 200


def test_which_addresses_are_this_machine_only():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "")))  # noqa: S104


@pytest.mark.parametrize(
    "limits", [{"max_texts": 0}, {"request_seconds": -1.0}, {"drain_seconds": -0.1}, {"stop_seconds": float("inf")}]
)
def test_limits_that_let_nothing_through_are_refused(limits):
    with pytest.raises(InputError, match=next(iter(limits))):
        Settings(**limits)


def test_a_start_that_fails_says_why_in_the_log(models, log, monkeypatch):
    engine = Engine(models, None, Settings())

    async def fails(texts):
        raise ArtifactError("the file weights.npz is damaged")

    monkeypatch.setattr(engine, "classify_questions", fails)
    with pytest.raises(ArtifactError), asked(create_app(engine, engine.settings)):
        pass
    told = json.loads(log.written[-1])
    assert (told["level"], told["message"]) == ("error", "the file weights.npz is damaged")


def test_white_space_is_what_the_library_takes_for_it():
    said, read = re.compile(WRITTEN), TypeAdapter(Annotated[str, Field(pattern=WRITTEN)]).validator
    for letter in map(chr, (*range(0xD800), *range(0xE000, 0x110000))):
        assert bool(said.search(letter)) == read.isinstance_python(letter) == bool(letter.strip()), ascii(letter)


def test_an_answer_says_what_was_read_of_a_long_question(client):
    before = "The ferry was late again, and the cafe at the pier was closed when we came. " * 3
    answer = client.post("/api/search", {"question": before + QUESTION}).json()
    assert (answer["question"]["asked"], answer["query_used"]) == (QUESTION, QUESTION)
