"""One suite for every engine: a collection of Qdrant gives the hits of the index that was uploaded."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import replace

import numpy as np
import pytest
from world import FakeEncoder, assert_same_hits, passage_encoder_of

from semclass import ArtifactError, HybridRetriever, InputError, Models, Passage, PassageIndex, TextClassifier
from semclass.cli import main

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (extra qdrant)")

from semclass_integrations import qdrant  # noqa: E402
from semclass_integrations.qdrant import QdrantIndex  # noqa: E402

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore:Local mode performs exact")]

SERVER = "SEMCLASS_QDRANT_URL"

QUESTIONS = ["Who designed the lighthouse?", "When was the museum opened?", "Why do ferries stay in port?", "?!?"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Score the words of a passage alone: another engine does not know which passages are side by side."""
    monkeypatch.setattr("semclass.ranking.methods.AROUND", 0.0)


@pytest.fixture(scope="module", params=["local", "server"])
def client(request):
    """A client of each engine that there is."""
    if request.param == "local":
        return qdrant_client.QdrantClient(":memory:")
    if SERVER not in os.environ:
        pytest.skip(f"no server: name one with {SERVER}")
    return qdrant_client.QdrantClient(url=os.environ[SERVER])


@pytest.fixture
def collection(client):
    """A name that no other test uses; the collection is removed."""
    name = f"semclass-test-{uuid.uuid4().hex[:12]}"
    yield name
    if client.collection_exists(name):
        client.delete_collection(name)


@pytest.fixture(scope="module")
def corpus(corpus):
    """The passages of the demonstration, by id, with metadata to filter by; the last has none."""
    ordered = sorted(corpus, key=lambda passage: passage.id)
    described = [
        replace(passage, metadata={"document": passage.id.partition("-")[0], "page": page})
        for page, passage in enumerate(ordered[:-1])
    ]
    return [*described, ordered[-1]]


@pytest.fixture(scope="module")
def index(models, corpus):
    return PassageIndex.build(corpus, passage_encoder=models.passage_encoder)


@pytest.fixture(scope="module")
def local(index, models):
    return HybridRetriever(index, models)


@pytest.mark.parametrize("method", ["default", "convex", "rrf", "hybrid", "dense", "bm25", "class-integrated"])
def test_every_method_gives_the_hits_of_the_local_index(client, collection, local, method):
    QdrantIndex.upload(local.index, client, collection)
    there = HybridRetriever(QdrantIndex.connect(client, collection), local.models)
    for question in QUESTIONS:
        assert_same_hits(there.search(question, method=method), local.search(question, method=method))


def test_a_filter_holds_before_ranking(client, collection, local):
    there = HybridRetriever(QdrantIndex.upload(local.index, client, collection), local.models)
    for where in ({"$or": [{"page": {"$lt": 2}}, {"document": {"$exists": False}}]}, {"document": "nowhere"}):
        assert_same_hits(there.search(QUESTIONS[0], where=where), local.search(QUESTIONS[0], where=where))


def test_a_small_index_is_uploaded_too(client, collection, corpus, models):
    index = PassageIndex.build(corpus, passage_encoder=models.passage_encoder, small=True)
    there = HybridRetriever(QdrantIndex.upload(index, client, collection), models)
    assert_same_hits(there.search(QUESTIONS[0]), HybridRetriever(index, models).search(QUESTIONS[0]))


def test_a_collection_is_changed(client, collection, corpus, local, models):
    index = QdrantIndex.upload(local.index, client, collection)
    fewer = index.delete([passage.id for passage in corpus[:4]])
    rest = PassageIndex.build(corpus[4:], passage_encoder=models.passage_encoder)
    assert len(fewer) == len(rest)
    np.testing.assert_array_equal(fewer.statistics.table(), rest.statistics.table())
    changed = Passage(corpus[5].id, "A zebra walked past the lighthouse.")
    whole = fewer.add([*corpus[:5], changed], models=models)
    wanted = PassageIndex.build([*corpus[:5], changed, *corpus[6:]], passage_encoder=models.passage_encoder)
    again = QdrantIndex.connect(client, collection)
    for found in (whole, again, again.refresh_statistics()):
        assert len(found) == len(wanted)
        np.testing.assert_array_equal(found.statistics.table(), wanted.statistics.table())
    assert HybridRetriever(again, models).search("What did the zebra do?", k=1)[0].text == changed.text


