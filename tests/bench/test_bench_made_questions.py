"""What tuning on made questions brings: the difference and its interval, and what is ranked anew."""

import numpy as np
import pytest

from bench import made_questions, report
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.made_questions import MadeQuestion, MadeQuestions


def test_the_gain_is_that_of_the_same_questions():
    before = np.linspace(0, 0.5, 100)
    found = made_questions.compared(before, before + 0.1)
    assert (found["gain"], found["gain_ci"]) == (0.1, [0.1, 0.1])
    assert made_questions.compared(before, before)["gain_ci"] == [0.0, 0.0]
    one_better = before.copy()
    one_better[3] = 1.0
    low, high = made_questions.compared(before, one_better)["gain_ci"]
    assert low == 0 < high  # one question is in none of some resamples


def test_questions_are_drawn_and_become_judgements():
    names = [f"q{number}" for number in range(9)]
    dataset = Dataset(None, dict.fromkeys(names, "Why?"), {name: {"p": 1} for name in names})
    some = made_questions._drawn(dataset, 4)
    assert len(some.questions) == 4
    assert list(some.questions) == sorted(some.questions)
    made = MadeQuestions((MadeQuestion("Who?", "p7", "entity", "", "HUM", 2),), {})
    found = made_questions.as_dataset(made)
    assert (list(found.questions.values()), list(found.relevance.values())) == (["Who?"], [{"p7": 1}])


def test_nothing_is_searched_again_where_no_weight_counts():
    before = np.ones(3)
    assert made_questions._ndcg(None, None, "default", {"bm25": 0.01}, before) is before
    with pytest.raises(AttributeError):
        made_questions._ndcg(None, None, "hybrid", {"bm25": 0.01}, before)


def test_the_tables_show_sets_methods_and_kinds():
    def arm(gain, low, high):
        figures = {"before": 0.5, "gain": gain, "gain_ci": [low, high]}
        counts = {"first": {"kept": 2, "not found": 3}}
        return {"methods": dict.fromkeys(("default", "hybrid"), figures), "counts": counts, "default_on_made": 0.9}

    arms = {"every kind": arm(-0.2, -0.3, -0.1), "questions": arm(0.02, -0.01, 0.05), "real": arm(0.0, 0.0, 0.0)}
    found = {"made_questions": {"tuned": {"docs": arms}}}
    assert made_questions.table(found).splitlines()[2] == (
        "| docs | `default` | 0.500 | +0.020 (-0.010 to +0.050) | -0.200 (-0.300 to -0.100) | nothing changed |"
    )
    assert "| docs | every kind | - | - | - | 2 of 5 | - | 0.900 |" in made_questions.kinds(found)
    assert "made_questions" in report.SECTIONS
