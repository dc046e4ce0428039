"""LlamaIndex: our retriever, postprocessor and selector in its own query engines, with scripted language models."""

from __future__ import annotations

import asyncio
import json
import pickle
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar

import pytest
from filter_oracle import matches
from hypothesis import given
from hypothesis import strategies as st
from scripts import EXAMPLES, run_python
from world import ROOT

from semclass import (
    HybridRetriever,
    InputError,
    InputTypeError,
    Passage,
    PassageIndex,
    Reranker,
)
from semclass.documents.chunking import cut
from semclass.heads.texts import TextLabels, TextModel
from semclass.index.filters import parse

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed (extra llama-index)")

from llama_index.core import Document, Settings
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.tools import ToolMetadata
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from semclass_integrations.llama_index import SemclassRerank, SemclassRetriever, to_passages, to_where
from semclass_integrations.llama_index_selector import SemclassSelector

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("default")]

QUESTION = "When was the lighthouse finished?"
TEXTS = [
    "The lighthouse was built of granite by the engineer Ada Merriweather.",
    "A film in the museum tells how the lighthouse was built, and what it cost.",
    "Work on it began in 1871; after three winters of storms the lighthouse was finished in October 1874.",
    "The ferry sails four times a day, and takes bicycles free of charge.",
]


class Scripted(CustomLLM):
    """A language model that says one thing."""

    says: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self.says)

    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield CompletionResponse(text=self.says, delta=self.says)


def found(texts=TEXTS, **fields) -> list[NodeWithScore]:
    """Nodes as a retriever gives them."""
    return [
        NodeWithScore(node=TextNode(id_=f"n{place}", text=text, **fields), score=1.0 - place / 10)
        for place, text in enumerate(texts)
    ]


@pytest.fixture(autouse=True)
def no_model():
    """Whatever asks for a language model unasked gets one that repeats the prompt."""
    Settings.llm = MockLLM()
    yield
    Settings.llm = None


@pytest.fixture(scope="module")
def nodes():
    paths = sorted((ROOT / "docs" / "examples" / "corpus").glob("*.md"))
    documents = [Document(text=path.read_text(), id_=path.name, metadata={"file": path.name}) for path in paths]
    return SentenceSplitter(chunk_size=80, chunk_overlap=0).get_nodes_from_documents(documents)


