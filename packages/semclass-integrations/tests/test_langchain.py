"""LangChain: its own standard tests for retrievers, its compositors around ours, and what a chain may do to them."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from pathlib import Path

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed (extra langchain)")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.load import dumps, loads
from langchain_core.runnables import (
    ConfigurableField,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_tests.integration_tests import RetrieversIntegrationTests
from scripts import EXAMPLES, run_python
from world import MODELS

from semclass import (
    HybridRetriever,
    InputError,
    InputTypeError,
    PassageIndex,
    Reranker,
    TextClassifier,
    TextModel,
)
from semclass_integrations.langchain import SemclassCompressor, SemclassRetriever, to_passages
from semclass_integrations.langchain_router import SemclassRouter

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

QUESTION = "Who designed the lighthouse?"
HEIGHT = "How high is the tower?"


@pytest.fixture(scope="module")
def found(models, corpus) -> HybridRetriever:
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("langchain") / "index"
    found.index.save(path)
    return path


@pytest.fixture
def retriever(found) -> SemclassRetriever:
    return SemclassRetriever(retriever=found, k=3)


@pytest.fixture
def compressor(models) -> SemclassCompressor:
    return SemclassCompressor(reranker=Reranker(models))


@pytest.fixture
def router(models) -> SemclassRouter:
    return SemclassRouter(
        classifier=models.questions, routes={"NUM": lambda _: "a number", "HUM": lambda _: "a person"}
    )


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - written a moment ago


class Recorder(BaseCallbackHandler):
    """Remembers the retriever runs that it was told of."""

    def __init__(self):
        self.started, self.ended, self.failed = [], [], []

    def on_retriever_start(self, serialized, query, *, tags=None, metadata=None, **kwargs):
        self.started.append((query, tags, metadata))

    def on_retriever_end(self, documents, **kwargs):
        self.ended.append(ids(documents))

    def on_retriever_error(self, error, **kwargs):
        self.failed.append(error)


@pytest.mark.anyio
class TestStandard(RetrieversIntegrationTests):
    """Those for retrievers. Those for vector stores ask for an Embeddings object and for a store that is written to
    through it; what is found here is not found by vectors alone, and change_index is what writes."""

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture(autouse=True)
    def _folder(self, folder):
        type(self).folder = folder

    @property
    def retriever_constructor(self):
        return SemclassRetriever

    @property
    def retriever_constructor_params(self):
        return {"index": self.folder, "models": MODELS}

    @property
    def retriever_query_example(self):
        return QUESTION


def test_options_of_a_search_come_with_the_retriever_or_with_a_call(found):
    retriever = SemclassRetriever(retriever=found, k=30, search_kwargs={"method": "convex"})
    assert ids(retriever.invoke(QUESTION)) == [hit.id for hit in found.search(QUESTION, 30, method="convex")]
    assert ids(retriever.invoke(QUESTION, method="learned", k=2)) == [
        hit.id for hit in found.search(QUESTION, 2, method="learned", fusion="convex", candidates=50)
    ]
    only = retriever.invoke(QUESTION, where={"_id": {"$in": ["ferry-1", "kelp-2"]}})
    assert sorted(ids(only)) == ["ferry-1", "kelp-2"]
    bound = retriever.bind(k=1, where={"_id": "ferry-1"})
    assert ids(bound.invoke(QUESTION)) == ["ferry-1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kk": 3}, "invoke has 'kk'; allowed are method, fusion"),
        ({"k": 0}, "k is 0; it must be at least 1"),
        ({"method": "best"}, "method is 'best'"),
        ({"where": {"page": {"$near": 1}}}, "near"),
    ],
)
def test_an_option_that_is_not_there_is_refused_in_a_call(retriever, options, message):
    with pytest.raises(InputError, match=message):
        retriever.invoke(QUESTION, **options)


def test_what_a_retriever_is_made_of_is_checked(found, folder):
    for both_or_none in ({}, {"index": folder, "retriever": found}):
        with pytest.raises(ValueError, match="give either index"):
            SemclassRetriever(**both_or_none)
    with pytest.raises(ValueError, match="search_kwargs has 'k'"):
        SemclassRetriever(retriever=found, search_kwargs={"k": 3})
    with pytest.raises(InputTypeError, match=r"retriever must be a semclass\.HybridRetriever, not 'index'"):
        SemclassRetriever(retriever="index")


def test_a_batch_encodes_its_questions_together_and_gives_what_single_calls_give(retriever, monkeypatch):
    questions, sizes = [QUESTION, HEIGHT, QUESTION, "Wo steht der Leuchtturm?"], []
    real = HybridRetriever.search_many
    singly = [retriever.invoke(question, k=2) for question in questions]

    def counted(self, texts, *given, **options):
        sizes.append(len(texts))
        return real(self, texts, *given, **options)

    monkeypatch.setattr(HybridRetriever, "search_many", counted)
    for mine, theirs in zip(retriever.batch(questions, k=2), singly, strict=True):
        assert ids(mine) == ids(theirs)
        # what is encoded together differs in the last bits from what is encoded alone
        scores = [document.metadata["relevance_score"] for document in theirs]
        assert [document.metadata["relevance_score"] for document in mine] == pytest.approx(scores, abs=1e-5)
    assert sizes == [4]
    assert retriever.batch([]) == []


def test_a_question_that_is_refused_leaves_the_others_of_its_batch(retriever):
    recorder = Recorder()
    config = {"callbacks": [recorder], "tags": ["mine"], "metadata": {"owner": "museum"}}
    good, bad = retriever.batch([QUESTION, " "], config, return_exceptions=True)
    assert good == retriever.invoke(QUESTION)
    assert isinstance(bad, InputError)
    assert sorted(query for query, _, _ in recorder.started) == sorted([QUESTION, " "])
    assert all("mine" in tags and metadata["owner"] == "museum" for _, tags, metadata in recorder.started)
    assert [str(error) for error in recorder.failed] == [str(bad)]
    assert recorder.ended == [ids(good)]
    with pytest.raises(InputError, match="empty"):
        asyncio.run(retriever.abatch([QUESTION, " "]))


def test_a_retriever_of_a_folder_travels_as_json_and_as_a_pickle(folder):
    kept = SemclassRetriever(index=folder, models=MODELS, k=2, search_kwargs={"where": {"_id": "ferry-1"}}, tags=["x"])
    text = dumps(kept)
    assert "loaded" not in text
    allowed = {"allowed_objects": [SemclassRetriever], "valid_namespaces": ["semclass"]}
    for again in (loads(text, **allowed), pickled(kept), kept.model_copy(), copy.deepcopy(kept)):
        assert again == kept
        assert ids(again.invoke(QUESTION)) == ["ferry-1"]
    assert len(pickle.dumps(kept)) < 10_000  # without the models that it has loaded by now


def test_a_loaded_retriever_is_not_written_as_if_it_could_be_read_again(retriever):
    assert json.loads(dumps(retriever))["type"] == "not_implemented"


def test_documents_may_lack_ids_and_share_ids_and_texts(compressor):
    given = [
        Document("Ada designed the lighthouse.", metadata={"n": 1}),
        Document("Ada designed the lighthouse.", metadata={"n": 2}),
        Document("Kelp is a seaweed.", id="same"),
        Document("Puffins dig.", id="same"),
    ]
    best = compressor.model_copy(update={"top_n": None}).compress_documents(given, QUESTION)
    assert [document.metadata.get("n") for document in best[:2]] == [1, 2]  # ties keep their order
    assert [document.id for document in best[:2]] == [None, None]
    assert sorted(document.page_content for document in best) == sorted(item.page_content for item in given)


def test_a_question_goes_where_its_answer_type_sends_it(router):
    assert router.invoke(HEIGHT) == "a number"
    assert router.invoke({"question": QUESTION, "other": 1}) == "a person"
    assert asyncio.run(router.ainvoke(HEIGHT)) == "a number"
    assert router.batch([HEIGHT, QUESTION]) == ["a number", "a person"]
    assert asyncio.run(router.abatch([HEIGHT, QUESTION])) == ["a number", "a person"]
    assert list(router.stream(QUESTION)) == ["a person"]
    dates = {"routes": {**router.routes, "NUM:date": RunnableLambda(lambda _: "a date")}}
    assert router.model_copy(update=dates).batch(["When was it opened?", HEIGHT]) == ["a date", "a number"]


def test_other_questions_go_to_the_default_or_are_refused(router):
    unsure = router.model_copy(update={"min_probability": 1.0})
    default = {"default": RunnableLambda(lambda _: "unsure")}
    assert router.model_copy(update=default).invoke("Where is the museum?") == "unsure"
    assert unsure.model_copy(update=default).invoke(HEIGHT) == "unsure"
    with pytest.raises(InputError, match=r"asks for LOC .* no route; the routes are 'NUM', 'HUM'; give a default"):
        router.invoke("Where is the museum?")
    with pytest.raises(InputError, match=r"asks for NUM \(0\..*\), which is below min_probability; give a default"):
        unsure.invoke(HEIGHT)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"text": HEIGHT}, InputError, "the input has no key 'question', only 'text'"),
        ([HEIGHT], InputTypeError, "question must be a string, not list"),
        ("", InputError, "empty"),
    ],
)
def test_an_input_without_a_question_is_refused(router, value, error, message):
    with pytest.raises(error, match=message):
        router.invoke(value)


def test_a_route_of_an_unknown_class_is_refused(models):
    with pytest.raises(InputError, match=r"routes has the unknown class 'NUMBER'; .* ABBR"):
        SemclassRouter(classifier=models.questions, routes={"NUMBER": lambda _: 1}).invoke(HEIGHT)


def test_labels_of_ones_own_choose_routes(encoder, tmp_path):
    asked = ["Can I renew my card?", "When do you open?", "Where can I print?", "Is there a reading room?"]
    chatted = ["Hello there!", "You are funny.", "Good night.", "How are you today?"]
    own = TextClassifier(encoder, min_probability=0.6).fit(asked + chatted, ["library"] * 4 + ["chat"] * 4)
    own.save(tmp_path / "head")
    routes = {"library": lambda question: f"library: {question}", "chat": lambda _: "hello"}
    router = SemclassRouter(routes=routes, model=tmp_path / "head", default=lambda _: "unsure")
    assert router.invoke("When can I renew it?") == "library: When can I renew it?"
    assert router.invoke("Good night, dear!") == "hello"
    assert router.model_copy(update={"min_probability": 1.0}).invoke("Good night, dear!") == "unsure"
    loaded = TextModel.load(tmp_path / "head", encoder=encoder)
    assert SemclassRouter(routes=routes, classifier=loaded).invoke("Good night, dear!") == "hello"
    with pytest.raises(InputError, match=r"unknown class 'NUM'; .* chat, library"):
        SemclassRouter(routes={"NUM": lambda _: 1}, model=tmp_path / "head").invoke("Who?")


def test_a_run_of_a_route_tells_its_class_and_gets_the_options_of_the_call(models, retriever):
    router = SemclassRouter(classifier=models.questions, routes={"HUM": retriever}, default=lambda value: value)
    recorder = Recorder()
    assert len(router.invoke(QUESTION, {"callbacks": [recorder]}, k=2)) == 2
    ((_, tags, metadata),) = recorder.started
    assert "route:HUM" in tags
    assert metadata["semclass_label"] == "HUM"
    assert 0.5 < metadata["semclass_probability"] <= 1
    given = {"text": HEIGHT, "user": 1}
    assert router.model_copy(update={"input_key": "text"}).invoke(given) == given


def test_what_a_route_streams_comes_through_in_pieces(models):
    def words(_):
        yield from ["one ", "two"]

    async def awords(_):
        for word in ["one ", "two"]:
            yield word

    router = SemclassRouter(classifier=models.questions, routes={"HUM": RunnableGenerator(words, awords)})

    async def streamed():
        return [piece async for piece in router.astream(QUESTION)]

    assert list(router.stream(QUESTION)) == ["one ", "two"]
    assert asyncio.run(streamed()) == ["one ", "two"]
    assert (RunnablePassthrough() | router).invoke(QUESTION) == "one two"


def test_what_can_be_configured_in_a_route_can_be_configured_through_the_router(models, retriever):
    route = retriever.configurable_fields(k=ConfigurableField(id="k"))
    router = SemclassRouter(classifier=models.questions, routes={"HUM": route})
    assert [spec.id for spec in router.config_specs] == ["k"]
    assert len(router.invoke(QUESTION, {"configurable": {"k": 5}})) == 5


def test_a_router_of_paths_travels_as_json_with_its_routes(folder):
    router = SemclassRouter(models=MODELS, routes={"HUM": SemclassRetriever(index=folder, models=MODELS, k=1)})
    allowed = {"allowed_objects": [SemclassRetriever, SemclassRouter], "valid_namespaces": ["semclass"]}
    again = loads(dumps(router), **allowed)
    assert again == router
    assert ids(again.invoke(QUESTION)) == ["lighthouse-3"]


def test_documents_without_ids_get_the_same_ones_each_time():
    given = [
        Document("a", metadata={"n": 1}),
        Document("a", metadata={"n": 1}),
        Document("a", id="mine"),
        Document("ä"),
    ]
    first, second, third, fourth = names = [passage.id for passage in to_passages(given)]
    assert names == [passage.id for passage in to_passages(given)]
    assert (second, third) == (f"{first}-2", "mine")
    assert len({first, second, third, fourth}) == 4


def test_the_example_runs_from_documents_to_sources():
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    done = run_python(EXAMPLES / "langchain_rag.py")
    assert done.returncode == 0, done.stderr
    steps = ["Contextual chunks", "Query rewriting", "Sub-questions", "HyDE", "Retrieved", "Re-ranked", "Context of"]
    places = [done.stdout.index(f"\n{step}") for step in steps]
    assert places == sorted(places)
    answer = done.stdout.partition("\nAnswer:")[2]
    assert "Ada Merriweather designed the tower. [" in answer
    assert "41 metres" in done.stdout.partition("\nContext of")[2]
    assert "lighthouse.md, History" in answer.partition("\nSources:")[2]
