"""The routes of the native API: answers, refusals, log, counters, keys and host names."""

import json
import os
import re
import stat

import pytest
from beir import QUESTIONS
from serving import KEY, WITH_KEY, client_of, log_lines, service
from world import ROOT, Counting, FakeEncoder

from semclass import (
    ArtifactError,
    HybridRetriever,
    InputError,
    Models,
    Passage,
    PassageIndex,
    Reranker,
    TextClassifier,
    TextModel,
)
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.limits import Settings, read_keys

log = pytest.fixture(log_lines)

QUESTION = "Who built the bridge?"
POSTS = (
    "/api/classify/questions", "/api/classify/passages", "/api/classify/texts", "/api/search", "/api/rerank", "/api/ask",
)  # fmt: skip


def check_error(answer, status):
    """Every error has one body, which names the request."""
    body = answer.json()
    assert answer.status_code == status
    assert set(body) == {"error", "error_type", "message", "detail", "request_id"}
    assert body["error"] == body["message"] == body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    return body["message"]


@pytest.fixture(scope="module")
def client(models, retriever):
    with service(models, retriever) as client:
        yield client


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """A head over a made-up encoder."""
    folder = tmp_path_factory.mktemp("heads") / "topic"
    texts = [f"{words} {number}" for words in ("the red boat", "a sweet cake") for number in range(6)]
    TextClassifier(FakeEncoder(), cv=2).fit(texts, ["boat"] * 6 + ["cake"] * 6).save(folder)
    return {"topic": folder}


# -- answers -----------------------------------------------------------------------------------------------------------


def test_questions_are_classified_as_by_the_library(models):
    scope = TextModel.load("in_scope", encoder=models.encoder)
    texts = [QUESTION, "Tell me a joke"]
    with client_of(Engine(models, None, Settings(), scope=scope)) as client:
        answer = client.post("/api/classify/questions", {"texts": texts, "in_scope": True, "min_probability": 0.9})
    labels = models.questions.classify(texts, min_probability=0.9)
    assert [item["fine"] for item in answer.json()["results"]] == [label.fine for label in labels]
    assert set(answer.json()["results"][0]) == set(vars(labels[0]))
    assert answer.json()["in_scope"] == pytest.approx(scope.predict_proba(texts)[:, 0].tolist(), abs=1e-3)


def test_passages_are_classified_as_by_the_library(client, models):
    text = "It was opened in October 1874 by Ada Merriweather."
    (item,) = client.post("/api/classify/passages", {"texts": [text]}).json()["results"]
    assert item["labels"] == list(models.passages.classify([text])[0].labels)


def test_texts_are_classified_by_heads_of_your_own(heads):
    encoder, texts = Counting(), ["the red boat 9", "a sweet cake 9"]
    with service(Models.load(None, encoder=encoder, heads=heads)) as client:
        encoder.seen.clear()
        rows = client.post("/api/classify/texts", {"texts": texts}).json()["results"]
        assert [row["heads"]["topic"]["label"] for row in rows] == ["boat", "cake"]
        assert encoder.seen == texts
        assert client.get("/api/info").json()["heads"] == {"topic": ["boat", "cake"]}
        assert "topic" in check_error(client.post("/api/classify/texts", {"texts": texts, "heads": ["tone"]}), 404)


def test_a_search_is_that_of_the_library(client, retriever):
    options = {"k": 3, "explain": True, "method": "class-integrated", "weights": {"bm25": 0.5}}
    answer = client.post("/api/search", {"question": QUESTION, **options}).json()
    result = retriever.search(QUESTION, **options)
    assert [hit["id"] for hit in answer["hits"]] == [hit.id for hit in result]
    assert set(answer) == set(vars(result))
    assert {*vars(result[0]), "url"} == set(answer["hits"][0])
    assert answer["hits"][0]["explanation"]["parts"] == pytest.approx(dict(result[0].explanation.parts), abs=1e-5)


