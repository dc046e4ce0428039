"""Crafted indices, whose sizes and hashes are right: refused by an error of ours, or searched, and nothing else."""

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

from semclass import ArtifactError, HybridRetriever, Passage, PassageIndex, change_index
from semclass.scoring import approximation

BRACKETS = b"[" * 100_000
NUMBERS = (-1, 0, 1, 7, 255, 2**31, 2**62, 2**63 - 1, -(2**63))
KINDS = ("i1", "u1", "i8", "u8", "f4", "f8", "?", "<U3", "c8", ">i4")
VALUES = (None, True, -1, 2**70, 10**400, 1e999, float("nan"), "", "..", "\ud800", "segment-" + "0" * 16, [], {}, [[]])
HEADERS = (
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000000,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    b"{'descr': '|u1', 'fortran_order': False, 'shape': (-3,), }",
    b"(" * 9_000,
    b"{'descr': [('a', '|u1')], 'fortran_order': True, 'shape': (3, 2), }",
)


class Files(dict):
    """The bytes of each file of an index, by its path."""

    def __repr__(self):
        return "Files()"


@pytest.fixture(scope="module")
def files(models, corpus, tmp_path_factory):
    """An index of two segments, with reduced vectors, metadata and deleted passages."""
    folder = tmp_path_factory.mktemp("crafted") / "index"
    long = Passage("long", " ".join(passage.text for passage in corpus))  # of several excerpts
    passages = [
        Passage(one.id, one.text, {"page": place % 7, "tags": ["a", "b"][: place % 3], "on": "2024-03-01"})
        for place, one in enumerate([long, *corpus])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(approximation, "REDUCED_FROM", 20)
        patch.setattr(approximation, "CLUSTER_SIZE", 8)
        PassageIndex.build(passages[:24], passage_encoder=models.passage_encoder).save(folder)
    deleted = [corpus[3].id, corpus[5].id]
    change_index(folder, add=passages[24:], delete=deleted, passage_encoder=models.passage_encoder)
    return Files(
        (path.relative_to(folder).as_posix(), path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    )


def write(folder, files):
    """Write an index of these files, with their sizes and hashes in the manifest."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        manifest = json.loads(files["manifest.json"])
        for entry in manifest["segments"]:
            signed = [(f"{entry['name']}/{name}", record) for name, record in entry["files"].items()]
            for name, record in signed:
                record |= {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
        files = {**files, "manifest.json": json.dumps(manifest).encode()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # a manifest that is none is written as it is
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def refused(folder, models):
    """Read all that an index holds; whether it is refused. An error that is not ours fails the test."""
    try:
        index = PassageIndex.load(folder)
        retriever = HybridRetriever(index, models)
        for options in (
            {},
            {"method": "class-integrated"},
            {"where": {"page": {"$gte": 2}}, "explain": True},
            {"method": "convex", "where": {"tags": {"$in": ["a"]}, "on": {"$lt": "2030-01-01"}}, "candidates": 30},
        ):
            retriever.search("Who designed the lighthouse?", **options)
        index.passages(index.rows)
        index.passages(index.find(["lighthouse-3", "museum-2"]))
    except ArtifactError:
        return True
    return False


def npy(values):
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def with_another_value(values, rng):
    values = np.atleast_1d(values.copy())
    if values.size:
        with np.errstate(all="ignore"):
            value = np.array(rng.choice([*NUMBERS, np.nan, np.inf, 1e30])).astype(values.dtype)
        values.reshape(-1)[rng.randrange(values.size)] = value
    return values


def with_another_header(data, rng):
    header = rng.choice(HEADERS)
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + data[128:]


def changed_bytes(data, rng):
    place = rng.randrange(len(data))
    changed = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    return rng.choice([changed, data[:place], data + bytes(place + 1)])


def changed_array(data, rng):
    if rng.random() < 0.3:
        return rng.choice([with_another_header, changed_bytes])(data, rng)
    values = np.load(io.BytesIO(data), allow_pickle=False)
    change = rng.choice(
        [
            lambda: values[: rng.randrange(len(values) + 1)] if values.ndim else values[None],
            lambda: np.concatenate([values, values]) if values.ndim else np.zeros((2, 2)),
            lambda: values.astype(rng.choice(KINDS)),
            lambda: values[None],
            lambda: np.asfortranarray(np.stack([values, values])),
            lambda: with_another_value(values, rng),
            lambda: with_another_value(values, rng),
        ]
    )
    return npy(change())


def changed_json(data, rng):
    """The same with another value at one place, or without it."""
    if rng.random() < 0.05:
        return rng.choice([BRACKETS, b"{" * 100_000, b"\xff", b"null", b'{"a":' * 100_000])
    values = json.loads(data)
    place, key = values, rng.choice(list(values))
    while isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.8:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    if rng.random() < 0.2:
        del place[key]
    elif isinstance(place[key], (int, float)) and rng.random() < 0.7:
        place[key] = rng.choice([place[key] + 1, place[key] - 1, *NUMBERS])
    else:
        place[key] = rng.choice(VALUES)
    return json.dumps(values).encode()


def test_an_unchanged_index_is_searched(files, models, tmp_path):
    write(tmp_path, files)
    (lean,) = [path for path in tmp_path.glob("segment-*") if not (path / "reduced").exists()]
    (lean / "reduced").mkdir()
    (lean / "reduced" / "axes.npy").write_bytes(b"nothing")  # the manifest does not name it
    assert not refused(tmp_path, models)


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_a_changed_index_is_refused_or_searched(files, models, tmp_path_factory, seed):
    rng = random.Random(seed)
    name = rng.choice(sorted(files))
    change = {"json": changed_json, "npy": changed_array}.get(name.rpartition(".")[2], changed_bytes)
    folder = tmp_path_factory.getbasetemp() / "changed"
    write(folder, {**files, name: change(files[name], rng)})
    refused(folder, models)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("record_offsets", lambda values: np.concatenate([values[:-1], values[-1:] + 10**9])),
        ("piece_offsets", lambda values: values - 5),
        ("pieces", lambda values: values.astype(np.uint64)),
        ("bm25/passages", lambda values: values.astype(np.int64)),
        ("bm25/lengths", lambda values: values.astype(np.uint64) + 2**60),
        ("excerpts", lambda values: values[:, :7].copy()),
        ("probabilities", lambda values: values * np.float32("nan")),
        ("reduced/starts", lambda values: values[::-1].copy()),
    ],
)
def test_numbers_beyond_an_array_are_refused(files, models, tmp_path, name, change):
    (path, *_) = [path for path in files if path.endswith(f"/{name}.npy")]
    write(tmp_path, {**files, path: npy(change(np.load(io.BytesIO(files[path]))))})
    assert refused(tmp_path, models)
