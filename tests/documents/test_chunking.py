from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semclass import Chunking, InputError, InputTypeError, OnnxEncoder
from semclass.documents.chunking import CUTS, cut
from semclass.documents.decoding import without_directives
from semclass.documents.meaning import cut_by_meaning

LIGHT = "The keeper lit the lamp at dusk. It burnt until the morning came. Nobody saw the fog roll in from the sea."


def texts(text, *, markdown=False, **options):
    return [passage.text for passage in cut(text, "d", Chunking(**options), markdown=markdown)]


def markdown(text, **options):
    return list(cut(text, "d.md", Chunking(**options), markdown=True))


# -- ways to cut ------------------------------------------------------------------------------------------------------


def test_paragraphs_are_cut_at_blank_lines():
    text = "One paragraph of two lines,\nof more than seven words.\n \t\n  Another, which has one or two words more.\n"
    first, second = cut(text, "notes/tea.txt")
    assert (first.id, second.id) == ("notes/tea.txt#1", "notes/tea.txt#2")
    assert second.text == "Another, which has one or two words more."
    assert second.metadata == {"document": "notes/tea.txt", "paragraph": 2, "start": 59, "end": 100}


@pytest.mark.parametrize(
    "entries",
    [
        ["Error 101: no fuel", "Error 105: no oil"], ["E-101\nThere is no fuel.", "E-105\nThere is no oil."],
        ["Order 7 has come. It is broken.", "Order 9 has not."], ["fault code 1a: no fuel", "fault code 1b: no oil"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("between", ["\n", "\n\n", "\n  \n"])
@pytest.mark.parametrize("above", ["", "Codes\n=====\n\n"])
def test_entries_of_a_list_in_plain_text_are_passages(entries, between, above):
    assert texts(above + between.join(entries))[-1] == entries[1]
    assert texts(above + between.join(entries), by="paragraph")[0].endswith(entries[0])


@pytest.mark.parametrize(
    "text", ["Ann Lee\nHarbour Street 5\n1234 Holm", "On May 3\nMay 3 was cold.", "it is in\npage 4\npage 5"]
)
def test_other_short_lines_stay_together(text):
    assert texts(text) == [text]


def test_small_paragraphs_are_joined_to_what_they_belong_to():
    assert texts(f"Note\n\n{LIGHT}\n\nFog horn\n\n{LIGHT}\n\nSee above.") == [
        f"Note\n\n{LIGHT}",
        f"Fog horn\n\n{LIGHT}\n\nSee above.",
    ]
    assert texts(f"Note\n\n{LIGHT}", size=9)[0] == "Note\n\nThe keeper lit the lamp at dusk."
    assert texts("Note\n\nSee\n\nbelow") == ["Note\n\nSee\n\nbelow"]
    table, last = markdown(
        "Stores:\n\n| oil |\n|---|\n| 40 barrels in the cellar, 2 in the tower |\n\n# Crew\n\nTwo men."
    )
    assert (table.text, table.metadata["table"]) == ("Stores:\noil: 40 barrels in the cellar, 2 in the tower", True)
    assert last.text == "Crew\n\nTwo men.", "with its heading, as it would say little without"


def test_running_headers_and_footers_are_no_passages():
    bodies = [f"In the year {year} of {name}, nobody saw the fog roll in." for year, name in enumerate("abcdef", 1874)]
    sides = ["The Keeper", "On Lighthouses"]
    pages = [f"{sides[place % 2]}\n{body}\n\nPage {place + 7} of 20\n" for place, body in enumerate(bodies)]
    assert texts("\f".join(pages)) == bodies
    chapters = [f"{body}\n\n{'Lamps' if place < 3 else 'Fog'} {place + 7}\n" for place, body in enumerate(bodies)]
    assert texts("\f".join(chapters)) == bodies
    assert texts("\f".join(pages[:2])) != bodies[:2], "two pages may be alike by chance"


def test_windows_hold_whole_sentences_and_overlap():
    assert texts(LIGHT, by="window", size=14, overlap=7) == [
        "The keeper lit the lamp at dusk. It burnt until the morning came.",
        "Nobody saw the fog roll in from the sea.",  # with the sentence before it would hold 15 words
    ]
    assert texts(LIGHT, by="window", size=15, overlap=7)[1].startswith("It burnt until")
    assert [len(text.split()) for text in texts("word " * 250, by="window")] == [83, 83, 84]


def test_a_size_never_cuts_a_word():
    assert texts("Supercalifragilistic words.", size=1) == ["Supercalifragilistic", "words."]


def test_wrapped_lines_of_plain_text_are_one():
    lines = [
        "The keeper of the lighthouse lit the lamp at dusk, and then went to",
        "bed soon after the first of the ships had passed the rock. Nobody saw",
        "the fog.",
    ]
    for indent in ("", "   "):
        assert texts(f"\n{indent}".join(lines)) == [" ".join(lines)]
    for kept in (
        "\n".join(line.title() for line in lines),
        "\n- ".join(lines),
        "\n".join([lines[0], "bed.", *lines]),
        "\n".join(line[:40] for line in lines),
    ):
        assert texts(kept) == [kept], "a poem, items, a short line, a narrow column"


def test_a_page_starts_at_a_form_feed():
    found = list(
        cut("Title\n\nThe end of page one\n\fcomes on page two.\n\f\fPage four.", "d.pdf", Chunking("section"))
    )
    assert [(passage.metadata["page"], passage.text) for passage in found] == [
        (1, "Title\n\nThe end of page one"),
        (2, "comes on page two."),
        (4, "Page four."),
    ]


# -- Markdown ---------------------------------------------------------------------------------------------------------


def test_headings_are_a_path_and_no_passages():
    text = "Before.\n\n# Tea #\n## Green\nLeaves.\n### Sencha\n\nSteamed.\n## C#\nRolled.\n\nCoffee\n======\nBeans.\n"
    found = markdown(text, by="section")
    assert [(passage.text, passage.metadata.get("headings")) for passage in found] == [
        ("Before.", None),
        ("Leaves.", ["Tea", "Green"]),
        ("Steamed.", ["Tea", "Green", "Sencha"]),
        ("Rolled.", ["Tea", "C#"]),
        ("Beans.", ["Coffee"]),
    ]
    assert found[2].metadata["heading"] == "Sencha"


def test_fenced_code_stays_whole_and_holds_no_headings():
    text = "# Use\n\n```sh\n# a comment\n\nmake\n```\nDone.\n\n~~~~\n```\n# not this\n~~~~\n"
    found = markdown(text, size=6)
    assert [passage.text for passage in found] == [text[7:34], "Done.", "~~~~\n```\n# not this\n~~~~"]
    assert {passage.metadata["heading"] for passage in found} == {"Use"}
    long = "```\n" + "make all of it\n" * 6 + "```"
    assert [passage.text.count("\n") for passage in markdown(long, size=9)] == [2, 1, 2], "cut at lines"


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("---\ntitle: Tea\n---\nText.\n\n***\n\n[link]: https://example.org\n\nMore.\n", ["Text.", "More."]),
        ("---\n\nNo front matter.\n\n---\n", ["No front matter."]),
        ("<!-- a\n\ncomment -->\nText.", ["Text."]),
        ("<!-- never closed\n\nText.", ["<!-- never closed Text."]),
        ('<div align="center">\n  <img src="a"><br/>\n</div>\n\n<details>\n\nA\n\n</details>\n', ["A"]),
        ("<https://example.org>\n\n<b>x</b>", ["<https://example.org>", "<b>x</b>"]),
        ("A heading of\ntwo lines\n---\nText.", ["Text."]),
    ],
)
def test_front_matter_links_and_comments_are_no_passages(text, passages):
    assert [part for passage in markdown(text, by="section") for part in passage.text.split("\n\n")] == passages


@pytest.mark.parametrize("by", CUTS)
def test_raw_html_is_read_without_its_tags_in_every_cut(by):
    centred = "<p align=center>\n  Fog &amp; <b>rain</b>\n</p>"
    text = f"<script>\n\nvar x = 1;\n</script>\n\n{LIGHT}\n\n<style>p {{}}</style>\n{centred}\n\n{LIGHT}\n"
    found = markdown(text, by=by, size=40)
    assert " ".join(" ".join(passage.text for passage in found).split()) == f"{LIGHT} Fog & rain {LIGHT}"
    assert all("table" not in passage.metadata for passage in found)


def test_tables_are_written_out_under_their_columns_and_headings():
    columns = "| kind | minutes | of `a_*` |\n|:--|--:|---|\n"
    text = f"# Tea\n\n{columns}| **green** | 2 | [x](y) |\n| black \\| red | | 5<br>6 |\n\n{LIGHT}\n"
    table, note = markdown(text)
    assert table.text == "kind: green; minutes: 2; of a_*: x\nkind: black | red; of a_*: 5, 6"
    assert (table.metadata["heading"], table.metadata["table"]) == ("Tea", True)
    assert text[table.metadata["start"] :].startswith("| **green**")
    assert note.text == LIGHT
    assert [passage.text for passage in markdown(text, by="section")] == [f"{table.text}\n{LIGHT}"]


def test_every_part_of_a_long_table_knows_its_columns():
    rows = "".join(f"| place {number} | {number * 7} metres above the sea |\n" for number in range(60))
    found = markdown(f"name | height\n---|---\n{rows}")
    assert len(found) > 3
    assert all(line.startswith("name: place") for passage in found for line in passage.text.split("\n"))
    # a row is longer than this, but half of one would say nothing
    assert len(markdown(f"name | height\n---|---\n{rows}", size=3)) == 60


def test_lists_stay_whole_with_what_introduces_them():
    text = "Take:\n- leaves\n\n  of the best kind\n\n- water\n  ```\n\n  # boil\n  ```\n\n"
    assert [passage.text for passage in markdown(f"{text}{LIGHT}")] == [text.strip(), LIGHT]


@pytest.mark.parametrize("is_markdown", [True, False])
@pytest.mark.parametrize("by", ["paragraph", "window", "section"])
def test_what_ends_in_a_colon_is_joined_to_the_list_below_it(by, is_markdown):
    tea = "For tea, the keeper takes what is in the cellar:\n\n- leaves of the very best kind that there is."
    text = f"{tea}\n- water from the spring, which boils for a minute.\n\n{LIGHT}"
    found = texts(text, by=by, size=20 if by == "window" else None, markdown=is_markdown)
    assert found[0].startswith(tea)
    assert LIGHT in found or by != "paragraph"
    assert texts(text, by="window", size=10, markdown=is_markdown)[0] == tea.partition("\n")[0], "both do not fit"


DIRECTIVES = """(lamp)=
# The `lamp`

It has a {class}`~tower.Wick`, see {ref}`the wick <wick>`.

:::{versionadded} 2.0
The lamp is new.
:::

```{note}
:class: tip

Fill it with oil.
```

````{code-block} sh
(oil)=
:::
````

```{toctree}
wick
```
"""


def test_directives_around_prose_are_unwrapped():
    (passage,) = markdown(without_directives(DIRECTIVES), by="section")
    assert passage.metadata["heading"] == "The lamp"
    wick, new, *oil = passage.text.split("\n\n")
    assert (wick, new.split()[-1]) == ("It has a tower.Wick, see the wick.", "new.")
    assert oil == ["Fill it with oil.", "````{code-block} sh\n(oil)=\n:::\n````"]
    assert len(without_directives(DIRECTIVES)) == len(DIRECTIVES)


# -- properties -------------------------------------------------------------------------------------------------------

PIECES = [
    "word ", "Long words. ", "\n", "\n\n", "# ", "## x\n", "- ", "1. ", "```\n", "| a | b |\n", "|---|---|\n", "---\n",
    "字", "。", "。」", "\f", "    ", "> ", "<!-- ", "-->", "\r\n", "é\u2028", "[a]: b\n", "===\n", "? ", "\x1c",
]  # fmt: skip
anything = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(anything, st.sampled_from(CUTS), st.booleans(), st.one_of(st.none(), st.integers(1, 9)), st.integers(0, 3))
def test_a_passage_is_what_stands_at_its_place_within_its_size(text, by, is_markdown, size, overlap):
    overlap = min(overlap, (size or 1) - 1)
    found = list(cut(text, "d", Chunking(by, size, overlap), markdown=is_markdown))
    assert [passage.id for passage in found] == [f"d#{number}" for number in range(1, len(found) + 1)]
    for passage in found:
        start, end = passage.metadata["start"], passage.metadata["end"]
        assert passage.text.strip()
        assert not text[start - 1 : start].strip() or not is_markdown or text[start - 1] in "\f。」>"
        assert "\f" not in text[start:end]
        if "table" not in passage.metadata and not (is_markdown and "<!--" in text[start:end]):
            # rules and link definitions between blocks are left out, and lines of a paragraph may be joined
            same = text[start:end].split() == passage.text.split()
            assert by == "section" or same or "---" in text or "[a]:" in text
            words = [word for word in passage.text.split() if word not in ("---", ">", "[a]:", "b")]
            assert size is None or len(words) <= size
    starts = [passage.metadata["start"] for passage in found]
    assert starts == sorted(starts)
    assert starts == list(dict.fromkeys(starts))


@given(anything, st.sampled_from(CUTS), st.one_of(st.none(), st.integers(1, 9)))
def test_no_word_of_a_plain_text_is_lost_or_repeated(text, by, size):
    for mark in ("\f", "===", "---"):  # pages may have running headers, and underlined lines are headings
        text = text.replace(mark, "")
    assert "".join("".join(texts(text, by=by, size=size)).split()) == "".join(text.split())


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"by": "page"}, "by is 'page'; it must be one of 'paragraph'"),
        ({"size": 0}, "size is 0"),
        ({"overlap": 3}, "overlap is 3, but overlap needs a size"),
        ({"by": "window", "size": 20, "overlap": 20}, "overlap is 20; it must be less than size, which is 20"),
    ],
)
def test_cuts_that_cannot_be_are_refused_at_once(options, says):
    with pytest.raises(InputError, match=says):
        Chunking(**options)
    with pytest.raises(InputTypeError, match="text must be a string, not bytes"):
        cut(b"x", "d")


