from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import made_tickets
import pytest
from running import running
from world import ROOT

from semclass import PassageIndex
from semclass.cli import sync
from semclass.cli.passages import reporting
from semclass.documents.sources import Skipped

run = pytest.fixture(running)


@pytest.fixture
def docs(tmp_path):
    """A folder of documents, one of which is not UTF-8."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nTea is made of leaves.\n")
    (folder / "coffee.txt").write_text("Coffee is made of beans.")
    (folder / "old.txt").write_bytes("Ein Café.".encode("cp1252"))
    return folder


def held(index):
    found = PassageIndex.load(index)
    return {passage.text: passage.id for passage in found.passages(found.rows)}


def test_files_that_lack_the_same_extra_are_listed_once(capsys):
    reason = "this needs lxml"
    with reporting() as report:
        report.skipped += [Skipped(f"{n}.html", reason) for n in range(5)] + [Skipped("a.txt", "docs/a.txt is no text")]
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"  0.html, 1.html, 2.html and 2 more: {reason}",
        "  docs/a.txt is no text",
    ]


def test_sync_makes_an_index_and_keeps_it_in_step(run, docs, tmp_path):
    index = tmp_path / "index"
    code, out, err = run("index", "sync", index, docs)
    assert code == 0
    assert out.startswith("documents: 2 added, 0 changed, 0 removed: 2 passages")
    assert err.startswith("skipped 1 file that cannot be read\n")
    assert "old.txt, line 1 is not UTF-8" in err
    first = held(index)
    (docs / "tea.md").write_text("New above.\n\n# Tea\n\nTea is made of leaves.\n")
    (docs / "coffee.txt").unlink()
    (docs / "milk.txt").write_text("Milk.")
    code, out, _ = run("index", "sync", index, docs, "--dry-run")
    assert code == 0
    assert out.splitlines() == [
        "removed  coffee.txt (1 removed)",
        "added    milk.txt (1 added)",
        "changed  tea.md (1 added, 1 changed)",
        "documents: 1 added, 1 changed, 1 removed; nothing was changed",
    ]
    assert held(index) == first
    code, out, _ = run("index", "sync", index, docs, "--encoding", "cp1252", "--json")
    assert code == 0
    assert json.loads(out)["documents"] == {"added": 2, "changed": 1, "removed": 1}
    assert {text.splitlines()[-1] for text in held(index)} == {
        "New above.",
        "Tea is made of leaves.",
        "Milk.",
        "Ein Café.",
    }
    (tea,) = first.keys() & held(index).keys()
    assert (tea.endswith("leaves."), held(index)[tea]) == (True, first[tea])
    # the encoding is kept, as are the other options
    assert run("index", "sync", index, docs)[1].startswith("documents: 0 added, 0 changed, 0 removed: 4 passages")


def test_a_watched_folder_is_synced_after_each_change(run, docs, tmp_path, monkeypatch):
    index = tmp_path / "index"

    def changes(source, own):
        assert (source, own) == (docs, index)
        yield
        assert len(held(index)) == 2
        (docs / "milk.txt").write_text("Milk.")
        yield
        assert "Milk." in held(index)
        docs.joinpath("old.txt").unlink()
        yield  # nothing to do
        kept = {path: path.read_text() for path in docs.iterdir()}
        for path in kept:
            path.unlink()
        yield  # a sync never empties an index
        assert len(held(index)) == 3
        for path, text in kept.items():
            path.write_text(f"{text} Indeed.")
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr("semclass.cli.sync.changes", changes)
    code, out, err = run("index", "sync", index, docs, "--watch", "--json")
    assert [json.loads(line)["documents"] for line in out.splitlines()] == [
        {"added": 2, "changed": 0, "removed": 0}, {"added": 1, "changed": 0, "removed": 0},
        {"added": 0, "changed": 3, "removed": 0},
    ]  # fmt: skip
    assert (code, err.count("error: "), err.splitlines()[-1]) == (130, 1, "stopped")
    assert all(text.endswith("Indeed.") for text in held(index))


def test_a_watched_folder_that_goes_away_ends_the_watch(run, docs, tmp_path, monkeypatch):
    def changes(source, own):
        yield
        source.rename(tmp_path / "elsewhere")
        yield
        raise AssertionError

    monkeypatch.setattr("semclass.cli.sync.changes", changes)
    assert run("index", "sync", tmp_path / "index", docs, "--watch")[0] == 2
    assert len(held(tmp_path / "index")) == 2


def test_changes_of_hidden_files_and_of_the_index_do_not_count(tmp_path, monkeypatch):
    names = ["a.md", ".a.md.swp", ".git/b", "index/manifest.json", "below/c.md"]

    def watch(folder, *, watch_filter, **_):
        yield set()
        yield set()
        yield {name for name in names if watch_filter("added", str(folder / name))}
        yield set()

    seen = []
    monkeypatch.setitem(
        sys.modules, "watchfiles", SimpleNamespace(watch=lambda *a, **b: map(seen.append, watch(*a, **b)))
    )
    list(sync.changes(tmp_path, tmp_path / "index"))
    assert seen[2] == {"a.md", "below/c.md"}
    monkeypatch.setitem(sys.modules, "watchfiles", SimpleNamespace(watch=watch))
    assert len(list(sync.changes(tmp_path, tmp_path / "index"))) == 2, "at the start, and after the change"


def test_watching_needs_an_extra_and_no_dry_run(run, docs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    code, _, err = run("index", "sync", tmp_path / "index", docs, "--watch")
    assert (code, 'pip install "semclass[watch]"' in err) == (2, True)
    assert run("index", "sync", tmp_path / "index", docs, "--watch", "--dry-run")[0] == 2
    assert not (tmp_path / "index").exists()


def test_sync_takes_over_what_build_made_of_a_folder_and_nothing_else(run, docs, tmp_path):
    assert run("index", "build", docs, "--out", tmp_path / "index", "--cut", "window")[0] == 0
    assert set(held(tmp_path / "index").values()) == {"coffee.txt#1", "tea.md#1"}
    code, out, _ = run("index", "sync", tmp_path / "index", docs, "--dry-run", "--json")
    assert (code, json.loads(out.splitlines()[-1])["documents"]["changed"]) == (0, 2), "ids will be others"
    lines = tmp_path / "p.jsonl"
    lines.write_text('{"text": "Tea is made of leaves."}\n')
    assert run("index", "build", lines, "--out", tmp_path / "other")[0] == 0
    code, _, err = run("index", "sync", tmp_path / "other", docs)
    assert (code, "was not built from a folder" in err) == (2, True)
    code, _, err = run("index", "sync", tmp_path / "new", lines)
    assert (code, "is not a folder" in err) == (2, True)


def test_files_that_cannot_be_read_are_listed_or_stop_a_build(run, docs, tmp_path):
    code, out, err = run("index", "build", docs, "--out", tmp_path / "a", "--json")
    record = json.loads(out)
    assert (code, record["passages"], [one["document"] for one in record["skipped"]]) == (0, 2, ["old.txt"])
    assert "old.txt, line 1 is not UTF-8" in err
    code, out, err = run("index", "build", docs, "--out", tmp_path / "b", "--strict")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "old.txt, line 1 is not UTF-8" in err
    code, out, err = run("index", "build", docs, "--out", tmp_path / "c", "--encoding", "cp1252")
    assert (code, out[:9], err) == (0, "3 passage", "")


def test_rows_are_found_by_their_columns_and_named_columns_are_kept_by_sync(run, tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    made_tickets.as_csv(folder / "tickets.csv", made_tickets.made())
    named = ["--text-column", "subject", "--id-column", "date"]
    assert run("index", "build", folder, "--out", index, *named)[0] == 0
    assert "tickets.csv:2025-11-01" in held(index).values()
    code, out, _ = run("index", "sync", index, folder, "--json")
    assert (code, json.loads(out)["documents"]) == (0, {"added": 0, "changed": 0, "removed": 0}), "the same columns"
    where = ["--where", "date>=2026-01-01", "--where", "customer in (Acme, Lindt Ltd)", "--where", "customer=L*"]
    code, out, _ = run("search", index, "Whose font is missing?", *where, "--json")
    found = [hit["metadata"] for hit in json.loads(out)["hits"]]
    assert {one["customer"] for one in found} == {"Lindt Ltd"}
    assert min(one["date"] for one in found) >= "2026-01-01"
    assert "tickets.csv:2026-02-19" in run("search", index, "Which font is missing?", "-k", "1")[1]
    code, _, err = run("index", "build", folder / "tickets.csv", "--out", tmp_path / "other", "--text-column", "body")
    assert (code, "'body'" in err) == (2, True)


def test_a_table_is_re_ranked_and_classified(run, tmp_path):
    made_tickets.as_csv(tmp_path / "a.csv", made_tickets.made()[:3])
    code, out, _ = run("rerank", "Why are there stripes?", "--passages", tmp_path / "a.csv", "-k", "1", "--json")
    assert (code, json.loads(out)["hits"][0]["id"]) == (0, "a.csv:T-101")
    code, out, _ = run("classify", "passages", "--file", tmp_path / "a.csv", "--json")
    assert (code, json.loads(out.splitlines()[0])["_id"]) == (0, "a.csv:T-100")


def test_an_index_is_changed_looked_through_and_compacted(run, tmp_path):
    index, new = tmp_path / "index", tmp_path / "new.jsonl"
    assert run("index", "build", ROOT / "semclass" / "demo_data" / "corpus.jsonl", "--out", index)[0] == 0
    assert run("index", "info", index)[1].startswith("30 passages, ")
    new.write_text('{"_id": "new", "text": "A submarine is a boat that can dive.", "page": 7}\n')
    code, out, _ = run("index", "add", index, new, "--json")
    assert (code, json.loads(out)) == (0, {"index": str(index), "added": 1, "passages": 31, "segments": 2})
    code, _, err = run("index", "add", index, new)
    assert (code, "'new' is in the index already" in err) == (2, True)
    assert json.loads(run("index", "add", index, new, "--update", "--json")[1])["changed"] == 0
    (hit,) = json.loads(run("search", index, "What dives?", "--where", "page>=7", "--json")[1])["hits"]
    assert (hit["id"], hit["metadata"]) == ("new", {"page": 7})
    assert run("index", "delete", index, "lighthouse-1", "lighthouse-2")[1] == (
        "2 removed: 29 passages in 2 segments\n"
    )
    assert "2 segments, 2 removed passages still stored" in run("index", "info", index)[1]
    code, out, _ = run("index", "verify", index)
    assert (code, out) == (0, "29 passages in 2 segments: files, shapes, ids, statistics are right\n")
    assert run("index", "delete", index, "nobody")[0] == 2
    (tmp_path / "ids").write_text("nobody\n\nlighthouse-3\n")
    out = run("index", "delete", index, "--file", tmp_path / "ids", "--ignore-missing", "--json")[1]
    assert json.loads(out)["removed"] == 1
    assert json.loads(run("index", "delete", index, "--where", "page=7", "--json")[1])["passages"] == 27
    assert run("index", "compact", index)[1] == "27 passages in 1 segment\n"
    assert run("index", "delete", index)[0] == 2
    (records,) = index.glob("segment-*/records.npy")
    records.write_bytes(records.read_bytes()[:-1] + b" ")
    code, _, err = run("index", "verify", index)
    assert (code, "records.npy was changed" in err) == (2, True)


def test_an_index_is_replaced_only_on_request(run, docs, tmp_path):
    index = tmp_path / "index"
    assert run("index", "build", docs / "tea.md", "--out", index)[0] == 0
    code, out, err = run("index", "build", docs / "coffee.txt", "--out", index)
    assert (code, out, "holds an index of 1 passage already; give --replace" in err) == (2, "", True)
    assert run("index", "build", docs / "coffee.txt", "--out", index, "--replace")[0] == 0
    assert list(held(index)) == ["Coffee is made of beans."]


def test_passages_are_read_from_a_pipe(tmp_path):
    command = [sys.executable, "-m", "semclass", "index", "build", "-", "--out", str(tmp_path / "index")]
    text = '{"text": "Tea is made of leaves."}\n'
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, input=text)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("1 passage indexed")


FOOTER = "Report a bug in this page to the keepers of the lighthouse, by letter or in person."


def write_pages(folder, numbers, footer):
    folder.mkdir(exist_ok=True)
    for number in numbers:
        text = f"In the year {number} nobody saw the fog roll in, although the lamp of tower {number} burnt."
        (folder / f"{number}.md").write_text(f"# Year\n\n{text}\n\n{footer}\n")


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
    for number, footer in [(10, "Nothing else."), *((number, "") for number in range(11, 17))]:
        write_pages(folder, [number], footer)
        out = run("index", "sync", index, folder, "--json")[1]
        assert (json.loads(out)["documents"]["added"], has_footer(index)) == (1, False)
    (folder / "0.md").unlink()
    documents = json.loads(run("index", "sync", index, folder, "--json")[1])["documents"]
    assert documents["removed"] == 1, "nine files of sixteen are enough for what is left out already"
    assert not has_footer(index)
    write_pages(folder, range(100, 130), "")
    run("index", "sync", index, folder)
    assert has_footer(index), "nine files of 46 are too few"
    write_pages(folder, [130], FOOTER)
    run("index", "sync", index, folder)
    assert has_footer(index)
