from __future__ import annotations

import json
import subprocess
import sys

import made_tickets
import pytest
from world import ROOT

from semclass import PassageIndex
from semclass.evaluation.dataset import judged_dataset

pytestmark = pytest.mark.usefixtures("no_packages")


@pytest.fixture
def docs(tmp_path):
    """A folder of documents, one of which is not UTF-8."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nTea is made of leaves.\n")
    (folder / "coffee.txt").write_text("Coffee is made of beans.")
    (folder / "old.txt").write_bytes("Ein Café.".encode("cp1252"))
    return folder


def held(index, name="text"):
    found = PassageIndex.load(index)
    return {getattr(passage, name): passage.id for passage in found.passages(found.rows)}


def test_judgements_survive_build_sync_edit_and_rename(run, tmp_path):
    docs, index, judged = tmp_path / "docs", tmp_path / "index", tmp_path / "judged.jsonl"
    docs.mkdir()
    (docs / "tea.md").write_text("# Tea\n\nTea is made of leaves.\n")
    (docs / "coffee.txt").write_text("Coffee is made of beans.")
    run("index", "build", docs, "--out", index)
    first = held(index)
    lines = [{"question": text, "passage": name, "right": True} for text, name in first.items()]
    judged.write_text("\n".join(map(json.dumps, lines)))
    assert run("index", "sync", index, docs)[1].startswith("documents: 0 added, 0 changed, 0 removed")
    assert held(index) == first
    (docs / "tea.md").write_text("New above.\n\n# Tea\n\nTea is made of leaves.\n")
    run("index", "sync", index, docs)
    now = held(index)
    assert judged_dataset(judged).relevance == {text: {now[text]: 1} for text in first}
    (docs / "tea.md").rename(docs / "drinks.md")
    run("index", "sync", index, docs)
    moved = held(index)
    assert all(moved[text] != now[text] or text.startswith("Coffee") for text in first)
    assert judged_dataset(judged, PassageIndex.load(index)).relevance == {text: {moved[text]: 1} for text in first}


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
    texts = {text.splitlines()[-1] for text in held(index)}
    assert texts == {"New above.", "Tea is made of leaves.", "Milk.", "Ein Café."}
    (tea,) = first.keys() & held(index).keys()
    assert (tea.endswith("leaves."), held(index)[tea]) == (True, first[tea])
    # the encoding is kept, as are the other options
    assert run("index", "sync", index, docs)[1].startswith("documents: 0 added, 0 changed, 0 removed: 4 passages")


def test_sync_takes_over_what_build_made_of_a_folder(run, docs, tmp_path):
    assert run("index", "build", docs, "--out", tmp_path / "index", "--cut", "window")[0] == 0
    assert {one.partition("#")[0] for one in held(tmp_path / "index").values()} == {"coffee.txt", "tea.md"}
    code, out, _ = run("index", "sync", tmp_path / "index", docs, "--dry-run", "--json")
    assert (code, json.loads(out.splitlines()[-1])["documents"]["changed"]) == (0, 0)
    lines = tmp_path / "p.jsonl"
    lines.write_text('{"text": "Tea is made of leaves."}\n')
    assert run("index", "build", lines, "--out", tmp_path / "other")[0] == 0
    code, _, err = run("index", "sync", tmp_path / "other", docs)
    assert (code, "was not built from a folder" in err) == (2, True)
    code, _, err = run("index", "sync", tmp_path / "new", lines)
    assert (code, "is not a folder" in err) == (2, True)


def test_a_sync_that_removes_most_documents_asks(run, docs, tmp_path):
    index = tmp_path / "index"
    for name in ("oats", "rye", "barley", "wheat"):
        (docs / f"{name}.txt").write_text(f"The mill grinds {name} on three days of each week.")
    assert run("index", "sync", index, docs)[0] == 0
    before = set(held(index).values())
    other = tmp_path / "other"
    other.mkdir()
    (other / "corpus.jsonl").write_text('{"_id": "a", "text": "The mill was closed in the year of the flood."}\n')
    code, _, err = run("index", "sync", index, other)
    assert (code, "6 of 6 documents" in err, "--yes" in err) == (2, True, True)
    assert before <= set(held(index).values())
    assert run("index", "sync", index, other, "--yes")[0] == 0
    assert len(held(index)) == 1


def test_files_that_cannot_be_read_are_listed(run, docs, tmp_path):
    code, out, err = run("index", "build", docs, "--out", tmp_path / "a", "--json")
    record = json.loads(out)
    assert (code, record["passages"], [one["document"] for one in record["skipped"]]) == (0, 2, ["old.txt"])
    assert "old.txt, line 1 is not UTF-8" in err
    code, out, err = run("index", "build", docs, "--out", tmp_path / "c", "--encoding", "cp1252")
    assert (code, out[:9], err) == (0, "3 passage", "")


def test_copies_and_files_without_text_are_named(run, tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    texts = {"a.txt": "The pump leaks.", "b.txt": "The pump leaks.", "c.txt": "The valve leaks.", "d.txt": "\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)

    def synced(*options):
        code, _, err = run("index", "sync", index, folder, "--yes", *options)
        return sorted(name.partition("#")[0] for name in held(index, "id")), code or err

    code, _, err = run("index", "build", folder, "--out", index)
    assert (code, "b.txt: the text equals that of a.txt" in err, "d.txt: there is no text" in err) == (0, True, True)
    assert synced()[0] == ["a.txt", "c.txt"]
    (folder / "a.txt").write_text("The pump was mended.")
    assert synced()[0] == ["a.txt", "b.txt", "c.txt"]
    (folder / "a.txt").write_text("The pump leaks.")
    assert synced()[0] == ["a.txt", "c.txt"]
    (folder / "a.txt").unlink()
    documents, err = synced()
    assert (documents, "b.txt" in err, "d.txt" in err) == (["b.txt", "c.txt"], False, True)
    (folder / "e.txt").write_text("The pump leaks.")
    assert synced("--keep-copies")[0] == synced()[0] == ["b.txt", "c.txt", "e.txt"]
    code, _, err = run("index", "build", folder, "--out", tmp_path / "other", "--strict")
    assert (code, "d.txt: there is no text" in err) == (2, True)
    (folder / "d.txt").unlink()
    code, out, _ = run("index", "build", folder, "--out", tmp_path / "other", "--strict", "--json")
    assert (code, [one["document"] for one in json.loads(out)["copy"]]) == (0, ["e.txt"])


def test_named_columns_are_kept_by_sync(run, tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    made_tickets.as_csv(folder / "tickets.csv", made_tickets.made())
    named = ["--text-column", "subject", "--id-column", "date"]
    assert run("index", "build", folder, "--out", index, *named)[0] == 0
    assert "tickets.csv:2025-11-01" in held(index).values()
    code, out, _ = run("index", "sync", index, folder, "--json")
    assert (code, json.loads(out)["documents"]) == (0, {"added": 0, "changed": 0, "removed": 0}), "the same columns"


@pytest.mark.parametrize(
    "command", ["index build {0} --out {1}/new", "index sync {1}/new {0}", "index add {1}/there {0}"]
)
def test_a_folder_that_can_mostly_not_be_read_is_refused(run, tmp_path, command):
    (tmp_path / "p.jsonl").write_text('{"text": "Oil is made of seeds."}')
    run("index", "build", tmp_path / "p.jsonl", "--out", tmp_path / "there")
    (docs := tmp_path / "docs").mkdir()
    (docs / "tea.md").write_text("Tea is made of leaves.")
    for number in range(3):
        (docs / f"{number}.dat").write_bytes(b"PK")
        (docs / f"{number}.png").write_bytes(b"PNG")  # pictures do not count
    code, out, err = run(*command.format(docs, tmp_path).split())
    assert (code, out) == (2, "")
    assert err.startswith("skipped: 3 .dat files")
    assert "3 of 4 files" in err
    assert not (tmp_path / "new").exists()
    assert len(PassageIndex.load(tmp_path / "there")) == 1
    assert run(*command.format(docs, tmp_path).split(), "--partial")[0] == 0


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
    out = run("index", "delete", index, "lighthouse-1", "lighthouse-2")[1]
    assert out == "2 removed: 29 passages in 2 segments\n"
    assert "2 segments, 2 removed passages still stored" in run("index", "info", index)[1]
    code, out, _ = run("index", "verify", index)
    assert (code, out) == (0, "29 passages in 2 segments: files, shapes, ids, statistics are right\n")
    assert run("index", "delete", index, "nobody")[0] == 2
    assert "did you mean 'page'?" in run("index", "delete", index, "--where", "pag!=3")[2]
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


def test_passages_are_read_from_a_pipe(tmp_path):
    command = [sys.executable, "-m", "semclass", "index", "build", "-", "--out", str(tmp_path / "index")]
    text = '{"text": "Tea is made of leaves."}\n'
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, input=text)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("1 passage indexed")