def test_lines_that_an_editor_wrapped_are_one_in_markdown():
    tea = "Tea is made of the leaves\nof one shrub.  \nIt grows on\nhills."
    text = f"{tea}\n\n- green: two\n  minutes\n- black: four minutes or five\n\n> a\n> b"
    first, second = cut(text, "a", markdown=True)
    assert first.text == "Tea is made of the leaves of one shrub.  \nIt grows on hills."
    assert second.text == "- green: two minutes\n- black: four minutes or five\n\n> a\n> b"
    assert text[first.metadata["start"] : first.metadata["end"]].split() == first.text.split()


# -- headings of plain text, notes and stubs --------------------------------------------------------------------------

HELD = "The keeper lit the lamp at dusk, and it burnt until the morning."


def sections(text, *, markdown=False):
    return [(passage.metadata.get("headings", []), passage.text) for passage in cut(text, "d", markdown=markdown)]


def test_underlined_lines_of_plain_text_are_headings():
    text = f"======\nLights\n======\n\n{HELD}\n\nLamp oil\n--------\n{HELD}\n\nFog\n======\n\n{HELD}\n"
    assert sections(text) == [(["Lights"], HELD), (["Lights", "Lamp oil"], HELD), (["Lights", "Lamp oil", "Fog"], HELD)]
    pages = f"{HELD}\n\fLamp\n====\n\n{HELD}\n"
    assert [heads for heads, _ in sections(pages)] == [[], ["Lamp"]]


