"""Components for Haystack, in its own pipelines: what they promise, how they are saved, and what they refuse."""

from __future__ import annotations

import asyncio
import doctest
import json
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest
from filter_oracle import matches
from scripts import EXAMPLES, TEXTS, WHEN, run_python, save_index
from world import MODELS

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before haystack is imported, which reads it then
pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.joiners import BranchJoiner
from haystack.document_stores.types import FilterPolicy
from haystack.errors import FilterError
from haystack.testing.document_store import FilterDocumentsTest

from semclass import ABSTAIN, InputError, InputTypeError, TextClassifier
from semclass.index import filters
from semclass_integrations import haystack_filters, shared
from semclass_integrations.haystack import SemclassRanker, SemclassRetriever
from semclass_integrations.haystack_filters import to_where
from semclass_integrations.haystack_router import SemclassQueryClassifier, SemclassQueryRouter

pytestmark = pytest.mark.extras

MODULES = "semclass_integrations.*"
WHO = "Who built the bridge?"


@pytest.fixture
def documents() -> list[Document]:
    return [Document(id=name, content=text, meta={"page": page}) for page, (name, text) in enumerate(TEXTS.items())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models) -> str:
    """A saved index of the three texts."""
    return save_index(tmp_path_factory.mktemp("haystack") / "index", models)


@pytest.fixture(scope="module")
def head(tmp_path_factory, encoder) -> str:
    """A head for a taxonomy of one's own."""
    asked = ["Can I renew my card?", "When do you open?", "Where can I print?", "Is there a reading room?"]
    chatted = ["Hello there!", "You are funny.", "Good night.", "How are you today?"]
    path = tmp_path_factory.mktemp("head") / "head"
    TextClassifier().fit(asked + chatted, ["in scope"] * 4 + ["chit-chat"] * 4).save(path)
    return str(path)


def components(folder: str) -> list:
    """One of each, with arguments other than the default where that is possible, and with defaults."""
    late = {"field": "meta.page", "operator": ">=", "value": 1}
    ranking = {"top_k": 3, "score_threshold": 0.1, "method": "class-integrated", "meta_fields_to_embed": ["title"]}
    search = {"filters": late, "filter_policy": "merge", "top_k": 2, "candidates": 20, "method": "convex"}
    return [
        SemclassRanker(MODELS, threads=2, details=True, **ranking),
        SemclassRetriever(Path(folder), models=MODELS, threads=2, details=True, **search),
        SemclassQueryRouter(["NUM:date", "NUM"], min_probability=0.25, models=MODELS, threads=2),
        SemclassQueryRouter(["in scope"], model="my-head", encoder="hub:my-model"),
        SemclassQueryClassifier("my-head", min_probability=0.75, models=MODELS),
        SemclassRanker(),
        SemclassRetriever("somewhere"),
        SemclassQueryRouter(),
        SemclassQueryClassifier(),
    ]


class TestRanker:
    def test_of_documents_with_one_id_the_best_stays(self, documents):
        twice = [replace(documents[1], score=0.1, meta={"from": "bm25"}), *documents]
        twice.append(replace(documents[1], score=0.9, meta={"from": "vectors"}))
        found = SemclassRanker(MODELS, method="learned").run(WHEN, twice)["documents"]
        assert sorted(item.id for item in found) == ["red", "when", "who"]
        assert [item.meta for item in found if item.id == "when"] == [{"from": "vectors"}]

    def test_limits_of_a_run_come_before_those_of_the_component(self, documents):
        ranker = SemclassRanker(MODELS, top_k=2)
        assert [len(ranker.run(WHEN, documents, top_k=k)["documents"]) for k in (None, 1, 3, 100)] == [2, 1, 3, 3]
        assert ranker.run(WHEN, documents, score_threshold=1.1)["documents"] == []

    def test_fields_of_meta_are_read_if_they_are_named(self):
        named = [
            Document(id="a", content="It was opened in 1874.", meta={"title": "Lighthouse"}),
            Document(id="b", content="It was opened in 1902.", meta={"title": "Railway bridge", "year": 1902}),
            Document(id="c", content="It was opened in 1911.", meta={"title": None}),
        ]
        question = "When was the railway bridge opened?"
        plain = SemclassRanker(MODELS).run(question, named)["documents"]
        read = SemclassRanker(MODELS, meta_fields_to_embed=["title", "year", "none"]).run(question, named)["documents"]
        assert read[0].id == "b"
        assert read[0].content == "It was opened in 1902."
        lead, before = (found[0].score - found[1].score for found in (read, plain))
        assert lead > before

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"score_threshold": "0.5"}, "score_threshold must be a number"),
            ({"score_threshold": float("nan")}, "score_threshold is nan"),
            ({"meta_fields_to_embed": "title"}, "must be a sequence of strings"),
            ({"models": 3}, "models must be a path"),
        ],
    )
    def test_refuses_what_it_does_not_know(self, options, message):
        with pytest.raises((InputError, InputTypeError), match=message):
            SemclassRanker(**options)


