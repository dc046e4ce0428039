"""LlamaIndex: nodes travel through an index and back, filters mean what they mean in its own store, HyDE."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed (extra llama-index)")

from filter_oracle import matches
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import Document
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from semclass import HybridRetriever, InputError, InputTypeError, Passage, PassageIndex, Reranker
from semclass.index.filters import parse
from semclass_integrations.llama_index import SemclassRerank, SemclassRetriever, to_passages, to_where

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

QUESTION = "When was the lighthouse finished?"
TEXTS = [
    "The lighthouse is painted in red and white bands.",
    "Ada Merriweather designed the lighthouse and the harbour.",
    "The lighthouse was finished in October 1874.",
    "The tower was completed in the autumn of 1874, after three winters.",
]


def retriever_of(passages, models) -> HybridRetriever:
    return HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def plain(models) -> HybridRetriever:
    return retriever_of([Passage(f"p{n}", text, {"place": n}) for n, text in enumerate(TEXTS)], models)


@pytest.fixture(scope="module")
def reranker(models) -> Reranker:
    return Reranker(models)


def test_nodes_come_back_as_they_were(models):
    document = Document(id_="d", text=" ".join(TEXTS * 8), metadata={"title": "Tower", "page": 3})
    nodes = SentenceSplitter(chunk_size=60, chunk_overlap=0).get_nodes_from_documents([document])
    nodes[0].excluded_llm_metadata_keys = ["page"]
    found = SemclassRetriever(retriever_of(to_passages(nodes), models), similarity_top_k=50).retrieve(QUESTION)
    assert sorted((hit.node for hit in found), key=lambda node: node.start_char_idx) == nodes
    assert {hit.node.ref_doc_id for hit in found} == {"d"}


@pytest.mark.parametrize("node", [ImageNode(id_="x", image_path="x.png"), TextNode(id_="x", text=" \n")])
def test_nodes_without_text_cannot_be_indexed(node):
    with pytest.raises(InputError, match=r"node 'x' has no text; leave out pictures"):
        to_passages([node])


def test_a_damaged_node_is_named(models):
    index = retriever_of([Passage("a", "A text.", {"_node_content": "{"})], models)
    with pytest.raises(InputError, match=r"'_node_content' in the metadata of the passage 'a'"):
        SemclassRetriever(index).retrieve(QUESTION)


def test_an_object_of_another_kind_is_refused(plain, reranker):
    with pytest.raises(InputTypeError, match="must be LlamaIndex MetadataFilters"):
        SemclassRetriever(plain, filters={"a": 1})
    with pytest.raises(InputTypeError, match=r"must be a semclass\.Reranker"):
        SemclassRerank(reranker=5)
    with pytest.raises(ValueError, match="re-ranking needs a question"):
        SemclassRerank(reranker=reranker).postprocess_nodes([])


def term(key, operator, value=None) -> MetadataFilter:
    return MetadataFilter(key=key, value=value, operator=FilterOperator(operator))


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (term("name", "text_match", "x"), "filter on 'name' has 'text_match'"),
        (term("tags", "all", "x"), r"'tags' has 'all' with 'x'; give a list"),
        (term("$or", "==", "x"), r"the key '\$or'"),
    ],
)
def test_a_filter_that_cannot_be_translated_is_named(filter_, message):
    with pytest.raises(InputError, match=message):
        to_where(MetadataFilters(filters=[filter_]))


WORDS = st.sampled_from(["a", "b", "c"])
METADATA = st.fixed_dictionaries(
    {}, optional={"n": st.integers(0, 3), "x": st.floats(0, 1), "w": WORDS, "tags": st.lists(WORDS, min_size=1)}
)
COMPARED = st.sampled_from(["==", "!=", ">", ">=", "<", "<="])
TERM = st.one_of(
    st.builds(term, st.just("n"), COMPARED, st.integers(0, 3)),
    st.builds(term, st.just("x"), COMPARED, st.floats(0, 1)),
    st.builds(term, st.just("w"), COMPARED, WORDS),
    st.builds(term, st.just("w"), st.sampled_from(["in", "nin"]), st.lists(WORDS, min_size=1)),
    st.builds(term, st.just("tags"), st.sampled_from(["any", "all"]), st.lists(WORDS, min_size=1)),
    st.builds(term, st.just("tags"), st.just("contains"), WORDS),
    st.builds(term, st.sampled_from(["n", "w", "tags"]), st.just("is_empty")),
)


@given(metadata=METADATA, terms=st.lists(TERM, min_size=1, max_size=3), condition=st.sampled_from(["and", "or", "not"]))
def test_filters_select_what_their_own_store_selects(metadata, terms, condition):
    filters = MetadataFilters(filters=terms, condition=condition)
    theirs = build_metadata_filter_fn(lambda _: metadata, filters)("id")
    assert matches(parse(to_where(filters)), metadata) == theirs


def test_metadata_are_read_unless_excluded_and_a_title_apart(reranker):
    def score(node):
        ranker = SemclassRerank(reranker=reranker)
        return ranker.postprocess_nodes([NodeWithScore(node=node)], query_str=QUESTION)[0].score

    def expected(text, **metadata):
        return reranker.rerank(QUESTION, [Passage("a", text, metadata)])[0].score

    text = "It was finished in October 1874."
    context = {"context": "On the lighthouse."}
    assert score(TextNode(text=text, metadata=context)) == expected(f"context: On the lighthouse.\n\n{text}")
    assert score(TextNode(text=text, metadata=context, excluded_embed_metadata_keys=["context"])) == expected(text)
    assert score(TextNode(text=text, metadata={"title": "Lighthouse"})) == expected(text, title="Lighthouse")


def test_hyde_finds_by_its_texts_and_ranks_for_the_question(plain):
    first = SemclassRetriever(plain, similarity_top_k=1, method="dense")
    assert first.retrieve(QUESTION)[0].node_id == "p2"
    assert first.retrieve(QueryBundle(QUESTION, custom_embedding_strs=[TEXTS[3]]))[0].node_id == "p3"
    bundle = QueryBundle(QUESTION, custom_embedding_strs=[TEXTS[3], TEXTS[2]])
    found = SemclassRetriever(plain, similarity_top_k=2, candidates=2).retrieve(bundle)
    assert {node.node_id for node in found} == {"p2", "p3"}
    with pytest.raises(InputError, match="empty"):
        SemclassRetriever(plain).retrieve(QueryBundle(QUESTION, custom_embedding_strs=[""]))
