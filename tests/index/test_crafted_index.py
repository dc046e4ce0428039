"""Indices that somebody made up, sizes and hashes right: refused by an error of ours, or searched, and nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semclass import ArtifactError, HybridRetriever, IndexWriter, InputError, Passage, PassageIndex
from semclass.scoring import reduction

QUESTION = "Who designed the lighthouse?"
BRACKETS = b"[" * 100_000
NUMBERS = (-1, 0, 1, 7, 255, 2**31, 2**62, 2**63 - 1, -(2**63))
KINDS = ("i1", "u1", "i8", "u8", "f4", "f8", "?", "<U3", "c8", ">i4")
VALUES = (None, True, -1, 2**70, 10**400, 1e999, float("nan"), "", "..", "\ud800", "segment-" + "0" * 16, [], {}, [[]])
HEADERS = (
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000000,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '|V0', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (-3,), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
    b"(" * 9_000,
    b"{'descr': [('a', '|u1')], 'fortran_order': True, 'shape': (3, 2), }",
    b"",
)


class Made(dict):
    """The bytes of each file of an index, by its path."""

    def __repr__(self):
        return "Made()"


@pytest.fixture(scope="module")
def made(models, corpus, tmp_path_factory):
    """An index of two segments, with reduced vectors, metadata and removed passages; and the files that are in it."""
    folder = tmp_path_factory.mktemp("crafted") / "index"
    passages = [
        Passage(
            one.id, one.text, {**one.metadata, "page": place % 7, "tags": ["a", "b"][: place % 3], "on": "2024-03-01"}
        )
        for place, one in enumerate(corpus)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "MANY", 20)
        patch.setattr(reduction, "CELL", 8)
        PassageIndex.build(passages[:24], passage_encoder=models.passage_encoder).save(folder)
    with IndexWriter.open(folder, passage_encoder=models.passage_encoder) as changed:
        changed.add(passages[24:])
        changed.delete([passages[3].id, passages[5].id])
    return Made(
        (path.relative_to(folder).as_posix(), path.read_bytes()) for path in folder.rglob("*") if path.is_file()
    )


def write(folder, files):
    """Write an index with these files, whose sizes and hashes the manifest then names."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        manifest = json.loads(files["manifest.json"])
        for entry in manifest["segments"]:
            signed = [(f"{entry['name']}/{name}", record) for name, record in entry["files"].items()]
            signed += [(entry["removed"]["name"], entry["removed"])] if entry.get("removed") else []
            for name, record in signed:
                record |= {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
        files = {**files, "manifest.json": json.dumps(manifest).encode()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # a manifest that is none is written as it is
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def search(folder, models):
    """Do with an index what reads all that it holds."""
    index = PassageIndex.load(folder)
    retriever = HybridRetriever(index, models)
    asked = (
        {},
        {"method": "match-soft", "fusion": "convex"},
        {"method": "default", "where": {"page": {"$gte": 2}}, "explain": True},
        {"method": "convex", "where": {"tags": {"$in": ["a"]}, "on": {"$lt": "2030-01-01"}}, "candidates": 30},
    )
    for options in asked:
        retriever.search(QUESTION, **options)
    index.passages(index.rows)
    index.by_ids(["lighthouse-3", "museum-2"])


def refused(folder, models):
    """Whether an index is refused; an error that is not ours fails the test."""
    try:
        search(folder, models)
    except ArtifactError:
        return True
    except InputError as error:
        if "the classes of the index" not in str(error):  # models of other classes may be at hand
            raise
        return True
    return False


def npy(values):
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def with_header(header, body):
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + body


def changed_array(data, rng):
    """Another array, or none."""
    try:
        values = np.load(io.BytesIO(data), allow_pickle=False)
    except ValueError:
        return data[::-1]
    ways = rng.randrange(7)
    if ways == 0:
        return npy(values[: rng.randrange(len(values) + 1)] if values.ndim else values[None])
    if ways == 1:
        return npy(np.concatenate([values, values]) if values.ndim else np.zeros((2, 2)))
    if ways == 2:
        return npy(values.astype(rng.choice(KINDS)))
    if ways == 3:
        return npy(values[None] if rng.random() < 0.5 else np.asfortranarray(np.stack([values, values])))
    if ways == 4:
        return with_header(rng.choice(HEADERS), data[128:])
    if ways == 5:
        return data[: rng.randrange(len(data))] if rng.random() < 0.5 else data + bytes(rng.randrange(1, 99))
    values = np.atleast_1d(values.copy())
    if values.size:
        with np.errstate(all="ignore"):
            number = (
                np.array(rng.choice(NUMBERS)) if rng.random() < 0.7 else np.array(rng.choice([np.nan, np.inf, 1e30]))
            )
            values.reshape(-1)[rng.randrange(values.size)] = number.astype(values.dtype)
    return npy(values)


def changed_bytes(data, rng):
    place = rng.randrange(len(data))
    return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]


def changed_json(data, rng):
    """The same with something else at one place."""
    if rng.random() < 0.05:
        return rng.choice([BRACKETS, b"{" * 100_000, b"\xff", b"null", b'{"a":' * 100_000])
    values = json.loads(data)
    place, key = values, rng.choice(list(values))
    while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    if rng.random() < 0.2 and isinstance(place, dict):
        del place[key]
    elif rng.random() < 0.2 and isinstance(place, list):
        place.append(place[key])
    elif isinstance(place[key], (int, float)) and rng.random() < 0.7:
        place[key] = rng.choice([place[key] + 1, place[key] - 1, *NUMBERS])
    else:
        place[key] = rng.choice(VALUES)
    return json.dumps(values).encode()


def changed(files, seed):
    """An index of which one file is another."""
    rng = random.Random(seed)
    name = rng.choice([name for name in sorted(files) if name != ".lock"])
    change = changed_json if name.endswith(".json") else changed_array if name.endswith(".npy") else changed_bytes
    if rng.random() < 0.1 and not name.endswith(".json"):
        change = changed_bytes
    return {**files, name: change(files[name], rng)}


def test_what_is_not_changed_is_searched(made, models, tmp_path):
    write(tmp_path / "index", made)
    assert not refused(tmp_path / "index", models)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_whatever_is_changed_is_refused_or_searched(made, models, tmp_path_factory, seed):
    folder = tmp_path_factory.getbasetemp() / "changed"
    write(folder, changed(made, seed))
    refused(folder, models)


@pytest.mark.parametrize("name", ["manifest.json", "columns.json", "records.npy"])
def test_a_hundred_thousand_brackets_are_no_index(made, models, tmp_path, name):
    (path,) = [path for path in made if path.endswith(name)][:1]
    data = npy(np.frombuffer(BRACKETS, np.uint8)) if name == "records.npy" else BRACKETS
    write(tmp_path / "index", {**made, path: data})
    assert refused(tmp_path / "index", models)
    if name == "manifest.json":
        with pytest.raises(ArtifactError, match=r"manifest.json is damaged"):
            PassageIndex.load(tmp_path / "index")


def test_a_record_of_brackets_is_no_passage(made, models, tmp_path):
    (values, *_), (offsets, *_) = (
        [path for path in made if path.endswith(name)] for name in ("records.npy", "record_offsets.npy")
    )
    first, second = np.load(io.BytesIO(made[offsets]))[:2].tolist()
    records = np.load(io.BytesIO(made[values]))
    lines = records.tobytes()
    deep = b"[" * (second - first - 1) + b"\n"
    write(tmp_path / "index", {**made, values: npy(np.frombuffer(deep + lines[second:], np.uint8))})
    index = PassageIndex.load(tmp_path / "index")
    with pytest.raises(ArtifactError, match="records of the segment"):
        index.passages(index.rows)


def test_a_segment_that_is_named_twice_is_refused(made, models, tmp_path):
    manifest = json.loads(made["manifest.json"])
    manifest["segments"].append(manifest["segments"][0])
    write(tmp_path / "index", {**made, "manifest.json": json.dumps(manifest).encode()})
    with pytest.raises(ArtifactError, match="twice"):
        PassageIndex.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("record_offsets", lambda values: np.concatenate([values[:-1], values[-1:] + 10**9])),
        ("record_offsets", lambda values: np.concatenate([values[:1], values[2:1:-1], values[2:]])),
        ("token_offsets", lambda values: values - 5),
        ("bm25/passages", lambda values: values.astype(np.int64)),
        ("bm25/lengths", lambda values: values.astype(np.uint64) + 2**60),
        ("pooled", lambda values: values[:, :7].copy()),
        ("probabilities", lambda values: values * np.float32("nan")),
        ("reduced/starts", lambda values: values[::-1].copy()),
        ("id_rows", lambda values: values + 100),
    ],
)
def test_numbers_that_lead_beyond_an_array_are_refused(made, models, tmp_path, name, change):
    (path, *_) = [path for path in made if path.endswith(f"/{name}.npy")]
    write(tmp_path / "index", {**made, path: npy(change(np.load(io.BytesIO(made[path]))))})
    assert refused(tmp_path / "index", models)


def test_a_file_that_the_manifest_does_not_name_is_not_read(made, models, tmp_path):
    write(tmp_path / "index", made)
    (lean,) = [path for path in (tmp_path / "index").glob("segment-*") if not (path / "reduced").exists()]
    (lean / "reduced").mkdir()
    (lean / "reduced" / "axes.npy").write_bytes(b"nothing")
    assert not refused(tmp_path / "index", models)