class TestRetriever:
    def test_filters_of_a_run_replace_or_join_those_of_the_component(self, folder):
        late = {"field": "meta.page", "operator": ">=", "value": 1}
        early = {"field": "meta.page", "operator": "<=", "value": 1}

        def ids(policy, asked):
            retriever = SemclassRetriever(folder, models=MODELS, filters=late, filter_policy=policy)
            return sorted(item.id for item in retriever.run(WHEN, filters=asked)["documents"])

        assert ids("replace", None) == ["when", "who"]
        assert ids("replace", early) == ["red", "when"]
        # a merge never widens what the component may find
        assert ids("merge", early) == ["when"]
        assert ids(FilterPolicy.MERGE, {"operator": "OR", "conditions": [early]}) == ["when"]
        assert ids(FilterPolicy.MERGE, {}) == ["when", "who"]

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"filter_policy": "sometimes"}, ValueError),
            ({"filters": {"field": "content", "operator": "==", "value": "x"}}, FilterError),
            ({"candidates": 0}, InputError),
            ({"encoder": object()}, InputTypeError),
        ],
    )
    def test_refuses_what_it_does_not_know(self, options, error):
        with pytest.raises(error):
            SemclassRetriever("folder", **options)


class IndexAsStore:
    """What Haystack's tests of filters ask of a document store, over passages and their metadata."""

    def __init__(self):
        self.documents = []

    def write_documents(self, documents):
        self.documents = list(documents)

    def filter_documents(self, filters_=None, **named):
        asked = named.get("filters", filters_)
        condition = filters.parse(to_where(asked) if asked else {})
        return [item for item in self.documents if matches(condition, item.meta, item.id)]


class TestFilters(FilterDocumentsTest):
    """Haystack's own tests of what its filter language means."""

    @pytest.fixture
    def document_store(self):
        return IndexAsStore()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"field": "score", "operator": ">", "value": 0.5}, "'score'"),
        ({"field": "meta", "operator": "==", "value": "x"}, "'meta'"),
        ({"field": "meta._id", "operator": "==", "value": "x"}, "'meta._id'"),
        ({"field": 3, "operator": "==", "value": "x"}, "give a name such as"),
        ({"field": "id", "operator": ">", "value": 3}, "the order of ids"),
        ({"field": "meta.page", "operator": "==", "value": [1]}, "cannot be applied"),
        ({"field": "meta.page", "operator": "in", "value": 1}, "must be a list"),
        ({"field": "meta.page", "operator": "~", "value": 1}, "has the operator '~'"),
        ({"field": "meta.page", "operator": ">", "value": "ten"}, "a date in ISO 8601"),
        ({"operator": "XOR", "conditions": []}, "has the operator 'XOR'"),
        ({"operator": "AND", "conditions": ["page"]}, r"filters\['conditions'\]\[0\] must be a mapping"),
        ({"page": 3}, "has no key 'operator'"),
    ],
)
def test_what_a_filter_cannot_say_is_named(condition, message):
    with pytest.raises(FilterError, match=message) as caught:
        to_where(condition)
    assert isinstance(caught.value, InputError)


def test_a_filter_nested_without_end_is_refused():
    condition = {"field": "page", "operator": "==", "value": 1}
    for _ in range(5000):
        condition = {"operator": "NOT", "conditions": [condition]}
    with pytest.raises(FilterError, match="nested"):
        to_where(condition)


class TestRouter:
    def test_sends_a_query_to_its_class(self):
        router = SemclassQueryRouter(["NUM:date", "NUM", "HUM"], models=MODELS)
        assert router.run(query=WHEN) == {"NUM:date": WHEN}
        assert router.run(query="How tall is the bridge?") == {"NUM": "How tall is the bridge?"}
        assert router.run(query=WHO) == {"HUM": WHO}
        assert router.run(query="Where is the bridge?") == {"unmatched": "Where is the bridge?"}

    def test_a_query_of_which_it_is_not_sure_matches_nothing(self):
        assert SemclassQueryRouter(min_probability=1.0, models=MODELS).run(WHEN) == {"unmatched": WHEN}
        # sure of a number, and not which kind
        found = SemclassQueryClassifier(models=MODELS).run(WHEN)
        between = (found["probability"] + found["fine_probability"]) / 2
        router = SemclassQueryRouter(["NUM:date", "NUM"], min_probability=between, models=MODELS)
        assert router.run(WHEN) == {"NUM": WHEN}

    def test_a_taxonomy_of_ones_own(self, head):
        router = SemclassQueryRouter(["in scope", "chit-chat"], model=head)
        assert router.run("Are dogs allowed?") == {"in scope": "Are dogs allowed?"}
        assert router.run("See you soon!") == {"chit-chat": "See you soon!"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"classes": ["NUM", "unmatched"]}, "reserved name 'unmatched'"),
            ({"classes": ["NUM", "NUM"]}, "comes twice"),
            ({"model": "my-head"}, "the classes of my-head"),
            ({"min_probability": 2}, "from 0 to 1"),
        ],
    )
    def test_refuses_what_cannot_be(self, arguments, message):
        with pytest.raises(InputError, match=message):
            SemclassQueryRouter(**arguments)

    def test_a_class_that_the_model_does_not_have_is_told_when_it_is_loaded(self):
        with pytest.raises(InputError, match=r"classes has the unknown class 'WHY'; known classes are ABBR"):
            SemclassQueryRouter(["NUM", "WHY"], models=MODELS).warm_up()


