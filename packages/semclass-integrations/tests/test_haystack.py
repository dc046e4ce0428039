"""Haystack: its own tests of filters, pipelines as YAML, and limits of a run."""

from __future__ import annotations

import os

import pytest
from filter_oracle import matches
from world import MODELS

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before haystack is imported, which reads it then
pytest.importorskip("haystack", reason="haystack-ai is not installed (extra haystack)")

from haystack import Document
from haystack.errors import FilterError
from haystack.testing.document_store import FilterDocumentsTest

from semclass import HybridRetriever, InputError
from semclass.index import filters
from semclass_integrations.haystack import SemclassRanker, SemclassRetriever, to_passages, to_where

pytestmark = pytest.mark.extras

QUESTION = "When was the bridge opened?"


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document(id="a", content="It was opened in 1874.", meta={"title": "Lighthouse", "page": 1}),
        Document(id="b", content="It was opened in 1902.", meta={"title": "Railway bridge", "page": 2}),
        Document(id="c", content="It was opened in 1911.", meta={"title": None, "page": 3}),
    ]


class MetadataStore:
    """The part of a document store that Haystack's tests of filters need."""

    documents = ()

    def write_documents(self, documents):
        self.documents = list(documents)

    def filter_documents(self, filters_=None, **named):
        chosen = named.get("filters", filters_)
        condition = filters.parse(to_where(chosen) if chosen else {})
        return [item for item in self.documents if matches(condition, item.meta, item.id)]


class TestFilters(FilterDocumentsTest):
    """Haystack's tests of its filter language."""

    @pytest.fixture
    def document_store(self):
        return MetadataStore()


@pytest.mark.parametrize(
    "condition",
    [
        {"field": 3, "operator": "==", "value": "x"},
        {"field": "page", "operator": "in", "value": 1},
        {"field": "page", "operator": "~", "value": 1},
        {"operator": "XOR", "conditions": []},
        {"page": 3},
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_translated_is_refused(condition):
    with pytest.raises(FilterError) as caught:
        SemclassRetriever("folder", filters=condition)
    assert isinstance(caught.value, InputError)


def test_limits_and_filters_of_a_run_replace_the_components(documents, models, tmp_path):
    ranker = SemclassRanker(MODELS, top_k=2)
    assert [len(ranker.run(QUESTION, documents, top_k=k)["documents"]) for k in (None, 1, 100)] == [2, 1, 3]
    assert ranker.run(QUESTION, documents, score_threshold=1e9)["documents"] == []
    HybridRetriever.from_passages(to_passages(documents), models=models).index.save(tmp_path)
    late, early = ({"field": "meta.page", "operator": operator, "value": 2} for operator in (">", "<"))
    retriever = SemclassRetriever(tmp_path, models=MODELS, filters=late)
    for condition, ids in ((None, ["c"]), (early, ["a"])):
        assert [item.id for item in retriever.run(QUESTION, filters=condition)["documents"]] == ids


def test_fields_of_meta_are_read_if_they_are_named(documents):
    question = "When was the railway bridge opened?"
    plain, read = (
        SemclassRanker(MODELS, meta_fields_to_embed=names).run(question, documents)["documents"]
        for names in (None, ["title", "page", "none"])
    )
    assert (read[0].id, read[0].content) == ("b", "It was opened in 1902.")
    assert read[0].score - read[1].score > plain[0].score - plain[1].score
