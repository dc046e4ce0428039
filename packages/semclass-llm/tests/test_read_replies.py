"""Labels, questions and numbers in the replies of models."""

import pytest

from semclass_llm.reading import YES_NO, all_of, declines, numbers_of, one_of, questions_of

LABELS = {name: (name,) for name in ("card_arrival", "C++", "e.g. bills", "card")}


@pytest.mark.parametrize(
    ("words", "reply", "label"),
    [
        (YES_NO, "No, it does not", "no"),
        (YES_NO, "not_entailment", "no"),
        (YES_NO, "yes and no", None),
        (YES_NO, "<think>Yes? No.</think>\nyes", "yes"),
        (YES_NO, "yes. The passage does not say no.", "yes"),
        (LABELS, "Label: **Card arrival**.", "card_arrival"),
        (LABELS, "e.g. bills", "e.g. bills"),
        (LABELS, "C++", "C++"),
        (LABELS, "cards", "card"),
        (LABELS, "I am sorry, I cannot help with that.", None),
    ],
)
def test_one_label_is_read_from_a_reply(words, reply, label):
    assert one_of(reply, words) == label


@pytest.mark.parametrize(
    ("reply", "labels"),
    [("card, C++", ["C++", "card"]), ("- card arrival\n- card", ["card_arrival", "card"]), ("None.", []), ("Hm", None)],
)
def test_several_labels_are_read_in_their_order(reply, labels):
    assert all_of(reply, LABELS) == labels


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [("[3] > [1]", [3, 1]), ("<think>2?</think>Passages 3, 3 and 12.", [3, 12]), ("0, 13, 99999999", []), ("None", [])],
)
def test_numbers_of_a_list_are_read_once(reply, numbers):
    assert numbers_of(reply, 12) == numbers


def test_questions_are_read_a_line_each():
    reply = "<think>Why?</think>Here they are:\n1. Who won?\nRewritten question: Why?\n"
    assert questions_of(reply) == ["Who won?", "Why?"]
    assert questions_of("bridge history", marked=False) == ["bridge history"]


@pytest.mark.parametrize(
    ("reply", "declined"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("<think>Hm.</think> As an AI language model, I have no view.", True),
        ("Sorry is the name of a band.", False),
        ("I cannot log in since Monday.", False),
        ("The office cannot open on Sundays.", False),
    ],
)
def test_refusals_begin_alike(reply, declined):
    assert declines(reply) is declined
