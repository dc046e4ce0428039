"""From hits to a context; tests/extras/test_context_peers.py compares with other packages."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import jaccard_score

from semclass import Hit, InputError, InputTypeError, Passage
from semclass.documents.chunking import count_words
from semclass_llm.context.budget import fit_budget
from semclass_llm.context.build import build_context
from semclass_llm.context.dedupe import drop_duplicates
from semclass_llm.context.parents import expand_parents
from semclass_llm.context.prompt import as_prompt, reorder_for_long_context
from semclass_llm.context.window import by_document, expand_window

HARBOUR = (
    "The harbour of Sandrey lies open to the west. In winter storms closed it for weeks. In 1871 the town began to build a "
    "breakwater. It was finished after nine years. Since then ships come and go at any time. The old crane is a museum."
)


def hit(name, text="text", rank=1, **metadata):
    return Hit(name, text, metadata, 1 / rank, rank, rank, {"dense": 1 / rank}, (), {})


def hits_of(*texts):
    return [hit(f"p{rank}", text, rank) for rank, text in enumerate(texts, 1)]


def names(hits):
    return [found.id for found in hits]


def cut_at(content, ends, document="harbour.md"):
    """Passages of a document, each from one place to another."""
    return [
        Passage(f"{document}#{number}", content[start:end], {"document": document, "start": start, "end": end})
        for number, (start, end) in enumerate(ends, 1)
    ]


def sentences(content=HARBOUR):
    """Passages of one sentence, that know where they stand."""
    starts = [0, *(place + 2 for place in range(len(content) - 1) if content[place : place + 2] == ". ")]
    ends = [*(start - 1 for start in starts[1:]), len(content)]
    return cut_at(content, zip(starts, ends, strict=True))


def found(passages, *numbers):
    """Hits of some passages, numbered from 1, best first."""
    chosen = [passages[number - 1] for number in numbers]
    return [hit(passage.id, passage.text, rank, **passage.metadata) for rank, passage in enumerate(chosen, 1)]


# -- duplicates


def test_the_best_of_equal_texts_stays_with_a_new_rank():
    kept = drop_duplicates(hits_of("It opened in 1874.", "IT  OPENED\nin 1874.", "Something else."))
    assert [(item.id, item.rank, item.rank_before) for item in kept] == [("p1", 1, 1), ("p3", 2, 3)]
    assert names(drop_duplicates([hit("a", "One search found it.", 2), hit("a", "Another, too.")])) == ["a"]


def test_texts_that_nearly_agree_are_one_but_not_if_their_numbers_differ():
    report = "In {} the harbour was open all year, and more ships came than ever before, from all sides of the sea."
    first, edited, other = report.format(1874), report.format(1874).replace("sides", "shores"), report.format(1875)
    assert names(drop_duplicates(hits_of(first, edited, other), threshold=0.7)) == ["p1", "p3"]
    assert names(drop_duplicates(hits_of(first, "- " + first.upper()))) == ["p1"]


def test_passages_that_are_marked_as_duplicates_are_one_even_if_the_original_was_not_found():
    a, b, c = hit("a", "A", 1, duplicate_of="o"), hit("b", "B", 2, duplicate_of="o"), hit("c", "C", 3, duplicate_of="b")
    assert names(drop_duplicates([a, b, c])) == ["a"]
    assert names(drop_duplicates([hit("a", "A", 1, duplicate_of="b"), hit("b", "B", 2, duplicate_of="a")])) == ["a"]


SHINGLED = st.lists(st.sampled_from(["tide", "harbour", "storm", "crane"]), min_size=3, max_size=8).map(" ".join)


@given(SHINGLED, SHINGLED, st.floats(0.05, 1))
@settings(max_examples=60)
def test_what_resembles_each_other_does_so_by_the_jaccard_index_of_scikit_learn(first, second, threshold):
    table = CountVectorizer(ngram_range=(3, 3), binary=True).fit_transform([first, second]).toarray()
    alike = jaccard_score(table[0], table[1]) >= threshold
    assert names(drop_duplicates(hits_of(first, second), threshold=threshold)) == ["p1", "p2"][: 2 - alike]


# -- windows


def test_a_window_holds_the_neighbours_as_the_document_has_them():
    passages = sentences()
    (window,) = expand_window(found(passages, 3), by_document(passages))
    start, end = window.metadata["start"], window.metadata["end"]
    assert window.text == HARBOUR[start:end] == " ".join(passage.text for passage in passages[1:4])
    assert (window.id, window.score, window.components) == ("harbour.md#3", 1, {"dense": 1})
    assert window.metadata["found"] == ["harbour.md#3"]
    assert window.metadata["passages"] == ["harbour.md#2", "harbour.md#3", "harbour.md#4"]
    assert window.text[slice(*window.metadata["core"])] == passages[2].text


def test_windows_that_overlap_are_one_in_the_place_of_the_best():
    passages = sentences()
    windows = expand_window([*found(passages, 5, 1, 4)], by_document(passages))
    assert [(window.id, window.rank) for window in windows] == [("harbour.md#5", 1), ("harbour.md#1", 2)]
    assert windows[0].text == HARBOUR[HARBOUR.index("In 1871") :]
    assert windows[0].metadata["found"] == ["harbour.md#5", "harbour.md#4"]
    assert windows[1].text == " ".join(passage.text for passage in passages[:2])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("One.", 0, 4), ("Two.", 5, 9), ("Three.", 12, 18)], "One. Two.\n\nThree."),
        ([("Before.", 0, 7), ("column: a", 8, 13), ("After.", 14, 20)], "Before.\ncolumn: a\nAfter."),
        ([("Abcd.", 0, 5), ("Wxyz.", 2, 7)], "Abcd.\nWxyz."),  # the document is another one: nothing is lost
        ([("No 1.", None, None), ("No 2.", None, None)], "No 1.\nNo 2."),
    ],
)
def test_what_stands_between_passages(parts, text):
    passages = [
        Passage(part, part, {"document": "d", "paragraph": number, "start": start, "end": end})
        for number, (part, start, end) in enumerate(parts)
    ]
    (window,) = expand_window(found(passages, 2), by_document(passages[::-1]))
    assert window.text == text
    assert text[slice(*window.metadata["core"])] == parts[1][0]
    assert (window.metadata.get("start"), window.metadata.get("end")) == (parts[0][1], parts[-1][2])


def test_any_store_can_give_neighbours():
    passages, asked = sentences(), []

    def of_documents(documents):
        asked.append(list(documents))
        return reversed(passages)

    alone = hit("x", "Of no document.", 3)
    windows = expand_window([*found(passages, 1, 6), alone], of_documents)
    assert asked == [["harbour.md"]]
    assert [item.id for item in windows] == ["harbour.md#1", "harbour.md#6", "x"]
    assert windows == expand_window([*found(passages, 1, 6), alone], by_document(passages))
    with pytest.raises(InputError, match=r"no passage 'harbour.md#1' of the document 'harbour.md'"):
        expand_window(found(passages, 1), {})
    with pytest.raises(InputError, match="before is -1"):
        expand_window(found(passages, 1), {}, before=-1)


@given(st.data())
@settings(max_examples=100)
def test_windows_are_parts_of_the_document_that_hold_every_hit_and_give_nothing_twice(data):
    content = data.draw(st.text("abc ", min_size=12, max_size=40))
    step, size = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 6))
    passages = cut_at(content, [(at, min(at + step + size, len(content))) for at in range(0, len(content), step)])
    numbers = data.draw(st.lists(st.integers(1, len(passages)), unique=True, max_size=5))
    before, after = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    hits = found(passages, *numbers)
    windows = expand_window(hits, by_document(passages), before=before, after=after)
    spans = sorted((window.metadata["start"], window.metadata["end"]) for window in windows)
    assert all(window.text == content[window.metadata["start"] : window.metadata["end"]] for window in windows)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    held = [name for window in windows for name in window.metadata.get("found", [window.id])]
    assert sorted(held) == sorted(names(hits))
    for window in windows:
        core = slice(*window.metadata.get("core", (0, len(window.text))))
        assert window.text[core] == next(item.text for item in hits if item.id == window.id)


# -- parents


def children(parent, n):
    return [
        Passage(f"{parent}.{number}", f"Part {number} of {parent}.", {"parent": parent}) for number in range(1, n + 1)
    ]


def parents(**n_children):
    return {
        name: Passage(name, " ".join(child.text for child in children(name, n)), {"children": n, "title": name})
        for name, n in n_children.items()
    }


def test_parents_stand_in_for_their_children_once_each_in_the_order_of_the_best():
    a, b = children("a", 2), children("b", 3)
    hits = [hit(child.id, child.text, rank, **child.metadata) for rank, child in enumerate([b[0], a[1], b[2]], 1)]
    given = expand_parents(hits, parents(a=2, b=3))
    assert [(item.id, item.rank, item.score) for item in given] == [("b", 1, 1), ("a", 2, 1 / 2)]
    assert given[0].text == "Part 1 of b. Part 2 of b. Part 3 of b."
    assert given[0].metadata == {"children": 3, "title": "b", "found": ["b.1", "b.3"], "core": [0, 12]}
    assert expand_parents(hits, lambda ids: [parents(a=2, b=3)[name] for name in ids]) == given
    assert expand_parents(given, {}) == given


def test_with_a_threshold_more_than_that_share_of_the_children_must_be_found():
    a, b = children("a", 2), children("b", 3)
    hits = [hit(child.id, child.text, rank, **child.metadata) for rank, child in enumerate([b[0], a[1], b[2]], 1)]
    assert names(expand_parents(hits, parents(a=2, b=3), threshold=0.5)) == ["b", "a.2"]
    assert names(expand_parents(hits, parents(a=2, b=4), threshold=0.5)) == ["b.1", "a.2", "b.3"]
    with pytest.raises(InputError, match="'children' of the parent 'b' is None"):
        expand_parents(hits, {"a": Passage("a", "A"), "b": Passage("b", "B")}, threshold=0.5)


def test_parents_may_give_way_to_theirs_and_a_parent_that_was_found_itself_comes_once():
    section = Passage("s", "Part 1 of a. And more.", {"parent": "d", "children": ["s.1"]})
    document = Passage("d", "Title. Part 1 of a. And more.", {"children": ["s"]})
    hits = [hit("s.1", "Part 1 of a.", 1, parent="s"), hit("s", section.text, 2, **section.metadata)]
    store = {"s": section, "d": document}
    (one,) = expand_parents(hits[:1], store)
    assert (one.id, one.metadata["found"]) == ("s", ["s.1"])
    (top,) = expand_parents(expand_parents(hits, store, threshold=0.5), store, threshold=0.5)
    assert (top.id, top.metadata["found"]) == ("d", ["s.1", "s"])
    assert expand_parents(hits[::-1], store) == expand_parents(hits, store)
    assert [(item.id, item.metadata["found"]) for item in expand_parents(hits, store)] == [("s", ["s.1", "s"])]


def test_a_parent_that_is_nowhere_is_named():
    with pytest.raises(InputError, match=r"parents holds no passage 'a', which hit 'a.1' names"):
        expand_parents([hit("a.1", parent="a")], {})
    with pytest.raises(InputError, match="must be below 1"):
        expand_parents([], {}, threshold=1)
    with pytest.raises(InputTypeError, match="'parent' of hit 'x' must be a string, not 3"):
        expand_parents([hit("x", parent=3)], {})


# -- budget


def test_the_best_that_fit_are_taken_and_what_does_not_fit_is_left_out_or_cut():
    hits = hits_of("one two three", "a b c d e f. This is the second sentence of it.", "four five")
    assert names(fit_budget(hits, 5)) == ["p1", "p3"]
    taken = fit_budget(hits, 9, cut=True)
    assert [(item.id, item.rank) for item in taken] == [("p1", 1), ("p3", 2)]  # no sentence of the second fits into 6
    long = hits_of("The first sentence is kept whole. The second one, which says more, is cut away.")
    (cut,) = fit_budget(long, 10, cut=True)
    assert (cut.text, cut.metadata) == ("The first sentence is kept whole.", {"cut": True})


PROSE = "A sentence that goes on in\nthe next line"


@pytest.mark.parametrize(
    ("text", "budget", "kept"),
    [
        (f"{PROSE}. And another one that goes on in\nthe next line.", 12, f"{PROSE}."),
        (f"{PROSE}. And another one that goes on in\nthe next line.", 8, None),
        ("- the first item of the list\n- the second item of the list", 8, "- the first item of the list"),
        ("name and height: Eiffel Tower 330\nname and height: Tokyo 333", 8, "name and height: Eiffel Tower 330"),
    ],
)
def test_wrapped_lines_are_not_cut_but_items_and_rows_are(text, budget, kept):
    assert [item.text for item in fit_budget(hits_of(text), budget, cut=True)] == [kept] * (kept is not None)


def test_what_is_cut_is_cut_around_what_was_found():
    passages = sentences()
    (window,) = expand_window(found(passages, 4), by_document(passages), before=3, after=2)
    (cut,) = fit_budget([window], 25, cut=True)
    assert "nine years" in cut.text
    assert cut.text[slice(*cut.metadata["core"])] == passages[3].text
    assert cut.text == HARBOUR[cut.metadata["start"] : cut.metadata["end"]]
    assert fit_budget([window], 3, cut=True) == []


def test_lengths_are_counted_as_asked(encoder):
    def pieces(text):
        return len(encoder.tokenize([text]).values)

    hits = hits_of("Breakwaters outlast lighthouses.", "Cranes.")
    assert (count_words(hits[0].text), pieces(hits[0].text)) == (3, 9)
    assert names(fit_budget(hits, 4)) == ["p1", "p2"]
    assert names(fit_budget(hits, 4, count=pieces)) == ["p2"]
    with pytest.raises(InputTypeError, match=r"count must give a whole number \('list'"):
        fit_budget(hits, 4, count=str.split)
    with pytest.raises(InputError, match="budget is 0"):
        fit_budget(hits, 0)


PROSES = st.lists(st.text("ab .?!\n\t\x1c", max_size=80), max_size=6)


@given(PROSES, st.integers(1, 30), st.booleans(), st.sampled_from([count_words, len]))
@settings(max_examples=200)
def test_never_more_than_the_budget_nothing_invented_and_twice_is_once(texts, budget, cut, count):
    hits = hits_of(*texts)
    taken = fit_budget(hits, budget, count=count, cut=cut)
    assert sum(count(item.text) for item in taken) <= budget
    assert all(item.text in next(given.text for given in hits if given.id == item.id) for item in taken)
    assert [item.rank_before for item in taken] == sorted({item.rank_before for item in taken})
    assert fit_budget(taken, budget, count=count, cut=cut) == taken
    if not cut:
        assert all(item.text == hits[item.rank_before - 1].text for item in taken)


# -- order


@pytest.mark.parametrize(("n", "order"), [(1, [1]), (2, [1, 2]), (6, [1, 3, 5, 6, 4, 2]), (7, [1, 3, 5, 7, 6, 4, 2])])
def test_the_best_are_first_and_last(n, order):
    assert [item.rank for item in reorder_for_long_context(hits_of(*"abcdefg"[:n]))] == order


# -- text


def test_sources_are_numbered_and_named():
    hits = [
        hit("a#3", "It opened in 1874.", document="a.md", page=2, heading="The bridge"),
        hit("b", "Braces {stay} & <so> do signs.", 2, title="On signs"),
        hit("c", "Nothing is known of it.", 3),
    ]
    made = as_prompt(hits)
    assert made.text == (
        "[1] a.md, p. 2, The bridge\nIt opened in 1874.\n\n"
        "[2] On signs\nBraces {stay} & <so> do signs.\n\n"
        "[3] c\nNothing is known of it."
    )
    assert [(source.number, source.id, source.label) for source in made.sources][1:] == [
        (2, "b", "On signs"),
        (3, "c", "c"),
    ]
    assert (made.sources[0].document, made.sources[0].page, made.sources[1].title) == ("a.md", 2, "On signs")
    assert (made.count, made.hits) == (count_words(made.text), tuple(hits))
    marked = as_prompt(hits[:1], template="<source id={number}>{text}</source>")
    assert marked.text == "<source id=1>It opened in 1874.</source>"
    assert (as_prompt([]).text, as_prompt([]).sources, as_prompt([]).count) == ("", (), 0)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("[{number}]", "has no {text}"),
        ("{page} {text}", "'page'"),
        ("{} {text}", "is not a format string"),
        ("{text", "is not a format string"),
    ],
)
def test_templates_are_checked(template, says):
    with pytest.raises(InputError, match=says):
        as_prompt([], template=template)


def test_what_is_no_hit_is_refused():
    with pytest.raises(InputTypeError, match=r"hits must be a sequence of Hit.*text"):
        build_context("text")
    with pytest.raises(InputTypeError, match=r"hits must be a sequence of Hit.*Passage"):
        build_context([Passage("a", "text")])
    with pytest.raises(InputError, match="documents and parents cannot be combined"):
        build_context([], documents={}, parents={})


# -- all of it


@given(PROSES, st.integers(1, 60), st.sampled_from([count_words, len, lambda text: len(text) ** 2 // 100]))
@settings(max_examples=100)
def test_a_context_is_never_longer_than_its_budget(texts, budget, count):
    made = build_context(hits_of(*texts), budget=budget, count=count)
    assert count(made.text) <= budget
    assert made.count <= budget
    assert len(made.sources) == len(made.hits) == len({item.id for item in made.hits})


def test_neighbours_are_added_from_the_best_hit_on_and_take_the_room_of_none():
    passages = sentences()
    hits, store = found(passages, 6, 1), by_document(passages)
    first, second, *_, before_last, last = (passage.text for passage in passages)
    for budget, texts in [
        (60, [f"{before_last} {last}", f"{first} {second}"]),
        (34, [f"{before_last} {last}", first]),
        (25, [last, first]),
        (12, [last]),
    ]:
        assert [item.text for item in build_context(hits, documents=store, budget=budget).hits] == texts
    assert expand_window(hits, store, best=0) == hits