def test_a_passage_without_any_term_is_kept(client, collection, models, corpus):
    index = PassageIndex.build([*corpus, Passage("marks", "?!? ... --")], passage_encoder=models.passage_encoder)
    found = QdrantIndex.upload(index, client, collection)
    there, here = (HybridRetriever(each, models) for each in (found, index))
    assert_same_hits(there.search(QUESTIONS[0], k=31), here.search(QUESTIONS[0], k=31))
    assert len(found.delete(["marks"])) == len(corpus)


def test_labels_of_heads_are_filtered_by(client, collection, corpus, models, tmp_path):
    texts = [f"{words} {place}" for words in ("a tower of stone", "a ferry at sea") for place in range(4)]
    TextClassifier(models.encoder).fit(texts, ["land"] * 4 + ["sea"] * 4).save(tmp_path / "topic")
    labelling = Models.load(encoder=models.encoder, heads={"topic": tmp_path / "topic"})
    index = PassageIndex.build(corpus, passage_encoder=labelling.passage_encoder)
    found = QdrantIndex.upload(index, client, collection)
    there, here = (HybridRetriever(each, labelling) for each in (found, index))
    options = {"where": {"topic": "sea"}, "boost": ["topic"]}
    assert_same_hits(there.search(QUESTIONS[1], **options), here.search(QUESTIONS[1], **options))
    with pytest.raises(InputError, match="built with heads"):
        found.add([Passage("ferry", "The ferry goes to the island.")], models=models)


def test_a_change_that_cannot_be_made_is_refused(client, collection, index, corpus):
    made = QdrantIndex.upload(index, client, collection)
    with pytest.raises(InputError, match="has no passage 'nowhere'"):
        made.delete(["lighthouse-1", "nowhere"])
    other = replace(Models.load(), passage_encoder=passage_encoder_of(FakeEncoder()))
    with pytest.raises(InputError, match="built with encoder"):
        made.add(corpus, models=other)
    with pytest.raises(InputError, match=r"already; name another, or set replace=True"):
        QdrantIndex.upload(index, client, collection)
    assert len(made.refresh_statistics()) == len(index)


def test_an_incomplete_or_damaged_collection_is_refused(client, collection, index, monkeypatch):
    with pytest.raises(ArtifactError, match="does not exist"):
        QdrantIndex.connect(client, collection)
    monkeypatch.setattr(qdrant, "BATCH", 11)
    sent = []

    def stop(count):
        sent.append(count)
        if len(sent) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        QdrantIndex.upload(index, client, collection, progress=stop)
    assert sent == [11, 11, 8]
    with pytest.raises(ArtifactError, match="contains no complete index"):
        QdrantIndex.connect(client, collection)
    record = QdrantIndex.upload(index, client, collection, replace=True).record()
    for change, message in (({"protocol": 99}, "protocol 99"), ({"frequencies": "AAAA"}, "is damaged")):
        client.update_collection(collection, metadata={"semclass": {**record, **change}})
        with pytest.raises(ArtifactError, match=message):
            QdrantIndex.connect(client, collection)


def test_settings_of_a_collection(local):
    client = qdrant_client.QdrantClient(":memory:")
    found = QdrantIndex.upload(local.index, client, "shelf", settings={"shard_number": 2, "on_disk_payload": True})
    assert HybridRetriever(found, local.models).search(QUESTIONS[0], k=1)[0].id == "lighthouse-3"


def test_a_server_that_is_not_there_is_an_error():
    client = qdrant_client.QdrantClient(url="http://127.0.0.1:9", timeout=2, check_compatibility=False)
    with pytest.raises(ArtifactError, match=r"http://127\.0\.0\.1:9 failed at .*timeout="):
        QdrantIndex.connect(client, "shelf")
    client.close()


def test_the_command_line_uploads_and_searches(monkeypatch, capsys, tmp_path, local):
    keys, server = [], qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(qdrant_client, "QdrantClient", lambda **options: keys.append(options) or server)
    monkeypatch.setenv("SEMCLASS_QDRANT_API_KEY", "secret")
    local.index.save(tmp_path / "index")
    upload = ["upload", str(tmp_path / "index"), "--url", "http://host:6333", "--collection", "shelf"]
    main.main(upload)
    assert "semclass search http://host:6333/shelf QUESTION" in capsys.readouterr().out
    main.main(["search", "http://host:6333/shelf", QUESTIONS[0], "-k", "2", "--json"])
    found = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["id"] for hit in found] == [hit.id for hit in local.search(QUESTIONS[0], k=2)]
    assert keys == [{"url": "http://host:6333", "api_key": "secret"}] * 2
    with pytest.raises(SystemExit):
        main.main(upload)
    assert "replace=True (--replace)" in capsys.readouterr().err
