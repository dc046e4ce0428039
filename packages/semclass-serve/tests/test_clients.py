"""Clients of other services, as they come from their package index, re-rank through a served address and nothing else."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import warnings
from types import SimpleNamespace

import pytest
from serving import QUESTION, TEXTS, Served, entailed

from semclass import EntailmentClassifier
from semclass_serve.engine import Engine
from semclass_serve.errors import overloaded
from semclass_serve.limits import Settings

# what the clients' own packages warn of is theirs
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before haystack is imported, which reads it then


@pytest.fixture(autouse=True, scope="module")
def closed():
    """Official clients leave their connections to the garbage collector: it runs here, and not in a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def served(models, encoder):
    entailment = EntailmentClassifier.load(encoder=encoder)
    with Served(Engine(models, None, Settings(), entailment=entailment)) as service:
        yield service


@pytest.fixture(scope="module")
def expected(models):
    """Places and scores, best first, as the library has them."""
    return sorted(entailed(models).items(), key=lambda item: -item[1])


def cohere_v2(url):
    client = pytest.importorskip("cohere").ClientV2(api_key="any", base_url=url)
    answer = client.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, max_tokens_per_doc=4096)
    assert answer.meta.billed_units.search_units == 1
    return [(item.index, item.relevance_score) for item in answer.results]


def cohere_v1(url):
    client = pytest.importorskip("cohere").Client(api_key="any", base_url=url)
    documents = [{"text": "", "title": title} for title in TEXTS]
    found = client.rerank(query=QUESTION, documents=documents, rank_fields=["title"], return_documents=True)
    assert all(item.document.model_dump() == documents[item.index] for item in found.results)
    return [(item.index, item.relevance_score) for item in found.results]


def rerankers(provider, path):
    def rank(url):
        library = pytest.importorskip("rerankers.models.api_rankers")
        found = library.APIRanker("any", "any", provider, url=url + path).rank(QUESTION, TEXTS)
        return [(item.document.doc_id, item.score) for item in found.results]

    return rank


def haystack_documents():
    from haystack import Document

    return [Document(content=text, meta={"place": place}) for place, text in enumerate(TEXTS)]


def haystack_tei(url):
    library = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    ranker = library.HuggingFaceTEIRanker(url=url, token=None)
    found = asyncio.run(ranker.run_async(query=QUESTION, documents=haystack_documents()))["documents"]
    raw = library.HuggingFaceTEIRanker(url=url, raw_scores=True, token=None)
    odds = [item.score for item in raw.run(query=QUESTION, documents=haystack_documents())["documents"]]
    assert odds == pytest.approx([math.log(item.score / (1 - item.score)) for item in found], abs=1e-4)
    return [(item.meta["place"], item.score) for item in found]


def haystack_jina(url):
    library = pytest.importorskip("haystack_integrations.components.rankers.jina")
    from haystack.utils import Secret

    ranker = library.JinaRanker(api_key=Secret.from_token("any"), base_url=f"{url}/v1/rerank", model="any")
    found = ranker.run(query=QUESTION, documents=haystack_documents())["documents"]
    return [(item.meta["place"], item.score) for item in found]


def llama_index_tei(url):
    library = pytest.importorskip("llama_index.postprocessor.tei_rerank")
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(TEXTS)]
    found = library.TextEmbeddingInference(base_url=url, top_n=3).postprocess_nodes(nodes, query_str=QUESTION)
    return [(int(item.node.node_id), item.score) for item in found]


CLIENTS = {
    "cohere v2": cohere_v2, "cohere v1": cohere_v1, "haystack, jina": haystack_jina, "haystack, tei": haystack_tei,
    "llama-index, tei": llama_index_tei, "rerankers, cohere": rerankers("cohere", "/v1/rerank"),
    "rerankers, jina": rerankers("jina", "/v1/rerank"),
    **{f"rerankers, {path}": rerankers("text-embeddings-inference", path) for path in ("/rerank", "/", "/invocations")},
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_order_and_scores_of_the_library(served, expected, name):
    assert CLIENTS[name](served.url) == [(place, pytest.approx(score, abs=1e-6)) for place, score in expected]


def test_cohere_raises_its_own_errors(served):
    cohere = pytest.importorskip("cohere")
    client = cohere.ClientV2(api_key="any", base_url=served.url)
    for options, error, part in (
        ({"documents": []}, cohere.BadRequestError, "give at least one text"),
        ({"top_n": 0}, cohere.UnprocessableEntityError, "top_n"),
        ({"documents": ["text"] * 1001}, cohere.core.ApiError, "at most 1000"),
    ):
        with pytest.raises(error) as raised:
            client.rerank(**{"model": "any", "query": QUESTION, "documents": TEXTS, **options})
        assert part in raised.value.body["message"]


class Flaky(Engine):
    """Is overloaded for the first two requests of clients."""

    asked = 0

    async def rerank(self, question, passages, **options):
        self.asked += question == QUESTION  # and not what a service asks itself before it is ready
        if question == QUESTION and self.asked <= 2:
            raise overloaded("busy", 0.2)
        return await super().rerank(question, passages, **options)


def test_cohere_waits_as_long_as_it_is_told_and_comes_back(models, monkeypatch):
    cohere = pytest.importorskip("cohere")
    waited = []
    monkeypatch.setattr("cohere.core.http_client.time", SimpleNamespace(sleep=waited.append))
    with Served(Flaky(models, None, Settings())) as service:
        client = cohere.ClientV2(api_key="any", base_url=service.url)
        assert len(client.rerank(model="any", query=QUESTION, documents=TEXTS).results) == 3
    assert waited == [1, 1]  # whole seconds, and never none: for others the client waits as long as it thinks right


def test_hugging_face_hub_classifies(served):
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(model=f"{served.url}/predict", token=None)
    # text-embeddings-inference answers a list of labels for each input of a list, which is what this client takes apart
    found = client.text_classification([["Who built the bridge?"]])
    assert found[0].label == "HUM"
    assert sum(item.score for item in found) == pytest.approx(1)
