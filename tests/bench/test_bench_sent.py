"""What a search and a stream of texts send: numbers that can be checked by hand."""

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import sent

TRUTH = [[True, False], [False, True], [False, True], [True, False]]
SAID = [[True, False], [False, True], [True, True], [False, True]]
"""What a model says: yes to the answer alone, twice; to both; and to the other one alone."""


def test_hits_with_a_yes_come_first_in_the_questions_that_are_sent():
    found = sent.by_share([0.9, 0.1, 0.2, 0.8], TRUTH, [SAID])
    assert found == {
        "questions": 4,
        "unsure": [0.5, 0.5, 0.75, 0.75, 0.5],  # of 0, 0, 1, 2 and 4 questions
        "random": [0.5] * 5,
    }


def test_tables_have_a_row_for_each_order_and_each_batch():
    one = {"model": "m", **sent.by_share([0.9, 0.1, 0.2, 0.8], TRUTH, [SAID])}
    found = {"cascade": {"reranking": {"shares": sent.SENT, "sets": {"a set": one}}}}
    assert sent.reranking_table(found).splitlines()[2:] == [
        "| a set; m | least sure first | 50.0% | 50.0% | 75.0% | 75.0% | 50.0% |",
        "|  | random | 50.0% | 50.0% | 50.0% | 50.0% | 50.0% |",
    ]
    figures = {"alone": 0.85, "sent": 0.2, "right": 0.93}
    batch = {"texts": 100, "examples": 70, "trained": figures, "never": figures}
    shown = sent.stream_table({"cascade": {"stream": {"batches": [batch]}}}).splitlines()[2]
    assert shown == "| 1 | 100 | 70 | 85.0% | 20.0% | 93.0% | 85.0% | 20.0% | 93.0% |"
