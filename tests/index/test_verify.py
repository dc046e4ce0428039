from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from world import FAKE, passages

from semclass import ArtifactError, PassageIndex, change_index
from semclass.core import artifacts
from semclass.index.verify import verify
from semclass.scoring import approximation


def write(folder, **options):
    """Write an index of two segments; a passage of the first was deleted."""
    PassageIndex.build(passages(*range(12)), passage_encoder=FAKE, **options).save(folder)
    change_index(folder, add=passages(20, 21), delete=["3"], passage_encoder=FAKE)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "index")


def sign(folder, path):
    """Write the size and hash of a changed file into the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    record = {"bytes": path.stat().st_size, "sha256": artifacts.sha256_of(path)}
    for entry in manifest["segments"]:
        if entry["name"] == path.parts[len(folder.parts)]:
            entry["files"][path.relative_to(folder / entry["name"]).as_posix()] = record
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_whole_index_is_verified(folder):
    done, checks = [], ["files", "shapes", "ids", "statistics"]
    assert verify(folder, progress=done.append) == {"passages": 13, "removed": 1, "segments": 2, "checks": checks}
    assert sum(done) == 14


def shorter(values):
    return values[:-1]


def first(value):
    def change(values):
        values = values.copy()
        values[0] = value
        return values

    return change


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("scales", shorter, "scales.npy: its last offset is not its length"),
        ("excerpt_offsets", shorter, "it holds 11 passages, not 12"),
        ("piece_offsets", shorter, "tokens.npy: it has 11 rows, not 12"),
        ("id_hashes", first(0), "passage '.*' would not be found by its id"),
        ("records", first(7), "cannot be read"),
        ("bm25/counts", first(9), "counts.npy: its sum must be"),
        ("bm25/passages", first(200), "it names row 200, but the segment has 12 rows"),
        (
            "bm25/lengths",
            lambda values: np.array([values[0] + 1, values[1] - 1, *values[2:]], values.dtype),
            "lengths.npy: it differs from the sum of the counts",
        ),
        ("bm25/terms", first(2**32 - 1), "terms.npy: its values must rise"),
        ("reduced/starts", shorter, "its values must rise from 0 to 12"),
        ("reduced/places", np.zeros_like, "it must name each excerpt once"),
    ],
)
def test_the_first_damage_is_named(tmp_path, monkeypatch, name, change, says):
    monkeypatch.setattr(approximation, "REDUCED_FROM", 12)
    monkeypatch.setattr(approximation, "CLUSTER_SIZE", 4)
    folder = write(tmp_path / "index", **({"small": True} if name.startswith("reduced") else {}))
    entry = json.loads((folder / "manifest.json").read_text())["segments"][0]["name"]
    path = folder / entry / f"{name}.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(ArtifactError, match=r"changed after it was written|bytes, not"):
        verify(folder)
    sign(folder, path)
    with pytest.raises(ArtifactError, match=says):
        verify(folder)


def test_two_passages_of_one_id_are_found(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    again = {**manifest["segments"][1], "name": "segment-0123456789abcdef"}
    shutil.copytree(folder / manifest["segments"][1]["name"], folder / again["name"])
    manifest["segments"].append(again)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"two passages have the id '2[01]'"):
        verify(folder)