def test_a_search_is_filtered_and_boosted(heads, fake_encoder):
    models = Models.load(None, encoder=fake_encoder, heads=heads)
    passages = [Passage("boat", "the red boat 7", {"page": 1}), Passage("cake", "a sweet cake 7", {"page": 2})]
    retriever = HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)
    with service(models, retriever) as client:
        body = {"question": "the red cake", "method": "convex"}
        for where in ({"topic": "cake"}, ["topic=cake", "page>=2"], {"page": {"$gte": 2}}):
            hits = client.post("/api/search", {**body, "where": where}).json()["hits"]
            assert [hit["id"] for hit in hits] == ["cake"]
        hits = client.post("/api/search", {**body, "boost": {"topic": 100}}).json()["hits"]
        assert hits[0]["components"]["boost:topic"] > 0
        assert "did you mean" in check_error(client.post("/api/search", {**body, "where": ["pages=2"]}), 422)
        facets = client.post("/api/facets", {}).json()["facets"]
        assert [(facet["field"], facet["head"]) for facet in facets] == [("topic", True)]
        (facet,) = client.post("/api/facets", {"where": ["page>=2"]}).json()["facets"]
        assert dict(facet["values"]) == {"boat": 0, "cake": 1}


def test_sentences_are_those_of_the_library(client, retriever):
    answer = client.post("/api/ask", {"question": QUESTION, "k": 2}).json()
    expected = retriever.ask(QUESTION, 2)
    assert [item["text"] for item in answer["sentences"]] == [item.text for item in expected.sentences]
    assert answer["answered"] is expected.answered


def test_reranked_passages_keep_their_places_and_ids(client):
    passages = ["A ferry leaves at noon.", {"text": "Ada built the bridge.", "id": "x", "metadata": {"page": 3}}]
    hits = client.post("/api/rerank", {"question": QUESTION, "passages": [*passages, passages[1]]}).json()["hits"]
    assert [(hit["index"], hit["id"]) for hit in hits] == [(1, "x"), (2, "x"), (0, "0")]
    assert hits[0]["metadata"] == {"page": 3}


def test_the_service_describes_itself(client, retriever):
    info = client.get("/api/info").json()
    assert info["encoder"] == retriever.models.encoder.fingerprint
    assert "HUM" in info["classes"]
    assert info["index"] == {"passages": len(retriever.index), "local": True}
    assert info["answerable_from"] == retriever.answerable_from
    assert info["limits"]["max_texts"] == Settings().max_texts
    assert info["judgements"] is False


def test_examples_are_headings_that_a_search_finds(models):
    texts = {"Who built the bridge?": "Ada Merriweather built it.", "the_bridge()": "It is a function of the bridge."}
    passages = [Passage(text, f"{text}\n\n{body}", {"headings": [text]}) for text, body in texts.items()]
    retriever = HybridRetriever.from_passages(passages, models=models)
    with service(models, retriever) as client:
        assert client.get("/api/examples").json() == {"questions": [QUESTION]}


def test_an_empty_text_ranks_last_and_a_question_is_refused(client):
    hits = client.post("/api/rerank", {"question": QUESTION, "passages": ["", "Ada built it."]}).json()["hits"]
    assert [(hit["index"], hit["components"].get("relevance")) for hit in hits][1:] == [(0, 0.0)]
    for route in ("search", "ask", "rerank"):
        check_error(client.post(f"/api/{route}", {"question": " ", "passages": ["a"]}), 422)
    check_error(client.post("/api/classify/questions", {"texts": [" "]}), 422)


def test_relevance_of_pairs_is_that_of_python(client, models, corpus):
    texts = [passage.text for passage in corpus[:29]]
    for question in QUESTIONS:
        hits = client.post("/api/rerank", {"question": question, "passages": texts}).json()["hits"]
        of_python = {hit.index: hit.components["relevance"] for hit in Reranker(models).rerank(question, texts)}
        assert {hit["index"]: hit["components"]["relevance"] for hit in hits} == pytest.approx(of_python, abs=1e-3)


