"""Clients of other services, as they come from their package index, re-rank through a served address and nothing else."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from serving import Served

from semclass import EntailmentClassifier, Hit, Models, Passage, Reranker
from semclass_serve.engine import Engine
from semclass_serve.errors import overloaded
from semclass_serve.limits import Settings

# what the clients' own packages warn of is theirs
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before haystack is imported, which reads it then

QUESTION = "When was the bridge opened?"
TEXTS = [
    "The bridge was built of granite by the engineer Ada Merriweather.",
    "Work on it began in 1871; after three winters of storms the bridge was opened in October 1874.",
    "Trams cross the bridge.",
]


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    """Official clients leave their connections to the garbage collector: it runs here, and not in a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Flaky(Engine):
    """Is overloaded for the first two requests of clients."""

    asked = 0

    async def rerank(self, question: str, passages: Any, **options: Any) -> list[Hit]:
        self.asked += question == QUESTION  # and not what a service asks itself before it is ready
        if question == QUESTION and self.asked <= 2:
            raise overloaded("busy", 0.2)
        return await super().rerank(question, passages, **options)


@pytest.fixture(scope="module")
def served(models: Models, encoder) -> Iterator[Served]:
    entailment = EntailmentClassifier.load(encoder=encoder)
    with Served(Engine(models, None, Settings(), entailment=entailment)) as service:
        yield service


@pytest.fixture(scope="module")
def expected(models: Models) -> list[tuple[int, float]]:
    """Places and scores, best first, as the library has them."""
    hits = Reranker(models).rerank(QUESTION, [Passage(str(n), t) for n, t in enumerate(TEXTS)], method="entail-stable")
    scores = {int(hit.id): hit.components["relevance"] for hit in hits}
    return sorted(scores.items(), key=lambda item: -item[1])


def told(results: Any) -> list[tuple[int, float]]:
    return [(item.index, pytest.approx(item.relevance_score, abs=1e-6)) for item in results]


def test_cohere_v2(served, expected):
    cohere = pytest.importorskip("cohere")
    client = cohere.ClientV2(api_key="any", base_url=served.url)
    answer = client.rerank(model="rerank-v3.5", query=QUESTION, documents=TEXTS, top_n=2, max_tokens_per_doc=4096)
    assert isinstance(answer, cohere.V2RerankResponse)
    assert told(answer.results) == expected[:2]
    assert answer.meta.api_version.version == "2"
    assert answer.meta.billed_units.search_units == 1
    assert answer.id


def test_cohere_v1_with_documents_that_have_fields(served, expected):
    cohere = pytest.importorskip("cohere")
    client = cohere.Client(api_key="any", base_url=served.url)
    plain = client.rerank(query=QUESTION, documents=TEXTS)
    assert told(plain.results) == expected
    documents = [{"text": "", "title": title, "page": str(page)} for page, title in enumerate(TEXTS)]
    named = client.rerank(query=QUESTION, documents=documents, rank_fields=["title"], return_documents=True)
    assert told(named.results) == expected
    assert [item.document.model_dump() for item in named.results] == [documents[place] for place, _ in expected]


def test_cohere_raises_its_own_errors(served):
    cohere = pytest.importorskip("cohere")
    client = cohere.ClientV2(api_key="any", base_url=served.url)

    def ask(**changed: Any) -> None:
        client.rerank(**{"model": "any", "query": QUESTION, "documents": TEXTS, **changed})

    with pytest.raises(cohere.BadRequestError) as raised:
        ask(documents=[])
    assert raised.value.body["message"] == "there is nothing to rank; give at least one text"
    with pytest.raises(cohere.UnprocessableEntityError) as raised:
        ask(top_n=0)
    assert "top_n" in raised.value.body["message"]
    with pytest.raises(cohere.core.ApiError) as raised:
        ask(documents=["text"] * 1001)
    assert raised.value.status_code == 413
    assert "at most 1000" in raised.value.body["message"]


