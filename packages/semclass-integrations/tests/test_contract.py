"""The contract of the adapters for LangChain, LlamaIndex and Haystack: one suite, run through a small driver of each."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from copy import deepcopy
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import MODELS

from semclass import HybridRetriever, Passage, PassageIndex, Reranker

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

WHEN = "When was the bridge opened?"
TEXTS = {
    "red": "The bridge is painted red, and can be seen from afar.",
    "when": "Work on it began in 1871; it was opened in October 1874.",
    "who": "The bridge was built of granite by the engineer Ada Merriweather.",
}


class LangChain:
    """Scores stand in the metadata."""

    package, extra, module = "langchain_core", "langchain", "langchain"

    def __init__(self, models, folder):
        from langchain_core.documents import Document

        from semclass_integrations import langchain

        self.reranker, self.index = Reranker(models), HybridRetriever(PassageIndex.load(folder), models)
        self.adapters, self.Document = langchain, Document

    def document(self, name, text, metadata):
        return self.Document(id=name, page_content=text, metadata=metadata)

    def read(self, found):
        metadata = dict(found.metadata)
        score = metadata.pop("relevance_score", None)
        return SimpleNamespace(id=found.id, text=found.page_content, metadata=metadata, score=score)

    def ranker(self, k=10, threshold=None, explain=False, **method):
        options = {"top_n": k, "score_threshold": threshold, "rerank_kwargs": {"explain": explain, **method}}
        return self.adapters.SemclassCompressor(reranker=self.reranker, **options)

    def rank(self, ranker, question, documents):
        return ranker.compress_documents(documents, question)

    async def arank(self, ranker, question, documents):
        return await ranker.acompress_documents(documents, question)

    def retriever(self, k=10, explain=False, page=None, **method):
        options = {"explain": explain, **method, **({} if page is None else {"where": {"page": {"$gte": page}}})}
        return self.adapters.SemclassRetriever(retriever=self.index, k=k, search_kwargs=options)

    def search(self, retriever, question):
        return retriever.invoke(question)

    async def asearch(self, retriever, question):
        return await retriever.ainvoke(question)


class LlamaIndex:
    """Nodes are wrapped with their scores."""

    package, extra, module = "llama_index.core", "llama-index", "llama_index"

    def __init__(self, models, folder):
        from llama_index.core.schema import NodeWithScore, TextNode
        from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

        from semclass_integrations import llama_index

        self.reranker, self.index = Reranker(models), HybridRetriever(PassageIndex.load(folder), models)
        self.adapters, self.NodeWithScore, self.TextNode = llama_index, NodeWithScore, TextNode
        self.Filter, self.Filters = MetadataFilter, MetadataFilters

    def document(self, name, text, metadata):
        options = {"metadata": metadata, "excluded_embed_metadata_keys": list(metadata)}
        return self.NodeWithScore(node=self.TextNode(id_=name, text=text, **options))

    def read(self, found):
        return SimpleNamespace(id=found.node_id, text=found.text, metadata=found.metadata, score=found.score)

    def ranker(self, k=10, threshold=None, explain=False, **method):
        options = {"top_n": k, "score_threshold": threshold, "options": {"explain": explain, **method}}
        return self.adapters.SemclassRerank(reranker=self.reranker, **options)

    def rank(self, ranker, question, documents):
        return ranker.postprocess_nodes(documents, query_str=question)

    async def arank(self, ranker, question, documents):
        return await ranker.apostprocess_nodes(documents, query_str=question)

    def retriever(self, k=10, explain=False, page=None, **method):
        late = None if page is None else self.Filters(filters=[self.Filter(key="page", value=page, operator=">=")])
        options = {"similarity_top_k": k, "explain": explain, "filters": late}
        return self.adapters.SemclassRetriever(self.index, **options, **method)

    def search(self, retriever, question):
        return retriever.retrieve(question)

    async def asearch(self, retriever, question):
        return await retriever.aretrieve(question)


class Haystack:
    """Components name folders, and travel as dictionaries."""

    package, extra, module = "haystack", "haystack", "haystack"

    def __init__(self, models, folder):
        os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before haystack is imported, which reads it then
        from haystack import Document

        from semclass_integrations import haystack

        self.adapters, self.Document, self.folder = haystack, Document, folder

    def document(self, name, text, metadata):
        return self.Document(id=name, content=text, meta=metadata)

    def read(self, found):
        return SimpleNamespace(id=found.id, text=found.content, metadata=found.meta, score=found.score)

    def ranker(self, k=10, threshold=None, explain=False, **method):
        options = {"top_k": k, "score_threshold": threshold, "explain": explain, **method}
        return self._again(self.adapters.SemclassRanker(MODELS, **options))

    def rank(self, ranker, question, documents):
        return ranker.run(question, documents)["documents"]

    async def arank(self, ranker, question, documents):
        return (await ranker.run_async(question, documents))["documents"]

    def retriever(self, k=10, explain=False, page=None, **method):
        late = None if page is None else {"field": "meta.page", "operator": ">=", "value": page}
        options = {"top_k": k, "explain": explain, "filters": late, **method}
        return self._again(self.adapters.SemclassRetriever(self.folder, models=MODELS, **options))

    def search(self, retriever, question):
        return retriever.run(question)["documents"]

    async def asearch(self, retriever, question):
        return (await retriever.run_async(question))["documents"]

    def _again(self, made):
        """A component after it was saved and read."""
        from haystack.core.serialization import component_from_dict, component_to_dict

        return component_from_dict(type(made), json.loads(json.dumps(component_to_dict(made, "it"))), "it")


DRIVERS = [LangChain, LlamaIndex, Haystack]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    """A saved index of the three texts."""
    passages = [Passage(name, text, {"page": page}) for page, (name, text) in enumerate(TEXTS.items())]
    path = tmp_path_factory.mktemp("contract") / "index"
    PassageIndex.build(passages, passage_encoder=models.passage_encoder).save(path)
    return path


@pytest.fixture(scope="module", params=DRIVERS, ids=lambda driver: driver.__name__)
def adapter(request, models, folder):
    pytest.importorskip(request.param.package, reason=f"{request.param.package} is not installed")
    return request.param(models, folder)


@pytest.fixture
def documents(adapter):
    return [adapter.document(name, text, {"page": page}) for page, (name, text) in enumerate(TEXTS.items())]


def scored(adapter, found):
    return [(item.id, item.score) for item in map(adapter.read, found)]


@pytest.mark.parametrize("method", ["default", "entail-stable", "class-integrated"])
def test_order_and_scores_are_those_of_the_reranker(adapter, documents, models, method):
    before = deepcopy(documents)
    hits = Reranker(models).rerank(WHEN, [Passage(*item) for item in TEXTS.items()], method=method)
    found = adapter.rank(adapter.ranker(method=method), WHEN, documents)
    assert scored(adapter, found) == [(hit.id, pytest.approx(hit.score)) for hit in hits]
    assert type(found[0]) is type(documents[0])
    adapter.read(found[0]).metadata["page"] = 99
    assert documents == before


@pytest.mark.parametrize("method", ["default", "convex"])
def test_hits_are_those_of_the_search(adapter, folder, models, method):
    hits = HybridRetriever(PassageIndex.load(folder), models).search(WHEN, 2, method=method)
    found = adapter.search(adapter.retriever(k=2, method=method), WHEN)
    assert scored(adapter, found) == [(hit.id, pytest.approx(hit.score)) for hit in hits]
    read = [(item.text, item.metadata) for item in map(adapter.read, found)]
    assert read == [(hit.text, hit.metadata) for hit in hits]


def test_k_and_threshold(adapter, documents):
    assert adapter.rank(adapter.ranker(), WHEN, []) == []
    whole = scored(adapter, adapter.rank(adapter.ranker(), WHEN, documents))
    assert scored(adapter, adapter.rank(adapter.ranker(k=2), WHEN, documents)) == whole[:2]
    assert scored(adapter, adapter.rank(adapter.ranker(threshold=whole[1][1]), WHEN, documents)) == whole[:2]


def test_documents_without_text_come_last_without_a_score(adapter, documents):
    blank = [adapter.document("none", "", {}), adapter.document("blank", " \n", {})]
    found = scored(adapter, adapter.rank(adapter.ranker(), WHEN, [*blank, *documents]))
    assert found[3:] == [("none", None), ("blank", None)]
    assert len(adapter.rank(adapter.ranker(threshold=-1e9), WHEN, [*blank, *documents])) == 3


def test_a_filter_of_the_framework_holds_before_ranking(adapter):
    found = adapter.search(adapter.retriever(k=1, page=2), WHEN)
    assert [item.id for item in map(adapter.read, found)] == ["who"]


def test_details_are_the_other_fields_of_a_hit(adapter, documents):
    found = adapter.rank(adapter.ranker(explain=True, method="class-integrated"), WHEN, documents)
    details = adapter.read(found[0]).metadata["semclass"]
    assert set(details) == {"rank_before", "labels", "probabilities", "components", "query_used", "explanation"}
    assert details["rank_before"] == 2
    assert "NUM" in details["labels"]
    found = adapter.search(adapter.retriever(explain=True), WHEN)
    assert "answerable" in adapter.read(found[0]).metadata["semclass"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "top_k is 0|greater than or equal to 1"),
        ({"method": "best"}, "method is 'best'"),
        ({"methd": "convex"}, "methd"),
    ],
)
def test_a_wrong_option_is_refused_when_an_adapter_is_made(adapter, options, message):
    for make in (adapter.ranker, adapter.retriever):
        with pytest.raises((ValueError, TypeError), match=message):
            make(**options)


def test_an_empty_question_is_refused(adapter, documents):
    with pytest.raises(ValueError, match="is empty"):
        adapter.rank(adapter.ranker(), " ", documents)
    with pytest.raises(ValueError, match="is empty"):
        adapter.search(adapter.retriever(), " ")


def test_asynchronous_twins_run_in_threads(adapter, documents, monkeypatch):
    ranker, retriever, threads = adapter.ranker(), adapter.retriever(), []
    expected = adapter.rank(ranker, WHEN, documents), adapter.search(retriever, WHEN)

    def noting(real):
        return lambda *args, **options: threads.append(threading.current_thread()) or real(*args, **options)

    monkeypatch.setattr(Reranker, "rerank", noting(Reranker.rerank))
    monkeypatch.setattr(HybridRetriever, "search", noting(HybridRetriever.search))

    async def both():
        return await asyncio.gather(adapter.arank(ranker, WHEN, documents), adapter.asearch(retriever, WHEN))

    assert tuple(asyncio.run(both())) == expected
    assert len(threads) == 2
    assert threading.main_thread() not in threads


@settings(max_examples=15)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=6), k=st.integers(1, 8))
def test_each_document_comes_once_best_first(adapter, texts, k):
    items = [adapter.document(f"n{place}", text, {}) for place, text in enumerate(texts)]
    found = scored(adapter, adapter.rank(adapter.ranker(k=k), WHEN, items))
    assert len(dict(found)) == len(found) == min(len(texts), k)
    assert [score for _, score in found] == sorted((s for _, s in found), key=lambda s: (s is None, -(s or 0)))
