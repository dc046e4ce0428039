"""Kill processes that change an index: a program of its own, as threads and forks do not mix.

A child is killed before its first operation that changes files, another before the second, and so on to the last. In half
of the cases, what it did not flush to the disk is lost, too, as when the power fails: files are cut short, names vanish.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from world import FAKE, passages

from semclass import PassageIndex, build_index, change_index
from semclass.index import passage_encoder, writer
from semclass.index.folder import AREA
from semclass.index.verify import verify

OPERATIONS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"}


class Killer:
    """Counts operations, kills the process before one of them, and writes to a pipe what was renamed and flushed."""

    def __init__(self, at, pipe):
        self.at, self.pipe, self.count, self.lock = at, pipe, 0, threading.Lock()

    def report(self, *what):
        os.write(self.pipe, (json.dumps(what) + "\n").encode())

    def step(self):
        with self.lock:
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            self.count += 1

    def hook(self, event, arguments):
        if event == "open":
            _, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                self.step()
        elif event in OPERATIONS:
            self.step()
            if event == "os.rename":
                self.report("rename", str(arguments[0]), str(arguments[1]))

    def fsync(self, number):
        self.step()
        self.report("fsync", os.fstat(number).st_ino)


def killed(work, folder, at):
    """Work in a child that is killed before its operation `at`; what it reported, or None if it completed."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        killer = Killer(at, write)
        os.fsync = killer.fsync
        sys.addaudithook(killer.hook)
        code = 1
        try:
            work(folder)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as lines:
        reported = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "the work itself failed"
        return None
    return reported


def lose_power(folder, reported, old_manifest, inodes, rng):
    """Lose what was not flushed: new names in folders, content of new files."""
    flushed = {what[1] for what in reported if what[0] == "fsync"}
    for place, what in reversed(list(enumerate(reported))):
        if what[0] != "rename":
            continue
        source, target = Path(what[1]), Path(what[2])
        parent = target.parent
        later = {other[1] for other in reported[place:] if other[0] == "fsync"}
        if not parent.exists() or parent.stat().st_ino in later or not target.exists() or rng.random() < 0.5:
            continue
        if target.name == "manifest.json":
            target.write_bytes(old_manifest)
            flushed.add(target.stat().st_ino)
        elif source.parent.exists() and not source.exists():
            target.rename(source)
    for path in sorted(folder.rglob("*")):
        number = path.stat().st_ino
        if path.is_file() and path.name != ".lock" and number not in inodes and number not in flushed:
            os.truncate(path, int(rng.integers(0, path.stat().st_size + 1)))


def state(folder):
    index = PassageIndex.load(folder, verify=False)
    return {passage.id: passage.text for passage in index.passages(index.rows)}


def add_and_delete(folder):
    new = [*passages(20, 21), *passages(3, text="a {} hill")]
    change_index(folder, add=new, existing="replace", delete=["0", "12"], passage_encoder=FAKE)


def compact(folder):
    change_index(folder, compact=True)


def rebuild(folder):
    build_index(folder, passages(*range(40, 52)), passage_encoder=FAKE, workers=1, replace=True)


def save(folder):
    PassageIndex.build(passages(*range(60, 65)), passage_encoder=FAKE).save(folder)


def content(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return [(entry["name"], entry["kept"]) for entry in manifest["segments"]]


def one_by_one(root, rng, stride):
    """Kill before every operation of every kind of change, or before each `stride`-th; the number of kills."""
    base = root / "base"
    PassageIndex.build(passages(*range(10)), passage_encoder=FAKE).save(base)
    change_index(base, add=passages(10, 11, 12), passage_encoder=FAKE)
    change_index(base, delete=["4", "11"])
    old = state(base)
    kills = 0
    for work in (add_and_delete, compact, rebuild, save):
        whole = root / f"{work.__name__}-whole"
        shutil.copytree(base, whole)
        work(whole)
        new = state(whole)
        for at in range(int(rng.integers(stride)), 10_000, stride):
            folder = root / "work"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            inodes = {path.stat().st_ino for path in folder.rglob("*")}
            before = (folder / "manifest.json").read_bytes()
            reported = killed(work, folder, at)
            if reported is None:
                break
            kills += 1
            if rng.random() < 0.5:
                lose_power(folder, reported, before, inodes, rng)
            found = state(folder)
            assert found in (old, new), (work.__name__, at, found)
            verify(folder)
            if at % 4 and (found != new or work in (rebuild, save)):
                work(folder)
                assert content(folder) == content(whole), (work.__name__, at)
            else:
                change_index(folder, delete=[next(iter(found))])
            names = {path.name.partition("-")[0] for path in folder.iterdir() if path.name != AREA}
            assert names <= {"manifest.json", ".lock", "segment"}, names
    return kills


def at_random(root, rng, count):
    """Kill after a few commits, at any moment, while this process opens the index again and again; how often it did."""
    folder = root / "random"
    PassageIndex.build(passages(*range(10)), passage_encoder=FAKE).save(folder)
    few = {str(number) for number in range(10)}
    allowed = [few, few | {"20"}, few | {"20", "21"}]
    opened = 0
    for _ in range(count):
        child = os.fork()
        if not child:
            os.fsync = lambda number: None
            while True:
                change_index(folder, delete=["20", "21"], missing="ignore")
                for number in (20, 21):
                    change_index(folder, add=passages(number), passage_encoder=FAKE)
                change_index(folder, compact=True)
        # by the number of commits, as machines are of all speeds
        commits, last = int(rng.integers(5)), None
        while commits:
            assert set(state(folder)) in allowed
            opened, before, last = opened + 1, last, (folder / "manifest.json").stat().st_mtime_ns
            commits -= before not in (None, last)
        time.sleep(float(rng.uniform(0, 0.02)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert set(state(folder)) in allowed
        verify(folder)
    change_index(folder, add=passages(20, 21), existing="replace", passage_encoder=FAKE)
    assert set(state(folder)) == allowed[2]
    return opened


def main():
    writer.COMMIT_SECONDS, passage_encoder.CHUNK_PASSAGES, rng = 0, 5, np.random.default_rng(0)
    stride = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    memory = Path("/dev/shm")  # noqa: S108 - loss of power is simulated, so that memory will do
    gc.disable()
    os.fsync = lambda number: None  # children report what they flush; the disk need not do it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        kills = one_by_one(Path(root), rng, stride)
        random = 120 // (stride + 2)
        opened = at_random(Path(root), rng, random)
    sys.stdout.write(json.dumps({"one by one": kills, "at random": random, "opened": opened}))


if __name__ == "__main__":
    main()
