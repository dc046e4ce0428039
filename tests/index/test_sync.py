from __future__ import annotations

import random
from collections import Counter

import pytest
from test_change import assert_ranks_as_rebuilt
from world import FAKE, WORDS, Counting, passage_encoder_of

from semclass import InputError, Passage, PassageIndex
from semclass.documents.chunking import named_by_content
from semclass.documents.readers import iter_passages
from semclass.index.folder import describe
from semclass.index.verify import verify
from semclass.index.writer import find_changes, sync_index

pytestmark = pytest.mark.usefixtures("no_packages")

YEARS = "two years from the day that you bought it"
BOAT, LAKE = "the red boat has two masts and one sail", "the green lake has three bridges and one tower"


def held(index):
    """The passages of an index by their ids."""
    found = PassageIndex.load(index)
    return {passage.id: passage for passage in found.passages(found.rows)}


def sync(index, folder):
    """The changes, and the texts that were encoded."""
    encoder = Counting()
    return sync_index(index, iter_passages(folder), passage_encoder=passage_encoder_of(encoder), workers=1), Counter(
        encoder.seen
    )


def text_of(rng):
    """A paragraph that is long enough to be a passage by itself."""
    return " ".join(rng.choices(WORDS, k=rng.randint(8, 12)))


def edited(rng, documents):
    """Change documents, lists of paragraphs by name, in one of five ways."""
    name = rng.choice(sorted(documents))
    paragraphs = documents[name]
    place = rng.randrange(len(paragraphs))
    match rng.randrange(6):
        case 0:
            paragraphs[place] = text_of(rng)
        case 1:
            paragraphs.insert(place, text_of(rng))
        case 2 if len(paragraphs) > 1:
            del paragraphs[place]
        case 3:
            documents[f"{rng.randrange(100)}.md"] = documents.pop(name)
        case 4 if len(documents) > 2:
            del documents[name]
        case _:
            documents[f"{rng.randrange(100)}.txt"] = [text_of(rng), text_of(rng)]


def write(folder, documents):
    for path in folder.iterdir():
        path.unlink()
    for name, paragraphs in documents.items():
        (folder / name).write_text("\n\n".join(paragraphs))


def test_edits_are_followed_and_only_new_texts_are_encoded(tmp_path):
    rng, folder, index = random.Random(17), tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    documents = {f"{number}.txt": [text_of(rng) for _ in range(4)] for number in range(5)}
    write(folder, documents)
    sync(index, folder)
    for _ in range(40):
        before = held(index)
        edited(rng, documents)
        write(folder, documents)
        planned = find_changes(PassageIndex.load(index), iter_passages(folder))
        changes, encoded = sync(index, folder)
        assert changes == planned
        fresh = {passage.id: passage for passage in named_by_content(iter_passages(folder))}
        assert held(index) == fresh, "what is there is what a fresh index holds, ids and places included"
        known = Counter(passage.text for passage in before.values())
        assert not encoded.keys() & known.keys(), "texts that were there are not read again"
        assert sum(change.added - change.removed for change in changes) == len(fresh) - len(before)
    verify(index)
    assert_ranks_as_rebuilt(PassageIndex.load(index))


def test_ids_stay_when_something_is_inserted_above(tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    text = f"# Boiler\n\n{YEARS}\n\n# Pump\n\n{YEARS}\n\n# Boat\n\n{BOAT}\n\n# Lake\n\n{BOAT}\n"
    (folder / "a.md").write_text(text)
    sync(index, folder)
    first = held(index)
    assert len(first) == 4
    (folder / "a.md").write_text(f"{LAKE}\n\n{text}")
    changes, encoded = sync(index, folder)
    assert [(change.kind, change.added, change.changed, change.removed) for change in changes] == [("changed", 1, 4, 0)]
    assert encoded.keys() == {LAKE}
    assert first.keys() < held(index).keys()
    assert {held(index)[name].metadata["start"] - first[name].metadata["start"] for name in first} == {len(LAKE) + 2}


def test_texts_of_a_renamed_file_are_not_encoded_again(tmp_path):
    folder, index = tmp_path / "docs", tmp_path / "index"
    folder.mkdir()
    (folder / "a.txt").write_text(f"{BOAT}\n\n{LAKE}")
    sync(index, folder)
    (folder / "a.txt").rename(folder / "b.txt")
    (folder / "c.txt").write_text(LAKE)  # a copy
    changes, encoded = sync(index, folder)
    assert [(change.document, change.kind) for change in changes] == [
        ("a.txt", "removed"), ("b.txt", "added"), ("c.txt", "added")
    ]  # fmt: skip
    assert not encoded
    assert_ranks_as_rebuilt(PassageIndex.load(index))
    written = (index / "manifest.json").stat()
    assert sync(index, folder) == ([], Counter())
    assert (index / "manifest.json").stat() == written, "nothing differs, nothing is written"


def test_a_sync_that_fails_changes_nothing(tmp_path):
    sync_index(tmp_path, [Passage("a", "red boat"), Passage("b", "green lake")], passage_encoder=FAKE)
    unsaved = Passage("c", "x", {"n": float("nan")})
    for bad in ([], [Passage("a", "blue hill"), unsaved], [Passage("a", "x"), Passage("a", "x")]):
        with pytest.raises(InputError):
            sync_index(tmp_path, bad, passage_encoder=FAKE)
        assert {name: passage.text for name, passage in held(tmp_path).items()} == {"a": "red boat", "b": "green lake"}


def test_a_sync_that_is_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr("semclass.index.writer.COMMIT_SECONDS", 0)
    monkeypatch.setattr("semclass.index.passage_encoder.CHUNK_PASSAGES", 2)
    old = [Passage(f"old-{number}", f"red boat {number}") for number in range(3)]
    new = [Passage("old-0", "blue hill"), *(Passage(f"new-{number}", f"green lake {number}") for number in range(6))]
    sync_index(tmp_path, old, passage_encoder=FAKE)
    read = Counting()

    def interrupted(done):
        if len(read.seen) >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sync_index(tmp_path, new, passage_encoder=passage_encoder_of(read), workers=1, progress=interrupted)
    assert len(read.seen) == 4
    assert {"old-0", "old-1", "old-2", "new-0"} <= held(tmp_path).keys(), "nothing is removed before the end"
    again = Counting()
    sync_index(tmp_path, new, passage_encoder=passage_encoder_of(again), workers=1)
    assert not set(again.seen) & set(read.seen)
    assert {name: passage.text for name, passage in held(tmp_path).items()} == {one.id: one.text for one in new}
    verify(tmp_path)
    assert_ranks_as_rebuilt(PassageIndex.load(tmp_path))


def test_an_index_keeps_how_its_documents_were_cut(tmp_path):
    sentences, windows = {"by": "sentence"}, {"by": "window", "size": 50}
    for name, cutting, kept in (("a", sentences, sentences), ("a", windows, windows), ("b", None, windows)):
        sync_index(tmp_path, [Passage(name, "red boat")], cutting=cutting, passage_encoder=FAKE)
        assert describe(tmp_path)["cutting"] == kept
