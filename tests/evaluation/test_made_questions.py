"""Questions made of passages: what rules and a language model write, and what the filter keeps."""

import json
import time
from dataclasses import replace

import pytest
from conftest import FAKE, passages

from bench.stub_endpoint import stub_endpoint
from semclass import HybridRetriever, InputError, Models, Passage, PassageIndex, QuestionClassifier
from semclass.endpoint.client import Endpoint
from semclass.endpoint.reading import questions_of
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.made_questions import keep_good, sample_drafts, sample_passages, write_questions
from semclass.evaluation.question_prompts import KIND, write_by_model
from semclass.evaluation.question_rules import KINDS, QUESTIONS, Draft, Span, asked_for, find_spans, write_by_rules

PUMP = Passage(
    "pump",
    "Ada Voss has designed the pump since 2012. It weighs much less than the older one, which stood in the cellar.",
    {"title": "Replacing the pump of the boiler"},
)
CODE = Passage("code", "pub fn merge_tables(a: Table) -> Table {\n    a\n}\n\nclass Renderer:\n    pass\n")
FINE = Passage("fine", "A pellet stove is a heater that burns pressed wood. The stove stands for warmth in many homes.")


@pytest.fixture(scope="module")
def drafts(models):
    return list(write_by_rules([PUMP, CODE, FINE], models, KINDS))


def written(drafts, passage, kind):
    return {draft.text: draft.answer for draft in drafts if (draft.passage, draft.kind) == (passage, kind)}


# -- rules


def test_headings_and_definitions_become_questions(drafts):
    assert list(written(drafts, "pump", "heading")) == ["How do I go about replacing the pump of the boiler?"]
    assert list(written(drafts, "code", "definition")) == [
        "What does the function merge_tables do?",
        "What is the class Renderer for?",
    ]
    assert list(written(drafts, "fine", "definition")) == [
        "What is a pellet stove?",
        "What does the stove stand for?",
    ]


@pytest.mark.parametrize(
    ("metadata", "question"),
    [
        ({"headings": ["Boiler manual", "Warranty of the burner"]}, "Warranty of the burner"),
        ({"headings": ["4. Boiler manual", "4.1.2 Warranty of the burner"]}, "Warranty of the burner"),
        ({"headings": ["4. Boiler manual", "IV. Warranty"]}, "Boiler manual: Warranty"),
        ({"title": "7.20.1. Activating the burner"}, "How do I go about activating the burner?"),
        ({"title": "Chapter 3: What is a burner?"}, "What is a burner?"),
        ({"title": "1.5 litres of oil"}, "1.5 litres of oil"),
        ({"title": "3 parts of a burner"}, "3 parts of a burner"),
        ({"headings": ["Boiler manual", 7, " ", "Warranty"]}, "Boiler manual: Warranty"),
        ({"title": "How to clean the burner"}, "How do I clean the burner?"),
        ({"title": "What is a burner?"}, "What is a burner?"),
        ({"title": "4.2"}, None),
        ({}, None),
    ],
)
def test_what_a_heading_becomes(models, metadata, question):
    drafts = write_by_rules([Passage("p", "Two years.", metadata)], models, ["heading"])
    assert next((draft.text for draft in drafts), None) == question


def test_a_passage_that_is_a_title_alone_is_no_answer(models):
    title = Passage("title", "", {"title": "Warranty of the burner"})
    retriever = HybridRetriever(PassageIndex.build([title, PUMP], passage_encoder=models.passage_encoder), models)
    made = keep_good(retriever, list(write_by_rules([title], models)))
    assert made.counts() == {"heading": {"kept": 0, "passage itself": 1}}


def test_names_and_dates_are_asked_for_and_are_the_answers(drafts):
    found = written(drafts, "pump", "entity")
    assert found["Who has designed the pump since 2012?"] == "Ada Voss"
    assert found["When has Ada Voss designed the pump?"] == "2012"


