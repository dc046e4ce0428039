"""Bounds of the words for first places: applied to many as to one, and chosen by what is wanted."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("sklearn")

from bench import words
from semclass.ranking.certainty import BOUNDS, CERTAINTIES, certainty


def made(seed=0, n=200):
    rng = np.random.default_rng(seed)
    first = {key: rng.uniform(*span, n) for key, span in {"lead": (0, 1), "behind": (-4, 4), "near": (0, 1)}.items()}
    return {**first, "relevance": rng.uniform(0, 0.3, n), "right": rng.uniform(size=n) < first["lead"]}


def test_many_are_called_what_each_one_is_called():
    first = made()
    masks = words.masks(first, BOUNDS)
    said = np.array([*masks.values()]).T
    for row in range(len(said)):
        one = {key: first[key][row] for key in ("lead", "behind", "near", "relevance")}
        assert said[row].tolist() == [certainty(one) == word for word in CERTAINTIES]
    assert said.any(axis=0).all()


def test_a_set_that_misses_nothing_is_better_the_more_it_calls_strong():
    found = {
        "words": {word: {"said": 10, "right": 10} for word in CERTAINTIES},
        "questions": 30,
        "missed": 0.1,
        "foreign": None,
    }
    more = {**found, "words": {**found["words"], "strong": {"said": 20, "right": 20}}}
    assert words.shortfall(more) < words.shortfall(found) < 0
    wrong = {**found, "words": {**found["words"], "strong": {"said": 10, "right": 5}}}
    assert words.shortfall(wrong) == pytest.approx(words.shortfall(found) + 3.5 / 30)
    assert words.shortfall({**found, "missed": 0.25, "foreign": 0.2}) == pytest.approx(words.shortfall(found) + 0.15)


def test_figures_count_what_is_said_and_right():
    first = made()
    found = words.figures({**first, **{f"foreign_{key}": first[key] for key in first}}, BOUNDS)
    assert sum(word["said"] for word in found["words"].values()) == found["questions"] == 200
    assert sum(word["right"] for word in found["words"].values()) == first["right"].sum()
    assert found["foreign"] == pytest.approx(1 - found["words"]["weak"]["said"] / 200)


def test_a_contrast_item_is_ranked_with_what_resembles_it_and_four_other_answers(tmp_path):
    (tmp_path / "contrast").mkdir()
    rows = [
        {"question": f"{n}?", "answer": f"answer {n}", "distractors": {kind: f"{kind} {n}" for kind in words.KINDS}}
        for n in range(60)
    ]
    (tmp_path / "contrast" / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)))
    items = words.contrast_strings(tmp_path)
    question, texts, right = items[59]
    own = {f"{kind} 59" for kind in ("answer", *words.KINDS)}
    assert (question, {*texts}) == ("59?", own | {"answer 0", "answer 18", "answer 36", "answer 54"})
    assert [text for text, is_right in zip(texts, right, strict=True) if is_right] == ["answer 59"]
    assert len({some.index(f"answer {n}") for n, (_, some, _) in enumerate(items)}) > 5
