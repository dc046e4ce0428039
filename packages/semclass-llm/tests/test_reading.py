"""Labels in what models write."""

import pytest

from semclass_llm.reading import YES_NO, all_of, declines, numbers_of, one_of, questions_of

TYPES = {"HUM": ("human", "person"), "LOC": ("location", "place"), "DESC": ("description",), "NUM": ("number",)}


@pytest.mark.parametrize(
    ("words", "answer", "label"),
    [
        (TYPES, " Human.\n", "HUM"),
        (TYPES, "Type: Location", "LOC"),
        (TYPES, "description. The question asks why a location is so.", "DESC"),
        (TYPES, "human or location", None),
        (TYPES, "<think>A number? No.</think>\nlocation", "LOC"),
        (YES_NO, "No, it does not", "no"),
        (YES_NO, "not_entailment", "no"),
        (YES_NO, "yes and no", None),
    ],
)
def test_a_label_is_read_from_what_models_write(words, answer, label):
    assert one_of(answer, words) == label


OWN = {name: (name,) for name in ("card_arrival", "C++", "e.g. bills", "card")}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("card_arrival", "card_arrival"),
        ("Label: **Card arrival**.", "card_arrival"),
        ("e.g. bills", "e.g. bills"),
        ("C++", "C++"),
        ("cards", "card"),
        ("I am sorry, I cannot help with that.", None),
    ],
)
def test_names_of_labels_of_ones_own(answer, label):
    assert one_of(answer, OWN) == label


@pytest.mark.parametrize(
    ("answer", "labels"),
    [("card, C++", ["C++", "card"]), ("- card arrival\n- card", ["card_arrival", "card"]), ("None.", []), ("Hm", None)],
)
def test_several_labels(answer, labels):
    assert all_of(answer, OWN) == labels


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [("[3] > [1]", [3, 1]), ("<think>2?</think>Passages 3, 3 and 12.", [3, 12]), ("0, 13, 99999999", []), ("None", [])],
)
def test_numbers_of_a_list(answer, numbers):
    assert numbers_of(answer, 12) == numbers


def test_questions_a_line_each():
    said = "<think>Why?</think>Here they are:\n1. Who won?\nRewritten question: Why?\n"
    assert questions_of(said) == ["Who won?", "Why?"]
    assert questions_of("bridge history", marked=False) == ["bridge history"]


@pytest.mark.parametrize(
    ("answer", "will_not"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot answer.", True),
        ("<think>Hm.</think> As an AI language model, I have no view.", True),
        ("Sorry is the name of a band.", False),
        ("I cannot log in since Monday.", False),
        ("I can see the bridge from here.", False),
        ("The office cannot open on Sundays.", False),
    ],
)
def test_models_that_will_not_answer_begin_alike(answer, will_not):
    assert declines(answer) is will_not
