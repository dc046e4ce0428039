"""Few labels: peers are shown at their best strength, draws hold what they say."""

from collections import Counter

from bench import labels


def test_a_draw_has_so_many_examples_of_each_class_and_repeats():
    names = ["a"] * 9 + ["b"] * 30 + ["c"] * 3
    rows = labels.draw(names, "5", seed=1)
    assert Counter(names[row] for row in rows) == {"a": 5, "b": 5, "c": 3}
    assert rows == labels.draw(names, "5", seed=1) != labels.draw(names, "5", seed=2)
    assert labels.draw(names, "all", seed=1) == list(range(42))


def test_a_peer_is_shown_with_the_strength_that_suits_it_best():
    draws = [{"1": row(right), "30": row(right + 0.1)} for right in (0.4, 0.6)]
    found = labels.best(draws)
    assert (found["strength"], found["accuracy"]) == (30.0, 0.6)
    systems = {"semclass": row(0.6125), "pooled": found, "tfidf": found}
    table = labels.table_of_few({"labels": {"few_labels": {"banking77": {"5": {"systems": systems}}}}})
    assert "| banking77, 5 | `TextClassifier` | 61.3% | 1.25 | 0.5 |" in table
    assert "ten lines over `pooled`, C = 30 | 60.0% |" in table


def row(accuracy):
    """Figures of one system."""
    return {"accuracy": accuracy, "log_loss": 1.25, "seconds": 0.5}
