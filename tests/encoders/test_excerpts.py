"""How texts are cut into excerpts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semclass.encoders.excerpts import MEAN_SIZE, Excerpts, cut_excerpts


def sentence(words: int) -> str:
    return "word " * (words - 1) + "end."


def test_excerpts_are_few_and_of_similar_size():
    assert [len(excerpt.split()) for excerpt in cut_excerpts([sentence(10)] * 10)] == [50, 50]
    assert len(cut_excerpts([sentence(MEAN_SIZE // 3)] * 3)) == 1


@given(st.lists(st.integers(1, 120), min_size=1, max_size=30))
def test_excerpts_are_runs_of_whole_sentences(sizes):
    sentences = [sentence(size) for size in sizes]
    excerpts = cut_excerpts(sentences)
    assert " ".join(excerpts) == " ".join(sentences)
    assert all(excerpt.endswith("end.") for excerpt in excerpts)
    assert max(len(excerpt.split()) for excerpt in excerpts) <= MEAN_SIZE + max(sizes)


def test_text_without_spaces_is_cut_too():
    text = "".join(f"第{number}座灯塔在山上，它在夜里为海上的船照亮方向，从来没有熄灭过。" for number in range(40))
    excerpts = Excerpts.of([text]).texts
    assert len(excerpts) > 1
    assert "".join(excerpts).replace(" ", "") == text