class TestClassifier:
    def test_tells_label_and_probabilities(self):
        found = SemclassQueryClassifier(models=MODELS).run(WHEN)
        assert (found["label"], found["fine_label"]) == ("NUM", "NUM:date")
        assert found["probability"] == found["probabilities"]["NUM"] > 0.9
        assert found["fine_probability"] == found["fine_probabilities"]["NUM:date"]
        assert set(found) == set(SemclassQueryClassifier().__haystack_output__._sockets_dict)
        assert SemclassQueryClassifier(models=MODELS, min_probability=1.0).run(WHEN)["label"] == ABSTAIN

    def test_a_taxonomy_of_ones_own_has_no_fine_classes(self, head):
        classifier = SemclassQueryClassifier(head)
        found = classifier.run("Are dogs allowed?")
        assert found["label"] == "in scope"
        assert (
            set(found) == {"label", "probability", "probabilities"} == set(classifier.__haystack_output__._sockets_dict)
        )

    @pytest.mark.parametrize("made", [SemclassQueryClassifier, SemclassQueryRouter])
    def test_async_and_empty_queries(self, made):
        one = made(models=MODELS)
        assert asyncio.run(one.run_async(query=WHEN)) == one.run(WHEN)
        with pytest.raises(ValueError, match="is empty"):
            one.run(query="")
        with pytest.raises(InputTypeError):
            one.run(query=None)


class TestSaving:
    @pytest.mark.parametrize("place", range(9))
    def test_a_component_comes_back_as_it_was_and_loads_nothing(self, folder, place, monkeypatch):
        monkeypatch.setattr(shared, "load_encoder", None)
        made = components(folder)[place]
        data = made.to_dict()
        assert json.loads(json.dumps(data)) == data
        assert data["type"] == f"{type(made).__module__}.{type(made).__name__}"
        again = type(made).from_dict(data)
        assert again.to_dict() == data


class TestPipelines:
    def test_each_class_has_a_branch_of_its_own(self, folder):
        pipeline = Pipeline()
        pipeline.add_component("router", SemclassQueryRouter(["NUM", "HUM"], models=MODELS, min_probability=0.5))
        for name, page in (("NUM", 1), ("HUM", 2)):
            condition = {"field": "meta.page", "operator": "==", "value": page}
            pipeline.add_component(name, SemclassRetriever(folder, models=MODELS, filters=condition))
            pipeline.connect(f"router.{name}", f"{name}.query")
        pipeline.add_component("joiner", BranchJoiner(list[Document]))
        pipeline.connect("NUM", "joiner")
        pipeline.connect("HUM", "joiner")
        again = Pipeline.loads(pipeline.dumps(), allowed_modules=[MODULES])
        for made in (pipeline, again):
            assert [item.id for item in made.run({"router": {"query": WHEN}})["joiner"]["value"]] == ["when"]
            assert [item.id for item in made.run({"router": {"query": WHO}})["joiner"]["value"]] == ["who"]
            assert made.run({"router": {"query": "Where is it?"}}) == {"router": {"unmatched": "Where is it?"}}

    def test_documents_of_haystack_have_no_field_that_a_copy_would_lose(self):
        # a field that is added to documents is kept by dataclasses.replace, but filters must know of it
        names = {item.name for item in fields(Document)} - {"id", "meta"}
        assert names == set(haystack_filters._NOT_PASSAGES)


def test_a_closed_component_lets_go_of_its_models_and_loads_them_again(documents):
    ranker = SemclassRanker(MODELS)
    first = ranker.run(WHEN, documents)
    ranker.close()
    assert not ranker._loaded._values
    assert ranker.run(WHEN, documents) == first


def test_examples_of_docstrings_say_what_comes_out():
    assert doctest.testmod(haystack_filters) == (0, 1)


def test_the_example_answers_with_its_sources(tmp_path):
    done = run_python("-W", "error", EXAMPLES / "haystack_rag.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    steps = [line.rstrip(":") for line in done.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    expected = ["Query rewriting", "Sub-questions", "HyDE", "Retrieved, with HyDE", "Re-ranked", "Answer", "Sources"]
    assert [step for step in steps if step in expected] == expected
    assert "  Who designed the lighthouse, and how high is it?\n" in done.stdout
    answer = done.stdout.partition("\nAnswer:\n")[2]
    assert "Ada Merriweather designed the tower. [1]" in answer
    assert "lighthouse.md#" in answer
