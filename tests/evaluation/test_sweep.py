"""Settings of a search, chosen on one half of the questions and reported on the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from beir import QUESTIONS

from semclass import HybridRetriever, InputError, Passage
from semclass.evaluation.dataset import Dataset
from semclass.evaluation.measure import per_question
from semclass.evaluation.sweep import METHODS_SWEPT, sweep


@pytest.fixture(scope="module")
def dataset():
    return Dataset(
        Path(), {text: text for text in QUESTIONS}, {text: {answer: 1} for text, answer in QUESTIONS.items()}
    )


def test_each_method_is_a_setting_and_the_halves_are_all_questions(dataset, retriever):
    found = sweep(dataset, [("mine", retriever)], measure="RR@10")
    assert [one.method for one in found.settings] == list(METHODS_SWEPT)
    assert {one.name for one in found.settings} == {"mine"}
    for one in found.settings:
        ranking = [
            [hit.id for hit in retriever.search(text, 10, method=one.method)] for text in dataset.questions.values()
        ]
        mean = per_question(dataset, ranking, ["RR@10"])["RR@10"].mean()
        assert one.reported.questions == 4
        assert (3 * one.chosen_by + 4 * one.reported.value) / 7 == pytest.approx(mean)


def test_the_best_is_chosen_on_one_half_and_compared_with_the_default_on_the_other(dataset, retriever):
    # the default finds nothing where no passage is the answer to any question
    others = HybridRetriever.from_passages(["Nothing is told here.", "Nor is it here."], models=retriever.models)
    found = sweep(dataset, [("empty", others), ("full", retriever)], seed=1)
    best = found.settings[found.best]
    assert (best.name, found.settings[0].reported.value) == ("full", 0)
    assert best.chosen_by == max(one.chosen_by for one in found.settings)
    assert found.gain.value == pytest.approx(best.reported.value)
    assert found.p_value == pytest.approx(2 / 2**4)  # four differences of one sign
    same = sweep(dataset, [("full", retriever), ("again", retriever)])
    assert same.best < len(METHODS_SWEPT)  # the earliest of equals


def test_passages_that_were_cut_count_as_their_document(dataset, retriever, corpus):
    pieces = [
        Passage(f"{one.id}#{number}", text, {"document": one.id})
        for one in corpus
        for number, text in enumerate(filter(str.strip, one.text.split(". ")), 1)
    ]
    cut = HybridRetriever.from_passages(pieces, models=retriever.models)
    found = sweep(dataset, [("cut", cut)], measure="R@10")
    assert np.mean([one.reported.value for one in found.settings]) > 0.7


def test_models_without_pair_heads_have_no_default_method(dataset, retriever):
    plain = HybridRetriever(retriever.index, replace(retriever.models, pair_heads=None))
    assert sweep(dataset, [("plain", plain)]).settings[0].method == "convex"


def test_what_cannot_be_compared_is_named(dataset, retriever):
    few = Dataset(Path(), {"Where is the museum?": "x"}, {"Where is the museum?": {"museum-2": 1}})
    with pytest.raises(InputError, match="at least 4"):
        sweep(few, [("mine", retriever)])
    with pytest.raises(InputError, match="Speed@5"):
        sweep(dataset, [("mine", retriever)], measure="Speed@5")
    with pytest.raises(InputError, match="retriever"):
        sweep(dataset, [])
