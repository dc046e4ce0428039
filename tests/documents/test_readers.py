from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from world import FAKE

from semclass import Chunking, InputError, Passage, PassageIndex, SkippedWarning
from semclass.documents.labelled import read_texts
from semclass.documents.readers import find_files, iter_passages, listed, read_passages


def write_lines(path, *records):
    path.write_text("".join(record if isinstance(record, str) else json.dumps(record) + "\n" for record in records))
    return path


def unsupported_files(folder):
    unsupported = find_files(folder).unsupported
    return listed(unsupported) if unsupported else ""


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "The lamp of the light-\nhouse is lit. Its founda-\ntion is old.",
            "The lamp of the lighthouse is lit. Its foundation is old.",
        ),
        ("  the light-\n  house, which is lit", "the lighthouse, which is lit"),
        ("the light\xad\nhouse of the co\xadoperative", "the lighthouse of the cooperative"),
        ("A well-\nknown house is well-known.", "A well-known house is well-known."),
        ("Twenty-\none of the well-\nread came.", "Twenty-one of the well-read came."),
        ("A sister-in-\nlaw came.", "A sister-in-law came."),
        ("The pre-\nand post-war years", "The pre-\nand post-war years"),
        ("Ferries Holm-\nSund", "Ferries Holm-\nSund"),
    ],
)
@pytest.mark.parametrize("size", [None, 20])
def test_words_that_ends_of_lines_divide_are_joined(tmp_path, text, read, size):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    found = read_passages(tmp_path / "a.txt", Chunking(size=size))
    assert "\n".join(one.text for one in found).split() == read.split()


# -- JSON lines


def test_a_beir_folder_gives_ids_texts_and_titles(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", {"_id": "a", "title": "Tea", "text": "Leaves."}, {"_id": 7, "text": "x"})
    assert find_files(tmp_path).json_lines is None, "any file may have that name"
    (tmp_path / "queries.jsonl").touch()
    first, second = read_passages(tmp_path)
    assert (first.id, first.text, first.metadata) == ("a", "Leaves.", {"title": "Tea"})
    assert (second.id, second.metadata) == ("7", {})
    assert find_files(tmp_path).count_records() == 2
    source = write_lines(tmp_path / "p.json", {"text": "one", "page": 3}, "\n", {"text": "two", "metadata": {"a": 1}})
    assert [(p.id, p.metadata) for p in read_passages(source)] == [("1", {"page": 3}), ("3", {"a": 1})]


def test_json_lines_are_cut_where_that_is_asked(tmp_path):
    text = "The keeper lit the lamp at dusk. It burnt until the morning came."
    source = write_lines(tmp_path / "p.jsonl", {"_id": "a", "text": text, "year": 1874})
    assert [p.text for p in read_passages(source)] == [text]
    second = read_passages(source, Chunking("window", size=7))[1]
    assert (second.id, second.text) == ("a#2", "It burnt until the morning came.")
    assert second.metadata == {
        "year": 1874,
        "document": "a",
        "window": 2,
        "start": 33,
        "end": 65,
        "file": "p.jsonl",
    }


def test_passages_come_before_the_file_is_read_to_its_end(tmp_path):
    passages = iter_passages(write_lines(tmp_path / "p.jsonl", {"text": "one"}, "broken\n"))
    assert next(passages).text == "one"
    with pytest.raises(InputError, match="line 2: broken JSON"):
        next(passages)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"_id": "a", "text": "x"}\n', '{"_id": "b", "text": \n'], "line 2: broken JSON"),
        (['["a"]\n'], "line 1 must be a JSON object"),
        (['{"_id": "a"}\n'], "line 1: text is missing"),
        (['{"_id": "a", "text": 5}\n'], "line 1: text must be a string, not 5"),
        (['{"_id": "a", "text": "x"}\n', '{"text": "y"}\n'], "line 2: _id is missing"),
        (
            ['{"_id": "a", "text": "x"}\n', "\n", '{"_id": "a", "text": "y"}\n'],
            "line 3: an earlier line has the same _id 'a'",
        ),
        (['{"_id": null, "text": "x"}\n'], "line 1: _id must be a non-empty string"),
        (["\n"], "holds no passages"),
    ],
)
def test_errors_in_json_lines_name_file_and_line(tmp_path, lines, says):
    source = write_lines(tmp_path / "bad.jsonl", *lines)
    with pytest.raises(InputError, match=rf"bad\.jsonl.*{says}"):
        read_passages(source)


