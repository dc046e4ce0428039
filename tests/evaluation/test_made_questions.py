"""Questions made of passages: headings, what a language model writes, and what the filter keeps."""

import json
import time

import pytest
from stub_endpoint import stub_endpoint
from world import FAKE, passages

from semclass import HybridRetriever, InputError, Models, Passage, PassageIndex, QuestionClassifier
from semclass.evaluation.dataset import load_dataset
from semclass.evaluation.made_questions import Draft, keep_good, sample_passages, write_questions
from semclass.evaluation.question_headings import write_from_headings
from semclass_llm.endpoint.client import Endpoint
from semclass_llm.endpoint.reading import questions_of
from semclass_llm.question_prompts import write_by_model

PUMP = Passage(
    "pump",
    "It weighs much less than the older one, which stood in the cellar.",
    {"title": "Replacing the pump of the boiler"},
)


# -- headings


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
def test_what_a_heading_becomes(metadata, question):
    drafts = list(write_from_headings([Passage("p", "Two years.", metadata)]))
    assert drafts == ([] if question is None else [Draft(question, "p")])


def test_a_passage_that_is_a_title_alone_is_no_answer(models):
    title = Passage("title", "", {"title": "Warranty of the burner"})
    retriever = HybridRetriever(PassageIndex.build([title, PUMP], passage_encoder=models.passage_encoder), models)
    made = keep_good(retriever, list(write_from_headings([title])))
    assert made.counts() == {"kept": 0, "passage itself": 1}


# -- the filter


def test_questions_are_kept_whose_passage_is_found_and_answers(retriever):
    made = keep_good(
        retriever,
        [
            Draft("Who runs the archive and the sail loft?", "museum-1"),
            Draft("Who runs the archive and the sail loft??", "museum-1"),
            Draft("Who designed the tower?", "ferry-2"),
            Draft("How high is the highest mountain of Peru?", "town-2"),
            Draft("What does the passage say of the lens?", "lighthouse-6"),
            Draft("A tide table for the bay hangs at the harbour office and is printed every Friday", "tide-3"),
        ],
        found=3,
    )
    assert [(question.text, question.rank, question.label) for question in made.kept] == [
        ("Who runs the archive and the sail loft?", 1, "HUM")
    ]
    assert made.counts() == {
        "kept": 1,
        "repeated": 1,
        "not found": 2,
        "speaks of the passage": 1,
        "passage itself": 1,
    }


def test_a_passage_that_is_found_need_not_answer(retriever):
    draft = Draft("Why was the museum closed by the county in the war of 1848?", "museum-4")
    assert keep_good(retriever, [draft], found=30).counts() == {"kept": 0, "not answered": 1}


def test_without_heads_a_question_is_kept_whose_passage_is_found():
    bare = Models(QuestionClassifier(FAKE.encoder, None), FAKE, None)
    retriever = HybridRetriever(PassageIndex.build(passages(*range(20)), passage_encoder=FAKE), bare)
    made = keep_good(retriever, [Draft("green1 what", "1"), Draft("what green1", "15")], found=2)
    assert [(question.passage, question.label) for question in made.kept] == [("1", "")]
    assert made.counts() == {"kept": 1, "repeated": 1}


def test_a_question_to_an_unknown_passage_is_refused(retriever):
    with pytest.raises(InputError, match="'nowhere'"):
        keep_good(retriever, [Draft("Who?", "nowhere")])


def test_passages_are_drawn_by_a_seed(models, corpus):
    copies = [*corpus[:5], Passage("copy", corpus[0].text, {"duplicate_of": corpus[0].id})]
    retriever = HybridRetriever(PassageIndex.build(copies, passage_encoder=models.passage_encoder), models)
    assert sample_passages(retriever, 10) == copies[:5]
    drawn = [sample_passages(retriever, 3, seed=seed) for seed in range(9)]
    assert drawn[2] == sample_passages(retriever, 3, seed=2)
    assert len({tuple(passage.id for passage in some) for some in drawn}) > 1


def test_the_folder_is_read_as_a_beir_folder_whose_corpus_is_the_index(retriever, tmp_path):
    made = keep_good(retriever, [Draft("Who runs the archive and the sail loft?", "museum-1")])
    write_questions(tmp_path, made, {"seed": 0})
    dataset = load_dataset(tmp_path, corpus=False)
    assert dataset.questions == {"made1": "Who runs the archive and the sail loft?"}
    assert dataset.relevance == {"made1": {"museum-1": 1}}
    record = json.loads((tmp_path / "queries.jsonl").read_text())
    assert record["metadata"] == {"label": "HUM"}
    said = json.loads((tmp_path / "made.json").read_text())
    assert said == {"seed": 0, "questions": 1, "counts": {"kept": 1}}
    with pytest.raises(InputError, match="not found"):
        write_questions(tmp_path, keep_good(retriever, [Draft("Who designed the tower?", "ferry-2")], found=1), {})


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
    assert drafts == again == [Draft("What is 0?", "0"), Draft("Why is 0?", "0")]
    assert {name: calls[name] for name in ("made", "refused", "failed", "no question")} == {
        "made": 4,
        "refused": 1,
        "failed": 1,
        "no question": 1,
    }
    assert calls["prompt_tokens"] > 100
    assert cached["cached"] == 2
    assert cached["prompt_tokens"] == 0
