"""From hits to a context."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semclass import Hit, InputError, InputTypeError
from semclass_llm import Context, build_context
from semclass_llm.context import count_words, drop_duplicates, fit_budget, order_for_reading


def hit(name, text="text", rank=1, **metadata):
    return Hit(name, text, metadata, 1 / rank, rank, rank, {"dense": 1 / rank}, (), {})


def hits_of(*texts):
    return [hit(f"p{rank}", text, rank) for rank, text in enumerate(texts, 1)]


def names(hits):
    return [found.id for found in hits]


# -- duplicates


def test_the_best_of_equal_texts_stays_with_a_new_rank():
    kept = drop_duplicates(hits_of("It opened in 1874.", "IT  OPENED\nin 1874.", "Something else."))
    assert [(item.id, item.rank, item.rank_before) for item in kept] == [("p1", 1, 1), ("p3", 2, 3)]
    assert names(drop_duplicates([hit("a", "One search found it.", 2), hit("a", "Another, too.")])) == ["a"]


def test_passages_marked_as_duplicates_are_one():
    a, b, c = hit("a", "A", 1, duplicate_of="o"), hit("b", "B", 2, duplicate_of="o"), hit("c", "C", 3, duplicate_of="b")
    assert names(drop_duplicates([a, b, c])) == ["a"]
    assert names(drop_duplicates([hit("a", "A", 1, duplicate_of="b"), hit("b", "B", 2, duplicate_of="a")])) == ["a"]


# -- budget


def test_the_best_that_fit_are_kept_and_others_cut_or_left_out():
    hits = hits_of("one two three", "a b c d e f. This is the second sentence of it.", "four five")
    assert [(item.id, item.rank) for item in fit_budget(hits, 8)] == [("p1", 1), ("p3", 2)]
    long = hits_of("The first sentence is kept whole. The second one, which says more, is cut away.")
    (cut,) = fit_budget(long, 10)
    assert (cut.text, cut.metadata) == ("The first sentence is kept whole.", {"cut": True})


def test_lengths_are_counted_as_asked(encoder):
    def pieces(text):
        return len(encoder.tokenize([text]).values)

    hits = hits_of("Breakwaters outlast lighthouses.", "Cranes.")
    assert (count_words(hits[0].text), pieces(hits[0].text)) == (3, 9)
    assert names(fit_budget(hits, 4)) == ["p1", "p2"]
    assert names(fit_budget(hits, 4, count=pieces)) == ["p2"]
    with pytest.raises(InputTypeError, match=r"count must return a whole number \('list'"):
        fit_budget(hits, 4, count=str.split)
    with pytest.raises(InputError, match="budget is 0"):
        fit_budget(hits, 0)


PROSES = st.lists(st.text("ab .?!\n\t\x1c", max_size=80), max_size=6)


@given(PROSES, st.integers(1, 30), st.sampled_from([count_words, len]))
@settings(max_examples=200)
def test_a_budget_is_kept_and_nothing_invented(texts, budget, count):
    hits = hits_of(*texts)
    taken = fit_budget(hits, budget, count=count)
    assert sum(count(item.text) for item in taken) <= budget
    assert all(item.text in next(given.text for given in hits if given.id == item.id) for item in taken)
    assert [item.rank_before for item in taken] == sorted({item.rank_before for item in taken})
    assert fit_budget(taken, budget, count=count) == taken


# -- order


@pytest.mark.parametrize(("n", "order"), [(1, [1]), (2, [1, 2]), (6, [1, 3, 5, 6, 4, 2]), (7, [1, 3, 5, 7, 6, 4, 2])])
def test_the_best_are_first_and_last(n, order):
    assert [item.rank for item in order_for_reading(hits_of(*"abcdefg"[:n]))] == order


# -- text


def test_sources_are_numbered_and_named():
    hits = [
        hit("a#3", "It opened in 1874.", document="a.md", page=2, heading="The bridge"),
        hit("b", "Braces {stay} & <so> do signs.", 2, title="On signs"),
        hit("c", "Nothing is known of it.", 3),
    ]
    made = build_context(hits)
    assert made.text == (
        "[1] a.md, p. 2, The bridge\nIt opened in 1874.\n\n"
        "[2] c\nNothing is known of it.\n\n"
        "[3] On signs\nBraces {stay} & <so> do signs."
    )
    assert [(one.number, one.id, one.label) for one in made.sources][1:] == [(2, "c", "c"), (3, "b", "On signs")]
    assert (made.sources[0].document, made.sources[0].page, made.sources[2].title) == ("a.md", 2, "On signs")
    assert (made.count, names(made.hits)) == (count_words(made.text), ["a#3", "c", "b"])
    assert build_context([]) == Context("", (), 0, ())


# -- all of it


@given(PROSES, st.integers(1, 60), st.sampled_from([count_words, len, lambda text: len(text) ** 2 // 100]))
@settings(max_examples=100)
def test_a_context_is_never_longer_than_its_budget(texts, budget, count):
    made = build_context(hits_of(*texts), budget=budget, count=count)
    assert count(made.text) <= budget
    assert made.count <= budget
    assert len(made.sources) == len(made.hits) == len({item.id for item in made.hits})
