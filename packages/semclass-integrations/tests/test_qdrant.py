"""One suite for every engine: what the embedded index answers, Qdrant must answer."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, replace

import numpy as np
import pytest
from world import BOOKS, FakeEncoder, passage_encoder_of

from semclass import (
    ArtifactError,
    HybridRetriever,
    InputError,
    Models,
    Passage,
    PassageIndex,
    QdrantIndex,
    QuestionClassifier,
    TextClassifier,
)
from semclass.cli import main
from semclass.index.records import Scoring
from semclass.index.writer import IndexWriter
from semclass.ranking.queries import read_questions
from semclass_integrations import qdrant_collection

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore:Local mode performs exact")]

SERVER = "SEMCLASS_QDRANT_URL"

QUESTIONS = ["Who designed the lighthouse?", "When was the museum opened?", "Why do ferries stay in port?", "?!?"]

METHODS = [
    {},
    {"method": "convex", "weights": {"alpha": 0.3}},
    {"method": "match-hard", "fusion": "convex", "weights": {"match_hard": 0.2}},
    {"method": "match-soft", "weights": {"match_soft": 0.7}},
    {"method": "match-hard", "weights": {"match_hard": 0.2}},
    {"method": "hybrid", "weights": {"bm25": 0.0}},
    {"method": "entail-integrated-hard"},
]


ENGINES = ["local", "edge", "rest", "server"]


@pytest.fixture(scope="module", params=ENGINES)
def client(request, tmp_path_factory):
    """A client of each engine that there is."""
    qdrant = pytest.importorskip("qdrant_client")
    if request.param == "local":
        yield qdrant.QdrantClient(":memory:")
    elif request.param == "edge":
        pytest.importorskip("qdrant_edge")
        from edge_client import EdgeClient

        yield EdgeClient(tmp_path_factory.mktemp("edge"))
    elif request.param == "rest":
        from qdrant_rest import served

        with served() as url:
            yield (client := qdrant.QdrantClient(url=url))
            client.close()
    elif SERVER in os.environ:
        yield qdrant.QdrantClient(url=os.environ[SERVER])
    else:
        pytest.skip(f"no server: name one with {SERVER}")


@pytest.fixture
def collection(client):
    """A name that no other test uses; what it names is removed."""
    name = f"semclass-test-{uuid.uuid4().hex[:12]}"
    yield name
    if client.collection_exists(name):
        client.delete_collection(name)


@pytest.fixture(scope="module")
def corpus(corpus):
    """The passages of the demonstration, with metadata to filter by; the last is without."""
    described = []
    for place, passage in enumerate(corpus[:-1]):
        document, seen = passage.id.partition("-")[0], f"2024-01-{place + 1:02}"
        described.append(replace(passage, metadata={"document": document, "page": place, "seen": seen}))
    return [*described, corpus[-1]]


@pytest.fixture(scope="module")
def index(models, corpus):
    return PassageIndex.build(corpus, passage_encoder=models.passage_encoder)


@pytest.fixture(scope="module")
def embedded(index, models):
    return HybridRetriever(index, models)


@pytest.fixture(scope="module")
def retriever(client, embedded):
    """The same passages on an engine."""
    QdrantIndex.upload(embedded.index, client, name := f"semclass-test-{uuid.uuid4().hex[:12]}")
    yield HybridRetriever(QdrantIndex.connect(client, name), embedded.models)
    client.delete_collection(name)


def assert_same_hits(found, wanted):
    assert [hit.id for hit in found] == [hit.id for hit in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-5)
        assert mine.components == pytest.approx(theirs.components, abs=1e-5)
        assert mine.probabilities == pytest.approx(theirs.probabilities, abs=1e-6)
        assert (mine.rank, mine.rank_before, mine.labels) == (theirs.rank, theirs.rank_before, theirs.labels)
        assert (mine.text, mine.metadata) == (theirs.text, theirs.metadata)


@pytest.mark.parametrize("how", METHODS, ids=str)
def test_every_method_gives_the_hits_of_the_embedded_index(retriever, embedded, how):
    for question in QUESTIONS:
        assert_same_hits(retriever.search(question, **how), embedded.search(question, **how))


def test_passages_come_with_the_scores(retriever):
    (query,) = retriever.encode(QUESTIONS[:1])
    found = retriever.candidates(query, 3)
    assert tuple(retriever.index.passages(found.rows)) == found.passages
    with pytest.raises(InputError, match="has no point 5"):
        retriever.index.passages(np.array([5]))


def test_few_candidates_of_each_route_are_scored_by_every_route(retriever, embedded):
    shallow = replace(retriever, index=replace(retriever.index, depth=1))
    for question in QUESTIONS[:3]:
        found, wanted = shallow.search(question, k=2, method="convex"), embedded.search(question, k=30, method="convex")
        scores = {hit.id: hit.components for hit in wanted}
        for hit in found:
            assert hit.components == pytest.approx(scores[hit.id], abs=1e-5)


@pytest.mark.parametrize(
    "where",
    [
        {"_id": {"$in": ["museum-1", "museum-2", "ferry-4"]}},
        {"page": {"$gte": 3, "$lt": 9}},
        {"document": "museum", "page": {"$ne": 2}},
        {"$or": [{"seen": {"$lt": "2024-01-12"}}, {"document": {"$exists": False}}]},
        {"document": "nowhere"},
    ],
    ids=str,
)
@pytest.mark.parametrize("how", [{"method": "match-soft", "candidates": 3}, {"method": "learned"}], ids=str)
def test_a_filter_holds_before_ranking(retriever, embedded, where, how):
    found = retriever.search(QUESTIONS[0], where=where, **how)
    assert_same_hits(found, embedded.search(QUESTIONS[0], where=where, **how))


@pytest.mark.parametrize(("small", "codes"), [(True, True), (False, False)])
def test_a_small_index_and_one_without_codes(client, collection, corpus, models, small, codes):
    index = PassageIndex.build(corpus, passage_encoder=models.passage_encoder, small=small)
    found = HybridRetriever(QdrantIndex.upload(index, client, collection, codes=codes), models)
    assert found.index.small == (small or not codes)
    if codes:
        assert_same_hits(found.search(QUESTIONS[0]), HybridRetriever(index, models).search(QUESTIONS[0]))
    assert found.search(QUESTIONS[0])[0].id == "lighthouse-3"


@dataclass(frozen=True)
class LongVectors(FakeEncoder):
    """Vectors of other lengths than 1."""

    def encode(self, texts, *, views=("pooled",)):
        found = super().encode(texts, views=views)
        lengths = np.array([1 + len(text) % 5 for text in texts], np.float32)
        return replace(found, pooled=found.pooled * lengths[:, None])


@pytest.mark.parametrize("small", [True, False])
def test_encoders_without_heads(client, collection, corpus, small):
    encoder = LongVectors()
    passage_encoder = passage_encoder_of(encoder)
    index = PassageIndex.build(corpus, passage_encoder=passage_encoder, small=small)
    bare = Models(QuestionClassifier(encoder, None), passage_encoder, None)
    QdrantIndex.upload(index, client, collection)
    found = HybridRetriever(QdrantIndex.connect(client, collection), bare)
    for question in QUESTIONS:
        assert_same_hits(
            found.search(question, method="convex"), HybridRetriever(index, bare).search(question, method="convex")
        )


@pytest.mark.parametrize(("books", "small"), [(BOOKS, False), (None, False), (BOOKS, True)])
def test_candidates_come_with_the_evidence_of_the_embedded_index(client, collection, corpus, books, small):
    passage_encoder = passage_encoder_of(FakeEncoder(provided=8), books)
    index = PassageIndex.build(corpus, passage_encoder=passage_encoder, small=small)
    QdrantIndex.upload(index, client, collection)
    (query,) = read_questions(passage_encoder.encoder, None, QUESTIONS[:1])
    found, wanted = (
        each.candidates(query, 5, Scoring(0.1), passage_encoder=passage_encoder).evidence
        for each in (QdrantIndex.connect(client, collection), index)
    )
    assert found.provides.lengths().tolist() == found.sentences.lengths().tolist()
    for name in ("tokens", "sentences", "provides", "pieces"):
        mine, theirs = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(mine.values, theirs.values, atol=1e-6)
        assert mine.offsets.tolist() == theirs.offsets.tolist()


def test_a_collection_lives(client, collection, corpus, index, models):
    made = QdrantIndex.upload(index, client, collection)
    gone = [passage.id for passage in corpus[:4]]
    fewer = made.delete(gone)
    rest = PassageIndex.build(corpus[4:], passage_encoder=models.passage_encoder)
    assert len(fewer) == len(rest)
    np.testing.assert_array_equal(fewer.idf, rest.idf)
    assert not {hit.id for hit in HybridRetriever(fewer, models).search(QUESTIONS[0], k=30)} & set(gone)
    # what is there already is replaced, and counted once
    whole = fewer.add(corpus[:6], passage_encoder=models.passage_encoder)
    assert_same_hits(
        HybridRetriever(whole, models).search(QUESTIONS[0]), HybridRetriever(index, models).search(QUESTIONS[0])
    )
    again = QdrantIndex.connect(client, collection)
    assert len(again) == len(index)
    np.testing.assert_array_equal(again.idf, index.idf)


def test_an_update_counts_the_new_text_and_not_the_old(client, collection, corpus, index, models):
    changed = Passage(corpus[0].id, "A zebra walked past the lighthouse.", corpus[0].metadata)
    found = QdrantIndex.upload(index, client, collection).add([changed], passage_encoder=models.passage_encoder)
    np.testing.assert_array_equal(
        found.idf, PassageIndex.build([changed, *corpus[1:]], passage_encoder=models.passage_encoder).idf
    )
    assert HybridRetriever(found, models).search("What did the zebra do?", k=1)[0].text == changed.text


def test_changes_through_one_object_are_all_counted(client, collection, corpus, index, models):
    made = QdrantIndex.upload(index, client, collection)
    more = [Passage(name, f"The {name} lighthouse has a zebra.") for name in ("red", "blue")]
    for passage in more:
        made.add([passage], passage_encoder=models.passage_encoder)
    found = made.delete([corpus[0].id])
    wanted = PassageIndex.build([*corpus[1:], *more], passage_encoder=models.passage_encoder)
    assert len(found) == len(wanted)
    np.testing.assert_array_equal(found.idf, wanted.idf)


def test_an_index_of_several_segments_is_uploaded_without_what_was_removed(client, collection, tmp_path, index, models):
    index.save(tmp_path / "index")
    with IndexWriter.open(tmp_path / "index", passage_encoder=models.passage_encoder) as writer:
        writer.delete(["lighthouse-3", "ferry-4"])
        writer.add([Passage("more", "Ada designed another lighthouse, of iron.", {"page": 99})])
    living = PassageIndex.load(tmp_path / "index")
    assert len(living.segments) == 2
    found = QdrantIndex.upload(living, client, collection)
    assert len(found) == len(living) == 29
    for question in QUESTIONS:
        wanted = HybridRetriever(living, models).search(question, k=30)
        assert_same_hits(HybridRetriever(found, models).search(question, k=30), wanted)


def test_labels_of_heads_are_payload(client, collection, corpus, models, tmp_path):
    texts = [f"{words} {place}" for words in ("a tower of stone", "a ferry at sea") for place in range(4)]
    for name, labels in {"topic": ["land"] * 4 + ["sea"] * 4, "other": ["land", "sea"] * 4}.items():
        TextClassifier(models.encoder, views=("pooled",), kind="logistic").fit(texts, labels).save(tmp_path / name)
    labelling = Models.load(encoder=models.encoder, heads={"topic": tmp_path / "topic"})
    index = PassageIndex.build(corpus, passage_encoder=labelling.passage_encoder)
    QdrantIndex.upload(index, client, collection)
    found = QdrantIndex.connect(client, collection)
    assert found.heads == index.heads
    here, there = (HybridRetriever(each, labelling) for each in (index, found))
    for options in ({"where": {"topic": "sea"}}, {"boost": ["topic"]}):
        assert_same_hits(there.search(QUESTIONS[1], **options), here.search(QUESTIONS[1], **options))
    more = [Passage("ferry", "The ferry goes to the island.")]
    for heads in ({}, {"topic": tmp_path / "other"}):
        with pytest.raises(InputError, match="--head topic=DIR"):
            found.add(more, passage_encoder=Models.load(encoder=models.encoder, heads=heads).passage_encoder)
    grown = HybridRetriever(found.add(more, passage_encoder=labelling.passage_encoder), labelling)
    assert grown.search("the ferry to the island", 1, where={"topic": "sea"})[0].id == "ferry"


def test_statistics_are_counted_anew(client, collection, index):
    made = QdrantIndex.upload(index, client, collection)
    frequencies = np.ones_like(made.statistics.document_frequencies)
    wrong = replace(made, statistics=replace(made.statistics, passages=5, document_frequencies=frequencies))
    found = wrong.refresh_statistics()
    assert len(found) == len(index)
    np.testing.assert_array_equal(found.idf, index.idf)
    np.testing.assert_array_equal(QdrantIndex.connect(client, collection).idf, index.idf)


def test_a_passage_without_any_term_is_kept(client, collection, models, corpus):
    index = PassageIndex.build([*corpus, Passage("marks", "?!? ... --")], passage_encoder=models.passage_encoder)
    found = QdrantIndex.upload(index, client, collection)
    assert_same_hits(
        HybridRetriever(found, models).search(QUESTIONS[0], k=31),
        HybridRetriever(index, models).search(QUESTIONS[0], k=31),
    )
    assert len(found.delete(["marks"])) == len(corpus)


def test_what_is_deleted_must_be_there(client, collection, index):
    made = QdrantIndex.upload(index, client, collection)
    with pytest.raises(InputError, match="has no passage 'nowhere'"):
        made.delete(["lighthouse-1", "nowhere"])
    with pytest.raises(InputError, match="comes twice"):
        made.delete(["lighthouse-1", "lighthouse-1"])
    assert len(made.refresh_statistics()) == len(index)


def test_a_reader_of_other_models_is_refused(client, collection, index, corpus, fake_encoder):
    made = QdrantIndex.upload(index, client, collection)
    with pytest.raises(InputError, match="another encoder"):
        made.add(corpus, passage_encoder=passage_encoder_of(fake_encoder))


def test_upload_says_how_far_it_is_and_spares_what_is_there(client, collection, index, monkeypatch):
    monkeypatch.setattr(qdrant_collection, "BATCH", 11)
    done = []
    QdrantIndex.upload(index, client, collection, progress=done.append)
    assert done == [11, 11, 8]
    with pytest.raises(InputError, match=r"already; name another, or set replace=True"):
        QdrantIndex.upload(index, client, collection)
    assert len(QdrantIndex.upload(index, client, collection, replace=True)) == len(index)


def test_what_is_no_complete_index_is_refused(client, collection, index):
    with pytest.raises(ArtifactError, match="does not exist"):
        QdrantIndex.connect(client, collection)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        QdrantIndex.upload(index, client, collection, progress=stop)
    with pytest.raises(ArtifactError, match="holds no complete index"):
        QdrantIndex.connect(client, collection)
    made = QdrantIndex.upload(index, client, collection, replace=True)
    record = client.get_collection(collection).config.metadata["semclass"]
    for change, says in (
        ({"protocol": 99}, "has protocol 99"),
        ({"kind": "cake"}, "'cake'"),
        ({"frequencies": "AAAA"}, "collection .* is damaged"),
    ):
        client.update_collection(collection, metadata={"semclass": {**record, **change}})
        with pytest.raises(ArtifactError, match=says):
            QdrantIndex.connect(client, collection)
    made._described(made.statistics)
    assert len(QdrantIndex.connect(client, collection)) == len(index)


def test_settings_are_the_collections_own_and_options_go_with_an_address(index, models):
    client = pytest.importorskip("qdrant_client").QdrantClient(":memory:")
    settings = {"shard_number": 2, "replication_factor": 2, "on_disk_payload": True}
    found = QdrantIndex.upload(index, client, "shelf", settings=settings)
    assert HybridRetriever(found, models).search(QUESTIONS[0], k=1)[0].id == "lighthouse-3"
    with pytest.raises(InputError, match="api_key needs the address of a server"):
        QdrantIndex.connect(client, "shelf", api_key="secret")


def test_a_server_that_goes_away_is_an_error(index, models):
    qdrant = pytest.importorskip("qdrant_client")
    from qdrant_rest import served

    with served() as url:
        client = qdrant.QdrantClient(url=url, timeout=2, check_compatibility=False)
        made = QdrantIndex.upload(index, client, "shelf")
    for request in (lambda: HybridRetriever(made, models).search(QUESTIONS[0]), made.refresh_statistics):
        with pytest.raises(ArtifactError, match=f"{url} failed at .*timeout="):
            request()
    client.close()


def test_the_command_line_uploads_and_searches(monkeypatch, capsys, tmp_path, index, embedded):
    qdrant = pytest.importorskip("qdrant_client")
    keys = []
    server = qdrant.QdrantClient(":memory:")

    def connect(*, url, api_key):
        keys.append((url, api_key))
        return server

    monkeypatch.setattr(qdrant, "QdrantClient", connect)
    monkeypatch.setenv("SEMCLASS_QDRANT_API_KEY", "secret")
    index.save(tmp_path / "index")
    main.main(["index", "upload", str(tmp_path / "index"), "--url", "http://host:6333", "--collection", "shelf"])
    assert "semclass search http://host:6333/shelf QUESTION" in capsys.readouterr().out
    main.main(["search", "http://host:6333/shelf", QUESTIONS[0], "-k", "2", "--json"])
    found = json.loads(capsys.readouterr().out)["hits"]
    assert [hit["id"] for hit in found] == [hit.id for hit in embedded.search(QUESTIONS[0], k=2)]
    assert keys == [("http://host:6333", "secret")] * 2
    with pytest.raises(SystemExit):
        main.main(["index", "upload", str(tmp_path / "index"), "--url", "http://host:6333", "--collection", "shelf"])
    assert "replace=True (--replace)" in capsys.readouterr().err
