"""Rankings of several retrievers become one."""

import pytest

from semclass import Hit
from semclass.core.errors import InputError
from semclass.ranking.several import fuse_hits


def ranking(**scores):
    """Hits by their ids, best first."""
    items = enumerate(sorted(scores.items(), key=lambda item: -item[1]), 1)
    return [Hit(name, f"of {len(scores)}", {}, score, rank, rank, {}, (), {}) for rank, (name, score) in items]


MEANING, LETTERS = ranking(a=0.8, b=0.6, c=0.2), ranking(b=20.0, d=10.0)


def test_scores_of_any_kind_are_added_on_one_scale():
    found = fuse_hits([MEANING, LETTERS])
    assert [(hit.id, hit.rank) for hit in found] == [("b", 1), ("a", 2), ("d", 3), ("c", 4)]
    assert [hit.score for hit in found] == pytest.approx([1.75, 1.0, 0.5, 0.25])


def test_weights_say_what_each_ranking_counts():
    assert [hit.id for hit in fuse_hits([MEANING, LETTERS], 2, weights=(1, 0.2))] == ["a", "b"]
    assert [hit.id for hit in fuse_hits([MEANING, LETTERS], 3, weights=(0, 1))] == ["b", "d", "a"]


def test_a_hit_is_that_of_the_ranking_in_which_it_stands_best():
    assert {hit.id: hit.text for hit in fuse_hits([MEANING, LETTERS])} == {
        "a": "of 3", "b": "of 2", "c": "of 3", "d": "of 2",
    }  # fmt: skip


def test_of_equals_the_earlier_ranking_comes_first_and_nothing_handed_in_changes():
    first, second = ranking(a=1.0), ranking(b=1.0)
    assert [hit.id for hit in fuse_hits([first, second])] == ["a", "b"]
    assert [hit.id for hit in fuse_hits([second, first])] == ["b", "a"]
    assert (first, second) == (ranking(a=1.0), ranking(b=1.0))


def test_what_is_empty_gives_nothing_and_what_does_not_fit_is_refused():
    assert fuse_hits([]) == fuse_hits([[], []]) == []
    for options in ({"weights": (1,)}, {"weights": (1, -1)}, {"k": 0}):
        with pytest.raises(InputError):
            fuse_hits([MEANING, LETTERS], **options)
