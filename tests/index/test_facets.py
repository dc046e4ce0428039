"""Fields whose values are a choice, and how many passages have each value."""

from world import FAKE, passages

from semclass import PassageIndex, change_index
from semclass.index.passage_index import MAX_VALUES


def index_of(*groups):
    return PassageIndex.build([one for group in groups for one in group], passage_encoder=FAKE)


def counts(index):
    return {facet.field: dict(facet.values) for facet in index.facets()}


def test_values_are_counted_the_most_frequent_first():
    index = index_of(
        passages(*range(6), customer="Acme", open=True, tags=["a", "b"]),
        passages(*range(6, 10), customer="Birch", open=False, tags=["b"], year=2026),
        passages(*range(10, 12), year=2025),
    )
    assert counts(index) == {
        "customer": {"Acme": 6, "Birch": 4},
        "open": {True: 6, False: 4},
        "tags": {"b": 10, "a": 6},
        "year": {2026: 4, 2025: 2},
    }
    assert [value for value, _ in index.facets()[2].values] == ["b", "a"]


def test_fields_that_divide_nothing_or_too_much_are_left_out():
    same = passages(*range(100), lang="en", page=3, heading="Tower")
    many = [passages(1000 + 2 * number, 1001 + 2 * number, name=str(number)) for number in range(MAX_VALUES + 1)]
    own = [passages(5000 + number, number=f"T-{number}", page=number) for number in range(10)]
    assert counts(index_of(same, *many, *own)) == {}


def test_a_filter_counts_its_passages_and_keeps_all_values():
    index = index_of(passages(*range(6), customer="Acme", page=1), passages(*range(6, 10), customer="Birch", page=2))
    (customer,) = index.facets({"page": {"$gte": 2}})
    assert customer.values == [("Acme", 0), ("Birch", 4)]


def test_true_and_one_are_two_values():
    (facet,) = index_of(passages(1, 2, 3, flag=True), passages(4, 5, flag=1)).facets()
    assert facet.values == [(True, 3), (1, 2)]
    assert [type(value) for value, _ in facet.values] == [bool, int]


def test_removed_passages_do_not_count_and_segments_are_added(tmp_path):
    index_of(passages(*range(6), customer="Acme"), passages(*range(6, 10), customer="Birch")).save(tmp_path / "index")
    new = passages(20, 21, customer="Cedar")
    change_index(tmp_path / "index", add=new, delete=["0", "1"], passage_encoder=lambda: FAKE)
    index = PassageIndex.load(tmp_path / "index")
    assert len(index.segments) == 2
    assert counts(index) == {"customer": {"Acme": 4, "Birch": 4, "Cedar": 2}}