# -- text and Markdown


def test_paragraphs_of_a_folder_know_their_places(tmp_path):
    (tmp_path / "sub").mkdir()
    first, second = "One paragraph of two lines,\nwhich are nine words.", "Another one, also of more than seven words."
    (tmp_path / "sub" / "b.txt").write_text(f"{first}\n\n  \n{second}")
    (tmp_path / "a.md").write_text("# Tea\n\nLeaves and water.\n\n## Coffee\nBeans.\n")
    passages = read_passages(tmp_path)
    assert [p.id for p in passages] == ["a.md#1", "a.md#2", "sub/b.txt#1", "sub/b.txt#2"]
    assert [p.metadata.get("heading") for p in passages] == ["Tea", "Coffee", None, None]
    for passage in passages:
        content = (tmp_path / passage.metadata["document"]).read_text()
        assert content[passage.metadata["start"] : passage.metadata["end"]] == passage.text
    assert [len(p.text.split()) for p in read_passages(tmp_path, Chunking("window", 3))] == [3, 1, 3, 3, 3, 3, 3, 2]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_any_system_ends_them(tmp_path, end):
    (tmp_path / "a.txt").write_bytes(f"First paragraph,{end}two lines.{end}{end}Second.{end}".encode())
    assert [p.text for p in read_passages(tmp_path)] == ["First paragraph,\ntwo lines.\n\nSecond."]


def test_hidden_and_unsupported_files_are_skipped(tmp_path):
    for name in (".venv/names.txt", ".hidden.md", "a.MD", "b.markdown", "c.text", "d.rtf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(f"# {name}\r\n\r\nLeaves.\r\n".encode("utf-8-sig"))
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone.md").symlink_to(tmp_path / "gone.md")
    assert [p.id for p in read_passages(tmp_path)] == ["a.MD#1", "b.markdown#1", "c.text#1"]


def test_links_that_lead_out_of_a_folder_are_skipped(tmp_path):
    folder, keep = tmp_path / "corpus", Chunking(keep_copies=True)
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("A secret.")
    (folder / "a.txt").write_text("Tea.")
    (folder / "again.txt").symlink_to("a.txt")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "further.md").symlink_to("out.txt")
    assert [(one.id, one.text) for one in read_passages(folder, keep)] == [("a.txt#1", "Tea."), ("again.txt#1", "Tea.")]
    assert unsupported_files(folder) == "links that lead out of the folder (further.md, out.txt)"
    (tmp_path / "linked").symlink_to(folder, target_is_directory=True)
    assert len(read_passages(tmp_path / "linked", keep)) == 2, "a link that is named itself is followed"