def test_cohere_waits_as_long_as_it_is_told_and_comes_back(models, expected, monkeypatch):
    cohere = pytest.importorskip("cohere")
    waited: list[float] = []
    monkeypatch.setattr("cohere.core.http_client.time", SimpleNamespace(sleep=waited.append))
    with Served(Flaky(models, None, Settings())) as service:
        client = cohere.ClientV2(api_key="any", base_url=service.url)
        assert told(client.rerank(model="any", query=QUESTION, documents=TEXTS).results) == expected
        service.engine.asked = 0
        with pytest.raises(cohere.TooManyRequestsError):
            client.rerank(model="any", query=QUESTION, documents=TEXTS, request_options={"max_retries": 1})
    # whole seconds, and never none: for others the client waits as long as it thinks right
    assert waited == [1, 1, 1]


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ("cohere", "/v1/rerank"),
        ("jina", "/v1/rerank"),
        *(("text-embeddings-inference", path) for path in ("/rerank", "/", "/invocations")),
    ],
)
def test_rerankers(served, expected, provider, path):
    rankers = pytest.importorskip("rerankers.models.api_rankers")
    models = rankers.APIRanker("any", "any", provider, url=served.url + path)
    found = models.rank(QUESTION, TEXTS)
    assert [(item.document.doc_id, pytest.approx(item.score, abs=1e-6)) for item in found.results] == expected
    best, score = expected[0]
    assert models.score(QUESTION, rankers.Document(TEXTS[best])) == pytest.approx(score, abs=1e-6)


def test_tei_from_haystack(served, expected):
    rankers = pytest.importorskip("haystack_integrations.components.rankers.huggingface_api")
    from haystack import Document

    documents = [Document(content=text, meta={"place": place}) for place, text in enumerate(TEXTS)]
    models = rankers.HuggingFaceTEIRanker(url=served.url, top_k=2, token=None)
    found = models.run(query=QUESTION, documents=documents)["documents"]
    assert [(item.meta["place"], pytest.approx(item.score, abs=1e-6)) for item in found] == expected[:2]
    direction = rankers.TruncationDirection.RIGHT
    found = asyncio.run(models.run_async(query=QUESTION, documents=documents, truncation_direction=direction))
    assert [item.meta["place"] for item in found["documents"]] == [place for place, _ in expected[:2]]
    raw = rankers.HuggingFaceTEIRanker(url=served.url, raw_scores=True, token=None)
    best, score = expected[0]
    (top, *_) = raw.run(query=QUESTION, documents=documents)["documents"]
    assert (top.meta["place"], top.score) == (best, pytest.approx(math.log(score / (1 - score)), abs=1e-5))
    with pytest.raises(RuntimeError, match="at most 1000"):
        models.run(query=QUESTION, documents=[Document(content=f"{place}") for place in range(1001)])


def test_tei_from_llama_index(served, expected):
    postprocessors = pytest.importorskip("llama_index.postprocessor.tei_rerank")
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(id_=str(place), text=text)) for place, text in enumerate(TEXTS)]
    postprocessor = postprocessors.TextEmbeddingInference(base_url=served.url, top_n=2)
    found = postprocessor.postprocess_nodes(nodes, query_str=QUESTION)
    assert [(int(item.node.node_id), pytest.approx(item.score, abs=1e-6)) for item in found] == expected[:2]


def test_jina_from_haystack(served, expected):
    rankers = pytest.importorskip("haystack_integrations.components.rankers.jina")
    from haystack import Document
    from haystack.utils import Secret

    models = rankers.JinaRanker(api_key=Secret.from_token("any"), base_url=f"{served.url}/v1/rerank", model="any")
    documents = [Document(content=text, meta={"place": place}) for place, text in enumerate(TEXTS)]
    found = models.run(query=QUESTION, documents=documents)
    assert [(item.meta["place"], pytest.approx(item.score, abs=1e-6)) for item in found["documents"]] == expected
    assert found["meta"]["model"] == "any"
    assert found["meta"]["usage"]["total_tokens"] > 0


def test_hugging_face_hub_classifies(served):
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(model=f"{served.url}/predict", token=None)
    # text-embeddings-inference answers a list of labels for each input of a list, which is what this client takes apart
    found = client.text_classification([["Who built the bridge?"]])
    assert isinstance(found[0], hub.TextClassificationOutputElement)
    assert found[0].label == "HUM"
    assert sum(item.score for item in found) == pytest.approx(1)
