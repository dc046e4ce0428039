from __future__ import annotations

import pytest

from semclass import Chunking
from semclass.documents.readers import iter_passages

KEEP = Chunking(keep_boilerplate=True)
FOOTER = "Report a bug in this page to the keepers of the lighthouse, by letter or in person."
BODIES = [
    f"In the year {year} nobody saw the fog roll in, although the lamp of tower {year} burnt." for year in range(60)
]


def write(folder, texts, ending=".md", start=0):
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts, start):
        (folder / f"{number:02}{ending}").write_text(text)
    return folder


def read(folder, chunking=Chunking(), **options):  # noqa: B008 - it cannot change
    """The texts of the passages, and the boilerplate with its number of files."""
    left_out = []
    found = list(iter_passages(folder, chunking, boilerplate=left_out.append, **options))
    return [passage.text for passage in found], [(one.text, one.files) for one in left_out]


def with_footers(bodies):
    return [f"# Year\n\n{body}\n\n{FOOTER}\n" for body in bodies]


@pytest.mark.parametrize("ending", [".md", ".txt", ".html"])
def test_a_paragraph_of_most_files_is_left_out_and_told_once(tmp_path, ending):
    if ending == ".html":
        pytest.importorskip("lxml")
    bodies, footer = BODIES[:12], FOOTER
    pages = [f"<p>{body}</p><p>{footer}</p>" if ending == ".html" else f"{body}\n\n{footer}\n" for body in bodies]
    texts, left_out = read(write(tmp_path / "docs", pages, ending))
    assert (texts, left_out) == (bodies, [(FOOTER, 12)])
    assert read(tmp_path / "docs", KEEP)[0] == [text for body in bodies for text in (body, FOOTER)]


def test_what_is_left_out_moves_nothing(tmp_path):
    folder = write(tmp_path / "docs", [f"{FOOTER}\n\n{body}\n" for body in BODIES[:12]])
    for passage in iter_passages(folder):
        text = (folder / passage.metadata["document"]).read_text()
        assert text[passage.metadata["start"] : passage.metadata["end"]] == passage.text


def test_most_files_of_any_folder_suffice(tmp_path):
    folder = write(tmp_path / "docs", BODIES[:30])
    write(folder / "help", with_footers(BODIES[30:42]))
    assert read(folder)[1] == [(FOOTER, 12)]
    write(folder / "help", BODIES[42:60], start=50)
    assert read(folder)[1] == [], "12 of 30 files are not most of them"


def test_files_that_repeat_others_are_versions(tmp_path):
    whole = "\n\n".join(BODIES[:6])
    folder = write(tmp_path / "docs", [f"{whole}\n\nThis is version {number}.\n" for number in range(12)])
    texts, left_out = read(folder)
    assert (texts.count(BODIES[0]), left_out) == (12, [])
    (folder / "licence.txt").write_text(FOOTER)
    write(folder / "pages", with_footers(BODIES[20:40]))
    texts, left_out = read(folder)
    assert left_out == [(FOOTER, 20)]
    assert (texts.count(FOOTER), texts.count(BODIES[0])) == (1, 12), "the file that is this text keeps it"


@pytest.mark.parametrize(
    "shared",
    [
        "See also:",
        "| the name of the option | what it does to the lamp | when it was added |\n|---|---|---|\n| a | b | c |",
        "```\nlamp = find_lamp(tower, floor, room)\n\nlight_with(oil, wick, match, hand, eye, lens, glass, mirror)\n```",
        "## A heading that says in more than eight words what stands below it",
    ],
    ids=["short", "table", "code", "heading"],
)
def test_what_belongs_to_its_place_is_kept(tmp_path, shared):
    pages = [
        "\n\n".join([*BODIES[place : place + 3], shared, *BODIES[place + 3 : place + 6]]) for place in range(0, 48, 4)
    ]
    kept = list(iter_passages(write(tmp_path / "docs", pages), KEEP))
    assert list(iter_passages(tmp_path / "docs")) == kept


def test_short_lines_at_the_bottom_of_most_files_are_left_out(tmp_path):
    pages = ["\n\n".join([*BODIES[place : place + 4], "Edit this page"]) for place in range(0, 48, 4)]
    texts, left_out = read(write(tmp_path / "docs", pages))
    assert (texts, left_out) == (BODIES[:48], [("Edit this page", 12)])


def test_amid_other_text_the_first_file_keeps_it(tmp_path):
    pages = [f"{body}\n\n{FOOTER}\n\n{body.replace('fog', 'ice')}\n" for body in BODIES[:12]]
    texts, left_out = read(write(tmp_path / "docs", pages))
    assert (texts.index(FOOTER), texts.count(FOOTER), left_out) == (1, 1, [(FOOTER, 12)])
    code = "```\nlight(lamp, oil, wick, match, hand, eye, lens, glass, mirror)\n```"
    texts, _ = read(write(tmp_path / "code", [f"{body}\n\n{FOOTER}\n\n{code}\n" for body in BODIES[:12]]))
    assert texts.count(FOOTER) == 1, "code is text, too"