@pytest.fixture(scope="module")
def hybrid(nodes, models) -> HybridRetriever:
    return HybridRetriever(PassageIndex.build(to_passages(nodes), passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def reranker(models) -> Reranker:
    return Reranker(models)


@pytest.fixture(scope="module")
def plain(models) -> HybridRetriever:
    passages = [Passage(f"p{place}", text, {"place": place}) for place, text in enumerate(TEXTS)]
    return HybridRetriever(PassageIndex.build(passages, passage_encoder=models.passage_encoder), models)


def test_nodes_of_the_sentence_splitter_come_back_as_they_were(nodes, hybrid):
    hits = SemclassRetriever(hybrid, similarity_top_k=len(nodes)).retrieve(QUESTION)
    by_id = {node.node_id: node for node in nodes}
    assert len(hits) == len(nodes)
    assert all(hit.node == by_id[hit.node_id] and type(hit.score) is float for hit in hits)
    assert "October 1874" in hits[0].text
    assert hits[0].node.ref_doc_id == "lighthouse.md"
    assert hits[0].node.prev_node.node_id in by_id


def test_metadata_that_changed_in_the_index_is_what_nodes_have(nodes, models):
    (passage,) = to_passages(nodes[:1])
    moved = replace(passage, metadata={**passage.metadata, "file": "moved.md"})
    index = PassageIndex.build([moved], passage_encoder=models.passage_encoder)
    (hit,) = SemclassRetriever(HybridRetriever(index, models)).retrieve(QUESTION)
    assert hit.metadata == {"file": "moved.md"}


def test_passages_that_were_no_nodes_become_text_nodes_with_a_source(models):
    text = (
        "# Tower\n\nThe lighthouse of the bay was finished in 1874.\n\n# Paint\n\nIt is painted in red and white bands."
    )
    passages = [
        *cut(text, "tower.md", markdown=True),
        Passage("b", "The ferry is blue.", {"doc": "ferry", "tags": ["x"]}),
    ]
    index = PassageIndex.build(passages, passage_encoder=models.passage_encoder)
    retriever = SemclassRetriever(HybridRetriever(index, models))
    first, *_ = hits = retriever.retrieve(QUESTION)
    assert {hit.node_id: hit.node.ref_doc_id for hit in hits} == {
        "tower.md#1": "tower.md",
        "tower.md#2": "tower.md",
        "b": "ferry",
    }
    assert text[first.node.start_char_idx : first.node.end_char_idx] == first.text
    assert first.node.get_content(MetadataMode.EMBED) == first.text
    assert first.node.get_content(MetadataMode.LLM) == f"document: tower.md\nheading: Tower\n\n{first.text}"
    first.node.metadata["headings"].append("mine")  # what a caller does with a node stays there
    assert retriever.retrieve(QUESTION)[0].metadata["headings"] == ["Tower"]


@pytest.mark.parametrize("node", [ImageNode(id_="x", image_path="x.png"), TextNode(id_="x", text=" \n")])
def test_nodes_without_text_cannot_be_indexed(node):
    with pytest.raises(InputError, match=r"node 'x' has no text; leave out pictures"):
        to_passages([node])


def test_a_damaged_node_is_named(models):
    index = PassageIndex.build(
        [Passage("a", "A text.", {"_node_content": "{"})], passage_encoder=models.passage_encoder
    )
    with pytest.raises(InputError, match=r"'_node_content' in the metadata of the passage 'a'"):
        SemclassRetriever(HybridRetriever(index, models)).retrieve(QUESTION)


def test_what_is_of_another_kind_is_refused(plain, reranker):
    with pytest.raises(InputTypeError, match="must be LlamaIndex MetadataFilters"):
        SemclassRetriever(plain, filters={"a": 1})
    with pytest.raises(InputTypeError, match=r"must be a semclass\.HybridRetriever"):
        SemclassRetriever("my-index")
    with pytest.raises(InputTypeError, match=r"must be a semclass\.Reranker"):
        SemclassRerank(5)
    with pytest.raises(InputError, match="models and reranker cannot be combined"):
        SemclassRerank(reranker, models="models")
    with pytest.raises(ValueError, match="re-ranking needs a question"):
        SemclassRerank(reranker).postprocess_nodes(found())


def test_objects_behind_index_nodes_are_retrieved_from(plain, models):
    inner = SemclassRetriever(plain, similarity_top_k=1)
    nodes = [
        IndexNode(text="Documents about the lighthouse and its keepers.", index_id="tower", obj=inner),
        TextNode(text="The ferry is blue."),
    ]
    index = PassageIndex.build(to_passages(nodes), passage_encoder=models.passage_encoder)
    outer = SemclassRetriever(HybridRetriever(index, models), similarity_top_k=1, objects=nodes[:1])
    assert [hit.node_id for hit in outer.retrieve(QUESTION)] == ["p2"]
    assert nodes[0].obj is inner


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
def test_filters_that_cannot_be_said_are_named(filter_, message):
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
def test_filters_match_what_their_own_store_would(metadata, terms, condition):
    filters = MetadataFilters(filters=terms, condition=condition)
    theirs = build_metadata_filter_fn(lambda _: metadata, filters)("id")
    assert matches(parse(to_where(filters)), metadata) == theirs


def test_filters_and_where_hold_together(plain):
    filters = MetadataFilters(filters=[MetadataFilters(filters=[term("place", "==", 0)], condition="not")])
    retriever = SemclassRetriever(plain, filters=filters, where={"place": {"$ne": 2}})
    assert sorted(node.node_id for node in retriever.retrieve(QUESTION)) == ["p1", "p3"]


def test_metadata_counts_unless_it_is_excluded_and_a_title_stands_alone(reranker):
    def score(node):
        return SemclassRerank(reranker).postprocess_nodes([NodeWithScore(node=node)], query_str=QUESTION)[0].score

    def expected(text, **metadata):
        return reranker.rerank(QUESTION, [Passage("a", text, metadata)])[0].score

    text = "It was finished in October 1874."
    context = {"context": "On the lighthouse."}
    assert score(TextNode(text=text, metadata=context)) == expected(f"context: On the lighthouse.\n\n{text}")
    assert score(TextNode(text=text, metadata=context, excluded_embed_metadata_keys=["context"])) == expected(text)
    assert score(TextNode(text=text, metadata={"title": "Lighthouse"})) == expected(text, title="Lighthouse")


def test_a_picture_comes_last_as_a_picture(reranker):
    picture = NodeWithScore(node=ImageNode(id_="picture", image_path="x.png", metadata={"page": 1}), score=2.0)
    ranked = SemclassRerank(reranker).postprocess_nodes([picture, *found(TEXTS[:2])], query_str=QUESTION)
    assert (ranked[2].node_id, ranked[2].score) == ("picture", None)
    assert isinstance(ranked[2].node, ImageNode)


def test_a_postprocessor_is_written_and_read(reranker):
    made = SemclassRerank(top_n=2, score_threshold=0.1, models=str(ROOT / "models"), options={"method": "learned"})
    assert json.loads(made.to_json()) == made.to_dict()
    assert made.to_dict()["class_name"] == "SemclassRerank"
    same = SemclassRerank(reranker, top_n=2, score_threshold=0.1, options={"method": "learned"})
    expected = same.postprocess_nodes(found(), query_str=QUESTION)
    for again in (
        SemclassRerank.from_dict(made.to_dict()),
        pickle.loads(pickle.dumps(made)),  # noqa: S301 - its own bytes
    ):
        assert again.to_json() == made.to_json()
        assert again.postprocess_nodes(found(), query_str=QUESTION) == expected


@pytest.mark.parametrize("write", [SemclassRerank.to_dict, SemclassRerank.to_json, SemclassRerank.json, pickle.dumps])
def test_models_in_memory_cannot_be_written(reranker, write):
    with pytest.raises(ValueError, match="name folders instead"):
        write(SemclassRerank(reranker))


def test_a_copy_shares_the_models(reranker):
    copied = deepcopy(made := SemclassRerank(reranker, top_n=2, options={"fusion": "convex"}))
    copied.options["fusion"] = "linear"
    assert made.options == {"fusion": "convex"}
    assert copied._loaded.given is reranker


def test_events_tell_of_re_ranking(reranker):
    class Handler(BaseEventHandler):
        seen: ClassVar[list] = []

        def handle(self, event, **kwargs):
            self.seen.append(event)

    root = get_dispatcher()
    root.add_event_handler(handler := Handler())
    try:
        (best,) = SemclassRerank(reranker, top_n=1).postprocess_nodes(found(), query_str=QUESTION)
    finally:
        root.event_handlers.remove(handler)
    start, end = handler.seen
    assert (start.class_name(), end.class_name()) == ("ReRankStartEvent", "ReRankEndEvent")
    assert (start.query.query_str, len(start.nodes), start.top_n, end.nodes) == (QUESTION, 4, 1, [best])


def test_hyde_chooses_candidates_by_what_it_wrote(plain, reranker):
    transform = HyDEQueryTransform(llm=Scripted(says=TEXTS[3]), include_original=False)
    first = RetrieverQueryEngine.from_args(SemclassRetriever(plain, similarity_top_k=1, method="dense"))
    assert first.retrieve(QueryBundle(QUESTION))[0].node_id == "p2"
    engine = TransformQueryEngine(first, transform)
    assert [node.node_id for node in engine.query(QUESTION).source_nodes] == ["p3"]
    assert [node.node_id for node in asyncio.run(engine.aquery(QUESTION)).source_nodes] == ["p3"]


def test_what_hyde_found_is_re_ranked_for_the_question(plain):
    bundle = QueryBundle(QUESTION, custom_embedding_strs=[TEXTS[3], TEXTS[2]])
    options = {"candidates": 2, "weights": {"alpha": 1.0}, "where": {"place": {"$gte": 1}}}
    got = SemclassRetriever(plain, similarity_top_k=2, **options).retrieve(bundle)
    hits = plain.search(QUESTION, 2, where={"_id": {"$in": ["p2", "p3"]}}, weights={"alpha": 1.0})
    assert [node.node_id for node in got] == [hit.id for hit in hits] == ["p2", "p3"]


def test_hyde_finds_nothing_where_nothing_matches_and_refuses_an_empty_text(plain):
    bundle = QueryBundle(QUESTION, custom_embedding_strs=[TEXTS[3]])
    for options in ({}, {"method": "convex"}):
        assert SemclassRetriever(plain, where={"place": 9}, **options).retrieve(bundle) == []
    with pytest.raises(InputError, match="empty"):
        SemclassRetriever(plain).retrieve(QueryBundle(QUESTION, custom_embedding_strs=[""]))


CHOICES = [
    ToolMetadata(name="figures", description="Numbers and dates."),
    ToolMetadata(name="people", description="Who is who."),
]


@pytest.fixture(scope="module")
def classes():
    return {"figures": "NUM", "people": ["HUM"]}


def test_a_tool_is_chosen_by_what_the_question_asks_for(models, classes):
    selector = SemclassSelector(classes, classifier=models.questions)
    chosen = selector.select(CHOICES, "When was it finished?")
    assert chosen.ind == 0
    assert chosen.reason.startswith("the question asks for NUM:date (probability 0.")
    assert "'figures' is for NUM" in chosen.reason
    assert selector.select(CHOICES, QueryBundle("Who designed it?")).ind == 1
    assert asyncio.run(selector.aselect(CHOICES, "Who designed it?")).ind == 1


def test_fine_classes_tell_tools_apart(models):
    selector = SemclassSelector({"dates": "NUM:date", "other figures": "NUM"}, classifier=models.questions)
    chosen = selector.select(["other figures", "dates"], "What does a ticket cost?")
    assert chosen.ind == 0
    # of equals the first: a date is a number, too
    sums = SemclassSelector({"dates": ["NUM", "NUM:date"], "all": "NUM"}, classifier=models.questions)
    assert sums.select(["dates", "all"], "When was it finished?").ind == 0


def test_the_default_is_for_what_no_other_tool_is_for(models):
    choices = [*CHOICES, ToolMetadata(name="rest", description="All else.")]
    selector = SemclassSelector({"figures": "NUM", "people": "HUM"}, default="rest", classifier=models.questions)
    assert selector.select(choices, "Where is the museum?").ind == 2
    assert "'rest' is for all else" in selector.select(choices, "Where is the museum?").reason
    sure = SemclassSelector(
        {"figures": "NUM", "people": "HUM"}, default="rest", min_probability=1.0, classifier=models.questions
    )
    assert sure.select(choices, "Who designed it?").ind == 2


@pytest.mark.parametrize(
    ("classes", "options", "message"),
    [
        ({"a": "NUMBER"}, {}, r"classes\['a'\] is 'NUMBER'; it must be one of 'ABBR'"),
        ({}, {}, "classes is empty"),
        ({"a": "NUM"}, {"default": "a"}, "the default 'a' is also in classes"),
        ({"a": "NUM"}, {"min_probability": 0.5}, "needs default"),
        ({"a": "NUM"}, {"min_probability": 2, "default": "b"}, "must be a probability"),
        (["NUM"], {}, "classes must be a mapping"),
        ({"a": [3]}, {}, r"classes\['a'\]\[0\] must be a string"),
        ({"a": "NUM"}, {"classifier": "x"}, "classifier must be a semclass"),
    ],
)
def test_a_selector_is_checked_when_it_is_made(models, classes, options, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        SemclassSelector(classes, **{"classifier": models.questions, **options})


def test_choices_and_classes_must_fit(models, classes):
    selector = SemclassSelector(classes, classifier=models.questions)
    for choices in ([*CHOICES, "maps"], CHOICES[:1], [*CHOICES, *CHOICES]):
        with pytest.raises(InputError, match=r"the tools are .* but classes has"):
            selector.select(choices, QUESTION)
    with pytest.raises(InputError, match="empty"):
        selector.select(CHOICES, " ")


class Words(TextModel):
    """Stands in for a model that was trained on labels of one's own."""

    def __init__(self, multi_label=False):
        object.__setattr__(self, "classes", ("sea", "land"))
        object.__setattr__(self, "multi_label", multi_label)

    def classify(self, texts, *, min_probability=None):
        (text,) = texts
        chances = {"sea": 0.75, "land": 0.25} if "ferry" in text else {"sea": 0.25, "land": 0.75}
        return [TextLabels(text, (max(chances, key=chances.__getitem__),), chances)]


def test_labels_of_ones_own_choose_tools():
    selector = SemclassSelector({"ships": "sea"}, default="rest", classifier=Words())
    assert selector.select(["ships", "rest"], "When does the ferry sail?").ind == 0
    chosen = selector.select(["ships", "rest"], "How high is the tower?")
    assert chosen.ind == 1
    assert chosen.reason == "the question asks for land (probability 0.75); 'rest' is for all else (0.75)"
    with pytest.raises(InputError, match="must be one of 'sea', 'land'"):
        SemclassSelector({"ships": "NUM"}, classifier=Words())
    with pytest.raises(InputError, match="several classes per text"):
        SemclassSelector({"ships": "sea"}, classifier=Words(multi_label=True))


def test_the_example_answers_with_sources():
    pytest.importorskip("llama_index.llms.openai_like", reason="llama-index-llms-openai-like is not installed")
    ran = run_python(EXAMPLES / "llama_index_rag.py")
    assert (ran.returncode, ran.stderr) == (0, "")
    steps = ("Contextual chunks", "Query rewriting", "Sub-questions", "HyDE", "Routed", "Retrieved and re-ranked")
    assert all(f"\n{step}" in ran.stdout for step in steps)
    assert all(f"asks for {name} " in ran.stdout for name in ("HUM:ind", "NUM:money"))
    answer, _, sources = ran.stdout.partition("\nAnswer:")[2].partition("\nSources:")
    assert "The engineer Ada Merriweather designed the tower. [1]" in answer
    assert "A return ticket costs 12.40 euros" in answer
    assert "lighthouse.md" in sources
    assert "ferry.md" in sources
