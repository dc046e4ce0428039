"""Labels in what models write."""

import pytest

from bench.peers import prompts
from semclass.endpoint.reading import YES_NO, all_of, one_of


@pytest.mark.parametrize(
    ("words", "answer", "label"),
    [
        (prompts.TYPES, " Human.\n", "HUM"),
        (prompts.TYPES, "Type: Location", "LOC"),
        (prompts.TYPES, "description. The question asks why a location is so.", "DESC"),
        (prompts.TYPES, "human or location", None),
        (prompts.TYPES, "<think>A number? No.</think>\nlocation", "LOC"),
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