def test_skipped_files_are_listed_with_what_converts_them(tmp_path):
    for name in ("a.txt", "b.rtf", "below/C.RTF", "d.png", "LICENSE", "e.parquet", ".hidden.rtf", ".git/f.rtf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    counts, *_ = commands = unsupported_files(tmp_path).split("; ")
    assert counts == (
        "2 .rtf files, 1 .parquet file, 1 .png file, files without an ending (LICENSE), "
        "links to folders or to nothing (elsewhere)"
    )
    assert ["semclass-documents[pandoc]" in commands[1], ".parquet" in commands[-1]] == [True, True]
    assert unsupported_files(tmp_path / "a.txt") == ""
    write_lines(tmp_path / "corpus.jsonl", {"text": "one"})
    (tmp_path / "qrels").mkdir()
    assert unsupported_files(tmp_path) == ""  # a BEIR folder holds other files, too


def test_the_files_of_an_index_are_not_listed(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    place = tmp_path / "index"
    PassageIndex.build([Passage("a", "text")], passage_encoder=FAKE).save(place)
    assert unsupported_files(tmp_path) == ""
    (place / "notes.md").write_text("notes")  # whoever puts it there wants it read
    assert [passage.id for passage in read_passages(tmp_path)] == ["a.txt#1", "index/notes.md#1"]


# -- what cannot be read


def test_files_that_the_system_does_not_show_are_named(tmp_path, monkeypatch):
    for name in ("a.txt", "shut/b.rtf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "long").symlink_to("a" * 300)
    asked = Path.is_file

    def is_file(path):
        if path.parent.name == "shut":  # may be listed, and not entered
            raise PermissionError(errno.EACCES, "Permission denied")
        return asked(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert unsupported_files(tmp_path).startswith("files that cannot be read (long, shut/b.rtf)")
    assert len(read_passages(tmp_path)) == 1
    (tmp_path / "shut" / "c.txt").symlink_to("c.txt")  # as good as a file that may not be read
    with pytest.raises(InputError, match=r"shut/c.txt cannot be read: "):
        read_passages(tmp_path)
    for read in (read_passages, unsupported_files):
        with pytest.raises(InputError, match=r"cannot be read: Permission denied"):
            read(tmp_path / "shut")
        with pytest.raises(InputError, match=r"a cannot be read: File name too long"):
            read(tmp_path / ("a" * 300))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "holds no documents; give .txt, .text, .log, .md, .markdown, .csv"),
        (
            ["a.tex", "b.rtf"],
            r"holds no documents but 1 .rtf file, 1 .tex file; .* run: pip install semclass-documents",
        ),
        (["a.txt"], "holds no text that can be read"),
    ],
)
def test_a_folder_without_text_says_what_it_holds(tmp_path, names, says):
    for name in names:
        (tmp_path / name).write_text("\n \n")
    with pytest.raises(InputError, match=says):
        list(iter_passages(tmp_path, skipped=[].append))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"caf\xc3\xa9\n" * 9999 + b"caf\xe9\n", "line 10000 is not UTF-8; .*--encoding"),
        ("a.jsonl", '{"text": "caf\xe9"}'.encode("latin-1"), "line 1 is not UTF-8; .* `iconv -f WINDOWS-1252"),
        ("a.jsonl", '{"text": "Tea."}'.encode("utf-16"), "line 1 is not UTF-8; .* `iconv -f UTF-16 -t UTF-8`"),
        ("a.rtf", b"PK\xe2\xe3", "a.rtf is neither text nor JSON lines; .* pip install semclass-documents"),
        ("a.parquet", b"PAR1", "a.parquet is neither text nor JSON lines; write the rows of .parquet files as JSON"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_what_to_do(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_passages(tmp_path / name)


def test_text_is_read_in_the_encoding_that_is_named(tmp_path):
    for name, encoding in (("a.txt", "utf-8"), ("b.txt", "utf-16"), ("c.md", "cp1252"), ("d.txt", "utf-8-sig")):
        (tmp_path / name).write_bytes("Ein Café.\r\n".encode(encoding))
    chunking = Chunking(encoding="cp1252", keep_copies=True)
    assert [passage.text for passage in iter_passages(tmp_path, chunking)] == ["Ein Café."] * 4
    (tmp_path / "e.txt").write_bytes(b"\x81")
    with pytest.raises(InputError, match=r"e\.txt, line 1 is neither UTF-8 nor cp1252"):
        list(iter_passages(tmp_path, chunking))
    with pytest.raises(InputError, match="encoding 'cp9' is unknown"):
        Chunking(encoding="cp9")


def test_files_without_text_and_copies_are_told_and_read_once(tmp_path):
    for name, text in {
        "a.txt": "",
        "b.md": "Tea.",
        "c.txt": " \n",
        "d.txt": "\nTea.\n",
        "e.csv": "text\nTea.\n",
    }.items():
        (tmp_path / name).write_text(text)
    told = []
    assert [one.id for one in iter_passages(tmp_path, skipped=told.append)] == ["b.md#1", "e.csv#1"]
    assert [(one.document, one.kind) for one in told] == [("a.txt", "empty"), ("c.txt", "empty"), ("d.txt", "copy")]
    assert "b.md" in told[2].reason
    with pytest.warns(SkippedWarning) as warned:
        assert len(read_passages(tmp_path, Chunking(keep_copies=True))) == 3
    assert len(warned) == 2


def test_documents_that_cannot_be_read_are_skipped(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}.txt").write_bytes(b"Tea %d." % number if number % 5 else b"caf\xe9")
    skipped = []
    assert len(list(iter_passages(tmp_path, skipped=skipped.append))) == 8
    assert [one.document for one in skipped] == ["0.txt", "5.txt"]
    assert "line 1 is not UTF-8" in skipped[0].reason
    with pytest.raises(InputError, match=r"0\.txt, line 1"):
        list(iter_passages(tmp_path / "0.txt", skipped=skipped.append))
    for path in tmp_path.iterdir():
        path.write_bytes(b"\xe9")
    with pytest.raises(InputError, match="no text that can be read"):
        list(iter_passages(tmp_path, skipped=skipped.append))
    assert len(skipped) == 12


@pytest.mark.parametrize("limit", ["MAX_FILE", "MAX_LINE"])
def test_what_is_too_large_to_be_held_is_refused(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(f"semclass.documents.decoding.{limit}", 10)
    name = "a.txt" if limit == "MAX_FILE" else "a.jsonl"
    (tmp_path / name).write_text('{"text": "Tea is made of leaves."}')
    with pytest.raises(InputError, match="split"):
        read_passages(tmp_path / name)


def test_a_file_whose_name_makes_no_id_is_named(tmp_path):
    try:
        (tmp_path / "tea\udcff.txt").write_text("Leaves.")
    except (OSError, UnicodeError):
        pytest.skip("this file system has no such names")
    with pytest.raises(InputError, match=r"tea\\udcff.txt' is not UTF-8; rename the file"):
        read_passages(tmp_path)


def test_wrong_sources_and_cuts_are_refused_at_once(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        iter_passages(tmp_path / "nowhere")
    with pytest.raises(InputError, match="JSON lines are split only with by"):
        iter_passages(write_lines(tmp_path / "p.jsonl", {"text": "one"}), Chunking(size=5))


DEEP = "[" * 100_000 + "]" * 100_000
DEEPER = "[" * 101 + "]" * 101


def test_half_a_character_and_deep_json_stop_no_folder(tmp_path):
    (tmp_path / "a.json").write_text(r'["Tea \ud83d", 1]')
    (tmp_path / "c.json").write_text(DEEP)
    (tmp_path / "d.md").write_text("Leaves.")
    skipped = []
    found = list(iter_passages(tmp_path, skipped=skipped.append))
    PassageIndex.build(found, passage_encoder=FAKE)
    assert [one.text for one in found] == ["- Tea \ufffd\n- 1", "Leaves."]
    assert [(one.document, "nested too deeply" in one.reason) for one in skipped] == [("c.json", True)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", DEEP, "nested too deeply"),
        ("a.jsonl", f'{{"text": "Tea.", "place": {DEEP}}}', "line 1: the JSON is nested too deeply"),
        (
            "a.jsonl",
            f'{{"text": "Tea.", "place": {DEEPER}}}',
            "line 1: metadata nests deeper",
        ),
    ],
    ids=["a document", "a line", "metadata"],
)
def test_deep_json_is_refused_by_name(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=rf"{name}.*{says}"):
        read_passages(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.md")
    (tmp_path / "b.txt").write_text("Tea.")
    assert [one.id for one in read_passages(tmp_path)] == ["b.txt#1"]
    assert unsupported_files(tmp_path) == "pipes and devices (a.md)"
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    for name in (tmp_path / "a.md", tmp_path / "zero.txt", "/dev/zero"):
        with pytest.raises(InputError, match=r"is a (named pipe|device)"):
            iter_passages(name)


# -- texts


def test_texts_come_one_a_line_or_as_json_lines(tmp_path):
    plain = tmp_path / "q.txt"
    plain.write_text("Who?\nWhen did it \u2028 happen?\r\n", encoding="utf-8")
    assert read_texts(plain) == ["Who?", "When did it \u2028 happen?"]
    assert read_texts(write_lines(tmp_path / "q.jsonl", {"text": "Who?"}, {"text": "When?"})) == ["Who?", "When?"]
    assert read_texts(write_lines(tmp_path / "any", {"text": "Who?"})) == ["Who?"]
    plain.write_text("Who?\n\nWhen?\n")
    with pytest.raises(InputError, match="line 2 is empty"):
        read_texts(plain)
