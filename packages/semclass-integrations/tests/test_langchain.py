"""LangChain: its own standard tests for retrievers, options of a call, and batches."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed (extra langchain)")
pytest.importorskip("langchain_tests", reason="langchain-tests is not installed")

from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

from semclass import HybridRetriever, InputError, PassageIndex, Reranker
from semclass_integrations.langchain import SemclassCompressor, SemclassRetriever

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

QUESTION = "Who designed the lighthouse?"


@pytest.fixture(scope="module")
def index(models, corpus) -> HybridRetriever:
    return HybridRetriever(PassageIndex.build(corpus, passage_encoder=models.passage_encoder), models)


@pytest.fixture
def retriever(index) -> SemclassRetriever:
    return SemclassRetriever(retriever=index, k=3)


def ids(documents) -> list[str]:
    return [document.id for document in documents]


@pytest.mark.anyio
class TestStandard(RetrieversIntegrationTests):
    """LangChain's tests of retrievers."""

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture(autouse=True)
    def _index(self, index):
        type(self).index = index

    @property
    def retriever_constructor(self):
        return SemclassRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": self.index}

    @property
    def retriever_query_example(self):
        return QUESTION


def test_options_come_with_the_retriever_or_with_a_call(index):
    retriever = SemclassRetriever(retriever=index, k=30, search_kwargs={"method": "convex"})
    assert ids(retriever.invoke(QUESTION)) == [hit.id for hit in index.search(QUESTION, 30, method="convex")]
    assert ids(retriever.invoke(QUESTION, method="default", k=2)) == [hit.id for hit in index.search(QUESTION, 2)]
    assert ids(retriever.bind(k=1, where={"_id": "ferry-1"}).invoke(QUESTION)) == ["ferry-1"]


def test_a_wrong_option_of_a_call_is_refused(retriever):
    with pytest.raises(InputError, match="invoke has 'kk'; allowed are method"):
        retriever.invoke(QUESTION, kk=3)


def test_documents_may_lack_ids_and_share_ids_and_texts(models):
    documents = [
        Document("Ada designed the lighthouse.", metadata={"n": 1}),
        Document("Ada designed the lighthouse.", metadata={"n": 2}),
        Document("Kelp is a seaweed.", id="same"),
        Document("Puffins dig.", id="same"),
    ]
    best = SemclassCompressor(reranker=Reranker(models), top_n=None).compress_documents(documents, QUESTION)
    assert [document.metadata.get("n") for document in best[:2]] == [1, 2]  # ties keep their order
    assert sorted(document.page_content for document in best) == sorted(item.page_content for item in documents)
    made = SemclassRetriever.from_documents(documents[:3], models=models, k=1)
    assert ids(made.invoke(QUESTION)) == ["0"]