@pytest.mark.parametrize(
    "text",
    [
        f"{HELD}\nKeeper\n------\n",
        f"{HELD}\n\nMany thanks,\n------------\n\n{HELD}",
        f"{HELD}\n\nlamp     oil\n------------\nlarge    2\n",
        f"{HELD}\n\n{'A line that is much longer than what is below. ' * 2}\n---\n\n{HELD}",
        f"{HELD}\n\n--\nAnn Lee\n",
    ],
    ids=["wrapped", "comma", "columns", "rule", "signature"],
)
def test_other_lines_above_a_rule_are_text(text):
    assert all(not heads for heads, _ in sections(text))


@pytest.mark.parametrize("name", ["Note", "Tip:", "WARNING"])
def test_notes_belong_to_the_section_above(name):
    text = f"# Lamp\n\n{HELD}\n\n### {name}\n\n{HELD}\n"
    assert sections(text, markdown=True) == [(["Lamp"], f"{HELD}\n\n{name}\n\n{HELD}")]
    assert sections(f"# {name}\n\n{HELD}\n", markdown=True)[0][0] == [name], "nothing is above"


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("# Lamp\n\nLamp\n", []),
        ("# Lamp\n\n[Oil](oil.md), [Wick](wick.md)\n", []),
        ("# Lamp\n\n[Oil](oil.md) is needed.\n", ["Lamp\n\n[Oil](oil.md) is needed."]),
        ("# Lamp\n\n[Oil](https://example.org/oil)\n", ["Lamp\n\n[Oil](https://example.org/oil)"]),
        ("# Lamp\n\n```\nlamp\n```\n", ["Lamp\n\n```\nlamp\n```"]),
        ("# Lamp\n\n2\n", ["Lamp\n\n2"]),
    ],
)
def test_a_heading_or_links_alone_are_no_passage(text, passages):
    assert [passage.text for passage in cut(text, "d", markdown=True)] == passages