def test_without_an_index_passages_are_still_reranked(models):
    with service(models) as client:
        check_error(client.post("/api/search", {"question": QUESTION}), 404)
        assert client.post("/api/rerank", {"question": QUESTION, "passages": ["Ada built it."]}).status_code == 200
        assert client.get("/api/info").json()["index"] is None
        assert client.get("/api/examples").json() == {"questions": []}
        assert client.post("/api/facets", {}).json() == {"facets": []}


def test_without_heads_searches_still_work(fake_encoder, corpus):
    models = Models.load(None, encoder=fake_encoder)
    retriever = HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)
    with service(models, retriever) as client:
        assert len(client.post("/api/search", {"question": QUESTION}).json()["hits"]) == 10
        check_error(client.post("/api/rerank", {"question": QUESTION, "passages": ["Ada built it."]}), 424)
        for path in ("/api/classify/questions", "/api/classify/passages"):
            check_error(client.post(path, {"texts": [QUESTION]}), 424)
        check_error(client.post("/api/classify/texts", {"texts": [QUESTION]}), 404)


# -- judgements --------------------------------------------------------------------------------------------------------


def test_judgements_are_appended_as_lines_of_json(models, retriever, corpus, tmp_path):
    path = tmp_path / "judgements.jsonl"
    judgement = {"question": QUESTION, "passage": corpus[0].id, "right": True}
    with service(models, retriever, judgements=path) as client:
        assert client.get("/api/info").json()["judgements"] is True
        for right in (True, None):
            assert client.post("/api/judgements", {**judgement, "right": right}).json() == {"status": "stored"}
        check_error(client.post("/api/judgements", {**judgement, "passage": "no such"}), 404)
        check_error(client.post("/api/judgements", {**judgement, "right": "yes"}), 422)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [judgement, {**judgement, "right": None}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_judgements_go_to_a_regular_file_alone(models, retriever, corpus, tmp_path, log):
    judgement = {"question": QUESTION, "passage": corpus[0].id, "right": True}
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "link", tmp_path / "pipe", tmp_path, tmp_path / "no" / "folder"):
        with service(models, retriever, judgements=path) as client:
            assert str(path) not in check_error(client.post("/api/judgements", judgement), 503)
        assert str(path) in "".join(log.written)
    assert (tmp_path / "target").read_text() == ""
    with service(models, retriever) as client:
        check_error(client.post("/api/judgements", judgement), 404)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 422),
        (b"{", "application/json", 400),
        (b'"\xff"', "application/json", 400),
        (b"[" * 40_000, "application/json", 400),
        (b'{"question": "\\ud800", "texts": ["\\ud800"]}', "application/json", 422),
        (b"null", "application/json", 422),
        (b'{"texts": ["a"], "question": "a", "passages": ["a"]}', "text/plain", 422),
    ],
)
def test_a_body_that_is_no_request_is_refused(client, path, content, kind, status):
    check_error(client.request("POST", path, content=content, headers={"content-type": kind}), status)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"question": " \n"}, "question"),
        ({"k": 1001}, "1000"),
        ({"k": "5"}, "k"),
        ({"method": "best"}, "method"),
        ({"where": {"page": {"$near": 3}}}, "$near"),
        ({"where": {"page": {"$in": ["x" * 100_000]}}}, "100000"),
        ({"boost": {"tone": 1}}, "tone"),
        ({"place": "/etc/passwd"}, "place"),
    ],
)
def test_an_option_that_is_not_allowed_is_named(client, options, named):
    assert named in check_error(client.post("/api/search", {"question": QUESTION, **options}), 422)


