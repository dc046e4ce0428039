"""Small files that would take minutes or gigabytes are refused with a reason, and their neighbours are read."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import partial

import hostile_files
import pytest
from made_documents import pdf

from semclass import Chunking, InputError, SkippedWarning
from semclass.documents.readers import iter_passages
from semclass_documents import limits
from semclass_documents.reader import convert
from semclass_documents.worker import Worker

REFUSED = {
    "wide.xlsx": (partial(hostile_files.wide_xlsx, rows=400), "more than 3,000,000 cells"),
    "wide.csv": (hostile_files.wide_csv, "more than 3,000,000 cells"),
    "sparse.json": (partial(hostile_files.sparse_json, size=4000), "more than 3,000,000 cells"),
    "spanning.html": (partial(hostile_files.spanning_html, rows=100), "more than 3,000,000 cells"),
    "tags.docx": (partial(hostile_files.long_docx, text=""), "more than 3,000,000 tags"),
    "large.docx": (partial(hostile_files.large_docx, size=210_000_000), "MB unpacked"),
    "large.epub": (partial(hostile_files.large_epub, size=210_000_000), "MB unpacked"),
    "grown.epub": (partial(hostile_files.large_epub, size=3_000_000), "MB of text"),
    "padded.epub": (hostile_files.padded_epub, "MB of text"),
    "entity.docx": (hostile_files.entity_docx, "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_small_file_that_holds_too_much_is_skipped(tmp_path, name):
    write, reason = REFUSED[name]
    write(tmp_path / name)
    (tmp_path / "good.md").write_text(hostile_files.GOOD)
    assert (tmp_path / name).stat().st_size < 4_000_000
    skipped = []
    assert [one.id for one in iter_passages(tmp_path, skipped=skipped.append)] == ["good.md#1"]
    assert [(one.document, reason in one.reason, name in one.reason) for one in skipped] == [(name, True, True)]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_what_takes_too_much_memory_ends_its_process_alone(tmp_path):
    (tmp_path / "many.json").write_text("[" + "{}," * 11_000_000 + "{}]")
    (tmp_path / "good.csv").write_text("part;years\npump;8\n")
    with closing(Worker()) as worker:
        with pytest.raises(InputError, match=r"many\.json took more than 750 MB of memory"):
            worker.read(tmp_path / "many.json", Chunking())
        assert worker.read(tmp_path / "good.csv", Chunking()).text == "| part | years |\n| --- | --- |\n| pump | 8 |"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory")
def test_a_pdf_that_takes_too_much_memory_is_not_called_damaged(tmp_path, monkeypatch):
    hostile_files.large_pdf(tmp_path / "large.pdf", size=200_000_000)
    child_with(monkeypatch, "MAX_MEMORY, limits.MAX_PAGE = 300_000_000, 10**9")
    with closing(Worker()) as worker, pytest.raises(InputError, match=r"large\.pdf took more than \d+ MB of memory"):
        worker.read(tmp_path / "large.pdf", Chunking())


def child_with(monkeypatch, change):
    """Change a limit in the process that reads documents."""
    code = f"import semclass_documents.limits as limits; limits.{change}; from semclass_documents.worker import serve"
    monkeypatch.setattr("semclass_documents.worker._CODE", f"import sys; sys.path[:] = sys.argv[1:]; {code}; serve()")


def test_a_pdf_that_takes_too_long_is_cut_between_pages(tmp_path, monkeypatch):
    pdf(tmp_path / "manual.pdf")
    (tmp_path / "tea.md").write_text(hostile_files.GOOD)
    assert "Oil it." in {one.text for one in iter_passages(tmp_path)}
    child_with(monkeypatch, "PAGES_SHARE = 0")
    cut = []
    found = list(iter_passages(tmp_path, skipped=cut.append))
    assert {"manual.pdf#1", "tea.md#1"} <= {one.id for one in found}
    assert "Oil it." not in {one.text for one in found}
    assert [(one.document, one.kind) for one in cut] == [("manual.pdf", "cut")]
    with pytest.warns(SkippedWarning, match="up to page 1 of 4"):
        list(iter_passages(tmp_path))


def test_pages_too_large_or_repeated_are_left_out(tmp_path):
    hostile_files.long_pdf(tmp_path / "large.pdf", size=21_000_000)
    hostile_files.long_pdf(tmp_path / "same.pdf", size=1000, pages=40)
    large, same = (convert(tmp_path / name, Chunking()) for name in ("large.pdf", "same.pdf"))
    assert (large.text, "20 MB of content on page 1" in large.missing) == ("", True)
    assert same.text.count("\f") == 39
    assert same.text.strip("\f").count("\f") == 0
    assert "39 pages" in same.missing


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_waits_for_ever_ends_by_the_clock(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a.csv")  # nobody writes into it
    (tmp_path / "good.csv").write_text("part;years\npump;8\n")
    with closing(Worker()) as worker:
        with monkeypatch.context() as soon:
            soon.setattr("semclass_documents.worker.CLOCK_FACTOR", 0.01)
            with pytest.raises(InputError, match=r"a\.csv took more than \d+ seconds to read"):
                worker.read(tmp_path / "a.csv", Chunking())
        assert worker.read(tmp_path / "good.csv", Chunking()).text.startswith("| part |")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of a processor's time")
def test_what_takes_too_long_ends_its_process_alone(tmp_path, monkeypatch):
    hostile_files.long_pdf(tmp_path / "long.pdf", size=19_000_000)
    (tmp_path / "good.csv").write_text("part;years\npump;8\n")
    monkeypatch.setattr(limits, "MAX_SECONDS", 1)
    with closing(Worker()) as worker:
        with pytest.raises(InputError, match=r"long\.pdf took more than \d+ seconds"):
            worker.read(tmp_path / "long.pdf", Chunking())
        assert worker.read(tmp_path / "good.csv", Chunking()).text.startswith("| part |")


def test_a_sheet_that_claims_more_than_it_holds_is_read(tmp_path):
    hostile_files.wide_xlsx(tmp_path / "a.xlsx", rows=2)
    (tmp_path / "b.html").write_text("<table>" + "<tr><td colspan=1000000000000>tea<td>oil" * 3)
    assert convert(tmp_path / "a.xlsx", Chunking()).text.count("| 1 |") == 2
    assert convert(tmp_path / "b.html", Chunking()).text.count("| tea | oil |") == 3


def test_the_time_of_a_file_grows_up_to_a_minute():
    assert [limits.seconds_for(size) for size in (1, 900_000, 2_000_000, 400_000_000)] == [25, 25, 30, 60]
