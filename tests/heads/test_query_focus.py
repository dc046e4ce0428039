from __future__ import annotations

import pytest
from world import Counting, FakeEncoder

from semclass import Reranker
from semclass.heads.query_focus import LAST, PIECES, query_focus, questions_of

STUDY = (
    "The study included 120 patients with chronic heart failure, who were followed for two years. Serum sodium was "
    "measured at baseline and after six months. Patients with lower levels had a higher mortality than those with normal "
    "levels. It was concluded that sodium is a marker of risk in such patients."
)
ROUTER = "I have a Lumo router. Its light is red. How do I reset it?"


def read(encoder, text, generic=None):
    (found,) = query_focus(encoder, [text], generic)
    return found.text


@pytest.mark.parametrize(
    "question",
    [
        ROUTER,
        "Who built the lighthouse on the island? And how tall is it?",
        "Tell me how to reset the Lumo R3 router to factory settings.",
        "lumo router reset red light",
        "Which of these is the tallest? - the Eiffel tower - the lighthouse of Lumo - the museum",
        "My dog is a ten year old labrador. He has been eating grass lately. What should I do?",
        "Who built the Eiffel tower? I was in Paris last summer. Where can I buy a Lumo router?",
    ],
)
def test_what_has_nothing_to_do_with_the_question_is_left_out(encoder, question):
    said = question.replace(" - ", "\n- ")
    asked = read(encoder, f"{STUDY}\n\n{said}\nThanks in advance!\nBest regards, Anna")
    assert asked in (question, question.replace("I was in Paris last summer. ", ""))


PROBLEM = (
    "The tomato plants on our balcony have yellow leaves at the bottom. Brown rings appear on them, and they fall off. "
    "It has rained for two weeks, and the pots stand close together."
)


@pytest.mark.parametrize(
    "ending", ["What is the best way?", "What is the cause and the cure?", "What is wrong here?", "Any ideas?"]
)
def test_a_generic_question_keeps_what_stands_before_it(models, ending):
    encoder, generic = models.encoder, models.generic
    assert read(encoder, f"{PROBLEM} {ending}", generic) == f"{PROBLEM} {ending}"
    # alone in its paragraph, it is about the one before
    assert read(encoder, f"{STUDY}\n\n{PROBLEM}\n\n{ending}", generic) == f"{PROBLEM} {ending}"
    assert read(encoder, f"{ending} {PROBLEM}", generic) == f"{ending} {PROBLEM}"


def test_without_the_head_function_words_make_a_generic_question(encoder):
    assert read(encoder, f"{PROBLEM} What happened?") == f"{PROBLEM} What happened?"
    assert read(encoder, f"{PROBLEM} What is the best way?") == "What is the best way?"


def test_a_question_that_names_something_is_read_alone(models):
    asked = "How high is the Eiffel tower?"
    assert read(models.encoder, f"{PROBLEM} {asked}", models.generic) == asked


def test_a_description_that_asks_nothing_is_read_whole(encoder):
    assert read(encoder, PROBLEM) == PROBLEM
    assert read(encoder, f"{STUDY}\n\n{PROBLEM}") == PROBLEM


def test_what_belongs_to_the_question_stays(encoder):
    text = (
        "The router in our office loses its wireless connection every evening. The access point was replaced in May, and "
        "the cable to the router is new. Could the router be too hot, or is its wireless channel taken by a neighbour?"
    )
    assert read(encoder, text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Who built the lighthouse?",
        "Who, of all the men that the duke of the island had paid for it in the years after the great storm, built the "
        "lighthouse of Lumo near the old harbour in the end?",
        ROUTER,
        "Multidisciplinary breast cancer clinics. Do they work?",
    ],
)
def test_a_short_text_is_read_without_another_run(text):
    encoder = Counting()
    assert read(encoder, text) == text
    assert not encoder.seen


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("{} How do I reset it?", "How do I reset it?"),
        ("Hello! {} Who built it, Dr. No? Thanks!", "Who built it, Dr. No?"),
        (
            "{} Who built it? I saw it in May. In which year was it finished?",
            "Who built it? In which year was it finished?",
        ),
        ("What is sodium? {} Who built the lighthouse?", "Who built the lighthouse?"),
        ("{} I would really like to know why the light is red.", "I would really like to know why the light is red."),
        ("{}\nThe builder of the lighthouse.\nThank you.", "The builder of the lighthouse."),
        ("{} How do I reset the router\nto its settings?", "How do I reset the router to its settings?"),
        ("{} What does G.M.T. stand for?", "What does G.M.T. stand for?"),
        ("{} 誰が灯台を建てましたか？私は知りません。", "誰が灯台を建てましたか？"),
    ],
)
def test_the_sentences_that_ask(text, question):
    assert questions_of([text.format(STUDY)]) == [question]


def test_of_too_much_that_belongs_to_a_question_the_end_is_read():
    place = "the lighthouse on the hill"  # words of one kind: all sentences are near one another
    sentences = [f"{place} {place} {place} {place} number {number}." for number in range(60)]
    found = read(FakeEncoder(), " ".join([*sentences, f"what is {place}?"]))
    assert found.endswith(f"number 59. what is {place}?")
    assert PIECES - 30 < len(found.split()) <= PIECES


def test_the_time_of_a_long_text_is_bounded():
    encoder = Counting()
    read(encoder, "It rains. " * 20_000 + "Why? " * 20_000)
    assert sum(map(len, encoder.seen)) <= 2 * LAST


BEFORE = f"{STUDY} {STUDY}"
QUESTION = "Who designed the lighthouse?"


def test_hits_and_labels_say_what_was_read_of_a_question(models, retriever, corpus):
    reranker = Reranker(models)
    for question in (QUESTION, f"{BEFORE} {QUESTION}"):
        assert retriever.search(question).query_used == QUESTION
        assert reranker.rerank(question, corpus[:3]).query_used == QUESTION
        (label,) = models.questions.classify([question])
        assert (label.text, label.asked or question, label.label) == (question, QUESTION, "HUM")


@pytest.mark.parametrize("method", ["default", "class-integrated", "dense", "bm25"])
def test_scores_and_order_are_those_of_the_question_alone(retriever, method):
    alone, behind = (retriever.search(text, method=method) for text in (QUESTION, f"{BEFORE} {QUESTION}"))
    assert behind == alone