def test_texts_have_a_number_and_a_length(models):
    with service(models, max_texts=7, max_characters=99, max_body=10_000) as client:
        for texts, status in ((["a" * 99] * 7, 200), (["a"] * 8, 413), (["a" * 100], 413), (["a" * 10_000], 413)):
            assert client.post("/api/classify/questions", {"texts": texts}).status_code == status
        check_error(client.post("/api/rerank", {"question": "a" * 100, "passages": ["a"]}), 413)


def test_an_error_names_few_of_many_faults(client):
    body = {"question": QUESTION, **{f"field {place}": place for place in range(40_000)}}
    assert "only known fields" in check_error(client.post("/api/search", body), 422)
    assert "texts.1" not in check_error(client.post("/api/classify/passages", {"texts": [""] * 1000}), 422)
    assert len(check_error(client.post("/api/search", {"question": QUESTION, "n" * 100_000: 1}), 422)) < 200


@pytest.mark.filterwarnings("ignore::semclass.TruncationWarning")
@pytest.mark.filterwarnings("ignore:the passages seem not to be in English")
@pytest.mark.parametrize("text", ["\x00", "\u200b", "\ufffd\uffff", "\U0010ffff", "?" * 1000])
def test_odd_texts_are_texts(client, text):
    assert client.post("/api/classify/questions", {"texts": [text]}).status_code == 200
    assert client.post("/api/search", {"question": text}).status_code == 200
    assert client.post("/api/rerank", {"question": text, "passages": [text]}).status_code == 200


def test_an_unknown_path_and_a_wrong_method_are_named(client, log):
    assert "GET /openapi.json" in check_error(client.get("/api/nothing"), 404)
    wrong = client.get("/api/search")
    assert "POST" in check_error(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    assert (log.last["route"], log.last["status"]) == ("/api/search", 405)
    client.request("BREW", "/secret/path")
    assert (log.last["route"], log.last["method"], log.last["status"]) == ("-", "-", 404)


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), ArtifactError("http://user:secret@host is gone")])
def test_an_error_of_the_service_tells_nothing(client, log, monkeypatch, error):
    async def fail(*_, **__):
        raise error

    monkeypatch.setattr(Engine, "search", fail)
    answer = client.post("/api/search", {"question": QUESTION})
    assert "secret" not in check_error(answer, 503 if isinstance(error, ArtifactError) else 500)
    assert (log.last["level"], log.last["exception"]) == ("error", type(error).__name__)
    assert any("fail" in frame for frame in log.last["trace"])
    assert not any("secret" in line or QUESTION in line for line in log.written)


# -- operations --------------------------------------------------------------------------------------------------------


def test_a_request_is_one_line_without_its_text(client, log):
    client.post("/api/ask?secret=1", {"question": QUESTION}, headers={"x-request-id": "abc-1.2_3"})
    (line,) = map(json.loads, log.written)
    assert line.pop("milliseconds") > 0
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": "abc-1.2_3",
        "method": "POST",
        "route": "/api/ask",
        "status": 200,
    }


@pytest.mark.parametrize("request_id", ["", "x" * 65, "a b", "ä".encode(), "a\r\nX-Forged: 1", 'a"}\n{"event": "x"}'])
def test_an_odd_request_id_is_replaced(client, log, request_id):
    answer = client.get("/health", headers={"x-request-id": request_id})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    assert log.last["request_id"] == answer.headers["x-request-id"]


def test_metrics_count_requests_by_route_and_status(models):
    with service(models) as client:
        for texts in ([QUESTION, "How?"], []):
            client.post("/api/classify/questions", {"texts": texts})
        for path in ("/a", "/b"):
            client.get(path)
        lines = client.get("/metrics").text.splitlines()
    assert 'semclass_requests_total{route="/api/classify/questions",status="200"} 1.0' in lines
    assert 'semclass_requests_total{route="/api/classify/questions",status="422"} 1.0' in lines
    assert 'semclass_requests_total{route="-",status="404"} 2.0' in lines


