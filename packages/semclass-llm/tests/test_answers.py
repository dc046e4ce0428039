"""Exact match, token F1, ROUGE-L and BLEU of written answers."""

from __future__ import annotations

import json

import pytest

from semclass import InputError
from semclass_llm.answers import (
    WrittenAnswer,
    exact_match,
    measure_answers,
    read_answers,
    rouge_l,
    token_f1,
)

ANSWERS = [
    WrittenAnswer(
        "When was the bridge opened?",
        "The bridge was opened in October 1874.",
        ("It was opened in October 1874, after three winters.", "October 1874"),
    ),
    WrittenAnswer(
        "Who designed the tower?",
        "Ada Merriweather designed the tower, and it is 40 m tall.",
        (
            "The tower was designed by Ada Merriweather.",
            "Ada Merriweather, an engineer, designed the tower by the river.",
        ),
    ),
    WrittenAnswer("When was the tower built?", "In 1901", ("1901",)),
    WrittenAnswer(
        "Why do ferries stay in port?",
        "Because of storms the ferries stay in port.",
        ("Ferries stay in port because of the storms in autumn.",),
    ),
]


@pytest.mark.parametrize(
    ("answer", "reference", "same", "f1"),
    [
        ("The  Danube!", "danube", 1, 1.0),
        ("In 1901", "1901", 0, 2 / 3),
        ("red red tower", "a red tower", 0, 4 / 5),
        ("", "", 1, 1.0),
        ("the", "", 1, 1.0),
        ("a tower", "", 0, 0.0),
        ("yes", "no", 0, 0.0),
    ],
    ids=str,
)
def test_texts_are_compared_as_squad_does(answer, reference, same, f1):
    assert exact_match(answer, reference) == same
    assert token_f1(answer, reference) == pytest.approx(f1)


def test_rouge_l_is_that_of_rouge_score():
    """Of rouge-score 0.1.2, without stemming."""
    found = [rouge_l(one.answer, text) for one in ANSWERS for text in one.references]
    assert found == pytest.approx([0.625, 0.444444, 0.222222, 0.476190, 0.666667, 0.444444], abs=1e-6)
    assert rouge_l("tower", "bridge") == 0


def test_bleu_is_that_of_sacrebleu():
    """Of sacreBLEU 2.6.0, of the same words (`tokenize="none"`)."""
    assert measure_answers(ANSWERS)["bleu"].value == pytest.approx(0.3335197955)
    assert measure_answers(ANSWERS[3:])["bleu"].value == pytest.approx(0.3440678175)
    smoothed = WrittenAnswer("?", "the old stone bridge stands", ("a stone bridge that is old stands",))
    assert measure_answers([smoothed])["bleu"].value == pytest.approx(0.1703057836)
    assert measure_answers(ANSWERS[2:3])["bleu"].value == 0  # no answer has four words


def test_the_best_reference_counts_and_each_figure_has_an_interval():
    found = measure_answers([*ANSWERS, WrittenAnswer("Who?", "Nobody knows.")])
    assert found["f1"].value == pytest.approx((2 / 3 + 1 / 2 + 2 / 3 + 7 / 8) / 4)
    for one in found.values():
        assert one.questions == 4  # one has no references
        assert one.interval[0] <= one.value <= one.interval[1]
    assert found == measure_answers(ANSWERS)
    assert measure_answers([]) == {}


def test_answers_are_read(tmp_path):
    file = tmp_path / "answers.jsonl"
    rows = [{"question": "Who?", "answer": "Ada", "references": ["Ada"], "contexts": ["Ada drew it."]}]
    rows += [{"question": "When?", "answer": "", "id": 7}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_answers(file) == [WrittenAnswer("Who?", "Ada", ("Ada",), ("Ada drew it.",)), WrittenAnswer("When?", "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no answers"),
        ('{"question": "Who?"}\n', "line 1"),
        ('{"question": "Who?", "answer": null}\n', "line 1"),
        ('{"question": " ", "answer": "Ada"}\n', "line 1"),
        ('\n{"question": "Who?", "answer": "Ada", "references": "Ada"}\n', "line 2: references"),
        ('{"question": "Who?", "answer": "Ada", "contexts": [1]}\n', "line 1: contexts"),
    ],
    ids=["empty", "no answer", "null", "no question", "one text", "a number"],
)
def test_what_is_wrong_in_a_file_of_answers_is_named(tmp_path, text, says):
    (tmp_path / "answers.jsonl").write_text(text)
    with pytest.raises(InputError, match=says):
        read_answers(tmp_path / "answers.jsonl")
