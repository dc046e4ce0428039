"""What the adapters for LangChain, LlamaIndex and Haystack promise alike: one suite, run through a small driver of each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts import TEXTS, WHEN, save_index
from stub_endpoint import FILTERED, stub_endpoint
from world import MODELS

from semclass import HybridRetriever, Passage, PassageIndex, Reranker, build_context
from semclass_integrations import shared
from semclass_llm.rewriting.retriever import search_rewritten
from semclass_llm.rewriting.transform import RewriteWarning, Rewritten

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]


class LangChain:
    """Scores stand in the metadata, and documents without text are left out."""

    package, silent = "langchain_core", "left out"

    def __init__(self):
        from langchain_core.documents import Document
        from langchain_core.load import dumps, loads

        from semclass_integrations import langchain as module

        self.module, self.Document = module, Document
        self.dumps, self.loads = dumps, loads

    def document(self, name, text, metadata):
        return self.Document(id=name, page_content=text, metadata=metadata)

    def read(self, found):
        score = found.metadata.get("relevance_score")
        metadata = {key: value for key, value in found.metadata.items() if key != "relevance_score"}
        return SimpleNamespace(id=found.id, text=found.page_content, metadata=metadata, score=score)

    def models(self, k=10, threshold=None, details=False, models=MODELS, **method):
        return self.module.SemclassCompressor(
            models=models, top_n=k, score_threshold=threshold, details=details, rerank_kwargs=method
        )

    def rank(self, models, question, documents):
        return models.compress_documents(documents, question)

    async def arank(self, models, question, documents):
        return await models.acompress_documents(documents, question)

    def retriever(self, index, k=10, details=False, where=None, **method):
        options = {**method, **({} if where is None else {"where": {"page": {"$gte": where}}})}
        return self.module.SemclassRetriever(index=index, models=MODELS, k=k, details=details, search_kwargs=options)

    def rewriting(self, index, **fields):
        return self.retriever(index, rewrite=shared.load_rewriter(fields))

    def search(self, retriever, question, **said):
        return retriever.invoke(question, **said)

    async def asearch(self, retriever, question):
        return await retriever.ainvoke(question)

    def save_and_load(self, made):
        if isinstance(made, self.module.SemclassCompressor):  # LangChain writes no compressors as JSON
            return type(made)(**json.loads(made.model_dump_json()))
        return self.loads(self.dumps(made), allowed_objects=[type(made)], valid_namespaces=["semclass"])


class LlamaIndex:
    """Nodes are wrapped with their scores."""

    package, silent = "llama_index.core", "last"

    def __init__(self):
        from llama_index.core.schema import NodeWithScore, TextNode
        from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

        from semclass_integrations import llama_index as module

        self.module = module
        self.NodeWithScore, self.TextNode = NodeWithScore, TextNode
        self.Filter, self.Filters = MetadataFilter, MetadataFilters

    def document(self, name, text, metadata):
        hidden = list(metadata)
        return self.NodeWithScore(
            node=self.TextNode(id_=name, text=text, metadata=metadata, excluded_embed_metadata_keys=hidden)
        )

    def read(self, found):
        return SimpleNamespace(id=found.node_id, text=found.text, metadata=found.metadata, score=found.score)

    def models(self, k=10, threshold=None, details=False, models=MODELS, **method):
        return self.module.SemclassRerank(
            models=str(models), top_n=k, score_threshold=threshold, details=details, options=method
        )

    def rank(self, models, question, documents):
        return models.postprocess_nodes(documents, query_str=question)

    async def arank(self, models, question, documents):
        return await models.apostprocess_nodes(documents, query_str=question)

    def retriever(self, index, k=10, details=False, where=None, **method):
        filters = None
        if where is not None:
            filters = self.Filters(filters=[self.Filter(key="page", value=where, operator=">=")])
        opened = shared.load_retriever(index, str(MODELS), None, 1)
        return self.module.SemclassRetriever(opened, similarity_top_k=k, details=details, filters=filters, **method)

    def rewriting(self, index, **fields):
        self.history = []  # read when a question comes
        return self.retriever(index, rewrite=shared.load_rewriter(fields), history=self.history)

    def search(self, retriever, question, history=()):
        if history:
            self.history[:] = history
        return retriever.retrieve(question)

    async def asearch(self, retriever, question):
        return await retriever.aretrieve(question)

    def save_and_load(self, made):
        # a retriever of LlamaIndex is not written
        return type(made).from_json(made.to_json()) if hasattr(made, "to_json") else made


class Haystack:
    """Components are saved as dictionaries."""

    package, silent = "haystack", "last"

    def __init__(self):
        os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
        from haystack import Document

        from semclass_integrations import haystack as module

        self.module, self.Document = module, Document

    def document(self, name, text, metadata):
        return self.Document(id=name, content=text, meta=metadata)

    def read(self, found):
        return SimpleNamespace(id=found.id, text=found.content, metadata=found.meta, score=found.score)

    def models(self, k=10, threshold=None, details=False, models=MODELS, **method):
        return self.module.SemclassRanker(models, top_k=k, score_threshold=threshold, details=details, **method)

    def rank(self, models, question, documents):
        return models.run(question, documents)["documents"]

    async def arank(self, models, question, documents):
        return (await models.run_async(question, documents))["documents"]

    def retriever(self, index, k=10, details=False, where=None, **method):
        filters = None if where is None else {"field": "meta.page", "operator": ">=", "value": where}
        return self.module.SemclassRetriever(index, models=MODELS, top_k=k, details=details, filters=filters, **method)

    def rewriting(self, index, **fields):
        return self.save_and_load(self.retriever(index, rewrite=fields))

    def search(self, retriever, question, **said):
        return retriever.run(question, **said)["documents"]

    async def asearch(self, retriever, question):
        return (await retriever.run_async(question))["documents"]

    def save_and_load(self, made):
        return type(made).from_dict(json.loads(json.dumps(made.to_dict())))


@pytest.fixture(scope="module", params=[LangChain, LlamaIndex, Haystack], ids=lambda driver: driver.__name__)
def adapter(request):
    pytest.importorskip(request.param.package)
    return request.param()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models) -> str:
    """A saved index of the three texts."""
    return save_index(tmp_path_factory.mktemp("contract") / "index", models)


@pytest.fixture(scope="module", autouse=True)
def held(adapter):
    """The encoder, which is loaded once for all tests of an adapter while somebody holds it."""
    return shared.load_encoder(str(MODELS), None, 1)


@pytest.fixture
def documents(adapter):
    return [adapter.document(name, text, {"page": page}) for page, (name, text) in enumerate(TEXTS.items())]


def scored(adapter, found):
    return [(item.id, item.score) for item in map(adapter.read, found)]


@pytest.mark.parametrize(
    "method", [{}, {"method": "entail-stable"}, {"method": "default"}, {"method": "class-integrated"}], ids=str
)
def test_order_and_scores_are_those_of_the_reranker(adapter, documents, models, method):
    hits = Reranker(models).rerank(WHEN, [Passage(*item) for item in TEXTS.items()], **method)
    found = adapter.rank(adapter.models(**method), WHEN, documents)
    assert scored(adapter, found) == [(hit.id, hit.score) for hit in hits]
    assert found[0].__class__ is documents[0].__class__


def test_copies_keep_what_they_had_and_originals_do_not_change(adapter, documents):
    before = deepcopy(documents)
    found = [adapter.read(item) for item in adapter.rank(adapter.models(details=True), WHEN, documents)]
    assert {item.id: (item.text, item.metadata["page"]) for item in found} == {
        name: (text, page) for page, (name, text) in enumerate(TEXTS.items())
    }
    found[0].metadata["page"] = 99
    assert documents == before


def test_k_and_threshold(adapter, documents):
    models = partial(adapter.models, method="learned")  # its scores are the probabilities that a threshold is of
    assert adapter.rank(models(), WHEN, []) == []
    every = scored(adapter, adapter.rank(models(), WHEN, documents))
    assert scored(adapter, adapter.rank(models(k=2), WHEN, documents)) == every[:2]
    assert scored(adapter, adapter.rank(models(threshold=every[1][1]), WHEN, documents)) == every[:2]
    assert adapter.rank(models(threshold=1.1), WHEN, documents) == []


def test_documents_without_text_have_no_score(adapter, documents):
    blank = [adapter.document("none", "", {}), adapter.document("blank", " \n", {})]
    found = scored(adapter, adapter.rank(adapter.models(), WHEN, [*blank, *documents]))
    assert found[3:] == ([("none", None), ("blank", None)] if adapter.silent == "last" else [])
    assert len(adapter.rank(adapter.models(threshold=0.0), WHEN, [*blank, *documents])) == 3
    assert len(adapter.rank(adapter.models(), WHEN, blank)) == (2 if adapter.silent == "last" else 0)


def test_details_say_how_a_document_came_to_its_place(adapter, documents):
    found = adapter.rank(adapter.models(details=True, method="class-integrated"), WHEN, documents)
    best = adapter.read(found[0])
    details = best.metadata["semclass"]
    assert set(details) == {
        "rank",
        "rank_before",
        "labels",
        "probabilities",
        "components",
        "query_used",
    }
    assert (details["rank"], details["rank_before"]) == (1, 2)
    assert "NUM" in details["labels"]
    assert json.loads(json.dumps(details)) == details
    (first, *_) = hits = adapter.module.to_hits(found)
    assert [(hit.id, hit.score) for hit in hits] == scored(adapter, found)
    assert (first.rank_before, first.labels) == (2, tuple(details["labels"]))
    assert first.metadata["page"] == 1
    assert "semclass" not in first.metadata
    assert build_context(hits).sources[0].id == "when"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "top_k is 0|greater than or equal to 1"),
        ({"method": "best"}, "method is 'best'"),
        ({"method": "convex"}, "method is 'convex'"),
        ({"rerankr": "learned"}, "rerankr"),
    ],
)
def test_wrong_options_are_refused_when_an_adapter_is_made(adapter, folder, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        adapter.models(**options)
    if "convex" not in options.values():
        with pytest.raises((ValueError, TypeError), match=message):
            adapter.retriever(folder, **options)


def test_an_empty_question_is_refused(adapter, documents, folder):
    with pytest.raises(ValueError, match="is empty"):
        adapter.rank(adapter.models(), " ", documents)
    with pytest.raises(ValueError, match="is empty"):
        adapter.search(adapter.retriever(folder), " ")


def test_the_asynchronous_twins_give_the_same_in_a_thread(adapter, documents, folder, monkeypatch):
    models, retriever, threads = adapter.models(), adapter.retriever(folder), []
    expected = adapter.rank(models, WHEN, documents), adapter.search(retriever, WHEN)

    def noting(real):
        return lambda *args, **options: threads.append(threading.current_thread()) or real(*args, **options)

    monkeypatch.setattr(Reranker, "rerank", noting(Reranker.rerank))
    monkeypatch.setattr(HybridRetriever, "search", noting(HybridRetriever.search))

    async def several():
        ranked = await asyncio.gather(*(adapter.arank(models, WHEN, documents) for _ in range(3)))
        return ranked, await asyncio.gather(*(adapter.asearch(retriever, WHEN) for _ in range(3)))

    assert asyncio.run(several()) == ([expected[0]] * 3, [expected[1]] * 3)
    assert len(threads) == 6
    assert threading.main_thread() not in threads


def test_what_is_saved_does_the_same_and_loads_its_models_late(adapter, documents, folder, monkeypatch):
    made = adapter.models(k=2, threshold=0.01, details=True, method="default")
    expected = adapter.rank(made, WHEN, documents)
    with monkeypatch.context() as patch:
        patch.setattr(shared, "load_encoder", None)
        again = adapter.save_and_load(made)
    assert adapter.rank(again, WHEN, documents) == expected
    made = adapter.retriever(folder, k=2, method="convex")
    assert adapter.search(adapter.save_and_load(made), WHEN) == adapter.search(made, WHEN)


@settings(max_examples=15)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=6), k=st.integers(1, 8))
def test_whatever_the_texts_each_document_comes_once_best_first(adapter, texts, k):
    items = [adapter.document(f"n{place}", text, {}) for place, text in enumerate(texts)]
    before = deepcopy(items)
    found = scored(adapter, adapter.rank(adapter.models(k=k), WHEN, items))
    there = len(texts) if adapter.silent == "last" else sum(bool(text.strip()) for text in texts)
    assert len(dict(found)) == len(found) == min(there, k)
    assert [score for _, score in found] == sorted((s for _, s in found), key=lambda s: (s is None, -(s or 0)))
    assert items == before


@pytest.mark.parametrize("method", [{}, {"method": "convex"}, {"method": "learned"}, {"method": "match-soft"}], ids=str)
def test_hits_are_those_of_the_search(adapter, folder, method):
    hits = HybridRetriever.load(folder, models=MODELS).search(WHEN, 2, **method)
    found = adapter.search(adapter.retriever(folder, k=2, **method), WHEN)
    assert scored(adapter, found) == [(hit.id, hit.score) for hit in hits]
    assert [(item.text, item.metadata) for item in map(adapter.read, found)] == [
        (hit.text, hit.metadata) for hit in hits
    ]
    assert type(adapter.read(found[0]).score) is float


def test_filters_hold_before_ranking(adapter, folder):
    found = adapter.search(adapter.retriever(folder, where=1), WHEN)
    assert sorted(name for name, _ in scored(adapter, found)) == ["when", "who"]


def test_details_and_explanations_of_a_search(adapter, folder):
    explained = {} if isinstance(adapter, Haystack) else {"explain": True}
    found = adapter.search(adapter.retriever(folder, details=True, method="learned", **explained), WHEN)[0]
    details = adapter.read(found).metadata["semclass"]
    assert "NUM" in details["labels"]
    assert details["components"]["relevance"] == adapter.read(found).score
    assert ("explanation" in details) == bool(explained)
    json.dumps(details)


def test_the_encoder_is_shared_in_a_process_and_models_are_loaded_once(adapter, documents, folder, monkeypatch):
    encoders, models = [], []
    real, load = shared.open_models, Reranker.load
    monkeypatch.setattr(shared, "open_models", lambda *given_: encoders.append(1) or real(*given_))
    monkeypatch.setattr(Reranker, "load", lambda *args, **options: models.append(1) or load(*args, **options))
    first, second = adapter.models(), adapter.models()
    workers = [threading.Thread(target=adapter.rank, args=(first, WHEN, documents)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    adapter.rank(second, WHEN, documents)
    adapter.search(adapter.retriever(folder), WHEN)
    assert encoders == []  # a fixture holds it
    assert models == [1, 1]


def test_documents_become_an_index_and_come_back(adapter, documents, models, tmp_path):
    PassageIndex.build(adapter.module.to_passages(documents), passage_encoder=models.passage_encoder).save(
        tmp_path / "index"
    )
    found = map(adapter.read, adapter.search(adapter.retriever(str(tmp_path / "index")), WHEN))
    assert {item.id: (item.text, item.metadata) for item in found} == {
        name: (text, {"page": page}) for page, (name, text) in enumerate(TEXTS.items())
    }


@pytest.mark.parametrize("wrong", ["text", [1], [None], [Passage("a", "a")]], ids=str)
def test_what_is_no_document_is_refused(adapter, wrong):
    for convert in (adapter.module.to_passages, adapter.module.to_hits):
        with pytest.raises(TypeError, match=r"must be a (list|sequence) of"):
            convert(wrong)


def test_without_the_framework_the_extra_is_named(adapter, monkeypatch):
    root = adapter.package.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == root]:
        monkeypatch.setitem(sys.modules, name, None)
    name = adapter.module.__name__
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r'pip install "semclass\[(langchain|llama-index|haystack)\]"'):
        __import__(name)


@pytest.mark.parametrize(
    ("way", "says", "questions"),
    [
        ("conversation", "Who designed it?", ["Who designed it?"]),
        ("step-back", "What is known of it?", [WHEN, "What is known of it?"]),
        ("sub-questions", "When was it finished?\nWho designed it?", ["When was it finished?", "Who designed it?"]),
        ("wordings", "In which year was it done?", [WHEN, "In which year was it done?"]),
        ("hyde", "It was finished in October 1874.", [WHEN]),
        ("step-back", FILTERED, [WHEN]),
    ],
)
def test_questions_are_rewritten_before_a_search(adapter, folder, way, says, questions):
    pytest.importorskip("openai")
    expected = HybridRetriever.load(folder, models=MODELS)
    passages = (says,) if way == "hyde" else ()
    hits = search_rewritten(expected, Rewritten(WHEN, tuple(questions), passages))
    with stub_endpoint(lambda prompt, before: says) as stub:
        made = adapter.rewriting(folder, way=way, url=stub.url, model="m")
        said = {"history": ["Tell me of the lighthouse."]} if way == "conversation" else {}
        if says == FILTERED:
            with pytest.warns(RewriteWarning, match="refused"):
                found = adapter.search(made, WHEN)
        else:
            found = adapter.search(made, WHEN, **said)
    assert scored(adapter, found) == [(hit.id, pytest.approx(hit.score)) for hit in hits]
    assert sum(stub.asked.values()) == 1


def test_what_rewrites_is_described_in_full(adapter, folder):
    for fields in ({"way": "hyde"}, {"way": "hyde", "url": "http://x/v1", "model": "m", "key": "secret"}):
        with pytest.raises(ValueError, match="give way, url, model"):
            adapter.rewriting(folder, **fields)