def test_kinds_that_ask_for_something_are_made_unless_others_are_named(models, drafts):
    assert list(write_by_rules([PUMP, FINE], models)) == [
        draft for draft in drafts if draft.kind in QUESTIONS and draft.passage != "code"
    ]
    with pytest.raises(InputError, match="'keywords'"):
        list(write_by_rules([PUMP], models, ["titles"]))


def test_first_sentences_and_keywords_are_no_questions_but_are_typed_into_search_boxes(drafts):
    assert list(written(drafts, "fine", "first")) == ["A pellet stove is a heater that burns pressed wood"]
    (keywords,) = written(drafts, "fine", "keywords")
    assert len(keywords.split()) == 4
    assert not written(drafts, "code", "first")  # source code has no sentences


@pytest.mark.parametrize(
    ("sentence", "answer", "kind", "question"),
    [
        ("Marie Curie discovered two new elements.", "Marie Curie", "person", "Who discovered two new elements?"),
        ("The firm was founded in Oslo in 1970.", "Oslo", "place", "Where was the firm founded in 1970?"),
        ("The firm moved to Oslo in 1970.", "1970", "date", "When did the firm move to Oslo?"),
        ("In 1970 the firm was sold to a bank.", "1970", "date", "When was the firm sold to a bank?"),
        ("The fleet has 40 ships in all waters.", "40", "number", "How many ships has the fleet in all waters?"),
        ("The share was 40 % in all regions.", "40", "number", "What percentage was the share in all regions?"),
        ("It was founded in Oslo in 1970.", "Oslo", "place", None),  # nobody knows what "it" is
        ("The firm left the town of Oslo.", "Oslo", "place", None),  # "left" has no infinitive here
        ("The treaty was signed in New Delhi.", "Delhi", "place", None),  # half a name
    ],
)
def test_what_is_asked_for_in_a_sentence(sentence, answer, kind, question):
    start = sentence.index(answer)
    found = asked_for(sentence, Span(start, start + len(answer), kind), {"move": 1})
    assert found == question


def test_names_are_found_in_text_without_capitals(models):
    (spans,) = find_spans(["abc was founded by david sarnoff in new york in 1943."], models)
    assert [(span.start, span.end, span.kind) for span in spans] == [
        (19, 32, "person"),
        (36, 44, "place"),
        (48, 52, "date"),
    ]


def test_rules_without_a_model_for_names_leave_names_out(models, drafts):
    found = list(write_by_rules([PUMP, CODE, FINE], replace(models, placed=None), KINDS))
    assert found == [draft for draft in drafts if draft.kind != "entity"]


# -- the filter


def test_questions_are_kept_whose_passage_is_found_and_answers(retriever):
    made = keep_good(
        retriever,
        [
            Draft("Who runs the archive and the sail loft?", "museum-1", "a"),
            Draft("Who runs the archive and the sail loft??", "museum-1", "a"),
            Draft("Who designed the tower?", "ferry-2", "a"),
            Draft("How high is the highest mountain of Peru?", "town-2", "b"),
            Draft("What does the passage say of the lens?", "lighthouse-6", "b"),
            Draft("Is Helena Voss director of the museum?", "museum-5", "b", "Helena Voss"),
            Draft("A tide table for the bay hangs at the harbour office and is printed every Friday", "tide-3", "b"),
        ],
        found=3,
    )
    assert [(question.text, question.rank, question.label) for question in made.kept] == [
        ("Who runs the archive and the sail loft?", 1, "HUM")
    ]
    assert made.counts() == {
        "a": {"kept": 1, "repeated": 1, "not found": 1},
        "b": {"kept": 0, "not found": 1, "gives the answer": 2, "passage itself": 1},
    }


def test_a_passage_that_is_found_need_not_answer(retriever):
    draft = Draft("Why was the museum closed by the county in the war of 1848?", "museum-4", "a")
    assert keep_good(retriever, [draft], found=30).counts() == {"a": {"kept": 0, "not answered": 1}}


