"""The command line with text that most files repeat."""

from __future__ import annotations

import json

import pytest

from semclass import PassageIndex

FOOTER = "Report a bug in this page to the keepers of the lighthouse, by letter or in person."


def write_pages(folder, numbers, footer):
    folder.mkdir(exist_ok=True)
    for number in numbers:
        text = f"In the year {number} nobody saw the fog roll in, although the lamp of tower {number} burnt."
        (folder / f"{number}.md").write_text(f"# Year\n\n{text}\n\n{footer}\n")


def held(index):
    found = PassageIndex.load(index)
    return {passage.text for passage in found.passages(found.rows)}


def has_footer(index):
    return any(FOOTER in text for text in held(index))


def test_boilerplate_is_left_out_and_listed(run, tmp_path):
    write_pages(tmp_path / "docs", range(12), FOOTER)
    code, out, err = run("index", "build", tmp_path / "docs", "--out", tmp_path / "index")
    assert (code, out.startswith("12 passages")) == (0, True)
    assert err.splitlines()[1:] == [f"  in 12 files: {FOOTER}"]
    out = run("index", "build", tmp_path / "docs", "--out", tmp_path / "json", "--json")[1]
    assert json.loads(out)["boilerplate"] == [{"text": FOOTER, "files": 12}]
    code, out, err = run("index", "build", tmp_path / "docs", "--out", tmp_path / "all", "--keep-boilerplate")
    assert (code, has_footer(tmp_path / "all"), err) == (0, True, "")
    # what was built with it is kept with it
    (tmp_path / "docs" / "0.md").write_text(f"# Lamp\n\nNobody lit it.\n\n{FOOTER}\n")
    run("index", "sync", tmp_path / "all", tmp_path / "docs")
    assert any("Nobody lit it" in text and FOOTER in text for text in held(tmp_path / "all"))


@pytest.mark.parametrize("first", ["build", "sync"])
def test_boilerplate_does_not_come_and_go_with_single_files(run, tmp_path, first):
    folder, index = tmp_path / "docs", tmp_path / "index"
    write_pages(folder, range(10), FOOTER)
    assert run("index", *(["build", folder, "--out", index] if first == "build" else ["sync", index, folder]))[0] == 0
    assert not has_footer(index)
    write_pages(folder, range(10, 17), "")
    (folder / "0.md").unlink()
    documents = json.loads(run("index", "sync", index, folder, "--json")[1])["documents"]
    assert (documents["added"], documents["removed"]) == (7, 1)
    assert not has_footer(index), "nine files of sixteen are enough for what is left out already"
    write_pages(folder, range(100, 130), "")
    run("index", "sync", index, folder)
    assert has_footer(index), "nine files of 46 are too few"
