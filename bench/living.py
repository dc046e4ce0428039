"""An index that is built, changed and killed: rates, seconds, and whether it is whole afterwards.

A build is compared with the encoder alone on the same texts: on all that the form of index needs (``needed``: passages
and, where vectors of tokens are kept, their sentences), and on each passage once (``pooled``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench import readme, scale
from bench.steps import ROOT, Bench, StepError
from semclass import Passage, PassageIndex
from semclass.core import artifacts
from semclass.core.cpu import available_threads
from semclass.core.errors import MissingExtraError, import_extra
from semclass.documents.readers import read_corpus
from semclass.documents.sentences import split_sentences
from semclass.encoders.batching import CHUNK
from semclass.encoders.onnx_encoder import STATES
from semclass.index.build import build_index
from semclass.index.ingest import chunks, in_order
from semclass.index.passage_encoder import PassageEncoder, searchable
from semclass.index.verify import verify
from semclass.index.writer import IndexWriter, compact

BUILT = 2 * CHUNK  # passages of a build: a whole number of stretches for each of two processors
ROUNDS = 1  # rounds in which everything that is compared has its turn, every second one backwards
LARGE = 100_000  # passages of the made index that is changed and searched
ADDED, UPDATED, DELETED = 1_000, 100, 1_000  # passages of each change
FORMS = ("standard", "lean")
CRASHING = ROOT / "tests" / "crashing.py"  # kills writers
QUICK_STRIDE = 60  # in a quick run one operation in so many is the last


def run(bench: Bench) -> dict[str, Any]:
    """Steps of each kind; a quick run takes smaller ones."""
    few, data = bench.quick, str(bench.data)
    pool, _ = scale.sentences(bench)
    index, _ = scale.made(bench, scale.MIDDLE if few else LARGE, pool)
    arguments = {"data": data, "n": 24 if few else BUILT, "rounds": 1 if few else ROUNDS}
    builds = [
        bench.step(f"living/build/{workers}", "bench.living:builds", workers=workers, **arguments)
        for workers in (available_threads(),)
    ]
    part = 50 if few else 1
    numbers = {"add": ADDED // part, "update": UPDATED // part, "delete": DELETED // part}
    changed = bench.step("living/changes", "bench.living:changes", index=index, data=data, rounds=ROUNDS, **numbers)
    hashed = artifacts.sha256_of(CRASHING)
    killed = bench.step(
        "living/kills", "bench.living:kills", script=CRASHING, hashed=hashed, stride=QUICK_STRIDE if few else 1
    )
    rows = [row for found in builds for row in found["rows"]]
    best = {row["form"]: row for row in rows if row["workers"] == available_threads()}
    return {
        "what": {
            "built": "the first passages of squad4, from a file of JSON lines",
            "changed": f"a made index of {changed['passages']} passages, see bench/made_corpus.py; what is added is real",
            "threads": "a worker is a thread that reads stretches of passages; the encoder alone is given the same "
            "stretches by as many workers",
        },
        "builds": rows,
        "share_of_encoding": {form: row["share_of_needed"] for form, row in best.items()},
        "share_of_pooled": {form: row["share_of_pooled"] for form, row in best.items()},
        "changes": changed["rows"],
        "add_over_encoding": changed["add_over_encoding"],
        "kills": killed,
    }


# -- building ---------------------------------------------------------------------------------------------------------


def real(data: str, n: int) -> Iterator[Passage]:
    """The first n passages of squad4, as a stream from the disk."""
    return islice(read_corpus(Path(data) / "beir" / "squad4" / "corpus.jsonl"), n)


def encoding(passage_encoder: PassageEncoder, form: str) -> Callable[[Sequence[Passage]], None]:
    """Give a function that encodes what the passages of an index of this form are made of, and does no more."""
    views = (
        ("pooled",) if form == "pooled" else tuple(dict.fromkeys(("pooled", *passage_encoder.classifier.encoder_views)))
    )
    of_sentences = ("pooled", "tokens" if passage_encoder.token_encoder is None else STATES)

    def encode(passages: Sequence[Passage]) -> None:
        texts = [searchable(passage) for passage in passages]
        passage_encoder.encoder.encode(texts, views=views)
        if form not in ("pooled", "lean"):
            # each sentence once, and none that is a whole passage: it was read as that
            found = list(dict.fromkeys(s for text in texts for s in split_sentences(text) if s != text))
            for chunk in chunks(found):
                passage_encoder.encoder.encode(chunk, views=of_sentences)

    return encode


def encode_all(passage_encoder: PassageEncoder, form: str, passages: Sequence[Passage], workers: int) -> None:
    """Encode passages by so many workers, in the stretches of a build."""
    for _ in in_order(encoding(passage_encoder, form), chunks(passages), workers):
        pass


def by_turns(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Mean seconds of each job; every other round goes backwards, so that a slow moment of the machine meets all."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds):
        for name in list(jobs)[:: -1 if turn % 2 else 1]:
            started = time.perf_counter()
            jobs[name]()
            seconds[name].append(time.perf_counter() - started)
    return {name: float(np.mean(values)) for name, values in seconds.items()}


def builds(data: str, n: int, rounds: int, workers: int) -> dict[str, Any]:
    """Builds of each form against the encoder alone."""
    passage_encoder, passages = PassageEncoder.load(), list(real(data, n))
    passage_encoder.read([passage.text for passage in passages[:8]])
    with tempfile.TemporaryDirectory() as place:

        def build_one(form: str) -> None:
            folder = Path(place) / form
            build_index(folder, real(data, n), passage_encoder=passage_encoder, form=form, workers=workers)
            shutil.rmtree(folder)

        jobs: dict[str, Callable[[], object]] = {}
        for form in FORMS:
            jobs[f"build {form}"] = lambda form=form: build_one(form)
            jobs[f"encode {form}"] = lambda form=form: encode_all(passage_encoder, form, passages, workers)
        jobs["pooled"] = lambda: encode_all(passage_encoder, "pooled", passages, workers)
        seconds = by_turns(jobs, rounds)
    rows = [
        {
            "form": form,
            "workers": workers,
            "passages": n,
            "rounds": rounds,
            "build_per_second": round(n / seconds[f"build {form}"], 1),
            "needed_per_second": round(n / seconds[f"encode {form}"], 1),
            "pooled_per_second": round(n / seconds["pooled"], 1),
            "share_of_needed": round(seconds[f"encode {form}"] / seconds[f"build {form}"], 3),
            "share_of_pooled": round(seconds["pooled"] / seconds[f"build {form}"], 3),
        }
        for form in FORMS
    ]
    return {"rows": rows}


# -- changing ---------------------------------------------------------------------------------------------------------


def linked(index: str, folder: Path) -> Path:
    """The same index in another folder: nothing is copied, and what is changed there does not change the other."""
    shutil.copytree(index, folder, copy_function=os.link)
    return folder


def changes(index: str, data: str, rounds: int, add: int, update: int, delete: int) -> dict[str, Any]:
    """Seconds of each change, committed and flushed to the disk."""
    passage_encoder, workers = PassageEncoder.load(), available_threads()
    new = [replace(passage, id=f"new {number}") for number, passage in enumerate(real(data, add))]
    passage_encoder.read([passage.text for passage in new[:8]])
    taken: dict[str, tuple[int, float]] = {}

    def take(name: str, count: int, job: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = job()
        taken[name] = (count, time.perf_counter() - started)
        return found

    with tempfile.TemporaryDirectory(dir=Path(index).parent) as place:
        folders = [linked(index, Path(place) / str(number)) for number in range(rounds)]
        left = iter(folders)
        seconds = by_turns(
            {
                "encode": lambda: encode_all(passage_encoder, "standard", new, workers),
                "add": lambda: _change(next(left), passage_encoder, lambda writer: writer.add(new)),
            },
            rounds,
        )
        folder = folders[-1]
        taken["encoding what is added, alone"] = (add, seconds["encode"])
        taken["add"] = (add, seconds["add"])
        before = PassageIndex.load(index, verify=False)
        # a reader that has the index open, as it was: in the folder of the last round it sees what was added
        opened = replace(before, source=replace(before.source, folder=folder))
        opened = take("refresh of a reader, after that", add, opened.refresh)
        take("first statistics of BM25, after that", len(opened), lambda: opened.statistics)
        others = [replace(passage, id=str(number)) for number, passage in enumerate(new[:update])]
        take("update of texts", update, lambda: _change(folder, passage_encoder, lambda writer: writer.update(others)))
        marked = [replace(passage, metadata={"seen": True}) for passage in others]
        take(
            "update of metadata", update, lambda: _change(folder, passage_encoder, lambda writer: writer.update(marked))
        )
        ids = [str(number) for number in range(update, update + delete)]
        take("delete", delete, lambda: _change(folder, None, lambda writer: writer.delete(ids)))
        opened = take("refresh of a reader, after all", delete, opened.refresh)
        take("verify", len(opened), lambda: verify(folder))
        take("compact", len(opened), lambda: compact(folder))
    rows = [{"what": name, "passages": count, "seconds": round(value, 3)} for name, (count, value) in taken.items()]
    ratio = round(seconds["add"] / seconds["encode"], 3)
    return {"passages": len(before), "workers": workers, "rows": rows, "add_over_encoding": ratio}


def _change(folder: Path, passage_encoder: PassageEncoder | None, job: Callable[[IndexWriter], object]) -> None:
    with IndexWriter.open(folder, passage_encoder=passage_encoder) as writer:
        job(writer)


def kills(script: str, hashed: str, stride: int) -> dict[str, Any]:
    """Kill writers as the tests do."""
    import_extra("pytest", "test")
    if not hasattr(os, "fork"):
        raise MissingExtraError("writers are killed in processes that are forked, which this system does not know")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run(
        [sys.executable, script, str(stride)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StepError(f"an index did not survive, or {script} ({hashed[:12]}) failed:\n{done.stderr[-4000:]}")
    found = json.loads(done.stdout)
    number = found["one by one"] + found["at random"]
    return {
        "kills": number,
        "survived": number,
        "before_an_operation_on_files": found["one by one"],
        "at_random_moments": found["at random"],
        "opened_while_it_was_changed": found["opened"],
    }


# -- telling ----------------------------------------------------------------------------------------------------------


def table(results: dict[str, Any]) -> str:
    """The README's tables: builds against the encoder alone, and changes."""
    builds = [
        (
            f"{row['form']}, {row['workers']} {'worker' if row['workers'] == 1 else 'workers'}",
            *(f"{row[f'{name}_per_second']:.1f}" for name in ("build", "needed", "pooled")),
            f"{100 * row['share_of_needed']:.0f} %",
        )
        for row in results["builds"]
    ]
    head = ("passages a second", "build", "encoding what it needs", "encoding each passage once", "build / needed")
    changes = [(row["what"], f"{row['passages']:,}", f"{row['seconds']:.2f} s") for row in results["changes"]]
    killed = results["kills"]
    if "skipped" not in killed:
        changes.append(("kills of a writer survived", f"{killed['survived']:,} of {killed['kills']:,}", "-"))
    return f"{readme.markdown(head, builds)}\n\n{readme.markdown(('change', 'passages', 'time'), changes)}"
