"""Smaller readers, and a second encoder beside the first: what their tables are made of."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("sklearn")
pytest.importorskip("ir_measures")

from bench import several, size, smaller


@pytest.fixture(scope="module")
def words():
    return smaller.make(smaller.WORDS, "")


def test_word_vectors_read_texts_of_any_length_by_their_rare_words(words):
    one, same, other = words.for_search(["the lighthouse", "a lighthouse of the", "the ferry " * 300])
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    assert one @ same > 0.8 > one @ other
    assert words.for_classes(["the lighthouse"]).shape == (1, 384)
    assert words.size == 30522 * (384 + 4)


def test_what_a_text_gives_does_not_depend_on_the_others(words):
    texts = ["the lighthouse", "who wrote it and when was that?", "!"]
    assert np.allclose(words.for_search(texts), [words.for_search([text])[0] for text in texts], atol=1e-6)


def test_alpha_is_chosen_on_the_other_sets():
    good, bad = [1.0] * 4, [0.0] * 4
    middle = [bad] * 5 + [good] + [bad] * 5
    last = [bad] * 10 + [good]
    found = size.of_sets({"a": middle, "b": last})
    assert found["alphas"] == {"a": 1.0, "b": 0.5}
    assert (found["dense"], found["convex"]) == (0.5, 0.0)
    assert found["dense_of"] == {"a": 0.0, "b": 1.0}


def test_the_table_has_a_row_for_each_size():
    common = {"megabytes": 2.0, "question_us": 10.0, "trec": 0.9, "qnli": 0.6}
    rows = [
        {"name": "trained", **common, "search_of": {"docs": 0.7}},
        {"name": "small", **common, "sentence_us": 20.0, "dense_of": {"docs": 0.5}, "convex_of": {"docs": 0.6}},
    ]
    table = size.table({"size": {"sizes": rows}}).splitlines()
    assert table[2] == "| trained | 2.0 | 10 | - | 90.0% | 60.0% | - | 0.700 |"
    assert table[3] == "| small | 2.0 | 10 | 20 | 90.0% | 60.0% | 0.500 | 0.600 |"


def test_the_weight_of_a_second_encoder_is_chosen_on_the_other_sets():
    def gains(best):
        return {str(weight): [float(weight == best)] * 3 for weight in several.WEIGHTS} | {
            several.RECIPROCAL: [0.5] * 3
        }

    found = several.left_out({"a": gains(0.1), "b": gains(0.0), "c": gains(0.0)})
    assert {name: row["weight"] for name, row in found.items()} == {"a": 0.0, "b": 0.0, "c": 0.0}
    assert found["a"]["own"]["weight"] == 0.1
    assert found["b"]["reciprocal"]["gain"] == -0.5


def test_a_second_ranking_with_weight_0_changes_nothing():
    first, second = np.array([np.nan, 0.2, 0.9, 0.5]), np.array([1.0, 0.0, 0.0, 0.3])
    assert several._both(first, second, "0.0")[:3] == [2, 3, 1]
    assert several._both(first, second, "0.4")[:2] == [2, 3]
    assert several._both(first, second, several.RECIPROCAL)[0] == 3