def test_without_heads_a_question_is_kept_whose_passage_is_found():
    bare = Models(QuestionClassifier(FAKE.encoder, None), FAKE, None)
    retriever = HybridRetriever(PassageIndex.build(passages(*range(20)), passage_encoder=FAKE), bare)
    made = keep_good(retriever, [Draft("green1 what", "1", "a"), Draft("what green1", "15", "a")], found=2)
    assert [(question.passage, question.label) for question in made.kept] == [("1", "")]
    assert made.counts() == {"a": {"kept": 1, "repeated": 1}}


def test_a_question_to_an_unknown_passage_is_refused(retriever):
    with pytest.raises(InputError, match="'nowhere'"):
        keep_good(retriever, [Draft("Who?", "nowhere", "a")])


def test_passages_and_drafts_are_drawn_by_a_seed(models, corpus):
    copies = [*corpus[:5], Passage("copy", corpus[0].text, {"duplicate_of": corpus[0].id})]
    retriever = HybridRetriever(PassageIndex.build(copies, passage_encoder=models.passage_encoder), models)
    assert sample_passages(retriever, 10) == copies[:5]
    drawn = [sample_passages(retriever, 3, seed=seed) for seed in range(9)]
    assert drawn[2] == sample_passages(retriever, 3, seed=2)
    assert len({tuple(passage.id for passage in some) for some in drawn}) > 1
    drafts = [Draft(f"{kind} {number}", "p", kind) for kind in "aab" for number in range(5)]
    taken = sample_drafts(drafts, 2)
    assert sorted(draft.kind for draft in taken) == ["a", "b"]  # kinds take turns


def test_the_folder_is_read_as_a_beir_folder_whose_corpus_is_the_index(retriever, tmp_path):
    made = keep_good(retriever, [Draft("Who runs the archive and the sail loft?", "museum-1", "entity", "The Trust")])
    write_questions(tmp_path, made, {"seed": 0})
    dataset = load_dataset(tmp_path, corpus=False)
    assert dataset.questions == {"made1": "Who runs the archive and the sail loft?"}
    assert dataset.relevance == {"made1": {"museum-1": 1}}
    record = json.loads((tmp_path / "queries.jsonl").read_text())
    assert record["metadata"] == {"kind": "entity", "label": "HUM", "answer": "The Trust"}
    said = json.loads((tmp_path / "made.json").read_text())
    assert said == {"seed": 0, "questions": 1, "counts": {"entity": {"kept": 1}}}
    with pytest.raises(InputError, match="not found"):
        write_questions(tmp_path, keep_good(retriever, [Draft("Who designed the tower?", "ferry-2", "a")], found=1), {})


# -- a language model


def test_lines_that_are_questions_are_read_from_a_reply():
    reply = (
        'Here are they:\n1. Who won?\n- "Why?"\n\nQ3: Where was it?\nWhere was it?\n2012 was what year?\nThat is all.'
    )
    assert questions_of(reply) == ["Who won?", "Why?", "Where was it?", "2012 was what year?"]


def test_a_model_writes_questions_and_what_went_wrong_is_counted(monkeypatch, tmp_path):
    pytest.importorskip("openai")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    texts = [Passage(str(number), f"text {number}.") for number in range(4)]
    said = {"text 0.": "What is 0?\nWhy is 0?\nWho is 0?", "text 1.": "I cannot help.", "text 2.": 500, "text 3.": 400}

    def rule(prompt, before):
        return said[prompt.split("\n")[-1]]

    with stub_endpoint(rule) as stub:
        endpoint = Endpoint(stub.url, "m", retries=0, concurrency=2, cache=tmp_path / "kept.jsonl")
        drafts, calls = write_by_model(texts, endpoint, 2)
        again, cached = write_by_model(texts, endpoint, 2)
    assert drafts == again == [Draft("What is 0?", "0", KIND), Draft("Why is 0?", "0", KIND)]
    assert {name: calls[name] for name in ("made", "refused", "failed", "no question")} == {
        "made": 4,
        "refused": 1,
        "failed": 1,
        "no question": 1,
    }
    assert calls["prompt_tokens"] > 100
    assert cached["cached"] == 2
    assert cached["prompt_tokens"] == 0