def test_answers_forbid_browsers_to_run_or_frame(client):
    for answer in (client.get("/"), client.get("/api/info"), client.get("/nothing")):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
    assert not re.search(r"https?://(?!www\.w3\.org)", client.get("/").text)


def test_a_start_that_fails_is_logged(models, log, monkeypatch):
    async def fail(*_):
        raise ArtifactError("the file weights.npz is damaged")

    monkeypatch.setattr(Engine, "classify_questions", fail)
    with pytest.raises(ArtifactError), service(models):
        pass
    assert (log.last["level"], log.last["message"]) == ("error", "the file weights.npz is damaged")


# -- keys and host names -----------------------------------------------------------------------------------------------


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# of the two teams\n{KEY}\n\n  another-key-of-someone\n")
    path.chmod(0o600)
    return path


def test_a_service_with_keys_asks_for_one(models, key_file, log):
    with service(models, keys=read_keys(key_file)) as client:
        for path in ("/health", "/ready", "/", "/page.js", "/page.css"):
            assert client.get(path).status_code == 200
        for path in ("/api/info", "/metrics", "/openapi.json", "/nothing"):
            refused = client.get(path)
            check_error(refused, 401)
            assert refused.headers["www-authenticate"] == "Bearer"
        # the page is open, but not re-ranking at the same path
        check_error(client.post("/", {"query": QUESTION, "texts": ["a"]}), 401)
        for value in (f"Bearer {KEY}", "bearer another-key-of-someone"):
            assert client.get("/api/info", headers={"authorization": value}).status_code == 200
        for value in (KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer", "Bearer # of the two teams", "Bearer \xff"):
            check_error(client.get("/api/info", headers={"authorization": value.encode("latin-1")}), 401)
        document = client.get("/openapi.json", headers=WITH_KEY).json()
    assert document["paths"]["/api/search"]["post"]["security"]
    assert "security" not in document["paths"]["/health"]["get"]
    assert not any(KEY in line for line in log.written)


@pytest.mark.parametrize("content", ["", "# none\n", "short\n", "a key with many spaces\n", "schlüssel-mit-umlaut\n"])
def test_a_file_without_good_keys_is_refused(tmp_path, content):
    (tmp_path / "keys").write_text(content)
    (tmp_path / "keys").chmod(0o600)
    with pytest.raises(InputError):
        read_keys(tmp_path / "keys")


def test_another_host_name_is_refused(models):
    with service(models, hosts=("localhost", "127.0.0.1", "[::1]")) as client:
        for host in ("localhost", "LocalHost:8080", "127.0.0.1:1", "[::1]:8080"):
            assert client.get("/api/info", headers={"host": host}).status_code == 200
        for host in ("evil.example", "localhost.evil.example", "", "localhost:x", ":80"):
            check_error(client.get("/api/info", headers={"host": host}), 400)
            assert client.get("/health", headers={"host": host}).status_code == 200  # orchestrators ask by address


# -- documentation -----------------------------------------------------------------------------------------------------


def table_of_routes(openapi):
    """The table of docs/http.md."""
    yield "| route | purpose | fields, **required** ones bold |"
    yield "|---|---|---|"
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            schema = openapi["components"]["schemas"].get(name, {})
            required = schema.get("required", [])
            fields = [f"**{name}**" if name in required else name for name in schema.get("properties", {})]
            purpose = operation["description"].partition("\n")[0]
            yield f"| `{method.upper()} {path}` | {purpose} | {', '.join(fields) or '-'} |"


def test_the_documented_routes_are_those_of_openapi(models):
    openapi = create_app(Engine(models, None, Settings())).openapi()
    text = (ROOT / "packages" / "semclass-serve" / "docs" / "http.md").read_text()
    assert "\n".join(table_of_routes(openapi)) in text
    statuses = {status for item in openapi["paths"].values() for op in item.values() for status in op["responses"]}
    assert statuses - {"200"} <= set(re.findall(r"\b[45]\d\d\b", text.partition("## Errors")[2]))