def test_titles_of_chapters_are_no_passages():
    bodies = [
        f"In the year {year} of {name}, nobody saw the fog roll in." for year, name in enumerate("abcdefgh", 1874)
    ]
    pages = [f"{'Lamps' if place < 4 else 'Fog'}\n{body}\n" for place, body in enumerate(bodies)]
    assert texts("\f".join(pages)) == bodies
    few = [f"{'Lamps' if place < 2 else body[12:16]}\n{body}" for place, body in enumerate(bodies)]
    assert texts("\f".join(few))[0].startswith("Lamps")
    table = "\f".join(f"| year | fog |\n|---|---|\n| {1874 + place} | none |\n" for place in range(4))
    assert texts(table, markdown=True) == [f"year: {1874 + place}; fog: none" for place in range(4)]


def test_paragraphs_below_a_heading_fill_a_passage():
    """A paragraph of some words tells little without those beside it; a text without headings may be a list of notes."""
    paragraph = " ".join(["The keeper lit the lamp at dusk."] * 4)  # 28 words
    texts = [text for _, text in sections("# Lamp\n\n" + "\n\n".join([paragraph] * 7), markdown=True)]
    assert [text.count("\n\n") + 1 for text in texts] == [3, 3, 1]
    long = " ".join([paragraph] * 6)
    assert [text for _, text in sections(f"# Lamp\n\n{paragraph}\n\n{long}", markdown=True)] == [paragraph, long]
    assert len(sections("\n\n".join([paragraph] * 7), markdown=True)) == 7
    assert len(list(cut("# Lamp\n\n" + "\n\n".join([paragraph] * 7), "lamp", Chunking(size=200), markdown=True))) == 7


def test_a_table_is_not_joined_to_the_text_before_it():
    text = f"# Lamp\n\n{HELD}\n\n| oil | price |\n|---|---|\n| whale | 3 |\n| rape | 2 |\n\n{HELD}\n"
    assert [held.startswith("oil") for _, held in sections(text, markdown=True)][:2] == [False, True]


def test_a_text_is_cut_where_its_meaning_changes():
    encoder = OnnxEncoder.load()
    tower = "The tower was built in 1901. The tower is forty metres high. The walls of the tower are of granite."
    bread = "Bread is baked at dawn. The oven is heated with wood. Flour comes from the mill."
    first, *_, last = runs = cut_by_meaning(f"{tower} {bread}", encoder)
    assert " ".join(runs) == f"{tower} {bread}"
    assert ("1901" in first, "Flour" in last, "Flour" in first) == (True, True, False)
    assert cut_by_meaning("One.", encoder) == ["One."]
    assert all(len(run.split()) <= 15 for run in cut_by_meaning(f"{tower} {bread}", encoder, 15))
